"""Story files of the Jericho plugin: checking, finding, adding, downloading, and the generated story.

Story files are real: the published games, damaged copies of them, and synthetic ones that keep to the Z-machine's
header. Archives are real zips; downloads come from a server on this machine.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine import ordinary_user
from typer.testing import CliRunner

from cbr_jericho.games import games_app
from cbr_jericho.stories import (
    PAPER_GAMES,
    Story,
    add_stories,
    check_story_file,
    fetch_stories,
    find_story,
    generated_story,
    paper_inventory,
    user_games_folder,
)
from cbr_jericho.stories.check import LENGTH_UNIT, MAX_STORY_BYTES, story_fault, story_md5
from cbr_jericho.stories.generated import PREFIX, TEMPLATES, story_path
from cbr_jericho.stories.plot import (
    CLUTTER,
    CONTAINERS,
    DIRECTIONS,
    GOALS,
    ROOMS,
    SUPPORTERS,
    TREASURES,
    Plot,
    draw_plot,
)
from cbr_jericho.stories.titles import titles_by_md5, titles_by_name
from cbrcore.errors import GameError

SMALL = ("905", "detective", "zork1")


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    """No test sees the user's games, or writes beside them."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("CBR_GAMES", raising=False)
    monkeypatch.delenv("CBR_GAMES_URL", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture(scope="session")
def roms(games_dir) -> Path:
    return games_dir / "jericho"


def rom(roms: Path, name: str) -> Path:
    return roms / titles_by_name()[name].file


def synthetic(version: int = 5, units: int = 100) -> bytes:
    """A story file that is sound by its header, and plays nothing."""
    body = bytes(range(256)) * 32
    story = bytearray(64) + body[: units * LENGTH_UNIT[version] - 64]
    story[0] = version
    story[0x1A:0x1C] = units.to_bytes(2, "big")
    story[0x1C:0x1E] = (sum(story[64:]) % 0x10000).to_bytes(2, "big")
    return bytes(story)


def stated_length(story: bytes) -> int:
    """Files are often padded beyond it."""
    return int.from_bytes(story[0x1A:0x1C], "big") * LENGTH_UNIT[story[0]]


def refused(path: Path, **options) -> str:
    with pytest.raises(GameError) as caught:
        check_story_file(path, **options)
    assert caught.value.hint, "an error ends with what to type"
    return str(caught.value)


# Titles


def test_the_papers_games_are_known_to_jericho():
    assert len(PAPER_GAMES) == 33
    assert len({game.md5 for game in PAPER_GAMES.values()}) == 33
    assert all(name == game.name for name, game in PAPER_GAMES.items())
    assert PAPER_GAMES["zork1"].md5 == "b732a93a6244ddd92a9b9a3e3a46c687"
    assert (PAPER_GAMES["zork1"].max_score, PAPER_GAMES["905"].max_score) == (350, 1)


def test_every_paper_game_is_present_and_right(roms):
    for name, game in PAPER_GAMES.items():
        story = check_story_file(rom(roms, name))
        assert story == Story(name, rom(roms, name), game.md5, story.path.read_bytes()[0])
        assert find_story(name, roms) == story
    assert {entry.status for entry in paper_inventory(roms)} == {"present"}
    assert find_story("zork1", roms).version == 3, "although its file is called zork1.z5"


def test_every_other_published_game_is_told_by_its_checksum(roms):
    """57 files; Jericho knows all but lgop.z3."""
    unknown = [path.name for path in sorted(roms.iterdir()) if story_md5(path.read_bytes()) not in titles_by_md5()]
    assert unknown == ["lgop.z3"]
    message = refused(roms / "lgop.z3")
    assert story_md5((roms / "lgop.z3").read_bytes()) in message
    assert all(name in message for name in titles_by_name())
    assert "allow_unknown_rom: true" in message
    assert check_story_file(roms / "lgop.z3", allow_unknown=True).name == "lgop"


def test_importing_and_checking_loads_nothing_heavy():
    code = (
        "import sys, cbr_jericho, cbr_jericho.stories, cbr_jericho.games;"
        "print([name for name in ('torch', 'jericho', 'textworld', 'spacy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# Checking: what is wrong with a file, one message each


FAULTS = {
    "empty": (lambda good: b"", "is empty"),
    "32 bytes": (lambda good: good[:32], "is cut short: 32 bytes, less than a header"),
    "half": (lambda good: good[: len(good) // 2], "is cut short"),
    "last byte missing": (lambda good: good[: stated_length(good) - 1], "is cut short"),
    "inverted bytes": (
        lambda good: good[:200] + bytes(255 - byte for byte in good[200:301]) + good[301:],
        "is damaged: the checksum in its header",
    ),
    "html": (lambda good: b"\n<!DOCTYPE html>\n<html><body>404</body></html>" + b" " * 100, "HTML or XML page"),
    "lfs pointer": (
        lambda good: b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 92160\n",
        "Git LFS pointer",
    ),
    "blorb": (lambda good: b"FORM" + (len(good) + 4).to_bytes(4, "big") + b"IFRS" + good, "blorb container"),
    "zip": (lambda good: b"PK\x03\x04" + good, "zip archive"),
    "glulx": (lambda good: b"Glul" + good, "Glulx"),
    "z6": (lambda good: b"\x06" + good[1:], "version-6 (graphical)"),
    "z7": (lambda good: b"\x07" + good[1:], "its first byte is 7"),
    "text": (lambda good: b"You are standing in an open field." * 9, "its first byte is 89"),
}


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("allow_unknown", [False, True])
@pytest.mark.parametrize("real", [False, True])
def test_damaged_files_are_refused_before_native_code_sees_them(tmp_path, request, kind, allow_unknown, real):
    good = rom(request.getfixturevalue("roms"), "detective").read_bytes() if real else synthetic()
    damage, message = FAULTS[kind]
    path = tmp_path / "detective.z5"
    path.write_bytes(damage(good))
    said = refused(path, allow_unknown=allow_unknown)
    assert str(path) in said
    assert message in said
    assert "cbr games" in said or "Unpack" in said or "git lfs pull" in said


def test_paths_that_are_no_files_are_told_apart(tmp_path):
    (tmp_path / "dir.z8").mkdir()
    (tmp_path / "dangling.z5").symlink_to(tmp_path / "gone.z5")
    (tmp_path / "loop.z5").symlink_to(tmp_path / "loop.z5")
    os.mkfifo(tmp_path / "pipe.z5")
    with (tmp_path / "huge.z5").open("wb") as file:
        file.truncate(1 << 40)
    expected = {
        "missing.z5": "missing.z5: no such file",
        "dir.z8": "dir.z8: is a folder",
        "dangling.z5": f"dangling.z5: a link to nowhere (-> {tmp_path / 'gone.z5'})",
        "loop.z5": "loop.z5: too many levels",
        "pipe.z5": "is a device",
        "huge.z5": "too large for a story file",
    }
    for name, message in expected.items():
        assert message in refused(tmp_path / name)


def test_a_file_that_may_not_be_read_says_so(tmp_path):
    path = tmp_path / "secret.z5"
    path.write_bytes(synthetic())
    path.chmod(0)
    titles_by_md5()
    with ordinary_user():
        said = refused(path)
    assert "secret.z5: permission denied" in said
    assert "chmod u+r" in said


@pytest.mark.parametrize("name", ["detective.z3", "detective.dat", "zork1.z5", "no suffix", "tw-detective.z8"])
def test_the_content_decides_not_the_name(tmp_path, roms, name):
    shutil.copy(rom(roms, "detective"), tmp_path / name)
    story = check_story_file(tmp_path / name)
    assert (story.name, story.version, story.path) == ("detective", 5, tmp_path / name)


def test_a_changed_copy_of_a_supported_game_is_unknown(tmp_path, roms):
    """One byte more: the header is right, but Jericho would score 0 for ever."""
    path = tmp_path / "zork1.z5"
    path.write_bytes(rom(roms, "zork1").read_bytes() + b"\0")
    said = refused(path)
    assert "Jericho does not know" in said
    assert f"its name is that of 'zork1', which has the MD5 {PAPER_GAMES['zork1'].md5}" in said
    assert check_story_file(path, allow_unknown=True) == Story("zork1", path, story_md5(path.read_bytes()), 3)


@pytest.mark.parametrize("version", LENGTH_UNIT)
def test_sound_unknown_stories_of_each_version(tmp_path, version):
    path = tmp_path / "mine.z5"
    path.write_bytes(synthetic(version))
    assert "Jericho does not know" in refused(path)
    assert check_story_file(path, allow_unknown=True).version == version


def test_a_header_without_length_and_checksum_is_not_held_against_a_story():
    story = bytearray(synthetic(3))
    story[0x1A:0x1E] = bytes(4)
    assert story_fault(bytes(story)) is None


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_bytes_give_an_answer(content):
    fault = story_fault(content)
    assert fault is None or (fault.what and fault.hint)


@given(cut=st.integers(0, 799), version=st.sampled_from(sorted(LENGTH_UNIT)))
@settings(max_examples=100, deadline=None)
def test_a_story_that_lost_its_end_is_refused(cut, version):
    whole = synthetic(version, units=800 // LENGTH_UNIT[version])
    assert story_fault(whole) is None
    assert story_fault(whole[: min(cut, len(whole) - 1)]) is not None


@given(place=st.integers(64, 399), change=st.integers(1, 255))
@settings(max_examples=100, deadline=None)
def test_a_story_with_one_wrong_byte_is_refused(place, change):
    story = bytearray(synthetic())
    story[place] = (story[place] + change) % 256
    assert story_fault(bytes(story)) is not None


# Finding


def test_the_games_folder_keeps_to_the_users_settings(tmp_path, monkeypatch):
    assert user_games_folder() == tmp_path / "data" / "cbr" / "games" / "jericho"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_games_folder() == tmp_path / ".local" / "share" / "cbr" / "games" / "jericho"


def test_the_named_folder_comes_first_then_cbr_games_then_the_users_own(tmp_path, monkeypatch, roms):
    shared, own, named = tmp_path / "shared" / "jericho", user_games_folder(), tmp_path / "named"
    for folder in (shared, own, named):
        folder.mkdir(parents=True)
        shutil.copy(rom(roms, "905"), folder / "a.dat")
    shutil.copy(rom(roms, "detective"), own)
    monkeypatch.setenv("CBR_GAMES", str(tmp_path / "shared"))
    assert find_story("905", named).path == named / "a.dat"
    assert find_story("905").path == shared / "a.dat"
    assert find_story("detective").path == own / "detective.z5"
    monkeypatch.delenv("CBR_GAMES")
    assert find_story("905").path == own / "a.dat"
    with pytest.raises(GameError, match="not here"):
        find_story("detective", named)


def test_titles_outside_the_paper_are_found_too(roms):
    assert find_story("zork2", roms).md5 == "5bcd91ee055e9bd42812617571be227b"


def test_unknown_names_get_a_suggestion(roms):
    slips = {"Detective": "detective", "zork1.z5": "zork1", "anchorhead": "anchor"}
    for wrong, meant in slips.items():
        with pytest.raises(GameError, match=f"Did you mean '{meant}'"):
            find_story(wrong, roms)
    with pytest.raises(GameError) as caught:
        find_story("minesweeper", roms)
    assert all(name in str(caught.value) for name in PAPER_GAMES)


def test_a_missing_game_says_where_it_looked_and_what_to_type(tmp_path, monkeypatch, roms):
    (tmp_path / "jericho").mkdir()
    monkeypatch.setenv("CBR_GAMES", str(tmp_path))
    shutil.copy(rom(roms, "905"), tmp_path / "jericho")
    (tmp_path / "jericho" / "zork1.z5").write_bytes(rom(roms, "zork1").read_bytes()[:40_000])
    with pytest.raises(GameError) as caught:
        find_story("zork1")
    said = str(caught.value)
    assert f"{tmp_path / 'jericho'} (1 of 57 supported games)" in said
    assert f"{user_games_folder()} (no such folder)" in said
    assert f"{tmp_path / 'jericho' / 'zork1.z5'} is cut short" in said
    assert "cbr games add PATH" in said
    assert "cbr games fetch" in said


def test_a_folder_that_cannot_be_searched_is_named(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "closed" / "inner").mkdir(parents=True)
    (tmp_path / "closed").chmod(0)
    titles_by_md5()
    with pytest.raises(GameError, match="is not a folder"):
        find_story("zork1", tmp_path / "file")
    with ordinary_user():
        for folder in (tmp_path / "closed", tmp_path / "closed" / "inner"):
            with pytest.raises(GameError, match="permission denied"):
                find_story("zork1", folder)
            assert {entry.status for entry in paper_inventory(folder)} == {"missing"}
            assert len(add_stories([folder]).refused) == 1
    (tmp_path / "closed").chmod(0o700)


def test_a_file_that_changes_is_looked_at_again(tmp_path, roms):
    path = tmp_path / "story"
    shutil.copy(rom(roms, "905"), path)
    assert find_story("905", tmp_path).path == path
    path.write_bytes(rom(roms, "detective").read_bytes())
    assert find_story("detective", tmp_path).path == path
    with pytest.raises(GameError):
        find_story("905", tmp_path)
    path.unlink()
    with pytest.raises(GameError):
        find_story("detective", tmp_path)


def test_the_inventory_tells_present_wrong_and_missing(tmp_path, roms):
    shutil.copy(rom(roms, "905"), tmp_path / "renamed.bin")
    (tmp_path / "detective.z5").write_text("<html>404</html>")
    (tmp_path / "zork3.z5").symlink_to(tmp_path / "gone")
    entries = {entry.name: entry for entry in paper_inventory(tmp_path)}
    assert list(entries) == list(PAPER_GAMES)
    assert (entries["905"].status, entries["905"].path) == ("present", tmp_path / "renamed.bin")
    assert entries["detective"].status == "wrong"
    assert "HTML" in entries["detective"].problem
    assert entries["zork3"].status == "wrong"
    assert sum(entry.status == "missing" for entry in entries.values()) == 30


# Adding


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def games_in_folder() -> set[str]:
    folder = user_games_folder()
    return {str(path.relative_to(folder)) for path in folder.rglob("*")} if folder.exists() else set()


@pytest.fixture
def small(roms) -> dict[str, bytes]:
    """Usual file name -> content of three real games."""
    return {rom(roms, name).name: rom(roms, name).read_bytes() for name in SMALL}


def test_a_file_a_folder_and_a_zip_are_added(tmp_path, small):
    single = tmp_path / "my game.dat"
    single.write_bytes(small["905.z5"])
    folder = tmp_path / "suite" / "deep"
    folder.mkdir(parents=True)
    (folder / "whatever").write_bytes(small["detective.z5"])
    (folder / "README.md").write_text("hello")
    archive = zipped(tmp_path / "games.zip", {"a/b/zork1.z5": small["zork1.z5"], "a/LICENSE": b"text"})
    report = add_stories([single, tmp_path / "suite", archive])
    assert [story.name for story in report.added] == ["905", "detective", "zork1"]
    assert (report.present, report.refused, report.others) == ([], [], 2)
    assert games_in_folder() == set(small)
    for name in SMALL:
        assert find_story(name).path == user_games_folder() / titles_by_name()[name].file


def test_adding_again_changes_nothing_and_mends_what_is_wrong(small, tmp_path):
    archive = zipped(tmp_path / "games.zip", small)
    add_stories([archive])
    (user_games_folder() / "905.z5").write_bytes(b"broken")
    kept = (user_games_folder() / "zork1.z5").stat().st_ino
    report = add_stories([archive, archive])
    assert [story.name for story in report.added] == ["905"]
    assert [story.name for story in report.present] == ["detective", "zork1"]
    assert (user_games_folder() / "zork1.z5").stat().st_ino == kept
    assert find_story("905").path.read_bytes() == small["905.z5"]


def test_an_archive_cannot_write_outside_the_games_folder(tmp_path, small):
    names = ["../../evil.z5", "/abs/zork1.z5", "..\\..\\905.z5", "C:\\detective.z5"]
    archive = zipped(tmp_path / "slip.zip", dict(zip(names, [b"\x05evil" * 40, *small.values()], strict=True)))
    before = {path for path in tmp_path.rglob("*") if "data" not in path.parts}
    report = add_stories([archive])
    assert len(report.added) == 3
    assert games_in_folder() == set(small)
    assert {path for path in tmp_path.rglob("*") if "data" not in path.parts} == before
    assert not Path("/abs").exists()


def test_a_symbolic_link_in_an_archive_is_no_story(tmp_path):
    link = zipfile.ZipInfo("zork1.z5")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    report = add_stories([tmp_path / "link.zip"])
    assert len(report.refused) == 1
    assert games_in_folder() == set()


def test_bombs_are_not_unpacked(tmp_path, small):
    """A member larger than any story is passed over by its stated size, and one that lies is read no further."""
    members = {"bomb.z5": b"\x05" + bytes(64 * MAX_STORY_BYTES), "905.z5": small["905.z5"]}
    archive = zipped(tmp_path / "bomb.zip", members)
    assert archive.stat().st_size < MAX_STORY_BYTES
    report = add_stories([archive])
    assert [story.name for story in report.added] == ["905"]
    assert report.others == 1
    size = (64 * MAX_STORY_BYTES + 1).to_bytes(4, "little")
    (tmp_path / "lying.zip").write_bytes(archive.read_bytes().replace(size, (500).to_bytes(4, "little")))
    assert "cannot be unpacked" in add_stories([tmp_path / "lying.zip"]).refused[0]


def test_too_many_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("cbr_jericho.stories.add.MAX_FILES", 20)
    archive = zipped(tmp_path / "many.zip", {f"{number}": b"" for number in range(21)})
    (tmp_path / "many").mkdir()
    for number in range(21):
        (tmp_path / "many" / f"{number}").touch()
    assert all("more than 20 files" in said for said in add_stories([archive, tmp_path / "many"]).refused)
    assert len(add_stories([archive, tmp_path / "many"]).refused) == 2


def test_what_gives_nothing_is_named_and_the_rest_is_added(tmp_path, small):
    (tmp_path / "good.z5").write_bytes(small["905.z5"])
    (tmp_path / "bad.z5").write_bytes(small["905.z5"][:9999])
    (tmp_path / "nothing").mkdir()
    whole = zipped(tmp_path / "whole.zip", small).read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "flipped.zip").write_bytes(whole[:5000] + bytes(200) + whole[5200:])
    empty = zipped(tmp_path / "empty.zip", {"README": b"no games here"})
    paths = ["missing.z5", "bad.z5", "nothing", "cut.zip", "flipped.zip", empty.name, "good.z5"]
    report = add_stories([tmp_path / name for name in paths])
    assert "905" in [story.name for story in report.added]
    assert len(report.refused) == 6
    for name, said in zip(paths, report.refused, strict=False):
        assert str(tmp_path / name) in said
        assert re.search("no such file|cut short|no story|cannot be unpacked", said)


def test_an_encrypted_archive_is_refused(tmp_path, small):
    plain = zipped(tmp_path / "games.zip", {"905.z5": small["905.z5"]}).read_bytes()
    flags = bytearray(plain)
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        flags[plain.index(signature) + offset] |= 1
    (tmp_path / "secret.zip").write_bytes(flags)
    assert "password required" in add_stories([tmp_path / "secret.zip"]).refused[0]


def test_a_damaged_member_is_named_unless_the_title_is_there_as_well(tmp_path, small):
    damaged = small["zork1.z5"][:100]
    report = add_stories([zipped(tmp_path / "one.zip", {"x/zork1.z5": damaged, "905.z5": small["905.z5"]})])
    assert [story.name for story in report.added] == ["905"]
    assert report.refused == [f"{tmp_path / 'one.zip'}: x/zork1.z5 is cut short: 100 bytes of 84,876"]
    both = zipped(tmp_path / "both.zip", {"x/zork1.z5": damaged, "y/zork1.z5": small["zork1.z5"]})
    assert add_stories([both]).refused == []


def test_a_games_folder_that_cannot_be_written_is_an_error(tmp_path, small):
    (tmp_path / "good.z5").write_bytes(small["905.z5"])
    (tmp_path / "file").touch()
    with pytest.raises(GameError, match="cannot write to the games folder"):
        add_stories([tmp_path / "good.z5"], folder=tmp_path / "file" / "games")


def test_processes_that_add_at_once_leave_whole_files(tmp_path, small):
    archive = zipped(tmp_path / "games.zip", small)
    code = "import sys; from cbr_jericho.stories import add_stories; add_stories(sys.argv[1:])"
    running = [subprocess.Popen([sys.executable, "-c", code, str(archive)]) for _ in range(2)]
    assert [process.wait() for process in running] == [0, 0]
    assert games_in_folder() == set(small)
    assert all((user_games_folder() / name).read_bytes() == content for name, content in small.items())


# Fetching


@dataclass
class Server:
    """A web server with one file. `cut`: bytes of an answer after which it drops the connection."""

    content: bytes = b""
    ranges: bool = True
    etag: str | None = '"v1"'
    sized: bool = True
    cut: int | None = None
    status: int = 200
    seen: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    def answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        self.seen.append(dict(request.headers))
        asked = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", ""))
        start = 0
        if asked and self.ranges and request.headers.get("If-Range") in (None, self.etag):
            start = int(asked[1])
        if start and start >= len(self.content):
            request.send_error(416)
            return
        if self.status != 200:
            request.send_error(self.status)
            return
        request.send_response(206 if start else 200)
        if self.etag:
            request.send_header("ETag", self.etag)
        if self.sized:
            request.send_header("Content-Length", str(len(self.content) - start))
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(self.content) - 1}/{len(self.content)}")
        request.end_headers()
        end = len(self.content) if self.cut is None else min(start + self.cut, len(self.content))
        request.wfile.write(self.content[start:end])


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with contextlib.suppress(OSError):
                state.answer(self)

        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        state.url = f"http://127.0.0.1:{running.server_address[1]}/games.zip"
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        running.shutdown()
        thread.join()


@pytest.fixture
def archive(tmp_path, small) -> bytes:
    return zipped(tmp_path / "games.zip", small).read_bytes()


def fetch_fails(url: str, **options) -> str:
    with pytest.raises(GameError) as caught:
        fetch_stories(url, **options)
    assert caught.value.hint
    return str(caught.value)


def sha256(content: bytes) -> str:
    import hashlib

    return hashlib.sha256(content).hexdigest()


def test_a_download_adds_its_games_and_leaves_nothing_else(server, archive, small):
    server.content = archive
    told: list[tuple[int, int | None]] = []
    report = fetch_stories(
        server.url, sha256=sha256(archive).upper(), progress=lambda done, total: told.append((done, total))
    )
    assert [story.name for story in report.added] == list(SMALL)
    assert games_in_folder() == set(small)
    assert told[0] == (0, len(archive))
    assert told[-1] == (len(archive), len(archive))
    assert told == sorted(told)
    assert len(server.seen) == 1


def test_an_interrupted_download_goes_on_where_it_stopped(server, archive, small):
    server.content, server.cut = archive, 30_000
    said = fetch_fails(server.url)
    assert "stopped after 30,000 bytes" in said
    assert "it goes on from there" in said
    said = fetch_fails(server.url)
    assert "stopped after 60,000 bytes" in said
    server.cut = None
    report = fetch_stories(server.url, sha256=sha256(archive))
    assert len(report.added) == 3
    assert [seen.get("Range") for seen in server.seen] == [None, "bytes=30000-", "bytes=60000-"]
    assert games_in_folder() == set(small)


def test_ctrl_c_in_a_download_is_no_loss(server, archive, small):
    server.content = archive

    def interrupt(done: int, total: int | None) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_stories(server.url, progress=interrupt)
    assert len(fetch_stories(server.url).added) == 3
    assert server.seen[1]["Range"].startswith("bytes=")


@pytest.mark.parametrize(
    ("ranges", "etag"),
    [(False, '"v1"'), (True, None), (True, 'W/"weak"')],
    ids=["no Range support", "nothing to know the file by", "weak ETag"],
)
def test_where_a_download_cannot_go_on_it_starts_again(server, archive, ranges, etag):
    server.content, server.ranges, server.etag, server.cut = archive, ranges, etag, 30_000
    said = fetch_fails(server.url)
    assert ("goes on from there" in said) == (etag == '"v1"')
    server.cut = None
    assert len(fetch_stories(server.url, sha256=sha256(archive)).added) == 3


def test_an_archive_that_changed_meanwhile_is_not_mixed_with_the_old(server, archive, tmp_path, small):
    server.content, server.cut = archive, 30_000
    fetch_fails(server.url)
    newer = zipped(tmp_path / "newer.zip", {"only.z5": small["905.z5"]}).read_bytes()
    server.content, server.etag, server.cut = newer, '"v2"', None
    assert [story.name for story in fetch_stories(server.url, sha256=sha256(newer)).added] == ["905"]


def test_an_archive_that_became_shorter_is_fetched_anew(server, archive, tmp_path, small):
    """The server cannot send what lies behind its end (416): begin again."""
    server.content, server.cut = archive, 60_000
    fetch_fails(server.url)
    shorter = zipped(tmp_path / "shorter.zip", {"only.z5": small["905.z5"]}).read_bytes()
    assert len(shorter) < 60_000
    server.content, server.cut = shorter, None
    assert len(fetch_stories(server.url).added) == 1


def test_a_wrong_checksum_adds_nothing_and_is_not_kept(server, archive):
    server.content = archive
    said = fetch_fails(server.url, sha256="0" * 64)
    assert sha256(archive) in said
    assert games_in_folder() == set()
    assert len(fetch_stories(server.url).added) == 3
    assert "Range" not in server.seen[1]


@pytest.mark.parametrize("status", [403, 404, 503])
def test_a_server_that_refuses_is_quoted(server, status):
    server.status = status
    said = fetch_fails(server.url)
    assert f"answers: {status}" in said
    assert "--url" in said
    assert games_in_folder() == set()


def test_without_a_network_the_error_says_what_to_do_instead(server):
    import socket

    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        said = fetch_fails(f"http://127.0.0.1:{unused.getsockname()[1]}/games.zip")
    assert "cannot be reached" in said
    assert "cbr games add FILE.zip" in said
    assert "generated story" in said
    assert games_in_folder() == set()


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://example.org/a.zip", "games.zip", ""])
def test_only_web_addresses_are_downloaded(url):
    assert "cbr games add PATH" in fetch_fails(url)


def test_a_page_instead_of_an_archive_is_refused(server):
    server.content = b"<html>Sign in to the network</html>"
    assert "HTML" in fetch_fails(server.url)
    assert games_in_folder() == set()


def test_an_archive_of_unknown_size_may_end_early(server, archive):
    """No length, no checksum: the cut is found when the archive is opened."""
    server.content, server.sized, server.cut = archive, False, 50_000
    told: list[int | None] = []
    assert "cannot be unpacked" in fetch_fails(server.url, progress=lambda done, total: told.append(total))
    assert set(told) == {None}
    server.cut = None
    assert len(fetch_stories(server.url).added) == 3


def test_one_download_at_a_time(server, archive):
    server.content = archive

    def again(done: int, total: int | None) -> None:
        assert "is being downloaded already" in fetch_fails(server.url)

    assert len(fetch_stories(server.url, progress=again).added) == 3


# The command line


def cli(*arguments: object):
    return CliRunner().invoke(games_app, [str(argument) for argument in arguments])


def test_list_tells_what_is_there(monkeypatch, games_dir):
    monkeypatch.setenv("CBR_GAMES", str(games_dir))
    result = cli("list")
    lines = result.stdout.splitlines()
    assert len(lines) == 34
    assert lines[1].split() == ["905", "present", str(games_dir / "jericho" / "905.z5")]
    assert "33 of 33 games are here" in result.stderr
    assert "33 of 33" not in result.stdout


def test_list_json_is_data(tmp_path, monkeypatch):
    monkeypatch.setenv("CBR_GAMES", str(tmp_path))
    (tmp_path / "jericho").mkdir()
    (tmp_path / "jericho" / "zork1.z5").write_bytes(b"")
    games = {game["name"]: game for game in json.loads(cli("list", "--json").stdout)}
    assert len(games) == 33
    assert games["zork1"]["status"] == "wrong"
    assert games["zork1"]["problem"].endswith("zork1.z5 is empty")
    assert games["905"] == {
        "name": "905",
        "md5": PAPER_GAMES["905"].md5,
        "max_score": 1,
        "status": "missing",
        "path": None,
        "problem": "",
    }


def test_add_prints_what_was_added_and_fails_for_what_was_not(tmp_path, small):
    archive = zipped(tmp_path / "games.zip", {**small, "README": b"text"})
    result = cli("add", archive, tmp_path / "missing.z5")
    added = [line.split("\t") for line in result.stdout.splitlines()]
    assert added == [["added", name, str(find_story(name).path)] for name in SMALL]
    assert "passed over 1 files" in result.stderr
    assert isinstance(result.exception, GameError)
    assert "missing.z5: no such file" in str(result.exception)
    again = cli("add", archive)
    assert again.exit_code == 0
    assert {line.split("\t")[0] for line in again.stdout.splitlines()} == {"present"}


def test_fetch_takes_the_address_from_the_option_or_the_environment(server, archive, monkeypatch):
    server.content = archive
    result = cli("fetch", "--url", server.url, "--sha256", sha256(archive))
    assert [line.split("\t")[:2] for line in result.stdout.splitlines()] == [["added", name] for name in SMALL]
    assert "third-party" in result.stderr
    assert "MiB" in result.stderr
    monkeypatch.setenv("CBR_GAMES_URL", server.url)
    assert cli("fetch").stdout.count("present") == 3
    assert isinstance(cli("fetch", "--sha256", "0" * 64).exception, GameError)


def test_without_the_plugin_there_is_no_such_command(here, monkeypatch):
    monkeypatch.setenv("CBR_LOAD_PLUGINS", "cbr_twc")
    done = here("games", "list")
    assert (done.returncode, done.stdout) == (2, "")
    _, first, why = done.stderr.splitlines()
    assert first.startswith("error: no such command: 'games'. Choose one of: check, ")
    assert why.startswith("  these plugins are not loaded: ")
    assert "cbr_jericho" in why
    assert why.endswith("unset CBR_LOAD_PLUGINS to have them")


# The generated story


NAMES = (*ROOMS, *CONTAINERS, *SUPPORTERS, *GOALS, *TREASURES, *CLUTTER)
WORDS = [word for name in NAMES for word in name.split()]


def test_no_two_names_share_a_word_that_the_interpreter_can_tell():
    """The Z-machine keeps nine letters of a word; a word of two things would make the game ask which is meant."""
    assert len({word[:9] for word in WORDS}) == len(WORDS)


@given(st.integers(0, 2**63 - 1))
@settings(max_examples=300, deadline=None)
def test_plots_are_solvable_games_of_the_right_size(seed):
    plot = draw_plot(seed)
    assert plot == draw_plot(seed)
    assert 2 <= len(plot.rooms) <= 3
    assert len(plot.directions) == len(plot.rooms) - 1
    assert all(ahead != DIRECTIONS[way] for way, ahead in zip(plot.directions, plot.directions[1:], strict=False))
    names = [*plot.rooms, *(piece.name for piece in (*plot.furniture, plot.goal)), *(i.name for i in plot.items)]
    assert len(set(names)) == len(names)
    kinds = {piece.name: piece.kind for piece in plot.furniture}
    assert plot.start in plot.rooms
    assert {piece.room for piece in (*plot.furniture, plot.goal)} <= set(plot.rooms)
    assert {piece.room for piece in plot.furniture if piece.kind == "c"} == set(plot.rooms)
    assert 2 <= len(plot.treasures) <= 3
    assert all(kinds[item.place] == "c" for item in plot.treasures)
    assert {item.place for item in plot.items} <= {*plot.rooms, *kinds}
    assert len(plot.items) - len(plot.treasures) == 2
    assert plot.max_score == 3 * len(plot.treasures)


def walkthrough(plot: Plot) -> list[str]:
    """Bring each treasure to its place, by the shortest way."""
    rooms = {piece.name: piece.room for piece in plot.furniture}
    put = "put {} on {}" if plot.goal.kind == "s" else "insert {} into {}"
    commands, here = [], plot.start
    for item in plot.treasures:
        commands += [*_way(plot, here, rooms[item.place]), f"open {item.place}", f"take {item.name}"]
        commands += _way(plot, rooms[item.place], plot.goal.room)
        commands += [f"open {plot.goal.name}"] * (plot.goal.kind == "c") + [put.format(item.name, plot.goal.name)]
        here = plot.goal.room
    return commands


def _way(plot: Plot, here: str, there: str) -> list[str]:
    first, last = plot.rooms.index(here), plot.rooms.index(there)
    ahead = [f"go {way}" for way in plot.directions[first:last]]
    return ahead or [f"go {DIRECTIONS[way]}" for way in reversed(plot.directions[last:first])]


def test_walkthroughs_use_the_storys_templates():
    for seed in range(50):
        plot = draw_plot(seed)
        names = [thing.name for thing in (*plot.furniture, plot.goal, *plot.items)]
        for command in walkthrough(plot):
            assert re.sub("|".join(names), "{}", command) in TEMPLATES


SEED = next(seed for seed in range(100) if len(draw_plot(seed).rooms) == 3 and draw_plot(seed).goal.kind == "c")
"""A story with everything: three rooms, and a container to put things into."""

MAKE = """
import json, random, sys
import numpy as np
from pathlib import Path
from cbr_jericho.stories import generated_story
random.seed(1); np.random.seed(1)
expected = random.Random(1).random(), np.random.RandomState(1).rand()
story = generated_story(int(sys.argv[1]), Path(sys.argv[2]))
assert (random.random(), np.random.rand()) == expected
print(story.path)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Path, Path]:
    """Two cache folders, each with the same story, made at once by processes with nothing in common.

    The second held half a story: it is made anew.
    """
    folders = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second")
    damaged = story_path(SEED, folders[1])
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(synthetic(8)[:-1])
    running = [
        subprocess.Popen(
            [sys.executable, "-c", MAKE, str(SEED), str(folder)],
            env={**os.environ, "PYTHONHASHSEED": str(number)},
            cwd=folder,
        )
        for number, folder in enumerate(folders)
    ]
    assert [process.wait() for process in running] == [0, 0]
    return folders


def test_the_same_seed_gives_the_same_file_in_every_process(made):
    first, second = (generated_story(SEED, folder) for folder in made)
    assert first.path.read_bytes() == second.path.read_bytes()
    assert (first.md5, first.name, first.templates) == (second.md5, second.name, TEMPLATES)
    assert first.generated
    assert first.md5 == story_md5(first.path.read_bytes())
    assert first.path.name.startswith(PREFIX)
    assert {path.name for path in first.path.parent.iterdir()} == {first.path.name, f"{first.path.name}.seal"}


def test_a_story_in_the_cache_is_not_made_again(made):
    story = generated_story(SEED, made[0])
    made_at = story.path.stat().st_mtime_ns
    assert generated_story(SEED, made[0]) == story
    assert story.path.stat().st_mtime_ns == made_at
    assert check_story_file(story.path, allow_unknown=True).md5 == story.md5


PLAY = """
import json, sys
import jericho
env = jericho.FrotzEnv(sys.argv[1], 1)
opening, info = env.reset()
played = [[opening, 0, False, info["score"], False]]
for command in json.load(sys.stdin):
    text, reward, done, info = env.step(command)
    played.append([text, reward, done, info["score"], env._world_changed()])
print(json.dumps({"supported": env.is_fully_supported, "max": env.get_max_score(), "won": env.victory(),
                  "lost": env.game_over(), "played": played}))
"""


def play(story: Story, commands: list[str]) -> dict:
    """Run commands in the native interpreter, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PLAY, str(story.path)],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_jericho_plays_the_story_to_its_end(made):
    plot, story = draw_plot(SEED), generated_story(SEED, made[0])
    commands = walkthrough(plot)
    found = play(story, commands)
    assert (found["supported"], found["won"], found["lost"]) == (True, True, False)
    assert found["max"] == plot.max_score
    opening, *steps = found["played"]
    assert opening[0].lstrip().startswith("The museum has lost its treasures")
    assert "$$" not in opening[0]
    assert sum(step[1] for step in steps) == steps[-1][3] == plot.max_score
    assert sorted(step[1] for step in steps if step[1]) == [1] * len(plot.treasures) + [2] * len(plot.treasures)
    assert [step[2] for step in steps] == [False] * (len(steps) - 1) + [True]


def test_every_template_means_something_to_the_story(made):
    """Each changes the world somewhere, and achievements pay once."""
    plot, story = draw_plot(SEED), generated_story(SEED, made[0])
    item, box = plot.treasures[0], {piece.name: piece for piece in plot.furniture}[plot.treasures[0].place]
    shelf = next(piece for piece in plot.furniture if piece.kind == "s")
    commands = [*_way(plot, plot.start, box.room), f"open {box.name}", f"take {item.name}", f"drop {item.name}"]
    commands += [
        f"take {item.name}",
        f"insert {item.name} into {box.name}",
        f"take {item.name}",
        f"close {box.name}",
    ]
    commands += [*_way(plot, box.room, shelf.room), f"put {item.name} on {shelf.name}"]
    steps = play(story, commands)["played"][1:]
    assert [command for command, step in zip(commands, steps, strict=True) if not step[4]] == []
    assert sum(step[1] for step in steps) == 1


def test_templates_are_textworlds_own_commands():
    """Read from TextWorld's rules, where entities are written {o}, {s}, {c} ..."""
    import importlib.util

    spec = importlib.util.find_spec("textworld")
    assert spec is not None
    assert spec.origin is not None
    rules = Path(spec.origin).parent / "generator" / "data" / "logic"
    text = "\n".join(path.read_text("utf-8") for path in rules.glob("*.twl"))
    known = {re.sub(r"\{\w+\}", "{}", command) for command in re.findall(r':: "([^"]*)" :: "', text)}
    assert set(TEMPLATES) <= known


def test_a_cache_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(GameError, match="CBR_CACHE"):
        generated_story(SEED, tmp_path / "file")
