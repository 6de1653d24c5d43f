"""What a recipe's file says of itself: what it is, what it costs, what it needs that the package lacks."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any, Protocol, runtime_checkable

from packaging.requirements import Requirement

from cbr_find.shipped import RecipeFile
from cbr_sweep.axes import SECTION, SweepRun, expand_axes
from cbrcore.errors import CbrError
from cbrcore.recipe.model import settings_class
from cbrcore.recipe.text import parse
from cbrcore.recipe.words import validated
from cbrcore.registry import KINDS, Component, Registry

MODELINE = "# yaml-language-server:"
"""How the line begins that tells editors where the schema is."""
COST = re.compile(r"# \d+ runs? x ")
VARIABLE = re.compile(r"\$\{?([A-Z_][A-Z0-9_]*)")
GAMES = "CBR_GAMES"
DISTRIBUTION = "cbr-textrl"

Plain = Mapping[str, Any]
Need = tuple[str, str]
"""(kind, which one), as in ("story file", "zork1")."""


@runtime_checkable
class TellsNeeds(Protocol):
    """Settings of a part that need what does not come with the package (`cbr recipes` says so)."""

    def needs(self) -> Iterable[Need]:
        """Of each thing its kind and which one it is, as in ("story file", "zork1")."""
        ...


@dataclass(frozen=True)
class Facts:
    """What `cbr recipes` tells of a recipe.

    Attributes:
        comment: the header's lines, without ``#``.
        what: the header's first sentence.
        cost: as in "135 runs x 100 passes".
        needs: as in "games folder"; empty if it needs nothing.
        runs: how many runs its sweep has, 1 without one.
        fault: why it cannot be read; empty if it can.
    """

    comment: tuple[str, ...]
    what: str
    cost: str = ""
    needs: str = ""
    runs: int = 1
    fault: str = ""


def facts_of(recipe: RecipeFile, registry: Registry) -> Facts:
    """Read the file; whatever is wrong with it is a fact, too."""
    try:
        text = recipe.file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        return Facts((), "", fault=f"cannot be read: {error}")
    comment = header(text)
    document = parse(text, recipe.path)
    if document.flaws or not isinstance(document.data, dict):
        return Facts(comment, first_sentence(comment), fault=f"is no recipe: cbr check {recipe.path}")
    try:
        runs = expand_axes(document.data.get(SECTION) or {})
        variants = [_with(document.data, run) for run in runs]
        return Facts(comment, first_sentence(comment), _cost(variants), _needs(variants, registry), len(runs))
    except (AttributeError, TypeError, ValueError):
        return Facts(comment, first_sentence(comment), fault=f"is wrong: cbr check {recipe.path}")


def _with(data: Plain, run: SweepRun) -> dict[str, Any]:
    """The recipe with the run's settings put in; another component drops the settings of the one before."""
    made = {key: copy.deepcopy(value) for key, value in data.items() if key != SECTION}
    for path, value in run.settings.items():
        *outer, last = path.split(".")
        inner: Any = made
        for key in outer:
            if not isinstance(inner.get(key), dict):
                inner[key] = {}
            inner = inner[key]
        if last == "use" and inner.get("use") != value:
            inner.clear()
        inner[last] = value
    return made


# -- what it is --------------------------------------------------------------------------------------------------


def header(text: str) -> tuple[str, ...]:
    """The lines of the comment at the beginning, without ``#`` and without the one for editors."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith(MODELINE):
            lines.append(line)
    return tuple(line.removeprefix("#").strip() for line in lines)


def first_sentence(comment: Sequence[str]) -> str:
    """As far as the first full stop, but for those of "App." and "Fig."."""
    joined = " ".join(line for line in comment if not COST.match(f"# {line}"))
    return re.split(r"(?<!App)(?<!Fig)(?<!e\.g)(?<!i\.e)[.!?](?:\s|$)", joined, maxsplit=1)[0]


# -- what it costs -----------------------------------------------------------------------------------------------


def _cost(variants: Sequence[Plain]) -> str:
    """The budget of a run, and how many there are."""
    budgets = list(dict.fromkeys(filter(None, map(_budget, variants))))
    each = " or ".join(budgets[:2]) + (" or other" if len(budgets) > 2 else "")
    return f"{len(variants)} runs x {each}" if len(variants) > 1 else each


def _budget(data: Plain) -> str:
    run = data.get("run") or {}
    if (passes := run.get("episodes")) is not None:
        return f"{int(passes):,} pass{'es' * (passes != 1)}"
    return "" if (steps := run.get("env_steps")) is None else f"{int(steps):,} steps"


# -- what it needs -----------------------------------------------------------------------------------------------


def _needs(variants: Sequence[Plain], registry: Registry) -> str:
    """In words: each kind once, with what it is, or how many there are."""
    found: dict[str, dict[str, None]] = {}
    for kind, which in dict.fromkeys(need for data in variants for need in _needs_of(data, registry)):
        found.setdefault(kind, {})[which] = None
    return ", ".join(_said(kind, list(which)) for kind, which in found.items())


def _said(kind: str, which: Sequence[str]) -> str:
    return f"{kind} {which[0]}".rstrip() if len(which) == 1 else f"{len(which)} {kind}s"


def _needs_of(data: Plain, registry: Registry) -> Iterator[Need]:
    for kind in KINDS:
        if isinstance(section := data.get(kind), dict) and isinstance(section.get("use"), str):
            yield from _needs_of_part(kind, json.dumps(section, sort_keys=True), registry)
    for recorder in data.get("recorders") or ():
        use = recorder.get("use") if isinstance(recorder, dict) else recorder
        yield from _needs_of_part("recorder", json.dumps({"use": use}), registry)
    for name in dict.fromkeys(VARIABLE.findall(json.dumps(data))):
        yield ("games folder", "") if name == GAMES else ("variable", name)


@cache
def _needs_of_part(kind: str, section: str, registry: Registry) -> tuple[Need, ...]:
    """What the settings tell, and packages that only an extra installs.

    Args:
        section: the part as it is written, as JSON.
    """
    written = json.loads(section)
    try:
        component = registry.find(kind, written.pop("use"))
    except CbrError:
        return ()
    plain = {key: value for key, value in written.items() if not (isinstance(value, dict) and "use" in value)}
    with suppress(Exception):  # settings that are wrong are told by `cbr check`
        settings = validated(settings_class(component), plain)
        if isinstance(settings, TellsNeeds):
            return (*settings.needs(), *_extras(component))
    return tuple(_extras(component))


def _extras(component: Component) -> Iterator[Need]:
    for required in component.requires:
        name = Requirement(required).name
        if component.plugin in _our_plugins() and name not in _installed_with_us():
            yield "package", name


@cache
def _installed_with_us() -> frozenset[str]:
    """What is installed with the package, without extras."""
    listed = map(Requirement, metadata.requires(DISTRIBUTION) or ())
    return frozenset(each.name for each in listed if each.marker is None or each.marker.evaluate({"extra": ""}))


@cache
def _our_plugins() -> frozenset[str]:
    """The names of the plugins that came with the package; what others need, who installed them has."""
    points = metadata.distribution(DISTRIBUTION).entry_points
    return frozenset(point.name for point in points if point.group == "cbrcore.plugins")
