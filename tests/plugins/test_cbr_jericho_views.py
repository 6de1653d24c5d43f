"""What a run remembers of views does not depend on caches on disk, on the speed of engines, or on a resume."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from jericho_play import open_game

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


def players(games_dir: Path, cache_dir: Path, count: int, **settings: object) -> list[JerichoEnvironment]:
    """Environments of one run."""
    build = Build(cache_dir=cache_dir)
    config = JerichoConfig(
        game=GAME, rom_dir=str(games_dir / "jericho"), cache_key="view", max_steps=6, **settings
    )
    return [jericho(config, build) for _ in range(count)]


def play(environments: Sequence[JerichoEnvironment], seed: int, episodes: int) -> list[Observation]:
    """What players see who go in step, as a run's do."""
    rng, seen = random.Random(seed), []
    for _ in range(episodes):
        now = [environment.reset(GAME, 0) for environment in environments]
        seen += now
        for _ in range(6):
            for environment, before in zip(environments, now, strict=True):
                environment.send(rng.choice(before.admissible))
            now = [environment.receive().observation for environment in environments]
            seen += now
    return seen


@pytest.fixture(scope="module")
def played(games_dir, tmp_path_factory) -> tuple[Path, list[Observation], str]:
    """A cache that was empty, what two players saw, and what was remembered then."""
    folder = tmp_path_factory.mktemp("played")
    with ExitStack() as stack:
        environments = players(games_dir, folder, 2)
        for environment in environments:
            stack.enter_context(closing(environment))
        seen = play(environments, 0, 3)
        return folder, seen, json.dumps(environments[0].state())


def test_what_is_offered_does_not_depend_on_the_cache(games_dir, tmp_path, played):
    folder, seen, _ = played
    full = Path(shutil.copytree(folder, tmp_path / "full"))
    with ExitStack() as stack:
        for other in players(games_dir, full, 1, seed=7):  # what it finds is of other states
            stack.enter_context(closing(other))
            play([other], 3, 2)
        environments = players(games_dir, full, 2)
        for environment in environments:
            stack.enter_context(closing(environment))
        assert play(environments, 0, 3) == seen


def test_a_run_that_is_resumed_remembers(games_dir, tmp_path, played):
    _, _, state = played
    after: list[list[Observation]] = []
    for resumed in (False, True):
        with ExitStack() as stack:
            environments = players(games_dir, tmp_path / str(resumed), 2)
            for environment in environments:
                stack.enter_context(closing(environment))
            if resumed:
                environments[0].load_state(json.loads(state))
            else:
                play(environments, 0, 3)
            after.append(play(environments, 1, 2))
            assert environments[0].state() == environments[1].state()
    assert after[0] == after[1]


def test_a_worker_that_is_new_is_told_everything(games_dir, tmp_path):
    with closing(players(games_dir, tmp_path, 1)[0]) as environment:
        known = play([environment], 0, 2)
        environment.close()
        assert play([environment], 0, 2) == known
        environment._transitions.forget()
        environment.close()
        assert play([environment], 0, 2) == known
        assert environment.figures()["counts"]["searched"] == 0


def test_who_finds_something_else_at_the_same_time_looks_again(games_dir, tmp_path):
    """The first that is received counts, for the second too: it is asked for its graph again, too."""
    with closing(open_game(games_dir, tmp_path, cache_key="view")) as environment:
        first = environment.reset(GAME, 0)
        found = environment._views.since(0)
    (key,) = found
    aliases, _, names = found[key]
    others = [{name: alike for name, alike in aliases.items() if name != "mailbox"}, [["wait", []]], names]
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
