"""`cbr new-recipe`, and the schema that every recipe names for editors."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest

from cbr_find.copying import copied
from cbr_find.facts import MODELINE
from cbr_find.shipped import recipe_files
from cbr_show.schema import schema_of
from cbrcore.plugins import load_plugins
from cbrcore.recipe import load_recipe
from cbrcore.recipe.text import parse

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "recipes" / "recipe.schema.json"
RECIPES = [each for each in recipe_files(ROOT) if each.file.is_relative_to(ROOT / "recipes")]


@pytest.fixture
def empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# new-recipe


def test_the_default_is_the_quickstart_with_its_comments_and_passes_the_check(empty, here):
    done = here("new-recipe", "mine")
    assert (done.returncode, done.stdout) == (0, "mine.yaml: a copy of recipes/quickstart.yaml\n")
    assert "cbr check mine.yaml" in done.stderr
    assert "cbr run mine.yaml" in done.stderr
    assert "cbr sweep" not in done.stderr
    mine = (empty / "mine.yaml").read_text()
    theirs = (ROOT / "recipes" / "quickstart.yaml").read_text()
    assert mine.splitlines()[0] == f"{MODELINE} $schema={SCHEMA}"
    assert mine.splitlines()[1:] == theirs.replace("\nname: quickstart\n", "\nname: mine\n").splitlines()[1:]
    assert here("check", "mine.yaml").stdout.split()[:2] == ["OK", "mine"]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda each: each.path)
def test_a_copy_of_every_shipped_recipe_is_the_same_experiment_under_another_name(recipe, empty, here):
    done = here("new-recipe", "mine.yaml", "--from", recipe.path)
    assert done.returncode == 0, done.stderr
    registry, own = load_plugins().registry, {"name": "", "directory": Path()}
    mine, theirs = load_recipe(Path("mine.yaml"), registry=registry), load_recipe(recipe.file, registry=registry)
    assert mine.name == "mine"
    assert mine.model_copy(update=own) == theirs.model_copy(update=own)


@pytest.mark.parametrize("name", ["true", "null", "7", "1e3", "1.0", "no", "0x10", "2026-01-01", "a.b"])
def test_a_name_that_yaml_would_take_for_something_else_stays_a_name(name, empty, here):
    assert here("new-recipe", name).returncode == 0
    assert load_recipe(f"{name}.yaml", registry=load_plugins().registry).name == name


def test_a_recipe_without_a_name_gets_one():
    text = copied("# Head.\nschema: 1\nseed: 0\n", "mine", None)
    assert text == "# Head.\nschema: 1\nname: mine\nseed: 0\n"
    first, *rest = copied(text, "other", "s.json").splitlines()
    assert (first, rest[:3]) == (f"{MODELINE} $schema=s.json", ["# Head.", "schema: 1", "name: other"])


def test_a_copy_of_a_copy_names_the_schema_once(empty, here):
    here("new-recipe", "one")
    assert here("new-recipe", "two", "--from", "one").returncode == 0
    text = (empty / "two.yaml").read_text()
    assert (text.count(MODELINE), text.count("\nname: two\n"), "name: one" in text) == (1, 1, False)


@pytest.mark.parametrize("what", ["file", "folder", "link"])
def test_nothing_is_overwritten(what, empty, here):
    if what == "file":
        (empty / "mine.yaml").write_text("precious")
    elif what == "folder":
        (empty / "mine.yaml").mkdir()
    else:
        (empty / "mine.yaml").symlink_to("nowhere")
    done = here("new-recipe", "mine")
    assert (done.returncode, done.stdout) == (2, "")
    assert "mine.yaml is there already" in done.stderr
    assert what != "file" or (empty / "mine.yaml").read_text() == "precious"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a/b"], "'a/b' cannot be a recipe's name"),
        ([".hidden"], "'.hidden' cannot be a recipe's name"),
        (["mine", "--from", "quikstart"], "Did you mean 'quickstart'?"),
        (["mine", "--from", "broken.yaml"], "the copy of broken.yaml"),
    ],
)
def test_wrong_input_is_told_and_nothing_written(words, said, empty, here):
    (empty / "broken.yaml").write_text("schema: 1\nenvironment: {use: nothing/here}\nrun: {episodes: 1}\n")
    done = here("new-recipe", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert os.listdir(empty) == ["broken.yaml"]


def test_what_a_copy_needs_is_said(empty, here):
    done = here("new-recipe", "mine", "--from", "tables/jericho_33")
    assert "it needs: 33 story files\n" in done.stderr
    assert "cbr sweep mine.yaml" in done.stderr


# the schema


def ours() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return list(project["entry-points"]["cbrcore.plugins"])


def test_the_schema_that_is_shipped_is_that_of_the_plugins_that_are():
    made = json.loads(json.dumps(schema_of(load_plugins(only=ours()).registry)))
    assert json.loads(SCHEMA.read_text()) == made, "make it anew: cbr schema --out recipes/recipe.schema.json"


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda each: each.path)
def test_every_recipe_names_the_schema_in_its_first_line_and_keeps_to_it(recipe):
    first, second = recipe.file.read_text().splitlines()[:2]
    assert first.startswith(f"{MODELINE} $schema=")
    named = first.partition("$schema=")[2]
    assert not os.path.isabs(named)
    assert (recipe.file.parent / named).resolve() == SCHEMA
    assert second.startswith("# ")
    checker = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    checker.validate(parse(recipe.file.read_text()).data)


def test_the_schema_finds_a_wrong_setting():
    wrong = parse((ROOT / "recipes" / "quickstart.yaml").read_text()).data | {"sed": 1}
    with pytest.raises(jsonschema.ValidationError, match="sed"):
        jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(wrong)
