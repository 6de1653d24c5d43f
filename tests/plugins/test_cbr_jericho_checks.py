"""What `cbr doctor` is told about Jericho: story files, a spaCy model, the engine."""

from __future__ import annotations

import pytest

from cbr_jericho.checks import engine, engine_step, games, tagger
from cbrcore.errors import GameError
from cbrcore.testing import CheckSuite


@pytest.fixture(autouse=True)
def _no_games_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


class TestGames(CheckSuite):
    def check(self):
        return games


class TestTagger(CheckSuite):
    def check(self):
        return tagger


class TestEngine(CheckSuite):
    def check(self):
        return engine


def test_all_games_are_well_and_some_are_not_all(games_dir, tmp_path, monkeypatch):
    (found,) = games(quick=True)
    assert (found.status, found.found) == ("ok", "33 of 33 games")
    (tmp_path / "jericho").mkdir()
    (tmp_path / "jericho" / "905.z5").symlink_to(games_dir / "jericho" / "905.z5")
    monkeypatch.setenv("CBR_GAMES", str(tmp_path))
    (found,) = games(quick=True)
    assert (found.status, found.found) == ("absent", "1 of 33 games")
    assert "cbr games fetch" in found.mend


def test_a_wrong_story_is_named(tmp_path, monkeypatch):
    (tmp_path / "jericho").mkdir()
    (tmp_path / "jericho" / "zork1.z5").write_bytes(b"no story")
    monkeypatch.setenv("CBR_GAMES", str(tmp_path))
    _, found = games(quick=True)
    assert (found.name, found.status) == ("zork1", "problem")
    assert "cbr games add" in found.mend


def test_a_missing_model_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr("cbr_jericho.tagging.find_spec", lambda name: None)
    (found,) = tagger(quick=True)
    assert found.status == "absent"
    assert "pip install" in found.mend


def test_the_engine_takes_a_step():
    assert engine_step() > 0
    assert list(engine(quick=True)) == []


def test_an_engine_that_fails_is_broken(monkeypatch):
    def fail():
        raise GameError("no engine here")

    monkeypatch.setattr("cbr_jericho.checks.engine_step", fail)
    (found,) = engine(quick=False)
    assert (found.name, found.status, found.found) == ("Jericho's engine", "broken", "no engine here")
    assert found.mend
