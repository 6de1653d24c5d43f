"""The JSON Schema of a recipe, and what `cbr show` tells of sections and kinds of parts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from every_setting import Everything

from cbr_show.describing import COMPUTED, REQUIRED, Setting, describe, metrics_of, shown
from cbr_show.schema import schema_of
from cbrcore.errors import CbrError, RecipeError
from cbrcore.plugins import PluginReport, load_plugins
from cbrcore.recipe import dump_recipe, load_recipe, read_recipe_text
from cbrcore.recipe.model import SECTIONS
from cbrcore.recipe.text import parse
from cbrcore.registry import Component

jsonschema = pytest.importorskip("jsonschema")

FOLDER = Path(__file__).parents[2] / "recipes"
RECIPES = sorted(path for path in FOLDER.rglob("*.yaml") if path.name != "paper.yaml")
PLAIN = """
schema: 1
environment: {use: cbr_twc/twc}
agent: {use: cbr_joint/joint, agent: {use: cbr_text/text}}
context_encoder: {use: cbr_seeded_gat/seeded_gat}
quantizer: {use: vq}
memory: {threshold: 0.8}
run: {episodes: 1}
"""


def test_what_a_part_reports_is_shown_with_its_meaning(report: PluginReport):
    (text,), (data,) = shown("cbr_vq/vq", report)
    assert list(data["metrics"]) == ["code_usage", "code_perplexity"]
    assert data["metrics"]["code_usage"] == "the share of a codebook's entries in use."
    assert "  code_usage\n    the share of a codebook's entries in use." in text
    (text,), (data,) = shown("cbr_retain/last_k", report)
    assert data["metrics"] == {}
    assert "metrics" not in text


def test_a_meaning_may_take_several_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    lines = ["class Part:", "    def metrics(self):", '        """All so far.', "", "        hits: of the cache,"]
    lines += ["            since the start.", "        misses: the others.", '        """', "", "raise SystemExit"]
    (tmp_path / "of_a_part.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    told = metrics_of(Component("agent", "p", "part", "of_a_part:Part"))
    assert told == {"hits": "of the cache, since the start.", "misses": "the others."}


@pytest.fixture(scope="module")
def report() -> PluginReport:
    return load_plugins()


@pytest.fixture(scope="module")
def validator(report: PluginReport) -> Any:
    made = schema_of(report.registry)
    jsonschema.Draft202012Validator.check_schema(made)
    return jsonschema.Draft202012Validator(json.loads(json.dumps(made)))


def accepts(validator: Any, text: str) -> bool:
    return bool(validator.is_valid(parse(text).data))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_every_shipped_recipe_fits_also_when_it_is_written_out(path: Path, report: PluginReport, validator: Any):
    assert accepts(validator, path.read_text())
    assert accepts(validator, dump_recipe(load_recipe(path, registry=report.registry)))


def changed(changes: dict[str, Any]) -> str:
    data = yaml.safe_load(PLAIN)
    for path, value in changes.items():
        *around, last = path.split(".")
        inner = data
        for key in around:
            inner = inner.setdefault(key, {})
        inner[last] = value
    return yaml.safe_dump(data)


@pytest.mark.parametrize(
    "right",
    [
        {"training": None},
        {"training.pretrain": {"episodes": 3}},
        {"training.pretrain": {"use": "contrastive"}},
        {"memory": {"use": "case_memory", "capacity": None}},
        {"learner": {}},
        {"agent.agent": {"use": "cbr_joint/joint", "agent": {"use": "random"}}},
        {"recorders": []},
        {"sweep": {"seed": [0, 1], "variants": {"a": {"memory": None}}}},
        {"text_encoder": {"use": "untrained"}},
    ],
)
def test_what_a_recipe_may_say_fits(report: PluginReport, validator: Any, right: dict[str, Any]):
    assert accepts(validator, changed(right))
    read_recipe_text(changed(right), "r.yaml", registry=report.registry)


@pytest.mark.parametrize(
    "wrong",
    [
        {"schema": 2},
        {"agent": None},
        {"run": None},
        {"lr": 1},
        {"agent.hiden": 3},
        {"agent.use": "cbr_text/txt"},
        {"agent.agent": None},
        {"agent.agent.hiden": 3},
        {"agent.agent.hidden": 0},
        {"agent.agent.hidden": "many"},
        {"agent": {"agent": {"use": "cbr_text/text"}}},
        {"memory": 3},
        {"memory.threshold": 2},
        {"memory.eviction": "newest"},
        {"training.gama": 1},
        {"training.pretrain.epochs": 0},
        {"training.pretrain.use": "cbr_text/text"},
        {"recorders": [{"use": "cbr_text/text"}]},
        {"recorders": "none"},
        {"seed": -1},
        {"sweep": [1]},
        {"evaluation.splits": "in"},
        {"quantizer": {"use": "cbr_text/text"}},
    ],
)
def test_what_is_wrong_does_not_fit(report: PluginReport, validator: Any, wrong: dict[str, Any]):
    assert not accepts(validator, changed(wrong))
    with pytest.raises(RecipeError):
        read_recipe_text(changed(wrong), "r.yaml", registry=report.registry)


def test_the_command_writes_it(here, tmp_path: Path, report: PluginReport):
    path = tmp_path / "recipe.schema.json"
    assert here("schema", "--out", path).returncode == 0
    assert json.loads(path.read_text()) == json.loads(here("schema").stdout)
    assert json.loads(path.read_text()) == json.loads(json.dumps(schema_of(report.registry)))


# What `cbr show` tells


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_is_shown_with_its_settings(report: PluginReport, name: str):
    (text,), data = shown(name, report)
    assert text.startswith(f"{name} (a section of a recipe)\n")
    assert {setting["path"] for setting in data} == set(SECTIONS[name].model_fields)
    assert all(f"\n{setting['path']} " in text and setting["description"] for setting in data)


def test_a_section_tells_which_of_its_settings_are_parts(report: PluginReport):
    (text,), _ = shown("training", report)
    assert "  pretrain is a part of its own: cbr show pretraining\n" in text


def test_the_section_of_a_plugin_is_shown(report: PluginReport):
    (text,), data = shown("sweep", report)
    assert text.startswith("sweep (a section of a recipe)\n")
    assert "training.gamma: [0.9, 0.95]" in text
    assert data == []


@pytest.mark.parametrize(
    ("kind", "use", "setting"),
    [
        ("memory", "cbr_memory/case_memory", "threshold"),
        ("pretraining", "cbr_pretrain/contrastive", "epochs"),
        ("retain_policy", "cbr_retain/last_k", "k"),
    ],
)
def test_of_a_kind_with_a_default_that_one_is_shown(report: PluginReport, kind: str, use: str, setting: str):
    (head, text), (data,) = shown(kind, report)
    assert head.startswith(f"{kind} (a part of a recipe; {use} if it names none)\n")
    assert "{use: PLUGIN/NAME}" in head
    assert text.startswith(f"{use} ({kind}, from cbr-textrl ")
    assert setting in [each["path"] for each in data["settings"]]


def test_of_a_kind_without_a_default_all_components_are_listed(report: PluginReport):
    (head,), data = shown("agent", report)
    assert head.startswith("agent (a part of a recipe)\n  agent: {use: PLUGIN/NAME}\n  one of:\n")
    for component in report.registry.of_kind("agent"):
        assert f"  {component.qualified} " in head
    assert data == []


def test_a_component_tells_what_it_brings(report: PluginReport):
    texts, _ = shown("cbr_joint/joint", report)
    assert "  brings the learner cbr_joint/joint" in texts[0]


def test_a_name_that_is_nothing_is_told(report: PluginReport):
    with pytest.raises(CbrError, match="unknown component 'trainin'"):
        shown("trainin", report)


# Settings in words


def test_every_setting_is_described():
    found = {setting.path: setting for setting in describe(Everything)}
    assert found["needed"] == Setting("needed", "whole number", REQUIRED, "", "No default.")
    assert found["share"] == Setting(
        "share", "number", "0.5", "more than 0 and less than 1", "Between. Two paragraphs."
    )
    assert found["limit"] == Setting("limit", "whole number or null", "null", "at least 1", "")
    assert (found["kind"].type, found["kind"].default) == ("a | b", '"a"')
    assert (found["names"].type, found["names"].bounds) == (
        "list of text",
        "at least 1 entries and at most 3 entries",
    )
    assert found["word"].bounds == "at least 2 characters and at most 5 characters"
    assert found["even"].bounds == "a multiple of 2"
    assert (found["folder"].type, found["folder"].default) == ("path", '"games"')
    assert (found["fresh"].type, found["fresh"].default) == ("list of whole number", COMPUTED)
    assert found["table"].type == "section"
    assert (found["flag"].type, found["either"].type) == ("true or false", "whole number or text")
    assert found["inner.depth"] == Setting("inner.depth", "whole number", "2", "", "How deep.")
    assert found["maybe"].type == "section or null"
    assert "maybe.depth" in found
    assert "inner" not in found


JOINT, TABLE = FOLDER / "bike_joint_twc.yaml", FOLDER / "tables" / "twc.yaml"
LIGHT = [["list-plugins", "-v"], ["check", JOINT], ["check", TABLE], ["show", "training"], ["show", "memory"],
         ["show", "sweep"], ["schema"]]  # fmt: skip


@pytest.mark.parametrize("words", LIGHT, ids=lambda words: " ".join(Path(word).name for word in words))
def test_nothing_heavy_is_imported_to_tell_it(words: list[str | Path], tmp_path: Path):
    (tmp_path / "twc" / "easy").mkdir(parents=True)
    heavy = ("torch", "transformers", "textworld", "jericho", "spacy", "altair", "sklearn", "numpy")
    code = (
        "import sys\nfrom cbrcore.cli import main\ntry:\n    main()\nfinally:\n"
        f"    print(*(name for name in {heavy} if name in sys.modules), file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", code, *map(str, words)]
    env = {**os.environ, "CBR_GAMES": str(tmp_path)}
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=env)
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr.strip() == ""
