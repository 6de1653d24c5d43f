"""Pretraining as a step of its own: who collects, what is reported, and how runs use the retriever."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from parts import PullingQuantizer, ScriptedAgent
from safetensors.torch import save_file
from test_trainer import item
from toy import ToyEnvironment
from toy_run import parts, recipe, run

from cbr_a2c.learner import A2cLearner
from cbr_pretrain.config import PretrainConfig
from cbr_pretrain.contrastive import ContrastivePretraining
from cbr_pretrain.experience import PlayCount, collect_experience, collect_while_learning
from cbr_pretrain.pairs import (
    Experience,
    PairSampler,
    PairSimilarities,
    PretrainReport,
    measure_similarities,
    pretrain_retriever,
)
from cbr_pretrain.retriever_file import load_retriever, played_before, save_retriever
from cbr_pretrain.session import Collector, RetrieverMaking, collector_overrides, pretraining_of
from cbr_pretrain.table import pretraining_table
from cbrcore.config import NoSettings, Part, TrainingConfig
from cbrcore.console import StopRequest
from cbrcore.cycle.reasoner import CaseBasedReasoner
from cbrcore.errors import CbrError, Interrupted, RunFolderError
from cbrcore.interfaces import Build, Scene
from cbrcore.plugins import load_plugins
from cbrcore.recipe import load_recipe
from cbrcore.rng import Streams, derive_seed
from cbrcore.runs import Work
from cbrcore.runs.files import seal
from cbrcore.runs.folder import RunFolder

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
@pytest.mark.parametrize("other", [item("plate", "put", False), item("plate", "insert", True)])
def test_an_update_follows_the_gradient_of_the_mean_loss_and_of_the_regularizer(pull, other):
    """With one item of a template all four pairs are negative ones: none is of an item with itself."""
    retriever, before = pretrained(pull, [item("book", "put", True), other])
    names, rows = retriever.encoder.names, before.requires_grad_()
    book, plate = rows[names.index("book")], rows[names.index("plate")]
    sim = torch.cosine_similarity(book, plate, dim=0).clamp(min=0)
    apart = 0.5 * (0.5 - 1 + sim).clamp(min=0) ** 2
    squares = 4 * book.square().sum() + 4 * plate.square().sum()
    (apart + pull * squares).backward()
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


@pytest.mark.parametrize(
    ("good", "bad", "size", "updates"),
    [
        (1, 1, 2, 1),
        (1, 4, 2, 2),
        (2, 0, 2, 1),
        (2, 2, 2, 3),
        (2, 3, 4, 2),
        (2, 4, 4, 2),
        (3, 3, 4, 3),
        (6, 12, 2, 50),
    ],
)
def test_an_epoch_has_an_update_for_each_batch_of_pairs_and_50_at_most(good, bad, size, updates):
    """Pairs: each rewarded item with every other item."""
    retriever = parts().reasoner.retriever
    retriever.quantizer = PullingQuantizer(0.0)
    names = [f"{number}" for number in range(good + bad)]
    retriever.encoder.names, retriever.encoder.rows = names, torch.nn.Parameter(torch.randn(len(names), 3))
    experience = [item(name, "put", number < good) for number, name in enumerate(names)]
    config = PretrainConfig(episodes=1, epochs=1, batch_size=size)
    report = pretrain_retriever(retriever, experience, config, margin=0.5, clip=1.0, streams=Streams(1))
    assert retriever.quantizer.maintained == updates
    assert (report.items, report.rewarded, report.epochs) == (good + bad, good, 1)


SAME, APART = [1.0, 0.0], [0.0, 1.0]


@pytest.mark.parametrize(
    ("rows", "rewarded", "goal", "epochs", "positives", "negatives"),
    [
        ([SAME, SAME], [True, True], 1.0, 1, 1.0, 0.0),  # nothing to part: as good as can be
        ([SAME, APART], [True, False], 1.0, 4, 0.0, 0.0),  # no positive pair
        ([SAME, SAME], [True, False], 0.1, 4, 0.0, 1.0),  # a negative pair that is alike
        ([SAME, APART], [True, True], 1.0, 4, 0.0, 0.0),  # both positive pairs are far apart
        ([SAME, SAME, APART], [True, True, True], 0.9, 4, 1 / 3, 0.0),  # of three positive pairs one is alike
        ([SAME, SAME, APART], [True, True, True], 0.2, 1, 1 / 3, 0.0),
        ([SAME, SAME, APART, SAME], [True, True, True, False], 0.2, 1, 1 / 3, 2 / 3),
        ([SAME, SAME, APART, SAME], [True, True, True, False], 0.4, 4, 1 / 3, 2 / 3),
        ([SAME, SAME, SAME, APART], [True, True, False, False], 0.8, 4, 1.0, 0.5),
        ([SAME, SAME, SAME, APART], [True, True, False, False], 0.2, 1, 1.0, 0.5),
    ],
)
def test_it_ends_early_where_pairs_are_told_apart(rows, rewarded, goal, epochs, positives, negatives, caplog):
    caplog.set_level("INFO")
    """Contexts that do not move (a tiny step size); the shares are those above tau."""
    retriever, told = parts().reasoner.retriever, []
    names = [f"{number}" for number in range(len(rows))]
    retriever.encoder.names, retriever.encoder.rows = names, torch.nn.Parameter(torch.tensor(rows))
    experience = [item(name, "put", good) for name, good in zip(names, rewarded, strict=True)]
    config = PretrainConfig(episodes=1, epochs=4, batch_size=1600, learning_rate=1e-12, positives_above=goal)
    report = pretrain_retriever(
        retriever,
        experience,
        config,
        margin=0.5,
        clip=1.0,
        streams=Streams(1),
        progress=lambda *how_far: told.append(how_far),
    )
    assert told == [(number, 4) for number in range(1, 5)]  # to the end of the bar
    said = f"pretraining ends after {epochs} of 4 epochs: the pairs are told apart"
    assert (said in caplog.messages) == (epochs < 4)
    assert report.epochs == epochs
    assert report.positives_above_tau == pytest.approx(positives, abs=0.1)
    assert report.negatives_above_tau == pytest.approx(negatives, abs=0.1)


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


@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("collect", ["random", "learning"])
@pytest.mark.parametrize("passes", [1, 4])
def test_every_step_and_play_of_the_collecting_is_counted(monkeypatch, collect, envs, passes):
    """Also steps without a context, which are no experience, and those of several games at once."""
    taken, step = [], ToyEnvironment.step
    monkeypatch.setattr(ToyEnvironment, "step", lambda self, action: taken.append(action) or step(self, action))
    built, count = parts(envs), PlayCount()
    if collect == "random":
        plays = collect_experience(built.environments, Remembering(), passes=passes, seed=5, count=count)
    else:
        plain, how = CaseBasedReasoner(ScriptedAgent("look")), (TrainingConfig(), A2cLearner())
        plays = collect_while_learning(
            built.environments, Remembering(), plain, *how, passes=passes, streams=built.streams, count=count
        )
    experience = [each for play in plays for each in play]
    assert count == PlayCount(steps=len(taken), plays=2 * passes)
    assert count.steps > len(experience)


class Remembering:
    """A situation is how many steps there were before, and whether they are those that were seen."""

    def situation(self, observation, past):
        return observation.steps, tuple(each.steps for each in past)


@pytest.mark.parametrize("collect", ["random", "learning"])
def test_a_situation_is_that_of_the_whole_past(collect):
    """Also of steps whose action has no context ("look")."""
    built = parts()
    if collect == "random":
        plays = list(collect_experience([built.environment], Remembering(), passes=2, seed=5))
    else:
        plain = CaseBasedReasoner(ScriptedAgent())
        how = TrainingConfig(), A2cLearner()
        plays = list(
            collect_while_learning(
                [built.environment], Remembering(), plain, *how, passes=2, streams=built.streams
            )
        )
    situations = [each.situation for play in plays for each in play]
    assert max(steps for steps, _ in situations) > 1
    assert situations == [(steps, tuple(range(steps))) for steps, _ in situations]


def test_256_pairs_of_each_kind_are_measured():
    """Those that a sampler with a stream of its own draws, whatever was drawn before."""
    retriever = parts().reasoner.retriever
    names = ["book", "plate", "coat", "shelf", "rack", "hook"]
    experience = [item(name, "put", number % 2 == 0) for number, name in enumerate(names)]
    drawn = PairSampler(experience, np.random.default_rng(derive_seed(7, "similarities"))).kinds(256)
    contexts = dict(zip(names, retriever.encoder.contexts_of_pairs([("state", (n,)) for n in names]), strict=True))
    found = measure_similarities(retriever, experience, seed=7)
    for kind in ("same", "failed"):
        pairs = drawn[kind]
        assert len(pairs) == 256
        sims = [torch.cosine_similarity(*(contexts[e.seeds[0]] for e in pair), dim=0).clamp(0) for pair in pairs]
        assert getattr(found, kind) == pytest.approx(torch.stack(sims).mean().item(), abs=1e-6)


@pytest.mark.parametrize(
    ("experience", "known", "says"),
    [
        (
            [item("book", "put", False), item("plate", "take", False), item("book", "put", False)],
            (0, 0),
            "no action was",
        ),
        ([item("book", "put", True)] * 2, (1, 1), "one action was rewarded, and nothing like it failed"),
        ([item("book", "put", True), item("plate", "take", False)], (1, 1), "one action was rewarded"),
    ],
)
def test_without_pairs_the_codebooks_alone_are_trained(experience, known, says, caplog):
    """From all experience there is if nothing was rewarded."""
    retriever, before = pretrained(0.5, experience)
    names = retriever.encoder.names
    used = ["book"] if known[1] else ["book", "plate"]
    assert torch.equal(retriever.quantizer.fitted, before[[names.index(name) for name in used]])
    assert torch.equal(retriever.encoder.rows, before)
    assert retriever.quantizer.maintained == 0
    assert "only the codebooks were pretrained" in caplog.text
    assert says in caplog.text
    report = pretrain_retriever(
        retriever, experience, PretrainConfig(episodes=1, epochs=3), margin=0.5, clip=1.0, streams=Streams(1)
    )
    assert report == PretrainReport(*known, 0, 0.0, 0.0)


def test_no_pair_is_of_an_item_with_itself():
    """Positive pairs are of two different items, each other one as likely; who has no partner of its template gets
    a negative pair instead."""
    alike, other = [item(name, "put", True) for name in "abc"], item("d", "insert", True)
    sampler = PairSampler([*alike, other, alike[0]], np.random.default_rng(0))
    assert sampler.pairs == 12
    left, right, negative = sampler.draw(4000)
    pairs = Counter(
        (a.seeds[0], b.seeds[0]) for a, b, apart in zip(left, right, negative, strict=True) if not apart
    )
    assert set(pairs) == {(a, b) for a in "abc" for b in "abc" if a != b}
    assert max(pairs.values()) < 1.4 * min(pairs.values())
    assert all(apart for item, apart in zip(left, negative, strict=True) if item == other)
    assert all(a.template != b.template for a, b, apart in zip(left, right, negative, strict=True) if apart)


class Counting:
    """[title, total, steps that were told] of each phase."""

    def __init__(self) -> None:
        self.phases: list[list] = []

    def phase(self, title: str, total: int, done: int = 0) -> None:
        self.phases.append([title, total, done])

    def advance(self, note: str = "") -> None:
        self.phases[-1][-1] += 1


@pytest.mark.parametrize("passes", [1, 3, 5])
@pytest.mark.parametrize("collector", ["of a run", "random", "learning"])
def test_as_many_steps_are_announced_as_are_told(tmp_path, collector, passes):
    """And what was made does not depend on who asks for it: a run, or the command."""
    told, built = Counting(), parts()
    config = PretrainConfig(episodes=passes, epochs=2, batch_size=4, positives_above=1.0)
    if collector == "of a run":
        training = recipe().training
        scene = Scene(
            built.environments,
            built.reasoner,
            training,
            built.streams,
            built.clock,
            tmp_path,
            told.phase,
            told.advance,
        )
        ContrastivePretraining(config, Build()).run(scene)
    else:
        folder = RunFolder.create("toy", tmp_path / "made")
        folder.write_text("recipe.yaml", "name: toy\n")
        learning = parts()
        learning = replace(learning, reasoner=CaseBasedReasoner(ScriptedAgent()))
        agent = Collector(recipe(), learning, A2cLearner()) if collector == "learning" else None
        RetrieverMaking(Work(recipe(), folder, built, told, StopRequest()), config, agent).run(lambda: None)
        folder.close()
        facts = json.loads((tmp_path / "made" / "pretraining.json").read_text())
        assert (facts["schema"], facts["seed"], facts["episodes"]) == (1, 5, passes)
        assert facts["retriever"] == built.reasoner.retriever.digest()
        assert facts["plays"] == 2 * passes
        assert 2 * passes <= facts["steps"] <= 2 * passes * built.environment.max_steps
    collecting, training = told.phases
    assert collecting == ["collecting experience (game plays)", 2 * passes, 2 * passes]
    assert training == ["pretraining the retriever (epochs)", 2, 2]


def test_making_a_retriever_stops_when_the_user_asks(tmp_path):
    folder, stop, told = RunFolder.create("toy", tmp_path / "made"), StopRequest(), Counting()
    stop.requested = True
    making = RetrieverMaking(Work(recipe(), folder, parts(), told, stop), PretrainConfig(episodes=2), None)
    with pytest.raises(Interrupted, match="nothing is kept"):
        making.run(lambda: None)
    folder.close()
    assert told.phases == [["collecting experience (game plays)", 4, 1]]


# -- the file --------------------------------------------------------------------------------------------------


def test_a_saved_retriever_reads_back_equal(tmp_path):
    first, second = parts().reasoner.retriever, parts().reasoner.retriever
    with torch.no_grad():
        first.encoder.rows += 1
    assert first.digest() != second.digest()
    save_retriever(first, tmp_path)
    load_retriever(second, tmp_path)
    assert first.digest() == second.digest()


@pytest.mark.parametrize("damage", ["missing", "cut", "other", "flipped", "checksums", "nameless"])
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
    elif damage == "nameless":
        save_file({"rows": torch.zeros(2)}, path)
        seal(tmp_path, path.name)
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
    played = {"steps": None, "plays": None}  # nothing beside the retriever says it
    assert results["training"]["pretraining"] == {"retriever": retriever.digest(), **played}
    assert experiment.parts.reasoner.retriever.digest() == retriever.digest()


@pytest.mark.parametrize(
    ("says", "counts"),
    [
        ({"steps": 120, "plays": 6}, (120, 6)),
        ({"steps": 0, "plays": 0}, (0, 0)),
        ({"items": 3}, (None, None)),  # of an older version
        ({"steps": True, "plays": "6"}, (None, None)),
        ({"steps": -1, "plays": 6}, (None, 6)),
        ([1], (None, None)),
        (None, (None, None)),
    ],
)
def test_a_retriever_made_elsewhere_counts_what_its_own_file_says(tmp_path, caplog, says, counts):
    save_retriever(parts().reasoner.retriever, tmp_path)
    if says is not None:
        (tmp_path / "pretraining.json").write_text(json.dumps(says))
    assert tuple(played_before(tmp_path).values()) == counts
    assert ("cannot count" in caplog.text) == (None in counts)


@pytest.mark.parametrize("damage", ["cut", "other numbers"])
def test_a_damaged_count_counts_nothing(tmp_path, damage):
    path = tmp_path / "pretraining.json"
    path.write_text('{"steps": 120, "plays": 6}')
    seal(tmp_path, path.name)
    path.write_text('{"steps": 12' if damage == "cut" else '{"steps": 100, "plays": 6}')
    assert played_before(tmp_path) == {"steps": None, "plays": None}


@pytest.mark.parametrize("stop_after", [0, 3, 6, 9])
def test_what_a_run_played_before_it_began_is_in_its_results(tmp_path, stop_after):
    """Stopped and resumed while collecting, pretraining and training; once, whatever was stopped."""
    with pytest.raises(Interrupted) if stop_after else contextlib.nullcontext():
        run(tmp_path / "run", stop_after=stop_after)
    if stop_after:
        assert not (tmp_path / "run" / "results.json").exists()
        run(tmp_path / "run")
    found = json.loads((tmp_path / "run" / "results.json").read_text())["training"]["pretraining"]
    built, count = parts(), PlayCount()
    assert list(collect_experience([built.environment], Remembering(), passes=2, seed=5, count=count))
    assert {"steps": found["steps"], "plays": found["plays"]} == {"steps": count.steps, "plays": 4}


# -- the command -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("collector", ["random", "{use: cbr_kga2c/scorer, unit: sentence, hidden: 8}"])
def test_the_command_pretrains_and_a_recipe_points_to_it(cbr, tmp_path, collector):
    made = tmp_path / "retriever"
    more = ["--set", "training.pretrain.episodes=8"]
    done = cbr("pretrain", SMOKE, "--collector", collector, *more, "--out", made)
    assert done.returncode == 0, done.stderr
    assert [line.split("|")[1].strip() for line in done.stdout.splitlines() if line.startswith("|")][2:] == [
        "rewarded, same template", "rewarded, different templates", "rewarded and not, same template",
    ]  # fmt: skip
    facts = json.loads((made / "pretraining.json").read_text())
    assert facts["collector"] == ("uniform random" if collector == "random" else "cbr_kga2c/scorer")
    assert facts["rewarded"] > 0
    points = ["--set", f"training.pretrain.retriever={made}", "--set", "evaluation.splits=[]"]
    used = cbr("run", SMOKE, *points, "--out", tmp_path / "run")
    assert used.returncode == 0, used.stderr
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    played = {"steps": facts["steps"], "plays": facts["plays"]}
    assert played["steps"] > played["plays"] == 8 * 2
    assert results["training"]["pretraining"] == {"retriever": facts["retriever"], **played}


def test_a_retriever_that_is_made_anew_leaves_nothing_of_the_one_before(cbr, tmp_path):
    made, more = tmp_path / "retriever", ["--set", "training.pretrain.episodes=2"]
    first = cbr("pretrain", SMOKE, *more, "--out", made)
    assert first.returncode == 0, first.stderr
    files = sorted(path.name for path in made.iterdir())
    (made / "notes.txt").write_text("of the first")
    second = cbr("pretrain", SMOKE, *more, "--out", made, "--overwrite")
    assert second.returncode == 0, second.stderr
    assert sorted(path.name for path in made.iterdir()) == files


def test_where_nothing_was_rewarded_nothing_is_left_and_nothing_replaced(cbr, tmp_path):
    made, more = tmp_path / "retriever", ["--set", "training.pretrain.episodes=2"]
    vain = [*more, "--set", "environment.max_steps=1", "--collector", "random"]
    failed = cbr("pretrain", SMOKE, *vain, "--out", made)
    assert (failed.returncode, made.exists()) == (2, False)
    assert "no action was rewarded" in failed.stderr
    assert cbr("pretrain", SMOKE, *more, "--out", made).returncode == 0
    before = {path.name: path.read_bytes() for path in made.iterdir() if path.is_file()}
    failed = cbr("pretrain", SMOKE, *vain, "--out", made, "--overwrite")
    assert failed.returncode == 2
    assert {path.name: path.read_bytes() for path in made.iterdir() if path.is_file()} | {
        "run.log": before["run.log"]
    } == before


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
     "agent.use=cbr_kga2c/scorer", "retain_policy.k=2", " memory.capacity=5"],
)  # fmt: skip
def test_a_setting_of_a_part_that_the_collector_has_not_is_the_recipes_alone(setting):
    registry = load_plugins().registry
    load_recipe(SMOKE, overrides=[setting], registry=registry)
    agent, seeded = "{use: cbr_text/text, hidden: 12, unit: sentence}", [setting, "seed=3", "training.gamma=0.5"]
    found = load_recipe(SMOKE, overrides=collector_overrides(agent, seeded), registry=registry)
    assert (found.memory, found.context_encoder, found.quantizer) == (None, None, None)
    agent = found.agent
    assert (agent.use, agent.settings.hidden, agent.settings.unit) == ("cbr_text/text", 12, "sentence")
    assert (found.seed, found.training.gamma) == (3, 0.5)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (collector_overrides("cbr_text/text"), "has no retriever"),
        (["training.pretrain.episodes=0"], "episodes is 0"),
        (["training.pretrain=null"], "of another kind"),
        (None, "of another kind"),
    ],
)
def test_a_recipe_that_cannot_be_pretrained_is_told_why(changes, says):
    registry = load_plugins().registry
    found = load_recipe(SMOKE, overrides=changes or [], registry=registry)
    assert pretraining_of(load_recipe(SMOKE, registry=registry)).episodes > 0
    if changes is None:  # somebody else's pretraining
        part = Part(use="test/part", settings=NoSettings())
        found = found.model_copy(update={"training": found.training.model_copy(update={"pretrain": part})})
    with pytest.raises(CbrError, match=says):
        pretraining_of(found)


def test_the_table_of_similarities_by_hand():
    before, after = PairSimilarities(0.25, 0.5, None), PairSimilarities(0.875, 0.0, 0.124)
    report = PretrainReport(3, 2, 1, 1.0, 0.0, before, after)
    cells = [
        [cell.strip() for cell in row.strip("|").split("|")] for row in pretraining_table(report).splitlines()
    ]
    assert cells[0] == ["mean similarity of pairs", "before", "after"]
    assert cells[2:] == [
        ["rewarded, same template", "0.25", "0.88"],
        ["rewarded, different templates", "0.50", "0.00"],
        ["rewarded and not, same template", "-", "0.12"],
    ]


def test_the_toy_recipe_pretrains_by_default(tmp_path):
    run(tmp_path / "run")
    found = json.loads((tmp_path / "run" / "results.json").read_text())["training"]["pretraining"]
    assert found["items"] > found["rewarded"] > 0
    assert {"before", "after"} <= set(found)
    assert recipe().training.pretrain.settings.retriever is None
