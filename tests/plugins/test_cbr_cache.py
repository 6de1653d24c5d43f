"""Caches on disk give what was put there, or nothing."""

from __future__ import annotations

import logging
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from machine import ordinary_user

from cbr_cache.checksums import Checksums, file_state
from cbr_cache.database import Database, Table
from cbr_cache.entries import Entries
from cbr_cache.sealed import is_whole, keep
from cbr_cache.tally import shared_tally

TABLE = Table("things", "made_by", "name", "content")
VALUES = {f"key {n}".encode(): random.Random(n).randbytes(40 + n) for n in range(60)}


def entries(path: Path, identity: str = "one", **settings) -> Entries:
    return Entries(Database(path, "the cache of things", (TABLE,), **settings), TABLE, identity)


def damage(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement, values).rowcount > 0


@pytest.fixture
def path(tmp_path) -> Path:
    path = tmp_path / "deep" / "things.sqlite3"
    entries(path).put(VALUES)
    return path


# Checksums


def test_a_checksum_tells_identity_key_and_value_apart_wherever_they_are_cut():
    made = [
        Checksums(identity).of(key, value)
        for identity, key, value in [
            ("a", b"b", b"c"), ("ab", b"", b"c"), ("", b"ab", b"c"), ("a", b"bc", b""), ("a", b"", b"bc"),
            ("", b"", b"abc"), ("abc", b"", b""), ("b", b"a", b"c"), ("a", b"c", b"b"),
        ]
    ]  # fmt: skip
    assert len(set(made)) == len(made)
    assert {len(checksum) for checksum in made} == {16}


# Entries


def test_values_are_found_again_and_identities_kept_apart(path):
    assert entries(path).get([*VALUES, b"unknown"]) == VALUES
    assert entries(path, "two").get(VALUES) == {}
    assert all(entries(path).find(key) == value for key, value in VALUES.items())


def test_the_first_value_stays(path):
    key = next(iter(VALUES))
    entries(path).put({key: b"another"})
    assert entries(path).find(key) == VALUES[key]


def flip(content: bytes, rng: random.Random, bits: int = 1) -> bytes:
    changed = bytearray(content)
    for _ in range(bits):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


Change = Callable[[bytes, random.Random], object]
CHANGES: dict[str, Change] = {
    "a bit": lambda value, rng: flip(value, rng),
    "some bits": lambda value, rng: flip(value, rng, 5) + b"!",
    "cut short": lambda value, rng: value[: rng.randrange(len(value))],
    "longer": lambda value, rng: value + rng.randbytes(1),
    "emptied": lambda value, rng: b"",
    "null": lambda value, rng: None,
    "a number": lambda value, rng: rng.choice([5, 0, -1, 2**62]),
    "a fraction": lambda value, rng: 0.5,
    "text": lambda value, rng: rng.choice(["", "5", "[]", "é", "\ud7ff"]),
    "of another": lambda value, rng: rng.choice([other for other in VALUES.values() if other != value]),
}


@pytest.mark.parametrize("column", ["content", "checksum"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_damaged_entry_is_as_good_as_none_and_is_replaced(path, change, column, caplog):
    rng = random.Random(change)
    damaged = rng.sample(sorted(VALUES), 12)
    with closing(sqlite3.connect(path)) as raw, raw:
        for key in damaged:
            ((before,),) = raw.execute(f"SELECT {column} FROM things WHERE name = ?", (key,))
            raw.execute(f"UPDATE things SET {column} = ? WHERE name = ?", (CHANGES[change](before, rng), key))
    store = entries(path)
    with caplog.at_level(logging.DEBUG):
        assert store.get(VALUES) == {key: value for key, value in VALUES.items() if key not in damaged}
        assert store.find(damaged[0]) is None
    assert [record.levelname for record in caplog.records].count("WARNING") == 1
    assert [record.levelname for record in caplog.records].count("DEBUG") == len(damaged) + 1
    store.put({key: VALUES[key] for key in damaged})
    assert entries(path).get(VALUES) == VALUES


def test_entries_that_changed_places_are_wrong(path):
    one, two = list(VALUES)[:2]
    damage(path, "UPDATE things SET name = 'aside' WHERE name = ?", one)
    damage(path, "UPDATE things SET name = ? WHERE name = ?", one, two)
    damage(path, "UPDATE things SET name = ? WHERE name = 'aside'", two)
    assert entries(path).get([one, two]) == {}


def test_entries_of_another_identity_under_this_one_are_wrong(path):
    damage(path, "UPDATE things SET made_by = 'two'")
    store = entries(path, "two")
    assert store.get(VALUES) == {}
    store.put(VALUES)
    assert entries(path, "two").get(VALUES) == VALUES


def test_the_total_is_told_when_nobody_needs_the_cache_any_more(path, caplog):
    damage(path, "UPDATE things SET content = x'00'")
    for _ in range(2):
        entries(path).get([b"unknown"])
    assert caplog.messages == []
    one, other = entries(path), entries(path)  # as the parts of a run are built several times
    one.get(list(VALUES)[:20])
    other.get(list(VALUES)[20:50])
    assert len(caplog.messages) == 1
    assert str(path) in caplog.text
    del one, other
    assert len(caplog.messages) == 2
    assert "50 entries" in caplog.messages[1]


def test_a_tally_is_shared_as_long_as_somebody_has_it(caplog):
    first, second = shared_tally("the cache"), shared_tally("the cache")
    assert first is second
    first.add("an entry", "is damaged")
    assert second.entries == 1
    del first, second
    assert shared_tally("the cache").entries == 0
    assert len(caplog.messages) == 1, "the only one was told"


def test_a_reader_can_refuse_what_has_the_right_checksum(path):
    key = next(iter(VALUES))
    store = entries(path)
    store.refuse(key, "is too old")
    store.put({key: b"new"})
    assert store.find(key) == b"new"


# The file


def heals(path: Path) -> bool:
    """Whether what is put is there in the end. Some damage is met only in writing; the rest goes then as well."""
    store = entries(path)
    for _ in range(10):
        found = store.get(VALUES)
        assert found.items() <= VALUES.items(), "never a wrong value"
        if found == VALUES:
            return True
        store.put({key: value for key, value in VALUES.items() if key not in found})
    return False


def test_no_bit_of_the_file_can_make_it_lie(path):
    """What is given is right; what is not given can be put again, and is then there (in all but one of 4,000)."""
    sound, healed = path.read_bytes(), 0
    for seed in range(250):
        rng = random.Random(seed)
        for beside in path.parent.iterdir():
            beside.unlink()
        path.write_bytes(flip(sound, rng, bits=rng.choice([1, 1, 1, 20, 500])))
        healed += heals(path)
    assert healed >= 248


@pytest.mark.parametrize("seed", range(12))
def test_a_file_cut_short_cannot_lie(path, seed):
    sound = path.read_bytes()
    path.write_bytes(sound[: random.Random(seed).randrange(len(sound)) if seed else 0])
    assert heals(path)


@pytest.mark.parametrize("keep_open", [False, True])
@pytest.mark.parametrize(
    "content", [b"this is no data base " * 200, b"\0" * 5000, b"SQLite format 3\0" + b"\xff" * 9000]
)
def test_garbage_is_put_aside_with_one_warning(path, content, keep_open, caplog):
    path.write_bytes(content)
    store = entries(path, keep_open=keep_open)
    assert store.get(VALUES) == {}
    store.put(VALUES)
    assert store.get(VALUES) == VALUES
    assert len(caplog.messages) == 1
    assert str(path) in caplog.text
    assert path.with_name(f"{path.name}.damaged").read_bytes() == content


def test_garbage_that_comes_while_the_cache_is_in_use(path):
    store = entries(path, keep_open=True)
    assert store.get(VALUES) == VALUES
    with path.open("r+b") as file:
        file.write(b"garbage " * 2000)
    assert store.get(VALUES).items() <= VALUES.items()
    again = entries(path)
    again.put(VALUES)
    assert again.get(VALUES) == VALUES


def test_tables_of_another_version_are_emptied_and_others_left_alone(tmp_path):
    path = tmp_path / "things.sqlite3"
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("CREATE TABLE things (made_by TEXT, name BLOB, content BLOB, PRIMARY KEY (made_by, name))")
        raw.executemany("INSERT INTO things VALUES ('one', ?, ?)", VALUES.items())
        raw.execute("CREATE TABLE others (name TEXT)")
        raw.execute("INSERT INTO others VALUES ('stays')")
    store = entries(path)
    assert store.get(VALUES) == {}
    store.put(VALUES)
    assert entries(path).get(VALUES) == VALUES
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("SELECT * FROM others").fetchall() == [("stays",)]


def unusable(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is said once, and nothing breaks."""
    caplog.clear()
    store = entries(path, patience=0.01)
    for _ in range(3):
        store.put(VALUES)
        assert store.get(VALUES).items() <= VALUES.items()
    assert len(caplog.messages) == 1
    assert str(path) in caplog.text
    assert "is not used" in caplog.text


def test_a_folder_in_its_place(tmp_path, caplog):
    (tmp_path / "things.sqlite3").mkdir()
    unusable(tmp_path / "things.sqlite3", caplog)


def test_a_file_where_the_folder_should_be(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    unusable(tmp_path / "file" / "things.sqlite3", caplog)


@pytest.mark.parametrize("mode", ["EXCLUSIVE", "IMMEDIATE"])
def test_a_lock_of_another_process(path, caplog, mode):
    with closing(sqlite3.connect(path, isolation_level=None)) as blocker:
        blocker.execute(f"BEGIN {mode}")
        unusable(path, caplog)
    assert entries(path).get(VALUES) == VALUES, "nothing was put aside"


@pytest.mark.parametrize("closed", ["file", "folder", "read-only folder"])
def test_what_may_not_be_read_or_written(path, caplog, closed):
    folder = path.parent
    for parent in [folder, *folder.parents]:
        if parent.name.startswith("pytest-of-"):
            break
        parent.chmod(0o755)
    parent.chmod(0o755)
    (path if closed == "file" else folder).chmod(0o555 if closed == "read-only folder" else 0)
    with ordinary_user():
        unusable(path, caplog)
    folder.chmod(0o755)
    path.chmod(0o644)
    assert entries(path).get(VALUES) == VALUES


def test_a_full_disk(path, caplog):
    """As the system tells it of a file that may not grow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    large = {f"large {n}".encode(): os.urandom(100_000) for n in range(20)}
    store = entries(path)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
        store.put(large)
        assert store.get(VALUES).items() <= VALUES.items()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert len(caplog.messages) == 1
    assert "is not used" in caplog.text
    assert entries(path).get([*VALUES, *large]) == VALUES


@pytest.mark.parametrize("mode", ["DEFERRED", "IMMEDIATE", "EXCLUSIVE"])
def test_another_process_that_has_just_made_the_file_is_waited_for(tmp_path, caplog, mode):
    path = tmp_path / "things.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as first:
        first.execute("CREATE TABLE others (x)")
        first.execute(f"BEGIN {mode}")
        first.execute("SELECT * FROM others").fetchall()
        leaves = threading.Timer(0.3, first.execute, ["COMMIT"])
        leaves.start()
        entries(path, patience=60.0).put(VALUES)
        leaves.join()
    assert entries(path).get(VALUES) == VALUES
    assert not caplog.messages


_WRITER = """
import os, sys, pathlib
from cbr_cache.database import Database, Table
from cbr_cache.entries import Entries
table = Table("things", "made_by", "name", "content")
store = Entries(Database(pathlib.Path(sys.argv[1]), "the cache", (table,), patience=60), table, "one")
for n in range(100):
    store.put({b"%d" % n: b"%d" % n * 1000, b"%s %d" % (sys.argv[2].encode(), n): b"own"})
    if sys.argv[2] == "killed" and n == 50:
        os.kill(os.getpid(), 9)
"""


def test_several_processes_write_at_once_and_one_is_killed(tmp_path):
    path = tmp_path / "things.sqlite3"
    names = ("a", "b", "killed")
    running = [subprocess.Popen([sys.executable, "-c", _WRITER, path, name]) for name in names]
    assert [process.wait(120) for process in running] == [0, 0, -9]
    wanted = [b"%d" % n for n in range(100)]
    assert entries(path).get(wanted) == {key: key * 1000 for key in wanted}


# Files with seals


@pytest.fixture
def sealed(tmp_path) -> Path:
    path = tmp_path / "kept" / "story.z8"
    path.parent.mkdir()
    made(tmp_path, path, b"a story " * 200)
    return path


def made(tmp_path: Path, path: Path, content: bytes, identity: str = "one") -> None:
    fresh = tmp_path / "making" / "fresh"
    fresh.parent.mkdir(exist_ok=True)
    fresh.write_bytes(content)
    keep(fresh, path, identity)


def test_a_kept_file_is_whole_for_its_identity_and_name_alone(tmp_path, sealed, caplog):
    assert is_whole(sealed, "one")
    assert not is_whole(sealed.with_name("missing"), "one")
    assert caplog.messages == []
    assert not is_whole(sealed, "two")
    other = sealed.with_name("other.z8")
    sealed.rename(other)
    sealed.with_name("story.z8.seal").rename(sealed.with_name("other.z8.seal"))
    assert not is_whole(other, "one")
    assert not list((tmp_path / "making").iterdir())


def test_no_bit_of_a_kept_file_or_its_seal_can_lie(sealed):
    for place in (sealed, sealed.with_name("story.z8.seal")):
        sound = place.read_bytes()
        for seed in range(200):
            rng = random.Random(seed)
            changed = flip(sound, rng) if seed % 2 else sound[: rng.randrange(len(sound))]
            place.write_bytes(changed)
            assert not is_whole(sealed, "one")
        place.write_bytes(sound)
    assert is_whole(sealed, "one")


@pytest.mark.parametrize("which", ["story.z8", "story.z8.seal"])
@pytest.mark.parametrize("kind", ["missing", "folder", "link to nowhere", "device", "unreadable"])
def test_what_stands_in_the_place_of_a_kept_file_is_replaced(tmp_path, sealed, which, kind):
    place = sealed.with_name(which)
    place.unlink()
    if kind == "folder":
        (place / "deep").mkdir(parents=True)
    elif kind == "link to nowhere":
        place.symlink_to("nowhere")
    elif kind == "device":
        place.symlink_to("/dev/null")
    elif kind == "unreadable":
        place.write_bytes(b"")
        place.chmod(0)
    assert not is_whole(sealed, "one")
    made(tmp_path, sealed, b"anew")
    assert is_whole(sealed, "one")
    assert sealed.read_bytes() == b"anew"
    assert not sealed.is_symlink()


def test_killed_between_the_two_moves(tmp_path, sealed):
    """Whichever of the two is newer, the pair does not fit."""
    old = {path: path.read_bytes() for path in sealed.parent.iterdir()}
    made(tmp_path, sealed, b"another")
    new = {path: path.read_bytes() for path in sealed.parent.iterdir()}
    for stays in old:
        for path in new:
            path.write_bytes(old[path] if path == stays else new[path])
        assert not is_whole(sealed, "one")


# The state of a file


def _replaced(path: Path, content: bytes) -> None:
    fresh = path.with_name("fresh")
    fresh.write_bytes(content)
    status = path.stat()
    os.utime(fresh, ns=(status.st_atime_ns, status.st_mtime_ns))
    fresh.rename(path)


def _written_over(path: Path, content: bytes) -> None:
    status = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("change", [_replaced, _written_over])
def test_a_file_changed_within_its_size_and_time_has_another_state(tmp_path, change):
    path = tmp_path / "weights"
    path.write_bytes(b"one")
    before = path.stat()
    state = file_state(path)
    assert file_state(path) == state
    while True:  # until the system's clock has ticked
        change(path, b"two")
        if path.stat().st_ctime_ns != before.st_ctime_ns:
            break
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert file_state(path) != state


def test_a_link_that_points_elsewhere_has_another_state(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(b"same")
    link = tmp_path / "link"
    link.symlink_to("one")
    state = file_state(link)
    link.unlink()
    link.symlink_to("two")
    assert file_state(link) != state
