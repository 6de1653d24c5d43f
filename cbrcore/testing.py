"""Conformance suites for plugin authors: subclass one, say how to make your part, run pytest.

    from cbrcore.testing import QuantizerSuite

    class TestMine(QuantizerSuite):
        def make(self, build):
            return MyQuantizer(MyConfig(), build)

Each test is one sentence of the contract in `cbrcore.interfaces`. Needs pytest and torch.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from cbrcore.config import NoSettings
from cbrcore.interfaces import (
    AgentInput,
    Build,
    ContextEncoder,
    Environment,
    Job,
    Launcher,
    NeuralAgent,
    Quantizer,
    Recorder,
    RetainItem,
    RetainPolicy,
    TextEncoder,
)
from cbrcore.types import Action, EntityTuple, Observation, StateGraph

DIM = 24


class WordHashEncoder:
    """A text encoder without a model: each text is a fixed random vector of its own."""

    dim = DIM
    identity = "word-hash"

    def __init__(self, config: NoSettings | None = None, build: Build | None = None) -> None:
        pass

    def __repr__(self) -> str:
        return "WordHashEncoder()"

    def encode(self, texts: Sequence[str]) -> Tensor:
        rows = [np.random.default_rng(list(text.encode()) or [0]).standard_normal(DIM) for text in texts]
        return torch.tensor(np.array(rows).reshape(len(texts), DIM), dtype=torch.float32)


GRAPHS = (
    StateGraph.of([("cup", "on", "table"), ("table", "at", "kitchen"), ("rack", "at", "kitchen")], ["player"]),
    StateGraph.of([("cup", "in", "player"), ("table", "at", "kitchen"), ("rack", "at", "kitchen")]),
    StateGraph.of([], ["kitchen"]),
)
TUPLES: tuple[EntityTuple, ...] = (("cup", "table"), ("cup",), ("cup", "rack"), ("unseen thing", "rack"))


def sample_observation(graph: StateGraph = GRAPHS[0], **changes: Any) -> Observation:
    """An observation with the state graph `graph`, and three admissible actions."""
    actions = (
        Action.from_template("look", []),
        Action.from_template("put {} on {}", ["cup", "rack"]),
        Action.from_template("take {}", ["cup"]),
    )
    seen = Observation("You see a cup.", "A kitchen. A cup is on the table.", "You carry nothing.", actions, graph)
    return replace(seen, **changes)


class Suite(ABC):
    """What the suites share."""

    @pytest.fixture
    def build(self, tmp_path: Path) -> Build:
        """What the part is built with; override to add to it."""
        torch.manual_seed(0)
        return Build(cache_dir=tmp_path, recipe_dir=tmp_path, text_encoder=WordHashEncoder(), context_dim=DIM)

    @abstractmethod
    def make(self, build: Build) -> Any:
        """A new part."""

    def test_it_has_a_short_repr(self, build: Build) -> None:
        assert type(self.make(build)).__name__ in repr(self.make(build))
        assert len(repr(self.make(build))) < 2000


class TextEncoderSuite(Suite):
    """`TextEncoder`: one fixed row per text."""

    def test_one_finite_row_per_text_without_gradient(self, build: Build) -> None:
        encoder: TextEncoder = self.make(build)
        vectors = encoder.encode(["a red cup", "", "look", "a red cup"])
        assert vectors.shape == (4, encoder.dim)
        assert vectors.dtype == torch.float32
        assert torch.isfinite(vectors).all()
        assert not vectors.requires_grad

    def test_no_texts_no_rows(self, build: Build) -> None:
        encoder: TextEncoder = self.make(build)
        assert encoder.encode([]).shape == (0, encoder.dim)

    def test_a_text_has_the_same_bits_whatever_is_encoded_with_it(self, build: Build) -> None:
        texts = ["cup", "a much longer text about a cup on a table", "rack"]
        together = self.make(build).encode(texts)
        alone = [self.make(build).encode([text])[0] for text in texts]
        assert torch.equal(together, torch.stack(alone))

    def test_it_has_an_identity(self, build: Build) -> None:
        assert self.make(build).identity == self.make(build).identity != ""


class ContextEncoderSuite(Suite):
    """`ContextEncoder`: contexts depend on the situation and the seeds alone."""

    def situations(self, encoder: ContextEncoder) -> list[Any]:
        return [encoder.situation(sample_observation(graph), []) for graph in GRAPHS]

    def test_one_context_per_tuple(self, build: Build) -> None:
        encoder: ContextEncoder = self.make(build).train(False)
        for situation in self.situations(encoder):
            contexts = encoder.contexts_of_pairs([(situation, seeds) for seeds in TUPLES])
            assert contexts.shape == (len(TUPLES), encoder.dim)
            assert torch.isfinite(contexts).all()
        assert encoder.contexts_of_pairs([]).shape == (0, encoder.dim)

    def test_pairs_in_a_batch_equal_single_contexts(self, build: Build) -> None:
        encoder: ContextEncoder = self.make(build).train(False)
        pairs = [(situation, seeds) for situation in self.situations(encoder) for seeds in TUPLES]
        together = encoder.contexts_of_pairs(pairs)
        alone = torch.cat([encoder.contexts_of_pairs([pair]) for pair in pairs])
        torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)

    def test_situations_are_hashable_and_equal_for_equal_observations(self, build: Build) -> None:
        encoder: ContextEncoder = self.make(build)
        assert len({hash(situation) for situation in [*self.situations(encoder), *self.situations(encoder)]}) <= 3
        assert self.situations(encoder) == self.situations(encoder)

    def test_gradients_reach_the_parameters(self, build: Build) -> None:
        encoder: ContextEncoder = self.make(build)
        situation = self.situations(encoder)[0]
        encoder.contexts_of_pairs([(situation, seeds) for seeds in TUPLES]).square().sum().backward()  # type: ignore[no-untyped-call]
        parameters = list(encoder.parameters())
        assert not parameters or any(p.grad is not None and p.grad.abs().sum() > 0 for p in parameters)


class QuantizerSuite(Suite):
    """`Quantizer` and its `KeyIndex`."""

    def contexts(self, count: int = 12) -> Tensor:
        return torch.randn(count, DIM, generator=torch.Generator().manual_seed(1))

    def fitted(self, build: Build) -> Quantizer:
        quantizer: Quantizer = self.make(build).train(False)
        quantizer.fit(self.contexts(), torch.Generator().manual_seed(0))
        return quantizer

    def test_keys_are_constant_and_repeatable(self, build: Build) -> None:
        quantizer = self.fitted(build)
        keys = quantizer.keys(self.contexts())
        assert len(keys) == 12
        assert not keys.requires_grad
        assert torch.equal(keys, quantizer.keys(self.contexts()))

    def test_similarity_is_between_0_and_1_and_1_with_itself(self, build: Build) -> None:
        quantizer, contexts = self.fitted(build), self.contexts()
        keys = quantizer.keys(contexts)
        own = quantizer.similarity(contexts, keys)
        torch.testing.assert_close(own, torch.ones_like(own))
        other = quantizer.similarity(contexts, keys.roll(1, 0))
        assert ((other >= 0) & (other <= 1 + 1e-6)).all()

    def test_index_agrees_with_similarity(self, build: Build) -> None:
        quantizer, contexts = self.fitted(build), self.contexts()
        keys, index = quantizer.keys(contexts), quantizer.index()
        index.add(keys[:5])
        index.add(keys[5:])
        found = index.similarities(keys)  # [12, 12]
        for column in range(len(keys)):
            expected = quantizer.similarity(contexts, keys[column].expand_as(keys)).detach()
            looked = torch.isfinite(found[:, column])  # an approximate index may not have looked
            torch.testing.assert_close(found[looked, column], expected[looked])
        assert torch.isfinite(found.diagonal()).all()

    def test_index_keeps_rows_in_the_order_asked_for(self, build: Build) -> None:
        quantizer = self.fitted(build)
        keys, index = quantizer.keys(self.contexts()), quantizer.index()
        index.add(keys)
        index.keep([7, 2])
        assert len(index) == 2
        assert torch.equal(index.keys(), keys[[7, 2]])
        index.keep([])
        assert len(index) == 0
        index.add(keys[:3])
        assert torch.equal(index.keys(), keys[:3])

    def test_pair_similarity_is_symmetric(self, build: Build) -> None:
        quantizer, contexts = self.fitted(build), self.contexts()
        left, right = contexts, contexts.roll(3, 0)
        torch.testing.assert_close(quantizer.pair_similarity(left, right), quantizer.pair_similarity(right, left))

    def test_gradients_reach_the_contexts(self, build: Build) -> None:
        quantizer = self.fitted(build).train(True)
        assert quantizer is not None
        contexts = self.contexts().requires_grad_()
        keys = quantizer.keys(self.contexts().roll(1, 0))
        quantizer.similarity(contexts, keys).sum().backward()
        assert contexts.grad is not None
        assert torch.isfinite(contexts.grad).all()

    def test_an_empty_batch_costs_nothing(self, build: Build) -> None:
        quantizer = self.fitted(build)
        assert float(quantizer.regularizer(torch.zeros(0, DIM)).detach()) == 0
        assert len(quantizer.keys(torch.zeros(0, DIM))) == 0

    def test_state_survives_saving_and_loading(self, build: Build) -> None:
        quantizer = self.fitted(build)
        other: Quantizer = self.make(build).train(False)
        other.load_state_dict({name: value.clone() for name, value in quantizer.state_dict().items()})
        assert torch.equal(other.keys(self.contexts()), quantizer.keys(self.contexts()))


class RetainPolicySuite(Suite):
    """`RetainPolicy`: a selection of the buffer that holds no item twice."""

    def buffer(self, length: int = 6) -> list[RetainItem]:
        items = [
            RetainItem(torch.ones(3), Action(f"act {step}", f"act {step}"), step, 0.0, td_error=0.1 * step)
            for step in range(length)
        ]
        return [*items[:-1], replace(items[-1], reward=1.0, td_error=None)]

    def test_selects_items_of_the_buffer_each_at_most_once(self, build: Build) -> None:
        policy: RetainPolicy = self.make(build)
        for length in (1, 2, 6):
            buffer = self.buffer(length)
            steps = [item.step for item in policy.select(buffer, np.random.default_rng(0))]
            assert 1 <= len(steps) == len(set(steps)) <= length
            assert set(steps) <= set(range(length))

    def test_the_rewarded_action_is_always_selected(self, build: Build) -> None:
        policy: RetainPolicy = self.make(build)
        assert 5 in [item.step for item in policy.select(self.buffer(), np.random.default_rng(0))]

    def test_equal_random_numbers_give_equal_selections(self, build: Build) -> None:
        def select() -> list[int]:
            policy: RetainPolicy = self.make(build)
            return [item.step for item in policy.select(self.buffer(), np.random.default_rng(3))]

        assert select() == select()


class AgentSuite(Suite):
    """`NeuralAgent`: a distribution over the admissible actions and a value, batched."""

    def inputs(self, agent: NeuralAgent) -> list[AgentInput]:
        seen = [sample_observation(graph) for graph in GRAPHS]
        seen.append(
            sample_observation(feedback="", description="", inventory="", admissible=seen[0].admissible[:1])
        )
        return [AgentInput(observation, agent.initial_state()) for observation in seen]

    def test_one_finite_output_per_input(self, build: Build) -> None:
        agent: NeuralAgent = self.make(build).train(False)
        inputs = self.inputs(agent)
        for item, output in zip(inputs, agent.policy(inputs), strict=True):
            assert output.logits.shape == (len(item.observation.admissible),)
            assert output.value.shape == ()
            assert torch.isfinite(output.logits).all()
            assert torch.isfinite(output.value)

    def test_a_batch_gives_what_its_inputs_give_alone(self, build: Build) -> None:
        agent: NeuralAgent = self.make(build).train(False)
        inputs = self.inputs(agent)
        for together, item in zip(agent.policy(inputs), inputs, strict=True):
            alone = agent.policy([item])[0]
            torch.testing.assert_close(together.logits, alone.logits, atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(together.value, alone.value, atol=1e-5, rtol=1e-4)

    def test_acting_without_gradients_equals_the_training_forward(self, build: Build) -> None:
        agent: NeuralAgent = self.make(build).train(False)
        inputs = self.inputs(agent)
        with torch.no_grad():
            agent.policy(inputs)
            acting = agent.policy(inputs)
        for left, right in zip(acting, agent.policy(inputs), strict=True):
            torch.testing.assert_close(left.logits, right.logits, atol=1e-5, rtol=1e-4)

    def test_several_steps_in_a_row_keep_the_state_a_constant(self, build: Build) -> None:
        agent: NeuralAgent = self.make(build)
        state = agent.initial_state()
        for graph in GRAPHS:
            (output,) = agent.policy([AgentInput(sample_observation(graph), state)])
            state = output.state
        if output.logits.requires_grad:
            (output.logits.sum() + output.value).backward()  # type: ignore[no-untyped-call]


class EnvironmentSuite(Suite):
    """`Environment`: games in splits, rewards that add up, endings told apart. Plays at random."""

    plays = 2
    """Episodes played per test."""

    def test_it_has_training_games_with_facts_that_fit_in_json(self, build: Build) -> None:
        import json

        environment: Environment = self.make(build)
        assert "train" in environment.splits()
        for game in environment.games("train")[:3]:
            assert "max_score" in json.loads(json.dumps(dict(environment.game_info(game))))
        json.dumps(dict(environment.handicaps))
        environment.close()
        environment.close()

    def test_rewards_add_up_to_the_score_and_actions_are_well_formed(self, build: Build) -> None:
        environment: Environment = self.make(build)
        rng = np.random.default_rng(0)
        for number in range(self.plays):
            observation, total = environment.reset(environment.games("train")[0], number + 1), 0.0
            start = observation.score
            for _ in range(200):
                self.check_observation(observation)
                result = environment.step(observation.admissible[rng.integers(len(observation.admissible))])
                observation, total = result.observation, total + result.reward
                if result.ending is not None:
                    break
            assert start + total == pytest.approx(observation.score)
        environment.close()

    def check_observation(self, observation: Observation) -> None:
        texts = [action.text for action in observation.admissible]
        assert texts
        assert texts == sorted(set(texts))
        for action in observation.admissible:
            assert Action.from_template(action.template, action.entities).text == action.text
            assert set(action.seeds) <= set(observation.graph.nodes)


class LauncherSuite(Suite):
    """`Launcher`: every job runs once, codes are told by position, failures stop nobody."""

    def jobs(self, build: Build, *scripts: str) -> list[Job]:
        """A Python process per script, each with a log of its own and its position in the environment."""
        logs = [build.recipe_dir / f"{position}.log" for position in range(len(scripts))]
        return [
            Job((sys.executable, "-c", script), log, {"POSITION": str(position)})
            for position, (script, log) in enumerate(zip(scripts, logs, strict=True))
        ]

    def codes(self, launcher: Launcher, jobs: Sequence[Job], at_once: int | None = 2) -> list[tuple[int, int]]:
        return sorted(ended for some in launcher.launch(jobs, at_once) for ended in some)

    def test_every_job_runs_once_and_a_failure_stops_nobody(self, build: Build) -> None:
        say = "import os, sys; print(os.environ['POSITION']); sys.exit(int(os.environ['POSITION']) % 3)"
        jobs = self.jobs(build, say, say, say, say)
        jobs.insert(2, Job(("/no/such/program",), build.recipe_dir / "wrong.log"))
        assert self.codes(self.make(build), jobs, None) == [(0, 0), (1, 1), (2, 127), (3, 2), (4, 0)]
        assert [job.log.read_text() for job in jobs if job.env] == ["0\n", "1\n", "2\n", "3\n"]
        assert "no/such/program" in jobs[2].log.read_text()

    def test_no_more_jobs_than_asked_for_run_at_once(self, build: Build) -> None:
        jobs = self.jobs(build, *["import time; print(time.time()); time.sleep(0.2); print(time.time())"] * 4)
        assert [code for _, code in self.codes(self.make(build), jobs, 2)] == [0] * 4
        spans = [tuple(map(float, job.log.read_text().split())) for job in jobs]
        assert max(sum(start <= other[0] < end for other in spans) for start, end in spans) <= 2

    def test_an_interrupt_reaches_what_runs_and_starts_nothing_more(self, build: Build) -> None:
        wait = (
            "import signal, sys, time; signal.signal(signal.SIGINT, lambda *_: sys.exit(5)); print(1, flush=True)"
        )
        first, second = self.jobs(build, *[f"{wait}; time.sleep(60)"] * 2)
        launcher: Launcher = self.make(build)
        work, ended = launcher.launch([first, second], 1), list[tuple[int, int]]()
        while not (first.log.is_file() and first.log.read_text()):
            ended += next(work)
        launcher.interrupt()
        assert [*ended, *(last for some in work for last in some)] == [(0, 5)]
        assert not second.log.exists()

    def test_closing_it_early_ends_what_runs(self, build: Build) -> None:
        jobs = self.jobs(build, "import time; print(1, flush=True)\ntry: time.sleep(60)\nfinally: print('ended')")
        work = self.make(build).launch(jobs, 1)
        while not (jobs[0].log.is_file() and jobs[0].log.read_text()):
            next(work)
        work.close()
        assert "ended" in jobs[0].log.read_text()


class RecorderSuite(Suite):
    """`Recorder`: told what happens in a run in its order, and may be closed whatever happened."""

    results: Mapping[str, Any] = {"schema": 1, "evaluation": {"in": {"steps": {"mean": 2.5}, "games": {}}}}

    def read_back(self, folder: Path) -> Mapping[str, Mapping[int, float]] | None:
        """What a reader of the tool sees of the run in `folder`: name -> episode -> value. Override where the tool
        can be read; None: only the calls are tested."""
        return None

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """The run's."""
        (tmp_path / "runs" / "a run").mkdir(parents=True)
        return tmp_path / "runs" / "a run"

    def row(self, episode: int, score: float) -> dict[str, Any]:
        """A row of metrics.jsonl, with names that a part may give to its figures."""
        named = {"loss/policy": 0.25, "Größe μ": 2.0, "code.usage": 0.5, "used up": 3}
        return {"episode": episode, "game": "a game", "score": score, "loss_value": None, "ending": "won", **named}

    def begun(self, build: Build, folder: Path, *, after: int = 0) -> Recorder:
        recorder: Recorder = self.make(build)
        recorder.begin(
            folder, {"name": "r", "run": {"seed": 1, "episodes": None}, "agent": {"a": [1]}}, after=after
        )
        return recorder

    def test_every_number_is_recorded_at_its_episode_under_its_own_name(self, build: Build, folder: Path) -> None:
        recorder = self.begun(build, folder)
        for episode in (1, 2, 3):
            recorder.write(self.row(episode, episode / 4))
        recorder.finish(self.results)
        recorder.close()
        seen = self.read_back(folder)
        if seen is not None:
            assert seen["score"] == {1: 0.25, 2: 0.5, 3: 0.75}
            assert [seen[name] for name in ("loss/policy", "Größe μ", "code.usage", "used up")] == [
                dict.fromkeys((1, 2, 3), value) for value in (0.25, 2.0, 0.5, 3.0)
            ]
            assert not {"game", "ending", "loss_value"} & set(seen)

    def test_it_may_be_closed_twice_without_the_end_and_before_the_beginning(
        self, build: Build, folder: Path
    ) -> None:
        self.make(build).close()
        recorder = self.begun(build, folder)
        recorder.write(self.row(1, 0.5))
        recorder.close()
        recorder.close()

    def test_after_a_resume_what_the_dead_run_recorded_is_void(self, build: Build, folder: Path) -> None:
        dead = self.begun(build, folder)
        for episode in (1, 2, 3):
            dead.write(self.row(episode, 0.25))
        dead.close()
        recorder = self.begun(build, folder, after=2)
        recorder.write(self.row(3, 0.5))
        recorder.write(self.row(4, 0.75))
        recorder.finish(self.results)
        recorder.close()
        seen = self.read_back(folder)
        assert seen is None or seen["score"] == {1: 0.25, 2: 0.25, 3: 0.5, 4: 0.75}

    def test_it_leaves_the_rest_of_the_folder_alone(self, build: Build, folder: Path) -> None:
        (folder / "metrics.jsonl").write_text("{}\n")
        self.begun(build, folder).close()
        self.begun(build, folder, after=1).close()
        assert (folder / "metrics.jsonl").read_text() == "{}\n"
