"""Environments that hang, abort, exit, are stopped or killed, in a child process. The troubles are real ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from machine import wait_until_gone

from cbr_isolate.environment import MAX_FAULTS, isolated
from cbr_isolate.plain import packed, unpacked
from cbr_isolate.protocol import plain
from cbrcore.errors import GameError, RunFailed
from cbrcore.interfaces import (
    Build,
    ConcurrentEnvironment,
    KeepsState,
    KnowsContents,
    KnowsPlaces,
    Places,
    PlaysSlowly,
    ReportsMetrics,
    TellsPlaces,
)
from cbrcore.plugins import load_plugins
from cbrcore.recipe import load_recipe
from cbrcore.testing import EnvironmentSuite, sample_observation
from cbrcore.types import Action, Ending, Fingerprint, StateGraph, StepResult

TROUBLE = '''
"""One room, one thing; misbehaves on demand."""
import os, pathlib, signal, sys, time
from cbrcore import Action, ComponentConfig, Ending, Fingerprint, GameError, Observation, StateGraph, StepResult
from cbrcore import CbrError, hookimpl
from cbrcore.interfaces import Places

class Settings(ComponentConfig):
    trouble: str = ""
    """What goes wrong, as Python."""
    where: str = "step"
    """In which method."""
    at: int = 2
    """At which of its calls; 0: at all."""
    state: str = ""
    """A file that counts the calls over all processes."""

class Trouble:
    handicaps = {"graph": "true"}
    def __init__(self, config, build):
        self.config = config
        self.at("init")
    def at(self, where):
        config = self.config
        if where != config.where or not config.trouble:
            return
        file = pathlib.Path(config.state)
        calls = len(file.read_text()) + 1 if file.exists() else 1
        file.write_text("." * calls)
        if config.at in (0, calls):
            exec(config.trouble)
    def splits(self): return ("train", "in")
    def games(self, split):
        self.at("games")
        if split not in self.splits():
            raise CbrError(f"no split {split!r}")
        return ("room",)
    def game_info(self, game):
        self.at("game_info")
        return {"max_score": 1, "optimal_steps": 2}
    def seen(self, text, last=None):
        names = ("drop book", "take book")
        actions = tuple(Action(n, n.replace("book", "{}"), ("book",), ("book",)) for n in names)
        return Observation(text, "A room.", "", actions, StateGraph.of([("book", "in", "room")]),
            float(self.score), 1.0, last_action=last, game="room", steps=self.steps,
            fingerprint=Fingerprint("s", "w", text))
    def reset(self, game, seed):
        self.at("reset")
        self.score = self.steps = 0
        return self.seen("Hello.")
    def step(self, action):
        self.at("step")
        self.steps += 1
        self.score = int(action.text == "drop book" and self.steps > 1)
        ending = Ending.WON if self.score else Ending.TRUNCATED if self.steps == 6 else None
        return StepResult(self.seen(f"You {action.text}.", action.text), float(self.score), ending)
    def close(self): pass

class Gifted(Trouble):
    random_passes = 7
    def object_places(self, split): return {"book": {"room", "shelf"}}
    def metrics(self): return {"calls": 3.0}
    def content(self, game): return f"{game}'s own"
    def state(self): return {"known": getattr(self, "known", 0)}
    def load_state(self, state): self.known = state["known"]
    def places(self, seen):
        self.asked = getattr(self, "asked", 0) + 1
        return Places(seen.game, {"room": {"go up": None, "go in": "hut"}}, {"book": seen.text}, str(self.asked),
            frozenset({"shelf", "hut"}))

@hookimpl
def register_environments(registry):
    for name in ("trouble", "gifted"):
        registry.add(name, factory=f"trouble_env:{name.title()}", config="trouble_env:Settings")
'''

RECIPE = """
schema: 1
name: trouble
environment: {use: trouble_env/trouble}
text_encoder: {use: cbr_text_encoders/untrained, dim: 8}
agent: {use: cbr_random/random}
evaluation: {splits: [in], passes: 1}
recorders: []
run: {episodes: 4, isolate: true, step_limit: 0.7}
"""

FAILURES = {
    "sleeps": "time.sleep(1000)",
    "spins": "while True: pass",
    "aborts": "os.abort()",
    "exits": "os._exit(0)",
    "sys.exit": "sys.exit(0)",
    "is killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "is stopped": "os.kill(os.getpid(), signal.SIGSTOP)",
    "raises": "raise ValueError('a bug')",
}
TALK = "sys.stdout.write('x' * 99999); os.write(1, b'{]' * 5000); os.write(2, b'y' * 2000000); sys.stdin.read()"


@pytest.fixture
def loose(tmp_path) -> Path:
    path = tmp_path / "plugins" / "trouble_env.py"
    path.parent.mkdir()
    path.write_text(TROUBLE)
    yield path
    sys.modules.pop("trouble_env", None)


@pytest.fixture
def make(loose, tmp_path):
    """Makes the isolated environment with these settings."""
    made = []
    registry = load_plugins(files=[loose]).registry

    def call(*sets: str, use: str = "trouble", limit: float = 0.7):
        source = tmp_path / "recipe.yaml"
        source.write_text(RECIPE)
        wanted = [f"environment.use=trouble_env/{use}", f"run.step_limit={limit}"]
        wanted += [f"environment.state={tmp_path / 'state'}", *(f"environment.{one}" for one in sets)]
        recipe = load_recipe(source, overrides=wanted, registry=registry)
        made.append(isolated(recipe, registry, Build(recipe_dir=tmp_path, cache_dir=tmp_path)))
        return made[-1]

    yield call
    for environment in made:
        environment.close()


def pid_of(environment) -> int:
    return environment._keeper._worker.pid


# -- plain data ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "caffè", "\udce9", "\0\x1b[2J", "\u2028", "a" * 100_000])
def test_what_goes_through_the_pipe_comes_out_equal(text):
    action = Action(f"take {text}", "take {}", (text,), (text, "you"))
    seen = sample_observation(
        StateGraph.of([(text, "in", "room")], ["alone"]), feedback=text, admissible=(action,), scored=(text,)
    )
    assert len({seen.graph, seen.text}) == 2  # what is kept computed does not travel
    found = Places(text, {text: {"go up": None, text: text}}, {text: "room"}, text, frozenset({text, "shelf"}))
    for value in (seen, found, StepResult(seen, 0.5, Ending.WON, True), StepResult(seen, float("inf")), None, 5):
        assert unpacked(json.loads(json.dumps(packed(value), default=plain))) == value


# -- without trouble -----------------------------------------------------------------------------------------


class TestContract(EnvironmentSuite):
    @pytest.fixture(autouse=True)
    def _make(self, make):
        self.made = make

    def make(self, build: Build):
        return self.made()


def test_it_has_the_abilities_of_the_environment(make):
    usual, gifted = make(), make(use="gifted")
    assert isinstance(usual, ConcurrentEnvironment)
    assert not isinstance(
        usual, KnowsPlaces | KnowsContents | PlaysSlowly | ReportsMetrics | TellsPlaces | KeepsState
    )
    assert isinstance(gifted, KnowsPlaces)
    assert isinstance(gifted, ReportsMetrics)
    assert gifted.object_places("train") == {"book": {"room", "shelf"}}
    assert gifted.metrics() == {"calls": 3.0}
    assert isinstance(gifted, PlaysSlowly)
    assert gifted.random_passes == 7
    assert isinstance(gifted, KnowsContents)
    assert gifted.content("room") == "room's own"
    assert gifted.handicaps == {"graph": "true"}
    assert gifted.reset("room", 1).fingerprint == Fingerprint("s", "w", "Hello.")
    assert isinstance(gifted, KeepsState)
    gifted.load_state({"known": 5})
    assert gifted.state() == {"known": 5}


def test_a_map_is_read_in_the_child_once_for_an_observation(make):
    """The last name tells how often the environment was asked."""
    gifted = make(use="gifted")
    first = gifted.reset("room", 1)
    assert isinstance(gifted, TellsPlaces)
    exits = {"room": {"go up": None, "go in": "hut"}}
    expected = Places("room", exits, {"book": first.text}, "1", frozenset({"shelf", "hut"}))
    assert gifted.places(first) == gifted.places(first) == expected
    second = gifted.step(first.admissible[1]).observation
    assert [(gifted.places(seen).where["book"], gifted.places(seen).player) for seen in (second, first)] == [
        (second.text, "2"),
        (first.text, "3"),
    ]
    gifted.send(second.admissible[0])
    with pytest.raises(RuntimeError, match="receive"):
        gifted.places(second)
    gifted.receive()


def test_a_map_of_a_child_that_fails_stops_the_run(make, loose):
    loose.write_text(TROUBLE.replace('self.asked = getattr(self, "asked", 0) + 1', "os.abort()"))
    gifted = make(use="gifted")
    with pytest.raises(RunFailed, match=r"trouble_env/gifted: asked for places\(.*SIGABRT"):
        gifted.places(gifted.reset("room", 1))


def test_children_work_at_the_same_time(make):
    each = [make("trouble=time.sleep(1)", "at=0", limit=9) for _ in range(2)]
    start, _ = [environment.reset("room", 1) for environment in each]
    began = time.monotonic()
    for environment in each:
        environment.send(start.admissible[0])
    assert [environment.receive().ending for environment in each] == [None, None]
    assert time.monotonic() - began < 1.7


def test_halves_of_a_step_in_the_wrong_order(make):
    environment = make()
    action = Action("take book", "take {}", ("book",))
    for wrong in (environment.receive, lambda: environment.send(action)):
        with pytest.raises(RuntimeError):
            wrong()
    first = environment.reset("room", 1)
    environment.send(first.admissible[0])
    with pytest.raises(RuntimeError, match="receive"):
        environment.send(first.admissible[0])
    assert environment.reset("room", 1) == first
    environment.close()
    environment.close()
    with pytest.raises(RuntimeError, match="reset"):
        environment.step(first.admissible[0])
    assert environment.reset("room", 1) == first


# -- trouble -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", FAILURES.values(), ids=FAILURES)
def test_a_failure_in_a_step_costs_one_episode(make, trouble, caplog):
    environment = make(f'trouble="{trouble}"')
    first = environment.reset("room", 1)
    before = environment.step(first.admissible[1]).observation
    pid = pid_of(environment)
    result = environment.step(first.admissible[0])
    assert (result.ending, result.reward) == (Ending.ENGINE_ERROR, 0.0)
    assert result.observation.last_action == "drop book"
    assert (result.observation.graph, result.observation.steps) == (before.graph, 2)
    assert wait_until_gone(pid)
    with pytest.raises(RuntimeError, match="reset"):
        environment.step(first.admissible[0])
    assert environment.reset("room", 1) == first
    assert environment.step(first.admissible[1]).ending is None
    assert environment.counts == {"engine_errors": 1}
    assert "game 'room'" in caplog.text
    assert "take book | drop book" in caplog.text


@pytest.mark.parametrize("trouble", [FAILURES["aborts"], FAILURES["sys.exit"]])
def test_a_failure_in_a_reset_is_tried_again(make, trouble):
    environment = make(f'trouble="{trouble}"', "where=reset", "at=1")
    assert environment.reset("room", 1).admissible
    assert environment.counts == {"engine_errors": 1}


@pytest.mark.parametrize("where", ["games", "game_info"])
@pytest.mark.parametrize("trouble", [FAILURES["sleeps"], FAILURES["exits"]])
def test_a_failure_before_the_play_stops_the_run(make, where, trouble):
    environment = make(f'trouble="{trouble}"', f"where={where}", "at=0", limit=0.02)
    with pytest.raises(RunFailed, match=rf"trouble_env/trouble: asked for {where}\('\w+'\)"):
        environment.games("train"), environment.game_info("room")


ENDS = {name: FAILURES[name] for name in ("aborts", "exits", "is killed")}


@pytest.mark.parametrize("where", ["games", "game_info"])
@pytest.mark.parametrize("trouble", ENDS.values(), ids=ENDS)
def test_a_child_that_ends_at_a_question_is_replaced_once(make, where, trouble):
    environment = make(f'trouble="{trouble}"', f"where={where}", "at=1")
    assert environment.games("train") == ("room",)
    assert environment.game_info("room")["max_score"] == 1
    assert environment.counts == {"engine_errors": 1}
    first = environment.reset("room", 1)
    assert environment.step(first.admissible[1]).ending is None


ASKED = {
    "game_info": lambda environment, seen: environment.game_info("room")["max_score"] == 1,
    "games": lambda environment, seen: environment.games("in") == ("room",),
    "places": lambda environment, seen: environment.places(seen).here == "room",
    "object_places": lambda environment, seen: "book" in environment.object_places("in"),
    "metrics": lambda environment, seen: environment.metrics() == {"calls": 3.0},
}


@pytest.mark.parametrize("question", ASKED)
@pytest.mark.parametrize("noticed", [True, False])
def test_a_question_to_a_child_that_died_idle_costs_the_running_episode_alone(
    make, question, noticed, monkeypatch
):
    environment = make(use="gifted")
    first = environment.reset("room", 1)
    worker = environment._keeper._worker
    os.kill(worker.pid, signal.SIGKILL)
    assert wait_until_gone(worker.pid)
    while worker.lives:
        time.sleep(0.01)
    if not noticed:  # it dies after one has looked
        monkeypatch.setattr(
            type(worker), "lives", property(lambda self: self is worker or self._process.poll() is None)
        )
    assert ASKED[question](environment, first)
    assert environment.counts == ({} if noticed else {"engine_errors": 1})
    lost = environment.step(first.admissible[1])
    assert (lost.ending, lost.reward) == (Ending.ENGINE_ERROR, 0.0)
    again = environment.reset("room", 1)
    assert again == first
    assert environment.step(again.admissible[1]).ending is None


def test_failures_in_a_row_stop_the_run(make):
    environment = make('trouble="os.abort()"', "at=0")
    for _ in range(MAX_FAULTS - 1):
        assert environment.step(environment.reset("room", 1).admissible[1]).ending is Ending.ENGINE_ERROR
    first = environment.reset("room", 1)
    with pytest.raises(RunFailed, match=rf"room.*SIGABRT.*take book\n.*{MAX_FAULTS} episodes in a row") as failure:
        environment.step(first.admissible[1])
    assert "run.step_limit" in failure.value.hint


@pytest.mark.parametrize("where", ["init", "games", "reset", "step"])
def test_an_environments_own_error_stays_what_it_is(make, where):
    with pytest.raises(GameError, match="no such game") as failure:  # noqa: PT012
        environment = make("trouble=raise GameError('no such game', hint='look')", f"where={where}", "at=0")
        environment.games("train")
        environment.step(environment.reset("room", 1).admissible[0])
    assert failure.value.hint == "look"


@pytest.mark.parametrize("where", ["init", "games", "reset", "step"])
def test_what_it_prints_does_no_harm(make, where, capfd):
    environment = make(f'trouble="{TALK}"', f"where={where}", "at=0", limit=5)
    assert environment.games("train") == ("room",)
    for _ in range(2):
        assert environment.step(environment.reset("room", 1).admissible[0]).ending is None
    assert capfd.readouterr() == ("", "")


def test_an_idle_child_that_is_killed_costs_nothing(make):
    environment = make()
    first = environment.reset("room", 1)
    os.kill(pid_of(environment), signal.SIGKILL)
    assert wait_until_gone(pid_of(environment))
    while environment._keeper._worker.lives:  # its first thread is a zombie before the last one has ended
        time.sleep(0.01)
    assert environment.game_info("room")["max_score"] == 1
    assert environment.reset("room", 1) == first
    assert not environment.counts


@pytest.mark.parametrize("ends", ["os._exit(3)", "time.sleep(60)"])
def test_what_a_child_has_started_ends_with_it_however_it_ends(make, tmp_path, ends):
    pid = tmp_path / "pid"
    start = (
        f"import subprocess; pathlib.Path('{pid}').write_text(str(subprocess.Popen(['sleep', '60']).pid)); {ends}"
    )
    environment = make("where=step", f'trouble="{start}"', "at=0")
    first = environment.reset("room", 1)
    assert environment.step(first.admissible[0]).ending is Ending.ENGINE_ERROR
    assert wait_until_gone(int(pid.read_text()))


def test_ctrl_c_is_not_for_the_child(make):
    environment = make()
    first = environment.reset("room", 1)
    os.kill(pid_of(environment), signal.SIGINT)
    assert os.getpgid(pid_of(environment)) != os.getpgid(0)
    assert environment.step(first.admissible[0]).ending is None


def test_a_closed_environment_leaves_nothing_behind(make, tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    environment = make("where=reset", 'trouble="import tempfile; tempfile.mkdtemp()"', "at=0")
    environment.reset("room", 1)
    pid = pid_of(environment)
    assert len(list(scratch.rglob("tmp*"))) == 1
    environment.close()
    assert wait_until_gone(pid)
    assert list(scratch.iterdir()) == []


# -- whole runs ----------------------------------------------------------------------------------------------


def run(here, loose: Path, out: Path, *sets: str):
    recipe = loose.parent / "recipe.yaml"
    recipe.write_text(RECIPE)
    settings = [word for one in (f"environment.state={out}.calls", *sets) for word in ("--set", one)]
    return here("run", recipe, "--plugin", loose, "--out", out, *settings)


@pytest.mark.parametrize("trouble", [FAILURES["sleeps"], FAILURES["aborts"], FAILURES["sys.exit"]])
def test_training_goes_on_after_a_failure(here, loose, tmp_path, trouble):
    done = run(here, loose, tmp_path / "run", f'environment.trouble="{trouble}"')
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["training"]["endings"]["engine_error"] == 1
    assert sum(results["training"]["endings"].values()) == 4
    assert results["protocol"]["isolated"] is True


def test_a_run_whose_environment_always_fails_stops_with_one_message(here, loose, tmp_path):
    done = run(
        here, loose, tmp_path / "run", 'environment.trouble="os._exit(0)"', "environment.at=0", "run.episodes=20"
    )
    assert done.returncode == 1
    assert "5 episodes in a row" in done.stderr
    assert "Traceback" not in done.stderr


def test_children_end_with_a_parent_that_is_killed(loose, tmp_path):
    out = tmp_path / "run"
    recipe = loose.parent / "recipe.yaml"
    recipe.write_text(RECIPE)
    words = ["cbr", "run", recipe, "--plugin", loose, "--out", out, "--set", f"environment.state={out}.calls"]
    note = f"pathlib.Path({str(out) + '.pid'!r}).write_text(str(os.getpid())); time.sleep(1000)"
    words += ["--set", f'environment.trouble="{note}"', "--set", "run.step_limit=1000"]
    parent = subprocess.Popen([sys.executable, "-m", "cbrcore.cli", *map(str, words[1:])])
    try:
        deadline = time.monotonic() + 60
        while not Path(f"{out}.pid").is_file() and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        parent.kill()
        parent.wait()
    assert wait_until_gone(int(Path(f"{out}.pid").read_text()))


def test_a_run_has_the_same_bytes_with_and_without(here, tmp_path):
    recipe = Path(__file__).parents[2] / "recipes" / "smoke" / "text_cbr_generated.yaml"
    found = []
    for name in ("false", "true"):
        out = tmp_path / name
        settings = ["run.episodes=2", f"run.isolate={name}", "run.num_envs=2", "environment.games_per_split=1"]
        done = here("run", recipe, "--out", out, *(word for one in settings for word in ("--set", one)))
        assert done.returncode == 0, done.stderr
        results = json.loads((out / "results.json").read_text())
        isolation = results["protocol"].pop("isolated", False)
        found.append(((out / "metrics.jsonl").read_bytes(), results))
        assert isolation is (name == "true")
    assert found[0] == found[1]
