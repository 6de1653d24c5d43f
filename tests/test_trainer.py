"""Training, checkpoints, resume and evaluation on a toy game: what must be exact is compared byte for byte."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import toy_run
from parts import DenseIndex, ScriptedAgent, act, observation
from run_folders import rows, same
from test_reasoner import BOOK_SHELF, LOOK, NOVEL_SHELF, Recorder, reasoner, remember
from toy import ToyEnvironment
from toy_run import Experiment, SilentReporter, check_resuming, parts, recipe, run, weights

from cbr_memory.memory import CaseMemory
from cbr_open.results import results_table
from cbr_pretrain.pairs import Experience, PairSampler
from cbrcore.config import EvaluationConfig
from cbrcore.console import StopRequest
from cbrcore.cycle.evaluation import (
    Played,
    ReuseCounts,
    UniformActor,
    game_seed,
    mean_std,
    ood_gap,
    pass_seed,
    play_passes,
    same_games,
    summarize,
)
from cbrcore.cycle.reasoner import CaseBasedReasoner
from cbrcore.cycle.runner import play_episode
from cbrcore.errors import CbrError, Interrupted, RunFailed, RunFolderError
from cbrcore.plugins import load_plugins
from cbrcore.recipe import load_recipe
from cbrcore.rng import Streams
from cbrcore.runs import assemble as assembling
from cbrcore.runs import trainer
from cbrcore.runs.checkpoint import Progress as Counters
from cbrcore.runs.checkpoint import State, latest_checkpoint, load_checkpoint, restore_agent, save_checkpoint
from cbrcore.runs.folder import METRICS_FILE, RunFolder
from cbrcore.runs.results import _facts, results_of
from cbrcore.runs.trainer import LearningActor
from cbrcore.types import (
    Candidate,
    Case,
    Decision,
    Ending,
    Episode,
    Match,
    Observation,
    Provenance,
    StepResult,
    Transition,
)


def test_same_recipe_and_seed_give_the_same_bytes(tmp_path):
    run(tmp_path / "a")
    run(tmp_path / "b")
    for name in (METRICS_FILE, "results.json", "memory/cases.jsonl", "memory/keys.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_budget_of_steps_ends_where_no_game_offers_anything(tmp_path, monkeypatch):
    observe = ToyEnvironment._observe
    monkeypatch.setattr(ToyEnvironment, "_observe", lambda *given: replace(observe(*given), admissible=()))
    with pytest.raises(RunFailed, match="no game offers anything to do"):
        run(tmp_path / "run", episodes=None, env_steps=30)


def test_a_split_that_there_is_not_is_found_out_before_anything_is_trained(monkeypatch):
    class Torn(ToyEnvironment):
        def games(self, split):
            if split == "out":
                raise CbrError("no such split")
            return super().games(split)

    registry, smoke = load_plugins().registry, Path(__file__).parents[1] / "recipes" / "smoke"
    checked = load_recipe(smoke / "text_cbr_generated.yaml", registry=registry)
    monkeypatch.setattr(assembling, "_environment", lambda *_: Torn())
    with pytest.raises(CbrError, match="no such split"):
        assembling.assemble(checked, registry)


@pytest.mark.parametrize("split", ["in", "out"])
def test_seeds_of_games_are_positive_and_of_31_bits(split):
    seeds = [game_seed(pass_seed(1, split, number), game) for number in range(40) for game in ("a", "b")]
    assert all(0 < seed < 2**31 for seed in seeds)
    assert len(set(seeds)) == len(seeds)


@pytest.mark.parametrize(("num_envs", "plays"), [(1, 4), (2, 4), (3, 6)])
def test_a_whole_pass_without_a_step_is_what_ends_such_a_run(tmp_path, monkeypatch, num_envs, plays):
    """A single step in between, and it goes on."""
    observe, reset, begun = ToyEnvironment._observe, ToyEnvironment.reset, []

    def counted(env, game, seed):
        begun.append(game)
        return reset(env, game, seed)

    def emptied(env, feedback, last):
        seen = observe(env, feedback, last)
        return seen if len(begun) == 4 and env._steps == 0 else replace(seen, admissible=())

    monkeypatch.setattr(ToyEnvironment, "reset", counted)
    monkeypatch.setattr(ToyEnvironment, "_observe", emptied)
    with pytest.raises(RunFailed, match="a whole pass took not one step"):
        run(tmp_path / "run", num_envs=num_envs, pretrain=0, episodes=None, env_steps=30)
    rounds = -(-4 // num_envs)  # the one with the step
    assert len(begun) == rounds * num_envs + plays


class Told(SilentReporter):
    """Notes the phases, and how often each advanced."""

    def __init__(self) -> None:
        self.phases: list[list] = []

    def phase(self, title: str, total: int, done: int = 0) -> None:
        self.phases.append([title, total, done, []])

    def advance(self, note: str = "") -> None:
        self.phases[-1][-1].append(note)


@pytest.mark.parametrize("more", [{"episodes": 6}, {"episodes": None, "env_steps": 25}])
@pytest.mark.parametrize("stop_after", [0, 16])
def test_progress_is_told_in_the_unit_of_the_budget(tmp_path, monkeypatch, more, stop_after):
    if stop_after:
        with pytest.raises(Interrupted):
            run(tmp_path / "run", stop_after=stop_after, checkpoint_every=1, **more)
    before = rows(tmp_path / "run") if stop_after else []
    told = Told()
    monkeypatch.setattr(toy_run, "SilentReporter", lambda: told)
    run(tmp_path / "run", checkpoint_every=1, **more)
    played = rows(tmp_path / "run")
    (title, total, done, notes), *measured = [each for each in told.phases if each[0][:5] in ("train", "evalu")]
    plays = more["episodes"] is not None
    assert (title, total) == (("training (game plays)", 12) if plays else ("training (env steps)", 25))
    assert done == (len(before) if plays else sum(row["steps"] for row in before))
    assert notes == [
        f"score {row['score']:g}, {row['memory_size']} cases"
        for row in played[len(before) :]
        for _ in range(1 if plays else row["steps"])
    ]
    assert [(title, total, done, len(notes)) for title, total, done, notes in measured] == [
        (f"evaluating on {split!r}, {mode} (game plays)", count, 0, count)
        for split, count in (("in", 4), ("out", 2))
        for mode in ("sampled", "greedy", "random")
    ]


@pytest.mark.parametrize(
    ("every", "num_envs", "kept"),
    [(5, 1, [10, 12]), (4, 1, [8, 12]), (50, 1, [12]), (1, 1, [11, 12]), (3, 5, [10, 12]), (7, 2, [8, 12])],
)
def test_a_checkpoint_is_taken_each_so_many_plays_and_at_the_end(tmp_path, every, num_envs, kept):
    """After the round of plays that comes to a multiple, or beyond it."""
    run(tmp_path, checkpoint_every=every, num_envs=num_envs, pretrain=0)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [f"{n:08d}" for n in kept]


def test_what_a_run_has_done_is_counted(tmp_path):
    experiment = run(tmp_path)
    played, results = rows(tmp_path), json.loads((tmp_path / "results.json").read_text())["training"]
    scores = [row["score"] for row in played]
    assert (results["avg_score_last_100"], results["best_score"]) == (sum(scores) / 12, max(scores))
    assert results["endings"] == dict(Counter(row["ending"] for row in played))
    assert (results["episodes"], results["env_steps"]) == (12, played[-1]["env_steps"])
    assert results["memory_size"] == played[-1]["memory_size"] == len(experiment.parts.reasoner.retriever.memory)
    timing = json.loads((tmp_path / "timing.json").read_text())
    assert timing["steps_per_second"] * timing["seconds"] == pytest.approx(results["env_steps"])
    assert 0 < sum(timing["shares"].values()) <= 1
    assert "total" not in timing["shares"]


def test_the_last_hundred_scores_are_averaged_and_the_best_of_all_stays():
    progress, end = Counters(), observation(LOOK)
    for number in range(120):
        seen = replace(end, score=float(-number))
        step = Transition(seen, Decision(LOOK, "agent"), StepResult(seen, 0.0, Ending.LOST))
        progress.count(Episode("g", 1, [step]))
    assert progress.recent_scores == [float(-number) for number in range(20, 120)]
    assert (progress.games_played, progress.best_score, progress.endings) == (120, 0.0, {"lost": 120})


@pytest.mark.parametrize("unread", [[], ["books"], ["books", "plates"], ["coats"]])
def test_of_games_whose_points_nobody_can_read_there_is_no_score(tmp_path, monkeypatch, unread):
    plain = ToyEnvironment.game_info
    monkeypatch.setattr(
        ToyEnvironment,
        "game_info",
        lambda env, game: {**plain(env, game), "initial_score": None if game in unread else 0},
    )
    run(tmp_path)
    results = json.loads((tmp_path / "results.json").read_text())
    none = unread == ["books", "plates"]
    assert (results["training"]["avg_score_last_100"] is None) is none
    assert (results["training"]["best_score"] is None) is none
    for split, games in (("in", {"books", "plates"}), ("out", {"coats"})):
        found = results["evaluation"][split]
        for figures in (found, found["greedy"], found["random"]):
            assert (figures["score"]["mean"] is figures["score"]["std"] is None) is (games <= set(unread))


def ten_seconds_a_play(monkeypatch) -> list[float]:
    """The trainer's clock stands still, but for ten seconds with each play of the training; what it says."""
    now, count_play = [0.0], Counters.count

    def played(progress, episode):
        now[0] += 10
        count_play(progress, episode)

    clock = SimpleNamespace(monotonic=lambda: now[0], perf_counter=lambda: now[0])
    monkeypatch.setattr("cbrcore.runs.trainer.time", clock)
    monkeypatch.setattr(Counters, "count", played)
    return now


@pytest.mark.parametrize(
    ("seconds", "kept"),
    [
        (0.0, list(range(12))),  # what costs nothing is done each time
        (0.5, [0, 1, 4, 7, 10]),  # free for a second in all; then each 30 s, at 10 s a play
        (0.7, [0, 1, 5, 9]),  # then a fiftieth of the time: 35 s
        (1.5, [0, 8]),  # 75 s
        (6.0, [0]),
    ],
)
def test_the_state_between_two_plays_is_kept_as_long_as_that_costs_little(tmp_path, monkeypatch, seconds, kept):
    now, found, write = ten_seconds_a_play(monkeypatch), [], trainer.write_checkpoint

    def slow(folder, state):
        found.append(state.progress.games_played)
        now[0] += seconds
        write(folder, state)

    monkeypatch.setattr(trainer, "write_checkpoint", slow)
    run(tmp_path, checkpoint_every=50, pretrain=0)
    assert found == kept


def test_a_clock_that_jumps_changes_nothing(tmp_path, monkeypatch):
    """Back and forth by a day, at every look at the time of day."""
    run(tmp_path / "steady")
    hours = count(start=0, step=37)
    monkeypatch.setattr("time.time", lambda: 1e9 + next(hours) % 48 * 3600)
    run(tmp_path / "jumping")
    same(tmp_path / "steady", tmp_path / "jumping")


@pytest.mark.parametrize("stop_after", [1, 4, 6, 9, 14, 18])
def test_interrupted_and_resumed_run_equals_the_uninterrupted_one(tmp_path, stop_after):
    """Stops while collecting, pretraining and training; checkpoints are also taken on the way."""
    check_resuming(tmp_path, stop_after)


def test_the_seconds_of_a_run_are_those_of_all_its_sessions(tmp_path, monkeypatch):
    """Also of one that could not say so when it ended: its checkpoint has them."""
    now = ten_seconds_a_play(monkeypatch)
    with pytest.raises(Interrupted):
        run(tmp_path, stop_after=14)
    assert 0 < now[0] < 120
    now[0] += 1000  # nobody ran it
    run(tmp_path)
    timing = json.loads((tmp_path / "timing.json").read_text())
    assert timing["seconds"] == 120  # 6 passes over 2 games
    steps = json.loads((tmp_path / "results.json").read_text())["training"]["env_steps"]
    assert timing["steps_per_second"] == pytest.approx(steps / 120)


def test_a_run_killed_after_a_checkpoint_drops_the_lost_lines_and_plays_them_again(tmp_path):
    run(tmp_path / "whole")
    with pytest.raises(Interrupted):
        run(tmp_path / "killed", stop_after=14)
    metrics = tmp_path / "killed" / METRICS_FILE
    metrics.write_bytes(metrics.read_bytes() + b'{"episode": 99}\n{"epi')  # written after the checkpoint
    run(tmp_path / "killed")
    assert metrics.read_bytes() == (tmp_path / "whole" / METRICS_FILE).read_bytes()


def test_metrics_hold_the_contract_and_no_clock(tmp_path):
    run(tmp_path / "a")
    played = rows(tmp_path / "a")
    assert [row["episode"] for row in played] == list(range(1, 13))  # 6 passes over 2 games
    assert played[-1]["env_steps"] == sum(row["steps"] for row in played)
    for row in played:
        assert row["agent_steps"] + row["reused"] == row["steps"]
        assert row["reuse_rewarded"] <= row["reused"]
        assert row["norm_score"] == row["score"]
    assert {
        "episode env_steps game score norm_score steps ending reused reuse_rewarded agent_steps memory_size",
        "loss_policy loss_value loss_entropy loss_retriever",
    } == {" ".join(list(played[0])[:11]), " ".join(list(played[0])[11:15])}


def test_each_pass_plays_every_training_game_once(tmp_path):
    run(tmp_path / "a")
    games = [json.loads(line)["game"] for line in (tmp_path / "a" / METRICS_FILE).read_text().splitlines()]
    passes = [games[i : i + 2] for i in range(0, len(games), 2)]
    assert all(sorted(played) == ["books", "plates"] for played in passes)
    assert len({tuple(played) for played in passes}) == 2  # in an order of its own


def test_env_step_budget_ends_with_the_episode_that_reaches_it(tmp_path):
    run(tmp_path / "a", episodes=None, env_steps=25)
    played = rows(tmp_path / "a")
    assert played[-1]["env_steps"] >= 25 > played[-2]["env_steps"]


def test_results_hold_both_splits_all_modes_and_the_baselines(tmp_path):
    run(tmp_path / "a")
    results = json.loads((tmp_path / "a" / "results.json").read_text())
    for split in ("in", "out"):
        found = results["evaluation"][split]
        assert found["mode"] == "sampled"
        assert found["optimal_steps"] == 2
        for figures in (found, found["greedy"], found["random"]):
            assert sum(figures["endings"].values()) == 2 * len(figures["games"])
            assert 0 <= figures["norm_score"]["mean"] <= 1
            assert 2 <= figures["steps"]["mean"] <= 10
    assert results["protocol"]["handicaps"] == {"state_graph": "ground truth"}
    assert results["protocol"]["games"]["out"] == {
        "coats": {"sha256": "coats", "max_score": 1, "optimal_steps": 2}
    }
    assert "seconds" not in json.dumps(results)


def test_each_case_counts_its_reuses_and_those_that_were_rewarded():
    """The agent's own steps count for none; a step without a reward is a reuse all the same."""
    made = reasoner("look", policy=Recorder())  # retains nothing
    remember(made, BOOK_SHELF)
    (case,) = made.retriever.memory.cases
    actor = LearningActor(made, Streams(0), Counters())
    actor.begin("books")
    counts = []
    steps = [(NOVEL_SHELF, 1.0), (NOVEL_SHELF, 0.0), (LOOK, 1.0), (NOVEL_SHELF, -1.0), (NOVEL_SHELF, 2.0)]
    for offered, reward in steps:
        decision, trace = actor.decide(observation(offered))
        actor.observe(decision, trace, StepResult(observation(LOOK), reward))
        counts.append((case.reused, case.reuse_rewarded))
    assert counts == [(1, 1), (2, 1), (2, 1), (3, 1), (4, 2)]


def test_evaluation_changes_nothing_in_the_agent(tmp_path):
    experiment = run(tmp_path / "a")
    reasoner = experiment.parts.reasoner
    before = {name: value.clone() for name, value in weights(experiment).items()}
    cases = json.dumps([asdict(case) for case in reasoner.retriever.memory.cases])
    state = json.dumps(experiment.parts.streams.state())
    first = experiment.evaluate(["in", "out"])
    assert first == experiment.evaluate(["in", "out"])
    assert all(torch.equal(value, weights(experiment)[name]) for name, value in before.items())
    assert json.dumps([asdict(case) for case in reasoner.retriever.memory.cases]) == cases
    assert json.dumps(experiment.parts.streams.state()) == state


def test_a_loaded_agent_evaluates_to_the_same_figures(tmp_path):
    trained = run(tmp_path / "a")
    folder = RunFolder.resume(tmp_path / "a")
    fresh = Experiment(recipe(), parts(), folder, SilentReporter(), StopRequest())
    fresh.load_agent()
    folder.close()
    assert fresh.evaluate(["in", "out"]) == trained.evaluate(["in", "out"])


def test_the_toy_game_is_learned_by_the_agent_and_by_reuse(tmp_path):
    """After training the agent solves the training games by reuse far more often than at random."""
    experiment = run(tmp_path / "a", episodes=40)
    found = experiment.evaluate(["in"])["in"]
    assert found["reuse_rewarded"] > 0
    assert found["norm_score"]["mean"] >= found["random"]["norm_score"]["mean"]
    assert {case.template for case in experiment.parts.reasoner.retriever.memory.cases} == {"put {} on {}"}


# -- checkpoints -----------------------------------------------------------------------------------------------


def checkpoint(folder: Path, games_played: int, value: float = 1.0) -> Path:
    return save_checkpoint(folder, State(Counters(games_played), {"w": torch.tensor([value])}, {}, {}))


def test_the_latest_checkpoint_is_the_one_with_the_most_games_by_its_own_record(tmp_path):
    for games in (9, 10, 100):
        checkpoint(tmp_path, games)
    shutil.copytree(tmp_path / "00000010", tmp_path / "zz-copied-by-hand")
    shutil.copytree(tmp_path / "00000010", tmp_path / "best")
    assert latest_checkpoint(tmp_path) == tmp_path / "00000100"


def test_a_checkpoint_is_replaced_by_one_rename(tmp_path, monkeypatch):
    """The kill that comes before the old one is removed leaves the new one as the newest."""
    checkpoint(tmp_path, 1, 1.0)
    with monkeypatch.context() as killed:
        killed.setattr("cbrcore.runs.checkpoint.shutil.rmtree", lambda path, **_: None)
        checkpoint(tmp_path, 1, 2.0)
    newest = latest_checkpoint(tmp_path)
    assert load_checkpoint(newest, {})[1]["w"].item() == 2.0
    checkpoint(tmp_path, 1, 3.0)
    (only,) = tmp_path.iterdir()
    assert load_checkpoint(only, {})[1]["w"].item() == 3.0


def test_old_checkpoints_and_leftovers_are_removed(tmp_path):
    (tmp_path / ".00000001.77.tmp").mkdir()
    for games in (1, 2, 3):
        checkpoint(tmp_path, games)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000002", "00000003"]


def test_an_old_checkpoint_that_cannot_be_removed_stays(tmp_path):
    """A link to a folder on a larger disk."""
    checkpoint(tmp_path / "run", 1).rename(tmp_path / "elsewhere")
    (tmp_path / "run" / "00000001").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    for games in (2, 3, 4):
        assert checkpoint(tmp_path / "run", games).name == f"{games:08d}"
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["00000001", "00000003", "00000004"]


def test_checkpoints_of_a_future_that_was_not_reached_again_go(tmp_path):
    for games in (4, 9, 12):
        checkpoint(tmp_path, games)
    assert checkpoint(tmp_path, 9).name == "00000009-2"
    assert [path.name for path in tmp_path.iterdir()] == ["00000009-2"]
    checkpoint(tmp_path, 10)
    checkpoint(tmp_path, 11)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000010", "00000011"]


def test_a_checkpoint_that_could_not_be_written_leaves_nothing(tmp_path, monkeypatch):
    checkpoint(tmp_path, 1)
    monkeypatch.setattr("cbrcore.runs.checkpoint.write_tensors", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        checkpoint(tmp_path, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["00000001"]


def test_a_half_written_checkpoint_is_passed_over(tmp_path):
    checkpoint(tmp_path, 1)
    checkpoint(tmp_path, 2)
    (tmp_path / "00000002" / "state.json").write_text('{"format": 1, "prog')
    assert latest_checkpoint(tmp_path) == tmp_path / "00000001"
    assert latest_checkpoint(tmp_path / "nothing") is None


def test_weights_that_are_not_finite_are_never_saved(tmp_path):
    checkpoint(tmp_path, 1)
    with pytest.raises(RunFailed, match="not finite"):
        checkpoint(tmp_path, 2, float("nan"))
    assert latest_checkpoint(tmp_path) == tmp_path / "00000001"


def test_a_checkpoint_of_other_parts_is_refused(tmp_path):
    run(tmp_path / "a")
    other = parts()
    other.reasoner.retriever.encoder.rows = torch.nn.Parameter(torch.zeros(3, 8))
    with pytest.raises(RunFolderError, match="does not fit the context_encoder"):
        restore_agent(latest_checkpoint(tmp_path / "a" / "checkpoints"), other.reasoner, {})


# -- playing ---------------------------------------------------------------------------------------------------


def test_sum_of_rewards_is_the_score_and_endings_are_told_apart():
    env = ToyEnvironment(max_steps=4)
    plays = [play_episode(env, UniformActor(np.random.default_rng(seed)), "books", 1) for seed in range(30)]
    for episode in plays:
        assert sum(step.result.reward for step in episode.transitions) == episode.score
        assert (episode.ending is Ending.WON) == (episode.score == 1)
    assert {episode.ending for episode in plays} == {Ending.WON, Ending.TRUNCATED}


class Emptied(ToyEnvironment):
    """Offers nothing any more after so many steps."""

    def __init__(self, empty_at: int, **settings: int) -> None:
        super().__init__(**settings)
        self.empty_at = empty_at

    def _observe(self, feedback: str, last: str | None) -> Observation:
        seen = super()._observe(feedback, last)
        return replace(seen, admissible=()) if self._steps >= self.empty_at else seen


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_an_episode_ends_where_no_action_is_admissible(steps: int):
    env = Emptied(steps, max_steps=9)
    episode = play_episode(env, UniformActor(np.random.default_rng(3)), "coats", 1)
    assert (episode.ending, episode.steps) == (Ending.NO_ACTIONS, steps)
    assert episode.ending.terminal
    assert (episode.score, episode.norm_score) == (0.0, 0.0)


def test_an_ending_of_the_game_counts_although_nothing_is_admissible_then():
    env = Emptied(3, max_steps=3)
    episode = play_episode(env, UniformActor(np.random.default_rng(3)), "coats", 1)
    assert episode.ending is Ending.TRUNCATED


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_uniform_policy_takes_each_action_equally_often_and_says_so(count):
    seen, actor = (
        observation(*(act(f"do {number}") for number in range(count))),
        UniformActor(np.random.default_rng(0)),
    )
    decisions = [actor.decide(seen)[0] for _ in range(400 * count)]
    assert {decision.agent_probability for decision in decisions} == {1 / count}
    assert all(decision.action == decision.agent_action for decision in decisions)
    for action in seen.admissible:
        assert sum(decision.action == action for decision in decisions) == pytest.approx(400, abs=80)


@pytest.mark.parametrize(
    ("stream", "game", "seed"), [(0, "books", 415009870), (1, "books", 957871804), (1, "plates", 70903663)]
)
def test_a_game_gets_the_seed_of_every_machine_and_version(stream, game, seed):
    assert game_seed(stream, game) == seed
    assert pass_seed(3, "in", 1) == 897924932094515771


@pytest.mark.parametrize(
    ("derived", "seed"), [(0, 1), (2**31 - 2, 2**31 - 1), (2**31 - 1, 1), (2**31, 2), (2**63 - 1, 2)]
)
def test_a_games_seed_has_31_bits_and_is_not_0(monkeypatch, derived, seed):
    monkeypatch.setattr("cbrcore.cycle.evaluation.derive_seed", lambda *_: derived)
    assert game_seed(0, "books") == seed


def test_passes_use_random_numbers_of_their_own():
    def steps() -> list[int]:
        return [play.steps for play in play_passes(ToyEnvironment(), UniformActor, "in", passes=6, seed=1)]

    assert steps() == steps()
    assert len(set(steps())) > 1


def test_means_are_over_games_and_std_over_passes():
    def play(game: str, number: int, steps: int, norm: float) -> Played:
        return Played(game, number, steps, norm, norm, Ending.TRUNCATED, ReuseCounts(2, 1, 0))

    plays = [play("a", 0, 10, 0.0), play("b", 0, 20, 1.0), play("a", 1, 30, 1.0), play("b", 1, 40, 1.0)]
    found = summarize(plays)
    assert found["steps"] == {"mean": 25.0, "std": pytest.approx(14.1421356)}  # passes: 15 and 35
    assert found["norm_score"] == {"mean": 0.75, "std": pytest.approx(0.3535534)}
    assert found["games"]["a"] == {"steps": 20.0, "norm_score": 0.5}
    assert mean_std(plays[:2], lambda p: None) == {"mean": None, "std": None}
    counts = [found[name] for name in ("total_steps", "reused", "reuse_rewarded", "reuse_agent_same")]
    assert counts == [100, 8, 4, 0]
    assert ood_gap({"in": found, "out": summarize(plays[:2])}) == {"steps": 10.0, "norm_score": 0.25}
    assert ood_gap({"in": found}) is None


@pytest.mark.parametrize("teller", ["agent", "reuse_policy", "encoder", "environment"])
def test_whoever_is_told_more_than_the_game_is_named(tmp_path, teller):
    """Also an environment that knows it only when its games are listed."""
    made = parts()
    environment, reasoner = made.environment, made.reasoner
    if teller == "environment":
        listed = environment.games
        environment.games = lambda split: setattr(environment, "handicaps", {"more": "a map"}) or listed(split)
    else:
        part = reasoner.retriever.encoder if teller == "encoder" else getattr(reasoner, teller)
        part.handicaps = {"more": "a map"}
    folder = RunFolder.create("toy", tmp_path / "run")
    work = Experiment(recipe(), made, folder, SilentReporter(), StopRequest()).work
    assert results_of(work, Counters(), {})["protocol"]["handicaps"]["more"] == "a map"
    folder.close()


def random_row(folder: Path, slow: int | None = None, **config) -> tuple[dict, dict]:
    """(figures of the agent, of the uniform random policy) of an untrained toy agent, on its split "in"."""
    made = parts()
    if slow is not None:
        made.environment.random_passes = slow
    evaluated = recipe().model_copy(update={"evaluation": EvaluationConfig(**config)})
    run_folder = RunFolder.create("toy", folder)
    found = Experiment(evaluated, made, run_folder, SilentReporter(), StopRequest()).evaluate(["in"])["in"]
    run_folder.close()
    return {name: value for name, value in found.items() if name != "random"}, found["random"]


@pytest.mark.parametrize(
    ("config", "slow", "passes"),
    [
        ({"passes": 2}, None, 100),
        ({"passes": 2}, 7, 7),
        ({"passes": 120}, None, 120),
        ({"passes": 9}, 7, 9),
        ({"passes": 2, "random_passes": 3}, None, 3),
        ({"passes": 5, "random_passes": 3}, 7, 3),
    ],
)
def test_the_random_policy_plays_100_passes_unless_something_says_otherwise(tmp_path, config, slow, passes):
    """A slow environment, or the recipe. The agent's own figures are the same whatever it is."""
    agent, random = random_row(tmp_path / "one", slow, **config)
    games = len(ToyEnvironment().games("in"))
    assert (random["passes"], sum(random["endings"].values())) == (passes, passes * games)
    assert agent == random_row(tmp_path / "two", **(config | {"random_passes": 1}))[0]
    assert sum(agent["endings"].values()) == config["passes"] * games
    first = play_passes(ToyEnvironment(), UniformActor, "in", passes=passes, seed=5)
    assert random["steps"]["mean"] == mean_std(first, lambda play: play.steps)["mean"]


@pytest.mark.parametrize(("passes", "t"), [(100, 1.9842), (20, 2.0930), (10, 2.2622), (9, None), (1, None)])
def test_the_random_policy_has_an_interval_of_95_percent(tmp_path, passes, t):
    _, random = random_row(tmp_path / "run", passes=1, random_passes=passes)
    for name in ("steps", "norm_score", "score"):
        mean, std, interval = (random[name][key] for key in ("mean", "std", "interval"))
        if t is None:
            assert interval is None
        else:
            half = t * std / passes**0.5
            assert interval == pytest.approx([mean - half, mean + half], abs=0.02 * half)


class Games(ToyEnvironment):
    """Splits of games with these facts."""

    def __init__(self, splits: dict[str, dict[str, dict]]) -> None:
        super().__init__()
        self._splits = splits

    def splits(self) -> tuple[str, ...]:
        return tuple(self._splits)

    def games(self, split: str) -> tuple[str, ...]:
        return tuple(self._splits[split])

    def game_info(self, game: str) -> dict:
        return next(games[game] for games in self._splits.values() if game in games)


class Knowing(Games):
    """What is called alike but for a number at the end is the same."""

    def content(self, game: str) -> str:
        return game.rstrip("0123456789")


A, B = {"sha256": "aa"}, {"sha256": "bb"}


@pytest.mark.parametrize(
    ("environment", "same"),
    [
        (Games({"train": {"one": A}, "in": {"two": B}}), []),
        (Games({"train": {"one": A}, "out": {"other": A}}), [["train/one", "out/other"]]),
        (Games({"train": {"one": A, "two": A}, "out": {"three": B}}), [["train/one", "train/two"]]),
        (Games({"train": {"one": A}, "in": {"one": A}}), [["train/one", "in/one"]]),
        (Games({"train": {"one": {"md5": "aa"}}, "out": {"two": {"md5": "aa"}}}), [["train/one", "out/two"]]),
        (
            Games({"train": {"one": A, "two": B}, "out": {"1": B, "2": A}}),
            [["train/one", "out/2"], ["train/two", "out/1"]],
        ),
        (Games({"train": {"one": {}}, "out": {"two": {}}}), []),
        (Games({"train": {"only": {}}}), []),
        (Knowing({"train": {"one1": A}, "in": {"one2": B}, "out": {"two": A}}), [["train/one1", "in/one2"]]),
    ],
)
def test_one_game_of_several_names_is_found_by_its_content(environment, same):
    assert same_games(environment) == same


def test_reuse_is_counted_by_its_outcome_and_by_what_the_agent_would_have_done():
    look, take = act("look"), act("take {}", "cup")
    case = Case(0, "take {}", ("cup",), "take cup", Provenance("g", 0, 1, 1, 1.0))
    chosen = Candidate(take, Match(case, 1.0), ("cup",), "admissible")

    def step(reward: float, *, reused: bool, own=look) -> Transition:
        decision = Decision(
            take, "reuse" if reused else "agent", chosen=chosen if reused else None, agent_action=own
        )
        return Transition(observation(look, take), decision, StepResult(observation(look), reward))

    steps = [
        step(1.0, reused=True),
        step(1.0, reused=True, own=take),
        step(0.0, reused=True, own=take),
        step(1.0, reused=False, own=take),
    ]
    assert ReuseCounts.of(Episode("g", 1, steps)) == ReuseCounts(reused=3, rewarded=2, agent_same=1)


def test_episode_without_a_known_maximum_has_no_normalized_score():
    assert Episode("g", 1).norm_score is None


def ended_with(score: float, best: float | None) -> Episode:
    end = replace(observation(act("look")), score=score, max_score=best)
    return Episode("g", 1, [Transition(end, Decision(act("look"), "agent"), StepResult(end, 0.0))])


@pytest.mark.parametrize("best", [None, 0, 0.0, -0.0, -5, -0.5, float("nan"), float("-inf")])
@pytest.mark.parametrize("score", [-5.0, -2.5, 0.0, 3.0])
def test_a_share_is_of_a_maximum_above_0(score, best):
    assert ended_with(score, best).norm_score is None


@pytest.mark.parametrize(("score", "share"), [(-2.0, -0.5), (0.0, 0.0), (1.0, 0.25), (4.0, 1.0)])
def test_a_negative_score_is_a_negative_share(score, share):
    assert ended_with(score, 4).norm_score == share


def table_of(maxima: dict[str, float | None], score: float = 1.0) -> tuple[dict, str]:
    """(figures of a split, the run's table) of games with these maxima, each played once to this score."""
    plays = [
        Played(game, 0, 10, score, ended_with(score, best).norm_score, Ending.TRUNCATED, ReuseCounts(0, 0, 0))
        for game, best in maxima.items()
    ]
    figures = summarize(plays)
    found = figures | {"mode": "sampled", "random": figures, "optimal_steps": 4.0}
    facts = {game: {"max_score": best} for game, best in maxima.items()}
    return figures, results_table(
        {"name": "toy", "evaluation": {"out": found}, "protocol": {"games": {"train": {}, "out": facts}}}
    )


@pytest.mark.parametrize(
    ("best", "why"),
    [(-5, "the game's maximum is -5"), (0, "the game's maximum is 0"), (None, "the game tells no maximum")],
)
def test_a_table_says_why_there_is_no_normalized_score(best, why):
    figures, table = table_of({"a": best, "b": best})
    assert figures["norm_score"] == {"mean": None, "std": None}
    assert f"\n\nOUT norm. score of a, b: not available: {why}\n" in f"{table}\n"
    assert "1.00" not in table  # nor has the optimal policy one


@pytest.mark.parametrize("best", [-5, 0, None])
def test_a_mean_over_some_of_the_games_says_over_how_many(best):
    figures, table = table_of({"a": 2, "b": best, "c": 4})
    assert figures["norm_score"] == {"mean": 0.375, "std": 0.0, "games": 2}
    assert "| 0.38 ± 0.00 (2 of 3 games) |" in table
    assert "OUT norm. score of b: not available: " in table


def test_a_table_of_results_has_a_column_for_each_figure_and_a_row_for_each_policy():
    table, spread = table_of({"a": 2, "b": 4})[1].split("\n\n")
    header, _, *rows = table.splitlines()
    assert spread == "#steps by game: OUT 10.0 to 10.0"
    assert [cell.strip() for cell in header.strip("|").split("|")] == ["agent", "OUT #steps", "OUT norm. score"]
    assert [row.strip("|").split("|")[0].strip() for row in rows] == ["toy (sampled)", "uniform random", "optimal"]
    assert [cell.strip() for cell in rows[-1].strip("|").split("|")] == ["optimal", "4.0", "1.00"]


def test_a_mean_over_all_games_says_nothing_of_it():
    figures, table = table_of({"a": 2, "b": 4}, score=-1)
    assert figures["norm_score"] == {"mean": -0.375, "std": 0.0}
    assert "| -0.38 ± 0.00 " in table
    assert "games" not in table
    assert "not available" not in table


# -- pretraining pairs -----------------------------------------------------------------------------------------


def item(name: str, template: str, rewarded: bool) -> Experience:
    return Experience("state", (name,), template, rewarded)


def test_pairs_join_rewarded_items_of_a_template_and_part_the_rest():
    good, other, bad = item("a", "put", True), item("b", "insert", True), item("c", "put", False)
    noise = item("d", "take", False)  # its template was never rewarded: no evidence about anything
    sampler = PairSampler([good, other, bad, noise, bad], np.random.default_rng(0))
    assert len(sampler) == 3
    left, right, negative = sampler.draw(200)
    for a, b, apart in zip(left, right, negative, strict=True):
        assert a.rewarded
        assert apart == (not b.rewarded or a.template != b.template)
    seen = set(zip(left, right, strict=True))
    assert {(good, other), (good, bad), (other, good)} == seen  # none of an item with itself
    sampler = PairSampler([good, item("e", "put", True), other, bad], np.random.default_rng(0))
    left, _, negative = sampler.draw(200)
    assert sum(negative) == 100 + sum(each == other for each in left[::2])  # it has no partner of its template


@pytest.mark.parametrize("order", [(False, True), (True, False), (False, True, False), (True, False, True)])
@pytest.mark.parametrize(
    "others", [[], [item("b", "put", True)], [item("b", "put", True), item("c", "put", False)]]
)
def test_an_item_seen_with_and_without_a_reward_counts_as_rewarded(order, others):
    """It is never drawn as the unrewarded side of a pair, and counted once."""
    seen = [item("a", "put", rewarded) for rewarded in order]
    sampler = PairSampler([*seen, *others], np.random.default_rng(0))
    failed = [other for other in others if not other.rewarded]
    assert (len(sampler.rewarded), sampler.failed) == (1 + len(others) - len(failed), failed)
    assert sampler.pairs == len(sampler.rewarded) * len(others)
    if not others:
        return
    _, right, negative = sampler.draw(40)
    assert {other for other, apart in zip(right, negative, strict=True) if apart} == set(failed)
    assert {other for _, other in sampler.kinds(40)["failed"]} == set(failed)


class Telling(CaseMemory):
    """A memory with something to say."""

    def facts(self):
        return {"told": 3}


@pytest.mark.parametrize("telling", [False, True])
def test_what_a_part_has_to_say_is_in_the_results_and_nothing_where_none_has(tmp_path, monkeypatch, telling):
    assert _facts(CaseBasedReasoner(ScriptedAgent("look"))) == {}
    made = toy_run.parts()
    if telling:
        made.reasoner.retriever.memory = Telling(DenseIndex(), identity="toy")
    monkeypatch.setattr(toy_run, "parts", lambda *_: made)
    toy_run.run(tmp_path / "run")
    training = json.loads((tmp_path / "run" / "results.json").read_text())["training"]
    assert training["facts"] == {"memory": {"told": 3} if telling else {"prototypes": training["memory_size"]}}


def test_a_run_that_ends_well_leaves_its_cases_and_its_times(tmp_path):
    """In the run's folder, not in a checkpoint alone."""
    experiment = toy_run.run(tmp_path / "run")
    cases = (tmp_path / "run" / "memory" / "cases.jsonl").read_text().splitlines()
    assert len(cases) == len(experiment.parts.reasoner.retriever.memory) > 0
    assert json.loads((tmp_path / "run" / "timing.json").read_text())["seconds"] > 0
