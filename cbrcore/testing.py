"""Conformance suites for plugin authors: subclass one, say how to make your part, run pytest.

    from cbrcore.testing import QuantizerSuite

    class TestMine(QuantizerSuite):
        def make(self, build):
            return MyQuantizer(MyConfig(), build)

Each test is one sentence of the contract in `cbrcore.interfaces`. Needs pytest and torch.
"""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_args

import numpy as np
import pytest
import torch
from pydantic import BaseModel
from torch import Tensor

from cbrcore.config import NoSettings, TrainingConfig
from cbrcore.cycle.evaluation import FrozenActor
from cbrcore.cycle.reasoner import CaseBasedReasoner
from cbrcore.cycle.retriever import Retriever
from cbrcore.cycle.runner import Seat, play_together
from cbrcore.errors import CbrError, Interrupted
from cbrcore.interfaces import (
    AgentInput,
    Build,
    CaseStore,
    ChecksRecipe,
    ConcurrentEnvironment,
    ContextEncoder,
    Environment,
    Finding,
    Health,
    Job,
    KeepsState,
    Launcher,
    Learner,
    Memory,
    NeuralAgent,
    PairFeature,
    PolicyOutput,
    Quantizer,
    Recorder,
    ReportedRun,
    ReportsMetrics,
    RetainItem,
    RetainPolicy,
    Reuse,
    ReusePolicy,
    Scene,
    Section,
    Stopwatch,
    Table,
    TextEncoder,
    Trainable,
)
from cbrcore.registry import Component
from cbrcore.rng import Streams
from cbrcore.types import (
    Action,
    Candidate,
    Case,
    Decision,
    Ending,
    EntityTuple,
    Match,
    Observation,
    Provenance,
    StateGraph,
    StepResult,
)

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

    def test_each_of_its_metrics_is_documented(self, build: Build) -> None:
        """In the docstring of `metrics`: a line ``name: what it is``."""
        part = self.make(build)
        if isinstance(part, ReportsMetrics):
            said, names = inspect.getdoc(type(part).metrics) or "", part.metrics()
            assert [name for name in names if not re.search(rf"^{re.escape(name)}: \S", said, re.MULTILINE)] == []


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
        situation, parameters = self.situations(encoder)[0], list(encoder.parameters())
        contexts = encoder.contexts_of_pairs([(situation, seeds) for seeds in TUPLES])
        if parameters:
            contexts.square().sum().backward()  # type: ignore[no-untyped-call]
            assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in parameters)


class PairFeatureSuite(Suite):
    """`PairFeature`: a finite number per pair, whatever the other pairs."""

    pairs: Sequence[tuple[str, str]] = (("cup", "rack"), ("rack", "cup"), ("red cup", "unseen thing"), ("", "cup"))

    def test_one_finite_value_per_pair_without_gradient(self, build: Build) -> None:
        values = self.make(build).values(self.pairs)
        assert (values.shape, values.dtype) == ((len(self.pairs),), torch.float32)
        assert torch.isfinite(values).all()
        assert not values.requires_grad

    def test_no_pairs_no_values(self, build: Build) -> None:
        assert self.make(build).values([]).shape == (0,)

    def test_a_pair_has_the_same_value_whatever_is_asked_with_it(self, build: Build) -> None:
        feature: PairFeature = self.make(build)
        alone = [feature.values([pair]) for pair in self.pairs]
        assert torch.equal(self.make(build).values(self.pairs), torch.cat(alone))


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


class CosineIndex:
    """A `KeyIndex` of vectors; similarity = max(0, cosine)."""

    def __init__(self) -> None:
        self._keys = torch.zeros(0, DIM)

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, keys: Tensor) -> None:
        self._keys = torch.cat([self._keys, keys])

    def keep(self, rows: Sequence[int]) -> None:
        self._keys = self._keys[list(rows)]

    def similarities(self, queries: Tensor) -> Tensor:
        return torch.cosine_similarity(queries[:, None], self._keys[None], dim=2).clamp(0, 1)

    def keys(self) -> Tensor:
        return self._keys


KEYS = torch.eye(4, DIM)
REWARDED = Provenance(game="cup", seed=1, episode=1, step=0, reward=1.0)
PUT, TAKE = Action.from_template("put {} on {}", ["cup", "rack"]), Action.from_template("take {}", ["cup"])


class MemorySuite(Suite):
    """`Memory`: a set of (key, template) pairs that finds them again, and survives as files."""

    @pytest.fixture
    def build(self, tmp_path: Path) -> Build:
        """With an index that is exact, and the name of what makes the keys."""
        return Build(cache_dir=tmp_path, recipe_dir=tmp_path, context_dim=DIM, index=CosineIndex, identity="suite")

    def filled(self, build: Build, *rows: int) -> Memory:
        """Cases of unlike keys."""
        memory: Memory = self.make(build)
        for row in rows or (0, 1):
            self.add(memory, row, (PUT, TAKE)[row % 2])
        return memory

    def add(self, memory: Memory, row: int, action: Action) -> Case:
        item = RetainItem(KEYS[row], action, row, REWARDED.reward, situation=GRAPHS[row % 3])
        return memory.add(item, REWARDED, step=row)

    def keys(self, memory: Memory) -> Tensor:
        return torch.stack([memory.key_of(case) for case in memory.cases])

    def retrieved(self, memory: Memory, keys: Tensor) -> list[list[str]]:
        return [[match.case.template for match in row] for row in memory.retrieve(keys)]

    def test_cases_stand_in_their_order_with_key_and_situation(self, build: Build) -> None:
        memory = self.filled(build)
        assert [case.template for case in memory.cases] == [PUT.template, TAKE.template]
        assert [case.seeds for case in memory.cases] == [PUT.seeds, TAKE.seeds]
        assert [memory.situations[case.id] for case in memory.cases] == [*GRAPHS[:2]]
        assert torch.equal(self.keys(memory), KEYS[:2])
        memory.replace_keys(KEYS[2:4])
        assert torch.equal(self.keys(memory), KEYS[2:4])
        assert self.retrieved(memory, KEYS[1:3]) == [[], [PUT.template]]

    def test_an_equal_pair_of_key_and_template_is_counted_not_stored_twice(self, build: Build) -> None:
        memory = self.filled(build)
        again = self.add(memory, 0, Action.from_template(PUT.template, ["mug", "table"]))
        assert (len(memory), again.id, again.rewarded) == (2, memory.cases[0].id, 2)
        self.add(memory, 0, TAKE)
        assert len(memory) == 3

    def test_a_step_that_is_retained_again_is_one_reward(self, build: Build) -> None:
        memory = self.filled(build)
        item = RetainItem(KEYS[0], PUT, 0, REWARDED.reward, situation=GRAPHS[0], retained=True)
        again = memory.add(item, REWARDED, step=7)
        assert (again.id, again.rewarded, again.last_step) == (memory.cases[0].id, 1, 7)

    def test_keys_that_became_equal_are_as_many_after_a_load(self, build: Build, tmp_path: Path) -> None:
        memory, loaded = self.filled(build), self.make(build)
        self.add(memory, 2, PUT)
        memory.replace_keys(KEYS[:1].expand(len(memory), *KEYS[:1].shape[1:]).clone())
        memory.save(tmp_path / "memory")
        loaded.load(tmp_path / "memory")
        assert [(case.id, case.rewarded) for case in loaded.cases] == [(c.id, c.rewarded) for c in memory.cases]

    def test_what_is_above_the_threshold_is_retrieved(self, build: Build) -> None:
        memory, query = self.filled(build), KEYS[:1] + KEYS[2]
        near = KEYS[:3] + 0.1 * KEYS[1]
        assert self.retrieved(memory, near) == [[PUT.template], [TAKE.template], []]
        assert memory.similarities(near).shape == (3, 2)
        memory.threshold = float(memory.similarities(query)[0, 0])
        assert memory.retrieve(query) == [[]], "strictly above"
        memory.threshold -= 1e-4
        (match,) = memory.retrieve(query)[0]
        assert match.relevance == float(memory.similarities(query)[0, 0])
        assert (memory.retrieve(KEYS[:0]), self.make(build).retrieve(KEYS[:1])) == ([], [[]])

    def test_what_is_saved_is_loaded_where_the_encoders_are_the_same(self, build: Build, tmp_path: Path) -> None:
        memory, loaded = self.filled(build), self.filled(build, 3)
        memory.save(tmp_path / "memory")
        loaded.load(tmp_path / "memory")
        assert [asdict(case) for case in loaded.cases] == [asdict(case) for case in memory.cases]
        assert loaded.situations == memory.situations
        assert torch.equal(self.keys(loaded), self.keys(memory))
        assert self.add(loaded, 3, TAKE).id == self.add(memory, 3, TAKE).id
        with pytest.raises(CbrError):
            self.make(replace(build, identity="another")).load(tmp_path / "memory")

    def test_what_is_saved_can_be_read_and_what_is_missing_is_told(self, build: Build, tmp_path: Path) -> None:
        self.filled(build).save(tmp_path / "memory", weights="w")
        stored = self.make(build).read(tmp_path / "memory")
        assert [case.template for case in stored.cases] == [PUT.template, TAKE.template]
        assert (stored.identity, stored.weights, list(stored.situations)) == ("suite", "w", [*GRAPHS[:2]])
        with pytest.raises(CbrError):
            self.make(build).read(tmp_path / "nowhere")

    def test_the_cases_of_another_run_are_added_and_equal_ones_counted(self, build: Build, tmp_path: Path) -> None:
        memory = self.filled(build)
        self.filled(build, 1, 2).save(tmp_path / "other")
        memory.merge(memory.read(tmp_path / "other"), KEYS[1:3])
        assert [case.rewarded for case in memory.cases] == [1, 2, 1]
        assert len({case.id for case in memory.cases}) == 3

    def test_its_stores_hold_the_cases_whatever_outcome_is_noted(self, build: Build) -> None:
        memory = self.filled(build)
        memory.note_outcome(RetainItem(KEYS[0], PUT, 0, 0.0), replace(REWARDED, reward=0.0), failed=True, step=9)
        assert memory.stores()["memory"].cases == memory.cases
        assert all(isinstance(store, CaseStore) for store in memory.stores().values())


class SampleGame:
    """An environment of one game: to put the cup on the rack is one point and the end, else it ends at step 5."""

    handicaps: Mapping[str, Any] = {}

    def splits(self) -> tuple[str, ...]:
        return ("train",)

    def games(self, split: str) -> tuple[str, ...]:
        return ("cup",)

    def game_info(self, game: str) -> Mapping[str, Any]:
        return {"max_score": 1}

    def reset(self, game: str, seed: int) -> Observation:
        self.steps = 0
        return sample_observation(game=game, max_score=1.0)

    def step(self, action: Action) -> StepResult:
        self.steps += 1
        won = action.text == PUT.text
        seen = sample_observation(GRAPHS[self.steps % 2], steps=self.steps, score=float(won), max_score=1.0)
        return StepResult(seen, float(won), Ending.WON if won else Ending.TRUNCATED if self.steps == 5 else None)

    def close(self) -> None: ...


class _Agent(torch.nn.Linear):
    """logit = w^T e(a), V = w^T e(s)."""

    def initial_state(self) -> None: ...

    def policy(self, inputs: Sequence[AgentInput]) -> list[PolicyOutput]:
        texts = WordHashEncoder()
        return [
            PolicyOutput(
                self(texts.encode([action.text for action in item.observation.admissible])).squeeze(-1),
                self(texts.encode([item.observation.text])).squeeze(),
            )
            for item in inputs
        ]


class _Encoder(torch.nn.Linear):
    """W mean(e(seed))."""

    dim = DIM

    def situation(self, observation: Observation, past: Sequence[Observation]) -> StateGraph:
        return observation.graph

    def contexts_of_pairs(self, pairs: Sequence[tuple[Any, EntityTuple]]) -> Tensor:
        means = [WordHashEncoder().encode(seeds).mean(dim=0) for _, seeds in pairs]
        contexts: Tensor = self(torch.stack(means) if means else torch.zeros(0, DIM))
        return contexts


class _Quantizer(torch.nn.Module):
    """The context is the key; remembers what it was fitted to."""

    fitted: Tensor | None = None
    index = CosineIndex

    def fit(self, contexts: Tensor, generator: torch.Generator) -> None:
        self.fitted = contexts.detach()

    def keys(self, contexts: Tensor) -> Tensor:
        return contexts.detach()

    def similarity(self, contexts: Tensor, keys: Tensor) -> Tensor:
        return torch.cosine_similarity(contexts, keys).clamp(0, 1)

    pair_similarity = similarity

    def regularizer(self, contexts: Tensor) -> Tensor:
        return contexts.new_zeros(())

    def maintain(self, contexts: Tensor, generator: torch.Generator) -> None: ...

    def metrics(self) -> Mapping[str, float]:
        return {}


class _Empty(list[Any]):
    """Stands for a case memory that never holds a case."""

    threshold = 0.7


def sample_player() -> CaseBasedReasoner:
    """A small agent and retriever that can learn; their memory stays empty."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        agent, encoder, memory = _Agent(DIM, 1), _Encoder(DIM, DIM), cast("Memory", _Empty())
    return CaseBasedReasoner(agent, Retriever(encoder, _Quantizer(), memory, identity="suite"))


def _modules(player: CaseBasedReasoner) -> list[Trainable]:
    return [player.agent, *(player.retriever.modules().values() if player.retriever else ())]


def weights_of(player: CaseBasedReasoner) -> list[Tensor]:
    """All that agent and retriever have learned."""
    return [value for module in _modules(player) for value in module.state_dict().values()]


class _Remembering(_Empty):
    """A case memory that finds the same case for each key: "put the cup on the table"."""

    case = Case(1, PUT.template, ("cup", "table"), "put cup on table", Provenance("cup", 1, 1, 0, 1.0))

    def __len__(self) -> int:
        return 1

    def retrieve(self, keys: Tensor) -> list[list[Match]]:
        return [[Match(self.case, 0.9)] for _ in keys]


class ReusePolicySuite(Suite):
    """`ReusePolicy`: candidates from cases, and of these one that can be executed, or none."""

    def retriever(self, build: Build) -> Retriever:
        """What it asks; override where it needs a memory of its own."""
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return Retriever(_Encoder(DIM, DIM), _Quantizer(), cast("Memory", _Remembering()), identity="suite")

    def decide(self, reuse: Reuse, seen: Observation) -> Candidate | None:
        """One step, as the reasoner takes it."""
        candidates = reuse.offer(seen, seen.graph)
        chosen = reuse.choose(candidates, {action: 1 / len(seen.admissible) for action in seen.admissible})
        assert chosen is None or any(chosen is candidate for candidate in candidates)
        return chosen

    def test_what_is_chosen_is_a_candidate_that_can_be_executed(self, build: Build) -> None:
        reuse: Reuse = self.make(build).begin(self.retriever(build), learning=True)
        for seen in map(sample_observation, GRAPHS):
            assert all(isinstance(seeds, tuple) for seeds in reuse.asks(seen))
            chosen = self.decide(reuse, seen)
            action = chosen.executed if chosen else seen.admissible[0]
            assert action in seen.admissible
            decision = Decision(action, "reuse" if chosen else "agent", chosen=chosen)
            assert isinstance(reuse.observe(decision, StepResult(seen, 0.0)), bool)

    def test_an_episode_knows_nothing_of_another(self, build: Build) -> None:
        policy, retriever = self.make(build), self.retriever(build)
        first, second = (policy.begin(retriever, learning=False) for _ in range(2))
        seen = sample_observation()
        before = self.decide(second, seen)
        for action in seen.admissible:
            first.offer(seen, seen.graph)
            first.observe(Decision(action, "agent"), StepResult(seen, 0.0))
        assert self.decide(second, seen) == before
        assert self.decide(policy.begin(retriever, learning=False), seen) == before

    def test_what_it_keeps_is_plain_data_and_enough_to_go_on(self, build: Build) -> None:
        policy, other = self.make(build), self.make(build)
        if not (isinstance(policy, KeepsState) and isinstance(other, KeepsState)):
            return
        reuse = cast(ReusePolicy, policy).begin(self.retriever(build), learning=True)
        seen = sample_observation()
        reuse.offer(seen, seen.graph)
        reuse.observe(Decision(PUT, "agent"), StepResult(sample_observation(GRAPHS[1]), 1.0))
        kept = json.loads(json.dumps(policy.state()))
        other.load_state(kept)
        assert json.loads(json.dumps(other.state())) == kept


class LearnerSuite(Suite):
    """`Learner`: transitions in, updates out, and after a resume as if nothing had happened."""

    training = TrainingConfig(update_every=3, agent_learning_rate=0.01, retriever_learning_rate=0.01)

    def player(self, build: Build) -> CaseBasedReasoner:
        """Whom it trains; override where it needs another agent, or cases."""
        return sample_player()

    def play(self, learner: Learner, player: CaseBasedReasoner, streams: Streams) -> None:
        """Six plays of `SampleGame`."""
        seat = Seat(SampleGame(), FrozenActor(player, streams.numpy("play"), greedy=False))
        for seed in range(6):
            play_together([seat], [("cup", seed)], observer=learner)

    def test_weights_stay_finite_and_losses_have_names(self, build: Build) -> None:
        learner, player, streams = self.make(build), self.player(build), Streams(0)
        learner.begin([player], self.training, streams, Stopwatch())
        self.play(learner, player, streams)
        assert all(torch.isfinite(value).all() for value in weights_of(player))
        losses = learner.pop_losses()
        assert all(name.startswith("loss_") for name in losses)
        assert all(value is None or np.isfinite(value) for value in losses.values())
        assert learner.pop_losses() == dict.fromkeys(losses)  # None: no update since
        assert learner.skipped == 0

    def test_it_goes_on_from_its_tensors_to_the_same_bits(self, build: Build) -> None:
        learner, player, streams = self.make(build), self.player(build), Streams(0)
        learner.begin([player], self.training, streams, Stopwatch())
        self.play(learner, player, streams)
        other, resumed, later = self.make(build), self.player(build), Streams(0)
        other.begin([resumed], self.training, later, Stopwatch())
        for mine, theirs in zip(_modules(resumed), _modules(player), strict=True):
            mine.load_state_dict(theirs.state_dict())
        later.restore(streams.state())
        tensors = {name: value.clone() for name, value in learner.tensors().items()}
        assert all(":" in name for name in tensors)
        other.load_tensors({**tensors, "agent:not.its.own": torch.ones(1)})
        self.play(learner, player, streams)
        self.play(other, resumed, later)
        assert all(map(torch.equal, weights_of(player), weights_of(resumed)))


class PretrainingSuite(Suite):
    """`Pretraining`: trains the retriever of a scene, tells facts, and can be interrupted."""

    def scene(self, build: Build, advance: Callable[[], None] = lambda: None) -> Scene:
        """One game of six steps at most, and a retriever of random weights."""
        streams, folder = Streams(0), build.recipe_dir
        return Scene(
            [SampleGame()], sample_player(), TrainingConfig(), streams, Stopwatch(), folder, print, advance
        )

    def test_it_leaves_finite_weights_and_facts_that_fit_in_json(self, build: Build) -> None:
        scene = self.scene(build)
        facts = self.make(build).run(scene)
        assert facts is None or json.loads(json.dumps(dict(facts)))
        assert all(torch.isfinite(value).all() for value in weights_of(scene.player))

    def test_equal_seeds_give_equal_weights(self, build: Build) -> None:
        scenes = [self.scene(build), self.scene(build)]
        facts = [self.make(build).run(scene) for scene in scenes]
        assert facts[0] == facts[1]
        assert all(map(torch.equal, *(weights_of(scene.player) for scene in scenes)))

    def test_it_can_be_interrupted(self, build: Build) -> None:
        def stop() -> None:
            raise Interrupted("the user wants to stop")

        with pytest.raises(Interrupted):
            self.make(build).run(self.scene(build, stop))


class RecipeSectionSuite(ABC):
    """A recipe section: settings that are described, read strictly, and written as they were."""

    settings: type[BaseModel]

    @abstractmethod
    def sample(self) -> Mapping[str, Any]:
        """What may stand below the key."""

    def refused(self, written: Mapping[str, Any]) -> str:
        """What is wrong with it; empty if nothing is."""
        try:
            found = self.settings.model_validate(written)
        except ValueError as error:
            return str(error)
        return "".join(map(str, found.faults(lambda places: ()))) if isinstance(found, ChecksRecipe) else ""

    def test_a_sample_is_accepted_and_survives_as_text(self) -> None:
        assert not self.refused(self.sample())
        found = self.settings.model_validate(self.sample())
        assert self.settings.model_validate(json.loads(json.dumps(found.model_dump(mode="json")))) == found

    def test_an_unknown_key_is_refused(self) -> None:
        assert "no_such_key" in self.refused({**self.sample(), "no_such_key": 1})

    def test_every_setting_says_what_it_is(self) -> None:
        fields = self.settings.model_fields.items()
        assert not [name for name, field in fields if name != "root" and not field.description]


class CommandSuite:
    """A command: loads at once, helps, and does what its author says."""

    factory: str
    """As in the hook: "package.module:name"."""
    arguments: Sequence[str] = ()
    """With these it ends well."""

    def run(self, *words: str) -> Any:
        """The result, with `exit_code` and `output`."""
        from typer.testing import CliRunner

        from cbrcore.cli import as_typer

        target = Component("command", "suite", "it", self.factory).load_factory()
        return CliRunner().invoke(as_typer(target), list(words))

    def test_it_helps(self) -> None:
        assert "Usage" in self.run("--help").output

    def test_it_does_its_work(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        done = self.run(*self.arguments)
        assert done.exit_code == 0, done.output

    def test_loading_it_imports_nothing_heavy(self) -> None:
        module = self.factory.partition(":")[0]
        code = f"import sys, {module}; sys.exit(str({{'torch', 'altair', 'sklearn'}} & set(sys.modules) or ''))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert not done.stderr.strip(), done.stderr


def sample_runs() -> tuple[ReportedRun, ...]:
    """Two finished runs of one recipe, of the seeds 0 and 1."""
    split = {"mode": "sampled", "steps": {"mean": 7.0, "std": 0.5}, "norm_score": {"mean": 0.9, "std": 0.1}}
    names = ("episode", "env_steps", "steps", "score", "norm_score", "memory_size")
    rows = [(number, 10 * number, 10 - number, number / 8, number / 8, number) for number in range(1, 9)]
    metrics = [{"game": "cup", "ending": "won", **dict(zip(names, row, strict=True))} for row in rows]
    runs = [
        SimpleNamespace(
            path=Path(f"runs/sample-{seed}"),
            recipe={"schema": 1, "name": "sample", "seed": seed, "run": {"episodes": 8}},
            results={"schema": 1, "evaluation": {"in": split, "out": split}, "protocol": {"seed": seed}},
            metrics=metrics,
            seed=seed,
            agent="Text + CBR",
            place="sample games",
        )
        for seed in (0, 1)
    ]
    return cast("tuple[ReportedRun, ...]", tuple(runs))


class ReportSectionSuite(ABC):
    """A section of the report: tables and figures of whatever runs there are, or nothing."""

    @abstractmethod
    def make(self, runs: Sequence[ReportedRun]) -> Section | None:
        """What the factory gives for these runs."""

    @pytest.mark.parametrize("count", [0, 1, 2])
    def test_its_parts_can_be_shown(self, count: int) -> None:
        section = self.make(sample_runs()[:count])
        if section is None:
            return
        names = [section.id, *(part.id for part in section.parts)]
        assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name) for name in names), "they name files"
        assert len(set(names)) == len(names), "they are places on one page"
        for part in section.parts:
            if isinstance(part, Table):
                assert {len(row) for row in part.rows} <= {len(part.columns)}
                assert all(isinstance(cell, str) for row in part.rows for cell in row)
            else:
                json.dumps(part.chart if isinstance(part.chart, dict) else part.chart.to_dict())


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
    """`Environment`: games in splits, rewards that add up, equal seeds giving equal plays. Plays at random."""

    plays = 2
    """Episodes played per test."""
    steps = 8
    """Steps that plays are compared for."""

    def test_it_has_training_games_with_facts_that_fit_in_json(self, build: Build) -> None:
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
                if not observation.admissible:  # the episode ends there: `Ending.NO_ACTIONS`
                    break
                result = environment.step(observation.admissible[rng.integers(len(observation.admissible))])
                observation, total = result.observation, total + result.reward
                if result.ending is not None:
                    break
            assert start + total == pytest.approx(observation.score)
        environment.close()

    def test_every_split_has_games_and_each_can_be_begun(self, build: Build) -> None:
        environment: Environment = self.make(build)
        assert len(set(environment.splits())) == len(environment.splits())
        for split in environment.splits():
            games = environment.games(split)
            assert len(set(games)) == len(games) > 0, split
            assert environment.games(split) == games
            self.check_observation(environment.reset(games[-1], 1))
        environment.close()

    def test_an_unknown_split_is_refused(self, build: Build) -> None:
        environment: Environment = self.make(build)
        with pytest.raises(CbrError, match="no such split here"):
            environment.games("no such split here")
        environment.close()

    def test_equal_seeds_give_equal_plays(self, build: Build) -> None:
        """Whatever was played before; another environment is as good as the same."""
        environment, other = self.make(build), self.make(build)
        game = environment.games("train")[0]
        first = self.played(environment, game, environment.step)
        assert self.played(other, game, other.step) == first
        assert self.played(environment, game, environment.step) == first
        environment.close()
        other.close()

    def test_sending_and_receiving_is_a_step(self, build: Build) -> None:
        """Of a `ConcurrentEnvironment`."""
        environment, other = self.make(build), self.make(build)
        game = environment.games("train")[0]

        if isinstance(environment, ConcurrentEnvironment):

            def step(action: Action) -> StepResult:
                environment.send(action)
                result: StepResult = environment.receive()
                return result

            assert self.played(environment, game, step) == self.played(other, game, other.step)
        environment.close()
        other.close()

    def played(
        self, environment: Environment, game: str, step: Callable[[Action], StepResult]
    ) -> list[tuple[Observation, float, Ending | None]]:
        """The first `steps` steps of an episode of seed 1, the actions drawn from a stream of their own."""
        rng, observation = np.random.default_rng(1), environment.reset(game, 1)
        seen: list[tuple[Observation, float, Ending | None]] = [(observation, 0.0, None)]
        while len(seen) <= self.steps and observation.admissible and seen[-1][2] is None:
            result = step(observation.admissible[rng.integers(len(observation.admissible))])
            observation = result.observation
            seen.append((observation, result.reward, result.ending))
        return seen

    def check_observation(self, observation: Observation) -> None:
        texts = [action.text for action in observation.admissible]
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


class CheckSuite(ABC):
    """A check of ``cbr doctor``: tells in single lines what it finds, and how to mend what is not well."""

    quick_seconds = 20.0
    """It looks no longer than this if it shall be quick."""

    @abstractmethod
    def check(self) -> Callable[..., Iterable[Finding]]:
        """The function that the hook names."""

    @pytest.mark.parametrize("quick", [True, False])
    def test_it_gives_findings_of_a_known_status(self, quick: bool) -> None:  # noqa: FBT001
        for found in self.check()(quick=quick):
            assert isinstance(found, Finding)
            assert found.status in get_args(Health)

    def test_its_texts_are_single_lines_that_can_be_printed(self) -> None:
        for found in self.check()(quick=True):
            assert all((found.section, found.name, found.found)), found
            assert all(isinstance(text, str) and text.isprintable() for text in vars(found).values()), found

    def test_what_is_not_well_says_how_to_mend_it_and_nothing_else_does(self) -> None:
        for found in self.check()(quick=True):
            assert (found.status == "ok") == (found.mend == ""), found

    def test_quick_is_quick(self) -> None:
        start = time.monotonic()
        list(self.check()(quick=True))
        assert time.monotonic() - start < self.quick_seconds
