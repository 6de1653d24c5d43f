"""A sweep's axes and the runs that they expand to."""

from __future__ import annotations

import pytest

from cbr_sweep.axes import expand
from cbr_sweep.section import SweepSection
from cbrcore.plugins import load_plugins
from cbrcore.recipe import load_recipe, read_recipe_text
from cbrcore.testing import RecipeSectionSuite

PLAIN = """
schema: 1
name: swept
environment: {use: cbr_twc/twc, source: generate}
agent: {use: cbr_text/text}
run: {episodes: 1}
"""
VARIANTS = """
sweep:
  variants:
    text: {}
    cbr:
      context_encoder: {use: cbr_seeded_gat/seeded_gat}
      quantizer: {use: cbr_vq/vq}
      memory: {}
      retain_policy: {use: cbr_retain/last_k}
      retain_policy.k: 3
  environment.level: [easy, hard]
  seed: [0, 1]
"""


class TestSweepSection(RecipeSectionSuite):
    settings = SweepSection

    def sample(self):
        return {"seed": [0, 1], "variants": {"text": {"memory": None}, "text_cbr": {}}}


@pytest.fixture(scope="module")
def registry():
    return load_plugins().registry


def read(sweep: str, registry):
    return read_recipe_text(PLAIN + sweep, "r.yaml", registry=registry)


def test_every_combination_is_a_run_with_an_id_of_its_own(registry):
    runs = expand(read(VARIANTS, registry))
    assert [run.id for run in runs] == [
        f"{variant}-level={level}-seed={seed}"
        for variant in ("text", "cbr")
        for level in ("easy", "hard")
        for seed in (0, 1)
    ]
    assert dict(runs[-1].choices) == {"variants": "cbr", "environment.level": "hard", "seed": 1}


def test_the_overrides_of_a_run_make_its_recipe(registry, tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text(PLAIN + VARIANTS)
    *_, last = expand(read(VARIANTS, registry))
    recipe = load_recipe(path, overrides=last.overrides, registry=registry)
    assert (recipe.seed, recipe.environment.settings.level, recipe.sections) == (1, "hard", {})
    assert recipe.uses_cases
    assert recipe.retain_policy.settings.k == 3


def test_a_recipe_without_a_sweep_is_one_run(registry):
    (run,) = expand(read("", registry))
    assert (run.id, dict(run.settings)) == ("run", {})


def test_ids_do_not_depend_on_the_other_values(registry):
    few = {run.id for run in expand(read("sweep: {seed: [1], training.gamma: [0.9]}", registry))}
    many = {run.id for run in expand(read("sweep: {seed: [0, 1, 2], training.gamma: [0.8, 0.9]}", registry))}
    assert few <= many


def test_ids_are_distinct_and_safe_as_file_names(registry):
    sweep = "sweep: {training.clip: [1, 10], run.device: [cpu, auto], agent: [{use: cbr_text/text, hidden: 8}," \
            " {use: cbr_text/text, hidden: 9}]}"  # fmt: skip
    ids = [run.id for run in expand(read(sweep, registry))]
    assert len(set(ids)) == 8
    assert all("/" not in run_id and " " not in run_id and len(run_id) < 100 for run_id in ids)


def test_axes_with_the_same_last_key_stay_apart(registry):
    sweep = "sweep: {training.pretrain.learning_rate: [0.1], environment.max_steps: [5], evaluation.passes: [1]}"
    assert len({run.id for run in expand(read(sweep, registry))}) == 1
    two = "sweep: {training.pretrain.epochs: [1, 2], run.episodes: [1, 2], training.pretrain.episodes: [1, 2]}"
    ids = [run.id for run in expand(read(two, registry))]
    assert len(set(ids)) == 8


@pytest.mark.parametrize(
    ("sweep", "says"),
    [
        ("sweep: {variants: [a, b]}", "sweep.variants: must be a section"),
        ("sweep: {variants: {a: 1}}", "sweep.variants.a: must be a section"),
        ("sweep: {variants: {a: {agent.hiden: 8}}}", "unknown key. Did you mean agent.hidden?"),
        ("sweep: {variants: {a: {sweep.seed: 8}}}", "cannot be swept"),
        ("sweep: {variants: {a: {memory: {}}}}", "context_encoder"),
    ],
)
def test_a_wrong_variant_is_explained_with_its_line(registry, sweep, says):
    from cbrcore.errors import RecipeError

    with pytest.raises(RecipeError) as caught:
        read(sweep, registry)
    assert says in str(caught.value)
    assert "r.yaml:7: " in str(caught.value)
