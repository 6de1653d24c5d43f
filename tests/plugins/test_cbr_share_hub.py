"""`cbr push` and `cbr pull` speak with a hub over HTTP: one of the tests' own, on this machine."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hub_server import LARGE, TOKEN, serving

pytest.importorskip("huggingface_hub")

ROOT = Path(__file__).parents[2]
SMOKE = ROOT / "recipes" / "smoke" / "text_cbr_generated.yaml"
PAGE = (ROOT / "docs" / "sharing.md").read_text()


@pytest.fixture(scope="module")
def file(here, tmp_path_factory) -> Path:
    """A shared run, with its card beside it."""
    folder = tmp_path_factory.mktemp("hub")
    words = ("--set", "run.episodes=1", "--set", "evaluation={splits: [in], passes: 1, random_passes: 1}")
    assert here("run", SMOKE, *words, "--out", folder / "run").returncode == 0
    assert here("export", folder / "run", folder / "tidy.cbr").returncode == 0
    assert (folder / "tidy.cbr").stat().st_size > LARGE > (folder / "tidy.md").stat().st_size
    return folder / "tidy.cbr"


@pytest.fixture
def hub():
    with serving() as found:
        yield found


@pytest.fixture
def speak(cbr, hub, tmp_path):
    """Runs a command that knows the hub, in an empty folder."""

    def call(*words: object, **env: str):
        known = {"HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "0",
                 "HF_HUB_DISABLE_XET": "1"}  # fmt: skip
        (tmp_path / "here").mkdir(exist_ok=True)
        return cbr(*words, env=known | env, cwd=tmp_path / "here")

    return call


def test_what_is_pushed_is_pulled_byte_for_byte(speak, hub, file, tmp_path):
    done = speak("push", file, "me/tidy")
    assert done.returncode == 0, done.stderr
    assert f"{hub.url}/me/tidy" in done.stdout
    card = file.with_suffix(".md").read_bytes()
    assert hub.repos == {"me/tidy": {"tidy.cbr": file.read_bytes(), "README.md": card}}
    got = speak("pull", "me/tidy")
    assert got.returncode == 0, got.stderr
    assert (tmp_path / "here" / "tidy.cbr").read_bytes() == file.read_bytes()
    assert (tmp_path / "here" / "tidy.md").read_bytes() == card
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == ["tidy.cbr", "tidy.md"]
    again = speak("pull", "me/tidy", "tidy.cbr")
    assert (again.returncode, "tidy.cbr is there already" in again.stderr) == (2, True)
    assert speak("pull", "me/tidy", "tidy.cbr", "--overwrite").returncode == 0


def test_of_several_files_one_is_named(speak, hub, file, tmp_path):
    hub.repos["me/both"] = {"a.cbr": b"", "tidy.cbr": file.read_bytes()}
    unnamed, wrong = speak("pull", "me/both"), speak("pull", "me/both", "tity.cbr")
    assert "me/both holds 2 shared runs" in unnamed.stderr
    assert "cbr pull me/both a.cbr (of a.cbr, tidy.cbr)" in unnamed.stderr
    assert "me/both holds no 'tity.cbr'\n  name one: cbr pull me/both tidy.cbr" in wrong.stderr
    got = speak("pull", "me/both", "tidy.cbr", "--out", "deep/er")
    assert (got.returncode, got.stdout) == (0, "deep/er/tidy.cbr\n")


def test_what_is_damaged_is_neither_pulled_nor_pushed(speak, hub, file, tmp_path):
    hub.repos["me/bad"] = {"tidy.cbr": file.read_bytes()[:-100]}
    got = speak("pull", "me/bad")
    assert got.returncode == 2
    assert got.stderr.splitlines()[-2].startswith("error: me/bad/tidy.cbr: not a shared run")
    assert list((tmp_path / "here").iterdir()) == []
    (tmp_path / "bad.cbr").write_bytes(b"PK")
    assert "not a shared run" in speak("push", tmp_path / "bad.cbr", "me/tidy").stderr
    (tmp_path / "bare.cbr").write_bytes(file.read_bytes())
    assert "bare.md: no such file" in speak("push", tmp_path / "bare.cbr", "me/tidy").stderr
    assert set(hub.repos) == {"me/bad"}


@pytest.mark.parametrize(
    ("words", "env", "said"),
    [
        (("pull", "me/nothing"), {}, "me/nothing: no such repository, or you may not see it"),
        (("pull", "no name"), {}, "'no name' is no name of a repository"),
        (("pull", "me/empty"), {}, "me/empty holds no shared run (a file .cbr)"),
        (("pull", "me/empty"), {"HF_HUB_OFFLINE": "1"}, "me/empty: the hub was not reached: OfflineModeIsEnabled"),
        (("push", "FILE", "me/tidy"), {"HF_TOKEN": "wrong"}, "me/tidy: the hub refuses: Invalid username"),
    ],
)
def test_what_goes_wrong_is_said(speak, hub, file, words, env, said):
    hub.repos["me/empty"] = {"README.md": b"# Nothing"}
    done = speak(*(file if word == "FILE" else word for word in words), **env)
    assert done.returncode == 2
    assert f"error: {said}" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_the_package_the_extra_is_named(here, file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for words in (("push", file, "me/tidy"), ("pull", "me/tidy", "--out", tmp_path)):
        done = here(*words)
        assert (done.returncode, "pip install 'cbr-textrl[hub]'" in done.stderr) == (2, True), done.stderr


def test_the_page_about_sharing_runs_from_top_to_bottom(speak, here, hub, tmp_path, monkeypatch):
    """Its commands one after the other, with a smaller recipe than the quickstart, then its program."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    ours = [line.replace("recipes/quickstart.yaml", str(SMOKE)) for line in lines if line.startswith("cbr ")]
    assert [line for line in lines if not line.startswith(("cbr ", "pip install ", "export "))] == []
    assert len(ours) >= 11
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for line in ours:
        call = speak if line.startswith(("cbr push", "cbr pull")) else here
        done = call(*shlex.split(line)[1:])
        assert done.returncode == 0, (line, done.stderr)
    assert (tmp_path / "here" / "got" / "mine.cbr").read_bytes() == hub.repos["me/tidy-houses"]["mine.cbr"]
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    words = [sys.executable, "-c", program]
    found = subprocess.run(words, cwd=tmp_path / "here", capture_output=True, text=True, timeout=60, check=False)
    assert re.fullmatch(r"\d+ cbr_text/text\n", found.stdout), found.stderr
