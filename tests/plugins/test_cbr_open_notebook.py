"""What a notebook shows of a run, its memory and a decision: all of it, and nothing as HTML of its own."""

from __future__ import annotations

import doctest
import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

import cbr_open.door
import cbrcore as cbr
from cbr_open.notebook import ACTIONS, CASES, why_html
from cbrcore import Action, CbrError, Observation, StepResult, Transition

pytestmark = pytest.mark.usefixtures("cache_here")

ROOT = Path(__file__).parents[2]
SMOKE = ROOT / "recipes" / "smoke" / "text_cbr_generated.yaml"
EVIL = '<script>alert(1)</script>\x1b[2J&"'
SHOWN = "&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[2J&amp;&#34;"


@pytest.fixture(scope="module")
def folder(here, tmp_path_factory) -> Path:
    """Trained until it has cases."""
    to = tmp_path_factory.mktemp("notebook") / "run"
    done = here("run", SMOKE, "--set", "run.episodes=6", "--out", to)
    assert done.returncode == 0, done.stderr
    return to


@pytest.fixture(scope="module")
def run(folder):
    with cbr.open(folder) as opened:
        yield opened


class Tags(HTMLParser):
    """The tags that are opened, and whether each is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.opened.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data.strip())


def tags(html: str) -> Tags:
    found = Tags()
    found.feed(html)
    assert found.open == []
    return found


def test_a_run_is_its_results_its_protocol_and_its_recipe(run):
    found = tags(run._repr_html_())
    assert found.opened.count("table") == 3
    for said in ("smoke_text_cbr_generated (sampled)", "uniform random", "handicap: commands", "IN norm. score",
                 "full admissible list", "cbr_seeded_gat/seeded_gat"):  # fmt: skip
        assert said in found.texts
    steps = run.results["evaluation"]["in"]["steps"]
    assert f"{steps['mean']:.1f} ± {steps['std']:.1f}" in found.texts
    assert "trained: " in run._repr_html_()


def test_a_run_that_is_not_finished_says_so(folder, tmp_path):
    (tmp_path / "recipe.yaml").write_text((folder / "recipe.yaml").read_text())
    assert "It is not finished." in tags(cbr.open(tmp_path)._repr_html_()).texts


def test_nothing_heavy_is_imported_for_a_run(folder):
    code = (
        f"import cbrcore, sys; html = cbrcore.open({str(folder)!r})._repr_html_(); assert 'uniform' in html;"
        " print([name for name in ('torch', 'textworld', 'transformers', 'altair') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "[]\n", done.stderr


def test_a_memory_is_its_cases(run):
    found = tags(run.memory._repr_html_())
    assert f"{len(run.memory)} cases" in found.texts
    assert found.opened.count("tr") == 1 + len(run.memory)
    for case in run.memory:
        assert {f"#{case.id}", case.text, case.template, case.provenance.game} <= set(found.texts)


def test_of_a_large_memory_the_first_cases_are_shown(run):
    store = run.memory.store
    case = store.cases[0]

    class Many:
        cases = [replace(case, id=number) for number in range(CASES + 7)]  # noqa: RUF012

        def __len__(self):
            return len(self.cases)

    found = tags(cbr_open.door.RunMemory(run.path, None, Many())._repr_html_())
    assert found.opened.count("tr") == 1 + CASES
    assert f", the first {CASES} of them" in found.texts


def steps_of(run, count: int = 12):
    return [step for play in run.plays("train", episodes=count) for step in play]


def test_a_decision_is_its_cases_and_the_admissible_actions(run):
    steps = steps_of(run)
    reused = next(step for step in steps if step.decision.source == "reuse")
    why = run.why(reused)
    found = tags(why._repr_html_())
    assert found.opened.count("table") == 2
    chosen = next(each for each in why.explanation.retrieved if each.chosen)
    assert f"#{chosen.case} {chosen.command}" in found.texts
    assert f"{chosen.relevance:.2f} > 0.70" in found.texts
    assert why.probabilities.keys() == set(reused.observation.admissible)
    assert sum(why.probabilities.values()) == pytest.approx(1)
    assert why.probabilities[reused.decision.action] == pytest.approx(reused.decision.agent_probability)
    shown = [text for text in found.texts if re.fullmatch(r"0\.\d{3}|1\.000", text)]
    assert shown == [f"{pi:.3f}" for pi in sorted(why.probabilities.values(), reverse=True)[:ACTIONS]]
    assert f"> {reused.decision.action.text}   (reuse" in str(why)


def test_a_decision_of_the_agent_tells_the_nearest_case(run):
    step = next(step for step in steps_of(run) if not step.decision.candidates)
    html = run.why(step)._repr_html_()
    assert ("nothing was retrieved; nearest: case #" in html) == (run.why(step).explanation.nearest is not None)
    assert tags(html).opened.count("table") == 1
    assert "the agent alone" in html


def test_asking_changes_nothing(run):
    plain = [step.decision for step in run.play(split="out")]
    asked = []
    for step in run.play(split="out"):
        run.why(step)._repr_html_()
        asked.append(step.decision)
    assert asked == plain


def test_what_nobody_decided_has_no_answer(run):
    step = steps_of(run, 1)[0]
    with pytest.raises(CbrError, match="tells nothing of its decision"):
        run.why(Transition(step.observation, step.decision, step.result))


def test_no_text_of_a_game_is_html(run, folder, tmp_path):
    step = next(step for step in steps_of(run) if step.decision.candidates)
    why = run.why(step)
    action = Action(EVIL, EVIL, ())
    seen = Observation(EVIL, EVIL, EVIL, (action,), step.observation.graph)
    evil = replace(
        why, observation=seen, probabilities={action: 1.0},
        explanation=replace(why.explanation, action=EVIL, reason=EVIL, retrieved=tuple(
            replace(each, command=EVIL, reused_as=EVIL, verdict=EVIL, origin=replace(each.origin, game=EVIL))
            for each in why.explanation.retrieved)),
        result=StepResult(seen, 0.0),
    )  # fmt: skip
    html = why_html(evil)
    assert "<script" not in html
    assert html.count(SHOWN) >= 7
    (tmp_path / "recipe.yaml").write_text((folder / "recipe.yaml").read_text())
    results = json.loads((folder / "results.json").read_text())
    results["name"] = EVIL
    results["protocol"]["handicaps"] = {EVIL: EVIL}
    (tmp_path / "results.json").write_text(json.dumps(results))
    html = cbr.open(tmp_path)._repr_html_()
    assert "<script" not in html
    assert html.count(SHOWN) >= 3


def test_the_example_of_the_door_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = doctest.testmod(cbr_open.door)
    assert (found.failed, found.attempted >= 5) == (0, True)
