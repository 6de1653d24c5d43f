"""Several games at the same time (`run.num_envs`): in step, deterministic, and the same as one by one."""

from __future__ import annotations

import numpy as np
import pytest
from parts import act, observation
from run_folders import rows
from toy import ToyEnvironment
from toy_run import check_resuming, parts, run

from cbrcore.cycle.evaluation import UniformActor
from cbrcore.cycle.reasoner import decide_together
from cbrcore.cycle.runner import Seat, play_episode, play_together
from cbrcore.interfaces import ConcurrentEnvironment
from cbrcore.runs.folder import METRICS_FILE
from cbrcore.types import Action, Ending, StepResult, Transition


class Noted(ToyEnvironment):
    """An environment whose engine works by itself; notes when it is asked for what."""

    def __init__(self, name: str, notes: list[str], **settings) -> None:
        super().__init__(**settings)
        self.name, self.notes = name, notes

    def send(self, action: Action) -> None:
        self.notes.append(f"send {self.name}")
        self._result = self.step(action)

    def receive(self) -> StepResult:
        self.notes.append(f"receive {self.name}")
        return self._result


def seats(*environments: ToyEnvironment) -> list[Seat]:
    return [Seat(env, UniformActor(np.random.default_rng(number))) for number, env in enumerate(environments)]


def test_games_played_together_are_those_played_one_by_one():
    plays = [("books", 1), ("plates", 2), ("books", 3)]

    def environments() -> list[ToyEnvironment]:
        return [ToyEnvironment(max_steps=steps) for steps in (3, 30, 6)]

    alone = [
        play_episode(seat.environment, seat.actor, *play)
        for seat, play in zip(seats(*environments()), plays, strict=True)
    ]
    together = play_together(seats(*environments()), plays)
    assert together == alone
    assert len({episode.steps for episode in together}) > 1  # some waited for others


def test_all_engines_are_given_work_before_any_is_waited_for():
    notes: list[str] = []
    pair = [Noted("a", notes, max_steps=1), Noted("b", notes, max_steps=1)]
    assert isinstance(pair[0], ConcurrentEnvironment)
    assert not isinstance(ToyEnvironment(), ConcurrentEnvironment)
    play_together(seats(*pair), [("books", 1), ("plates", 1)])
    assert notes == ["send a", "send b", "receive a", "receive b"]


def test_a_game_without_anything_to_do_waits_for_the_others():
    class Empty(ToyEnvironment):
        def reset(self, game: str, seed: int):
            return observation()

    played, empty = play_together(seats(ToyEnvironment(), Empty()), [("books", 1), ("plates", 1)])
    assert (empty.ending, empty.steps) == (Ending.NO_ACTIONS, 0)
    assert played.steps > 0


def test_the_observer_hears_of_each_step_and_of_each_round():
    heard: list[object] = []

    class Observer:
        def took_step(self, seat: int, transition: Transition) -> None:
            heard.append(seat)

        def round_of_steps_done(self) -> None:
            heard.append("done")

    envs = (ToyEnvironment(max_steps=1), ToyEnvironment(max_steps=2))
    play_together(seats(*envs), [("books", 1), ("plates", 5)], observer=Observer())
    assert heard == [0, 1, "done", 1, "done"]


def test_companions_share_agent_and_memory_but_not_the_episode():
    first = parts().reasoner
    second = first.companion()
    assert (second.agent, second.retriever) == (first.agent, first.retriever)
    seen = observation(act("look"))
    first.decide(seen, np.random.default_rng(0))
    assert (first._state, second._state) == (1, 0)  # the agent's recurrent state: steps it has seen


def test_deciding_together_is_deciding_one_by_one():
    players = [parts().reasoner for _ in range(2)]
    env = ToyEnvironment()
    situations = [env.reset(game, 1) for game in ("books", "plates", "books")]

    def decide(player, *, together: bool):
        rng, company = np.random.default_rng(3), [player, player.companion(), player.companion()]
        if together:
            return [decision for decision, _ in decide_together(company, situations, rng)]
        return [p.decide(seen, rng)[0] for p, seen in zip(company, situations, strict=True)]

    assert decide(players[0], together=True) == decide(players[1], together=False)


def test_parallel_runs_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        run(tmp_path / name, num_envs=3)
    for name in (METRICS_FILE, "results.json", "memory/cases.jsonl", "memory/keys.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize("stop_after", [1, 4, 6, 9, 14, 18])
def test_interrupted_and_resumed_parallel_run_equals_the_uninterrupted_one(tmp_path, stop_after):
    check_resuming(tmp_path, stop_after, num_envs=5)


@pytest.mark.parametrize("num_envs", [1, 2, 5])
def test_the_budget_and_the_schedule_do_not_depend_on_the_number_of_environments(tmp_path, num_envs):
    run(tmp_path, num_envs=num_envs)
    run(tmp_path / "one")
    assert [(r["episode"], r["game"]) for r in rows(tmp_path)] == [
        (r["episode"], r["game"]) for r in rows(tmp_path / "one")
    ]
    assert rows(tmp_path)[-1]["env_steps"] == sum(row["steps"] for row in rows(tmp_path))


def test_cases_know_the_episode_they_come_from(tmp_path):
    experiment = run(tmp_path, num_envs=3, episodes=40)
    played = {row["episode"]: row for row in rows(tmp_path)}
    cases = experiment.parts.reasoner.retriever.memory.cases
    assert cases
    for case in cases:
        assert played[case.provenance.episode]["game"] == case.provenance.game
        assert played[case.provenance.episode]["score"] > 0


def test_an_update_takes_the_steps_of_all_games(tmp_path, monkeypatch):
    from cbr_a2c.learner import A2cLearner

    taken: list[int] = []
    update = A2cLearner._update_agent
    monkeypatch.setattr(
        A2cLearner,
        "_update_agent",
        lambda self, steps, returns: (taken.append(len(steps)), update(self, steps, returns)),
    )
    run(tmp_path, num_envs=3)  # update_every: 4
    assert max(taken) == 12
    assert sum(taken) == rows(tmp_path)[-1]["env_steps"]


def test_each_games_returns_are_its_own():
    """Two windows of different length: discounting never runs from one game into the other."""
    from cbr_a2c.windows import Windows
    from cbrcore.config import TrainingConfig
    from cbrcore.types import Decision, Ending

    built = parts()
    player = built.reasoner
    windows = Windows([player, player.companion()], TrainingConfig(gamma=0.5))
    seen, look = observation(act("look")), act("look")

    def step(reward: float, ending: Ending | None = None) -> Transition:
        return Transition(seen, Decision(look, "agent"), StepResult(seen, reward, ending))

    first, second = [step(0), step(4, Ending.LOST)], [step(1, Ending.WON)]
    for seat, taken in enumerate([first, second]):
        for one in taken:
            windows.add(seat, one)
    assert windows.due
    assert windows.take(valued=True) == ([*first, *second], [2, 4, 1])
    assert not windows.due
