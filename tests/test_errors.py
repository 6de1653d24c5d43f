"""What the operating system refuses, as one line for whoever typed the command; and texts for a terminal."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbrcore.errors import (
    CbrError,
    Interrupted,
    ModelError,
    RecipeError,
    RunFailed,
    closest,
    free_mebibytes,
    link_to_nowhere,
    os_failure,
    printable,
    suggest,
)

ERRORS = [
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENAMETOOLONG, errno.ELOOP,
    errno.EISDIR, errno.ENOTDIR, errno.ENOENT, errno.EIO, errno.EMFILE, errno.ESTALE,
]  # fmt: skip


@pytest.mark.parametrize("number", ERRORS, ids=errno.errorcode.get)
def test_a_refusal_names_path_cause_and_what_to_do(number: int, tmp_path: Path):
    told = os_failure(OSError(number, os.strerror(number), str(tmp_path / "x")))
    assert (told.exit_code, told.message.startswith(f"{tmp_path / 'x'}: {os.strerror(number)}")) == (2, True)
    assert told.hint
    assert ("MiB free" in told.message) == (number in (errno.ENOSPC, errno.EDQUOT))


@pytest.mark.parametrize("name", [".results.json.4711.tmp", ".results.json.tmp"])
def test_a_temporary_name_is_not_what_the_user_knows(name: str):
    assert os_failure(OSError(errno.ENOSPC, "full", f"/a/{name}")).message.startswith("/a/results.json: full")
    assert os_failure(OSError(errno.EACCES, "no", f"/a/{name}/b")).message.startswith("/a/results.json/b: no")


def test_a_path_that_the_error_does_not_know_is_given():
    assert os_failure(OSError(errno.EIO, "broken"), Path("/a/b")).message == "/a/b: broken"
    unknown = os_failure(OSError(errno.EIO, "broken"))
    assert (type(unknown), unknown.message) == (RunFailed, "broken")


def test_links_to_nowhere_are_told_with_their_target(tmp_path: Path):
    (tmp_path / "link").symlink_to("gone")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "here").symlink_to(tmp_path)
    said = f"{tmp_path / 'link'}: a link to nowhere (-> gone)"
    assert link_to_nowhere(tmp_path / "link") == link_to_nowhere(tmp_path / "link" / "below" / "it") == said
    assert "(-> loop)" in str(link_to_nowhere(tmp_path / "loop"))
    assert link_to_nowhere(tmp_path / "here" / "missing") is None


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.EACCES, "see to the permissions there, or name another place"),
        (errno.EPERM, "see to the permissions there, or name another place"),
        (errno.EROFS, "it can only be read there; name another place"),
        (errno.ENOSPC, "make room there, or name another place"),
        (errno.EDQUOT, "make room there, or name another place"),
        (errno.EFBIG, "raise the limit (ulimit -f), or name another place"),
        (errno.ENAMETOOLONG, "take a shorter name"),
        (errno.ELOOP, "the link leads back to itself; name what it should lead to"),
        (errno.EISDIR, "name a file"),
        (errno.ENOTDIR, "a file stands where a folder is needed; name another place"),
        (errno.EEXIST, "something else is there; name another place"),
        (errno.ENOENT, "see whether it is still there, or name another place"),
        (errno.EMFILE, "raise the limit: ulimit -n 4096"),
        (errno.EIO, "try again, or name another place"),
    ],
)
def test_what_to_do_about_a_refusal(number: int, hint: str, tmp_path: Path):
    told = os_failure(OSError(number, "so", os.fsencode(tmp_path / "x")), "elsewhere")
    assert (type(told), told.hint, str(told)) == (CbrError, hint, f"{told.message}\n  {hint}")
    room = f" ({free_mebibytes(str(tmp_path))} MiB free)" if number in (errno.ENOSPC, errno.EDQUOT) else ""
    assert told.message.split("(")[0] == f"{tmp_path / 'x'}: so{room}".split("(")[0]
    assert os_failure(OSError(number, "so")).hint == hint


def test_an_error_without_a_number_is_told_with_its_own_words():
    told = os_failure(OSError("something else"), "/a")
    assert (told.message, told.hint) == ("/a: something else", "try again, or name another place")


def test_room_is_that_of_the_folder_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []

    def usage(path: str) -> SimpleNamespace:
        asked.append(path)
        return SimpleNamespace(free=5 * 2**20 + 17)

    monkeypatch.setattr("cbrcore.errors.shutil.disk_usage", usage)
    (tmp_path / "file").write_text("")
    for path in ("", "a/b/c", "file", "file/x"):
        assert free_mebibytes(str(tmp_path / path)) == 5
    assert free_mebibytes("nothing_here/x") == 5
    assert asked == [str(tmp_path)] * 4 + ["."]


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (CbrError("m"), 2, "m"),
        (CbrError("m", hint=""), 2, "m\n  "),
        (ModelError("m", hint="h"), 2, "m\n  h"),
        (RunFailed("m", hint="h"), 1, "m\n  h"),
        (Interrupted("m"), 130, "m"),
        (RecipeError(["b", "a"], hint="h"), 2, "b\na\n  h"),
    ],
)
def test_an_error_has_its_code_and_its_hint_on_a_line_of_its_own(error: CbrError, code: int, said: str):
    assert (error.exit_code, str(error)) == (code, said)
    assert not isinstance(error, RecipeError) or error.problems == ("b", "a")


WORDS = ["vq", "lsh", "projection", "fsq", "projections"]


@pytest.mark.parametrize(
    ("name", "choices", "best", "said"),
    [
        ("vq", WORDS, "vq", "Did you mean 'vq'?"),
        ("projectoin", WORDS, "projection", "Did you mean 'projection'?"),
        ("lhs", WORDS, "lsh", "Did you mean 'lsh'?"),
        ("qqqq", WORDS, None, "Choose one of: fsq, lsh, projection, projections, vq."),
        ("qqqq", ["b", "a", "b"], None, "Choose one of: a, b."),
        ("x", [], None, "There is none."),
        ("abcdefghij", ["abcdef"], "abcdef", "Did you mean 'abcdef'?"),  # 0.75 alike
        ("abcdefghij", ["abcd"], None, "Choose one of: abcd."),  # 0.57 alike
    ],
)
def test_what_was_probably_meant(name: str, choices: list[str], best: str | None, said: str):
    assert closest(name, iter(choices)) == best
    assert suggest(name, iter(choices)) == said
    assert closest(name, choices, cutoff=1.0) == (name if name in choices else None)


@given(st.text())
def test_nothing_that_does_things_to_a_terminal_is_printable(text: str):
    shown = printable(text, keep="\n\t")
    assert all(letter.isprintable() or letter in "\n\t" or letter.isspace() for letter in shown)
    assert not any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in printable(text))
    assert printable(shown, keep="\n\t") == shown


def test_plain_texts_stay_as_they_are():
    for text in ("", "café au lait", "全角　空白", "[/red] lid [bold]", "a\u00a0b", "100 % \\x1b"):
        assert printable(text) == text
    assert printable("\x1b[2J\a\x9b\u202e\udce9\n") == r"\x1b[2J\x07\x9b\u202e\udce9\n"


# -- commands where nothing can be written -----------------------------------------------------------------------


def read_only(folder: Path) -> Iterator[Path]:
    """A folder in which nobody can write, root neither; None where that cannot be had."""
    if os.geteuid() != 0:
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)
        return
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,ro", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("root, who can write everywhere, and may not mount")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def place(kind: str, folder: Path) -> Iterator[Path]:
    """A place of this kind, where no file can be made."""
    made = folder / kind
    if kind == "read_only":
        made.mkdir()
        yield from read_only(made)
        return
    if kind == "file":
        made.write_text("")
    elif kind == "loop":
        made.symlink_to(made)
    yield folder / ("x" * 300) if kind == "long" else Path("/proc/self") if kind == "proc" else made


@pytest.fixture(params=["read_only", "file", "loop", "long", "proc"])
def unwritable(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    yield from place(request.param, tmp_path)


@pytest.fixture(scope="module")
def trained(here, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("errors") / "run"
    words = ["--set", "evaluation.splits=[]", "--set", "run.episodes=2", "--out", folder]
    assert here("run", SMOKE, *words).returncode == 0
    return folder


SMOKE = Path(__file__).parents[1] / "recipes" / "smoke" / "text_cbr_generated.yaml"
WRITING = {
    "run": ["run", SMOKE, "--out", "{}/run"],
    "pretrain": ["pretrain", SMOKE, "--out", "{}/retriever"],
    "export": ["cases", "export", "RUN", "{}/cases"],
    "page": ["cases", "RUN", "--html", "{}/cases.html"],
    "sweep": ["sweep", SMOKE, "--set", "sweep={seed: [0]}", "--out", "{}/sweep"],
    "import": ["cases", "import", "RUN", "{}/cases"],
    "new-plugin": ["new-plugin", "my_part", "--out", "{}"],
    "schema": ["schema", "--out", "{}/schema.json"],
    "report": ["report", "RUN", "--no-decisions", "--out", "{}/report.html"],
    "figures": ["report", "RUN", "--no-decisions", "--out", "TMP/report.html", "--figures", "{}/figures"],
}


@pytest.mark.parametrize("command", WRITING)
def test_what_cannot_be_written_is_one_line_with_the_path(command, here, trained, unwritable, tmp_path):
    words = [str(word).replace("RUN", str(trained)).replace("TMP", str(tmp_path)) for word in WRITING[command]]
    done = here(*(word.replace("{}", str(unwritable)) for word in words))
    assert done.returncode == 2, done.stderr
    first, *hint = done.stderr[done.stderr.index("error: ") :].splitlines()
    assert str(unwritable) in first or "/proc/" in first
    assert len(hint) <= 2


DEVICES = {
    "schema": ["schema", "--out", "{}"],
    "page": ["cases", "RUN", "--html", "{}"],
    "report": ["report", "RUN", "--no-decisions", "--out", "{}"],
    "figures": ["report", "RUN", "--no-decisions", "--out", "TMP/report.html", "--figures", "{}"],
    "export": ["cases", "export", "RUN", "{}"],
    "run": ["run", SMOKE, "--out", "{}"],
    "pretrain": ["pretrain", SMOKE, "--out", "{}"],
    "sweep": ["sweep", SMOKE, "--set", "sweep={seed: [0]}", "--out", "{}"],
}


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A device as /dev/full is one, to be put at risk."""
    (tmp_path / "dev").mkdir()
    device = tmp_path / "dev" / "full"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.stat("/dev/full").st_rdev)
        device.write_bytes(b"")
    except OSError:
        pytest.skip("no device can be made here")
    return device


@pytest.mark.parametrize("command", DEVICES)
def test_a_device_stays_one_whatever_is_written_there(command, here, trained, full, tmp_path):
    words = [str(word).replace("RUN", str(trained)).replace("TMP", str(tmp_path)) for word in DEVICES[command]]
    done = here(*(word.replace("{}", str(full)) for word in words))
    assert (done.returncode, full.is_char_device()) == (2, True), done.stderr
    assert str(full) in done.stderr[done.stderr.index("error: ") :].splitlines()[0]
    assert list(full.parent.iterdir()) == [full]


@pytest.mark.parametrize("what", ["loop", "folder", "nowhere"])
@pytest.mark.parametrize("command", ["schema", "page", "report"])
def test_what_is_no_file_is_not_replaced_by_one(command, what, here, trained, tmp_path):
    at = tmp_path / what
    if what == "folder":
        at.mkdir()
    else:
        at.symlink_to({"loop": at, "nowhere": tmp_path / "gone" / "it"}[what])
    words = [str(word).replace("RUN", str(trained)) for word in DEVICES[command]]
    done = here(*(word.replace("{}", str(at)) for word in words))
    assert done.returncode == 2, done.stderr
    assert str(at) in done.stderr[done.stderr.index("error: ") :].splitlines()[0]
    assert at.is_symlink() == (what != "folder")
    assert not (tmp_path / f"{what}_tables").exists()


def test_a_command_of_a_plugin_that_is_refused_a_file_tells_it_alike(site):
    from plugin_fixtures import run_cbr

    site.plugin("lab", PLUGIN)
    done = run_cbr("touch", "/proc/nothing/here")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: /proc/nothing/here: No such file or directory\n  ")
    assert run_cbr("touch", "/proc/nothing/here", env={"CBR_TRACEBACK": "1"}).stderr.count("Traceback") == 1


PLUGIN = """\
from pathlib import Path
from cbrcore import hookimpl

def touch(path: Path):
    path.write_text("")

@hookimpl
def register_commands(registry):
    registry.add("touch", factory="lab:touch")
"""


def test_a_full_disk_for_results_is_an_error():
    full = "cbr list-plugins >/dev/full"
    done = subprocess.run(full, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "error: standard output: No space left on device")


def test_an_os_failure_is_an_error_of_the_user():
    assert isinstance(os_failure(OSError(errno.EACCES, "no", "/x")), CbrError)
