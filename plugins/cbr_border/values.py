"""What the borders share: how a wrong value is refused, and what a right one is."""

from __future__ import annotations

import json
import logging
import math
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from numbers import Integral
from types import UnionType
from typing import TYPE_CHECKING, Any, NoReturn

from cbrcore.errors import CbrError, RunFailed
from cbrcore.types import StateGraph

if TYPE_CHECKING:
    from torch import Tensor

log = logging.getLogger(__name__)

TOLERANCE = 1e-4
"""How far beyond [0, 1] rounding may carry a similarity."""
HUGE = 1e12
"""Weights of this size are those of a part that diverged."""
OWN = (int, float, bool)
LONGEST = 100
"""Letters of a wrong value in a message."""


@dataclass(frozen=True)
class Kind:
    """What is asked of parts of a kind.

    Attributes:
        contract: the Protocol; abilities: further ones, of which a part may have methods.
        checks: method -> what looks at its result: gets the border, the result and the arguments, and gives the
            result as the caller gets it.
    """

    label: str
    contract: type
    checks: Mapping[str, Callable[..., Any]]
    abilities: tuple[type, ...] = ()


class Border:
    """Around one part, a component `name` ("plugin/name").

    Attributes:
        method, part: what is called now. What a part calls of itself meanwhile is its own business.
        memo: what a check remembers of earlier results.
    """

    def __init__(self, kind: Kind, name: str) -> None:
        self.kind, self.name = kind, name
        self.method = ""
        self.part: Any = None
        self.memo: Any = None

    def place(self) -> str:
        """Where the part is at work, for messages."""
        return ""

    def begin(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """A call begins; the arguments as the part gets them."""
        return arguments

    def refuse(self, came: str, expected: str) -> NoReturn:
        """RunFailed: the part gave something else than its contract says."""
        call = self.method if " " in self.method else f"{self.method}(...)"
        said = f"{self.kind.label} {self.name}: {call} gave {came}, expected {expected}{self.place()}"
        hint = f"mend the plugin {self.plugin!r}: see cbrcore.interfaces.{self.kind.contract.__name__}"
        raise RunFailed(said, hint=hint)

    @property
    def plugin(self) -> str:
        return self.name.partition("/")[0]

    def failure(self, doing: str, error: BaseException) -> RunFailed:
        """Of a part that raised; the log, if there is one, has the traceback."""
        what = f"{type(error).__name__}: {error}".removesuffix(": ")
        said = f"the {self.kind.label} {self.name} {doing}{self.place()}: {what}"
        if logging.getLogger().handlers:
            log.error("%s", said, exc_info=error)
        return RunFailed(said, hint=f"mend the plugin {self.plugin!r}")

    # -- what a check may ask for; each gives the value itself ---------------------------------------------------

    def a(self, kind: type | UnionType, value: Any, what: str) -> Any:
        """A value of this type."""
        return value if isinstance(value, kind) else self.refuse(short(value), what)

    def number(self, name: str, value: Any, *, or_none: bool = False) -> Any:
        """A finite number, as one of Python's own; True counts as 1."""
        if value is None and or_none:
            return None
        if isinstance(value, int | float) and abs(value) <= sys.float_info.max:
            return value if type(value) in OWN else float(value)  # numpy's make others of what they meet
        return self.refuse(f"{name} {short(value)}", "a finite int or float" + " or None" * or_none)

    def width(self, given: Any) -> Any:
        """A whole number above 0."""
        fits = isinstance(given, Integral) and not isinstance(given, bool) and int(given) > 0
        return given if fits else self.refuse(short(given), "a whole number above 0")

    def figures(self, given: Any) -> Any:
        """Names with finite numbers or None."""
        for name, value in self.a(Mapping, given, "a mapping of names to numbers").items():
            self.number(self.a(str, name, "text as a name"), value, or_none=True)
        return given if can_be_written("".join(given)) else cleaned(given)

    def facts(self, given: Any) -> Any:
        """What fits in JSON, as text that can be written."""
        try:
            text = json.dumps(dict(self.a(Mapping, given, "a mapping")), allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            self.refuse(short(given), f"what fits in JSON ({error})")
        return cleaned(given) if "\\ud" in text else given

    def shaped(self, given: Any, shape: tuple[int, ...]) -> Any:
        """A floating tensor of this shape."""
        import torch

        if not self.a(torch.Tensor, given, "a floating tensor").is_floating_point():
            self.refuse(f"{given.dtype}", "a floating tensor")
        return given if given.shape == shape else self.refuse(f"shape {tuple(given.shape)}", f"{shape}")

    def tensor(self, given: Any, shape: tuple[int, ...], *sources: Tensor) -> Any:
        """The same of a part with weights: finite, unless these or the `sources` are not."""
        if not finite(self.shaped(given, shape)) and all(map(finite, sources)):
            self._blame()
        return given

    def _blame(self) -> None:
        """RunFailed, but where weights that are not finite any more are trained: the learner skips that."""
        import torch

        if all(bool((weights.abs() < HUGE).all()) for weights in self.part.parameters()):
            self.refuse("values that are not finite", "finite ones")
        if not torch.is_grad_enabled():
            said = f"the {self.kind.label} {self.name} diverged: its weights are not finite any more"
            raise RunFailed(said, hint="lower the learning rates (training.*_learning_rate)")

    def unit(self, given: Any, shape: tuple[int, ...], *sources: Tensor) -> Any:
        """A tensor as above, with values in [0, 1]."""
        if self.tensor(given, shape, *sources).numel():
            low, high = (float(value) for value in given.detach().aminmax())
            if low < -TOLERANCE or high > 1 + TOLERANCE:
                self.refuse(f"{high if high > 1 else low:g}", "values in [0, 1]")
        return given


# -- failures --------------------------------------------------------------------------------------------------


@contextmanager
def failing(border: Border, doing: str) -> Iterator[None]:
    """What is raised unexpectedly is the failure of the part."""
    try:
        yield
    except BaseException as error:
        raised(border, doing, error)


def raised(border: Border, doing: str, error: BaseException, *let_through: type[Exception]) -> NoReturn:
    """The same of an error that is being handled. What already says what is wrong, or is Ctrl-C, stays itself."""
    if isinstance(error, (CbrError, *let_through)) or of_the_user(error):
        raise error
    raise border.failure(doing, error) from error


def of_the_user(error: BaseException) -> bool:
    """Whether this is Ctrl-C, and not a part that raised KeyboardInterrupt: Python's own handler raises it
    anywhere, that of `graceful_interrupt` in itself."""
    if not isinstance(error, KeyboardInterrupt):
        return False
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    by_ours = frames[-1].f_globals.get("__name__") == "cbrcore.console"
    return by_ours or signal.getsignal(signal.SIGINT) is signal.default_int_handler


# -- values ------------------------------------------------------------------------------------------------------


def finite(tensor: Tensor) -> bool:
    """Whether all values are; in one pass where they are."""
    values = tensor.detach()
    return math.isfinite(float(values.sum())) or bool(values.isfinite().all())


def can_be_written(text: str) -> bool:
    """Whether it is without half characters."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def cleaned(value: Any) -> Any:
    """The same with half characters as escapes, which keeps different ones apart; also within what holds texts."""
    if isinstance(value, str):
        return value if can_be_written(value) else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, StateGraph):
        return StateGraph.of(cleaned(value.triples), cleaned(value.nodes))
    if isinstance(value, Mapping):
        return {cleaned(key): cleaned(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return type(value)(map(cleaned, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: cleaned(getattr(value, field.name)) for field in fields(value)})
    return value


def short(value: Any) -> str:
    """What it is, in a few words that can be printed."""
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
