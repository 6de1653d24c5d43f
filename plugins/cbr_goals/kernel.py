"""How like two goals are: a kernel with a weight for each view of their names, and the index that computes it.

n = queries, m = rows of an index, V = views, w = columns of a view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from cbr_goals.config import KernelConfig
from cbr_goals.layout import Layout
from cbr_keys.checks import finite
from cbr_keys.cosine import on_grid, unit
from cbr_keys.fixed import FixedQuantizer
from cbr_keys.places import Places
from cbr_keys.rows import Rows
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build

SAME = 2.0**-23
"""Cosines that near to 1 are 1: the grid of `on_grid` tells no closer."""
START = 3.0
"""Sum of the weights of a name's views before they are fitted."""
AT_ONCE = 2**22
"""Similarities computed at a time."""


class Kernel(FixedQuantizer):
    """key(c) = c, and k(g, c) = exp(sum over the views v of theta_v (cos_v(g, c) - 1)), in (0, 1].

    The value of a pair feature, the last column of a context that has one, stays in the key and has no part in k.

    Attributes:
        layout: where the views stand.
        start: [V] float64, theta before it is fitted.
        theta: [V] float64, not negative.

    Raises:
        CbrError: contexts of this width do not hold these views.
    """

    def __init__(self, config: KernelConfig, build: Build) -> None:
        super().__init__()
        self.layout = _layout(config, build)
        self.device = build.device
        slots = [self.layout.first, self.layout.second]
        start = [START / len(views) for views in slots for _ in views]
        self.start = torch.tensor(start, dtype=torch.float64, device=build.device)
        self.theta = nn.Parameter(self.start.clone())

    def extra_repr(self) -> str:
        told = zip(self.layout.names, self.theta.tolist(), strict=True)
        return ", ".join(f"{name}={value:.3g}" for name, value in told)

    def keys(self, contexts: Tensor) -> Tensor:
        """The contexts [n, d] as constants."""
        return finite(contexts).detach().float()

    def similarity(self, contexts: Tensor, keys: Tensor) -> Tensor:
        """[n]: k of context i [n, d] and key i [n, d], a constant; gradients to contexts and theta."""
        return self.pair_similarity(contexts, keys.detach())

    def pair_similarity(self, left: Tensor, right: Tensor) -> Tensor:
        """[n]: k of contexts left_i and right_i [n, d]; gradients to both, and to theta."""
        one, other = self._split(finite(left)), self._split(finite(right))  # [n, V, w]
        cosines = near_one((on_grid(one) * on_grid(other)).sum(dim=-1))
        raw = (unit(one.double()) * unit(other.double())).sum(dim=-1)
        return self._k(cosines + (raw - raw.detach())).to(left.dtype)

    def matrix(self, left: Tensor, right: Tensor) -> Tensor:
        """[n, m] float64: k of each key [n, d] with each other one [m, d]; no gradient."""
        one, other = on_grid(self._split(left)), on_grid(self._split(right))
        return self._k(near_one(torch.einsum("nvw,mvw->nmv", one, other))).detach()

    def view_cosine(self, keys: Tensor, first: str, second: str) -> Tensor:
        """[n] float64: of two views of the same key [n, d], by their names."""
        one, other = (on_grid(keys[:, self.layout.views[name]]) for name in (first, second))
        return near_one((one * other).sum(dim=-1))

    def weights(self) -> Tensor:
        """[V] theta, not below 0."""
        return self.theta.clamp(min=0)

    @torch.no_grad()
    def set_weights(self, theta: Tensor) -> None:
        """Take these weights [V]."""
        self.theta.copy_(theta)

    def index(self) -> KernelIndex:
        """An empty index that follows theta."""
        return KernelIndex(self)

    def _k(self, cosines: Tensor) -> Tensor:
        """[..., V] -> [...]."""
        return ((cosines - 1) * self.weights()).sum(dim=-1).exp()

    def _split(self, contexts: Tensor) -> Tensor:
        """[n, d] -> [n, V, w]."""
        views = contexts[:, : self.layout.slots[1].stop]
        return views.reshape(len(contexts), len(self.layout.names), self.layout.width)


def _layout(config: KernelConfig, build: Build) -> Layout:
    if build.text_encoder is None:
        raise CbrError("kernel needs a text encoder", hint="add a `text_encoder` to the recipe")
    plain = Layout.of(config, build.text_encoder.dim, pair=False)
    if build.context_dim not in (plain.dim, plain.dim + 1):
        told = f"quantizer: contexts of the views {', '.join(plain.names)} have {plain.dim} columns (one more with"
        raise CbrError(
            f"{told} a pair feature), but those of the context encoder have {build.context_dim}",
            hint="use cbr_goals/names, and give the quantizer its `first` and `second`",
        )
    names = getattr(build.context_encoder, "layout", plain)
    if (names.first, names.second) != (plain.first, plain.second):
        views = [f"{slot}: [{', '.join(getattr(names, slot))}]" for slot in ("first", "second")]
        raise CbrError(
            f"quantizer: its views {', '.join(plain.names)} are not those of the context encoder",
            hint=f"write 'quantizer: {{use: cbr_goals/kernel, {', '.join(views)}}}'",
        )
    return Layout.of(config, build.text_encoder.dim, pair=build.context_dim > plain.dim)


def near_one(cosines: Tensor) -> Tensor:
    """Cosines as they are, but exactly 1 where they are as good as 1."""
    return torch.where(cosines > 1 - SAME, 1.0, cosines)


class KernelIndex:
    """Keys by row. Each distinct name is kept once, and per row the numbers of its two names: k of a query with
    all rows is a small product, two gathers and a product of what these give. Exact.

    Attributes:
        kernel: its weights are those of the moment of asking.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.layout, self.device = kernel.layout, kernel.device
        self.names = tuple(_Names(slot, self.layout.width, self.device) for slot in self.layout.slots)
        self._numbers = tuple(Rows(1, torch.int64, self.device) for _ in self.layout.slots)
        self._pair = Rows(int(self.layout.pair), torch.float32, self.device)
        self._places = Places()

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        first, second = map(len, self.names)
        return f"KernelIndex({len(self)} keys of {first} first and {second} second names)"

    def add(self, keys: Tensor) -> None:
        """Append keys [n, d]."""
        for names, numbers in zip(self.names, self._numbers, strict=True):
            numbers.add(names.add(keys)[:, None])
        self._pair.add(keys[:, self.layout.slots[1].stop :])
        self._places.add(len(keys))

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these rows, in this order."""
        places = self._places.of(rows)
        self._pair.keep(places)
        for names, numbers in zip(self.names, self._numbers, strict=True):
            used, numbered = torch.unique(numbers.all()[places, 0], return_inverse=True)
            names.keep(used.tolist())
            numbers.keep([])
            numbers.add(numbered[:, None])
        self._places.reset(len(places))

    def remove(self, row: int) -> None:
        """Forget one key; those behind it move up by one row."""
        self._places.remove(row)
        if self._places.crowded:
            self.keep(range(len(self)))

    def similarities(self, queries: Tensor) -> Tensor:
        """[n, m] float32: k of each query [n, d] with each row."""
        first, second = self.numbers()
        found = queries.new_empty(len(queries), len(self), dtype=torch.float32, device=self.device)
        for rows, (left, right) in self._factors(queries):
            found[rows] = (left[:, first] * right[:, second]).float()
        return found

    def total(self, queries: Tensor, among: Tensor | None = None) -> Tensor:
        """[n] float64: the sum over all rows, or those of `among` [r], of k with each query [n, d]."""
        first, second = (each if among is None else each[among] for each in self.numbers())
        found = torch.zeros(len(queries), dtype=torch.float64, device=self.device)
        for rows, (left, right) in self._factors(queries):
            found[rows] = (left[:, first] * right[:, second]).sum(dim=1)
        return found

    def numbers(self) -> tuple[Tensor, Tensor]:
        """[m] each: of the two names of each row, see `names`."""
        first, second = (numbers.all()[self._places.all(), 0] for numbers in self._numbers)
        return first, second

    def pair(self) -> Tensor:
        """[m, 1 or 0] float32: the value of the pair feature of each row."""
        return self._pair.all()[self._places.all()]

    def keys(self) -> Tensor:
        """All keys [m, d]."""
        told = zip(self.names, self.numbers(), strict=True)
        return torch.cat([*(names.vectors()[numbers] for names, numbers in told), self.pair()], dim=1)

    def key(self, row: int) -> Tensor:
        """[d]: one key."""
        place = self._places[row]
        told = zip(self.names, self._numbers, strict=True)
        parts = [names.vectors()[numbers.all()[place, 0]] for names, numbers in told]
        return torch.cat([*parts, self._pair.all()[place]])

    def tensors(self) -> Mapping[str, Tensor]:
        """Everything it holds, each name once."""
        (first, second), numbers = self.names, torch.stack(self.numbers(), dim=1)
        return {"first": first.vectors(), "second": second.vectors(), "numbers": numbers, "pair": self.pair()}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Replace everything by what `tensors` gave. RuntimeError, LookupError: they are of another index."""
        numbers = tensors["numbers"].T
        parts = [tensors[name][numbers[slot]] for slot, name in enumerate(("first", "second"))]
        keys = torch.cat([*parts, tensors["pair"]], dim=1)
        self.keep([])
        self.add(keys)

    def _factors(self, queries: Tensor) -> list[tuple[slice, tuple[Tensor, Tensor]]]:
        """Some queries at a time, and what each of the two names brings to their k: [n, distinct names]."""
        middle, weights = len(self.layout.first), self.kernel.weights().detach()
        first, second = (
            ((names.cosines(names.units_of(queries)) - 1) @ theta).exp()
            for names, theta in zip(self.names, (weights[:middle], weights[middle:]), strict=True)
        )
        size = max(1, AT_ONCE // max(1, len(self)))
        chunks = [slice(at, at + size) for at in range(0, len(queries), size)]
        return [(rows, (first[rows], second[rows])) for rows in chunks]


class _Names:
    """The distinct vectors of one of the two names, by number."""

    def __init__(self, columns: slice, width: int, device: str) -> None:
        self._columns, self._device = columns, device
        size = columns.stop - columns.start
        self._views = (size // width, width)
        self._vectors = Rows(size, torch.float32, device)
        self._units = Rows(size, torch.float64, device)
        self._known: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._vectors)

    def add(self, keys: Tensor) -> Tensor:
        """[n]: the numbers of the names in keys [n, d]; new ones get one."""
        vectors = keys[:, self._columns].detach().float().cpu().contiguous()
        numbers, fresh = list[int](), list[int]()
        for row, vector in enumerate(vectors.numpy()):
            number = self._known.setdefault(vector.tobytes(), len(self._known))
            if number == len(self) + len(fresh):
                fresh.append(row)
            numbers.append(number)
        self._vectors.add(vectors[fresh].to(self._device))
        self._units.add(self.units_of(keys[fresh]).flatten(1))
        return torch.tensor(numbers, dtype=torch.int64, device=self._device)

    def keep(self, numbers: Sequence[int]) -> None:
        """Keep only these, in this order."""
        self._vectors.keep(numbers)
        self._units.keep(numbers)
        self._known = {row.tobytes(): number for number, row in enumerate(self._vectors.all().cpu().numpy())}

    def vectors(self) -> Tensor:
        """[distinct, columns of the name]."""
        return self._vectors.all()

    def units(self) -> Tensor:
        """[distinct, V of the name, w] float64."""
        units = self._units.all()
        return units.reshape(len(units), *self._views)

    def units_of(self, keys: Tensor) -> Tensor:
        """[n, V of the name, w] float64: the unit vectors of its views in keys [n, d]."""
        return on_grid(keys[:, self._columns].to(self._device).reshape(len(keys), *self._views))

    def cosines(self, units: Tensor) -> Tensor:
        """[n, distinct, V of the name] float64: of unit vectors with all names here."""
        return near_one(torch.einsum("nvw,mvw->nmv", units, self.units()))
