"""What `cbr doctor` is told about the published games."""

from __future__ import annotations

import pytest

from cbr_twc.checks import games
from cbrcore.testing import CheckSuite


class TestWithoutGames(CheckSuite):
    def check(self):
        return games


@pytest.mark.usefixtures("games_dir")
class TestWithTheGames(CheckSuite):
    def check(self):
        return games


def test_the_games_of_each_level_are_counted(games_dir):
    found = {each.name: each.found for each in games(quick=True)}
    assert found.pop("CBR_GAMES") == str(games_dir)
    assert found == {f"TWC {level}": "5 train, 5 in, 5 out" for level in ("easy", "medium", "hard")}


def test_a_folder_that_is_none_a_missing_level_and_a_damaged_one_are_told_apart(monkeypatch, tmp_path):
    monkeypatch.setenv("CBR_GAMES", str(tmp_path / "nowhere"))
    (found,) = games(quick=True)
    assert (found.name, found.status) == ("CBR_GAMES", "problem")
    monkeypatch.setenv("CBR_GAMES", str(tmp_path))
    (tmp_path / "twc" / "easy" / "train").mkdir(parents=True)
    (tmp_path / "twc" / "easy" / "train" / "one.json").write_text("{")
    status = {each.name: each.status for each in games(quick=True)}
    assert status == {"CBR_GAMES": "ok", "TWC easy": "problem", "TWC medium": "absent", "TWC hard": "absent"}
