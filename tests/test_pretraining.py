"""Pretraining as a step of its own: who collects, what is reported, and how runs use the retriever."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from parts import PullingQuantizer
from test_trainer import item
from toy_run import parts, recipe, run

from cbr_a2c.learner import A2cLearner
from cbr_pretrain.config import PretrainConfig
from cbr_pretrain.experience import collect_experience, collect_while_learning
from cbr_pretrain.pairs import Experience, PairSampler, measure_similarities, pretrain_retriever
from cbr_pretrain.retriever_file import load_retriever, save_retriever
from cbrcore.config import Part, TrainingConfig
from cbrcore.cycle.reasoner import CaseBasedReasoner
from cbrcore.errors import RunFolderError
from cbrcore.runs.files import seal

SMOKE = Path(__file__).parents[1] / "recipes" / "smoke" / "text_cbr_generated.yaml"


def test_kinds_of_pairs():
    put, put2, insert = item("a", "put", True), item("b", "put", True), item("c", "insert", True)
    bad = item("d", "put", False)
    kinds = PairSampler([put, put2, insert, bad], np.random.default_rng(0)).kinds(60)
    assert set(kinds["same"]) == {(put, put2), (put2, put)}
    assert set(kinds["different"]) == {(put, insert), (put2, insert), (insert, put), (insert, put2)}
    assert set(kinds["failed"]) == {(put, bad), (put2, bad)}


def test_mean_similarities_by_hand():
    """Contexts are rows of a table: cosines 0.8 (same), 0 (different), 0.6 (failed), from either side."""
    built = parts().reasoner.retriever
    rows = {"book": [1.0, 0.0], "plate": [0.8, 0.6], "coat": [0.0, 0.0], "shelf": [0.6, 0.0]}
    built.encoder.names, built.encoder.rows = list(rows), torch.nn.Parameter(torch.tensor(list(rows.values())))
    same = [item("book", "put", True), item("plate", "put", True)]
    found = measure_similarities(built, same, seed=0)
    assert (found.same, found.different, found.failed) == (pytest.approx(0.8), None, None)
    found = measure_similarities(built, [same[0], item("coat", "insert", True)], seed=0)
    assert (found.same, found.different) == (None, 0.0)
    built.encoder.rows.data[1] = torch.tensor([0.6, 0.8])
    found = measure_similarities(built, [same[0], item("plate", "put", False)], seed=0)
    assert (found.same, found.failed) == (None, pytest.approx(0.6))


def test_pretraining_brings_pairs_of_a_template_together_and_parts_the_rest():
    built = parts()
    experience = [e for play in collect_experience([built.environment], built.reasoner.retriever.encoder,
                                                   passes=20, seed=5) for e in play]  # fmt: skip
    config = PretrainConfig(episodes=20, epochs=20, batch_size=16, learning_rate=0.05)
    report = pretrain_retriever(
        built.reasoner.retriever, experience, config, margin=0.5, clip=40.0, streams=built.streams
    )
    assert report.after.same > report.before.same
    assert report.after.same > 0.7 > 0.5 > report.after.failed


def pretrained(pull: float, experience: list[Experience], **settings):
    """A retriever after one update on pairs of this experience, and the rows that it had before."""
    built = parts()
    retriever = built.reasoner.retriever
    retriever.quantizer = PullingQuantizer(pull)
    before = retriever.encoder.rows.detach().clone()
    config = PretrainConfig(episodes=1, epochs=1, batch_size=4, **settings)
    pretrain_retriever(retriever, experience, config, margin=0.5, clip=1e6, streams=built.streams)
    return retriever, before


@pytest.mark.parametrize("pull", [0.0, 0.5])
@pytest.mark.parametrize("other", [item("plate", "put", False), item("plate", "insert", True), None])
def test_an_update_follows_the_gradient_of_the_mean_loss_and_of_the_regularizer(pull, other):
    """Of each four pairs two are negative ones where there is any; with one item of a template the positive pairs
    are those of the item with itself, whose loss is 0, and so is its gradient."""
    experience = [item("book", "put", True)] + ([other] if other else [])
    retriever, before = pretrained(pull, experience)
    names, rows = retriever.encoder.names, before.requires_grad_()
    book, plate = rows[names.index("book")], rows[names.index("plate")]
    sim = torch.cosine_similarity(book, plate, dim=0).clamp(min=0)
    apart = 2 * 0.5 * (0.5 - 1 + sim).clamp(min=0) ** 2 / 4
    squares = 6 * book.square().sum() + 2 * plate.square().sum() if other else 8 * book.square().sum()
    if other is not None and other.rewarded:  # either may be the left one: both negative pairs have one of each
        squares = 4 * book.square().sum() + 4 * plate.square().sum()
    (apart * bool(other) + pull * squares).backward()
    torch.testing.assert_close(retriever.encoder.rows.grad, rows.grad)


@pytest.mark.parametrize(("pull", "count"), [(0.5, 1), (float("nan"), 0), (float("inf"), 0)])
def test_the_quantizer_is_maintained_after_an_update_and_not_after_a_skipped_one(pull, count):
    retriever, before = pretrained(pull, [item("book", "put", True), item("plate", "put", False)])
    assert retriever.quantizer.maintained == count
    assert torch.equal(retriever.encoder.rows, before) == (count == 0)


def test_the_codebooks_start_from_the_contexts_of_all_experience():
    experience = [item("book", "put", True), item("plate", "put", False), item("coat", "take", False)]
    retriever, before = pretrained(0.0, experience)  # nothing is known of "take": it never earned anything
    names = retriever.encoder.names
    assert torch.equal(retriever.quantizer.fitted, before[[names.index("book"), names.index("plate")]])


def test_a_baseline_learns_while_it_collects():
    built = parts()
    plain = CaseBasedReasoner(parts().reasoner.agent)
    before = [p.detach().clone() for p in plain.agent.parameters()]
    plays = list(
        collect_while_learning(
            [built.environment],
            built.reasoner.retriever.encoder,
            plain,
            TrainingConfig(agent_learning_rate=0.01),
            A2cLearner(),
            passes=3,
            streams=built.streams,
        )
    )
    assert len(plays) == 3 * 2
    assert any(not torch.equal(a, b) for a, b in zip(before, plain.agent.parameters(), strict=True))
    assert all(e.seeds and e.situation.nodes for play in plays for e in play)


def test_collecting_does_not_depend_on_how_many_play_at_once():
    def collected(count: int):
        built = parts(count)
        plays = list(collect_experience(built.environments, built.reasoner.retriever.encoder, passes=4, seed=5))
        assert len(plays) == 4 * 2
        return sorted((e.situation.triples, e.seeds, e.template, e.rewarded) for play in plays for e in play)

    assert collected(1) == collected(3)


# -- the file --------------------------------------------------------------------------------------------------


def test_a_saved_retriever_reads_back_equal(tmp_path):
    first, second = parts().reasoner.retriever, parts().reasoner.retriever
    with torch.no_grad():
        first.encoder.rows += 1
    assert first.digest() != second.digest()
    save_retriever(first, tmp_path)
    load_retriever(second, tmp_path)
    assert first.digest() == second.digest()


@pytest.mark.parametrize("damage", ["missing", "cut", "other", "flipped", "checksums"])
def test_a_retriever_that_cannot_be_used_is_named(tmp_path, damage):
    retriever = parts().reasoner.retriever
    save_retriever(retriever, tmp_path)
    path = tmp_path / "retriever.safetensors"
    seal(tmp_path, path.name)
    if damage == "missing":
        path.unlink()
    elif damage == "flipped":
        path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1]))
    elif damage == "checksums":
        (tmp_path / "checksums.json").write_text('{"files": ')
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:30])
    else:
        retriever.identity = "another encoder"
    with pytest.raises(
        RunFolderError, match="other settings" if damage == "other" else "not a pretrained retriever"
    ):
        load_retriever(retriever, tmp_path)


def test_a_run_takes_the_pretrained_retriever_and_collects_nothing(tmp_path, monkeypatch):
    retriever = parts().reasoner.retriever
    with torch.no_grad():
        retriever.encoder.rows += 1
    save_retriever(retriever, tmp_path)
    given = Part(use="test/pretrain", settings=PretrainConfig(retriever=str(tmp_path)))
    training = {"pretrain": given, "retriever_learning_rate": 0.0}
    monkeypatch.setattr("toy_run.TrainingConfig", lambda **settings: TrainingConfig(**(settings | training)))
    experiment = run(tmp_path / "run")
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["training"]["pretraining"] == {"retriever": retriever.digest()}
    assert experiment.parts.reasoner.retriever.digest() == retriever.digest()


# -- the command -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("collector", ["random", "{use: cbr_kga2c/kga2c, unit: sentence, hidden: 8}"])
def test_the_command_pretrains_and_a_recipe_points_to_it(cbr, tmp_path, collector):
    made = tmp_path / "retriever"
    more = ["--set", "training.pretrain.episodes=8"]
    done = cbr("pretrain", SMOKE, "--collector", collector, *more, "--out", made)
    assert done.returncode == 0, done.stderr
    assert [line.split("|")[1].strip() for line in done.stdout.splitlines() if line.startswith("|")][2:] == [
        "rewarded, same template", "rewarded, different templates", "rewarded and not, same template",
    ]  # fmt: skip
    facts = json.loads((made / "pretraining.json").read_text())
    assert facts["collector"] == ("uniform random" if collector == "random" else "cbr_kga2c/kga2c")
    assert facts["rewarded"] > 0
    points = ["--set", f"training.pretrain.retriever={made}", "--set", "evaluation.splits=[]"]
    used = cbr("run", SMOKE, *points, "--out", tmp_path / "run")
    assert used.returncode == 0, used.stderr
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["training"]["pretraining"] == {"retriever": facts["retriever"]}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--set", "training.pretrain.episodes=0"], "episodes is 0"),
        (["--collector", "cbr_kga2c/kg"], "kga2c"),
        (["--set", "training.pretrain.epochs=0"], "epochs"),
    ],
)
def test_wrong_input_ends_with_one_clear_error(cbr, tmp_path, arguments, says):
    done = cbr("pretrain", SMOKE, *arguments, "--out", tmp_path / "made")
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "setting",
    ["context_encoder.heads=2", "quantizer.codes=4", "memory.threshold=0.5", "agent.unit=observation",
     "agent.use=cbr_kga2c/kga2c", "retain_policy.k=2", " memory.capacity=5"],
)  # fmt: skip
def test_a_setting_of_a_part_that_the_collector_has_not_is_the_recipes_alone(setting):
    from cbr_pretrain.session import collector_overrides
    from cbrcore.plugins import load_plugins
    from cbrcore.recipe import load_recipe

    registry = load_plugins().registry
    load_recipe(SMOKE, overrides=[setting], registry=registry)
    agent, seeded = "{use: cbr_text/text, hidden: 12, unit: sentence}", [setting, "seed=3", "training.gamma=0.5"]
    found = load_recipe(SMOKE, overrides=collector_overrides(agent, seeded), registry=registry)
    assert (found.memory, found.context_encoder, found.quantizer) == (None, None, None)
    agent = found.agent
    assert (agent.use, agent.settings.hidden, agent.settings.unit) == ("cbr_text/text", 12, "sentence")
    assert (found.seed, found.training.gamma) == (3, 0.5)


def test_the_toy_recipe_pretrains_by_default(tmp_path):
    run(tmp_path / "run")
    found = json.loads((tmp_path / "run" / "results.json").read_text())["training"]["pretraining"]
    assert found["items"] > found["rewarded"] > 0
    assert {"before", "after"} <= set(found)
    assert recipe().training.pretrain.settings.retriever is None
