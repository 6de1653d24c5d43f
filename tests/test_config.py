"""Settings and paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from cbrcore.config import expand_path
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
