"""One border around every part of a recipe: what a part gives is checked once, where it enters.

`guarded` leaves a part the object that it is, with its tensors and abilities; its class becomes a subclass whose
methods look at what the author's methods give. A wrong value, and whatever a part raises or ends with, is a
`RunFailed` that names the part. What training may do to a sound part is told apart: values that are not
finite are blamed on a part only if its weights and what it was given are.
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import get_annotations
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, Protocol

from cbr_border.games import GAMES, GameBorder
from cbr_border.launchers import LAUNCHERS
from cbr_border.values import TOLERANCE, Border, Kind, can_be_written, failing, finite, raised, short
from cbr_keys.places import RemovesRows
from cbrcore import interfaces as contracts
from cbrcore.types import Action, Candidate, Case, Match, Observation

if TYPE_CHECKING:
    from torch import Tensor


# -- checks ------------------------------------------------------------------------------------------------------


def _encode(it: Border, rows: Any, texts: Sequence[str]) -> Tensor:
    vectors: Tensor = it.shaped(rows, (len(texts), it.part.dim))
    if not finite(vectors):
        text = texts[int((~vectors.isfinite()).any(dim=1).nonzero()[0])]
        it.refuse(f"values that are not finite for the text {short(text)}", "finite ones")
    return vectors


def _situation(it: Border, given: Any, *_: Any) -> Any:
    try:
        hash(given)
    except TypeError:
        it.refuse(short(given), "something hashable")
    return given


def _values(it: Border, found: Any, pairs: Sequence[tuple[str, str]]) -> Any:
    if not finite(it.shaped(found, (len(pairs),))):
        pair = pairs[int((~found.isfinite()).nonzero()[0])]
        it.refuse(f"a value that is not finite for {short(pair)}", "finite ones")
    return found


def _keys(it: Border, keys: Any, contexts: Tensor) -> Any:
    """[n, ...]: of whatever type, always of one width."""
    import torch

    shape = tuple(it.a(torch.Tensor, keys, "a tensor").shape)
    it.memo = it.memo or shape[1:]
    if shape != (len(contexts), *it.memo):
        it.refuse(f"shape {shape}", f"{(len(contexts), *it.memo)}")
    return it.tensor(keys, shape, contexts) if keys.is_floating_point() else keys


def _similarities(it: Border, found: Any, queries: Tensor) -> Any:
    if it.shaped(found, (len(queries), len(it.part))).numel():
        low, high = (float(value) for value in found.aminmax())  # NaN if there is one
        if not (low >= -TOLERANCE and high <= 1 + TOLERANCE):
            looked = found[found != -math.inf]
            wrong = looked[~((looked >= -TOLERANCE) & (looked <= 1 + TOLERANCE))]
            if len(wrong):
                it.refuse(f"{float(wrong[0]):g}", "values in [0, 1], or -inf where it did not look")
    return found


def _retrieve(it: Border, found: Any, keys: Tensor) -> Any:
    if len(it.a(list | tuple, found, "lists of matches")) != len(keys):
        it.refuse(f"{len(found)} lists", f"{len(keys)}")
    for match in chain.from_iterable(found):
        relevance = it.number("the relevance", it.a(Match, match, "a Match").relevance)
        if not it.part.threshold < relevance <= 1 + TOLERANCE:
            it.refuse(f"the relevance {relevance:g}", f"one above the threshold {it.part.threshold:g}, at most 1")
    return found


def _stores(it: Border, given: Any) -> Any:
    known = it.a(Mapping, given, "a mapping of names to stores")
    return given if "memory" in known else it.refuse(short(given), "'memory' as one of them")


def _select(it: Border, given: Any, buffer: Sequence[contracts.RetainItem], *_: Any) -> Any:
    known = {id(item) for item in buffer}
    for item in it.a(list | tuple, given, "a list of items"):
        if id(item) not in known:
            it.refuse(short(item), "items of the buffer")
    return given


def _policy(it: Border, outputs: Any, inputs: Sequence[contracts.AgentInput]) -> Any:
    if len(it.a(list | tuple, outputs, "a list of outputs")) != len(inputs):
        it.refuse(f"{len(outputs)} outputs", f"{len(inputs)}")
    for item, output in zip(inputs, outputs, strict=True):
        it.a(contracts.PolicyOutput, output, "a PolicyOutput")
        told = [] if item.relevance is None else [item.relevance]
        it.tensor(output.logits, (len(item.observation.admissible),), *told)
        it.tensor(output.value, (), *told)
    return outputs


def _offer(it: Border, given: Any, seen: Observation, *_: Any) -> Any:
    for candidate in it.a(tuple | list, given, "candidates"):
        it.a(Candidate, candidate, "a Candidate")
        executed = candidate.verdict in ("admissible", "pending")
        if executed and candidate.executed not in seen.admissible:
            it.refuse(short(candidate.executed), "an admissible action to execute")
    return given


def _revise(it: Border, given: Any, candidates: Sequence[Any], *_: Any) -> Any:
    if given is not None and not any(given is candidate for candidate in candidates):
        it.refuse(short(given), "one of the candidates, or None")
    return given


def _begun(it: Border, *_: Any) -> None:
    it.a(int, it.part.skipped, "a whole number as skipped")


def _reported(it: Border, given: Any) -> Any:
    it.a(int, it.part.skipped, "a whole number as skipped")
    return it.figures(given)


def _tensors(it: Border, given: Any, *_: Any) -> Any:
    import torch

    for name, value in it.a(Mapping, given, "a mapping of names to tensors").items():
        if not can_be_written(it.a(str, name, "text as a name")):
            it.refuse(short(name), "a name that can be written")
        if it.a(torch.Tensor, value, f"a tensor as {short(name)}").layout != torch.strided or value.is_meta:
            it.refuse(f"a tensor that cannot be saved as {short(name)}", "a dense one with values")
    return given


def _parameters(it: Border, given: Any, *_: Any) -> Any:
    """Of a part that learns: what an optimiser takes."""
    import torch

    parameters = list(it.a(Iterable, given, "parameters"))
    for each in parameters:
        if not it.a(torch.Tensor, each, "tensors").is_leaf:
            it.refuse("a tensor that was computed from others", "parameters")
    return iter(parameters)


class IndexBorder(Border):
    """Around the index that a quantizer makes, and in whose name it speaks: its rows are a memory's cases."""

    def begin(self, arguments: Sequence[Any]) -> Sequence[Any]:
        self.memo = len(self.part)
        return arguments

    def added(self, given: Any, keys: Tensor) -> Any:
        return self._has(len(self.part), self.memo + len(keys), given)

    def kept(self, given: Any, rows: Sequence[int]) -> Any:
        return self._has(len(self.part), len(rows), given)

    def removed(self, given: Any, *_: Any) -> Any:
        return self._has(len(self.part), self.memo - 1, given)

    def stored(self, keys: Any) -> Any:
        import torch

        return self._has(len(self.a(torch.Tensor, keys, "a tensor")), len(self.part), keys)

    def _has(self, rows: int, due: int, given: Any) -> Any:
        return given if rows == due else self.refuse(f"{rows} rows", f"{due}")


INDEX = Kind(
    "quantizer",
    contracts.KeyIndex,
    {
        "similarities": _similarities,
        "add": IndexBorder.added,
        "keep": IndexBorder.kept,
        "keys": IndexBorder.stored,
        "remove": IndexBorder.removed,
    },
    (RemovesRows,),
)
TRAINED: Mapping[str, Any] = {"state_dict": _tensors, "parameters": _parameters}
"""What is asked of a part with weights besides. torch's modules call each other's methods, too."""
REUSE = Kind("reuse policy", contracts.Reuse, {"offer": _offer, "choose": _revise})
"""Of what a reuse policy makes for an episode."""
KINDS: Mapping[str, Kind] = {
    "environment": GAMES,
    "text_encoder": Kind("text encoder", contracts.TextEncoder, {"encode": _encode}),
    "context_encoder": Kind(
        "context encoder",
        contracts.ContextEncoder,
        {
            "situation": _situation,
            "view": lambda it, given, *_: it.a(Action, given, "an Action"),
            "contexts_of_pairs": lambda it, found, pairs: it.tensor(found, (len(pairs), it.part.dim)),
        },
        (contracts.ViewsActions, contracts.PlacesObjects),
    ),
    "pair_feature": Kind("pair feature", contracts.PairFeature, {"values": _values}),
    "quantizer": Kind(
        "quantizer",
        contracts.Quantizer,
        {
            "keys": _keys,
            "similarity": lambda it, found, left, keys: it.unit(found, (len(left),), left, keys),
            "pair_similarity": lambda it, found, left, right: it.unit(found, (len(left),), left, right),
            "regularizer": lambda it, found, contexts: it.tensor(found, (), contexts),
            "index": lambda it, made: _inside(made, IndexBorder(INDEX, it.name), "index"),
        },
    ),
    "memory": Kind(
        "memory",
        contracts.Memory,
        {
            "retrieve": _retrieve,
            "similarities": _similarities,
            "add": lambda it, given, *_, **__: it.a(Case, given, "a Case"),
            "read": lambda it, given, *_: it.a(contracts.StoredCases, given, "StoredCases"),
            "stores": _stores,
            "facts": Border.facts,
        },
        (contracts.TellsFacts,),
    ),
    "reuse_policy": Kind(
        "reuse policy",
        contracts.ReusePolicy,
        {
            "begin": lambda it, made, *_, **__: _inside(made, Border(REUSE, it.name), "begin"),
            "state": Border.facts,
            "facts": Border.facts,
        },
        (contracts.KeepsState, contracts.TellsFacts),
    ),
    "retain_policy": Kind("retain policy", contracts.RetainPolicy, {"select": _select}),
    "agent": Kind(
        "agent", contracts.NeuralAgent, {"policy": _policy, "revise": _revise}, (contracts.RevisingAgent,)
    ),
    "learner": Kind("learner", contracts.Learner, {"begin": _begun, "pop_losses": _reported, "tensors": _tensors}),
    "pretraining": Kind(
        "pretraining", contracts.Pretraining, {"run": lambda it, given, _: given and it.facts(given)}
    ),
    "recorder": Kind("recorder", contracts.Recorder, {}),
    "launcher": LAUNCHERS,
}
ATTRIBUTES: Mapping[str, Callable[[Border, Any], Any]] = {
    "dim": Border.width,
    "identity": lambda it, given: it.a(str, given, "text"),
    "threshold": lambda it, given: it.number("the threshold", given),
    "handicaps": Border.facts,
}
"""What parts have beside methods from the start, where their contract names it."""
TOLD_BY_CALLER = {"begin", "write", "finish", "close", "save", "load", "read", "merge"}
"""Of recorders and memories: whoever calls these knows how to say what is wrong with a file."""


def _told(name: str, contract: type) -> tuple[type[Exception], ...]:
    """Errors of a method that whoever calls it tells better."""
    if name == "load_state_dict":
        return (RuntimeError,)  # other weights than the part has
    return (Exception,) if name in TOLD_BY_CALLER and contract in (contracts.Recorder, contracts.Memory) else ()


# -- around a part -----------------------------------------------------------------------------------------------


@contextmanager
def making(kind: str, name: str) -> Iterator[None]:
    """What a factory raises unexpectedly is the failure of its component."""
    with failing(Border(KINDS[kind], name), "could not be made"):
        yield


def guarded(made: Any, kind: str, name: str) -> Any:
    """The part itself, with a border around its methods.

    Args:
        made: what the factory of the component `name` of this kind gave.

    Raises:
        RunFailed: it is no such part.
    """
    border = (GameBorder if kind == "environment" else Border)(KINDS[kind], name)
    part = _inside(made, border, "its factory")
    asked = [name for name in _members(border.kind.contract) if name in ATTRIBUTES]
    if kind in ("environment", "agent", "reuse_policy") and _has(made, "handicaps"):
        asked = ["handicaps", *asked]
    for attribute in dict.fromkeys(asked):
        border.method = f"the attribute {attribute}"
        with failing(border, f"failed at {border.method}"):
            ATTRIBUTES[attribute](border, getattr(part, attribute))
        border.method = ""
    return part


class _Guarded:
    """Marks the classes made here."""

    __slots__ = ()


def _inside(made: Any, border: Border, maker: str) -> Any:
    """The part, with checked methods: those of a subclass of its class. What it has beside its class, and all
    where the class cannot be replaced, is put into the part."""
    kind, own = type(made), vars(made) if hasattr(made, "__dict__") else {}
    if issubclass(kind, _Guarded):
        return made
    border.method, contract = maker, border.kind.contract
    if lacking := [name for name in _members(contract) if isinstance(made, type) or not _has(made, name)]:
        border.refuse(short(made), f"a part of the kind {contract.__name__}: it lacks {', '.join(lacking)}")
    border.method = ""
    asked = (contract, *border.kind.abilities, contracts.ReportsMetrics)
    names = {name for each in asked for name in _methods(each) if _has(made, name)}
    of_class = {name for name in names if name not in own and hasattr(kind, name)}
    if not _replace_class(made, kind, of_class, border):
        of_class = set()
    for name in names - of_class:
        own[name] = functools.partial(_checked(border, name, _always(getattr(made, name))), made)
    return made


def _always(call: Callable[..., Any]) -> Callable[[Any], Callable[..., Any]]:
    return lambda part: call


def _replace_class(made: Any, kind: type, names: set[str], border: Border) -> bool:
    """Whether the part could be given a subclass of its class with these methods checked."""
    made_of: list[type] = []

    def checked(name: str) -> Callable[..., Any]:
        return _checked(border, name, lambda part: getattr(super(made_of[0], part), name))

    body: dict[str, Any] = {"__slots__": (), "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    body |= {name: checked(name) for name in names}
    try:
        made_of.append(types.new_class(kind.__name__, (kind, _Guarded), {}, lambda space: space.update(body)))
        object.__setattr__(made, "__class__", made_of[0])
    except TypeError:  # a class that takes no subclass, or an object of C
        return False
    return True


def _checked(border: Border, name: str, find: Callable[[Any], Callable[..., Any]]) -> Callable[..., Any]:
    """A method that calls what `find` gives for the part, and looks at what comes back."""
    check = Border.figures if name == "metrics" else border.kind.checks.get(name, TRAINED.get(name))
    told = _told(name, border.kind.contract)

    def method(part: Any, *args: Any, **kwargs: Any) -> Any:
        call = find(part)
        if border.method:
            return call(*args, **kwargs)
        border.method, border.part = name, part
        try:
            values = border.begin([*args, *kwargs.values()])
            named = dict(zip(kwargs, values[len(args) :], strict=True))
            given = call(*values[: len(args)], **named)
            return given if check is None else check(border, given, *values)
        except BaseException as error:
            raised(border, f"failed in {name}", error, *told)
        finally:
            border.method, border.part = "", None

    return method


@functools.cache
def _members(protocol: type) -> list[str]:
    """All that a part of this contract has, in the order of the contract."""
    bases = [base for base in protocol.__mro__ if base not in (object, Protocol, Generic)]
    named = [name for base in bases for name in (*get_annotations(base), *vars(base))]
    return [name for name in dict.fromkeys(named) if name == "__len__" or not name.startswith("_")]


@functools.cache
def _methods(protocol: type) -> list[str]:
    """The methods of a contract."""
    return [name for name in _members(protocol) if name != "__len__" and callable(getattr(protocol, name, None))]


def _has(made: Any, name: str) -> bool:
    """Asks the class first: a property may be slow."""
    return hasattr(type(made), name) or hasattr(made, name)
