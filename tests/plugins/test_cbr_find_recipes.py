"""`cbr recipes`: which recipes there are, what they cost, what they need."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cbr_find.facts import COST, facts_of, first_sentence, header
from cbr_find.shipped import RecipeFile, find_recipe, recipe_files
from cbrcore.errors import CbrError
from cbrcore.plugins import load_plugins

ROOT = Path(__file__).parents[2]
SHIPPED = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("recipes/**/*.yaml"))
OWN = """\
# Mine: a test [P App. B, Fig. 2]. More of it.
# 4 runs x 7 passes: 2 seeds, 2 levels.
schema: 1
environment: {use: cbr_twc/twc, source: generate}
agent: {use: cbr_random/random}
run: {episodes: 7}
sweep: {seed: [0, 1], environment.level: [easy, hard]}
"""


@pytest.fixture
def empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def registry():
    return load_plugins().registry


def facts(path: str, registry):
    return facts_of(RecipeFile(path, ROOT / path, own=False), registry)


def test_every_shipped_recipe_is_listed_in_any_folder_and_nothing_else(empty):
    found = [each.path for each in recipe_files()]
    assert sorted(found) == [path for path in SHIPPED if path != "recipes/tables/paper.yaml"]
    assert found[0] == "recipes/quickstart.yaml"
    assert [each.file for each in recipe_files() if not each.file.is_file() or each.own] == []


def test_they_are_grouped_by_folder(empty, here):
    heads = re.findall(r"^(\S+) +what it is +cost +needs$", here("recipes").stdout, re.MULTILINE)
    assert heads == ["recipes", "recipes/studies", "recipes/tables", "recipes/smoke"]


def test_every_header_has_a_sentence_and_a_cost_that_was_counted(registry):
    for path in (path for path in SHIPPED if path != "recipes/tables/paper.yaml"):
        found = facts(path, registry)
        assert not found.fault, path
        assert len(found.what) > 20, path
        assert found.cost, path
        assert not found.what.endswith(("App", "Fig", "[P")), path
        for line in (line for line in found.comment if COST.match(f"# {line}")):
            assert found.cost.replace(",", "") == line.partition(":")[0], path


@pytest.mark.parametrize(
    ("path", "cost", "needs"),
    [
        ("recipes/quickstart.yaml", "30 passes", ""),
        ("recipes/quickstart_jericho.yaml", "1,600 steps", ""),
        ("recipes/bike_cbr_jericho.yaml", "100,000 steps", "story file zork1"),
        ("recipes/text_cbr_twc.yaml", "100 passes", "games folder"),
        ("recipes/paper_bert_twc.yaml", "100 passes", "games folder, variable CBR_BERT"),
        ("recipes/goals_twc.yaml", "15 runs x 25 passes", "games folder"),
        ("recipes/tables/jericho_33.yaml", "66 runs x 100,000 steps", "33 story files"),
    ],
)
def test_cost_and_needs(path, cost, needs, registry):
    found = facts(path, registry)
    assert (found.cost, found.needs) == (cost, needs)


def test_a_package_that_an_extra_installs_is_needed(empty, registry):
    text = OWN.replace("run:", "recorders: [cbr_wandb/wandb]\nrun:")
    (empty / "mine.yaml").write_text(text)
    assert facts_of(find_recipe("mine"), registry).needs == "package wandb"


def test_the_sentence_ends_at_a_full_stop_of_its_own_and_the_line_for_editors_is_no_part_of_it():
    head = header("# yaml-language-server: $schema=recipe.schema.json\n" + OWN)
    assert head[1].startswith("4 runs x 7")
    assert first_sentence(head) == "Mine: a test [P App. B, Fig. 2]"


def test_what_lies_in_recipes_and_in_the_folder_is_listed_as_ones_own(empty, here):
    (empty / "mine.yaml").write_text(OWN)
    (empty / "notes.yaml").write_text("schema: 1\nshopping: [milk]\n")
    (empty / "recipes").mkdir()
    (empty / "recipes" / "quickstart.yaml").write_text(OWN.replace("Mine", "Another quickstart"))
    found = {each["path"]: each for each in json.loads(here("recipes", "--json").stdout)}
    assert "notes.yaml" not in found
    assert found["mine.yaml"]["cost"] == "4 runs x 7 passes"
    assert [path for path, each in found.items() if each["own"]] == ["mine.yaml", "recipes/quickstart.yaml"]
    assert found["recipes/quickstart.yaml"]["what"].startswith("Another quickstart")
    assert "in this folder" in here("recipes").stdout


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (b"schema: 1\nenvironment: {use: [\n", "is no recipe: cbr check recipes/b.yaml"),
        (b"schema: 1\nenvironment: x\nsweep: 7\n", "is wrong: cbr check recipes/b.yaml"),
        (b"schema: 1\nenvironment: x\nsweep: {seed: 3}\nrun: [1]\n", "is wrong: cbr check recipes/b.yaml"),
        (b"schema: 1\nenvironment: \xff\n", "cannot be read: "),
    ],
)
def test_a_broken_recipe_is_a_row_that_says_so(empty, here, broken, said):
    (empty / "recipes").mkdir()
    (empty / "recipes" / "b.yaml").write_bytes(broken)
    done = here("recipes")
    assert done.returncode == 0, done.stderr
    assert said in next(line for line in done.stdout.splitlines() if line.startswith("recipes/b.yaml"))


def test_all_about_one(empty, here):
    told = here("recipes", "tables/twc").stdout
    assert told.startswith("recipes/tables/twc.yaml\n  TWC, in and out of distribution")
    assert "135 runs x 100 passes: 9 agents" in told
    assert "cbr sweep recipes/tables/twc.yaml" in told
    assert here("recipes", "twc").stdout == told == here("recipes", "recipes/tables/twc.yaml").stdout
    assert "cbr sweep" not in here("recipes", "quickstart").stdout


def test_a_name_in_two_folders_is_the_one_of_recipes(empty):
    assert find_recipe("text_cbr_twc").path == "recipes/text_cbr_twc.yaml"
    assert find_recipe("smoke/text_cbr_twc").path == "recipes/smoke/text_cbr_twc.yaml"


@pytest.mark.parametrize(
    ("name", "said"), [("quikstart", "Did you mean 'quickstart'?"), ("zzz", "no recipe 'zzz'.")]
)
def test_a_wrong_name_is_told(empty, here, name, said):
    done = here("recipes", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.endswith("see them all: cbr recipes\n")


def test_a_name_that_several_have_is_told(empty):
    for folder in ("a", "b"):
        (empty / "recipes" / folder).mkdir(parents=True)
        (empty / "recipes" / folder / "same.yaml").write_text(OWN)
    with pytest.raises(CbrError, match=r"several recipes are called 'same': recipes/a/same.yaml, recipes/b/same"):
        find_recipe("same")
