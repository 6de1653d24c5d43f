"""The files of the TWC benchmark that hold commonsense triples."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path

import yaml

from cbr_cache.checksums import FileState, file_state
from cbr_commonsense.triples import TripleBase
from cbrcore.errors import CbrError
from cbrcore.types import Triple

log = logging.getLogger(__name__)

CONCEPTNET_FILE = "conceptnet_subgraph.txt"
MANUAL_FOLDER = "manual_subgraph_{detail}"
WHERE = (
    f"the TWC benchmark (github.com/IBM/commonsense-rl) has a {CONCEPTNET_FILE} of 3 to 8 MB, and folders"
    " manual_subgraph_brief and _complete, in games/twc/LEVEL/SPLIT"
)

_GZIP = b"\x1f\x8b"


def read_triples(path: Path) -> list[Triple]:
    """The triples of a file: one a line, head, relation and tail apart by tabs or spaces.

    Raises:
        CbrError: the file cannot be read, is compressed, holds none, or a line has not three columns.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CbrError(f"cannot read {path}: {error.strerror}", hint=WHERE) from error
    if content.startswith(_GZIP):
        raise CbrError(f"{path} is compressed", hint=f"gunzip it, and name it {CONCEPTNET_FILE}")
    rows = [line.split() for line in content.decode("utf-8-sig", errors="replace").lower().split("\n")]
    for number, row in enumerate(rows, start=1):
        if len(row) not in (0, 3):
            raise CbrError(
                f"{path}:{number}: {len(row)} columns; a triple has three: head, relation, tail", hint=WHERE
            )
    triples = [(row[0], row[1], row[2]) for row in rows if row]
    if not triples:
        raise CbrError(f"{path} holds no triples", hint=WHERE)
    return triples


def conceptnet(path: Path) -> TripleBase:
    """The triples of a file, or of every `CONCEPTNET_FILE` in a folder.

    Raises:
        CbrError: there is none; see `read_triples`.
    """
    files = sorted(path.rglob(CONCEPTNET_FILE)) if path.is_dir() else [path]
    if not files:
        raise CbrError(f"no {CONCEPTNET_FILE} in {path} or below", hint=WHERE)
    if missing := [file for file in files if not file.is_file()]:
        raise CbrError(f"no file {missing[0]}", hint=WHERE)
    return triples_of(files)


def triples_of(files: Sequence[Path]) -> TripleBase:
    """The triples of several files as one base; CbrError: see `read_triples`."""
    log.info("commonsense from %s", ", ".join(map(str, files)))
    return _merged(tuple((file, file_state(file)) for file in files))


@lru_cache(maxsize=2)
def _merged(files: tuple[tuple[Path, FileState], ...]) -> TripleBase:
    """Read once per process: the parts of one run are built several times (training, evaluation, play)."""
    return TripleBase(dict.fromkeys(triple for file, _ in files for triple in read_triples(file)))


def manual(path: Path, detail: str) -> dict[str, TripleBase]:
    """Game id -> the triples of its graph by hand: of the .tsv files in `path`, or in its folders of that detail.

    Raises:
        CbrError: there is none; see `read_triples`.
    """
    if not path.is_dir():
        raise CbrError(f"no folder {path}", hint=WHERE)
    files = sorted(path.glob("*.tsv")) or sorted(path.rglob(f"{MANUAL_FOLDER.format(detail=detail)}/*.tsv"))
    if not files:
        raise CbrError(f"no graphs by hand (.tsv) in {path}, nor in a {detail} folder below it", hint=WHERE)
    return {game_id(file.stem): TripleBase(read_triples(file)) for file in files}


def game_id(name: str) -> str:
    """The last piece of the name of a game, or of the file that goes with it."""
    return name.rpartition("-")[2]


@lru_cache(maxsize=1)
def household() -> TripleBase:
    """The triples that come with this package."""
    source = resources.files("cbr_commonsense").joinpath("household.yaml").read_text(encoding="utf-8")
    return TripleBase(_flat(yaml.safe_load(source)))


def _flat(relations: dict[str, dict[str, Sequence[str]]]) -> list[Triple]:
    return [
        (head, relation, tail)
        for relation, tails in relations.items()
        for tail, heads in tails.items()
        for head in heads
    ]
