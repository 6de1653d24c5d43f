"""What tables and figures call a group of runs: the agent, and the place where it plays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from cbr_report.runs import ENVIRONMENT, Group, Runs, seedless
from cbr_sweep.axes import VARIANTS

MOST_SETTINGS = 2
"""Groups of one name are told apart by so many settings or parts at most, else by their folders' names."""
USE = ".use"


class Vocabulary(Protocol):
    """Words for agents and places.

    Attributes:
        names: in the order in which tables shall have them; others follow.
    """

    names: Sequence[str]

    def label(self, word: str) -> str:
        """What tables call a choice of a sweep ("bike_cbr"), a level or a game."""
        ...

    def variant_of(self, group: Group) -> str | None:
        """The choice of a sweep that runs without one are like; None if there is none."""
        ...


@runtime_checkable
class BringsWords(Protocol):
    """A factory of a section of the report that also knows what agents and places are called."""

    def vocabulary(self, runs: Runs) -> Vocabulary:
        """Its words for these runs, whose groups have no names yet.

        Raises:
            CbrError: the user named a file that is wrong.
        """
        ...


class OwnWords:
    """The vocabulary of recipes and sweeps themselves."""

    names: Sequence[str] = ()

    def label(self, word: str) -> str:
        return word

    def variant_of(self, group: Group) -> str | None:
        return None


def name_runs(runs: Runs, words: Vocabulary) -> None:
    """Name the groups and their runs, and put them into the order of the tables."""
    name_groups(runs.groups, words)
    runs.groups.sort(key=lambda each: _order(each, words))
    for group in runs.groups:
        for run in group.runs:
            run.agent, run.place = group.agent, group.place


def _order(each: Group, words: Vocabulary) -> tuple[int, str, int, str]:
    """Places and agents in the vocabulary's order, others by name."""

    def rank(text: str) -> int:
        known = [place for place, name in enumerate(words.names) if text == name or text.startswith(f"{name} (")]
        return max(known, default=len(words.names))

    return rank(each.place), each.place, rank(each.agent), each.agent


def name_groups(groups: Sequence[Group], words: Vocabulary) -> None:
    """Give every group its place and its agent. No two groups of a place have the same agent."""
    for group in groups:
        group.place = _place(group, words, alone=len({_environment(other) for other in groups}) == 1)
        group.agent = _agent(group, words)
    _tell_apart(groups, lambda group: group.place, lambda group, text: setattr(group, "place", text), places=True)
    _tell_apart(
        groups,
        lambda group: f"{group.place}\n{group.agent}",
        lambda group, text: setattr(group, "agent", text.partition("\n")[2]),
        places=False,
    )


def place_key(group: Group) -> str:
    """Equal for groups that play the same games in the same way."""
    settings = sorted(
        (path, value)
        for path, value in group.settings.items()
        if path.startswith(ENVIRONMENT) and path != "environment.games_dir"
    )
    return repr((settings, group.runs[0].games))


def _environment(group: Group) -> str:
    return str(group.settings.get("environment.use", "?"))


def _place(group: Group, words: Vocabulary, *, alone: bool) -> str:
    """The level or the game, after the environment's name unless there is one environment alone."""
    settings = group.settings
    word = settings.get("environment.level") or settings.get("environment.game")
    name = _environment(group).rpartition("/")[2]
    if word is None:
        return name
    made = " (generated)" if settings.get("environment.source") == "generate" else ""
    return f"{words.label(str(word))}{made}" if alone else f"{name}, {words.label(str(word))}{made}"


def _agent(group: Group, words: Vocabulary) -> str:
    run = group.runs[0]
    variant = run.choices.get(VARIANTS) if run.choices else words.variant_of(group)
    return words.label(variant) if variant else str(run.recipe.get("name") or run.path.name)


def _tell_apart(
    groups: Sequence[Group], name: Callable[[Group], str], rename: Callable[[Group, str], None], *, places: bool
) -> None:
    """Rename groups that have one name, by the settings in which they differ or by their folders."""
    same: dict[str, dict[str, list[Group]]] = defaultdict(lambda: defaultdict(list))
    for group in groups:
        same[name(group)][place_key(group) if places else str(id(group))].append(group)
    for text, kinds in same.items():
        if len(kinds) > 1:
            firsts = [kind[0] for kind in kinds.values()]
            for kind, difference in zip(kinds.values(), _differences(firsts, places=places), strict=True):
                for group in kind:
                    rename(group, f"{text} ({difference})")


def _differences(others: Sequence[Group], *, places: bool) -> list[str]:
    """What each of these groups is that the others are not: settings, parts or games, else its folder."""
    everything = dict.fromkeys(path for other in others for path in other.settings)
    paths = [
        path
        for path in everything
        if path.startswith(ENVIRONMENT) == places and len({repr(other.settings.get(path)) for other in others}) > 1
    ]
    parts = [path for path in paths if path.endswith(USE)]
    games = places and len({other.runs[0].games for other in others}) > 1
    for telling in (paths, parts):
        words = [[_setting(other, path) for path in telling] for other in others]
        found = [", ".join([*told, *_games(other, told=games)]) for told, other in zip(words, others, strict=True)]
        if len(telling) <= MOST_SETTINGS and len(set(found)) == len(others):
            return found
    return _folders(others)


def _games(group: Group, *, told: bool) -> list[str]:
    return [f"games {group.runs[0].games}"] if told else []


def _folders(groups: Sequence[Group]) -> list[str]:
    """Their folders without the seed; with the folder around them, or numbered, where these are one."""
    paths = [group.runs[0].path for group in groups]
    names = [seedless(path.name) for path in paths]
    if len(set(names)) < len(names):
        names = [f"{path.absolute().parent.name}/{name}" for path, name in zip(paths, names, strict=True)]
    if len(set(names)) < len(names):
        names = [f"{name} {number + 1}" for number, name in enumerate(names)]
    return names


def _setting(group: Group, path: str) -> str:
    """ "gamma 0.5" for training.gamma, and "quantizer fsq" for quantizer.use."""
    value = str(group.settings.get(path, "-"))
    if path.endswith(USE):
        path, value = path.removesuffix(USE), value.rpartition("/")[2]
    return f"{path.rpartition('.')[2]} {value}"
