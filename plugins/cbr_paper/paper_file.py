"""The file of the paper's numbers as it is written, and everything that can be wrong with it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError

from cbrcore.config import Settings
from cbrcore.errors import CbrError, suggest

NUMBERS = "numbers"
"""The key of a row that holds its numbers, one per column."""
NOT_REPORTED = "null"
NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)(?: ± (\d+(?:\.\d+)?))?")
"""A mean, or a mean and a standard deviation, as printed."""

Word = Annotated[str, Field(min_length=1)]
CellKeys = Mapping[str, str]
"""What something is about: an axis of the sweep, "metric", "split" or "cited" -> word."""


class Metric(Settings):
    """What a number measures."""

    title: Word
    """As in the paper."""
    better: Literal["lower", "higher"]
    """Which number is the better one."""
    reads: Annotated[str, Field(pattern=r"^[\w.]+(\{split\}[\w.]*)?$")]
    """Where a run's results.json has it, keys joined by points; `{split}` stands for the split."""
    gap: bool = False
    """The number is |OUT - IN|: the difference of two means over the runs, one for each split."""

    @property
    def needs_split(self) -> bool:
        return "{split}" in self.reads and not self.gap

    def keys(self, split: str | None) -> tuple[str, ...]:
        """The way to the number in a results.json."""
        return tuple(self.reads.format(split=split).split("."))


class Entry(Settings):
    """One table or figure."""

    id: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    title: Word
    where: Word
    recipe: Word | None = None
    says: str = ""
    metric: Word | None = None
    split: Word | None = None
    columns: tuple[dict[str, Word], ...] = ()
    rows: tuple[dict[str, Word | tuple[Word, ...]], ...] = ()

    @property
    def common(self) -> CellKeys:
        """What holds for all cells."""
        return {key: word for key, word in (("metric", self.metric), ("split", self.split)) if word is not None}


class PaperFile(Settings):
    """The whole file."""

    schema_version: Annotated[Literal["1"], Field(alias="schema")]
    metrics: dict[str, Metric]
    labels: dict[str, Word]
    tables: tuple[Entry, ...]


def keys_of(entry: Entry, row: Mapping[str, Any], column: CellKeys) -> dict[str, str]:
    """What the cell in this row and column is about."""
    return {**entry.common, **heading(row), **column}


def heading(row: Mapping[str, Any]) -> dict[str, str]:
    """A row without its numbers."""
    return {key: word for key, word in row.items() if key != NUMBERS}


def read_paper_file(file: Path) -> PaperFile:
    """Read and check it.

    Raises:
        CbrError: it cannot be read, or everything that is wrong with it.
    """
    hint = f"mend {file.name}; its head documents the format"
    try:
        data = yaml.load(file.read_text(encoding="utf-8"), Loader=_Loader)
    except OSError as error:
        raise CbrError(
            f"{file}: cannot be read: {error.strerror}", hint="give the path of a paper.yaml"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CbrError(f"{file}: is not YAML: {' '.join(str(error).split())}", hint=hint) from error
    try:
        paper = PaperFile.model_validate(data)
    except ValidationError as error:
        problems = [f"{_place(data, detail['loc'])}: {detail['msg']}" for detail in error.errors()]
    else:
        problems = list(_problems(paper, file.parent))
        if not problems:
            return paper
    raise CbrError("\n".join(f"{file}: {problem}" for problem in problems), hint=hint)


class _Loader(yaml.BaseLoader):
    """Every scalar is text, so that a number keeps its printed form; a key may not be given twice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001 (PyYAML's own signature)
        counts = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and counts[key.value] > 1:
                raise yaml.MarkedYAMLError(problem=f"{key.value!r} is given twice", problem_mark=key.start_mark)
        return super().construct_mapping(node, deep)


def _place(data: Any, keys: Sequence[int | str]) -> str:
    """``tables.retain.where``: a table is called by its id where it has one."""
    names = list(map(str, keys)) or ["the file"]
    if len(keys) > 1 and keys[0] == "tables" and isinstance(entry := data["tables"][keys[1]], dict):
        names[1] = str(entry.get("id", keys[1]))
    return ".".join(names)


def _problems(paper: PaperFile, folder: Path) -> Iterator[str]:
    for name, count in Counter(entry.id for entry in paper.tables).items():
        if count > 1:
            yield f"tables: the id {name!r} is given twice"
    for entry in paper.tables:
        for problem in (*_of_table(entry, folder), *_of_rows(entry, paper), *_of_doubles(entry)):
            yield f"tables.{entry.id}: {problem}"


def _of_table(entry: Entry, folder: Path) -> Iterator[str]:
    if not entry.rows and not entry.says:
        yield "has neither rows nor 'says'"
    if entry.recipe is not None and not (folder / entry.recipe).is_file():
        recipes = [path.name for path in folder.glob("*.yaml")]
        yield f"no recipe {entry.recipe!r} in {folder}. {suggest(entry.recipe, recipes)}"


def _of_rows(entry: Entry, paper: PaperFile) -> Iterator[str]:
    for number, row in enumerate(entry.rows, start=1):
        for problem in (*_of_row(entry, row), *_of_cells(entry, row, paper)):
            yield f"row {number}: {problem}"


def _of_row(entry: Entry, row: Mapping[str, Any]) -> Iterator[str]:
    numbers = row.get(NUMBERS)
    if not isinstance(numbers, tuple) or len(numbers) != len(entry.columns):
        yield f"needs {NUMBERS}: [...], one for each of the {len(entry.columns)} columns"
        return
    for number in numbers:
        if number != NOT_REPORTED and not NUMBER.fullmatch(number):
            yield f"{number!r} is no number; write 1.5, 1.50 ± 0.25 or null"
    yield from (
        f"{key!r} must be a single word" for key, word in heading(row).items() if not isinstance(word, str)
    )


def _of_cells(entry: Entry, row: Mapping[str, Any], paper: PaperFile) -> Iterator[str]:
    for number, column in enumerate(entry.columns, start=1):
        given = Counter([*entry.common, *heading(row), *column])
        problems = [f"{key!r} is said twice, by table, row or column" for key in given if given[key] > 1]
        for problem in problems or _of_cell(entry, keys_of(entry, row, column), paper):
            yield f"column {number}: {problem}"


def _of_cell(entry: Entry, keys: CellKeys, paper: PaperFile) -> Iterator[str]:
    name = keys.get("metric")
    if name is None:
        yield "no metric is given; add metric: NAME to the table, the row or the column"
    elif name not in paper.metrics:
        yield f"no metric {name!r}. {suggest(name, paper.metrics)}"
    elif paper.metrics[name].needs_split and "split" not in keys:
        yield f"the metric {name!r} is of a split; add split: in or split: out"
    if entry.recipe is None and "cited" not in keys:
        yield "whose number is it? Add cited: NAME, or a recipe to the table"


def _of_doubles(entry: Entry) -> Iterator[str]:
    cells = Counter(
        ", ".join(f"{key}: {word}" for key, word in sorted(keys_of(entry, row, column).items()))
        for row in entry.rows
        for column in entry.columns
    )
    yield from (f"{count} numbers for one cell, {shown}" for shown, count in cells.items() if count > 1)
