"""The multi-paragraph retriever: which paragraphs are chosen, contexts by hand, what they cost and depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from cbr_mptr.config import MultiParagraphConfig
from cbr_mptr.encoder import MultiParagraphEncoder
from cbr_mptr.paragraphs import Passage, choose, objects_of, passage_of
from cbr_text_encoders.config import UntrainedConfig
from cbr_text_encoders.untrained import UntrainedEncoder
from cbrcore import Action, Build, CbrError, Observation, StateGraph
from cbrcore.testing import ContextEncoderSuite

torch.set_num_threads(1)

WORDS = UntrainedEncoder(UntrainedConfig(dim=24), Build())


class TestContract(ContextEncoderSuite):
    def make(self, build: Build) -> MultiParagraphEncoder:
        return MultiParagraphEncoder(MultiParagraphConfig(), build)


class TestWithoutHistoryContract(ContextEncoderSuite):
    def make(self, build: Build) -> MultiParagraphEncoder:
        return MultiParagraphEncoder(MultiParagraphConfig(history=0, prefer="recent", dim=7), build)


def seen(description: str, *objects: str, feedback: str = "") -> Observation:
    """An observation in which one can take each of these objects, or wait."""
    actions = [Action.from_template("take {}", [name]) for name in objects]
    waiting = Action("wait", "wait", (), ("player", "hall"))
    return Observation(feedback, description, "", (*actions, waiting), StateGraph.of([], objects))


PAST = [
    seen("attic", "lamp", "rope"),
    seen("cellar", "rat"),
    seen("kitchen", "knife", "lamp"),
    seen("garden", "rope"),
    seen("hall", "lamp"),
]
"""Oldest first."""
NOW = seen("porch", "lamp", "rope", "key")


def chosen(
    entities: Sequence[str], *, history: int = 2, prefer: str = "action", now: Observation = NOW
) -> list[str]:
    return choose(passage_of(now, PAST, history), entities, history, prefer=prefer)


# --- paragraphs ---------------------------------------------------------------------------------------------


def test_the_objects_of_an_observation_are_those_that_its_actions_name():
    assert objects_of(NOW) == {"lamp", "rope", "key"}  # not the player and the hall, the seeds of "wait"


def test_paragraphs_of_an_action_by_hand():
    """rope: garden and attic. lamp: hall and kitchen. key: none, so the newest that share one with the porch."""
    assert chosen(["rope"]) == ["garden", "attic"]
    assert chosen(["lamp"]) == ["hall", "kitchen"]
    assert chosen(["key"]) == ["hall", "garden"]
    assert chosen(["lamp", "rope"]) == ["hall", "garden"]


def test_what_is_missing_is_filled_up_with_the_observations_other_objects():
    assert chosen(["rope"], history=3) == ["garden", "attic", "hall"]
    assert chosen(["rope"], history=9) == ["garden", "attic", "hall", "kitchen"]  # never the cellar


def test_recent_takes_the_newest_for_every_action():
    assert chosen(["rope"], prefer="recent") == chosen(["key"], prefer="recent") == ["hall", "garden"]


def test_entities_that_occur_nowhere_share_nothing():
    assert chosen(["ghost", "player"]) == chosen(["key"]) == chosen([])


def test_equal_descriptions_are_one_paragraph_where_it_was_last_and_with_all_it_shared():
    past = [seen("attic", "rope"), seen("hall", "lamp"), seen("attic", "lamp")]
    assert passage_of(NOW, past, 2)[1] == (
        ("attic", frozenset({"rope", "lamp"})),
        ("hall", frozenset({"lamp"})),
    )


def test_the_current_description_is_no_earlier_paragraph():
    assert passage_of(NOW, [seen("porch", "lamp", feedback="Taken.")], 2) == ("porch", ())


def test_the_feedback_stands_in_for_a_description_that_is_not_given():
    (paragraph,) = passage_of(NOW, [seen("", "lamp", feedback="You see a lamp.")], 2)[1]
    assert paragraph == ("You see a lamp.", frozenset({"lamp"}))


def test_a_passage_is_small_and_made_of_plain_values():
    """After a long episode it holds at most n paragraphs for each object that is here."""
    past = [seen(f"room {number}", "lamp", f"thing {number}") for number in range(200)]
    text, earlier = passage_of(NOW, past, 2)
    assert text == "porch"
    assert earlier == (("room 199", frozenset({"lamp"})), ("room 198", frozenset({"lamp"})))
    assert {type(earlier), type(earlier[0])} == {tuple}


OBJECTS = st.sets(st.sampled_from("abcd"))
EPISODES = st.lists(st.tuples(st.sampled_from(["one", "two", "three", "four", "five"]), OBJECTS), max_size=12)


def from_all_of_the_past(
    past: Sequence[Observation], now: Observation, entities: set[str], history: int, prefer: str
) -> list[str]:
    """The definition, read off the whole episode, without leaving anything out first."""
    shared: dict[str, set[str]] = {}
    for earlier in reversed(past):
        if earlier.description != now.description:
            shared.setdefault(earlier.description, set()).update(objects_of(earlier) & objects_of(now))
    newest_first = [text for earlier in reversed(past) if shared.get(text := earlier.description)]
    distinct = list(dict.fromkeys(newest_first))
    if prefer == "recent":
        return distinct[:history]
    about_it = [text for text in distinct if shared[text] & entities]
    return [*about_it, *(text for text in distinct if text not in about_it)][:history]


@given(EPISODES, OBJECTS, st.integers(0, 4), st.sampled_from(["action", "recent"]))
def test_what_a_passage_leaves_out_no_admissible_action_would_choose(episode, here, history, prefer):
    past, now = [seen(text, *sorted(objects)) for text, objects in episode], seen("one", *sorted(here))
    common = [earlier for earlier in past if objects_of(earlier) & here]  # others are no candidates
    passage = passage_of(now, past, history)
    for entities in [set(), *({name} for name in here), here]:
        expected = from_all_of_the_past(common, now, entities, history, prefer)
        assert choose(passage, entities, history, prefer=prefer) == expected


# --- contexts -----------------------------------------------------------------------------------------------


class Vectors:
    """A text encoder whose vectors a reader can see; it remembers what it was asked."""

    identity = "vectors"

    def __init__(self, vectors: Mapping[str, Sequence[float]]) -> None:
        self.vectors = vectors
        self.dim = len(next(iter(vectors.values())))
        self.asked: list[list[str]] = []

    def encode(self, texts: Sequence[str]) -> Tensor:
        self.asked.append(list(texts))
        return torch.tensor([list(self.vectors[text]) for text in texts]).reshape(-1, self.dim)


TEXTS = {
    "porch": (1.0,), "hall": (2.0,), "garden": (3.0,), "attic": (4.0,), "kitchen": (5.0,), "cellar": (6.0,),
    "lamp": (-1.0,), "rope": (-3.0,), "key": (7.0,), "ghost": (8.0,),
}  # fmt: skip


def encoder(texts: Any = WORDS, **settings: Any) -> MultiParagraphEncoder:
    torch.manual_seed(0)
    made = MultiParagraphEncoder(MultiParagraphConfig(**settings), Build(text_encoder=texts)).train(False)
    with torch.no_grad():
        for parameter in made.parameters():  # no parameter at an initial zero
            parameter.add_(0.02 * torch.randn_like(parameter))
    return made


def copying(texts: Vectors, **settings: Any) -> MultiParagraphEncoder:
    """Both layers copy: context = ReLU(what goes into the network)."""
    made = encoder(texts, dim=4, **settings)
    with torch.no_grad():
        for layer in (made.ffn[0], made.ffn[2]):
            layer.weight.copy_(torch.eye(4))
            layer.bias.zero_()
    return made


def contexts(made: MultiParagraphEncoder, passage: Passage, *tuples: tuple[str, ...]) -> Tensor:
    return made.contexts_of_pairs([(passage, entities) for entities in tuples])


def test_what_goes_into_the_network_by_hand():
    """[porch, first paragraph, second paragraph, mean of the names], each of width 1."""
    made = copying(Vectors(TEXTS))
    passage = made.situation(NOW, PAST)
    assert contexts(made, passage, ("key",), ("key", "lamp")).tolist() == [[1, 2, 3, 7], [1, 2, 5, 3]]
    assert contexts(made, passage, ("rope",)).tolist() == [[1, 3, 4, 0]]  # ReLU(-3)
    assert contexts(made, passage, ("ghost",), ()).tolist() == [[1, 2, 3, 8], [1, 2, 3, 0]]


def test_missing_paragraphs_are_zeros_at_the_end():
    made = copying(Vectors(TEXTS))
    assert contexts(made, made.situation(NOW, PAST[:1]), ("key",)).tolist() == [[1, 4, 0, 7]]
    assert contexts(made, made.situation(NOW, []), ("key",)).tolist() == [[1, 0, 0, 7]]


def test_a_two_layer_network_by_hand():
    """W1 = (1, 2, 0, -1), b1 = 3; ReLU(1 + 4 - 7 + 3) = 1; W2 = -2, b2 = 0.5."""
    made = encoder(Vectors(TEXTS), dim=1)
    with torch.no_grad():
        made.ffn[0].weight.copy_(torch.tensor([[1.0, 2.0, 0.0, -1.0]]))
        made.ffn[0].bias.fill_(3.0)
        made.ffn[2].weight.fill_(-2.0)
        made.ffn[2].bias.fill_(0.5)
    passage = made.situation(NOW, PAST)
    assert contexts(made, passage, ("key",), ("ghost",)).tolist() == [[-1.5], [0.5]]  # ghost: ReLU(0)


def test_entities_tell_actions_apart_and_their_order_does_not():
    made = encoder()
    passage = made.situation(NOW, [])
    lamp, rope, both, swapped = contexts(
        made, passage, ("lamp",), ("rope",), ("lamp", "rope"), ("rope", "lamp", "rope")
    )
    assert not torch.allclose(lamp, rope)
    assert not torch.allclose(lamp, both)
    torch.testing.assert_close(both, swapped)


def test_an_earlier_paragraph_changes_the_contexts_of_the_actions_that_it_is_chosen_for():
    made = encoder(history=1)
    before = contexts(made, made.situation(NOW, PAST), ("lamp",), ("rope",))
    after = contexts(made, made.situation(NOW, [*PAST, seen("bridge", "rope")]), ("lamp",), ("rope",))
    torch.testing.assert_close(before[0], after[0])
    assert not torch.allclose(before[1], after[1])


def test_observations_that_share_nothing_change_nothing():
    made = encoder()
    assert made.situation(NOW, PAST) == made.situation(NOW, [seen("cave", "bat"), *PAST, seen("void")])


@pytest.mark.parametrize("settings", [{}, {"prefer": "recent"}, {"history": 0}, {"dim": 5}], ids=str)
def test_a_row_depends_on_its_own_pair_alone(settings):
    made = encoder(**settings)
    pairs = [
        (made.situation(observation, PAST[:number]), entities)
        for number, observation in enumerate([*PAST, NOW])
        for entities in [("lamp",), ("rope", "key"), ("ghost",), ()]
    ]
    together = made.contexts_of_pairs(pairs)
    alone = torch.cat([made.contexts_of_pairs([pair]) for pair in pairs])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)
    assert torch.equal(together, made.contexts_of_pairs(pairs))


@pytest.mark.parametrize("settings", [{}, {"prefer": "recent"}, {"history": 0}, {"dim": 5}], ids=str)
def test_gradients_reach_every_parameter(settings):
    made = encoder(**settings)
    passage = made.situation(NOW, PAST)
    contexts(made, passage, ("lamp",), ("rope", "key")).square().sum().backward()
    assert all(bool(parameter.grad.abs().sum() > 0) for parameter in made.parameters())
    assert len(list(made.parameters())) == 4


# --- cost ---------------------------------------------------------------------------------------------------


def test_a_call_asks_for_each_text_and_each_name_once_however_many_actions_there_are():
    texts = Vectors(TEXTS)
    made = encoder(texts)
    passage = made.situation(NOW, PAST)
    contexts(made, passage, ("lamp",), ("rope",), ("lamp", "rope"), ("rope", "lamp"), ("key",))
    paragraphs, names = texts.asked
    assert sorted(paragraphs) == ["attic", "garden", "hall", "kitchen", "porch"]
    assert sorted(names) == ["key", "lamp", "rope"]


def test_a_paragraph_is_computed_once_per_process(monkeypatch):
    words = UntrainedEncoder(UntrainedConfig(dim=24), Build())
    computed: list[str] = []
    original = words._table._compute
    monkeypatch.setattr(words._table, "_compute", lambda texts: computed.extend(texts) or original(texts))
    made = encoder(words)
    for number, observation in enumerate([*PAST, NOW]):
        contexts(made, made.situation(observation, PAST[:number]), ("lamp",), ("rope",))
    assert sorted(computed) == sorted(set(computed))
    assert {"porch", "attic", "lamp"} <= set(computed)


def test_a_recipe_without_a_text_encoder_is_told_so():
    with pytest.raises(CbrError, match="text_encoder"):
        MultiParagraphEncoder(MultiParagraphConfig(), Build())


def test_its_weights_are_on_the_device_that_was_asked_for():
    made = MultiParagraphEncoder(MultiParagraphConfig(dim=7), Build(text_encoder=WORDS, device="meta"))
    assert {each.device.type for each in (*made.parameters(), *made.buffers())} == {"meta"}
