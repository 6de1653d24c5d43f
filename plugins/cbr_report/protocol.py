"""What one must know to judge the numbers, and to make them again: handicaps, protocol, versions, commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cbr_report.runs import Group, Run, SweepFile
from cbr_report.tables import NOTHING, text_columns
from cbrcore import Column, Table
from cbrcore.runs.folder import RECIPE_FILE, plugin_files

NOT_PROTOCOL = ("games", "seed", "handicaps")


def protocol_tables(groups: Sequence[Group]) -> list[Table]:
    """Handicaps and protocol, then versions."""
    return [_handicaps(groups), _protocol(groups), _versions([run for group in groups for run in group.runs])]


def _handicaps(groups: Sequence[Group]) -> Table:
    """One row for each different thing that makes the task easier, with those who have it."""
    having: dict[tuple[str, str], list[str]] = {}
    for group in groups:
        for name, value in dict(_of(group, "handicaps") or {}).items():
            having.setdefault((str(name), str(value)), []).append(f"{group.agent} ({group.place})")
    rows = tuple(
        (name, value, "all" if len(who) == len(groups) else ", ".join(who))
        for (name, value), who in having.items()
    )
    return Table(
        "handicaps",
        "What makes the task easier than the bare text game",
        text_columns("Handicap", "What", "Who"),
        rows,
    )


def _protocol(groups: Sequence[Group]) -> Table:
    names = dict.fromkeys(
        name
        for group in groups
        for name in _plain(group.runs[0].results.get("protocol"))
        if name not in NOT_PROTOCOL
    )
    rows = tuple(
        (
            group.place,
            group.agent,
            ", ".join(str(run.seed) for run in group.runs),
            *(_said(_of(group, name)) for name in names),
            group.budget,
            group.steps,
        )
        for group in groups
    )
    titles = [name.replace("_", " ").capitalize() for name in names]
    return Table(
        "protocol", "Protocol", text_columns("Games", "Agent", "Seeds", *titles, "Training", "Steps"), rows
    )


def _versions(runs: Sequence[Run]) -> Table:
    """Every version that any of the runs used, and how many did."""
    counts: dict[str, dict[str, int]] = {}
    for run in runs:
        for name, version in _flat_versions(run.versions):
            of_name = counts.setdefault(name, {})
            of_name[version] = of_name.get(version, 0) + 1
    rows = tuple((name, version, str(count)) for name, found in counts.items() for version, count in found.items())
    return Table("versions", "Versions", (*text_columns("What", "Version"), Column("Runs")), rows)


def _flat_versions(versions: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for name, value in versions.items():
        if name in ("starts", "plugin_files"):
            continue  # every start of the run; the table tells the last one
        if isinstance(value, Mapping):
            yield from ((str(inner), _said(version)) for inner, version in value.items())
        else:
            yield name.replace("_", " "), _said(value)


def commands(
    groups: Sequence[Group], sweeps: Sequence[SweepFile], folders: Sequence[Path], out: Path
) -> list[str]:
    """What makes these runs again, and this page."""
    lines = []
    for sweep in sweeps:
        lines += [
            f"# {len(sweep.runs)} runs; what is done is skipped",
            sweep.command,
        ]
    for group in groups:
        if group.runs[0].sweep is None:
            seeds = " ".join(dict.fromkeys(str(run.seed) for run in group.runs))
            words = [str(group.runs[0].path / RECIPE_FILE), *_with_files(group.runs[:1])]
            lines += [
                f"# {group.agent}, {group.place}",
                f"for seed in {seeds}; do cbr run {shlex.join(words)} --seed $seed --out NEW_FOLDER-$seed; done",
            ]
    page = ["cbr", "report", *map(str, folders), *_with_files(run for each in groups for run in each.runs)]
    return [*lines, "# this page", shlex.join([*page, "--out", str(out)])]


def _with_files(runs: Iterable[Run]) -> list[str]:
    """The options that name the loose plugin files of these runs."""
    files = dict.fromkeys(file for run in runs for file in plugin_files(run.path))
    return [word for file in files for word in ("--plugin", file)]


def _of(group: Group, name: str) -> Any:
    return _plain(group.runs[0].results.get("protocol")).get(name)


def _plain(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _said(value: Any) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, list):
        return "; ".join(" = ".join(map(str, each)) if isinstance(each, list) else str(each) for each in value)
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
