"""What is not comparable among runs of one report: said in words, and marked in the tables.

Runs of other games, or of other settings of the environment, stand at places of their own; the others at one place
are told apart by columns of which every value has a remark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cbr_report.facts import UNKNOWN, game_contents, handicaps
from cbr_report.runs import ENVIRONMENT, Group, Run, by_place, number_at

RANDOM = "uniform random"
MEASURED = ("steps", "score", "norm_score")
SHOWN = 6
"""So many games, settings or runs are named; the rest is counted."""
PLACE = ("environment.use", "environment.level", "environment.game", "environment.source")
"""Settings that say where an agent plays; the other settings of an environment say how."""
MARKS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class Baseline:
    """The uniform random agent as some runs measured it.

    Attributes:
        runs: one of each seed: what does not depend on the agent counts once.
        agents: whose runs these are.
    """

    runs: Group
    agents: tuple[str, ...]


def baselines(groups: Iterable[Group]) -> list[Baseline]:
    """The uniform random agents of these groups; several if runs of one seed tell different numbers, or the number
    of passes differs."""
    found: list[tuple[Any, dict[int, Run], dict[str, None]]] = []
    members = [(group.agent, run) for group in groups for run in group.runs]
    for agent, run in sorted(
        members, key=lambda member: not _random(member[1])
    ):  # those that do not tell come last
        passes = _random_passes(run)
        for known, by_seed, agents in found:
            same = by_seed.setdefault(run.seed, run) if known == passes or not _random(run) else None
            if same is not None and _random(run) in ({}, _random(same)):
                agents[agent] = None
                break
        else:
            found.append((passes, {run.seed: run}, {agent: None}))
    return [Baseline(Group(tuple(by_seed.values())), tuple(agents)) for _, by_seed, agents in found]


def _random(run: Run) -> dict[tuple[str, str], float]:
    """(split, what is measured) -> mean of the uniform random agent."""
    return {
        (split, what): value
        for split, evaluation in run.results.get("evaluation", {}).items()
        for what in MEASURED
        if (value := number_at(evaluation, ["random", what, "mean"])) is not None
    }


def _random_passes(run: Run) -> Any:
    """How often the uniform random agent played each game; in older runs as often as the agent."""
    told = {number_at(found, ["random", "passes"]) for found in run.results.get("evaluation", {}).values()} - {
        None
    }
    return sorted(told) if told else [run.number("protocol", "evaluation_passes")]


def random_name(each: Baseline, everyone: Sequence[Baseline]) -> str:
    """ "uniform random"; with whose runs it is of where there are several."""
    return RANDOM if len(everyone) == 1 else f"{RANDOM} ({', '.join(each.agents)})"


def budgets_differ(groups: Iterable[Group]) -> bool:
    """Whether agents that are compared were trained for different lengths."""
    return len({group.budget for group in groups}) > 1


# Marks


def protocol_marks(groups: Sequence[Group]) -> dict[Group, str]:
    """A letter for each way to measure, where agents of a place were not measured alike; else nothing."""
    return _marks(groups, lambda group: group.measured, MARKS)


def handicap_marks(groups: Sequence[Group]) -> dict[Group, str]:
    """A number for each set of handicaps, where agents of a place have not the same; else nothing."""
    return _marks(groups, _handicaps, "")


def _handicaps(group: Group) -> dict[str, str]:
    return handicaps(group.runs[0].results)


def _marks(groups: Sequence[Group], facts: Callable[[Group], Mapping[str, str]], marks: str) -> dict[Group, str]:
    known = {group: repr(sorted(facts(group).items())) for group in groups}
    if all(len({known[group] for group in same}) == 1 for _, same in by_place(groups)):
        return {}
    kinds = list(dict.fromkeys(known.values()))
    names = marks if len(kinds) <= len(marks) else [str(number + 1) for number in range(len(kinds))]
    return {group: names[kinds.index(text)] for group, text in known.items()}


# Remarks


def remarks(groups: Sequence[Group]) -> tuple[str, ...]:
    """All that is to be known before the groups of a table are compared."""
    alike = [words for place, same in by_place(groups) for words in not_alike(place, same)]
    return (*other_places(groups), *alike)


def not_alike(place: str, groups: Sequence[Group]) -> list[str]:
    """What to know before the agents of a place are compared."""
    found = []
    if budgets_differ(groups):
        told = _by_value(groups, lambda group: group.budget)
        found.append(f"{place}: not trained alike ({told})")
    for what in groups[0].measured:
        told = _by_value(groups, lambda group, what=what: group.measured[what])  # type: ignore[misc]
        if len({group.measured[what] for group in groups}) > 1:
            found.append(f"{place}: not measured alike: {what}: {told}")
        elif groups[0].measured[what].startswith("stopped"):
            found.append(f"{place}: measured before the training was over: {told}")
    for name in dict.fromkeys(name for group in groups for name in _handicaps(group)):
        if len({_handicaps(group).get(name) for group in groups}) > 1:
            told = _by_value(groups, lambda group, name=name: _handicaps(group).get(name, "none"))  # type: ignore[misc]
            found.append(f"{place}: not the same handicaps: {name}: {told}")
    for same in groups[0].runs[0].results.get("protocol", {}).get("duplicates", ()):
        found.append(f"{place}: one game counts several times: {' = '.join(same)}")
    if len(baselines(groups)) > 1:
        found.append(
            f"{place}: the uniform random agent did not play alike in all runs (other games, passes or versions),"
            " so it stands several times"
        )
    return found


def _by_value(groups: Sequence[Group], value: Callable[[Group], str]) -> str:
    """ "7 passes: BiKE, Text; 9 passes: TPC"."""
    found: dict[str, list[str]] = {}
    for group in groups:
        found.setdefault(value(group), []).append(group.agent)
    return "; ".join(f"{text}: {', '.join(dict.fromkeys(agents))}" for text, agents in found.items())


def other_places(groups: Sequence[Group]) -> Iterator[str]:
    """Places that look alike and are not: other games of one name, or another way to play them."""
    alike: dict[str, dict[str, list[Group]]] = {}
    for group in groups:
        where = repr([group.settings.get(path) for path in PLACE])
        alike.setdefault(where, {}).setdefault(group.place, []).append(group)
    for places in alike.values():
        if len(places) > 1:
            yield f"{' and '.join(places)} are not compared: {_why_apart(places)}"


def _why_apart(places: Mapping[str, Sequence[Group]]) -> str:
    firsts = [same[0] for same in places.values()]
    paths = dict.fromkeys(path for group in firsts for path in group.settings if path.startswith(ENVIRONMENT))
    told = {path: [str(group.settings.get(path, "-")) for group in firsts] for path in paths}
    told.pop(f"{ENVIRONMENT}games_dir", None)
    words = [
        f"{path.removeprefix(ENVIRONMENT)} {' / '.join(values)}"
        for path, values in told.items()
        if len(set(values)) > 1
    ]
    settings = [f"other settings ({_some(words)})"] if words else []
    contents = [game_contents(group.runs[0].results) for group in firsts]
    games = [f"other games: {_games(contents)}"] if len({group.runs[0].games for group in firsts}) > 1 else []
    runs = "; ".join(f"{place}: {_some(_names(same))}" for place, same in places.items())
    return f"{'; '.join([*settings, *games])}. Runs: {runs}"


def _games(contents: Sequence[Mapping[str, str]]) -> str:
    """ "in/books (sha256 1a2b / sha256 3c4d)": the games that are not the same at all places."""
    names = dict.fromkeys(name for games in contents for name in games)
    told = {name: [games.get(name, "not there" if games else UNKNOWN) for games in contents] for name in names}
    return _some(
        [f"{name} ({' / '.join(map(_short, texts))})" for name, texts in told.items() if len(set(texts)) > 1]
    )


def _short(text: str) -> str:
    """Hashes by their first and last letters."""
    return re.sub(r"\b(\w{8})\w{16,}(\w{4})\b", r"\1…\2", text)


def _names(groups: Sequence[Group]) -> list[str]:
    return [run.path.name for group in groups for run in group.runs]


def _some(words: Sequence[str]) -> str:
    more = len(words) - SHOWN
    return ", ".join(words[:SHOWN]) + (f" and {more} more" if more > 0 else "")
