"""What tables and figures call a group of runs: the agent, and the place where it plays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from cbr_sweep.axes import VARIANTS
from cbrcore.report.belong import Paper
from cbrcore.report.runs import Group, seedless

ENVIRONMENT = "environment."
MOST_SETTINGS = 2
"""Groups of one name are told apart by so many settings or parts at most, else by their folders' names."""
USE = ".use"


def name_groups(groups: Sequence[Group], paper: Paper) -> None:
    """Give every group its place and its agent. No two groups of a place have the same agent."""
    for group in groups:
        group.place = _place(group, paper, alone=len({_environment(other) for other in groups}) == 1)
        group.agent = _agent(group, paper)
    _tell_apart(groups, lambda group: group.place, lambda group, text: setattr(group, "place", text), places=True)
    _tell_apart(
        groups,
        lambda group: f"{group.place}\n{group.agent}",
        lambda group, text: setattr(group, "agent", text.partition("\n")[2]),
        places=False,
    )


def place_key(group: Group) -> str:
    """Equal for groups that play the same games in the same way."""
    return repr(
        sorted(
            (path, value)
            for path, value in group.settings.items()
            if path.startswith(ENVIRONMENT) and path != "environment.games_dir"
        )
    )


def _environment(group: Group) -> str:
    return str(group.settings.get("environment.use", "?"))


def _place(group: Group, paper: Paper, *, alone: bool) -> str:
    """The level or the game, after the environment's name unless there is one environment alone."""
    settings = group.settings
    word = settings.get("environment.level") or settings.get("environment.game")
    name = _environment(group).rpartition("/")[2]
    if word is None:
        return name
    made = " (generated)" if settings.get("environment.source") == "generate" else ""
    return f"{paper.label(str(word))}{made}" if alone else f"{name}, {paper.label(str(word))}{made}"


def _agent(group: Group, paper: Paper) -> str:
    run = group.runs[0]
    variant = (run.choices or paper.choices_of(group)).get(VARIANTS)
    return paper.label(variant) if variant else str(run.recipe.get("name") or run.path.name)


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
            for kind in kinds.values():
                for group in kind:
                    rename(group, f"{text} ({_difference(group, firsts, places=places)})")


def _difference(group: Group, others: Sequence[Group], *, places: bool) -> str:
    everything = dict.fromkeys(path for other in others for path in other.settings)
    paths = [
        path
        for path in everything
        if path.startswith(ENVIRONMENT) == places and len({repr(other.settings.get(path)) for other in others}) > 1
    ]
    parts = [path for path in paths if path.endswith(USE)]
    for telling in (paths, parts):
        if 0 < len(telling) <= MOST_SETTINGS and _are_distinct(others, telling):
            return ", ".join(_setting(group, path) for path in telling)
    return seedless(group.runs[0].path.name)


def _are_distinct(groups: Sequence[Group], paths: Sequence[str]) -> bool:
    return len({repr([group.settings.get(path) for path in paths]) for group in groups}) == len(groups)


def _setting(group: Group, path: str) -> str:
    """ "gamma 0.5" for training.gamma, and "quantizer fsq" for quantizer.use."""
    value = str(group.settings.get(path, "-"))
    if path.endswith(USE):
        path, value = path.removesuffix(USE), value.rpartition("/")[2]
    return f"{path.rpartition('.')[2]} {value}"
