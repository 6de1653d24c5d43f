"""Algorithm 1 step by step, with contexts and similarities that can be worked out by hand."""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from parts import CosineQuantizer, DenseIndex, ScriptedAgent, TableEncoder, act, item, observation, paper_rule
from test_memory import HERE, UNREWARDED

from cbr_memory.memory import CaseMemory
from cbr_reuse.most_relevant import first_order
from cbrcore.cycle.reasoner import CaseBasedReasoner, _draw
from cbrcore.cycle.retriever import Retriever, tensors_digest
from cbrcore.interfaces import RetainItem, StoredCases
from cbrcore.types import Action, Case, Ending, Provenance, StateGraph, StepResult, fill

TABLE = {
    "book": [1.0, 0.0, 0.0],
    "novel": [0.9, 0.1, 0.0],
    "plate": [0.0, 1.0, 0.0],
    "shelf": [0.0, 0.0, 0.0],
    "rack": [0.0, 0.0, 1.0],
}
LOOK = act("look")
TAKE_NOVEL = act("take {}", "novel")
NOVEL_SHELF = act("put {} on {}", "novel", "shelf")
NOVEL_RACK = act("put {} on {}", "novel", "rack")
BOOK_SHELF = act("put {} on {}", "book", "shelf")


class LastTwo:
    def select(self, buffer, rng):
        return buffer[-2:]


class Recorder:
    """A retain policy that keeps what it was shown."""

    def select(self, buffer, rng):
        self.seen: list[RetainItem] = list(buffer)
        return []


def reasoner(
    *preferred: str, threshold: float = 0.7, policy: object = None, gamma: float = 0.9, **rule
) -> CaseBasedReasoner:
    retriever = Retriever(TableEncoder(TABLE), CosineQuantizer(), CaseMemory(DenseIndex(), threshold=threshold))
    agent, retain = ScriptedAgent(*preferred), policy or LastTwo()
    return CaseBasedReasoner(agent, retriever, retain, paper_rule(**rule), gamma=gamma)


def remember(r: CaseBasedReasoner, *actions: Action, step: int = 1) -> None:
    for action in actions:
        key = r.retriever.keys(StateGraph.of([]), [action.seeds])[0]
        r.retriever.memory.add(item(key, action), HERE, step=step)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def outcome(reward: float, ending: Ending | None = None) -> StepResult:
    return StepResult(observation(LOOK), reward, ending)


def test_a_similar_case_is_retrieved_and_its_template_reused_on_the_current_entities():
    r = reasoner("look")
    remember(r, BOOK_SHELF)
    decision, trace = r.decide(observation(LOOK, NOVEL_RACK, NOVEL_SHELF), rng())
    assert (decision.action, decision.source) == (NOVEL_SHELF, "reuse")
    assert decision.chosen.match.case.text == "put book on shelf"
    assert decision.chosen.match.relevance == pytest.approx(0.9 / np.hypot(0.9, 0.1))
    assert torch.equal(trace.matched_key, torch.tensor([1.0, 0.0, 0.0]))


def test_without_a_relevant_case_the_agent_acts():
    r = reasoner("look")
    decision, trace = r.decide(observation(LOOK, NOVEL_RACK), rng(), greedy=True)
    assert (decision.action, decision.source, decision.candidates) == (LOOK, "agent", ())
    assert trace.matched_key is None
    assert decision.agent_probability == pytest.approx(np.exp(3) / (np.exp(3) + 1))


def test_relevance_must_exceed_tau_strictly():
    r = reasoner("look", threshold=1.0)
    remember(r, BOOK_SHELF)
    decision, _ = r.decide(observation(LOOK, BOOK_SHELF), rng(), greedy=True)  # cosine exactly 1
    assert decision.source == "agent"


def test_entity_less_actions_retrieve_nothing():
    r = reasoner("look")
    remember(r, BOOK_SHELF)
    assert r.decide(observation(LOOK), rng())[0].candidates == ()


def test_arity_must_match():
    r = reasoner("take novel")
    remember(r, BOOK_SHELF)  # one vector with "take book": shelf is zero
    decision, _ = r.decide(observation(LOOK, TAKE_NOVEL), rng(), greedy=True)
    assert (decision.source, decision.candidates) == ("agent", ())


def test_inadmissible_candidates_are_kept_for_the_record_but_not_taken():
    r = reasoner("look")
    remember(r, BOOK_SHELF)
    decision, _ = r.decide(observation(LOOK, act("take {} from {}", "novel", "shelf")), rng(), greedy=True)
    assert decision.source == "agent"
    assert [(c.action.text, c.verdict) for c in decision.candidates] == [("put novel on shelf", "inadmissible")]


def test_other_orders_of_the_entities_are_tried_when_the_current_one_is_inadmissible():
    r = reasoner("look")
    remember(r, BOOK_SHELF)
    swapped = act("cover {} by {}", "shelf", "novel")  # same entities, other order
    offered = observation(LOOK, swapped, NOVEL_SHELF)
    decision, _ = r.decide(offered, rng())
    assert {(c.action.text, c.verdict) for c in decision.candidates} == {("put novel on shelf", "admissible")}


def slow_first_order(template: str, entities: Sequence[str], texts: Collection[str]) -> str | None:
    """All orders are made, and each is looked for."""
    return next((text for order in permutations(entities) if (text := fill(template, order)) in texts), None)


@st.composite
def commands(draw: st.DrawFn) -> tuple[str, list[str], list[str]]:
    """A template of up to five slots, its entities, and texts of which some are its orders; entities repeat, begin
    like each other, and stand close together."""
    entities = draw(st.lists(st.sampled_from(["a", "aa", "ab", "b", "a b", "", "ba"]), min_size=0, max_size=5))
    pieces = draw(st.lists(st.sampled_from(["", " ", "a", "mix "]), min_size=len(entities) + 1,
                           max_size=len(entities) + 1))  # fmt: skip
    template = "{}".join(pieces)
    orders = [fill(template, order) for order in permutations(entities)]
    texts = draw(st.lists(st.sampled_from(orders), max_size=4)) + draw(st.lists(st.text("ab mix", max_size=9)))
    return template, entities, texts


@settings(max_examples=400, deadline=None)
@given(commands())
def test_the_first_order_is_that_of_all_orders(command: tuple[str, list[str], list[str]]):
    assert first_order(*command) == slow_first_order(*command)


@pytest.mark.parametrize("slots", [6, 8, 9, 10, 12, 40])
@pytest.mark.parametrize("names", ["unlike", "equal", "nested"])
def test_many_slots_cost_no_more_than_their_texts(slots: int, names: str):
    """Whatever 300 other commands are admissible with the same things; all orders would be minutes from 10 on."""
    kinds = {"unlike": [f"thing {i:02}" for i in range(slots)], "equal": ["plank"] * (slots - 1) + ["nail"],
             "nested": ["a" * (1 + i % 3) for i in range(slots)]}  # fmt: skip
    entities, template = kinds[names], "craft " + ", ".join(["{}"] * slots) + " now"
    rng = random.Random(0)
    others = {fill(template, rng.sample(entities, slots)) for _ in range(300)}
    endless = {f"{text[:-5]}~{text[-4:]}" for text in others}  # wrong in its last thing alone
    backwards = fill(template, entities[::-1])
    started = time.process_time()
    assert first_order(template, entities, endless) is None
    assert first_order(template, entities, endless | {backwards}) == backwards
    found = first_order(template, entities, others)
    seconds = time.process_time() - started
    assert found in others
    assert seconds < 0.3


def test_the_most_relevant_admissible_candidate_is_executed():
    r = reasoner("look", threshold=0.5)
    remember(r, BOOK_SHELF)
    offered = observation(LOOK, NOVEL_RACK, NOVEL_SHELF)  # cosine with book+shelf: 0.67 and 0.99
    decision, _ = r.decide(offered, rng())
    assert [c.action.text for c in decision.candidates] == ["put novel on shelf", "put novel on rack"]
    assert decision.action == NOVEL_SHELF


def test_ties_in_relevance_go_to_the_action_the_agent_prefers():
    for preferred in ("put book on shelf", "drop book on shelf"):
        r = reasoner(preferred)
        drop = act("drop {} on {}", "book", "shelf")
        remember(r, BOOK_SHELF, drop)
        assert r.decide(observation(BOOK_SHELF, drop, LOOK), rng())[0].action.text == preferred


def test_ties_the_agent_does_not_break_go_to_the_more_often_rewarded_then_the_more_recent_case():
    drop = act("drop {} on {}", "book", "shelf")
    r = reasoner("look")
    remember(r, BOOK_SHELF, step=1)
    remember(r, drop, step=2)
    offered = observation(BOOK_SHELF, drop, LOOK)
    assert r.decide(offered, rng())[0].action == drop
    remember(r, BOOK_SHELF, step=1)
    assert r.decide(offered, rng())[0].action == BOOK_SHELF


def test_one_context_per_distinct_entity_tuple():
    r = reasoner("look")
    remember(r, BOOK_SHELF)
    calls: list[int] = []
    encoder = r.retriever.encoder
    original = encoder.contexts_of_pairs
    encoder.contexts_of_pairs = lambda pairs: (calls.append(len(pairs)), original(pairs))[1]
    same_tuple = [act(f"{verb} {{}}", "novel") for verb in ("take", "examine", "drop")]
    r.decide(observation(LOOK, *same_tuple, NOVEL_RACK), rng())
    r.decide(observation(LOOK, *same_tuple, NOVEL_RACK), rng())
    assert calls == [2]  # (novel,) and (novel, rack), computed once


def test_cached_keys_are_computed_anew_after_the_parameters_changed():
    r = reasoner("look")
    before = r.retriever.keys("s", [("book",)])
    with torch.no_grad():
        r.retriever.encoder.rows.mul_(2)
    assert torch.equal(r.retriever.keys("s", [("book",)]), 2 * before)


def test_one_key_is_looked_up_or_computed_and_not_kept():
    r = reasoner("look")
    asked: list[list] = []
    original = r.retriever.encoder.contexts_of_pairs
    r.retriever.encoder.contexts_of_pairs = lambda pairs: (asked.append(list(pairs)), original(pairs))[1]
    for _ in range(2):
        assert torch.equal(r.retriever.key("s", ("book", "rack")), torch.tensor([1.0, 0.0, 1.0]))
    assert asked == [[("s", ("book", "rack"))]] * 2
    known = r.retriever.keys("s", [("plate",)])[0]
    assert r.retriever.key("s", ("plate",)) is not None
    assert torch.equal(r.retriever.key("s", ("plate",)), known)
    assert len(asked) == 3


@pytest.mark.parametrize("count", [1, 255, 256, 257, 600])
def test_the_keys_of_many_cases_are_made_some_at_a_time(count):
    r = reasoner("look")
    sizes: list[int] = []
    original = r.retriever.encoder.contexts_of_pairs
    r.retriever.encoder.contexts_of_pairs = lambda pairs: (sizes.append(len(pairs)), original(pairs))[1]
    seeds = [(["book", "plate", "rack"][number % 3],) for number in range(count)]
    case = Case(0, "take {}", ("book",), "take book", HERE)
    cases = [replace(case, id=number, seeds=each) for number, each in enumerate(seeds)]
    stored = StoredCases(cases, torch.ones(count, 3), ["s"] * count, "other", "weights", count)
    kept: list[torch.Tensor] = []
    r.retriever.memory.merge = lambda given, keys: kept.append(keys)
    assert r.retriever.adopt(stored) == 0
    assert sizes == [256] * (count // 256) + [count % 256] * (count % 256 > 0)
    assert torch.equal(kept[0], torch.stack([torch.tensor(TABLE[name]) for (name,) in seeds]))


@pytest.mark.parametrize("weights", ["own", "other"])
@pytest.mark.parametrize("identity", ["", "other"])
def test_stored_keys_are_taken_where_encoder_and_weights_are_the_same(weights, identity):
    r = reasoner("look")
    case = Case(0, "take {}", ("book",), "take book", HERE, seeds=("book",))
    weights = r.retriever.digest() if weights == "own" else weights
    given = torch.tensor([[0.5, 0.5, 0.5]])
    count = r.retriever.adopt(StoredCases([case], given, ["s"], identity, weights, 1))
    same = weights != "other" and identity == ""
    assert count == 1
    assert torch.equal(r.retriever.memory.index.keys(), given if same else torch.tensor([TABLE["book"]]))
    assert r.retriever.adopt(StoredCases([case], given, ["s"], identity, weights, 1)) == 0  # known
    assert r.retriever.adopt(StoredCases([], None, [], identity, weights, 1)) == 0


def test_a_digest_is_of_names_kinds_shapes_and_values():
    one = {"a": torch.zeros(2, 3), "b": torch.ones(1)}
    others = [
        {"a": torch.zeros(3, 2), "b": torch.ones(1)},
        {"a": torch.zeros(2, 3, dtype=torch.int32), "b": torch.ones(1)},
        {"a": torch.zeros(2, 3), "c": torch.ones(1)},
        {"a": torch.zeros(2, 3), "b": torch.zeros(1)},
        {"a": torch.zeros(2, 3)},
    ]
    assert tensors_digest(one) == tensors_digest({name: one[name].clone() for name in ("b", "a")})
    assert len({tensors_digest(each) for each in [one, *others]}) == 6


def test_an_episode_computes_its_keys_itself():
    """A key that was computed in another batch may differ in its last bit: nothing of an earlier episode is kept,
    and within the episode nothing is computed twice."""
    r = reasoner("look")
    remember(r, BOOK_SHELF)
    calls: list[list] = []
    original = r.retriever.encoder.contexts_of_pairs
    r.retriever.encoder.contexts_of_pairs = lambda pairs: (calls.append(list(pairs)), original(pairs))[1]
    for _ in range(2):
        r.begin_episode()
        for _ in range(3):
            r.decide(observation(LOOK, NOVEL_SHELF), rng())
    assert len(calls) == 2
    assert calls[0] == calls[1]


@pytest.mark.parametrize("player", [0, 1])
def test_the_encoder_sees_the_earlier_observations_of_the_episode_in_their_order(player):
    """Those of this player and this episode alone, without the current one, whether or not a case is reused."""
    first = reasoner("look")
    remember(first, BOOK_SHELF)
    r = [first, first.companion()][player]
    shown: list[list] = []
    original = r.retriever.encoder.situation
    r.retriever.encoder.situation = lambda seen, past: (shown.append(list(past)), original(seen, past))[1]
    episode = [observation(LOOK), observation(LOOK, NOVEL_SHELF), observation(TAKE_NOVEL)]
    for _ in range(2):
        r.begin_episode()
        for seen in episode:
            r.value_of(seen)  # looking ahead is no step
            r.decide(seen, rng())
    assert shown == [[], episode[:1], episode[:2]] * 2


class ListeningMemory(CaseMemory):
    """Writes down what it is told of outcomes."""

    def __init__(self) -> None:
        super().__init__(DenseIndex(), threshold=0.7)
        self.told: list[tuple[str, float, bool]] = []
        self.steps: list[tuple[int, int, int]] = []

    def note_outcome(self, item, provenance, *, failed, step) -> None:
        assert item.key is not None
        self.steps.append((item.step, provenance.step, step))
        self.told.append((item.action.text, provenance.reward, failed))


@pytest.mark.parametrize(
    ("offered", "reward", "rescored", "told"),
    [
        (NOVEL_SHELF, 1.0, False, [("put novel on shelf", 1.0, False)]),
        (NOVEL_SHELF, 0.0, False, [("put novel on shelf", 0.0, True)]),
        (NOVEL_SHELF, -1.0, False, [("put novel on shelf", -1.0, True)]),
        (NOVEL_SHELF, 0.0, True, [("put novel on shelf", 0.0, False)]),  # right, though nothing is earned
        (TAKE_NOVEL, 0.0, False, [("take novel", 0.0, False)]),  # the agent's own
        (LOOK, 1.0, False, []),  # has no key
        (LOOK, 0.0, False, []),
    ],
)
def test_the_memory_is_told_what_came_of_each_action_that_has_a_key(offered, reward, rescored, told):
    r = reasoner("look")
    r.retriever.memory = ListeningMemory()
    remember(r, BOOK_SHELF)
    decision, trace = r.decide(observation(offered), rng())
    r.observe(decision, trace, StepResult(observation(LOOK), reward, None, rescored=rescored))
    r.retain(rng(), Provenance("g", 0, 1, 0, reward), env_steps=1)
    assert r.retriever.memory.told == told


def test_a_failure_is_told_once():
    """The step after a failed reuse is judged by itself."""
    r = reasoner("look")
    r.retriever.memory = ListeningMemory()
    remember(r, BOOK_SHELF)
    for env_steps, offered in enumerate((NOVEL_SHELF, LOOK, TAKE_NOVEL, NOVEL_RACK), start=40):
        decision, trace = r.decide(observation(offered), rng())
        r.observe(decision, trace, outcome(0.0))
        r.retain(rng(), UNREWARDED, env_steps=env_steps)
    told = [("put novel on shelf", 0.0, True), ("take novel", 0.0, False), ("put novel on rack", 0.0, False)]
    assert r.retriever.memory.told == told
    assert r.retriever.memory.steps == [(0, 0, 40), (2, 2, 42), (3, 3, 43)]  # of the step that was just taken


def test_failed_reuse_is_repeated_as_in_the_paper_unless_asked_not_to():
    for retry, source in ((True, "reuse"), (False, "agent")):
        r = reasoner("look", retry_failed=retry)
        remember(r, BOOK_SHELF)
        offered = observation(LOOK, NOVEL_SHELF)
        decision, trace = r.decide(offered, rng(), greedy=True)
        r.observe(decision, trace, outcome(0.0))
        again, _ = r.decide(offered, rng(), greedy=True)
        assert again.source == source
        assert again.candidates[0].verdict == ("admissible" if retry else "failed")
        r.begin_episode()
        assert r.decide(offered, rng(), greedy=True)[0].source == "reuse"  # forgotten with the episode


def play(r: CaseBasedReasoner, offered: list[Action], rewards: list[float]) -> int:
    """Execute the offered actions one by one; retain after each step. Returns the number of stored items."""
    stored = 0
    for step, (action, reward) in enumerate(zip(offered, rewards, strict=True)):
        decision, trace = r.decide(observation(action), rng())
        r.observe(decision, trace, outcome(reward))
        stored += r.retain(rng(), Provenance("g", 0, 1, 0, reward), env_steps=step + 1)
    return stored


def test_a_reward_stores_what_the_policy_picks_with_each_items_own_step_and_reward():
    r = reasoner()
    assert play(r, [TAKE_NOVEL, NOVEL_RACK, NOVEL_SHELF], [0, 0, 1]) == 2
    assert [(c.text, c.provenance.step, c.provenance.reward) for c in r.retriever.memory.cases] == [
        ("put novel on rack", 1, 0),
        ("put novel on shelf", 2, 1),
    ]


@pytest.mark.parametrize(
    ("rewards", "counts"),
    [
        ([1, 0, 0], [1]),
        ([1, 1, 0], [1, 1]),  # the first step is in the window of the second reward, too
        ([0, 1, 1], [0, 1, 1]),
        ([1, 1, 1], [1, 1, 1]),
        ([1, 0, 1], [1, 0, 1]),
    ],
)
def test_a_reward_is_counted_once_however_many_rewards_retain_its_step(rewards, counts):
    r = reasoner()
    play(r, [TAKE_NOVEL, NOVEL_RACK, NOVEL_SHELF], rewards)
    assert [case.rewarded for case in r.retriever.memory.cases] == counts


def test_a_step_that_is_taken_again_is_a_reward_of_its_own():
    """In the same episode and in the next one."""
    r = reasoner()
    for _ in range(2):
        r.begin_episode()
        play(r, [NOVEL_SHELF, NOVEL_SHELF], [1, 1])
    assert [case.rewarded for case in r.retriever.memory.cases] == [4]


def test_a_case_that_left_and_is_retained_again_counts_its_reward():
    r = reasoner()
    r.retriever.memory.capacity = 1
    play(r, [TAKE_NOVEL, NOVEL_SHELF], [1, 1])
    assert [(case.text, case.rewarded) for case in r.retriever.memory.cases] == [("put novel on shelf", 1)]


def test_nothing_is_stored_without_a_reward_or_for_actions_without_entities():
    r = reasoner()
    assert play(r, [TAKE_NOVEL, NOVEL_SHELF], [0, -1]) == 0
    r.begin_episode()
    assert play(r, [LOOK], [1]) == 0
    assert len(r.retriever.memory) == 0


def test_retain_policies_see_the_episode_with_td_errors_of_all_but_the_last_step():
    policy = Recorder()
    r = reasoner(policy=policy, gamma=0.5)
    r.agent.value.data.fill_(2.0)
    play(r, [TAKE_NOVEL, NOVEL_RACK, NOVEL_SHELF], [0, 0, 1])
    # delta = r + 0.5 * 2 - 2 = -1 for unrewarded steps; the last one's next value is not known yet
    assert [item.td_error for item in policy.seen] == [-1.0, -1.0, None]
    r.begin_episode()
    play(r, [NOVEL_SHELF], [1])
    assert len(policy.seen) == 1  # a new episode starts with an empty buffer


def test_retain_policies_see_what_was_before_and_after_each_action():
    policy = Recorder()
    r = reasoner(policy=policy)
    seen = [observation(TAKE_NOVEL), observation(NOVEL_RACK), observation(NOVEL_SHELF)]
    for before, after, reward in zip(seen, seen[1:], (0.0, 1.0), strict=False):
        decision, trace = r.decide(before, rng())
        r.observe(decision, trace, StepResult(after, reward))
        r.retain(rng(), Provenance("g", 0, 1, 0, reward), env_steps=1)
    assert [item.before for item in policy.seen] == seen[:2]
    assert [item.after for item in policy.seen] == seen[1:]
    assert [item.reward for item in policy.seen] == [0.0, 1.0]


def test_agent_state_advances_once_per_step_and_not_for_a_value():
    r = reasoner()
    for step in range(3):
        r.value_of(observation(LOOK))
        decision, trace = r.decide(observation(LOOK), rng())
        assert trace.agent_input.state == step
        r.observe(decision, trace, outcome(0.0))


def test_the_random_stream_does_not_depend_on_what_was_retrieved():
    plain, with_case = reasoner(), reasoner()
    remember(with_case, BOOK_SHELF)
    left, right = rng(), rng()
    offered = observation(LOOK, NOVEL_SHELF, TAKE_NOVEL)
    assert with_case.decide(offered, left)[0].source == "reuse"
    assert plain.decide(offered, right)[0].source == "agent"
    assert left.random() == right.random()


@pytest.mark.parametrize(
    ("number", "drawn"), [(0.0, 0), (0.2499, 0), (0.25, 1), (0.4999, 1), (0.5, 2), (0.9, 2), (0.9999999, 2)]
)
@pytest.mark.parametrize("short", [0.0, 1e-3])
def test_a_number_in_0_to_1_draws_the_action_of_its_share(number, drawn, short):
    """Also where rounding leaves the shares a little below 1."""
    shares = np.array([0.25, 0.25, 0.5 - short])
    fixed = SimpleNamespace(random=lambda: number)
    assert _draw(shares, fixed, greedy=False) == drawn
    assert _draw(shares, fixed, greedy=True) == 2


def test_a_decision_says_the_probability_of_what_is_done_and_what_pi_would_do():
    r = reasoner("look")
    remember(r, BOOK_SHELF)
    offered = observation(TAKE_NOVEL, LOOK, NOVEL_SHELF)
    r.agent.value.data.fill_(2.5)
    decision, _ = r.decide(offered, rng(), greedy=True)
    assert (decision.action, decision.agent_action) == (NOVEL_SHELF, LOOK)
    assert decision.agent_probability == pytest.approx(1 / (np.exp(3) + 2))
    assert decision.value == 2.5


@pytest.mark.parametrize(("gamma", "values"), [(0.5, [1.0, 2.0, 4.0]), (0.9, [0.0, -1.0, 3.0])])
def test_td_errors_are_of_each_steps_own_value_and_reward(gamma, values):
    policy, rewards = Recorder(), [0.5, -0.25, 1.0]
    r = reasoner(policy=policy, gamma=gamma)
    for _ in range(2):  # nothing is left of the episode before
        for value, reward in zip(values, rewards, strict=True):
            r.agent.value.data.fill_(value)
            decision, trace = r.decide(observation(NOVEL_RACK), rng())
            r.observe(decision, trace, outcome(reward))
        r.retain(rng(), HERE, env_steps=1)
        errors = [rewards[t] + gamma * values[t + 1] - values[t] for t in range(2)]
        assert [item.td_error for item in policy.seen] == [*map(pytest.approx, errors), None]
        assert [item.step for item in policy.seen] == [0, 1, 2]
        r.begin_episode()


def test_a_value_where_nothing_can_be_done_is_0():
    r = reasoner("look")
    r.agent.value.data.fill_(2.5)
    assert (r.value_of(observation()), r.value_of(observation(LOOK))) == (0.0, 2.5)


def test_actions_are_drawn_from_pi():
    r, generator = reasoner("look"), rng()
    offered = observation(LOOK, TAKE_NOVEL)
    drawn = [r.decide(offered, generator)[0].action for _ in range(2000)]
    share = drawn.count(LOOK) / len(drawn)
    assert share == pytest.approx(np.exp(3) / (np.exp(3) + 1), abs=0.015)  # 3 standard errors


def test_without_a_retriever_it_is_the_plain_agent():
    r = CaseBasedReasoner(ScriptedAgent("look"))
    decision, trace = r.decide(observation(LOOK, TAKE_NOVEL), rng(), greedy=True)
    r.observe(decision, trace, outcome(1.0))
    assert decision.action == LOOK
    assert r.retain(rng(), UNREWARDED, env_steps=1) == r.retain(rng(), HERE, env_steps=1) == 0


def test_the_discount_of_td_errors_is_the_papers_unless_given():
    agent = ScriptedAgent("look")
    assert CaseBasedReasoner(agent).gamma == 0.9
    assert CaseBasedReasoner(agent, gamma=0.5).gamma == 0.5
