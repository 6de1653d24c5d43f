"""Settings and paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from cbrcore.config import cache_dir, existing_path, expand_path
from cbrcore.errors import CbrError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DATA", "/data")
    monkeypatch.setenv("ODD", "/has$dollar")
    monkeypatch.delenv("NOT_SET", raising=False)
    return tmp_path / "home"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("games", "/base/recipes/games"),
        ("../games", "/base/games"),
        ("./a/../b", "/base/recipes/b"),
        ("/absolute", "/absolute"),
        ("$DATA/games", "/data/games"),
        ("${DATA}/games", "/data/games"),
        ("$ODD/x", "/has$dollar/x"),
        ("with space", "/base/recipes/with space"),
        ("not~home", "/base/recipes/not~home"),
    ],
)
def test_a_path_starts_at_the_base(home: Path, text: str, expected: str):
    assert expand_path(text, Path("/base/recipes")) == Path(expected)


def test_a_tilde_is_the_home_folder(home: Path):
    assert expand_path("~/games", Path("/base")) == home / "games"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a path"),
        ("  ", "is not a path"),
        ("C:\temp", "is not a path"),
        ("a\nb", "is not a path"),
        ("$NOT_SET/x", r"\$NOT_SET, which is not set"),
        ("${NOT_SET}/x", r"\$NOT_SET, which is not set"),
        ("~nobody_of_this_name/x", "a user that this machine does not know"),
    ],
)
def test_what_is_no_path_is_an_error(home: Path, text: str, said: str):
    with pytest.raises(CbrError, match=said):
        expand_path(text, Path("/base"))


def test_a_path_that_must_be_there_is(home: Path, tmp_path: Path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "cases.jsonl").write_text("")
    (tmp_path / "file").write_text("")
    for text, holds in (("full", ""), ("full", "cases.jsonl"), ("file", "")):
        assert existing_path(text, tmp_path, mend="do", holds=holds) == (tmp_path / text).resolve()


@pytest.mark.parametrize(
    ("text", "holds", "said"),
    [
        ("gone", "", "gone: no such file or folder"),
        ("gone", "x", "gone: no such file or folder"),
        ("full", "x", "full holds no x"),
        ("full", "inner", "full holds no inner"),
        ("file", "x", "file holds no x"),
    ],
)
def test_a_path_that_is_not_as_it_must_be_says_what_to_type(tmp_path: Path, text: str, holds: str, said: str):
    (tmp_path / "full" / "inner").mkdir(parents=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(CbrError) as caught:
        existing_path(text, tmp_path, mend="cbr make it", holds=holds)
    assert (caught.value.message, caught.value.hint) == (f"{tmp_path.resolve()}/{said}", "cbr make it")


def test_what_the_system_does_not_let_see_is_told(tmp_path: Path):
    with pytest.raises(CbrError, match="File name too long") as caught:
        existing_path("x" * 300, tmp_path, mend="do")
    assert caught.value.hint == "take a shorter name"


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"CBR_CACHE": "/a/b"}, "/a/b"),
        ({"CBR_CACHE": "~/b", "XDG_CACHE_HOME": "/x"}, "HOME/b"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/cbr"),
        ({"CBR_CACHE": "", "XDG_CACHE_HOME": ""}, "HOME/.cache/cbr"),
        ({}, "HOME/.cache/cbr"),
        ({"CBR_CACHE": "~nobody-of-this-name/b"}, "~nobody-of-this-name/b"),
    ],
)
def test_the_cache_is_where_the_variables_say(home: Path, monkeypatch: pytest.MonkeyPatch, variables, folder: str):
    for name in ("CBR_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_dir() == Path(folder.replace("HOME", str(home)))
