"""What differs from the paper stands by name under every table that has its numbers; nothing else does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from report_runs import TABLES, played, plugins, recipe_text, results, write_run

from cbr_paper.belong import read_paper
from cbr_paper.compared import paper_tables
from cbr_paper.deviations import BERT_BASE, deviations
from cbr_report.folders import read_folders
from cbr_report.names import name_runs
from cbr_report.runs import Group, Run, Runs, group
from cbrcore import Table
from cbrcore.recipe import dump_recipe, load_recipe
from cbrcore.recipe.text import parse

AS_PRINTED = (
    "text_encoder={use: cbr_text_encoders/transformer, model: bert-base-uncased, pooling: cls}",
    "agent.hidden=300",
    "agent.unit=observation",
    "training.agent_learning_rate=3e-5",
    "training.entropy_weight=1e-4",
    "training.win_bonus=100",
)
WITH_CASES = ("reuse_policy.retry_failed=true",)
RANDOM_PLAY = "retriever pretrained from uniform random play (the paper: from that of a baseline agent)"


def one(variant: str, *changes: str, recipe: str = "twc.yaml", place: str = "level=easy") -> Group:
    text = recipe_text(recipe, f"{variant}-{place}-seed=0", *changes)
    return Group((Run(Path("run"), parse(text).data, {}),))


@pytest.mark.parametrize("variant", ["bike", "text", "tpc", "bike_cbr", "text_cbr"])
def test_of_a_run_with_the_papers_values_nothing_is_named(variant):
    cases = "cbr" in variant
    found = deviations(one(variant, *AS_PRINTED, *(WITH_CASES if cases else ())), "twc.yaml")
    assert found == ([RANDOM_PLAY] if cases else [])


NAMED = {
    "text_encoder.pooling=mean": "text encoder bert-base-uncased, mean pooling",
    "text_encoder.model=null": "text encoder MiniLM (d = 384), [CLS] (the paper: BERT-base, d = 768, [CLS])",
    "text_encoder={use: cbr_text_encoders/untrained}": "untrained text encoder (the paper: BERT-base",
    "training.win_bonus=1": "win bonus 1.0 (the TWC baseline: 100.0)",
    "training.agent_learning_rate=3e-4": "learning rate of the agent 0.0003 (the TWC baseline: 3e-05)",
    "training.entropy_weight=0.05": "entropy weight 0.05 (the TWC baseline: 0.0001)",
    "agent.hidden=64": "hidden size of the agent 64 (the TWC baseline: 300)",
    "agent.unit=sentence": "texts read by sentence (the TWC baseline: observation)",
    "training.gamma=0.5": "discount 0.5 (the paper: 0.9)",
    "run.episodes=7": "passes of training 7 (the paper: 100)",
    "run.num_envs=2": "games at a time 2 (the TWC baseline: 1)",
    "environment.max_steps=30": "steps per episode 30 (the paper: 50)",
    "context_encoder.layers=3": "layers of the seeded GAT 3 (the paper: 2)",
    "context_encoder.heads=4": "heads of the seeded GAT 4 (the paper: 12)",
    "memory.threshold=0.5": "tau 0.5 (the paper: 0.7)",
    "memory.outcome=both": "cases kept both (the paper: rewarded)",
    "retain_policy.k=3": "pairs retained 3 (the paper: 1)",
    "reuse_policy.retry_failed=false": "what failed is reused again in the episode: no (the paper: yes)",
    "training.retriever_learning_rate=0": "retriever frozen after its pretraining",
}


@pytest.mark.parametrize(("change", "says"), NAMED.items())
def test_what_differs_is_named_alone(change, says):
    first, second = deviations(one("bike_cbr", *AS_PRINTED, *WITH_CASES, change), "twc.yaml")
    assert RANDOM_PLAY in (first, second)
    assert (second if first == RANDOM_PLAY else first).startswith(says)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("training.pretrain.episodes=0", "retriever not pretrained"),
        ("training.pretrain=null", "retriever not pretrained"),
    ],
)
def test_of_a_retriever_it_is_said_how_it_was_pretrained(change, says):
    (found,) = deviations(one("bike_cbr", *AS_PRINTED, *WITH_CASES, change), "twc.yaml")
    assert found.startswith(says)


@pytest.mark.parametrize(("k", "recipe", "named"), [(2, "memory_growth.yaml", False), (2, "twc.yaml", True)])
def test_the_figure_of_the_memorys_growth_retains_two_pairs(k, recipe, named):
    found = deviations(one("bike_cbr", f"retain_policy.k={k}"), recipe)
    assert any(text.startswith("pairs retained") for text in found) == named


@pytest.mark.parametrize(
    ("config", "known"),
    [
        (BERT_BASE, True),
        (BERT_BASE | {"hidden_size": 312}, False),
        (BERT_BASE | {"model_type": "distilbert"}, False),
        ([], False),
        (None, False),  # the folder is gone
    ],
)
def test_a_folder_is_bert_if_its_own_config_says_so(tmp_path, monkeypatch, config, known):
    monkeypatch.setenv("CBR_BERT", str(tmp_path))
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config))
    found = deviations(one("bike", *AS_PRINTED, "text_encoder.model=$CBR_BERT"), "twc.yaml")
    assert found == ([] if known else ["text encoder $CBR_BERT, [CLS] (the paper: BERT-base, d = 768, [CLS])"])


def test_the_recipe_with_bert_is_as_in_the_paper_but_for_who_collects(tmp_path, monkeypatch):
    monkeypatch.setenv("CBR_BERT", str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps(BERT_BASE))
    recipe = load_recipe(TABLES.parent / "paper_bert_twc.yaml", registry=plugins().registry)
    group_of_it = Group((Run(Path("run"), parse(dump_recipe(recipe)).data, {}),))
    assert deviations(group_of_it, "twc.yaml") == [RANDOM_PLAY]


@pytest.mark.parametrize(("num_envs", "named"), [(4, True), (1, False)])
def test_on_jericho_the_number_of_parallel_games_is_named(num_envs, named):
    found = deviations(
        one("bike_cbr", f"run.num_envs={num_envs}", recipe="jericho_33.yaml", place="game=zork1"),
        "jericho_33.yaml",
    )
    assert ("4 games at a time (the paper does not say how many)" in found) == named
    assert not any(text.startswith(("win bonus", "hidden size", "pairs", "layers")) for text in found)


# -- in the report ---------------------------------------------------------------------------------------------


def tables(tmp_path: Path, *runs: tuple[str, tuple[str, ...]]) -> list[Table]:
    for variant, changes in runs:
        evaluation = {"in": played(10, 0.9), "out": played(12, 0.8)}
        text = recipe_text("twc.yaml", f"{variant}-level=easy-seed=0", *changes)
        write_run(tmp_path / "runs" / variant, text, results(0, evaluation))
    found = Runs(group(read_folders([tmp_path / "runs"]).runs), plugins())
    paper = read_paper(TABLES / "paper.yaml", found.groups, plugins())
    name_runs(found, paper)
    return paper_tables(paper)


def test_every_table_with_the_papers_numbers_says_what_differs(tmp_path):
    """Also the second table of the same runs; what all runs share is said once."""
    made = tables(tmp_path, ("bike", AS_PRINTED[:-1]), ("bike_cbr", (*AS_PRINTED[:-1], *WITH_CASES)))
    assert {table.id for table in made} >= {"paper_twc_in", "paper_twc_out", "paper_ood_gap"}
    for table in made:
        found = [remark for remark in table.remarks if "not as in the paper" in remark]
        if table.id in ("paper_twc_in", "paper_twc_out", "paper_ood_gap"):
            assert found == [
                "All runs: not as in the paper: win bonus 1.0 (the TWC baseline: 100.0)",
                f"BiKE + CBR (Easy): not as in the paper: {RANDOM_PLAY}",
            ]
        assert found


@pytest.mark.parametrize("variant", ["kga2c", "kga2c_cbr", "bike_cbr"])
def test_kga2c_beside_the_published_one_is_said_to_be_a_scorer(tmp_path, variant):
    for table in tables(tmp_path, (variant, ())):
        said = [bool(re.search("KG-A2C scores admissible commands", remark)) for remark in table.remarks]
        assert any(said) == variant.startswith("kga2c")


def test_the_joint_variant_of_kga2c_too():
    found = deviations(one("kga2c_cbr_joint", recipe="joint_twc.yaml"), "joint_twc.yaml")
    assert any(text.startswith("KG-A2C scores") for text in found)


def test_of_the_decoders_it_is_said_that_nothing_is_refused():
    found = deviations(one("kga2c", "agent={use: cbr_kga2c/decoder}"), "twc.yaml")
    assert [text for text in found if text.startswith("KG-A2C")] == [
        "KG-A2C decodes admissible commands alone (the published KG-A2C may generate what the game refuses)"
    ]
