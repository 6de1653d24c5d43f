"""Contexts made of names: what each view shows, where it stands, what is missing."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from goal_parts import FEATURE, Goals, Pairs, Table
from pydantic import ValidationError

from cbr_goals.config import NamesConfig
from cbr_goals.encoder import NamesEncoder, words
from cbrcore import Build, CbrError
from cbrcore.testing import ContextEncoderSuite, WordHashEncoder

TABLE = {
    "wet blue hat": [3.0, 4.0],
    "hat": [0.0, 2.0],
    "wet blue": [1.0, 0.0],
    "wet": [-1.0, 0.0],
    "rack": [5.0, 0.0],
}


class TestContract(ContextEncoderSuite):
    def make(self, build: Build) -> NamesEncoder:
        return NamesEncoder(NamesConfig(), build)


class TestContractWithEverything(ContextEncoderSuite):
    def make(self, build: Build) -> NamesEncoder:
        config = NamesConfig(
            first=("full", "head", "modifiers", "state"), second=("head", "full"), pair_feature=FEATURE
        )
        return NamesEncoder(config, replace(build, make=lambda *_: Pairs({("cup", "table"): 0.5})))


@pytest.mark.parametrize(
    ("feature", "handicaps"),
    [
        (None, {}),
        (Pairs({}), {}),
        (SimpleNamespace(values=None, handicaps={"pair_feature": "a graph"}), {"pair_feature": "a graph"}),
    ],
)
def test_what_a_pair_feature_tells_is_a_handicap_of_the_encoder(feature, handicaps):
    config = NamesConfig(pair_feature=FEATURE if feature else None)
    build = replace(Build(text_encoder=WordHashEncoder()), make=lambda *_: feature)
    assert NamesEncoder(config, build).handicaps == handicaps


@pytest.mark.parametrize(
    ("name", "full", "head", "modifiers", "state"),
    [
        ("wet blue hat", "wet blue hat", "hat", "wet blue", "wet"),
        ("blue hat", "blue hat", "hat", "blue", "blue"),
        ("hat", "hat", "hat", "", ""),
        (" hat  rack ", "hat rack", "rack", "hat", "hat"),
        ("", "", "", "", ""),
    ],
)
def test_the_words_of_a_view(name, full, head, modifiers, state):
    views = ("full", "head", "modifiers", "state")
    assert [words(view, name) for view in views] == [full, head, modifiers, state]


def test_a_context_by_hand():
    goals = Goals(
        Table(TABLE), {("wet blue hat", "rack"): 0.25}, first=("full", "head", "state"), second=("full", "state")
    )
    found = goals.encoder.contexts_of_pairs([("", ("wet blue hat", "rack")), ("", ("hat",))])
    expected = [
        [0.6, 0.8, 0, 0, 1, 0, -1, 0, 0, 1, 0, 0, 0, 0, 1, 0.25],
        [0.0, 1.0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0],
    ]
    torch.testing.assert_close(found, torch.tensor(expected))
    layout = goals.encoder.layout
    assert layout.names == ("first.full", "first.head", "first.state", "second.full", "second.state")
    assert layout.views["second.full"] == slice(9, 12)
    assert layout.slots == (slice(0, 9), slice(9, 15))
    assert goals.encoder.dim == layout.dim == 16


def test_what_is_missing_in_both_is_alike_and_what_is_missing_in_one_is_not():
    views = {"first": ("full", "modifiers"), "second": ("full",)}
    goals = Goals(Table(TABLE), **views)
    hat, rack, pair = goals.keys(("hat",), ("rack",), ("hat", "rack"))
    slot, modifiers = goals.encoder.layout.views["second.full"], goals.encoder.layout.views["first.modifiers"]
    assert torch.dot(hat[slot], rack[slot]) == torch.dot(hat[modifiers], rack[modifiers]) == 1
    assert torch.dot(hat[slot], pair[slot]) == 0


def test_of_more_than_two_entities_the_first_two_count():
    goals = Goals()
    two, three, other = goals.keys(("cup", "rack"), ("cup", "rack", "spoon"), ("rack", "cup"))
    assert torch.equal(two, three)
    assert not torch.equal(two, other)


def test_each_text_is_encoded_once_and_nothing_is_trained():
    texts = Table(TABLE)
    encoder = Goals(texts, first=("full", "head")).encoder
    for _ in range(2):
        contexts = encoder.contexts_of_pairs(
            [("", ("wet blue hat", "rack")), ("", ("hat", "rack")), ("", ("hat",))]
        )
    assert sorted(texts.asked) == ["hat", "rack", "wet blue hat"]
    assert not contexts.requires_grad
    assert list(encoder.parameters()) == []
    assert dict(encoder.state_dict()) == {}


def test_a_pair_is_asked_for_where_there_are_two_names():
    asked = []

    class Asked(Pairs):
        def values(self, pairs):
            asked.extend(pairs)
            return super().values(pairs)

    goals = Goals(Table(TABLE), {})
    goals.encoder.pair_feature = Asked({("hat", "rack"): 2.0})
    keys = goals.keys(("hat",), ("hat", "rack"), ("rack", "hat"), ("hat", "rack", "wet"))
    assert asked == [("hat", "rack"), ("rack", "hat")]
    assert keys[:, -1].tolist() == [0, 2, 0, 2]


def test_without_a_text_encoder_it_says_what_to_do():
    with pytest.raises(CbrError, match="add a `text_encoder`"):
        NamesEncoder(NamesConfig(), Build())


@pytest.mark.parametrize(
    "views", [{"first": ("full", "full")}, {"second": ("head", "head")}, {"first": ()}, {"first": ("tail",)}]
)
def test_views_that_make_no_sense_are_refused(views):
    with pytest.raises(ValidationError):
        NamesConfig(**views)
