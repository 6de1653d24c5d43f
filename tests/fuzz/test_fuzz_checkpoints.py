"""A checkpoint that is not what was written is refused, or gives exactly the state that was written."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parts import act, item

from cbr_keys.codes import CodeIndex
from cbr_memory.memory import CaseMemory
from cbrcore.errors import CbrError
from cbrcore.runs.checkpoint import Progress, State, latest_checkpoint, load_checkpoint, save_checkpoint
from cbrcore.types import Provenance, StateGraph

FILES = (
    "state.json",
    "tensors.safetensors",
    "checksums.json",
    *(f"{store}/{name}" for store in ("memory", "failures") for name in (
        "cases.jsonl", "situations.jsonl", "keys.safetensors")),
)  # fmt: skip
ORIGIN = Provenance("game", 1, 2, 3, 1.0)
SITUATION = StateGraph.of([("cup", "on", "table")])


def new_memory() -> CaseMemory:
    return CaseMemory(CodeIndex(2, "cpu"), identity="i", failures=CaseMemory(CodeIndex(2, "cpu"), identity="i"))


def write(folder: Path, games: int) -> Path:
    memory = new_memory()
    for number in range(2):
        for store in memory.stores().values():
            key = torch.tensor([number, games % 5], dtype=torch.uint8)
            store.add(item(key, act("take {}", "cup"), SITUATION), ORIGIN, step=games)
    progress = Progress(games_played=games, env_steps=3 * games, recent_scores=[0.5])
    tensors = {"agent:w": torch.arange(3.0) + games, "agent:n": torch.tensor(games)}
    return save_checkpoint(folder, State(progress, tensors, {"numpy": {"agent": [games, 2**60]}}, memory.stores()))


def state(path: Path) -> Any:
    """All that a run goes on from."""
    memory = new_memory()
    progress, tensors, streams = load_checkpoint(path, memory.stores())
    stores = [
        ([asdict(case) for case in store.cases], store.situations, store.index.keys().tolist(), store._next_id)
        for store in memory.stores().values()
    ]
    return asdict(progress), {name: (t.dtype, t.tolist()) for name, t in tensors.items()}, streams, stores


class Pair:
    """Two checkpoints of one run; the newer one is spoilt and mended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.older, self.newer = write(folder, 1), write(folder, 2)
        self.whole = {name: (self.newer / name).read_bytes() for name in FILES}
        self.before, self.after = state(self.older), state(self.newer)

    def mend(self) -> None:
        for name, content in self.whole.items():
            (self.newer / name).parent.mkdir(exist_ok=True)
            (self.newer / name).write_bytes(content)

    def check(self) -> None:
        """The older one is used, or the newer one is what it was; either can be loaded, or is refused in words."""
        try:
            found = latest_checkpoint(self.folder)
            assert found is not None
            assert state(found) == (self.after if found == self.newer else self.before)
            assert state(self.newer) == self.after
        except CbrError as error:
            assert str(self.newer) in str(error)  # noqa: PT017  # said after the older one was found
            assert latest_checkpoint(self.folder) in (self.older, self.newer)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    log = logging.getLogger("cbrcore.runs.checkpoint")
    before = log.level
    log.setLevel(logging.ERROR)  # a warning for each flipped byte
    yield Pair(tmp_path_factory.mktemp("checkpoints"))
    log.setLevel(before)


@pytest.mark.parametrize("name", FILES)
def test_every_flipped_byte_is_refused_or_harmless(pair, name):
    content = bytearray(pair.whole[name])
    for position, byte in enumerate(content):
        content[position] = byte ^ (1 << position % 8)
        (pair.newer / name).write_bytes(content)
        content[position] = byte
        pair.check()
    pair.mend()
    assert latest_checkpoint(pair.folder) == pair.newer


@pytest.mark.parametrize("name", FILES)
def test_every_shorter_file_is_refused_or_harmless(pair, name):
    content = pair.whole[name]
    for length in range(0, len(content), 7):
        (pair.newer / name).write_bytes(content[:length])
        pair.check()
    pair.mend()


def removed(path: Path, _: bytes, __: int) -> None:
    if path.is_file():
        path.unlink()


def folder_instead(path: Path, given: bytes, at: int) -> None:
    removed(path, given, at)
    path.mkdir(exist_ok=True)


def content(make: Callable[[bytes, bytes, int], bytes]) -> Callable[[Path, bytes, int], None]:
    def change(path: Path, given: bytes, at: int) -> None:
        if path.is_file():
            whole = path.read_bytes()
            path.write_bytes(make(whole, given, at % (len(whole) + 1)))

    return change


DAMAGE: dict[str, Callable[[Path, bytes, int], None]] = {
    "removed": removed,
    "a folder": folder_instead,
    "written over": content(lambda whole, given, at: whole[:at] + given + whole[at + len(given) :]),
    "put in": content(lambda whole, given, at: whole[:at] + given + whole[at:]),
    "taken out": content(lambda whole, given, at: whole[:at] + whole[at + 1 + len(given) :]),
    "zeros": content(lambda whole, given, at: whole[:at] + bytes(len(whole) - at)),
    "twice": content(lambda whole, given, at: whole + whole),
}


places = st.integers(0, 9999)
changes = st.tuples(st.sampled_from(FILES), st.sampled_from(sorted(DAMAGE)), st.binary(max_size=6), places)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(done=st.lists(changes, min_size=1, max_size=3))
def test_any_damage_is_refused_or_harmless(pair, done):
    try:
        for name, damage, given_bytes, at in done:
            DAMAGE[damage](pair.newer / name, given_bytes, at)
        pair.check()
    finally:
        shutil.rmtree(pair.newer)
        pair.newer.mkdir()
        pair.mend()


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_checkpoint_is_refused(pair, name):
    if pair.whole[name] != (pair.older / name).read_bytes():
        shutil.copy(pair.older / name, pair.newer / name)
        assert latest_checkpoint(pair.folder) == pair.older
    pair.mend()
