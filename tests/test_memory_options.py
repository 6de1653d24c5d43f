"""Options of the memory beyond the paper: negative evidence, keys that follow the encoder, cases of other runs."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from parts import CosineQuantizer, DenseIndex, ScriptedAgent, TableEncoder, act, item, observation, paper_rule
from test_memory import HERE, UNREWARDED
from test_reasoner import BOOK_SHELF, LOOK, NOVEL_RACK, NOVEL_SHELF, TABLE, outcome, rng
from toy_run import run

from cbr_memory.config import CaseMemoryConfig
from cbr_memory.files import read_cases
from cbr_memory.memory import CaseMemory, case_memory
from cbrcore.cycle.reasoner import CaseBasedReasoner
from cbrcore.cycle.retriever import Retriever
from cbrcore.errors import RunFailed, RunFolderError
from cbrcore.interfaces import Build, RetainItem
from cbrcore.types import StateGraph, StepResult

SOMEWHERE = StateGraph.of([], ["room"])


class RewardedOnly:
    def select(self, buffer, rng):
        return buffer[-1:]


def reasoner(**settings) -> CaseBasedReasoner:
    failures = settings.pop("failures", CaseMemory(DenseIndex()))
    memory = CaseMemory(DenseIndex(), threshold=0.7, failures=failures)
    retriever = Retriever(TableEncoder(TABLE), CosineQuantizer(), memory, **settings)
    return CaseBasedReasoner(ScriptedAgent("look"), retriever, RewardedOnly(), paper_rule())


def remember(memory: CaseMemory, r: CaseBasedReasoner, action, provenance=HERE) -> None:
    key = r.retriever.keys(SOMEWHERE, [action.seeds])[0]
    memory.add(item(key, action, SOMEWHERE), provenance, step=1)


def play(r: CaseBasedReasoner, reward: float, *offered) -> str:
    """One training step; where its action came from."""
    seen = observation(LOOK, *offered)
    decision, trace = r.decide(seen, rng())
    r.observe(decision, trace, outcome(reward))
    origin = HERE if reward > 0 else UNREWARDED
    r.retain(rng(), origin, env_steps=2)
    return decision.source


# -- negative evidence -----------------------------------------------------------------------------------------


def test_a_reuse_that_failed_is_not_tried_again_in_a_later_episode():
    r = reasoner()
    remember(r.retriever.memory, r, BOOK_SHELF)
    assert play(r, 0.0, NOVEL_SHELF) == "reuse"
    r.begin_episode()
    decision, _ = r.decide(observation(LOOK, NOVEL_SHELF), rng())
    assert (decision.source, decision.candidates[0].verdict) == ("agent", "failed")
    assert decision.candidates[0].match.against == pytest.approx(1.0)


def test_failures_elsewhere_do_not_count_when_the_rewarded_case_is_nearer():
    """Failed: a novel on the rack. A book on the shelf is its own best witness (cosine 1); the failure is
    further away (0.9 / (1 * sqrt(0.9^2 + 0.1^2 + 1)) = 0.667)."""
    r = reasoner()
    remember(r.retriever.memory, r, BOOK_SHELF)
    remember(r.retriever.memory.failures, r, NOVEL_RACK, UNREWARDED)
    decision, _ = r.decide(observation(LOOK, BOOK_SHELF), rng())
    assert decision.source == "reuse"
    assert decision.chosen.match.against == pytest.approx(0.9 / np.sqrt(0.9**2 + 0.1**2 + 1))


@pytest.mark.parametrize(("failed", "verdict"), [(BOOK_SHELF, "failed"), (NOVEL_SHELF, "admissible")])
def test_a_failure_that_is_as_similar_as_the_rewarded_case_outweighs_it(failed, verdict):
    """The very context that was rewarded has failed too: a tie, which goes to the failure."""
    r = reasoner()
    remember(r.retriever.memory, r, BOOK_SHELF)
    remember(r.retriever.memory.failures, r, failed, UNREWARDED)
    (candidate,) = r.decide(observation(LOOK, BOOK_SHELF), rng())[0].candidates
    assert candidate.verdict == verdict
    assert (candidate.match.against == candidate.match.relevance) == (failed is BOOK_SHELF)


@pytest.mark.parametrize("reward", [1.0, 0.0, -1.0])
@pytest.mark.parametrize("failed", [True, False])
def test_an_action_without_a_key_is_no_evidence(reward, failed):
    r = reasoner()
    remember(r.retriever.memory.failures, r, BOOK_SHELF, UNREWARDED)
    item = RetainItem(None, LOOK, 0, reward)
    r.retriever.memory.note_outcome(item, replace(HERE, reward=reward), failed=failed, step=1)
    assert len(r.retriever.memory.failures) == 1


def test_putting_a_scored_object_back_is_no_failure():
    r = reasoner()
    remember(r.retriever.memory, r, BOOK_SHELF)
    decision, trace = r.decide(observation(NOVEL_SHELF), rng())
    r.observe(decision, trace, StepResult(observation(LOOK), 0.0, None, rescored=True))
    r.retain(rng(), UNREWARDED, env_steps=2)
    assert (decision.source, len(r.retriever.memory.failures)) == ("reuse", 0)


def test_a_failure_with_another_template_is_no_evidence():
    r = reasoner()
    remember(r.retriever.memory, r, BOOK_SHELF)
    remember(r.retriever.memory.failures, r, act("insert {} into {}", "book", "shelf"), UNREWARDED)
    assert play(r, 1.0, BOOK_SHELF) == "reuse"


def test_a_reward_takes_the_negative_evidence_away():
    r = reasoner()
    remember(r.retriever.memory.failures, r, NOVEL_SHELF, UNREWARDED)
    agent = CaseBasedReasoner(ScriptedAgent(NOVEL_SHELF.text), r.retriever, RewardedOnly(), paper_rule())
    assert play(agent, 1.0, NOVEL_SHELF) == "agent"
    assert len(r.retriever.memory.failures) == 0
    assert play(agent, 1.0, NOVEL_SHELF) == "reuse"


def test_only_reuses_that_failed_are_kept_and_only_while_training():
    r = reasoner()
    assert play(r, 0.0, NOVEL_SHELF) == "agent"  # the agent's own attempts are no evidence
    assert len(r.retriever.memory.failures) == 0
    remember(r.retriever.memory, r, BOOK_SHELF)
    decision, trace = r.decide(observation(LOOK, NOVEL_SHELF), rng())
    r.observe(decision, trace, outcome(0.0))  # an evaluation never calls retain
    assert (decision.source, len(r.retriever.memory.failures)) == ("reuse", 0)


# -- keys that follow the encoder ------------------------------------------------------------------------------


@pytest.mark.parametrize("refresh", [False, True])
def test_keys_follow_the_encoder_only_if_asked_to(refresh):
    r = reasoner(refresh=refresh, failures=None)
    remember(r.retriever.memory, r, BOOK_SHELF)
    stored = r.retriever.memory.index.keys().clone()
    with torch.no_grad():
        r.retriever.encoder.rows[0] = torch.tensor([0.0, 1.0, 0.0])  # the book is something else now
    decision, _ = r.decide(observation(LOOK, BOOK_SHELF), rng())
    assert (decision.source == "reuse") == refresh
    assert torch.equal(r.retriever.memory.index.keys(), stored) == (not refresh)


def test_keys_are_not_made_anew_while_nothing_changes():
    r = reasoner(refresh=True, failures=None)
    remember(r.retriever.memory, r, BOOK_SHELF)
    r.decide(observation(LOOK, BOOK_SHELF), rng())
    calls: list[int] = []
    original = r.retriever.memory.replace_keys
    r.retriever.memory.replace_keys = lambda keys: (calls.append(len(keys)), original(keys))
    r.decide(observation(LOOK, BOOK_SHELF), rng())
    assert calls == []
    with torch.no_grad():
        r.retriever.encoder.rows[0] *= 2
    r.decide(observation(LOOK, BOOK_SHELF), rng())
    assert calls == [1]


def test_cases_whose_situation_is_not_known_cannot_be_refreshed():
    r = reasoner(refresh=True, failures=None)
    key = r.retriever.keys(SOMEWHERE, [BOOK_SHELF.seeds])[0]
    r.retriever.memory.add(item(key, BOOK_SHELF), HERE, step=1)
    with pytest.raises(RunFailed, match="situations were not stored"):
        r.decide(observation(LOOK, BOOK_SHELF), rng())


@pytest.mark.parametrize("settings", [{"outcome": "both"}, {"refresh": True}, {"neighbours": 3}])
def test_a_run_with_the_option_resumes_to_the_same_bytes(tmp_path, settings):
    from cbrcore.errors import Interrupted

    run(tmp_path / "whole", memory=settings, checkpoint_every=2)
    with pytest.raises(Interrupted):
        run(tmp_path / "parts", stop_after=14, memory=settings, checkpoint_every=2)
    run(tmp_path / "parts", memory=settings, checkpoint_every=2)
    for name in ("metrics.jsonl", "results.json", "memory/cases.jsonl"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


# -- cases of other runs ---------------------------------------------------------------------------------------


def test_cases_of_an_equal_encoder_keep_their_keys(tmp_path):
    giver, taker = reasoner(), reasoner()
    remember(giver.retriever.memory, giver, BOOK_SHELF)
    giver.retriever.memory.save(tmp_path, weights=giver.retriever.digest())
    assert taker.retriever.adopt(read_cases(tmp_path)) == 1
    assert torch.equal(taker.retriever.memory.index.keys(), giver.retriever.memory.index.keys())
    assert taker.retriever.adopt(read_cases(tmp_path)) == 0


def test_cases_of_another_encoder_get_new_keys(tmp_path):
    giver, taker = reasoner(), reasoner()
    with torch.no_grad():
        giver.retriever.encoder.rows[0] = torch.tensor([5.0, 5.0, 5.0])
    remember(giver.retriever.memory, giver, BOOK_SHELF)
    giver.retriever.memory.save(tmp_path, weights=giver.retriever.digest())
    taker.retriever.adopt(read_cases(tmp_path))
    own = taker.retriever.keys(SOMEWHERE, [BOOK_SHELF.seeds])
    assert torch.equal(taker.retriever.memory.index.keys(), own)
    assert taker.decide(observation(LOOK, NOVEL_SHELF), rng())[0].source == "reuse"


def test_a_run_starts_with_the_cases_of_another(tmp_path):
    run(tmp_path / "giver", episodes=40)
    run(tmp_path / "taker", episodes=10, memory={"cases": str(tmp_path / "giver" / "memory")})
    rows = [json.loads(line) for line in (tmp_path / "taker" / "metrics.jsonl").read_text().splitlines()]
    assert rows[0]["memory_size"] >= len(read_cases(tmp_path / "giver" / "memory").cases) > 0
    assert any(row["reused"] for row in rows)


def test_a_wrong_path_is_found_out_before_anything_is_played(tmp_path):
    with pytest.raises(RunFolderError, match="not a case memory"):
        run(tmp_path / "run", memory={"cases": str(tmp_path / "nowhere")})
    assert not list((tmp_path / "run" / "checkpoints").glob("*"))


@pytest.mark.parametrize("eviction", ["oldest", "least_used", "least_successful"])
@pytest.mark.parametrize("capacity", [1, 3, None])
def test_the_capacity_holds_for_every_store(capacity, eviction, tmp_path):
    """Cases and failures, however they come: retained, noted, loaded, taken over, made anew."""
    settings = CaseMemoryConfig(capacity=capacity, eviction=eviction, outcome="both")
    memory, other = (case_memory(settings, Build(index=DenseIndex)) for _ in range(2))
    free = case_memory(CaseMemoryConfig(outcome="both"), Build(index=DenseIndex))
    keys = torch.eye(8)
    for store in (memory, free):
        for step, key in enumerate(keys):
            store.add(item(key, act("take {}", str(step))), HERE, step=step)
            failed = RetainItem(key, act("put {}", str(step)), step, 0.0)
            store.note_outcome(failed, UNREWARDED, failed=True, step=step)
    most = capacity or len(keys)
    for name, store in memory.stores().items():
        assert len(store) == len(store.situations) == len(store.index) == most, name
        assert store.cases[-1].entities == ("7",)  # the newest one is never the one that leaves
        free.stores()[name].save(tmp_path / name)
        other.stores()[name].load(tmp_path / name)
        assert len(other.stores()[name]) == most, name
        stored = store.read(tmp_path / name)
        store.merge(stored, stored.keys)
        assert len(store) == most, name
        store.replace_keys(torch.eye(8)[: len(store)])
        assert len(store) == most, name
