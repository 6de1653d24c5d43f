"""Which runs belong to which cell of the paper's tables.

A run of a sweep says so itself. Any other run belongs to the cell whose run has the same parts in the same place
(the same level or game); where its settings are others, the page says which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cbr_paper.paper import PaperCell, PaperTable, load_paper
from cbr_report.runs import Group, comparable
from cbr_sweep.axes import VARIANTS, expand
from cbrcore.recipe import dump_recipe, load_recipe, shipped
from cbrcore.recipe.text import parse

if TYPE_CHECKING:
    from cbrcore.plugins import PluginReport

PAPER_FILE = "paper.yaml"
SEED = "seed"
PLACES = ("environment.level", "environment.game", "environment.source")
"""Settings that say where an agent plays; the other settings of an environment say how."""
NO_DIFFERENCE = ("environment.games_dir",)
"""Where files lie does not matter."""
OF_A_RETRIEVER = ("training.pretrain.", "training.margin", "training.retriever_learning_rate")
"""Settings that mean nothing to an agent without cases."""

Choices = Mapping[str, str]


@dataclass(frozen=True)
class Claim:
    """Runs that stand for one row of choices of a sweep.

    Attributes:
        differences: settings that are others than the sweep's, as "training.gamma: 0.5, there 0.9".
        of_sweep: they are runs of that very sweep.
    """

    group: Group
    differences: tuple[str, ...]
    of_sweep: bool

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The best claim is the smallest one: runs of the sweep, then few differences, then many runs."""
        return (not self.of_sweep, len(self.differences), -len(self.group.runs))


@dataclass(frozen=True)
class Paper:
    """The paper's tables, and our runs for them; a `cbr_report.names.Vocabulary`.

    Attributes:
        claims: (recipe, choices as text) -> the runs, the best claim first.
    """

    tables: Sequence[PaperTable] = ()
    claims: Mapping[tuple[str, str], Sequence[Claim]] = field(default_factory=dict)

    def claim(self, table: PaperTable, cell: PaperCell) -> Claim | None:
        """Our runs for a cell; None if there are none, or the number is cited."""
        return next(iter(self._claims(table, cell)), None)

    def others(self, table: PaperTable, cell: PaperCell) -> Sequence[Claim]:
        """Runs that would fit the cell as well, with other settings."""
        return self._claims(table, cell)[1:]

    def _claims(self, table: PaperTable, cell: PaperCell) -> Sequence[Claim]:
        if cell.cited is not None or table.recipe is None:
            return ()
        return self.claims.get((table.recipe, _key(cell.choices)), ())

    def shown(self) -> list[PaperTable]:
        """The tables of which we have a number."""
        return [
            table for table in self.tables if any(self.claim(table, cell) for row in table.cells for cell in row)
        ]

    def label(self, word: str) -> str:
        return self.tables[0].label(word) if self.tables else word

    @property
    def names(self) -> Sequence[str]:
        """Agents and places in the paper's order."""
        return list(self.tables[0].labels.values()) if self.tables else ()

    def variant_of(self, group: Group) -> str | None:
        """The agent of the sweep that the group fits best; None if it fits none."""
        return self.choices_of(group).get(VARIANTS)

    def choices_of(self, group: Group) -> Choices:
        """What the group is in the words of the sweep that it fits best; nothing if it fits none."""
        fits = [
            (claim.rank, key) for key, claims in self.claims.items() for claim in claims if claim.group is group
        ]
        return _choices(min(fits)[1][1]) if fits else {}


def find_paper_file(folders: Sequence[Path]) -> Path | None:
    """recipes/tables/paper.yaml of this package, of the working directory or of a folder; None if none has it."""
    there = Path("recipes") / "tables" / PAPER_FILE
    near = (root / file for root in (Path.cwd(), *folders) for file in (there, PAPER_FILE))
    return shipped(there) or next((file for file in near if file.is_file()), None)


def read_paper(file: Path, groups: Sequence[Group], plugins: PluginReport) -> Paper:
    """The paper's tables, with the groups that belong to them.

    Raises:
        CbrError: the file of the paper's numbers, or a recipe that it names, is wrong.
    """
    tables = load_paper(file)
    claims: dict[tuple[str, str], list[Claim]] = {}
    for recipe in dict.fromkeys(table.recipe for table in tables if table.recipe):
        for choices, settings in _cells(file.parent / recipe, groups, plugins):
            found = [claim for group in groups if (claim := _claim(group, recipe, choices, settings))]
            if found:
                claims[recipe, _key(choices)] = sorted(found, key=lambda claim: claim.rank)
    return Paper(tables, claims)


def _cells(file: Path, groups: Sequence[Group], plugins: PluginReport) -> Iterator[tuple[Choices, dict[str, Any]]]:
    """(choices without the seed, settings) of each cell of the recipe's sweep where a group plays."""
    recipe = load_recipe(file, registry=plugins.registry)
    if recipe.environment.use not in {group.settings.get("environment.use") for group in groups}:
        return
    seen = set()
    for run in expand(recipe):
        choices = {axis: str(choice) for axis, choice in run.choices.items() if axis != SEED}
        if _key(choices) not in seen and _somebody_plays(choices, groups):
            seen.add(_key(choices))
            resolved = load_recipe(file, overrides=run.overrides, registry=plugins.registry)
            yield choices, comparable(parse(dump_recipe(resolved)).data)


def _somebody_plays(choices: Choices, groups: Sequence[Group]) -> bool:
    """Whether any group is at the level or game of these choices; the others need not be resolved."""
    places = {axis: word for axis, word in choices.items() if axis in PLACES}
    return any(all(str(group.settings.get(axis)) == word for axis, word in places.items()) for group in groups)


def _claim(group: Group, recipe: str, choices: Choices, settings: Mapping[str, Any]) -> Claim | None:
    run = group.runs[0]
    differences = tuple(_differences(group, settings))
    if run.sweep is not None and run.sweep == recipe:
        own = {axis: choice for axis, choice in run.choices.items() if axis != SEED}
        return Claim(group, differences, of_sweep=True) if own == choices else None
    if _signature(group.settings) != _signature(settings) or (run.sweep is not None and differences):
        return None
    return Claim(group, differences, of_sweep=False)


def _signature(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The parts, wherever they stand, and the place."""
    return {path: value for path, value in settings.items() if path in PLACES or path.rpartition(".")[2] == "use"}


def _differences(group: Group, theirs: Mapping[str, Any]) -> Iterator[str]:
    """Of the settings that both have: a run of another version may lack some."""
    ours = group.settings
    for path in sorted(ours.keys() & theirs.keys() - {*NO_DIFFERENCE}):
        matters = group.uses_cases or not path.startswith(OF_A_RETRIEVER)
        if matters and ours[path] != theirs[path]:
            yield f"{path}: {ours[path]}, there {theirs[path]}"


def _key(choices: Choices) -> str:
    return "\n".join(f"{axis}={word}" for axis, word in sorted(choices.items()))


def _choices(key: str) -> Choices:
    return dict(line.split("=", 1) for line in key.splitlines())
