"""Shipped recipes with anything done to them: a recipe, or an error that names the file and the line."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cbrcore.config import Recipe
from cbrcore.console import printable
from cbrcore.errors import RecipeError
from cbrcore.plugins import load_plugins
from cbrcore.recipe import dump_recipe, read_recipe_text
from cbrcore.registry import Registry

FOLDER = Path(__file__).parents[2] / "recipes"
TEXTS = {
    str(path.relative_to(FOLDER)): path.read_text(encoding="utf-8")
    for path in sorted(FOLDER.rglob("*.yaml"))
    if path.name != "paper.yaml"
}
Keys = tuple[str | int, ...]

shared = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
names = st.sampled_from(sorted(TEXTS))
odd = st.sampled_from([
    None, True, False, 0, -1, 1, 0.5, 10**400, 2**63, -(2**63), 1e308, float("inf"), float("nan"), "", " ", "no",
    "~", "1e5", "x" * 5000, "{}", "[red]", "\x1b[2J", "é\u202e", [], {}, [[]], {"use": None}, {"use": "cbr_vq/vq"},
    {"use": {"use": "cbr_vq/vq"}}, ["cbr_vq/vq"], {"": 0}, {"use": "cbr_text/text", "use ": 1}, "$NOWHERE/x",
])  # fmt: skip
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10)
values = odd | st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
letters = st.sampled_from([*":-[]{}&*!|>'\"%@#?,\\ \t.~<=", "\x00", "\ufeff", "é"]) | st.characters()
kinds = st.sampled_from(["delete", "replace", "nest", "unknown", "rename", "swap", "listed", "text"])


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_plugins().registry


def ways(data: Any, before: Keys = ()) -> Iterator[Keys]:
    """The way to every value."""
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inner:
        yield (*before, key)
        yield from ways(value, (*before, key))


def holder(data: Any, keys: Keys) -> Any:
    """What holds the value at the end of the way."""
    for key in keys[:-1]:
        data = data[key]
    return data


def mutate(data: dict[str, Any], draw: st.DataObject) -> None:
    """One change somewhere."""
    found = list(ways(data))
    assume(found)
    keys, kind = draw.draw(st.sampled_from(found)), draw.draw(kinds)
    value = copy.deepcopy(draw.draw(values))  # a later change may go into it
    inside, last = holder(data, keys), keys[-1]
    if kind == "delete":
        del inside[last]
    elif kind == "replace":
        inside[last] = value
    elif kind == "nest":
        inside[last] = {"use": inside[last]}
    elif kind == "listed":
        inside[last] = [inside[last], copy.deepcopy(inside[last])]
    elif kind == "text":
        inside[last] = json.dumps(inside[last], default=str)
    elif kind == "swap":
        others = draw.draw(st.sampled_from(found))
        outside = holder(data, others)
        inside[last], outside[others[-1]] = copy.deepcopy(outside[others[-1]]), copy.deepcopy(inside[last])
    elif isinstance(inside, dict):
        name = draw.draw(
            st.text(max_size=8) | st.sampled_from(["use", "seed", "sweep", "agent", f"{last} ", f"{last}s"])
        )
        inside[name] = inside.pop(last) if kind == "rename" else value


def answer(text: str, registry: Registry, *overrides: str) -> Recipe | RecipeError:
    """The recipe, which reads back equal, or what is wrong: one printable line each, with its place."""
    try:
        recipe = read_recipe_text(text, "r.yaml", folder=FOLDER, overrides=overrides, registry=registry)
    except RecipeError as refused:
        error = refused
    else:
        check_dump(recipe, registry)
        return recipe
    assert error.problems
    for problem in error.problems:
        assert re.match(r"(r\.yaml:\d+: |--set )", problem), problem
        assert printable(problem) == problem
        assert "\n" not in problem
    return error


def check_dump(recipe: Recipe, registry: Registry) -> None:
    again = read_recipe_text(dump_recipe(recipe), "dumped", registry=registry)
    assert dump_recipe(again) == dump_recipe(recipe)
    assert again == recipe


@shared
@given(name=names, data=st.data())
def test_a_changed_recipe_is_a_recipe_or_a_recipe_error(registry, name, data):
    changed = yaml.safe_load(TEXTS[name])
    for _ in range(data.draw(st.integers(1, 3))):
        mutate(changed, data)
    answer(yaml.safe_dump(changed, allow_unicode=True, sort_keys=False), registry)


@shared
@given(name=names, data=st.data())
def test_changed_lines_are_a_recipe_or_a_recipe_error(registry, name, data):
    """Lines that are gone, twice there, further in, or have another letter."""
    lines = TEXTS[name].splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        other = data.draw(st.integers(0, len(lines) - 1))
        letter = data.draw(
            st.sampled_from([*":-[]{}&*!|>'\"%@#?,\\ \t.~<=", "\x00", "\ufeff", "é"]) | st.characters()
        )
        place = data.draw(st.integers(0, len(lines[at])))
        lines[at : at + 1] = {
            0: [],
            1: [lines[at], lines[at]],
            2: ["  " + lines[at]],
            3: [lines[at].lstrip()],
            4: [lines[at][:place] + letter + lines[at][place:]],
            5: [lines[at][:place] + letter + lines[at][place + 1 :]],
            6: [lines[at], lines[other]],
        }[data.draw(st.integers(0, 6))]
        assume(lines)
    answer("\n".join(lines), registry)


@shared
@given(name=names, data=st.data())
def test_a_setting_of_the_command_line_is_taken_or_explained(registry, name, data):
    found = list(ways(yaml.safe_load(TEXTS[name])))
    pieces = st.sampled_from([".".join(map(str, keys)) for keys in found]) | st.text(max_size=12)
    made = pieces | st.builds("{}.{}".format, pieces, st.sampled_from(["use", "0", "-1", "", "x", "seed"]))
    written = values.map(lambda value: json.dumps(value)) | st.text(max_size=12)
    overrides = data.draw(st.lists(st.builds("{}={}".format, made, written), min_size=1, max_size=3))
    answer(TEXTS[name], registry, *overrides)


RIGHT = {
    "seed": st.integers(0, 2**31),
    "name": st.from_regex(r"\A[A-Za-z0-9_é]([A-Za-z0-9_é .,+=()@-]{0,12}[a-z])?\Z"),
    "memory.threshold": st.floats(0, 1),
    "memory.capacity": st.none() | st.integers(1, 10**9),
    "memory.eviction": st.sampled_from(["oldest", "least_used", "least_successful"]),
    "memory.neighbours": st.integers(1, 100),
    "training.gamma": st.floats(0, 1),
    "training.agent_learning_rate": st.floats(1e-30, 1.0),
    "evaluation.passes": st.integers(1, 10**6),
}
"""path -> values that are right in every recipe with a case memory."""
QUANTIZERS = st.sampled_from(["vq", "cbr_fsq/fsq", "rp", "cbr_projection/srp", "lsh", "continuous"])
WITH_CASES = sorted(
    name
    for name, text in TEXTS.items()
    if "quantizer:" in text and "sweep:" not in text and "cbr_goals/evidence" not in text
)


@shared
@given(name=st.sampled_from(WITH_CASES), chosen=st.fixed_dictionaries({}, optional=RIGHT), quantizer=QUANTIZERS)
def test_right_settings_are_taken_and_read_back_equal(registry, name, chosen, quantizer):
    overrides = [
        f"quantizer.use={quantizer}",
        *(f"{path}={json.dumps(value, ensure_ascii=False)}" for path, value in chosen.items()),
    ]
    recipe = answer(TEXTS[name], registry, *overrides)
    assert isinstance(recipe, Recipe), recipe
    assert recipe.seed == chosen.get("seed", recipe.seed)
    assert recipe.memory.settings.threshold == chosen.get("memory.threshold", recipe.memory.settings.threshold)
