"""Fitting the weights of kernel and evidence to what was tried.

R = tries, V = views, u and m = distinct names of tries and of cases (of the first and of the second entity),
G = games, L = lists, that is the tries of one first entity in one game where some were right and some wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

RIDGE = 0.1
"""0.1 predicts best what is right in training games that were left out (of 0.01, 0.03, 0.1, 0.3, 1)."""
ITERATIONS = 60
CALIBRATION = (1.0, 0.0)
"""a and b before they are fitted."""


@dataclass(frozen=True)
class Weights:
    """Of S(g) = w0 cos + wC pair + w1 log(evidence + e^w2) and p(g) = sigmoid(a S + b); these before a fit."""

    w0: float = 2.0
    wC: float = 2.0  # noqa: N815 (the letter of the equation)
    w1: float = 1.0
    w2: float = -5.0
    a: float = CALIBRATION[0]
    b: float = CALIBRATION[1]


@dataclass(frozen=True)
class Tried:
    """What was tried, beside the cases.

    Attributes:
        first, second: [u, m, V] cosines of the distinct names of tries and cases.
        another: [u, m] bool, whether the first names are different ones; they may be alike in every view.
        rows: [R, 2] the number of each try's two names.
        cases: [M, 2] the same of each case.
        names, pair: [R] cosine of the try's two full names, and the value of the pair feature; 0 without.
        right: [R] bool.
        game, origin: [R] and [M] the number of the game of each try, and of that which a case comes from.
        groups: the tries of one first entity in one game.
    """

    first: Tensor
    second: Tensor
    another: Tensor
    rows: Tensor
    cases: Tensor
    names: Tensor
    pair: Tensor
    right: Tensor
    game: Tensor
    origin: Tensor
    groups: Sequence[Sequence[int]]

    @property
    def lists(self) -> list[Sequence[int]]:
        """The groups with something to learn."""
        right = self.right.tolist()
        return [group for group in self.groups if len({right[row] for row in group}) == 2]


@dataclass(frozen=True)
class Fit:
    """What was fitted: theta [V], the other weights, and what it says of the tries."""

    theta: Tensor
    weights: Weights
    figures: Mapping[str, float | None]


def fit(tried: Tried, theta: Tensor, weights: Weights) -> Fit:
    """By list-wise softmax over what was tried for one first entity in one game, with the cases of other games and
    other first entities alone: the weights are to hold for a thing that nobody has met. A ridge pulls towards the
    start `theta` [V] and `weights`. Then a and b by logistic loss.

    `wrong_tries` is the mean over first entity and game of how many wrong tries are ranked before the first right
    one (of equal ones every second), None where nothing was right.
    """
    evidence, views = Evidence(tried), len(theta)
    start = torch.cat([theta.detach(), theta.new_tensor([weights.w0, weights.wC, weights.w1, weights.w2])])
    ranks = Ranks(tried.lists, tried.right)
    found = minimised(start, lambda values: ranks.loss(evidence.scores(values)))
    found[:views].clamp_(min=0)
    scores = evidence.scores(found).detach()
    right = tried.right.double()
    a, b = minimised(
        theta.new_tensor(CALIBRATION),
        lambda at: functional.binary_cross_entropy_with_logits(at[0] * scores + at[1], right, reduction="sum"),
    ).tolist()
    w0, wc, w1, w2 = found[views:].tolist()
    w1 = max(w1, 0.0)
    fitted = replace(weights, w0=w0, wC=wc, w1=w1, w2=w2, a=a, b=b)
    counts = {"cases": float(len(tried.cases)), "tries": float(len(right)), "lists": float(len(tried.lists))}
    wrong = wrong_tries(scores.tolist(), tried.right.tolist(), tried.groups)
    return Fit(found[:views], fitted, {"wrong_tries": wrong, **asdict(fitted), **counts})


class Evidence:
    """S of each try as a function of the weights. Left out are cases of the same game or the same first name."""

    def __init__(self, tried: Tried) -> None:
        self._tried = tried
        self._views = tried.first.shape[2]
        self._others = _counts(tried)
        self._game = tried.game.unique(return_inverse=True)[1]  # type: ignore[no-untyped-call]

    def scores(self, values: Tensor) -> Tensor:
        """[R] of theta, w0, wC, w1 and w2 in one vector [V + 4]."""
        theta, (w0, wc, w1, w2) = values[:-4].clamp(min=0), values[-4:]
        w1 = w1.clamp(min=0)  # cases are never evidence against
        tried = self._tried
        evidence = self._totals(theta)
        scores: Tensor = w0 * tried.names + wc * tried.pair + w1 * (evidence + w2.exp()).log()
        return scores

    def _totals(self, theta: Tensor) -> Tensor:
        """[R]: for each try the sum of k over the cases of other games and other first names."""
        tried, (one, other) = self._tried, self._tried.rows.T
        first = ((tried.first - 1) @ theta[: self._views]).exp() * tried.another  # [u, m]
        second = ((tried.second - 1) @ theta[self._views :]).exp()
        spread = torch.sparse.mm(self._others, first.T)  # [G * m of second, u of first]
        spread = spread.reshape(-1, second.shape[1], len(first)).transpose(1, 2)
        totals: Tensor = (spread[self._game, one] * second[other]).sum(dim=1)
        return totals


def _counts(tried: Tried) -> Tensor:
    """[G * m of second, m of first], sparse: per game how many cases of others have both names."""
    games, width = tried.game.unique(), tried.second.shape[1]  # type: ignore[no-untyped-call]
    number, case = (tried.origin != games[:, None]).nonzero().T
    first, second = tried.cases[case].T
    places, ones = torch.stack([number * width + second, first]), torch.ones_like(case, dtype=torch.float64)
    sizes = (len(games) * width, tried.first.shape[1])
    counts: Tensor = torch.sparse_coo_tensor(places, ones, sizes, check_invariants=True).coalesce()
    return counts


class Ranks:
    """The list-wise softmax loss over lists of tries."""

    def __init__(self, lists: Sequence[Sequence[int]], right: Tensor) -> None:
        longest = max(map(len, lists))
        rows = [[*one, *[-1] * (longest - len(one))] for one in lists]
        self._rows = torch.tensor(rows, device=right.device)  # [L, longest]
        self._others = self._rows < 0
        self._wrong = self._others | ~right[self._rows]

    def loss(self, scores: Tensor) -> Tensor:
        """The sum over the lists of -log(share of the right tries in softmax of the scores [R])."""
        listed = scores[self._rows]
        shares = (listed.masked_fill(hidden, -torch.inf) for hidden in (self._others, self._wrong))
        everything, right = (torch.logsumexp(each, dim=1) for each in shares)
        return (everything - right).sum()


def minimised(start: Tensor, loss: Callable[[Tensor], Tensor]) -> Tensor:
    """Where the loss plus the ridge towards `start` is least, by L-BFGS; a constant."""
    found = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS([found], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        total = loss(found) + RIDGE * (found - start).square().sum()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return found.detach().clone()


def grouped(labels: Sequence[Hashable]) -> list[list[int]]:
    """The rows of each label, in the order in which they came."""
    groups: dict[Hashable, list[int]] = {}
    for row, label in enumerate(labels):
        groups.setdefault(label, []).append(row)
    return list(groups.values())


def numbered(vectors: Sequence[int], names: Sequence[str]) -> tuple[list[tuple[int, str]], list[int]]:
    """The distinct (vector, name), by the vectors' numbers, and which of them each row has: names that share all
    their views share a vector."""
    rows = list(zip(vectors, names, strict=True))
    found = sorted(dict.fromkeys(rows), key=lambda row: row[0])
    places = {row: place for place, row in enumerate(found)}
    return found, [places[row] for row in rows]


def wrong_tries(scores: Sequence[float], right: Sequence[bool], groups: Sequence[Sequence[int]]) -> float | None:
    """The mean over groups with a right try of the wrong ones that are ranked before it; equal ones count half."""
    before = []
    for group in groups:
        good = [scores[row] for row in group if right[row]]
        if good:
            wrong = [scores[row] for row in group if not right[row]]
            before.append(
                sum(score > max(good) for score in wrong) + sum(score == max(good) for score in wrong) / 2
            )
    return sum(before) / len(before) if before else None
