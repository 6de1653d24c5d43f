"""The border around the parts: whatever wrong a plugin's part gives or raises, the run ends with its name."""

from __future__ import annotations

import json
import re
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import toy
from border_lab import write_lab
from parts import CosineQuantizer, DenseIndex, ScriptedAgent, TableEncoder, act, item, observation

from cbr_border import games
from cbr_border.games import REMEMBERED, GameBorder
from cbr_border.parts import KINDS, guarded, making
from cbr_border.values import of_the_user
from cbr_memory.memory import CaseMemory
from cbrcore.console import graceful_interrupt
from cbrcore.errors import RunFailed, RunFolderError
from cbrcore.interfaces import ContextEncoder, Environment, KeyIndex, NeuralAgent, Quantizer, RevisingAgent
from cbrcore.types import Candidate, Case, Match, Provenance

NAN, INF = "float('nan')", "float('inf')"


@pytest.fixture
def lab(tmp_path: Path, here, site, monkeypatch: pytest.MonkeyPatch):
    """Runs the toy laboratory with a part that is spoiled by some lines of Python."""
    monkeypatch.setattr(toy, "GAMES", dict(toy.GAMES))

    def run(spoiled: str = "", *arguments: str):
        recipe, plugin = write_lab(tmp_path, spoiled)
        return here("run", recipe, "--plugin", plugin, "--out", tmp_path / "out", *arguments)

    return run


def with_result(change: str, at: int = 3) -> str:
    """An environment whose step `at` of an episode gives another result."""
    return f"""
step = Toy.step
def spoiled(self, action):
    result = step(self, action)
    return {change} if self._steps == {at} else result
Toy.step = spoiled
"""


def seen(**changes: str) -> str:
    told = ", ".join(f"{name}={value}" for name, value in changes.items())
    return with_result(f"replace(result, observation=replace(result.observation, {told}))")


ENVIRONMENTS = [
    (with_result("None"), "step(...) gave None, expected a StepResult"),
    (with_result("result.observation"), "expected a StepResult"),
    (with_result("replace(result, reward='1')"), "the reward '1', expected a finite int or float"),
    (with_result(f"replace(result, reward={INF})"), "the reward inf, expected"),
    (with_result(f"replace(result, reward=-{INF})"), "the reward -inf, expected"),
    (with_result(f"replace(result, reward={NAN})"), "the reward nan, expected"),
    (with_result("replace(result, reward=None)"), "the reward None, expected"),
    (with_result("replace(result, reward=torch.ones(()))"), "the reward tensor(1.), expected"),
    (with_result("replace(result, reward=10**400)"), "the reward 1000"),
    (with_result("replace(result, ending='won')"), "gave 'won', expected an Ending or None"),
    (with_result("replace(result, observation=None)"), "gave None, expected an Observation"),
    (seen(score=NAN), "the score nan"),
    (seen(max_score=INF), "the max_score inf"),
    (seen(max_score=NAN), "the max_score nan"),
    (seen(feedback="None"), "feedback None, expected str"),
    (seen(description="b'x'"), "description b'x', expected str"),
    (seen(admissible="list(result.observation.admissible)"), "expected tuple"),
    (seen(admissible="('look',)"), "gave 'look', expected an Action"),
    (seen(admissible="(Action('go', 'run'),)"), "the template, filled with the entities, as the text"),
    (seen(admissible="(Action('go x', 'go {}'),)"), "the template, filled with the entities, as the text"),
    (seen(admissible="(Action('look', 'look', (), ['book']),)"), "tuples of entities and seeds"),
    (seen(graph="None"), "graph None, expected StateGraph"),
    (seen(graph="StateGraph((1,))"), "a graph of names, and of triples of names"),
    (seen(graph="StateGraph(('a',), (('a', 'b'),))"), "a graph of names, and of triples of names"),
    (seen(scored="('a', 2)"), "failed in step"),
    ("Toy.reset = lambda self, game, seed: None", "reset(...) gave None, expected an Observation"),
    ("Toy.games = lambda self, split: ()", "games(...) gave (), expected a game to train on"),
    ("Toy.games = lambda self, split: (1, 2)", "games(...) gave 1, expected text as a name"),
    ("Toy.games = lambda self, split: None", "games(...) gave None, expected a tuple of names"),
    (f"Toy.game_info = lambda self, game: {{'max_score': {INF}}}", "game_info(...) gave"),
    ("Toy.game_info = lambda self, game: {'max_score': object()}", "expected what fits in JSON"),
    ("Toy.game_info = lambda self, game: None", "game_info(...) gave None, expected a mapping"),
    (f"Toy.handicaps = {{'x': {NAN}}}", "the attribute handicaps gave"),
    (with_result("replace(result, rescored='no')"), "gave 'no', expected True or False as rescored"),
    ("Toy.splits = lambda self: ('in', 'out')", "splits(...) gave ('in', 'out'), expected 'train' as one of them"),
    ("Toy.game_info = lambda self, game: {'optimal_steps': 'six'}", "optimal_steps as 'six', expected a finite"),
    ("Toy.game_info = lambda self, game: {'max_score': '1'}", "max_score as '1', expected a finite"),
    ("Toy.game_info = lambda self, game: {'initial_score': [0]}", "initial_score as [0], expected a finite"),
    ("Toy.game_info = lambda self, game: {'sha256': [game]}", "expected text or None as sha256"),
    ("Toy.game_info = lambda self, game: {'md5': 7}", "gave 7, expected text or None as md5"),
    ("Toy.content = lambda self, game: {}", "content(...) gave {}, expected text"),
    ("Toy.content = lambda self, game: 1 / 0", "failed in content: ZeroDivisionError"),
]


def spoiled_init(name: str, lines: str) -> str:
    return f"{name}.__init__ = lambda self, *_: {lines}"


INDEX = "old = Index.similarities\nIndex.similarities = lambda self, q: "
ENCODE = "encode = Words.encode\nWords.encode = lambda self, texts: "
NOT_FINITE = "gave values that are not finite"
VALUE = """
policy = Linear.policy
Linear.policy = lambda self, inputs: [replace(out, {}) for out in policy(self, inputs)]
"""
OTHERS = {
    "quantizer": [
        (f"{INDEX}old(self, q) * {NAN}", "similarities(...) gave nan"),
        (
            f"{INDEX}old(self, q) * 0 + 5",
            "similarities(...) gave 5, expected values in [0, 1]",
        ),
        (f"{INDEX}old(self, q) * 0 - 1", "similarities(...) gave -1"),
        (
            f"{INDEX}torch.cat([old(self, q), torch.zeros(len(q), 1)], 1)",
            "similarities(...) gave shape (",
        ),
        (f"{INDEX}old(self, q).tolist()", "expected a floating tensor"),
        (
            "pair = Cosine.similarity\nCosine.pair_similarity = lambda self, a, b: pair(self, a, b) * 7 + 1.5",
            "pair_similarity(...) gave",
        ),
        (
            "one = Cosine.similarity\nCosine.similarity = lambda self, a, b: one(self, a, b) * 7 + 1.5",
            "similarity(...) gave",
        ),
        (
            f"one = Cosine.similarity\nCosine.similarity = lambda self, a, b: one(self, a, b) * {NAN}",
            "similarity(...) gave values that are not finite",
        ),
        (
            "one = Cosine.similarity\nCosine.similarity = lambda self, a, b: one(self, a, b)[:, None]",
            "similarity(...) gave shape (",
        ),
        ("Cosine.keys = lambda self, contexts: contexts[:1].detach()", "keys(...) gave shape (1, 24), expected ("),
        (f"Cosine.keys = lambda self, contexts: contexts.detach() * {NAN}", f"keys(...) {NOT_FINITE}"),
        ("Cosine.keys = lambda self, contexts: None", "keys(...) gave None, expected a tensor"),
        ("Cosine.regularizer = lambda self, contexts: contexts.sum(dim=1)", "regularizer(...) gave shape ("),
        (f"Cosine.regularizer = lambda self, c: c.new_full((), {NAN})", f"regularizer(...) {NOT_FINITE}"),
        ("Cosine.index = lambda self: None", "index(...) gave None"),
        (f"Cosine.metrics = lambda self: {{'usage': {NAN}}}", "metrics(...) gave usage nan, expected a finite"),
    ],
    "agent": [
        (VALUE.format("value=out.value.reshape(1)"), "policy(...) gave shape (1,), expected ()"),
        (VALUE.format("logits=out.logits[:1].repeat(9)"), "policy(...) gave shape (9,), expected ("),
        (VALUE.format("logits=out.logits.long()"), "torch.int64, expected a floating tensor"),
        (VALUE.format(f"logits=out.logits * {NAN}"), "policy(...) gave values that are not finite"),
        (VALUE.format(f"value=out.value * {INF}"), "policy(...) gave values that are not finite"),
        (VALUE.format("value=1.0"), "policy(...) gave 1.0, expected a floating tensor"),
        ("Linear.policy = lambda self, inputs: []", "policy(...) gave 0 outputs, expected 1"),
        ("Linear.policy = lambda self, inputs: None", "policy(...) gave None, expected a list"),
        ("Linear.policy = lambda self, inputs: [None for _ in inputs]", "gave None, expected a PolicyOutput"),
        (f"Linear.handicaps = {{'x': {NAN}}}", "the attribute handicaps gave"),
    ],
    "context encoder": [
        ("Mean.contexts_of_pairs = lambda self, pairs: torch.zeros(len(pairs), 5)", ", 5), expected ("),
        (
            f"Mean.contexts_of_pairs = lambda self, pairs: torch.full((len(pairs), 24), {NAN})",
            f"contexts_of_pairs(...) {NOT_FINITE}",
        ),
        ("Mean.contexts_of_pairs = lambda self, pairs: torch.zeros(len(pairs), 24).long()", "torch.int64"),
        ("Mean.contexts_of_pairs = lambda self, pairs: None", "gave None, expected a floating tensor"),
        ("Mean.situation = lambda self, observation, past: [1]", "gave [1], expected something hashable"),
    ],
    "text encoder": [
        ("Words.identity = None", "the attribute identity gave None, expected text"),
        ("Words.dim = '24'", "the attribute dim gave '24', expected a whole number"),
        (
            "encode = Words.encode\nWords.encode = lambda self, texts: torch.stack(["
            f"row * {NAN} if 'shelf' in text else row for row, text in zip(encode(self, texts), texts)])",
            "encode(...) gave values that are not finite for the text '",
        ),
        ("Words.encode = lambda self, texts: torch.zeros(len(texts), 7)", ", 7), expected ("),
        ("Words.encode = lambda self, texts: [[0.0] * 24 for text in texts]", "expected a floating tensor"),
    ],
    "retain policy": [
        ("All.select = lambda self, buffer, rng: [None]", "select(...) gave None, expected items of the buffer"),
        ("All.select = lambda self, buffer, rng: [replace(buffer[0])]", "expected items of the buffer"),
        ("All.select = lambda self, buffer, rng: None", "select(...) gave None, expected a list"),
    ],
}  # fmt: skip
PARTS = {
    "environment": "toy", "quantizer": "cosine", "agent": "linear", "context encoder": "mean",
    "text encoder": "words", "retain policy": "all",
}  # fmt: skip
CLASSES = {
    "environment": "Toy", "quantizer": "Cosine", "agent": "Linear", "context encoder": "Mean",
    "text encoder": "Words", "retain policy": "All",
}  # fmt: skip


def refused(done, kind: str, tmp_path: Path) -> str:
    """The message of a run that failed because of this part; without a traceback."""
    said = done.stderr
    assert done.returncode == 1, said
    assert f"{kind} toylab/{PARTS[kind]}" in said
    assert "Traceback" not in said
    assert "mend the plugin 'toylab'" in said
    return said


@pytest.mark.parametrize(("spoiled", "told"), ENVIRONMENTS)
def test_what_is_wrong_with_an_environment_is_told(spoiled: str, told: str, lab, tmp_path: Path):
    assert told in refused(lab(spoiled), "environment", tmp_path)


@pytest.mark.parametrize(
    ("kind", "spoiled", "told"), [(kind, *case) for kind, cases in OTHERS.items() for case in cases]
)
def test_what_is_wrong_with_a_part_is_told(kind: str, spoiled: str, told: str, lab, tmp_path: Path):
    assert told in refused(lab(spoiled), kind, tmp_path)


ROWS = [
    ("Index.add = lambda self, keys: None", "add(...) gave 0 rows, expected 1"),
    (
        "add = Index.add\nIndex.add = lambda self, keys: (add(self, keys), add(self, keys))",
        "gave 2 rows, expected 1",
    ),
    ("Index.keep = lambda self, rows: None", "keep(...) gave 3 rows, expected 2"),
    (
        "Index.key, Index.remove = lambda self, row: self._keys[row], lambda self, row: None",
        "remove(...) gave 3 rows",
    ),
    ("keys = Index.keys\nIndex.keys = lambda self: keys(self)[:1]", "keys(...) gave 1 rows, expected"),
    ("Index.keys = lambda self: None", "keys(...) gave None, expected a tensor"),
]


@pytest.mark.parametrize(("spoiled", "told"), ROWS)
def test_an_index_whose_rows_are_not_the_cases_is_told(spoiled: str, told: str, lab, tmp_path: Path):
    done = lab(spoiled, "--set", "memory.capacity=2", "--set", "run.episodes=8")
    assert told in refused(done, "quantizer", tmp_path)


NUMPYS = """
from numpy import float64

step = Toy.step
def in_numpy(self, action):
    result = step(self, action)
    seen = replace(result.observation, score=float64(result.observation.score), max_score=float64(1))
    return replace(result, reward=float64(result.reward), observation=seen)
Toy.step = in_numpy
"""


def test_numbers_of_numpy_are_as_good_as_others(lab, tmp_path: Path):
    done = lab(NUMPYS, "--set", "run.episodes=12")
    assert done.returncode == 0, done.stderr
    cases = [json.loads(line) for line in (tmp_path / "out" / "memory" / "cases.jsonl").read_text().splitlines()]
    assert any(case["reuse_rewarded"] > 1 for case in cases)


WEIGHTS = "a mapping of names to tensors"
TRAINED = [
    ("state_dict = lambda self, *a, **k: None", f"state_dict(...) gave None, expected {WEIGHTS}"),
    ("state_dict = lambda self, *a, **k: [torch.zeros(1)]", f"expected {WEIGHTS}"),
    ("state_dict = lambda self, *a, **k: {'a': 1.5}", "state_dict(...) gave 1.5, expected a tensor as 'a'"),
    ("state_dict = lambda self, *a, **k: {1: torch.zeros(1)}", "state_dict(...) gave 1, expected text as a name"),
    ("state_dict = lambda self, *a, **k: {'a\\udc80': torch.zeros(1)}", "expected a name that can be written"),
    ("state_dict = lambda self, *a, **k: {'a': torch.eye(2).to_sparse()}", "a tensor that cannot be saved as 'a'"),
    ("state_dict = lambda self, *a, **k: {'a': torch.eye(2, device='meta')}", "a tensor that cannot be saved as"),
    ("get_extra_state = lambda self: {'a': 1}", "expected a tensor as '_extra_state'"),
    ("state_dict = lambda self, *a, **k: 1 / 0", "failed in state_dict: ZeroDivisionError"),
    ("state_dict = lambda self, *a, **k: exit(0)", "failed in state_dict: SystemExit"),
    ("parameters = lambda self, *a: None", "parameters(...) gave None, expected parameters"),
    ("parameters = lambda self, *a: ['w']", "parameters(...) gave 'w', expected tensors"),
    (
        "parameters = lambda self, *a: [torch.nn.Parameter(torch.ones(1)) * 2]",
        "parameters(...) gave a tensor that was computed from others, expected parameters",
    ),
    ("train = lambda self, mode=True: 1 / 0", "failed in train: ZeroDivisionError"),
    ("train = lambda self, mode=True: exit(0)", "failed in train: SystemExit"),
]


@pytest.mark.parametrize("kind", ["agent", "context encoder", "quantizer"])
@pytest.mark.parametrize(("spoiled", "told"), TRAINED)
def test_what_is_wrong_with_the_weights_of_a_part_is_told(kind: str, spoiled: str, told: str, lab, tmp_path: Path):
    assert told in refused(lab(f"{CLASSES[kind]}.{spoiled}"), kind, tmp_path)


def test_weights_that_are_wrong_later_only_are_told(lab, tmp_path: Path):
    lines = """
whole = Linear.state_dict
Linear.state_dict = lambda self, *a, **k: whole(self, *a, **k) if calls.append(1) or len(calls) < 2 else None
calls = []
"""
    assert "state_dict(...) gave None" in refused(lab(lines), "agent", tmp_path)


TIED = """
setup = Linear.__init__
def tied(self, *_):
    setup(self, *_)
    self.twin = self.weight
    self.register_buffer("part", self.weight.data[:, :3])
Linear.__init__ = tied
"""


def test_weights_that_share_their_memory_are_saved_and_restored(lab, here, tmp_path: Path):
    done = lab(TIED)
    assert done.returncode == 0, done.stderr
    again = here("evaluate", tmp_path / "out", "--plugin", tmp_path / "toylab.py")
    assert again.returncode == 0, again.stderr


def test_weights_that_cannot_be_loaded_are_the_parts_failure(lab, here, tmp_path: Path):
    done = lab("Linear.load_state_dict = lambda self, state: state['gone']")
    assert done.returncode == 0, done.stderr
    done = here("evaluate", tmp_path / "out", "--plugin", tmp_path / "toylab.py")
    assert "failed in load_state_dict: KeyError: 'gone'" in refused(done, "agent", tmp_path)


ATTRIBUTES = [
    (
        "Words.dim = 24.0",
        "text encoder toylab/words: the attribute dim gave 24.0, expected a whole number above 0",
    ),
    ("Words.dim = True", "the attribute dim gave True, expected a whole number above 0"),
    ("Words.dim = -24", "the attribute dim gave -24, expected a whole number above 0"),
    ("Words.dim = property(lambda self: 1 / 0)", "words failed at the attribute dim: ZeroDivisionError"),
    ("Words.identity = b'x'", "the attribute identity gave b'x', expected text"),
    ("Mean.dim = property(lambda self: 24.0, lambda *_: None)", "context encoder toylab/mean: the attribute dim"),
    ("Toy.handicaps = property(lambda self: exit(0))", "toy failed at the attribute handicaps: SystemExit"),
    ("Toy.handicaps = None", "the attribute handicaps gave None, expected a mapping"),
]


@pytest.mark.parametrize(("spoiled", "told"), ATTRIBUTES)
def test_what_is_wrong_with_what_a_part_has_is_told(spoiled: str, told: str, lab):
    done = lab(spoiled)
    assert done.returncode == 1
    assert told in done.stderr


LEARNERS = [
    ("Nothing.tensors = lambda self: None", "tensors(...) gave None, expected a mapping"),
    (f"Nothing.tensors = lambda self: {{'x': {INF}}}", "tensors(...) gave inf, expected a tensor as 'x'"),
    (f"Nothing.pop_losses = lambda self: {{'loss_policy': {NAN}}}", "pop_losses(...) gave loss_policy nan"),
    ("Nothing.pop_losses = lambda self: None", "pop_losses(...) gave None"),
    ("Nothing.skipped = 'a'", "begin(...) gave 'a', expected a whole number as skipped"),
    ("Nothing.begin = lambda self, *_: 1 / 0", "failed in begin: ZeroDivisionError"),
    (
        "Nothing.took_step = lambda self, *_: setattr(self, 'skipped', None)",
        "pop_losses(...) gave None, expected a",
    ),
    ("Nothing.tensors = lambda self: {7: torch.zeros(1)}", "tensors(...) gave 7, expected text as a name"),
]


@pytest.mark.parametrize(("spoiled", "told"), LEARNERS)
def test_what_is_wrong_with_a_learner_is_told(spoiled: str, told: str, lab):
    done = lab(spoiled, "--set", "learner={use: toylab/none}")
    assert done.returncode == 1
    assert "learner toylab/none" in done.stderr
    assert told in done.stderr


TAKEN = ["episode", "score", "game", "reused", "memory_size", "reuse_agent_same"]


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("who", ["learner", "quantizer"])
def test_a_figure_whose_name_is_taken_is_refused(name: str, who: str, lab):
    method = {"learner": "Nothing.pop_losses", "quantizer": "Cosine.metrics"}[who]
    done = lab(f"{method} = lambda self: {{{name!r}: 77.0}}", "--set", "learner={use: toylab/none}")
    assert done.returncode == 1
    assert f"{who} reports the metric {name!r}, which is taken; give it another name" in done.stderr


def test_a_figure_that_two_parts_report_is_refused(lab):
    done = lab("Nothing.pop_losses = lambda self: {'usage': 1.0}", "--set", "learner={use: toylab/none}")
    assert done.returncode == 1
    assert "reports the metric 'usage', which is taken" in done.stderr


@pytest.mark.parametrize("name", ["agent:weight", "agent:bias", "context_encoder:weight"])
def test_a_learner_does_not_write_over_the_weights_of_a_part(name: str, lab):
    lines = f"Nothing.tensors = lambda self: {{{name!r}: torch.zeros(1, 24)}}"
    done = lab(lines, "--set", "learner={use: toylab/none}")
    assert done.returncode == 1
    assert f"learner keeps the tensor {name!r}, which is taken; give it another name" in done.stderr


@pytest.mark.parametrize("who", ["Nothing.pop_losses", "Cosine.metrics"])
def test_half_characters_in_the_name_of_a_figure_are_replaced(who: str, lab, tmp_path: Path):
    done = lab(f"{who} = lambda self: {{'u\\udc80': 1.0}}", "--set", "learner={use: toylab/none}")
    assert done.returncode == 0, done.stderr
    assert "\\\\udc80" in (tmp_path / "out" / "metrics.jsonl").read_text()


def test_a_learners_tensor_that_is_not_finite_is_not_saved_and_the_run_fails(lab):
    done = lab(
        f"Nothing.tensors = lambda self: {{'x': torch.tensor({NAN})}}", "--set", "learner={use: toylab/none}"
    )
    assert done.returncode == 1
    assert "not saved: x holds values that are not finite\n  lower the learning rates" in done.stderr


def test_one_infinite_reward_stops_the_run_and_names_game_and_step(lab, tmp_path: Path):
    said = refused(lab(with_result(f"replace(result, reward={INF})", at=4)), "environment", tmp_path)
    assert "the reward inf, expected a finite int or float (game '" in said
    assert "step 4)" in said
    assert "skipped" not in (tmp_path / "out" / "run.log").read_text()


RAISED = {"environment": "step", "agent": "policy", "quantizer": "keys", "context encoder": "contexts_of_pairs",
          "text encoder": "encode", "retain policy": "select"}  # fmt: skip


@pytest.mark.parametrize(
    "error", ["SystemExit(0)", "SystemExit(3)", "KeyboardInterrupt()", "GeneratorExit()", "ValueError('boom')"]
)
@pytest.mark.parametrize("kind", RAISED)
def test_whatever_a_part_raises_is_its_failure(kind: str, error: str, lab, tmp_path: Path):
    method = RAISED[kind]
    lines = f"def raising(self, *_):\n    raise {error}\n{CLASSES[kind]}.{method} = raising"
    said = refused(lab(lines), kind, tmp_path)
    assert f"failed in {method}" in said
    assert error.partition("(")[0] in said
    log = (tmp_path / "out" / "run.log").read_text()
    assert "Traceback" in log
    assert "in raising" in log
    assert not (tmp_path / "out" / "results.json").exists()


@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize("error", ["SystemExit(0)", "KeyboardInterrupt()", "RuntimeError('boom')"])
def test_a_factory_that_raises_is_named(kind: str, error: str, lab, tmp_path: Path):
    lines = f"def raising(*_):\n    raise {error}\n{CLASSES[kind]} = raising"
    assert f"could not be made: {error.partition('(')[0]}" in refused(lab(lines), kind, tmp_path)


@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize("made", ["None", "object()", "int"])
def test_a_factory_that_gives_no_such_part_is_named(kind: str, made: str, lab, tmp_path: Path):
    said = refused(lab(f"{CLASSES[kind]} = lambda *_: {made}"), kind, tmp_path)
    assert "its factory gave " in said
    assert "it lacks " in said


# What is sound stays what it was


def test_a_guarded_part_is_still_the_object_that_it_was():
    for kind, part, contract in (
        ("environment", toy.ToyEnvironment(), Environment),
        ("agent", ScriptedAgent("look"), NeuralAgent),
        ("quantizer", CosineQuantizer(), Quantizer),
        ("context_encoder", TableEncoder({"cup": [1.0, 0.0]}), ContextEncoder),
    ):
        names, of = repr(part).partition(" object at")[0], type(part)
        assert guarded(part, kind, "lab/it") is part
        assert guarded(part, kind, "lab/it") is part
        assert isinstance(part, of)
        assert isinstance(part, contract)
        assert not isinstance(part, RevisingAgent)
        assert repr(part).partition(" object at")[0] == names
    assert list(ScriptedAgent("look").state_dict()) == list(
        guarded(ScriptedAgent("x"), "agent", "a/b").state_dict()
    )
    assert isinstance(guarded(CosineQuantizer(), "quantizer", "lab/it").index(), KeyIndex)


def test_the_text_of_a_vector_that_is_not_finite_is_the_one_that_is_named():
    rows = torch.tensor([[1.0, 2.0], [3.0, float("nan")], [5.0, 6.0], [float("inf"), 7.0]])
    encoder = SimpleNamespace(dim=2, identity="words", encode=lambda texts: rows[: len(texts)])
    part = guarded(encoder, "text_encoder", "lab/it")
    assert part.encode(["cup"]).tolist() == [[1.0, 2.0]]
    with pytest.raises(RunFailed, match="not finite for the text 'rack'"):
        part.encode(["cup", "rack", "shelf", "hat"])


def test_parts_of_any_make_are_guarded():
    """With slots, frozen, with a method beside the class, with everything by delegation."""
    from dataclasses import dataclass

    class Slotted:
        __slots__ = ()

        def select(self, buffer, rng):
            return None

    @dataclass(frozen=True)
    class Frozen:
        def select(self, buffer, rng):
            return None

    class Delegating:
        def __getattr__(self, name):
            if name != "select":
                raise AttributeError(name)
            return lambda buffer, rng: None

    beside = Frozen()
    vars(beside)["select"] = lambda buffer, rng: None
    for part in (Slotted(), Frozen(), beside, SimpleNamespace(select=lambda buffer, rng: None), Delegating()):
        with pytest.raises(RunFailed, match=r"retain policy lab/it: select\(\.\.\.\) gave None"):
            guarded(part, "retain_policy", "lab/it").select([], None)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, "None, expected a floating tensor"),
        (torch.zeros(2, dtype=torch.int64), "torch.int64, expected a floating tensor"),
        (torch.zeros(3), "shape (3,), expected (2,)"),
        (torch.zeros(2, 1), "shape (2, 1), expected (2,)"),
        (torch.tensor([0.0, torch.nan]), "a value that is not finite for ('rack', 'cup'), expected finite ones"),
        (torch.tensor([torch.inf, 0.0]), "a value that is not finite for ('cup', 'rack'), expected finite ones"),
    ],
)
def test_what_a_pair_feature_gives_is_checked(given: object, told: str):
    feature = guarded(SimpleNamespace(values=lambda pairs: given), "pair_feature", "lab/it")
    with pytest.raises(RunFailed, match=re.escape(f"pair feature lab/it: values(...) gave {told}")):
        feature.values([("cup", "rack"), ("rack", "cup")])


class Told(CosineQuantizer):
    """Gives the same similarities whatever is compared."""

    def __init__(self, *values: float) -> None:
        super().__init__()
        self.values = torch.tensor(values, dtype=torch.float64)

    def similarity(self, contexts, keys):
        return self.values

    pair_similarity = similarity

    def index(self):
        index = DenseIndex()
        index.add(torch.ones(len(self.values), 2))
        index.similarities = lambda queries: self.values[None]
        return index


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        ([0.0, 1.0], None),
        ([1 + 1e-4, -1e-4], None),  # as far as rounding may carry
        ([0.5, 1.0002], "1.0002"),
        ([-0.0002, 0.5], "-0.0002"),
        ([1.5, 0.5], "1.5"),
        ([-1.0, 1.0], "-1"),
    ],
)
@pytest.mark.parametrize("method", ["similarity", "pair_similarity", "similarities"])
def test_a_similarity_may_leave_0_to_1_by_rounding_alone(method: str, values: list[float], wrong: str | None):
    part = guarded(Told(*values), "quantizer", "lab/it")
    ones = torch.ones(2, 2)
    ask = {"similarities": lambda: part.index().similarities(torch.ones(1, 2))}
    call = ask.get(method, lambda: getattr(part, method)(ones, ones))
    if wrong is None:
        assert call().flatten().tolist() == values
    else:
        with pytest.raises(RunFailed, match=re.escape(f"{method}(...) gave {wrong}, expected values in [0, 1]")):
            call()


def test_an_index_need_not_look_everywhere():
    index = guarded(Told(-torch.inf, 1.0), "quantizer", "lab/it").index()
    assert index.similarities(torch.ones(1, 2)).tolist() == [[-torch.inf, 1.0]]


CASE = Case(0, "take {}", ("cup",), "take cup", Provenance("g", 0, 1, 1, 1.0))
LOOK, TAKE = act("look"), act("take {}", "cup")


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        ([[Match(CASE, 0.71)], []], None),
        (((), [Match(CASE, 1 + 1e-4)]), None),
        ([[Match(CASE, 0.7)], []], "gave the relevance 0.7, expected one above the threshold 0.7"),
        ([[Match(CASE, 0.9), Match(CASE, 0.2)], []], "gave the relevance 0.2, expected one above"),
        ([[], [Match(CASE, 1.0002)]], "gave the relevance 1.0002, expected"),
        ([[], [Match(CASE, torch.nan)]], "gave the relevance nan, expected a finite"),
        ([[], [CASE]], "expected a Match"),
        ([[]], "gave 1 lists, expected 2"),
        ([[], [], []], "gave 3 lists, expected 2"),
        (None, "gave None, expected lists of matches"),
    ],
)
def test_what_a_memory_finds_is_checked(found: object, wrong: str | None):
    memory = CaseMemory(DenseIndex(), threshold=0.7)
    memory.retrieve = lambda keys: found
    guarded(memory, "memory", "lab/it")
    if wrong is None:
        assert memory.retrieve(torch.ones(2, 3)) is found
    else:
        with pytest.raises(RunFailed, match=r"memory lab/it: retrieve\(\.\.\.\) gave") as told:
            memory.retrieve(torch.ones(2, 3))
        assert wrong in str(told.value)


MEMORY = [
    ({"add": lambda item, provenance, *, step: None}, "add(...) gave None, expected a Case"),
    ({"stores": lambda: None}, "stores(...) gave None, expected a mapping"),
    ({"stores": dict}, "stores(...) gave {}, expected 'memory' as one of them"),
    ({"read": lambda folder: []}, "read(...) gave [], expected StoredCases"),
    ({"similarities": lambda keys: torch.ones(1, 9)}, "similarities(...) gave shape (1, 9), expected (1, 0)"),
    ({"similarities": lambda keys: None}, "similarities(...) gave None, expected a floating tensor"),
    ({"threshold": None}, "the attribute threshold gave the threshold None, expected a finite int or float"),
    ({"threshold": torch.nan}, "the attribute threshold gave the threshold nan, expected a finite"),
]


@pytest.mark.parametrize(("given", "wrong"), MEMORY)
def test_what_else_a_memory_gives_is_checked(given: dict, wrong: str):
    memory = CaseMemory(DenseIndex(), threshold=0.7)
    vars(memory).update(given)
    with pytest.raises(RunFailed, match=re.escape(f"memory lab/it: {wrong}")):  # noqa: PT012
        guarded(memory, "memory", "lab/it")
        ask = {
            "add": lambda: memory.add(item(torch.ones(3), TAKE), CASE.provenance, step=1),
            "similarities": lambda: memory.similarities(torch.ones(1, 3)),
            "read": lambda: memory.read(Path()),
        }
        ask.get(next(iter(given)), memory.stores)()


def offered(verdict: str, action=TAKE, means=None) -> Candidate:
    return Candidate(action, Match(CASE, 0.9), ("cup",), verdict, means)


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ((), None),
        ((offered("admissible"), offered("inadmissible", act("eat {}", "cup"))), None),
        ([offered("pending", act("eat {}", "cup"), LOOK)], None),
        ((offered("admissible", act("eat {}", "cup")),), "an admissible action to execute"),
        ((offered("pending", TAKE, act("eat {}", "cup")),), "an admissible action to execute"),
        ((TAKE,), "expected a Candidate"),
        (None, "gave None, expected candidates"),
    ],
)
def test_what_a_reuse_policy_offers_is_checked(given: object, wrong: str | None):
    reuse = SimpleNamespace(
        asks=lambda seen: (), offer=lambda seen, situation: given, choose=max, observe=lambda *_: False
    )
    policy = guarded(SimpleNamespace(begin=lambda retriever, learning: reuse), "reuse_policy", "lab/it")
    begun = policy.begin(None, learning=False)
    if wrong is None:
        assert begun.offer(observation(LOOK, TAKE), None) is given
    else:
        with pytest.raises(RunFailed, match="reuse policy lab/it: offer") as told:
            begun.offer(observation(LOOK, TAKE), None)
        assert wrong in str(told.value)


@pytest.mark.parametrize("who", ["agent", "reuse policy"])
@pytest.mark.parametrize("given", ["none", "first", "last", "equal", "other"])
def test_one_of_the_candidates_themselves_is_chosen(who: str, given: str):
    candidates = [offered("admissible"), offered("failed"), offered("inadmissible")]
    chosen = {"none": None, "first": candidates[0], "last": candidates[-1],
              "equal": offered("admissible"), "other": offered("solved")}[given]  # fmt: skip
    if who == "agent":
        agent = ScriptedAgent("look")
        agent.revise = lambda candidates, drawn: chosen
        revise = guarded(agent, "agent", "lab/it").revise
    else:
        plain = SimpleNamespace(asks=max, offer=max, observe=max, choose=lambda candidates, probability: chosen)
        policy = guarded(SimpleNamespace(begin=lambda retriever, learning: plain), "reuse_policy", "lab/it")
        revise = policy.begin(None, learning=True).choose
    if given in ("equal", "other"):
        with pytest.raises(RunFailed, match="expected one of the candidates, or None"):
            revise(candidates, None)
    else:
        assert revise(candidates, None) is chosen


class Raising:
    """A recorder each of whose methods raises."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def begin(self, folder, recipe, *, after):
        raise self.error

    def write(self, row):
        raise self.error

    finish = close = write


@pytest.mark.parametrize("error", [ValueError("torn"), OSError(28, "full"), RunFolderError("no such run")])
@pytest.mark.parametrize("method", ["begin", "write", "finish"])
def test_whoever_calls_a_recorder_or_a_memory_says_what_is_wrong_with_a_file(method: str, error: Exception):
    recorder = guarded(Raising(error), "recorder", "lab/it")
    calls = {"begin": lambda: recorder.begin(None, {}, after=0), "write": lambda: recorder.write({}),
             "finish": lambda: recorder.finish({})}  # fmt: skip
    with pytest.raises(type(error)) as told:
        calls[method]()
    assert told.value is error


@pytest.mark.parametrize("error", [SystemExit(0), KeyboardInterrupt(), GeneratorExit()])
def test_a_recorder_that_wants_to_end_the_process_fails(error: BaseException):
    with graceful_interrupt(), pytest.raises(RunFailed, match="the recorder lab/it failed in write"):
        guarded(Raising(error), "recorder", "lab/it").write({})


def test_of_what_only_a_part_calls_an_error_is_its_failure():
    """A memory may fail at a file, not at a question."""
    memory = CaseMemory(DenseIndex())
    memory.retrieve = memory.load = lambda _: 1 / 0
    guarded(memory, "memory", "lab/it")
    with pytest.raises(RunFailed, match="the memory lab/it failed in retrieve: ZeroDivisionError"):
        memory.retrieve(torch.ones(1, 2))
    with pytest.raises(ZeroDivisionError):
        memory.load(Path())


def test_ctrl_c_stays_an_interrupt():
    def interrupted(times: int) -> KeyboardInterrupt:
        try:
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as error:
            return error
        raise AssertionError("no interrupt")

    with pytest.raises(KeyboardInterrupt), making("agent", "lab/it"):
        signal.raise_signal(signal.SIGINT)  # outside of a run: Python's own handler
    with graceful_interrupt() as stop:
        assert of_the_user(interrupted(2))
        assert stop
    with graceful_interrupt(), pytest.raises(RunFailed, match="KeyboardInterrupt"), making("agent", "lab/it"):
        raise KeyboardInterrupt


def test_an_update_whose_loss_is_not_finite_is_skipped_and_the_run_goes_on(lab, tmp_path: Path):
    """A finite reward may be too large for a loss: no part gave anything wrong."""
    done = lab(with_result("replace(result, reward=1e38 if self._game == 'books' and not once.append(1) and "
                           "len(once) == 4 else result.reward)", at=1) + "once = []")  # fmt: skip
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "out" / "run.log").read_text()
    assert "agent: update skipped" in log
    assert json.loads((tmp_path / "out" / "results.json").read_text())["training"]["skipped_updates"] >= 1


def test_weights_that_are_not_finite_any_more_are_told_apart_from_a_wrong_part(lab, tmp_path: Path):
    lines = f"""
train = Linear.train
def spoil(self, mode=True):
    if not mode and self.training:
        with torch.no_grad():
            self.weight.mul_({NAN})
    return train(self, mode)
Linear.train = spoil
Linear.__init__ = (lambda init: lambda self, *args: (init(self, *args), train(self, False))[0])(Linear.__init__)
"""
    done = lab(lines)
    assert done.returncode == 1
    assert "the agent toylab/linear diverged" in done.stderr
    assert "lower the learning rates" in done.stderr


# Texts


@pytest.mark.parametrize("thing", ["b\udce9d", "\ud83d", "x\udfff y", "a\ud83d\udc80"])
def test_half_characters_are_replaced_where_they_enter(thing: str, lab, here, tmp_path: Path):
    goals = {f"books{thing}": {thing: "shelf"}, "plates": {f"{thing}x": "rack"}}
    lines = f"import toy\ntoy.GAMES = {goals!a}\nToy.games = lambda self, split: tuple(toy.GAMES)"
    done = lab(lines)
    assert done.returncode == 0, done.stderr
    out, plugin = tmp_path / "out", tmp_path / "toylab.py"
    assert (out / "results.json").read_text(encoding="utf-8")
    escaped = thing.encode("utf-8", "backslashreplace").decode()
    games = [json.loads(line)["game"] for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert f"books{escaped}" in games
    play = ["play", out, "--plugin", plugin]
    for command in (["cases", "list", out], ["cases", "export", out, tmp_path / "exported"], play):
        told = here(*command)
        assert told.returncode == 0, (command, told.stderr)


OWN = ["b\udce9d", "b\udceed", "béd"]


def test_different_half_characters_stay_different_and_the_game_gets_its_own():
    class Odd(toy.ToyEnvironment):
        def reset(self, game, seed):
            super().reset(game, seed)
            self._goals = dict(zip(OWN, ("shelf", "rack", "hook"), strict=True))
            self._where = dict.fromkeys(self._goals, "floor")
            return self._observe("", None)

        def step(self, action):
            self.got = action
            return super().step(action)

    odd = guarded(Odd(), "environment", "lab/odd")
    first = odd.reset("books", 1)
    texts = [action.text for action in first.admissible]
    assert len(set(texts)) == 4
    "".join([*texts, *first.graph.nodes]).encode()
    for own in OWN:
        odd.reset("books", 1)
        clean = own.encode("utf-8", "backslashreplace").decode()
        (action,) = [each for each in first.admissible if each.entities == (clean,)]
        assert odd.step(action).observation.last_action == f"take {clean}"
        assert odd.got.entities == (own,)


def test_a_state_is_loaded_whatever_its_games_are_called():
    class Odd(toy.ToyEnvironment):
        def games(self, split):
            return (OWN[0],)

        def state(self):
            return {"played": 3}

        def load_state(self, state):
            self.loaded = state

    odd = guarded(Odd(), "environment", "lab/odd")
    assert odd.games("train") != (OWN[0],)
    odd.load_state({"played": 3})
    assert odd.loaded == {"played": 3}


class Played(toy.ToyEnvironment):
    """Gives what it is told to give."""

    def __init__(self, *given) -> None:
        super().__init__()
        self.given = list(given)

    def reset(self, game, seed):
        return self.given.pop(0)


def test_what_is_sound_is_given_as_it_is():
    """The very objects, also when they come again; of an unsound one all is replaced."""
    seen = observation(LOOK, TAKE)
    again, odd = replace(seen, feedback="again"), observation(act("look \ud83d"))
    part = guarded(Played(seen, again, seen, odd), "environment", "lab/it")
    assert [part.reset("books", 1) is given for given in (seen, again, seen, odd)] == [True, True, True, False]


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The templates of the actions that a border looked at."""
    looked: list[str] = []
    arity = games.arity
    monkeypatch.setattr(games, "arity", lambda template: (looked.append(template), arity(template))[1])
    return looked


def test_an_action_that_comes_again_is_not_looked_at_again(checks: list[str]):
    border = GameBorder(KINDS["environment"], "lab/it")
    many = [act(f"look {number}") for number in range(REMEMBERED // 2)]
    for offered in ((LOOK, TAKE), (TAKE, LOOK), (LOOK,), (*many, LOOK), tuple(reversed(many))):
        border.observation(observation(*offered))
    assert checks == ["look", "take {}", *(action.template for action in many)]


def test_what_is_remembered_as_sound_is_bounded():
    border = GameBorder(KINDS["environment"], "lab/it")
    for number in range(3 * REMEMBERED):
        border.observation(observation(act(f"look {number}")))
        assert len(border._sound) <= REMEMBERED + 3


def test_a_failure_says_game_seed_and_step_of_its_play():
    part = guarded(toy.ToyEnvironment(), "environment", "lab/it")
    for game, seed in (("books", 1), ("plates", 7)):
        first = part.reset(game, seed)
        part.step(first.admissible[0])
        with pytest.raises(RunFailed, match=re.escape(f"failed in step (game '{game}', seed {seed}, step 2): ")):
            part.step(act("fly"))
    with pytest.raises(RunFailed, match=re.escape("failed in reset (game 'moon', seed 2): KeyError")):
        part.reset("moon", 2)
    with pytest.raises(RunFailed, match=re.escape("failed in game_info: KeyError")):
        part.game_info("moon")


@pytest.mark.parametrize("thing", ["[/red] lid [bold]", "<b>lid</b>", "100% {cup", "späti ☕"])
def test_marks_in_a_games_text_are_shown_as_they_are(thing: str, lab, here, tmp_path: Path):
    done = lab(f"import toy\ntoy.GAMES['books'] = {{{thing!r}: 'shelf'}}")
    assert done.returncode == 0, done.stderr
    told = here("play", tmp_path / "out", "--plugin", tmp_path / "toylab.py", "--game", "books")
    assert told.returncode == 0, told.stderr
    assert " ".join(thing.split()) in " ".join(told.stdout.split())


# Nothing to do


@pytest.mark.parametrize("at", [0, 1, 2])
def test_where_nothing_can_be_done_the_episode_ends_and_is_counted(at: int, lab, here, tmp_path: Path):
    lines = f"""
observe = Toy._observe
def emptied(self, feedback, last):
    seen = observe(self, feedback, last)
    return replace(seen, admissible=()) if self._game == "books" and self._steps >= {at} else seen
Toy._observe = emptied
"""
    done = lab(lines)
    assert done.returncode == 0, done.stderr
    out, plugin = tmp_path / "out", tmp_path / "toylab.py"
    results = json.loads((out / "results.json").read_text())
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert results["training"]["endings"]["no_actions"] == 4
    assert results["evaluation"]["in"]["endings"]["no_actions"] == 1
    assert {row["steps"] for row in rows if row["ending"] == "no_actions"} == {at}
    told = here("play", out, "--plugin", plugin, "--game", "books")
    assert told.returncode == 0, told.stderr
    assert "no_actions" in told.stdout
    report = here("report", out, "--plugin", plugin, "--out", tmp_path / "report")
    assert report.returncode == 0, report.stderr


def test_a_budget_of_steps_does_not_wait_for_games_that_offer_nothing(lab):
    lines = "observe = Toy._observe\nToy._observe = lambda *a: replace(observe(*a), admissible=())"
    done = lab(lines, "--set", "run.episodes=null", "--set", "run.env_steps=30")
    assert done.returncode == 1
    assert "no game offers anything to do" in done.stderr
