"""pydantic in plain words. How errors read in a recipe is tested in test_recipe.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from every_setting import Everything, Inner
from pydantic import BaseModel, ConfigDict

from cbrcore.errors import PluginError
from cbrcore.recipe.words import SettingFault, check, json_schema


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
