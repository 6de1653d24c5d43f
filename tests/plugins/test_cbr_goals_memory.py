"""The memory of goals: what all cases say for a goal, what was tried, and the files of both."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace

import pytest
import torch
from goal_parts import PUT, Goals, Table, Texts

from cbr_goals.config import EvidenceConfig, KernelConfig
from cbr_goals.files import EVIDENCE_FILE, TRIES_FILE, Try
from cbr_goals.fitting import Evidence, Weights
from cbr_goals.kernel import Kernel
from cbr_goals.memory import EvidenceMemory, evidence_memory
from cbrcore.errors import CbrError, RunFolderError
from cbrcore.interfaces import Build, RetainItem, TellsFacts
from cbrcore.testing import DIM, KEYS, REWARDED, TAKE, CosineIndex, MemorySuite
from cbrcore.testing import PUT as CUP_ON_RACK
from cbrcore.types import Action

NAMES = {"hat": [1.0, 0.0], "cap": [0.6, 0.8], "rack": [0.0, 1.0], "shelf": [0.8, -0.6]}


class TestEvidenceMemory(MemorySuite):
    """Its relevance is p, which is never 0: where the suite has vectors at right angles retrieve nothing, this one
    asks for more than the 0.1 that they get."""

    @pytest.fixture
    def build(self, tmp_path) -> Build:
        build = Build(cache_dir=tmp_path, text_encoder=Texts(DIM - 1), context_dim=DIM, identity="suite")
        kernel = Kernel(KernelConfig(second=()), build)
        kernel.set_weights(torch.tensor([9.0]))
        return replace(build, index=kernel.index)

    def make(self, build: Build) -> EvidenceMemory:
        return evidence_memory(EvidenceConfig(threshold=0.1), build)

    def test_what_is_above_the_threshold_is_retrieved(self, build: Build):
        memory = self.filled(build)
        near = KEYS[:3] + 0.1 * KEYS[1]
        assert self.retrieved(memory, near) == [[CUP_ON_RACK.template], [TAKE.template], []]
        assert memory.similarities(near).shape == (3, 2)
        (match,) = memory.retrieve(near)[0]
        assert match.relevance == memory.weigh(near)[0].item() != memory.similarities(near)[0, 0].item()
        memory.threshold = match.relevance
        assert memory.retrieve(near[:1]) == [[]], "strictly above"
        assert (memory.retrieve(KEYS[:0]), self.make(build).retrieve(KEYS[:1])) == ([], [[]])


def test_p_by_hand():
    """theta 3 and 3, w0 2, w1 1, w2 -5, nu 2, a 1, b 0: what stands before a fit."""
    goals = Goals(Table(NAMES))
    goals.case("hat", "rack")
    asked = goals.keys(("cap", "rack"))
    cases = math.exp(3 * (0.6 - 1))
    score = 2 * 0.8 + math.log(cases + math.exp(-5))
    assert goals.memory.weigh(asked).tolist() == pytest.approx([1 / (1 + math.exp(-score))], rel=1e-6)
    plus, minus = goals.keys(("cap", "shelf")), goals.keys(("hat", "shelf"), ("cap", "rack"))
    good = math.exp(3 * (-0.6 - 1))
    bad = math.exp(3 * (0.6 - 1) + 3 * (-0.6 - 1)) + 1
    score = 2 * 0.8 + math.log(cases + good + math.exp(-5)) - 2 * bad
    assert goals.memory.weigh(asked, plus, minus).tolist() == pytest.approx([1 / (1 + math.exp(-score))], rel=1e-6)


def test_without_cases_the_names_alone_count():
    goals = Goals(Table(NAMES), threshold=0.0)
    found = goals.memory.scores(goals.keys(("cap", "rack"), ("cap",)))
    assert found.tolist() == pytest.approx([2 * 0.8 - 5, -5])
    assert goals.memory.retrieve(goals.keys(("cap", "rack"))) == [[]]


@pytest.mark.parametrize("pairs", [None, {("red cup", "rack"): 1.5, ("hat", "shelf"): 0.25}])
@pytest.mark.parametrize(
    "views", [{}, {"first": ("head", "full"), "second": ("full", "state")}, {"first": ("head",)}]
)
@pytest.mark.parametrize("episode", [(0, 0), (2, 0), (0, 3), (3, 2)])
def test_weigh_is_what_loops_compute(views, pairs, episode):
    goals = Goals(pairs=pairs, nu=1.5, **views)
    names = [(thing, place) for thing in ("red cup", "hat", "wet hat") for place in ("rack", "shelf")]
    for each in names[:4]:
        goals.case(*each)
    goals.memory.weights = Weights(w0=3.0, wC=0.5, w1=1.5, w2=-4.0, a=0.7, b=0.2)
    keys = goals.keys(*names, ("hat",))
    plus, minus = (keys[1 : 1 + count] if count else None for count in episode)

    def k(one: torch.Tensor, other: torch.Tensor) -> float:
        return goals.kernel.similarity(one[None].double(), other[None].double()).item()

    full = [goals.encoder.layout.views.get(name) for name in ("first.full", "second.full")]
    expected = []
    for key in keys:
        total = sum(k(key, goals.memory.key_of(case)) for case in goals.memory.cases)
        total += sum(k(key, other) for other in keys[1 : 1 + episode[0]])
        wrong = sum(k(key, other) for other in keys[1 : 1 + episode[1]])
        cosine = (
            torch.cosine_similarity(key[full[0]], key[full[1]], dim=0).item() if None not in full else 0
        )  # then w0 does not count
        score = 3.0 * cosine + 1.5 * math.log(total + math.exp(-4)) - 1.5 * wrong
        score += 0.5 * float(key[-1]) if pairs else 0
        expected.append(1 / (1 + math.exp(-(0.7 * score + 0.2))))
    assert goals.memory.weigh(keys, plus, minus).tolist() == pytest.approx(expected, abs=1e-6)


def test_the_most_similar_case_is_retrieved_with_p_of_the_goal():
    goals = Goals(Table(NAMES))
    goals.case("hat", "rack")
    near = goals.case("cap", "shelf")
    keys = goals.keys(("cap", "shelf"), ("hat", "shelf"))
    found = goals.memory.retrieve(keys)
    assert [[match.case.id for match in matches] for matches in found] == [[near.id], [near.id]]
    assert [matches[0].relevance for matches in found] == goals.memory.weigh(keys).tolist()
    assert torch.equal(goals.memory.similarities(keys)[:, 1:], goals.kernel.matrix(keys, keys[:1]).float())


def test_of_equally_similar_cases_the_more_often_rewarded_one_is_retrieved():
    goals = Goals(Table(NAMES))
    goals.case("hat", "rack", template="put {} on {}", step=1)
    often = goals.case("hat", "rack", template="insert {} into {}", step=2)
    goals.case("hat", "rack", template="hang {} on {}", step=3)
    goals.case("hat", "rack", template="insert {} into {}", step=2)
    ((match,),) = goals.memory.retrieve(goals.keys(("hat", "rack")))
    assert match.case is often


# -- what was tried --------------------------------------------------------------------------------------------


def test_what_was_tried_is_right_or_wrong_and_right_it_stays():
    goals = Goals(Table(NAMES))
    goals.tried("a", "hat", "shelf")
    goals.tried("a", "hat", "rack", right=True)
    goals.tried("a", "hat", "rack")
    goals.tried("a", "hat", "shelf", right=True)
    goals.tried("b", "hat", "shelf")
    goals.tried("b", "cap", "shelf", failed=False)
    assert goals.memory.tries == {
        Try("a", PUT, ("hat", "shelf")): True,
        Try("a", PUT, ("hat", "rack")): True,
        Try("b", PUT, ("hat", "shelf")): False,
    }


def test_actions_without_entities_or_key_were_not_tried():
    goals = Goals(Table(NAMES))
    goals.tried("a", "hat", "rack", right=True)
    key = goals.keys(("hat", "rack"))[0]
    for item in (RetainItem(key, Action("look", "look"), 0, 1.0), RetainItem(None, CUP_ON_RACK, 0, 1.0)):
        goals.memory.note_outcome(item, REWARDED, failed=False, step=0)
    assert list(goals.memory.tries) == [Try("a", PUT, ("hat", "rack"))]


def test_tries_of_templates_of_no_case_are_ignored_by_the_fit_until_there_is_one():
    goals = Goals(Table(NAMES))
    goals.case("cap", "rack", game="b")
    goals.tried("a", "hat", "rack", right=True)
    goals.tried("a", "hat", "shelf", template="insert {} into {}")
    assert goals.memory.fit() == {}
    goals.case("cap", "shelf", game="c", template="insert {} into {}")
    assert goals.memory.fit()["tries"] == 2


def test_each_goal_of_a_game_is_fitted_once_and_as_right_if_it_ever_was():
    goals = Goals(Table(NAMES))
    for template in (PUT, "insert {} into {}"):
        goals.case("cap", "rack", game="b", template=template)
    for template, right in ((PUT, False), ("insert {} into {}", True)):
        goals.tried("a", "hat", "rack", template=template, right=right)
    goals.tried("a", "hat", "shelf")
    assert len(goals.memory.tries) == 3
    figures = goals.memory.fit()
    assert (figures["tries"], figures["lists"]) == (2, 1)


@pytest.mark.parametrize("views", [("head",), ("state",), ("full",)])
def test_left_out_of_the_fit_are_cases_of_the_same_name_not_of_names_that_look_alike(views):
    """ "wet shirt" and "dirty shirt" have one head, which is what the view is there to tell."""
    goals = Goals(first=views)
    goals.case("dirty shirt", "basket", game="b")
    goals.case("dirty plate", "sink", game="c")
    for thing in ("dirty shirt", "wet shirt", "dirty plate"):
        goals.tried("a", thing, "basket", right=True)
        goals.tried("a", thing, "shelf")
    tried = goals.memory._as_tried()
    names = ["dirty shirt", "dirty shirt", "wet shirt", "wet shirt", "dirty plate", "dirty plate"]
    another = tried.another[tried.rows[:, 0]][:, tried.cases[:, 0]].tolist()
    assert another == [[name != case for case in ("dirty shirt", "dirty plate")] for name in names]
    one, other = goals.keys(("wet shirt", "basket"), ("dirty shirt", "basket"))
    expected = goals.kernel.matrix(one[None], other[None])[0, 0]  # the first case; "dirty plate" is the second
    expected = expected + goals.kernel.matrix(one[None], goals.keys(("dirty plate", "sink")))[0, 0]
    theta = torch.cat([goals.kernel.weights(), torch.tensor([0.0, 0.0, 1.0, -50.0], dtype=torch.float64)])
    assert Evidence(tried).scores(theta)[2].exp().item() == pytest.approx(expected.item())


# -- fit ---------------------------------------------------------------------------------------------------------


def filled(goals: Goals | None = None) -> Goals:
    """Three games in which hats and caps belong on racks."""
    goals = goals or Goals(Table(NAMES))
    for game in ("a", "b", "c"):
        for thing in ("hat", "cap"):
            goals.tried(game, thing, "shelf")
            goals.tried(game, thing, "rack", right=True)
        goals.case("hat" if game == "a" else "cap", "rack", game=game)
    return goals


def everything(memory: EvidenceMemory) -> list:
    return [asdict(memory.weights), memory.kernel.theta.tolist(), dict(memory.figures)]


def test_a_fit_is_the_same_again_and_depends_on_nothing_but_cases_and_tries():
    one, other = filled(), filled()
    one.memory.fit()
    before = everything(one.memory)
    one.memory.fit()
    assert everything(one.memory) == before
    other.kernel.set_weights(torch.tensor([7.0, 7.0]))
    other.memory.fit()
    assert everything(other.memory) == before
    assert one.memory.figures["theta.first.full"] == one.kernel.theta[0].item()
    assert one.memory.figures["w0"] == one.memory.weights.w0
    assert isinstance(one.memory, TellsFacts)
    assert json.loads(json.dumps(one.memory.facts())) == one.memory.figures | {"prototypes": 2}


@pytest.mark.parametrize("lack", ["cases", "tries", "wrong", "right"])
def test_where_there_is_nothing_to_fit_all_stays_as_it_is(lack):
    goals = Goals(Table(NAMES))
    if lack != "cases":
        goals.case("hat", "rack", game="b")
    if lack not in ("tries", "wrong"):
        goals.tried("a", "hat", "shelf")
    if lack not in ("tries", "right"):
        goals.tried("a", "hat", "rack", right=True)
    before = everything(goals.memory)
    assert goals.memory.fit() == {}
    assert everything(goals.memory) == before


def test_weights_of_what_there_is_not_stay_zero():
    goals = filled(Goals(Table(NAMES), second=("head",)))
    assert (goals.memory.weights.w0, goals.memory.weights.wC) == (0, 0)
    assert goals.memory.fit()["lists"] == 6
    assert (goals.memory.weights.w0, goals.memory.weights.wC) == (0, 0)
    assert goals.memory.weights.w1 != 1


# -- files -------------------------------------------------------------------------------------------------------


def test_a_loaded_memory_goes_on_to_the_same_bits(tmp_path):
    goals, other = filled(Goals(pairs={("hat", "rack"): 0.5})), Goals(pairs={("hat", "rack"): 0.5})
    goals.memory.fit()
    goals.tried("d", "hat", "rack", right=True)
    goals.memory.save(tmp_path / "memory")
    other.case("old", "thing")
    other.tried("old", "thing", "rack")
    other.memory.load(tmp_path / "memory")
    other.kernel.load_state_dict(goals.kernel.state_dict())
    assert other.memory.tries == goals.memory.tries
    assert list(other.memory.tries) == list(goals.memory.tries)
    assert everything(other.memory) == everything(goals.memory)
    keys = goals.keys(("hat", "rack"), ("cup", "shelf"))
    assert torch.equal(other.memory.weigh(keys), goals.memory.weigh(keys))
    for each in (goals, other):
        each.tried("d", "hat", "shelf")
        each.memory.fit()
    assert everything(other.memory) == everything(goals.memory)
    other.memory.save(tmp_path / "again")
    goals.memory.save(tmp_path / "memory")
    for name in (EVIDENCE_FILE, TRIES_FILE, "cases.jsonl", "keys.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "memory" / name).read_bytes()


def test_an_empty_memory_can_be_saved_and_loaded(tmp_path):
    goals = filled()
    Goals(Table(NAMES)).memory.save(tmp_path)
    goals.memory.load(tmp_path)
    assert (len(goals.memory), goals.memory.tries, goals.memory.figures) == (0, {}, {})
    goals.tried("a", "hat", "rack")
    assert len(goals.memory.tries) == 1


def changed(text: bytes, **values) -> bytes:
    return json.dumps(json.loads(text) | values).encode()


@pytest.mark.parametrize(
    ("name", "spoil", "told"),
    [
        (EVIDENCE_FILE, None, "cannot be read"),
        (TRIES_FILE, None, "cannot be read"),
        (EVIDENCE_FILE, lambda old: old[:40], "Invalid JSON"),
        (EVIDENCE_FILE, lambda old: b"", "Invalid JSON"),
        (EVIDENCE_FILE, lambda old: changed(old, tries=[]), "12 keys, but .* holds 0 tries"),
        (EVIDENCE_FILE, lambda old: changed(old, tries=[{"game": "a"}]), "tries.0.template"),
        (EVIDENCE_FILE, lambda old: changed(old, weights={"w0": 1.0}), "weights.wC"),
        (EVIDENCE_FILE, lambda old: changed(old, more=1), "more"),
        (EVIDENCE_FILE, lambda old: old.replace(b"2.0", b"NaN"), "finite"),
        (TRIES_FILE, lambda old: old[:40], "cannot be read"),
        (TRIES_FILE, lambda old: b"", "cannot be read"),
        (TRIES_FILE, lambda old: old.replace(b"numbers", b"numberz"), "numbers"),
    ],
)
def test_damaged_files_are_told(name, spoil, told, tmp_path):
    filled().memory.save(tmp_path)
    path = tmp_path / name
    if spoil is None:
        path.unlink()
    else:
        path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(RunFolderError, match=told) as failed:
        filled().memory.load(tmp_path)
    assert name in str(failed.value)


def test_keys_of_another_width_are_told(tmp_path):
    filled().memory.save(tmp_path)
    for name in ("cases.jsonl", "situations.jsonl", "keys.safetensors"):
        Goals(Table(NAMES), first=("full", "head")).memory.save(tmp_path / "other")
        (tmp_path / name).write_bytes((tmp_path / "other" / name).read_bytes())
    with pytest.raises(RunFolderError, match=TRIES_FILE):
        Goals(Table(NAMES), first=("full", "head")).memory.load(tmp_path)


@pytest.mark.parametrize("index", [None, CosineIndex])
def test_without_the_kernel_it_says_what_to_do(index):
    with pytest.raises(CbrError, match="use: cbr_goals/kernel"):
        evidence_memory(EvidenceConfig(), Build(index=index))
