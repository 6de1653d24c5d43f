"""`cbr play`: what is shown of a decision is what was decided, and watching changes nothing."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import typer

import cbrcore as cbr
from cbr_open.compared import policy_of
from cbr_open.explanations import SHOWN, decision_lines, explain
from cbr_watch.command import chosen
from cbr_watch.watching import watch
from cbrcore import Action, Candidate, Case, CbrError, Decision, Match, Provenance

pytestmark = pytest.mark.usefixtures("cache_here")

ROOT = Path(__file__).parents[2]
README = ROOT / "plugins" / "cbr_watch" / "README.md"
SMOKE = ROOT / "recipes" / "smoke"
TINY = {
    "environment": "{use: cbr_twc/twc, source: generate, games_per_split: 2, max_steps: 8}",
    "text_encoder": "{use: cbr_text_encoders/untrained, dim: 24}",
    "evaluation": "{splits: [], passes: 1}",
    "run.episodes": 1,
}
PUT = "put {} on {}"


def train(here, recipe: Path, folder: Path, **sets: object) -> Path:
    words = [word for key, value in sets.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]
    done = here("run", recipe, *words, "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def run(here, tmp_path_factory) -> Path:
    """Trained until it has cases that it reuses on the games of the training."""
    folder = tmp_path_factory.mktemp("play") / "run"
    return train(
        here,
        SMOKE / "text_cbr_generated.yaml",
        folder,
        run__episodes=6,
        evaluation="{splits: [in], passes: 1, random_passes: 1, modes: [sampled]}",
    )


class Recorder:
    """Keeps what it is told; types an action, if it is given one."""

    def __init__(self, types=lambda observation, explained: None) -> None:
        self.types = types
        self.starts, self.explained, self.steps = [], [], []

    def begins(self, start):
        self.starts.append(start)

    def decided(self, observation, explained):
        self.explained.append(explained)
        return self.types(observation, explained)

    def stepped(self, step):
        self.steps.append(step)


@pytest.fixture(scope="module")
def watched(run):
    """(episodes, what the watcher was told, tau) of two games of the training."""
    recorder = Recorder()
    with cbr.open(run) as opened:
        episodes = watch(opened, recorder, split="train", episodes=2)
        tau = opened.parts.reasoner.retriever.threshold
    return episodes, recorder, tau


def transitions(episodes):
    return [transition for episode in episodes for transition in episode.transitions]


def test_cases_are_reused_and_the_agent_is_asked(watched):
    episodes, recorder, _ = watched
    assert {explained.source for explained in recorder.explained} == {"reuse", "agent"}
    assert [start.game for start in recorder.starts] == [episode.game for episode in episodes]
    assert len({start.game for start in recorder.starts}) == 2


def test_each_explanation_is_that_of_the_recorded_decision(watched):
    episodes, recorder, tau = watched
    steps = transitions(episodes)
    assert len(steps) == len(recorder.explained) == len(recorder.steps) > 0
    for transition, explained, step in zip(steps, recorder.explained, recorder.steps, strict=True):
        decision = transition.decision
        assert (explained.action, explained.source) == (decision.action.text, decision.source)
        assert explained.agent_action == decision.agent_action.text
        assert (explained.probability, explained.value) == (decision.agent_probability, decision.value)
        assert explained.tau == tau
        assert [found.case for found in explained.retrieved] == [c.match.case.id for c in decision.candidates]
        for found, candidate in zip(explained.retrieved, decision.candidates, strict=True):
            origin, case = candidate.match.case.provenance, candidate.match.case
            assert (found.command, found.template, found.context) == (case.text, case.template, candidate.seeds)
            assert (found.origin.game, found.origin.episode) == (origin.game, origin.episode)
            assert (found.origin.step, found.origin.reward) == (origin.step, origin.reward)
            assert found.relevance == candidate.match.relevance > tau
            assert (found.reused_as, found.verdict) == (candidate.action.text, candidate.verdict)
            assert found.chosen == (candidate is decision.chosen)
        assert (step.explained, step.result) == (explained, transition.result)


def test_the_agents_probabilities_and_the_nearest_case_agree_with_the_decision(
    run, watched, cache_dir, monkeypatch
):
    monkeypatch.setenv("CBR_CACHE", str(cache_dir))
    episodes, recorder, tau = watched
    with cbr.open(run) as opened:
        for transition, explained in zip(transitions(episodes), recorder.explained, strict=True):
            policy = policy_of(opened.parts.reasoner, transition.trace)
            decision = transition.decision
            assert sum(policy.values()) == pytest.approx(1)
            assert policy[decision.action] == pytest.approx(decision.agent_probability, abs=1e-6)
            assert policy[decision.agent_action] == pytest.approx(explained.agent_probability, abs=1e-6)
    for explained in recorder.explained:
        if explained.retrieved:
            assert explained.nearest.relevance == explained.retrieved[0].relevance
        elif explained.nearest is not None and "similar enough" in explained.reason:
            assert explained.nearest.relevance <= tau
    assert any(explained.nearest and not explained.retrieved for explained in recorder.explained)


def test_the_plays_are_those_that_were_measured(here, run):
    results = json.loads((run / "results.json").read_text())["evaluation"]["in"]
    done = here("play", run, "--split", "in", "--episodes", 2, "--json")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == results["total_steps"]
    assert sum(line["source"] == "reuse" for line in lines) == results["reused"]


def digest(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_json_lines_hold_the_documented_fields_and_the_run_stays_as_it_is(here, run, watched):
    before = digest(run)
    done = here("play", run, "--split", "train", "--episodes", 2, "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert digest(run) == before
    _, recorder, _ = watched
    assert lines == [json.loads(json.dumps(step.data())) for step in recorder.steps]
    (table,) = re.findall(r"\| field \| what \|\n\|---\|---\|\n((?:\|.*\n)+)", README.read_text())
    assert set(re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in table.splitlines()))) == set(lines[0])


def test_the_text_tells_retrieval_reuse_and_the_agents_own_choice(here, run, watched):
    done = here("play", run, "--split", "train", "--episodes", 2)
    assert done.returncode == 0, done.stderr
    _, recorder, _ = watched
    assert "\x1b" not in done.stdout
    text = " ".join(done.stdout.split())
    for step in recorder.steps:
        assert f"> {step.explained.action} ({step.explained.source};" in text
        for found in step.explained.retrieved[:SHOWN]:
            assert f"case #{found.case} {found.command!r}: relevance {found.relevance:.2f} > tau" in text
            assert f"from {found.origin.game}, episode {found.origin.episode}, step {found.origin.step}" in text
            assert f"reused {found.reused_as!r}" in text
    assert "no case is similar enough" in text
    assert re.search(r"the game is over: (won|lost|truncated)", text)


def test_a_game_can_be_named_and_played_again_with_another_seed(here, run, watched):
    _, recorder, _ = watched
    name = recorder.starts[1].game
    first, again, other = (
        here("play", run, "--game", name, "--episodes", 2, "--seed", seed, "--json", "--greedy").stdout
        for seed in (1, 1, 2)
    )
    lines = [json.loads(line) for line in first.splitlines()]
    assert {(line["game"], line["split"]) for line in lines} == {(name, "train")}
    assert {line["pass"] for line in lines} == {0, 1}
    assert first == again
    assert first != other


def test_the_example_for_scripts_counts_the_steps_on_which_a_case_was_reused(run):
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    names: dict[str, object] = {}
    exec(example.replace("runs/mine", str(run)).replace("episodes=5", "episodes=2"), names)
    measured = json.loads((run / "results.json").read_text())["evaluation"]["in"]
    assert names["counts"].reused == measured["reused"]


# -- a person plays


def test_a_person_takes_the_advice_or_chooses(here, run):
    """The first command by number, then a wrong one, then one by name, then as advised, then stop."""
    typed = "1\nfly away\n99\nlook\n\nq\n"
    done = here("play", run, "--split", "train", "--human", input=typed)
    assert done.returncode == 0, done.stderr
    assert "'fly away' is not admissible here" in done.stderr
    assert "there is no action 99" in done.stderr
    heads = re.findall(r"^step (\d+), score", done.stdout, re.MULTILINE)
    assert heads == ["0", "1", "2", "3"]  # three steps were taken, the fourth was shown


def test_what_a_person_chose_is_executed_and_explained(run):
    look = Recorder(lambda observation, _: next(a for a in observation.admissible if a.text == "look"))
    with cbr.open(run) as opened:
        (episode,) = watch(opened, look, split="train")
    for transition, step in zip(episode.transitions, look.steps, strict=True):
        assert transition.decision.action.text == step.explained.action == "look"
        assert step.result.observation.last_action == "look"
    assert {step.explained.source for step in look.steps} <= {"person", "agent"}
    assert "a person chose it" in {step.explained.reason for step in look.steps}


def test_a_line_is_a_number_a_command_or_the_advice():
    admissible = tuple(Action.from_template(*parts) for parts in (("look", []), ("take {}", ["a red book"])))
    assert chosen("\n", admissible) is None
    assert chosen("2", admissible) is admissible[1]
    with pytest.raises(CbrError, match="there is no action 9999"):
        chosen("9" * 5000, admissible)
    named = (Action("Take Lamp", "take {}"), Action("1", "1"), Action("2 3", "2 3"))
    assert [chosen(typed, named) for typed in ("take lamp", "1", "2 3", "2")] == [*named, named[1]]
    assert chosen("  TAKE a  red book ", admissible) is admissible[1]
    for wrong in ("0", "3", "take", "-1"):
        with pytest.raises(CbrError):
            chosen(wrong, admissible)
    with pytest.raises(typer.Exit):
        chosen("q", admissible)


def test_steps_wait_for_enter_and_the_end_of_the_input_ends_the_show(here, run):
    done = here("play", run, "--split", "train", "--step", "--json", input="\n\n")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2


# -- other agents


@pytest.mark.parametrize(
    ("recipe", "sets", "says"),
    [
        ("text_twc", {"agent__hidden": 8}, "no case memory"),
        (
            "bike_joint_twc",
            {
                "quantizer": "{use: cbr_vq/vq, parts: 8, codes: 8}",
                "agent.agent.commonsense": "{source: embedded}",
            },
            "the agent",
        ),
    ],
)
def test_plain_and_joint_agents_can_be_watched(here, tmp_path, recipe, sets, says):
    folder = train(here, ROOT / "recipes" / f"{recipe}.yaml", tmp_path / "run", **TINY, **sets)
    done = here("play", folder, "--json")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert {line["source"] for line in lines} == {"agent"}
    assert all(line["agent_action"] == line["action"] and says in line["reason"] for line in lines)


def test_jericho_runs_can_be_watched(here, tmp_path):
    sets = {"run.env_steps": 16, "evaluation.splits": "[]", "training.pretrain": "{episodes: 1, epochs: 1}"}
    folder = train(here, SMOKE / "text_cbr_jericho.yaml", tmp_path / "run", **sets)
    done = here("play", folder, "--json")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert 0 < len(lines) <= 8
    assert lines[-1]["ending"] in ("won", "lost", "truncated")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["{run}", "--game", "nowhere"], "has no game 'nowhere'"),
        (["{run}", "--split", "inn"], "Did you mean 'in'?"),
        (["{run}", "--json", "--human"], "leave out either"),
        (["nowhere"], "holds no run"),
    ],
)
def test_wrong_input_ends_with_one_clear_error(here, run, arguments, says):
    done = here("play", *(word.format(run=run) for word in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


# -- explanations by hand


def candidate(number: int, relevance: float, verdict: str) -> Candidate:
    case = Case(number, PUT, ("hat", "hook"), "put hat on hook", Provenance("home", 7, 3, 5, 1.0), rewarded=2)
    action = Action.from_template(PUT, ["cap", "hook"])
    return Candidate(action, Match(case, relevance), ("cap", "hook"), verdict)


LOOK = Action("look", "look")
BEST, SECOND = candidate(4, 0.9, "admissible"), candidate(2, 0.8, "inadmissible")
REUSED = Decision(BEST.action, "reuse", (BEST, SECOND), BEST, LOOK, 0.25, 0.5)


def test_a_reuse_in_words():
    explained = explain(REUSED, tau=0.7, probabilities={LOOK: 0.6, BEST.action: 0.25})
    assert decision_lines(explained) == [
        ("quiet", "  retrieved  case #4 'put hat on hook': relevance 0.90 > tau 0.70"),
        ("quiet", "             from home, episode 3, step 5, reward 1"),
        ("chosen", "    reused   'put cap on hook': admissible here <-"),
        ("quiet", "  retrieved  case #2 'put hat on hook': relevance 0.80 > tau 0.70"),
        ("quiet", "             from home, episode 3, step 5, reward 1"),
        ("quiet", "    reused   'put cap on hook': not admissible here"),
        ("quiet", "  agent      alone: 'look' (probability 0.60); value 0.50"),
        (
            "plain",
            "  because    case #4 is the most relevant one (0.90 > tau) whose template gives an admissible action",
        ),
        ("reuse", "  > put cap on hook   (reuse; the agent's probability of it: 0.25)"),
    ]


@pytest.mark.parametrize(
    ("decision", "facts", "reason"),
    [
        (Decision(LOOK, "agent"), {}, "the agent has no case memory"),
        (Decision(LOOK, "agent"), {"tau": 0.7}, "the agent is asked: nothing was retrieved"),
        (
            Decision(LOOK, "agent"),
            {"tau": 0.7, "nearest": (("cap",), Match(BEST.match.case, 0.5))},
            "the agent is asked: no case is similar enough (the nearest is #4: 0.50, tau 0.70)",
        ),
        (
            Decision(LOOK, "agent"),
            {"tau": 0.7, "nearest": (("cap",), Match(BEST.match.case, 0.8))},
            "the agent is asked: what was retrieved takes another number of entities",
        ),
        (
            Decision(LOOK, "agent", (candidate(1, 0.9, "failed"), SECOND)),
            {"tau": 0.7},
            "the agent is asked: of 2 retrieved, none can be reused"
            " (admissible, but it failed before; not admissible here)",
        ),
        (
            replace(REUSED, source="agent"),
            {"tau": 0.7},
            "the agent weighs what the memory offers, and takes what case #4 offers",
        ),
        (
            Decision(LOOK, "agent", (BEST,)),
            {"tau": 0.7},
            "the agent is asked: it weighs what the memory offers, and takes an action of its own",
        ),
        (replace(REUSED, source="person", chosen=None), {"tau": 0.7}, "a person chose it"),
    ],
)
def test_the_reason(decision, facts, reason):
    assert explain(decision, **facts).reason == reason


def test_the_agents_probability_is_unknown_where_the_record_does_not_tell():
    assert explain(REUSED, tau=0.7).agent_probability is None
    own = replace(REUSED, agent_action=REUSED.action)
    assert explain(own, tau=0.7).agent_probability == 0.25
