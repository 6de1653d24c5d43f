"""A run's folder -> FILE.cbr, the same bytes for the same run."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cbr_share.card import card
from cbr_share.manifest import MANIFEST_FILE, SCHEMA, SUFFIX, Manifest, Member
from cbr_share.portable import portable_recipe, refuse_places, without_places
from cbrcore import __version__
from cbrcore.config import Part, Recipe, nested_parts
from cbrcore.errors import CbrError, RunFolderError
from cbrcore.recipe.text import dump
from cbrcore.runs import newest_checkpoint
from cbrcore.runs.checkpoint import STATE_FILE, TENSORS_FILE, read_state
from cbrcore.runs.files import damaged, seal, sha256_of, write_atomically, write_tensors, writing
from cbrcore.runs.folder import (
    MEMORY,
    METRICS_FILE,
    RECIPE_FILE,
    RESULTS_FILE,
    VERSIONS_FILE,
    read_json,
    run_command,
)

MODULES = ("agent:", "context_encoder:", "quantizer:")
"""The tensors of a checkpoint that play. The others are the learner's, and a new run has a learner of its own."""
MOMENT = (1980, 1, 1, 0, 0, 0)
"""Of each member: the first that a zip can tell."""


@dataclass(frozen=True)
class Exported:
    """A file that was written, its model card beside it, and what is in it."""

    file: Path
    card: Path
    sha256: str
    manifest: Manifest


def export_run(run: Path, to: Path, stored: Recipe, changed: Recipe, *, overwrite: bool = False) -> Exported:
    """Write a finished run as one file, and its model card.

    Args:
        stored, changed: its recipe, and the same with what was set for the export.

    Raises:
        RunFolderError: it is not finished, or damaged.
        CbrError: its recipe names a path of this machine; or `to` is there already, or has another ending.
    """
    _refuse_target(to, overwrite=overwrite)
    results, checkpoint = _finished(run)
    with tempfile.TemporaryDirectory(prefix="cbr-export-") as made:
        folder = Path(made) / "run"
        recipe = portable_recipe(stored, changed)
        versions = without_places(read_json(run / VERSIONS_FILE))
        _fill(folder, run, checkpoint, recipe, versions, results)
        refuse_places(folder, run, stored)
        manifest = _manifest(folder, changed, versions)
        to.parent.mkdir(parents=True, exist_ok=True)
        _zip(folder, manifest, to)
    digest = sha256_of(to)
    beside = to.with_suffix(".md")
    write_atomically(beside, card(to.name, digest, manifest, recipe, results, versions))
    return Exported(to, beside, digest, manifest)


def _refuse_target(to: Path, *, overwrite: bool) -> None:
    if to.suffix != SUFFIX:
        raise CbrError(f"{to}: a shared run is a file {SUFFIX}", hint=f"name it {to.with_suffix(SUFFIX)}")
    for path in (to, to.with_suffix(".md")):
        if path.exists() and (path.is_dir() or not overwrite):
            raise CbrError(f"{path} is there already", hint="name another file, or replace it with --overwrite")


def _finished(run: Path) -> tuple[dict[str, Any], Path]:
    """(what results.json holds, the checkpoint that it was measured at)."""
    checkpoint = newest_checkpoint(run)
    if not (run / RESULTS_FILE).is_file():
        raise RunFolderError(f"{run} is not finished", hint=f"go on: {run_command('run --resume', run)}")
    if faults := damaged(run):
        raise RunFolderError(f"{run}: {faults[0]}", hint="put a copy of it back: what is damaged is not shared")
    results, plays = read_json(run / RESULTS_FILE), read_state(checkpoint)[1].games_played
    measured = results["training"]["episodes"]
    if measured != plays:
        told = f"{run}: {RESULTS_FILE} was measured after {measured} game plays, its checkpoint is after {plays}"
        raise RunFolderError(told, hint=f"measure it: {run_command('evaluate', run)}")
    return results, checkpoint


def _fill(
    folder: Path,
    run: Path,
    checkpoint: Path,
    recipe: Mapping[str, Any],
    versions: Mapping[str, Any],
    results: Mapping[str, Any],
) -> None:
    """Write what is shared into `folder`, as a run's folder has it."""
    folder.mkdir()
    (folder / RECIPE_FILE).write_text(dump(dict(recipe)), encoding="utf-8")
    for name, data in ((VERSIONS_FILE, versions), (RESULTS_FILE, results)):
        text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)
        write_atomically(folder / name, f"{text}\n", durable=False)
    shutil.copyfile(run / METRICS_FILE, folder / METRICS_FILE)
    if (run / MEMORY).is_dir():
        shutil.copytree(run / MEMORY, folder / MEMORY)
    _fill_checkpoint(folder / "checkpoints" / checkpoint.name, checkpoint, recipe)


def _fill_checkpoint(to: Path, checkpoint: Path, recipe: Mapping[str, Any]) -> None:
    """The same checkpoint with the shared recipe, and without what only its own learner could use."""
    from safetensors.torch import load_file

    to.mkdir(parents=True)
    tensors = load_file(checkpoint / TENSORS_FILE)
    write_tensors(to / TENSORS_FILE, {name: tensors[name] for name in sorted(tensors) if name.startswith(MODULES)})
    state = read_state(checkpoint)[0] | {"recipe": recipe}
    write_atomically(to / STATE_FILE, json.dumps(state), durable=False)
    memories = sorted(path.name for path in checkpoint.iterdir() if path.is_dir())
    for name in memories:
        shutil.copytree(checkpoint / name, to / name)
    seal(to, TENSORS_FILE, STATE_FILE, *memories)


def _manifest(folder: Path, recipe: Recipe, versions: Mapping[str, Any]) -> Manifest:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    loose = {str(name): str(digest) for name, digest in versions.get("plugin_files", {}).items()}
    known, stems = versions.get("plugins", {}), {Path(name).stem for name in loose}
    needed = {use.partition("/")[0] for use in _uses(recipe)} - stems
    return Manifest(
        schema=SCHEMA,
        cbr=__version__,
        name=recipe.name,
        plugins={name: str(known.get(name, "unknown")) for name in sorted(needed)},
        plugin_files=loose,
        members={path.relative_to(folder).as_posix(): Member.of(path) for path in files},
    )


def _uses(settings: Any) -> set[str]:
    """The names of all components that a recipe, or a part of it, is made of; of those who look on none."""
    found = set()
    for name in [*nested_parts(settings), *(["training"] if isinstance(settings, Recipe) else [])]:
        part = getattr(settings, name)
        if isinstance(part, Part):
            found |= {part.use} | _uses(part.settings)
        elif part is not None and name == "training":
            found |= _uses(part)
    return found


def _zip(folder: Path, manifest: Manifest, to: Path) -> None:
    """Write the file whole, or not at all: the manifest, then the members in the order of their names."""
    temporary = to.with_name(f".{to.name}.{os.getpid()}.tmp")
    try:
        with writing(to), zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(_entry(MANIFEST_FILE), manifest.text())
            for name, member in sorted(manifest.members.items()):
                with (folder / name).open("rb") as source, archive.open(_entry(name, member.bytes), "w") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
        temporary.replace(to)
    finally:
        temporary.unlink(missing_ok=True)


def _entry(name: str, size: int = 0) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, MOMENT)
    entry.file_size = size  # a large one has other headers
    entry.create_system, entry.external_attr = 3, 0o644 << 16  # the same on each system
    return entry
