"""The border around parts: what a part gives that is not as its contract says stops the run and names the part."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbrcore.cycle.reasoner import first_order
from cbrcore.types import fill

TESTS = Path(__file__).parent
PLUGIN = TESTS / "odd_parts.py"
SMOKE = TESTS.parent / "recipes" / "smoke" / "text_cbr_generated.yaml"
SETTINGS = {
    "environment": "{use: odd_parts/odd}",
    "text_encoder.use": "odd_parts/odd",
    "text_encoder.dim": "24",
    "context_encoder.use": "odd_parts/odd",
    "context_encoder.heads": "4",
    "quantizer": "{use: odd_parts/odd}",
    "memory.use": "odd_parts/odd",
    "memory.threshold": "0",
    "retain_policy.use": "odd_parts/odd",
    "agent.use": "odd_parts/odd",
    "agent.unit": "sentence",
    "agent.hidden": "8",
    "learner": "{use: odd_parts/odd}",
    "training.retriever_learning_rate": "0.001",
    "training.pretrain.episodes": "0",
    "evaluation.modes": "[sampled]",
    "evaluation.splits": "[in]",
    "recorders": "[]",
    "run.episodes": "6",
}


@pytest.fixture
def play(here, tmp_path, monkeypatch):
    """Runs the recipe of odd parts, one of which is odd; (exit code, stderr, its log, its folder)."""

    def call(odd: str, *words):
        monkeypatch.setenv("ODD", odd)
        sets = [word for item in SETTINGS.items() for word in ("--set", "=".join(item))]
        out = tmp_path / "run"
        done = here("run", SMOKE, *sets, *words, "--out", out, "--plugin", PLUGIN)
        log = (out / "run.log").read_text() if (out / "run.log").exists() else ""
        return done.returncode, done.stderr, log, out

    return call


def test_sound_parts_run(play):
    code, told, _, out = play("")
    assert code == 0, told
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert sum(row["reused"] for row in rows) > 0  # the memory is asked


GAME = ("odd_parts/odd", "game '", "seed ", "step ")
ODD = {
    # games
    "environment.step|None": ("step(...) gave None, expected a StepResult", *GAME),
    "environment.step|replace(given, reward='1')": ("reward '1', expected a finite int or float", *GAME),
    "environment.step|replace(given, reward=INF)": ("the reward inf, expected a finite int or float", *GAME),
    "environment.step|replace(given, reward=NAN)": ("the reward nan", *GAME),
    "environment.step|replace(given, reward=10**400)": ("the reward 1000", *GAME),
    "environment.step|replace(given, reward=None)": ("the reward None", *GAME),
    "environment.step|replace(given, ending='won!')": ("gave 'won!', expected an Ending or None", *GAME),
    "environment.step|replace(given, observation=None)": ("gave None, expected an Observation", *GAME),
    "environment.step|replace(given, observation=replace(given.observation, max_score=INF))": ("max_score inf",),
    "environment.step|replace(given, observation=replace(given.observation, score=NAN))": ("the score nan", *GAME),
    "environment.step|replace(given, observation=replace(given.observation, feedback=None))": ("feedback None",),
    "environment.step|replace(given, observation=replace(given.observation, admissible=('look',)))": (
        "gave 'look', expected an Action",
    ),
    "environment.step|replace(given, observation=replace(given.observation, admissible=[]))": ("admissible []",),
    "environment.step|replace(given, observation=replace(given.observation, "
    "admissible=(Action('eat it', 'eat {}', ('that',)),)))": ("expected the template, filled",),
    "environment.step|replace(given, observation=replace(given.observation, graph=StateGraph(('a', 3))))": (
        "expected a graph of names",
    ),
    "environment.reset|replace(given, max_score=NAN)": ("reset(...) gave the max_score nan", "game '"),
    "environment.reset|'a room'": ("reset(...) gave 'a room', expected an Observation", "game '"),
    "environment.games!|'train'": ("games(...) gave 'train', expected a tuple of names",),
    "environment.games!|(1, 2)": ("games(...) gave 1, expected text as a name",),
    "environment.game_info!|{'max_score': INF}": ("game_info(...) gave", "expected what fits in JSON"),
    "environment.game_info!|None": ("game_info(...) gave None, expected a mapping",),
    "environment.step|throw(ValueError('torn'))": ("the environment odd_parts/odd failed in step", "torn"),
    "environment.step|throw(SystemExit(0))": ("the environment odd_parts/odd failed in step", "SystemExit: 0"),
    "environment.step|throw(KeyboardInterrupt())": ("failed in step", "KeyboardInterrupt"),
    "environment.reset|throw(GeneratorExit())": ("failed in reset", "GeneratorExit"),
    # vectors
    "text_encoder.encode!|given * NAN": ("text encoder odd_parts/odd: encode(...) gave", "for the text '"),
    "text_encoder.encode!|given[:, :-1]": ("gave shape (", ", 23), expected (", ", 24)"),
    "text_encoder.encode!|given.tolist()": ("expected a floating tensor",),
    "text_encoder.encode!|given.long()": ("gave torch.int64, expected a floating tensor",),
    "context_encoder.contexts_of_pairs|given * INF": ("context encoder odd_parts/odd", "not finite"),
    "context_encoder.contexts_of_pairs|given[:-1]": ("contexts_of_pairs(...) gave shape ("),
    "context_encoder.situation|[given]": ("situation(...) gave", "expected something hashable"),
    "quantizer.keys|given[:, :-1]": ("quantizer odd_parts/odd: keys(...) gave shape (",),
    "quantizer.keys|given * NAN": ("quantizer odd_parts/odd: keys(...) gave values that are not finite",),
    "quantizer.keys|None": ("keys(...) gave None, expected a tensor",),
    "quantizer.similarity!|given * 7 + 2": ("quantizer odd_parts/odd: similarity(...) gave", "values in [0, 1]"),
    "quantizer.similarity!|given[:, None]": ("similarity(...) gave shape (", ", 1), expected ("),
    "quantizer.regularizer!|given + torch.zeros(2)": ("regularizer(...) gave shape (2,), expected ()",),
    "index.similarities!|given * NAN": ("quantizer odd_parts/odd: similarities(...) gave nan",),
    "index.similarities!|given * 0 + 5": ("similarities(...) gave 5, expected values in [0, 1]",),
    "index.similarities!|given * 0 - 1": ("similarities(...) gave -1, expected values in [0, 1]",),
    "index.similarities!|torch.cat([given, given[:, :1]], dim=1)": (
        "similarities(...) gave shape (", "expected (",
    ),
    "memory.retrieve!|given[:-1]": ("memory odd_parts/odd: retrieve(...) gave",),
    "memory.retrieve!|[[replace(m, relevance=NAN) for m in one] for one in given]": ("the relevance nan",),
    "memory.retrieve!|[[replace(m, relevance=7.0) for m in one] for one in given]": ("the relevance 7, expected",),
    "retain_policy.select!|[replace(item) for item in given]": ("retain policy odd_parts/odd: select(...) gave",),
    "retain_policy.select!|None": ("select(...) gave None, expected a list of items",),
    # agents and learners
    "agent.policy!|[replace(o, value=o.value.reshape(1)) for o in given]": ("gave shape (1,), expected ()",),
    "agent.policy!|[replace(o, logits=o.logits[:-1]) for o in given]": (
        "agent odd_parts/odd: policy(...) gave shape",
    ),
    "agent.policy!|[replace(o, logits=o.logits * NAN) for o in given]": (
        "policy(...) gave values that are not finite",
    ),
    "agent.policy!|[replace(o, value=None) for o in given]": (
        "policy(...) gave None, expected a floating tensor",
    ),
    "agent.policy!|[]": ("policy(...) gave 0 outputs, expected 1",),
    "agent.policy|throw(SystemExit(3))": ("the agent odd_parts/odd failed in policy", "SystemExit: 3"),
    "learner.pop_losses|{'loss_policy': NAN}": ("learner odd_parts/odd: pop_losses(...) gave loss_policy nan",),
    "learner.pop_losses|[1]": ("pop_losses(...) gave [1], expected a mapping",),
    "learner.took_step|throw(SystemExit(0))": ("the learner odd_parts/odd failed in took_step", "SystemExit: 0"),
    # factories
    "agent|None": ("agent odd_parts/odd: its factory gave None, expected a part of the kind NeuralAgent",),
    "agent|type(part)": ("its factory gave <class", "it lacks initial_state"),
    "agent|throw(ValueError('no heads'))": ("the agent odd_parts/odd could not be made: ValueError: no heads",),
    "agent|throw(SystemExit(0))": ("the agent odd_parts/odd could not be made: SystemExit: 0",),
    "environment|object()": ("environment odd_parts/odd: its factory gave <object", "it lacks handicaps"),
    "environment|None": ("its factory gave None, expected a part of the kind Environment",),
    "quantizer|7": ("quantizer odd_parts/odd: its factory gave 7, expected a part of the kind Quantizer",),
    "index|None": ("quantizer odd_parts/odd: index(...) gave None, expected a part of the kind KeyIndex",),
    "memory|[]": ("memory odd_parts/odd: its factory gave []",),
    "retain_policy|print": ("its factory gave <built-in function print>", "RetainPolicy: it lacks select"),
    "learner|None": ("learner odd_parts/odd: its factory gave None",),
    "text_encoder|''": ("text encoder odd_parts/odd: its factory gave ''",),
}  # fmt: skip


@pytest.mark.parametrize(("odd", "says"), ODD.items(), ids=ODD)
def test_what_is_not_as_it_should_be_is_named(play, odd, says):
    code, told, log, _ = play(odd)
    assert code == 1, told
    for part in (says,) if isinstance(says, str) else says:
        assert part in told, told
    assert "Traceback" not in told
    if "throw(" in odd:
        assert "Traceback" in log


def test_weights_that_training_has_ruined_are_no_fault_of_a_part(play):
    """The learner skips such updates, and gives up after some, in words of its own."""
    code, told, *_ = play("", "--set", "training.agent_learning_rate=1", "--set", "training.clip=1e30")
    assert code in (0, 1)
    assert "gave values that are not finite" not in told


HALF = "b\\udc"


def test_half_a_character_is_replaced_where_it_enters_and_the_game_gets_its_own(here, tmp_path, monkeypatch, play):
    """A game whose thing is called by half a character is played, learned, listed and exported as any other."""
    monkeypatch.setenv("ODD", "")
    monkeypatch.setitem(SETTINGS, "environment", "{use: odd_parts/odd}")
    import toy

    monkeypatch.setitem(toy.GAMES, "books", {"b\udce9d": "shelf", "b\udceaf": "rack"})
    monkeypatch.setitem(toy.GAMES, "plates", {"[/red] lid [bold]": "rack"})
    code, told, _, out = play("")
    assert code == 0, told
    assert HALF in (out / "memory" / "cases.jsonl").read_text(encoding="utf-8").replace("\\\\", "\\")
    listed = here("cases", out)
    assert listed.returncode == 0, listed.stderr
    assert HALF in listed.stdout
    assert "[/red] lid [bold]" in listed.stdout
    exported = here("cases", "export", out, tmp_path / "cases")
    assert exported.returncode == 0, exported.stderr


@pytest.mark.parametrize("method", ["step", "reset"])
def test_nothing_to_do_is_an_ending_that_is_counted(play, method):
    stuck = "replace(given, admissible=())"
    stuck = (
        f"replace(given, observation={stuck.replace('given', 'given.observation')})" if method == "step" else stuck
    )
    code, told, _, out = play(f"environment.{method}|{stuck}")
    assert code == 0, told
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    ended = [row for row in rows if row["ending"] == "no_actions"]
    assert ended
    assert {row["steps"] for row in ended} == ({0} if method == "reset" else {1, 3})  # from the third answer on
    results = json.loads((out / "results.json").read_text())
    assert results["training"]["endings"]["no_actions"] == len(ended)
    assert results["evaluation"]["in"]["endings"] == {
        "no_actions": results["evaluation"]["in"]["endings"]["no_actions"]
    }


# -- the order of entities ---------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "aa", "b", "ab", "a b", "key", "key ring"])


@given(st.data(), st.lists(NAMES, min_size=0, max_size=5))
def test_the_first_order_that_is_admissible_is_found_as_by_trying_all(data, entities):
    template = (
        " ".join(["put", *["{}"] * len(entities)]) if data.draw(st.booleans()) else "x" + "{}" * len(entities)
    )
    orders = [fill(template, order) for order in permutations(entities)]
    texts = data.draw(st.lists(st.sampled_from(orders) | st.just("look"), max_size=4))
    assert first_order(template, entities, dict.fromkeys(texts)) == next((t for t in orders if t in texts), None)


@pytest.mark.parametrize("slots", [6, 8, 9, 10, 12, 20])
@pytest.mark.parametrize("found", [True, False])
def test_many_slots_take_no_time(slots, found, benchmark_seconds):
    entities = [f"thing {number}" for number in range(slots)]
    template = "craft " + " with ".join(["{}"] * slots)
    texts = {fill(template, entities[:1] + entities[:0:-1])} if found else {"look"}
    texts |= {fill(template, [*entities[:-1], f"other {number}"]) for number in range(200)}
    answer = benchmark_seconds(lambda: first_order(template, entities, texts), 0.1)
    assert (answer is not None) == found
