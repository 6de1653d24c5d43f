"""What a run remembers of views does not depend on caches on disk, on the speed of engines, or on a resume."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from jericho_play import open_game, play_in_step, players

from cbr_jericho.config import JerichoConfig
from cbr_jericho.environment import JerichoEnvironment, jericho
from cbr_jericho.views import Views
from cbrcore.interfaces import Build, KeepsState
from cbrcore.testing import EnvironmentSuite
from cbrcore.types import Observation

GAME = "zork1"


class TestRemembersViews(EnvironmentSuite):
    def make(self, build: Build) -> JerichoEnvironment:
        return jericho(JerichoConfig(game="generated", max_steps=8, cache_key="view"), build)


def test_only_what_is_not_exact_is_part_of_a_checkpoint(games_dir, tmp_path):
    for key, keeps in (("state", False), ("world", True), ("view", True)):
        assert isinstance(jericho(JerichoConfig(cache_key=key), Build(cache_dir=tmp_path)), KeepsState) is keeps


KINDS = {"full": {"search": "full", "max_steps": 6}, "learned": {"max_steps": 25}}
"""How valid actions are searched for, in episodes of how many steps."""


@pytest.fixture(scope="module", params=KINDS)
def played(request, games_dir, tmp_path_factory) -> tuple[dict[str, Any], Path, list[Observation], str]:
    """Settings, a cache that was empty, what two players saw, and what was remembered then."""
    settings, folder = KINDS[request.param], tmp_path_factory.mktemp("played")
    with ExitStack() as stack:
        environments = players(games_dir, folder, 2, **settings)
        for environment in environments:
            stack.enter_context(closing(environment))
        seen = play_in_step(environments, 0, 3)
        return settings, folder, seen, json.dumps(environments[0].state())


def test_what_is_offered_does_not_depend_on_the_cache(games_dir, tmp_path, played):
    settings, folder, seen, _ = played
    assert any(folder.rglob("*.sqlite")) is ("search" in settings)  # what is learned is no other run's
    full = Path(shutil.copytree(folder, tmp_path / "full"))
    with ExitStack() as stack:
        for other in players(games_dir, full, 1, seed=7, **settings):  # what it finds is of other states
            stack.enter_context(closing(other))
            play_in_step([other], 3, 2)
        environments = players(games_dir, full, 2, **settings)
        for environment in environments:
            stack.enter_context(closing(environment))
        assert play_in_step(environments, 0, 3) == seen


def test_a_run_that_is_resumed_remembers(games_dir, tmp_path, played):
    settings, _, _, state = played
    after: list[list[Observation]] = []
    for resumed in (False, True):
        with ExitStack() as stack:
            environments = players(games_dir, tmp_path / str(resumed), 2, **settings)
            for environment in environments:
                stack.enter_context(closing(environment))
            if resumed:
                environments[0].load_state(json.loads(state))
            else:
                play_in_step(environments, 0, 3)
            after.append(play_in_step(environments, 1, 2))
            assert environments[0].state() == environments[1].state()
            assert environments[0].figures()["counts"]["searched"] > 0
    assert after[0] == after[1]


def test_a_worker_that_is_new_is_told_everything(games_dir, tmp_path):
    with closing(players(games_dir, tmp_path, 1, max_steps=6)[0]) as environment:
        known = play_in_step([environment], 0, 2)
        environment.close()
        assert play_in_step([environment], 0, 2) == known
        environment._transitions.forget()
        environment.close()
        assert play_in_step([environment], 0, 2) == known
        assert environment.figures()["counts"]["searched"] == 0


def test_who_finds_something_else_at_the_same_time_looks_again(games_dir, tmp_path):
    """The first that is received counts, for the second too: it is asked for its graph again, too."""
    with closing(open_game(games_dir, tmp_path, cache_key="view")) as environment:
        first = environment.reset(GAME, 0)
        found = environment._views.since(0)
    (key,) = found
    aliases, _, things = found[key]
    others = [{name: alike for name, alike in aliases.items() if name != "mailbox"}, [["wait", []]], things]
    with closing(open_game(games_dir, tmp_path, cache_key="view")) as environment:
        settle = environment._views.settle

        def another_was_faster(key: str, entry: list) -> bool:
            settle(key, others)
            return settle(key, entry)

        environment._views.settle = another_was_faster
        second = environment.reset(GAME, 0)
    assert [action.text for action in second.admissible] == ["wait"]
    assert "mailbox" in first.graph.nodes
    assert "mailbox" not in second.graph.nodes
    assert second.feedback == first.feedback


def test_views_come_out_as_they_went_in():
    views = Views()
    assert views.settle("ab", [{"cup": ["cup", "mug"]}, [["take {}", ["cup"]]], ["cup"]])
    assert views.settle("ab", [{"cup": ["cup", "mug"]}, [["take {}", ["cup"]]], ["cup"]])
    assert not views.settle("ab", [{}, [], []])
    assert views.settle("cd", [{}, [], []])
    other = Views()
    other.settle("ef", [{}, [], []])
    other.load_state(json.loads(json.dumps(views.state())))
    assert other.since(0) == views.since(0) != {}
    assert list(other.since(1)) == ["cd"]
    assert (views.loads, other.loads) == (0, 1)
