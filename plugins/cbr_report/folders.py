"""Run folders and sweep folders -> runs, with notes on what is missing or damaged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cbr_report.checking import fault_of, lacking
from cbr_report.runs import Plain, Run, SweepFile, read_metrics
from cbrcore.console import run_folder
from cbrcore.errors import CbrError, RunFolderError
from cbrcore.recipe.text import parse
from cbrcore.runs.folder import (
    METRICS_FILE,
    RECIPE_FILE,
    RESULTS_FILE,
    VERSIONS_FILE,
    damaged,
    read_json,
    run_command,
)

SWEEP_FILE = "sweep.json"
MEMORY, CASES_FILE = "memory", "cases.jsonl"


@dataclass
class Found:
    """What the folders hold.

    Attributes:
        notes: what is missing or damaged, naming the run.
    """

    runs: list[Run] = field(default_factory=list)
    sweeps: list[SweepFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_folders(folders: Sequence[Path]) -> Found:
    """All finished runs in run folders and sweep folders; each once.

    Raises:
        RunFolderError: a folder holds no run at all, or none of the runs can be read.
    """
    found, seen = Found(), set[Path]()
    for folder in map(run_folder, folders):
        sweep = _sweep(folder, found.notes)
        for path in _run_folders(folder):
            if path.resolve() not in seen:
                seen.add(path.resolve())
                _read(path, sweep, found)
        if sweep is not None:
            found.sweeps.append(sweep)
            found.notes += _unfinished(sweep)
    if not found.runs:
        raise RunFolderError(
            "nothing to report:\n" + "\n".join(f"  {note}" for note in found.notes),
            hint="finish a run first: cbr run --resume RUN",
        )
    return found


def _run_folders(folder: Path) -> list[Path]:
    """The folder itself, or the run folders in it.

    Raises:
        RunFolderError: there is none.
    """
    if (folder / RECIPE_FILE).is_file():
        return [folder]
    inside = sorted(path.parent for path in folder.glob(f"*/{RECIPE_FILE}")) if folder.is_dir() else []
    if not inside:
        what = "holds no run" if folder.is_dir() else "is no folder"
        raise RunFolderError(
            f"{folder} {what}", hint="give the folder of a run or of a sweep: cbr report RUN_OR_SWEEP..."
        )
    return inside


def _sweep(folder: Path, notes: list[str]) -> SweepFile | None:
    """What sweep.json says; None if the folder is no sweep's."""
    if not (folder / SWEEP_FILE).is_file():
        return None
    try:
        data = read_json(folder / SWEEP_FILE)
        runs = {run["id"]: {axis: str(choice) for axis, choice in run["choices"].items()} for run in data["runs"]}
        recipe = str(data.get("recipe") or f"{data['name']}.yaml")
        options = tuple(str(word) for word in data.get("options", ()))
        return SweepFile(folder, recipe, runs, str(data.get("path") or recipe), options)
    except (CbrError, KeyError, TypeError, AttributeError) as error:
        notes.append(f"{folder / SWEEP_FILE}: damaged ({_short(error)}); its runs are taken as they are")
        return None


def _unfinished(sweep: SweepFile) -> list[str]:
    """One note for all runs of a sweep that are still to be done."""
    left = [run for run in sweep.runs if not (sweep.folder / run / RESULTS_FILE).is_file()]
    if not left:
        return []
    return [
        f"{sweep.folder}: {len(left)} of {len(sweep.runs)} runs are not finished ({left[0]}"
        f"{' ...' if len(left) > 1 else ''}); continue with: {sweep.command}"
    ]


def _read(path: Path, sweep: SweepFile | None, found: Found) -> None:
    """Add the run, or a note that says why it is not added."""
    choices = sweep.runs.get(path.name, {}) if sweep else {}
    if not (path / RESULTS_FILE).is_file():
        if not choices:
            found.notes.append(
                f"{path}: not finished (no {RESULTS_FILE}); continue it with: {run_command('run --resume', path)}"
            )
        return
    try:
        recipe, results = _recipe(path / RECIPE_FILE), _mapping(path / RESULTS_FILE)
        _check(path, recipe, results)
    except CbrError as error:
        found.notes.append(f"{error.message}; the run {path} is left out")
        return
    run = Run(
        path,
        recipe,
        results,
        _versions(path, found.notes),
        sweep.recipe if sweep and choices else None,
        choices,
    )
    found.notes += _incomplete(run)
    found.runs.append(run)


def _incomplete(run: Run) -> Iterator[str]:
    """What is not there, or is damaged, of a run that is shown nevertheless."""
    yield from (f"{run.path}: {fault}" for fault in damaged(run.path))
    if absent := list(lacking(run.results)):
        yield f"{run.path}: {RESULTS_FILE} tells nothing of {', '.join(absent)}; a dash stands for it"
    rows, faulty = read_metrics(run.path / METRICS_FILE)
    if not rows:
        yield f"{run.path}: {METRICS_FILE} is missing or damaged; it has no learning curve"
        return
    if faulty:
        yield f"{run.path}: {METRICS_FILE}: {_count(faulty, 'line')} damaged, the first one is line {faulty[0]}"
    there = {row.get("episode") for row in rows if isinstance(row.get("episode"), int)}
    told = run.number("training", "episodes") or 0
    if there and (missing := [number for number in range(1, int(told) + 1) if number not in there]):
        yield f"{run.path}: {METRICS_FILE} lacks {_count(missing, 'episode')} of {told:g}, from {missing[0]} on"
    yield from _lost_cases(run)


def _lost_cases(run: Run) -> Iterator[str]:
    """Cases that the results count and the memory's file does not hold."""
    size, folder = int(run.number("training", "memory_size") or 0), run.path / MEMORY
    if size and not (folder.is_dir() and any(folder.iterdir())):
        yield f"{run.path}: {MEMORY}/ is missing; the run had {size} cases"
    elif (folder / CASES_FILE).is_file():
        count = (folder / CASES_FILE).read_bytes().count(b"\n")
        if count < size:
            yield f"{run.path}: {MEMORY}/{CASES_FILE} holds {count} of {size} cases"


def _count(some: Sequence[int], what: str) -> str:
    return f"{len(some)} {what}{'s' if len(some) > 1 else ''}"


def _check(path: Path, recipe: Plain, results: Plain) -> None:
    """RunFolderError if what every table needs is not there."""
    if not isinstance(recipe.get("seed", 0), int):
        raise RunFolderError(f"{path / RECIPE_FILE}: damaged: the seed is no number")
    evaluation = results.get("evaluation")
    if not isinstance(evaluation, dict) or not all(isinstance(found, dict) for found in evaluation.values()):
        raise RunFolderError(f"{path / RESULTS_FILE}: damaged: no evaluation")
    protocol = results.get("protocol", {})
    games = protocol.get("games", {}) if isinstance(protocol, dict) else None
    if not isinstance(games, dict) or not all(isinstance(split, dict) for split in games.values()):
        raise RunFolderError(f"{path / RESULTS_FILE}: damaged: no protocol")
    if (fault := fault_of(results)) is not None:
        raise RunFolderError(f"{path / RESULTS_FILE}: damaged: {fault}")


def _versions(path: Path, notes: list[str]) -> Plain:
    try:
        return _mapping(path / VERSIONS_FILE)
    except CbrError as error:
        notes.append(error.message)
        return {}


def _recipe(path: Path) -> Plain:
    try:
        document = parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path}: cannot be read: {error}") from error
    if document.flaws or not isinstance(document.data, dict):
        raise RunFolderError(f"{path}: damaged recipe")
    return document.data


def _mapping(path: Path) -> Plain:
    data = read_json(path)
    if not isinstance(data, dict):
        raise RunFolderError(f"{path}: damaged, it holds no object")
    return data


def _short(error: Exception) -> str:
    return error.message if isinstance(error, CbrError) else f"{type(error).__name__}: {error}"
