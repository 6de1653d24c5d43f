"""How runs differ: in their recipes, setting by setting, and in what came of them, figure by figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cbr_report.facts import UNKNOWN, games_digest, stopped
from cbr_sweep.differences import differences, flat
from cbrcore.errors import CbrError, RunFolderError
from cbrcore.recipe.text import parse
from cbrcore.runs.folder import RESULTS_FILE, TIMING_FILE, damaged, read_json, run_command, stored_recipe

NOT_COMPARED = ("directory",)
"""Where relative paths start makes no other run."""
MEASURED = (("steps", "#steps"), ("norm_score", "norm. score"), ("score", "score"))
MODES = ("sampled", "greedy", "random")
TRAINING = (
    ("env_steps", "environment steps"),
    ("episodes", "game plays"),
    ("avg_score_last_100", "score, last 100"),
    ("best_score", "best score"),
    ("memory_size", "cases in memory"),
    ("skipped_updates", "skipped updates"),
)

Plain = Mapping[str, Any]


@dataclass(frozen=True)
class Compared:
    """Runs side by side.

    Attributes:
        folders: of the runs, in the order of all lists below.
        settings: dotted path -> the value in each run, None where it is not set; only those that differ.
        unset: (path, position) of values that are not set, which is not the same as null.
        figures: group -> name -> the number of each run, None where there is none.
        notes: what is missing or damaged, naming the run.
    """

    folders: tuple[Path, ...]
    settings: dict[str, list[Any]]
    figures: dict[str, dict[str, list[float | None]]]
    notes: list[str] = field(default_factory=list)
    unset: frozenset[tuple[str, int]] = frozenset()


def compare_runs(folders: Sequence[Path]) -> Compared:
    """Read the runs and put them side by side.

    Raises:
        CbrError: fewer than two, a folder holds no run, or a recipe cannot be read.
    """
    if len(folders) < 2:
        raise CbrError("name two runs or more", hint="cbr compare RUN RUN; which there are: cbr runs")
    recipes, notes = [_recipe(folder) for folder in folders], list[str]()
    results = [_results(*each, notes) for each in zip(folders, recipes, strict=True)]
    notes += _other_games(folders, results)
    apart = len({mode for each in results for mode in _main_modes(each)}) > 1
    found = [_figures(*each, notes, name_modes=apart) for each in zip(folders, results, strict=True)]
    settings, unset = _settings(recipes)
    return Compared(tuple(folders), settings, _side_by_side(found), notes, unset)


def _recipe(folder: Path) -> Plain:
    path = stored_recipe(folder)
    document = parse(path.read_text(encoding="utf-8", errors="replace"), str(path))
    document.fail_if_wrong()
    if not isinstance(document.data, dict):
        raise RunFolderError(f"{path} holds no recipe", hint=f"name another run than {folder}")
    return {key: value for key, value in document.data.items() if key not in NOT_COMPARED}


# -- settings ----------------------------------------------------------------------------------------------------


def _settings(recipes: Sequence[Plain]) -> tuple[dict[str, list[Any]], frozenset[tuple[str, int]]]:
    """Paths in which any recipe differs from the first, or from another; of another component its `use` alone."""
    pairs = [(one, other) for at, one in enumerate(recipes) for other in recipes[at + 1 :]]
    paths = dict.fromkeys(each.path for one, other in pairs for each in differences(one, other))
    data = [flat(recipe) for recipe in recipes]
    unset = {(path, at) for path in paths for at, each in enumerate(data) if path not in each}
    return {path: [each.get(path) for each in data] for path in paths}, frozenset(unset)


# -- figures -----------------------------------------------------------------------------------------------------


def _results(folder: Path, recipe: Plain, notes: list[str]) -> Any:
    """What results.json holds; None if there is none, or it is damaged. Notes an unfinished training, too."""
    notes += [f"{folder}: {fault}" for fault in damaged(folder)]
    go_on = f"go on with: {run_command('run --resume', folder)}"
    if not (folder / RESULTS_FILE).is_file():
        notes.append(f"{folder}: not finished (no {RESULTS_FILE}); {go_on}")
        return None
    results = _json(folder / RESULTS_FILE, notes)
    if (short := stopped(recipe, results)) is not None:
        notes.append(f"{folder}: measured before its training was over (after {short}); {go_on}")
    return results


def _other_games(folders: Sequence[Path], results: Sequence[Any]) -> list[str]:
    """Runs whose games are not those of the first one, in name or in content."""
    known = []
    for folder, each in zip(folders, results, strict=True):
        with suppress(AttributeError):  # no results, or not what a run writes
            known += [(folder, digest)] if (digest := games_digest(each)) != UNKNOWN else []
    if len({digest for _, digest in known}) < 2:
        return []
    others = ", ".join(str(folder) for folder, digest in known if digest != known[0][1])
    return [f"not the same games as in {known[0][0]}, in name or in content: {others}"]


def _main_modes(results: Any) -> list[str]:
    splits = _at(results, "evaluation")
    modes = [_at(splits, split, "mode") for split in splits] if isinstance(splits, dict) else []
    return [mode for mode in modes if isinstance(mode, str)]


def _figures(folder: Path, results: Any, notes: list[str], *, name_modes: bool) -> dict[str, dict[str, float]]:
    """Group -> name -> number, of whatever can be read. `name_modes`: say of the main mode, too, which it is."""
    found: dict[str, dict[str, float]] = {}
    if results is not None:
        found["evaluation"] = dict(_numbers(_evaluation(results, name_modes=name_modes)))
        found["training"] = dict(_numbers(_training(results)))
    if (folder / TIMING_FILE).is_file():
        found["timing"] = dict(_numbers(_timing(_json(folder / TIMING_FILE, notes))))
    return found


def _json(path: Path, notes: list[str]) -> Any:
    with suppress(CbrError):
        return read_json(path)
    notes.append(f"{path}: damaged")
    return None


Figures = Iterator[tuple[str, Any]]


def _numbers(figures: Figures) -> Iterator[tuple[str, float]]:
    yield from ((name, value) for name, value in figures if type(value) in (int, float))


def _evaluation(results: Any, *, name_modes: bool) -> Figures:
    """The agent's figures in its main mode, in the others, and the uniform random policy's, split by split."""
    splits = _at(results, "evaluation")
    for split in splits if isinstance(splits, dict) else ():
        for mode in ("", *MODES):
            of = _at(splits, split, *([mode] if mode else []))
            shown = mode or (_at(of, "mode") if name_modes else "")
            for key, title in MEASURED:
                yield f"{split.upper()} {title}{f' ({shown})' if shown else ''}", _at(of, key, "mean")
    for key, title in MEASURED[:2]:
        yield f"gap of {title}", _at(results, "ood_gap", key)


def _training(results: Any) -> Figures:
    for key, title in TRAINING:
        yield title, _at(results, "training", key)
    yield "steps of pretraining", _at(results, "training", "pretraining", "steps")


def _timing(timing: Any) -> Figures:
    yield "seconds", _at(timing, "seconds")
    yield "steps per second", _at(timing, "steps_per_second")
    shares = _at(timing, "shares")
    for part in shares if isinstance(shares, dict) else ():
        yield f"share of {part}", shares[part]


def _at(data: Any, *keys: str) -> Any:
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _side_by_side(found: Sequence[dict[str, dict[str, float]]]) -> dict[str, dict[str, list[float | None]]]:
    groups = dict.fromkeys(group for each in found for group in each)
    return {
        group: {
            name: [each.get(group, {}).get(name) for each in found]
            for name in dict.fromkeys(name for each in found for name in each.get(group, ()))
        }
        for group in groups
    }
