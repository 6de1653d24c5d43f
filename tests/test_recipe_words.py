"""pydantic in plain words. How errors read in a recipe is tested in test_recipe.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from every_setting import Everything, Inner
from pydantic import BaseModel, ConfigDict, field_validator

from cbrcore.errors import PluginError
from cbrcore.recipe.words import SettingFault, bounds, check, json_schema, settings_of, unknown


@pytest.mark.parametrize(
    ("data", "keys", "message"),
    [
        ({}, ("needed",), "is required"),
        ({"needed": 1, "names": []}, ("names",), "must be a list of at least 1, got a list of 0"),
        ({"needed": 1, "names": list("abcd")}, ("names",), "must be a list of at most 3, got a list of 4"),
        ({"needed": 1, "word": "x"}, ("word",), "must be text of at least 2 characters, got the text 'x'"),
        ({"needed": 1, "even": 3}, ("even",), "must be a multiple of 2, got 3"),
        ({"needed": 1, "names": ["a", 2]}, ("names", 1), "must be text, got 2"),
        ({"needed": 1, "table": {"a": "x"}}, ("table", "a"), "must be a whole number, got the text 'x'"),
        ({"needed": 1, "table": 3}, ("table",), "must be a section of 'key: value' lines, got 3"),
        ({"needed": 1, "maybe": {"depth": "x"}}, ("maybe", "depth"), "must be a whole number, got the text 'x'"),
        ({"needed": 1, "fresh": "x"}, ("fresh",), "must be a list, got the text 'x'. Write [x]."),
    ],
)
def test_faults_name_the_place_and_what_is_wanted(data, keys, message: str):
    found, faults = check(Everything, data)
    assert found is None
    assert [(fault.keys, fault.message) for fault in faults] == [(keys, message)]


class Unsteady(BaseModel):
    unit: str = "kg"
    folder: Path = Path()

    @field_validator("unit")
    @classmethod
    def _known(cls, value: str) -> float:
        return {"kg": 1.0}[value]


@pytest.mark.parametrize("data", [{"unit": "lb"}, {"unit": "lb", "folder": "x"}])
def test_whatever_an_authors_validator_raises_is_a_fault(data):
    found, faults = check(Unsteady, data)
    assert found is None
    assert [fault.message for fault in faults] == ["its settings class failed: KeyError: 'lb'"]


def test_the_branches_of_a_union_are_no_keys():
    _, faults = check(Everything, {"needed": 1, "either": [1]})
    assert {fault.keys for fault in faults} == {("either",)}


def test_right_settings_have_no_faults():
    found, faults = check(
        Everything, {"needed": 1, "names": ["a"], "folder": "x", "share": 0.1, "maybe": {"depth": 1}}
    )
    assert faults == []
    assert found == Everything(needed=1, names=("a",), folder=Path("x"), share=0.1, maybe=Inner(depth=1))


def test_a_type_that_no_recipe_can_hold_is_the_authors_mistake():
    class Odd(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        thing: SettingFault | object = None
        other: type(iter([])) = None

    with pytest.raises(PluginError, match="settings Odd have a type that no recipe can hold"):
        json_schema(Odd)


QUOTES = "Leave the quotes and leading zeros out."


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"share": 0}, "share: must be more than 0 and less than 1, got 0"),
        ({"share": 1.5}, "share: must be more than 0 and less than 1, got 1.5"),
        ({"limit": 0}, "limit: must be at least 1, got 0"),
        ({"needed": None}, "needed: must be a whole number, got nothing"),
        ({"needed": 1.5}, "needed: must be a whole number, got 1.5"),
        ({"needed": "1.5"}, f"needed: must be a whole number, got the text '1.5'. {QUOTES}"),
        ({"needed": "007"}, f"needed: must be a whole number, got the text '007'. {QUOTES}"),
        ({"needed": "-1e3"}, f"needed: must be a whole number, got the text '-1e3'. {QUOTES}"),
        ({"needed": "1x"}, "needed: must be a whole number, got the text '1x'"),
        ({"needed": "x" * 70}, f"needed: must be a whole number, got the text '{'x' * 60}'"),
        ({"needed": True}, "needed: must be a whole number, got true"),
        ({"needed": [1, 2]}, "needed: must be a whole number, got a list of 2"),
        ({"needed": {"a": 1}}, "needed: must be a whole number, got a section"),
        ({"flag": "ON"}, "flag: must be true or false, got the text 'ON'. Write true."),
        ({"flag": "no"}, "flag: must be true or false, got the text 'no'. Write false."),
        ({"flag": "maybe"}, "flag: must be true or false, got the text 'maybe'"),
        ({"flag": 0}, "flag: must be true or false, got 0"),
        ({"kind": "c"}, "kind: must be 'a' or 'b', got the text 'c'"),
        ({"kind": "bb"}, "kind: must be 'a' or 'b', got the text 'bb'. Did you mean 'b'?"),
        ({"kind": 3}, "kind: must be 'a' or 'b', got 3"),
        ({"word": "abcdef"}, "word: must be text of at most 5 characters, got the text 'abcdef'"),
        ({"word": 3}, "word: must be text, got 3"),
        ({"folder": 3}, "folder: must be text, got 3"),
        ({"names": "x"}, "names: must be a list, got the text 'x'. Write [x]."),
        ({"names": {}}, "names: must be a list, got a section"),
        ({"names": 3}, "names: must be a list, got 3"),
        ({"inner": 3}, "inner: must be a section of 'key: value' lines, got 3"),
        ({"inner": {"dept": 3}}, "inner.dept: unknown key. Did you mean inner.depth?"),
        ({"inner": {"zzzzz": 3}}, "inner.zzzzz: unknown key. Choose one of: depth."),
    ],
)  # fmt: skip
def test_one_wrong_setting_in_our_words(data, said: str):
    _, faults = check(Everything, {"needed": 1} | data)
    keys, _, message = said.partition(": ")
    assert [(fault.keys, fault.message) for fault in faults] == [(tuple(keys.split(".")), message)]


def test_a_fault_is_told_where_the_settings_stand_with_the_limits_that_are_known_there():
    known = {"here.share": "between us"}
    _, faults = check(Everything, {"needed": 1, "share": 2, "limit": 0}, at=("here",), known=lambda: known)
    assert [(fault.keys, fault.kind, fault.message) for fault in faults] == [
        (("here", "share"), "less_than", "must be between us, got 2"),
        (("here", "limit"), "greater_than_equal", "must be at least 1, got 0"),
    ]


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({}, ""),
        ({"minimum": 0}, "at least 0"),
        ({"exclusiveMinimum": 0, "maximum": 1}, "more than 0 and at most 1"),
        ({"minimum": 2, "exclusiveMaximum": 9}, "at least 2 and less than 9"),
        ({"anyOf": [{"minimum": 3, "type": "integer"}, {"type": "null"}]}, "at least 3"),
        ({"maximum": 5, "anyOf": [{"minimum": 3}]}, "at most 5 and at least 3"),
    ],
)
def test_the_limits_of_a_setting(field, said: str):
    assert bounds(field) == said


def test_all_settings_are_listed_with_whether_they_are_required():
    found = [(path, required) for path, _, required in settings_of(Everything)]
    names = ["share", "limit", "kind", "names", "word", "even", "folder", "fresh", "table", "flag", "either"]
    others = [*names, "inner.depth", "maybe", "maybe.depth"]
    assert found == [("needed", True), *((name, False) for name in others)]


PATHS = [
    "seed", "memory", "memory.use", "memory.threshold", "memory.capacity", "training", "training.gamma",
    "training.pretrain", "training.pretrain.epochs", "agent.hidden", "learner.hidden", "quantizer.hidden",
    "a.b.c.hidden", "agent.use", "quantizer.k", "sweep.size",
]  # fmt: skip
INSTALLED = " If a plugin offers it: is that plugin installed?"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("memory.treshold", "Did you mean memory.threshold?"),
        ("memory.Threshold", "Did you mean memory.threshold?"),
        ("training.pre-train", "Did you mean training.pretrain?"),
        ("memory.gamma", "Did you mean training.gamma?"),
        ("memory.zzzzzz", "Choose one of: threshold, capacity."),
        ("memory.hidden", "Did you mean agent.hidden or learner.hidden or quantizer.hidden?"),
        ("memory.tau", "Did you mean memory.threshold?"),
        ("quantizer.discount", "Did you mean training.gamma?"),
        ("quantizer.kk", "Did you mean quantizer.k?"),
        ("memory.epocs", "Did you mean training.pretrain.epochs?"),
        ("lr", "Did you mean training.agent_learning_rate?"),
        ("trainig", "Did you mean training?"),
        ("gamma", "Did you mean training.gamma?"),
        ("sed", "Did you mean seed?"),
        ("zzzzzz", "Choose one of: seed, memory, training, agent, learner, quantizer, a, sweep." + INSTALLED),
    ],
)
def test_what_was_probably_meant_by_a_key(keys: str, said: str):
    assert unknown(tuple(keys.split(".")), PATHS) == f"unknown key. {said}"


def test_where_there_are_no_settings_none_is_offered():
    assert unknown(("agent", "x"), ["agent.use"]) == "unknown key; there are no settings here"
    assert unknown(("other", "zzzz"), PATHS) == "unknown key; there are no settings here"
    assert unknown(("other", "tau"), PATHS) == "unknown key. Did you mean memory.threshold?"
