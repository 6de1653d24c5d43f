"""Single decisions on the page: what a heat map shows is what was decided, and what is in the way is a note."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import shutil
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import torch
import toy_run
from cbrcore.report import decisions
from cbrcore.report.belong import read_paper
from cbrcore.report.collect import collect
from cbrcore.report.decision_figures import decision_figures, decision_table
from cbrcore.report.decisions import (
    COLUMNS,
    FALLBACK,
    REUSE,
    ROWS,
    Example,
    decision_examples,
    examples_of,
    kind_of,
    looked_at,
    rank,
    shown,
)
from cbrcore.report.heat import cut
from cbrcore.report.make import write_report
from cbrcore.report.naming import name_groups
from cbrcore.report.page import figure_html
from cbrcore.report.runs import Group, group
from cbrcore.report.style import CSS
from parts import TableEncoder
from report_runs import LEVELS, TABLES, played, plugins, recipe_text, results, trained_run, twc_sweep, write_run

from cbr_memory.memory import CaseMemory
from cbr_watch.explanations import explain
from cbr_watch.watching import Similarities, Start, Step, similarities_at, watch
from cbrcore.cycle.reasoner import Trace
from cbrcore.cycle.retriever import Retriever
from cbrcore.interfaces import AgentInput
from cbrcore.runs import Trained, newest_checkpoint, trained
from cbrcore.runs.checkpoint import Progress, rewrite_memories
from cbrcore.types import (
    Action,
    Candidate,
    Case,
    Decision,
    Match,
    Observation,
    Provenance,
    StateGraph,
    StepResult,
    arity,
)

PUT, TAKE = "put {} on {}", "take {}"


@pytest.fixture(scope="module", autouse=True)
def cache(cache_dir):
    """Runs that are opened in this process find the session's games."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CBR_CACHE", str(cache_dir))
        yield


@pytest.fixture(scope="module")
def run(here, tmp_path_factory) -> Path:
    return trained_run(here, tmp_path_factory.mktemp("decisions") / "run")


@pytest.fixture
def copy(run, tmp_path) -> Path:
    """The run, to be changed."""
    return Path(shutil.copytree(run, tmp_path / "copy"))


def change_recipe(folder: Path, old: str, new: str) -> None:
    text = (folder / "recipe.yaml").read_text()
    assert text.count(old) == 1, old
    (folder / "recipe.yaml").write_text(text.replace(old, new))


def groups_of(*folders: Path) -> list[Group]:
    groups = group(collect(folders).runs)
    name_groups(groups, read_paper(TABLES / "paper.yaml", groups, plugins()))
    return groups


class Recorder:
    """Keeps every decision of the plays, with what was compared for it."""

    def __init__(self, opened: Trained) -> None:
        self.reasoner = opened.parts.reasoner
        self.examples: list[Example] = []

    def begins(self, start):
        pass

    def decided(self, observation, explained):
        return None

    def stepped(self, step):
        compared = similarities_at(self.reasoner, step.trace)
        tau = self.reasoner.retriever.threshold
        self.examples.append(Example(Group(()), kind_of(step), step, compared, tau))


def recorded(opened: Trained) -> list[Example]:
    recorder = Recorder(opened)
    watch(opened, recorder, split="train", episodes=6)
    return recorder.examples


# The numbers are those that were decided by


def check(example: Example) -> None:
    """The similarities agree with the record of the decision, cell by cell."""
    decision, compared, tau = example.step.decision, example.compared, example.tau
    values, chosen = compared.values, decision.chosen
    assert values.shape == (len(compared.cases), len(compared.contexts))
    assert ((values >= 0) & (values <= 1 + 1e-6)).all()
    nearest = example.step.explained.nearest
    assert (nearest is None) == (not values.size)
    if nearest is not None:
        assert nearest.relevance == values.max()
        assert nearest.context in compared.contexts
    assert (example.chosen is None) == (chosen is None)
    if chosen is not None:
        row, column = example.chosen
        assert values[row, column] == chosen.match.relevance
        assert (compared.cases[row].id, compared.contexts[column]) == (chosen.match.case.id, chosen.seeds)
    for each in decision.candidates:
        cell = compared.cases.index(each.match.case), compared.contexts.index(each.seeds)
        assert values[cell] == each.match.relevance > tau
        assert example.candidates[cell].match == each.match
        assert example.left_aside(*cell) is None
    for cell, value in np.ndenumerate(values):
        if cell not in example.candidates:
            assert (value <= tau) == (example.left_aside(*cell) is None)


def check_why_it_was_left_aside(example: Example) -> None:
    """Without a vote of several cases: another arity, a more similar case, or a tie within a template."""
    values, cases = example.compared.values, example.compared.cases
    for (row, column), value in np.ndenumerate(values):
        says, template = example.left_aside(row, column), cases[row].template
        if says is None:
            continue
        if arity(template) not in example.compared.arities[column]:
            assert says == "takes another number of entities"
        elif value < values[:, column].max():
            assert says == "another case is more similar to this context"
        else:
            retrieved = [cases[r] for r, c in example.candidates if c == column]
            assert template in [case.template for case in retrieved]
            assert says == "another case that is as similar is preferred"


@pytest.mark.parametrize("neighbours", [1, 3])
def test_similarities_of_a_trained_run_are_those_it_decided_by(copy, neighbours):
    change_recipe(copy, "  neighbours: 1\n", f"  neighbours: {neighbours}\n")
    with trained(copy, plugins()) as opened:
        examples = recorded(opened)
        retriever = opened.parts.reasoner.retriever
    assert {example.kind for example in examples} == {REUSE, FALLBACK}
    assert any(example.step.decision.candidates for example in examples if example.kind == FALLBACK)
    for example in examples:
        check(example)
        if neighbours == 1:
            check_why_it_was_left_aside(example)
        seen = example.step.observation.admissible
        assert set(example.compared.contexts) == {action.seeds for action in seen if action.seeds}
        assert list(example.compared.cases) == retriever.memory.cases


def test_a_similarity_is_the_share_of_equal_codes(run):
    """Computed anew, from the stored keys and the contexts of the state."""
    with trained(run, plugins()) as opened:
        example = recorded(opened)[0]
        retriever, compared = opened.parts.reasoner.retriever, example.compared
        pairs = [(example.step.trace.situation, context) for context in compared.contexts]
        with torch.no_grad():
            keys = retriever.quantizer.keys(retriever.encoder.contexts_of_pairs(pairs))
        for row, case in enumerate(compared.cases):
            shares = (keys == retriever.memory.key_of(case)).float().mean(dim=1)
            assert shares.tolist() == pytest.approx(compared.values[row].tolist())


class FirstEntity(TableEncoder):
    """Sees the first entity alone; the other is a word of the template."""

    def view(self, action: Action) -> Action:
        if len(action.entities) < 2:
            return action
        thing, place = action.entities
        return Action(action.text, f"put {{}} on {place}", (thing,), (thing,))


def see_first_entities(retriever: Retriever) -> None:
    """Another encoder of the same table, and a case that was seen by it."""
    old = retriever.encoder
    retriever.encoder = FirstEntity(dict(zip(old.names, old.rows.tolist(), strict=True)))
    shelved = retriever.view(Action.from_template(PUT, ["book", "shelf"]))
    (key,) = retriever.encoder.contexts_of_pairs([(None, shelved.seeds)]).detach()
    retriever.memory.add(key, shelved, Provenance("books", 7, 3, 5, 1.0), step=1)


@pytest.mark.parametrize("kind", ["plain", "vote", "failures", "view"])
def test_they_are_for_every_kind_of_memory(tmp_path, kind):
    options = {"vote": {"neighbours": 3}, "failures": {"outcome": "both"}}.get(kind, {})
    parts = toy_run.run(tmp_path / "run", memory=options).parts
    if kind == "view":
        see_first_entities(parts.reasoner.retriever)
    opened = Trained(toy_run.recipe(options), parts, Progress())
    examples = recorded(opened)
    for example in examples:
        check(example)
        if kind != "vote":
            check_why_it_was_left_aside(example)
    assert any(example.candidates for example in examples)
    if kind == "view":
        assert all(len(context) == 1 for example in examples for context in example.compared.contexts)


# Which decisions


def test_the_most_telling_decisions_of_the_measured_plays(here, run):
    """Each is a step of the plays that `cbr play` shows, and no step before the last one looked at tells more."""
    examples, missing = examples_of(group(collect([run]).runs)[0], plugins())
    assert ([example.kind for example in examples], missing) == ([REUSE, FALLBACK], [])
    reuse, fallback = examples
    assert reuse.step.result.reward > 0
    assert len(reuse.compared.contexts) > 1
    assert {each.verdict for each in fallback.step.decision.candidates} <= {"inadmissible", "failed"}
    assert fallback.step.decision.candidates
    lines = [json.loads(line) for line in here("play", run, "--episodes", 6, "--json").stdout.splitlines()]
    for example in examples:
        check(example)
        mine = example.step.data()
        assert json.loads(json.dumps(mine)) in lines
    with trained(run, plugins()) as opened:
        everything = recorded(opened)
    places = [(each.step.start.number, each.step.start.game, each.step.number) for each in everything]
    for example in examples:
        start = example.step.start
        at = places.index((start.number, start.game, example.step.number))
        before = [rank(each) for each in everything[:at] if each.kind == example.kind]
        assert all(other < rank(example) for other in before)


def test_the_run_stays_as_it_is(run):
    def digests() -> dict[str, str]:
        files = [path for path in sorted(run.rglob("*")) if path.is_file()]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    before = digests()
    examples_of(group(collect([run]).runs)[0], plugins())
    assert digests() == before


def test_few_runs_are_opened_the_best_agent_of_a_place_and_every_benchmark_first(tmp_path):
    """CBR-only needs the fewest steps of the agents with cases here, see `report_runs.number_of`."""
    groups = groups_of(twc_sweep(tmp_path / "twc", seeds=1))
    groups.sort(key=lambda each: LEVELS.index(each.place.lower()))
    assert [(each.place, each.agent) for each in looked_at(groups)] == [
        ("Easy", "CBR-only"),
        ("Medium", "CBR-only"),
    ]
    text = recipe_text("jericho_33.yaml", "bike_cbr-game=zork1-seed=0")
    facts = {"initial_score": 0, "max_score": 350}
    zork = write_run(tmp_path / "zork", text, results(0, {"train": played(100, 0.1)}, game=facts))
    both = [*groups, *groups_of(zork)]
    assert [each.place for each in looked_at(both)] == ["Easy", "zork1"]
    plain = [each for each in groups if not each.uses_cases]
    assert plain
    assert looked_at(plain) == []


def test_there_is_an_end_to_the_steps(run, monkeypatch):
    monkeypatch.setattr(decisions, "STEPS", 1)
    found, missing = examples_of(group(collect([run]).runs)[0], plugins())
    assert len(found) == len(missing) == 1
    assert "in 1 game plays (1 steps)" in missing[0]


# What is in the way


def noted(folder: Path) -> list[str]:
    notes: list[str] = []
    decision_examples(group(collect([folder]).runs), plugins(), notes)
    assert all(note.startswith(f"{folder}: ") for note in notes)
    return notes


def test_a_run_without_a_checkpoint_is_noted(copy):
    shutil.rmtree(copy / "checkpoints")
    assert noted(copy) == [f"{copy}: no decisions: {copy} has no checkpoint"]


def test_a_damaged_checkpoint_is_noted(copy):
    (newest_checkpoint(copy) / "tensors.safetensors").write_bytes(b"x")
    (note,) = noted(copy)
    assert "no decisions: " in note
    assert "damaged checkpoint" in note


def test_missing_games_are_noted(tmp_path, monkeypatch, copy):
    monkeypatch.setenv("CBR_GAMES", str(tmp_path / "nowhere"))
    change_recipe(copy, "  source: generate\n", "  source: published\n")
    (note,) = noted(copy)
    assert re.search("no decisions: .*games", note)


def test_an_empty_memory_is_noted(copy):
    with trained(copy, plugins()) as opened:
        retriever = opened.parts.reasoner.retriever
    empty = CaseMemory(retriever.quantizer.index(), identity=retriever.memory.identity)
    rewrite_memories(newest_checkpoint(copy), {"memory": empty})
    assert noted(copy) == [f"{copy}: no decisions: its memory holds no case"]


def test_a_missing_kind_is_noted_and_the_nearest_case_is_told(copy):
    """Nothing is above 1: no case is ever reused."""
    change_recipe(copy, "  threshold: 0.5\n", "  threshold: 1.0\n")
    (note,) = noted(copy)
    assert re.search(r": no decision in \d+ game plays \(\d+ steps\) where a case is reused$", note)
    (fallback,), _ = examples_of(group(collect([copy]).runs)[0], plugins())
    check(fallback)
    (table,) = decision_table([fallback])
    (row,) = table.rows
    assert row[-2:] == ("-", "not similar enough")
    assert row[5] == f"{fallback.compared.values.max():.2f}"
    assert 'class="above"' not in decision_figures([fallback])[0].svg


def test_a_part_that_breaks_costs_its_decisions_alone(copy, monkeypatch):
    def broken(reasoner, trace):
        raise ZeroDivisionError("of a plugin")

    monkeypatch.setattr("cbr_watch.watching.similarities_at", broken)
    written = write_report([copy], plugins())
    assert written.notes == [f"{copy}: no decisions: ZeroDivisionError: of a plugin"]
    assert "about-decisions" not in written.page.read_text()


# By hand: two cases, two contexts


def case(number: int, template: str, *entities: str) -> Case:
    action = Action.from_template(template, entities)
    return Case(number, template, entities, action.text, Provenance("home", 7, 3, 5 + number, 1.0))


HAT, CUP = case(4, PUT, "hat", "hook"), case(2, TAKE, "cup")
CAP, MUG = ("cap", "hook"), ("mug",)
PUT_CAP, TAKE_MUG, LOOK = (
    Action.from_template(PUT, CAP),
    Action.from_template(TAKE, MUG),
    Action.from_template("look", ()),
)


def example(
    values: list[list[float]],
    decision: Decision,
    *,
    contexts: tuple[tuple[str, ...], ...] = (CAP, MUG),
    cases: tuple[Case, ...] = (HAT, CUP),
    reward: float = 0.0,
) -> Example:
    seen = Observation("You see a cap.", "A room.", "", (PUT_CAP, LOOK), StateGraph.of([]))
    step = Step(
        Start("in", "home", 0, 7),
        3,
        seen,
        explain(decision, tau=0.7),
        StepResult(seen, reward),
        decision,
        Trace(AgentInput(seen)),
    )
    arities = tuple(frozenset({len(context)}) for context in contexts)
    return Example(
        Group((), "BiKE + CBR", "Easy"),
        kind_of(step),
        step,
        Similarities(contexts, arities, cases, np.array(values)),
        0.7,
    )


BEST = Candidate(PUT_CAP, Match(HAT, 0.9), CAP, "admissible")
REFUSED = Candidate(TAKE_MUG, Match(CUP, 0.75), MUG, "inadmissible")
REUSED = Decision(PUT_CAP, "reuse", (BEST, REFUSED), BEST, LOOK, 0.25, 0.5)
TWO_BY_TWO = example([[0.9, 0.2], [0.4, 0.75]], REUSED, reward=1.0)


def cells(svg: str) -> list[tuple[str, str, str]]:
    """(opacity, number, what is told on pointing) of each cell, row by row."""
    return [
        (opacity, value, unescape(tip))
        for tip, opacity, value in re.findall(
            r'<g><title>([^<]*)</title><rect class="cell"[^>]*/><rect class="heat"[^>]*fill-opacity="([^"]*)"/>'
            r'<text class="heat-value middle"[^>]*>([^<]*)</text>',
            svg,
        )
    ]


def test_a_reuse_drawn_by_hand():
    (figure,) = decision_figures([TWO_BY_TWO])
    assert figure.title == "Reuse: put cap on hook (Easy, BiKE + CBR)"
    hat, cup = "case #4 'put hat on hook' for", "case #2 'take cup' for"
    assert cells(figure.svg) == [
        ("0.900", "0.90", f"{hat} cap, hook: 0.90 > tau 0.70; reused as 'put cap on hook': admissible here"),
        ("0.200", "0.20", f"{hat} mug: 0.20 <= tau 0.70"),
        ("0.400", "0.40", f"{cup} cap, hook: 0.40 <= tau 0.70"),
        ("0.750", "0.75", f"{cup} mug: 0.75 > tau 0.70; reused as 'take mug': not admissible here"),
    ]
    frames = {kind: len(re.findall(f'<rect class="{kind}"', figure.svg)) for kind in ("above", "chosen")}
    assert frames == {"above": 2 + 1, "chosen": 1 + 1}  # and one in the legend
    assert figure.svg.count('<circle class="sign"') == 1 + 1
    assert figure.svg.count('<line class="sign"') == 2 + 2
    for words in ("above tau", "retrieved, admissible", "retrieved, refused by revise", "reused"):
        assert f">{words}</text>" in figure.svg
    assert ">#4 put hat on hook</text>" in figure.svg
    assert ">put {} on {} · episode 3, step 9</text>" in figure.svg
    assert "Rows: 2 of 2 cases. Columns: 2 of 2 contexts." in figure.caption


def test_tau_is_marked_on_the_scale():
    """The scale begins at 92 and is 160 wide: 0.7 lies at 204."""
    (figure,) = decision_figures([TWO_BY_TWO])
    assert re.search(r'<line class="tau" x1="204.0" y1="[\d.]+" x2="204.0"', figure.svg)
    assert ">tau 0.70</text>" in figure.svg


def test_below_the_map_the_decision_is_told():
    (figure,) = decision_figures([TWO_BY_TWO])
    kinds, lines = zip(*figure.lines, strict=True)
    assert lines[:2] == ("  game       home, split 'in', pass 0, step 3", "  sees       You see a cap. A room.")
    assert "    reused   'put cap on hook': admissible here <-" in lines
    assert lines[-2:] == (
        "  > put cap on hook   (reuse; the agent's probability of it: 0.25)",
        "  reward 1, score 0",
    )
    assert kinds[-2:] == ("reuse", "good")


def test_the_table_tells_what_was_retrieved():
    (table,) = decision_table([TWO_BY_TWO])
    start = ("Easy", "BiKE + CBR", "put cap on hook", "reuse")
    assert table.rows == (
        (*start, "cap, hook", "0.90", "0.70", "#4 put hat on hook", "home", "3", "9", "put cap on hook", "reused"),
        (*start, "mug", "0.75", "0.70", "#2 take cup", "home", "3", "7", "take mug", "not admissible here"),
    )
    assert decision_table([]) == []


def test_a_fallback_and_what_was_not_looked_at():
    asked = Decision(LOOK, "agent", (REFUSED,), None, LOOK, 0.25, 0.5)
    (figure,) = decision_figures([example([[0.9, float("-inf")], [0.75, 0.75]], asked)])
    assert figure.title == "Fallback to the neural agent: look (Easy, BiKE + CBR)"
    found = cells(figure.svg)
    assert ("0.000", "·", "case #4 'put hat on hook' for mug: the approximate index did not look") in found
    aside = "case #2 'take cup' for cap, hook: 0.75 > tau 0.70; not retrieved: takes another number of entities"
    assert ("0.750", "0.75", aside) in found
    assert 'class="chosen"' not in figure.svg
    assert ">reused</text>" not in figure.svg


def test_a_map_is_limited_to_what_matters_most():
    """20 cases, 15 contexts: what was chosen is shown although others are more similar."""
    contexts = tuple((f"thing {number}",) for number in range(15))
    cases = tuple(case(number, TAKE, f"cup {number}") for number in range(20))
    values = np.random.default_rng(0).uniform(0.71, 0.99, (20, 15))
    values[19, 14] = 0.705
    chosen = Candidate(TAKE_MUG, Match(cases[19], 0.705), contexts[14], "admissible")
    other = Candidate(TAKE_MUG, Match(cases[18], 0.999), contexts[13], "inadmissible")
    values[18, 13] = 0.999
    decision = Decision(TAKE_MUG, "reuse", (other, chosen), chosen, TAKE_MUG)
    large = example(values.tolist(), decision, contexts=contexts, cases=cases)
    rows, columns = shown(large)
    assert (len(rows), len(columns)) == (ROWS, COLUMNS) == (8, 12)
    assert (rows[:2], columns[:2]) == ([19, 18], [14, 13])
    best = [values[:, column].max() for column in columns[2:]]
    assert best == sorted(best, reverse=True)
    (figure,) = decision_figures([large])
    assert len(cells(figure.svg)) == 8 * 12
    assert (
        "8 of 20 cases, the most similar ones. Columns: 12 of 15 contexts, the most similar ones."
        in figure.caption
    )


def test_long_names_are_cut_and_told_whole_on_pointing():
    long = "a very long name of a thing that has no end"
    item = case(1, TAKE, long)
    decision = Decision(LOOK, "agent", (), None, LOOK)
    (figure,) = decision_figures([example([[0.5]], decision, contexts=((long,),), cases=(item,))])
    assert f"<title>{long}</title>{cut(long, 26)}</text>" in figure.svg
    assert f">#1 take {long}</text>" not in figure.svg
    assert cut("abcdef", 4) == "abc…"
    assert cut("abcd", 4) == "abcd"


def test_names_are_escaped():
    odd = "<u>\"&'"
    decision = Decision(LOOK, "agent", (), None, Action(odd, odd))
    (figure,) = decision_figures([example([[0.8]], decision, contexts=((odd,),), cases=(case(1, TAKE, odd),))])
    html = figure_html(figure)
    assert "<u>" not in html
    assert html.count("&lt;u&gt;") > 5


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (
            example([[0.9]], REUSED, contexts=(CAP,), cases=(HAT,), reward=1),
            example([[0.9, 0.2], [0.4, 0.75]], REUSED),
        ),
        (TWO_BY_TWO, example([[0.9]], REUSED, contexts=(CAP,), cases=(HAT,), reward=1)),
        (
            example([[0.1, 0.2], [0.4, 0.75]], Decision(LOOK, "agent", (REFUSED,), None, LOOK)),
            example([[0.9, 0.2], [0.4, 0.75]], Decision(LOOK, "agent", (), None, LOOK), reward=1),
        ),
        (
            example([[0.1, 0.2], [0.4, 0.75]], Decision(LOOK, "agent", (), None, LOOK)),
            example([[0.1, 0.2], [0.4, 0.6]], Decision(LOOK, "agent", (), None, LOOK), reward=1),
        ),
    ],
    ids=["reward", "several contexts", "refused before other arity", "other arity before not similar"],
)
def test_what_is_more_telling(better, worse):
    assert rank(better) > rank(worse)


# On the page


@pytest.fixture(scope="module")
def written(run):
    return write_report([run], plugins(), out=run.parent / "page.html")


def test_the_page_has_the_decisions(written):
    text = written.page.read_text()
    assert written.notes == []
    (section,) = re.findall(r'<section id="about-decisions">.*?</section>', text, re.DOTALL)
    assert re.findall(r'<figure class="card" id="(\w+)">', section) == ["decision_0_reuse", "decision_1_fallback"]
    for words in ("because    case #", "because    the agent is asked: of ", "reward 1, score 1 of 1"):
        assert words in section
    with (written.tables / "decisions.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    assert head[4:7] == ["Context", "Relevance", "tau"]
    assert "reused" in [row[-1] for row in rows]
    assert "## What was retrieved for these decisions" in written.markdown.read_text()
    assert "only the plays of the decisions were played again" in text


def test_the_command_can_leave_them_out(here, run, tmp_path):
    done = here("report", run, "--out", tmp_path / "page.html", "--no-decisions")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "page.html").read_text()
    assert "about-decisions" not in text
    assert "nothing was run again" in text
    assert not (tmp_path / "page_tables" / "decisions.csv").exists()


# Colours: the numbers can be read in every cell, in light, dark and print


def luminance(colour: np.ndarray) -> float:
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def rgb(text: str) -> np.ndarray:
    digits = text if len(text) == 6 else "".join(letter * 2 for letter in text)
    return np.array([int(digits[at : at + 2], 16) for at in (0, 2, 4)]) / 255


def palettes() -> list[dict[str, np.ndarray]]:
    blocks = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
    return [
        {name: rgb(colour) for name, colour in re.findall(r"--([\w-]+): #([0-9a-f]{3,6})\b", block)}
        for block in blocks
    ]


@pytest.mark.parametrize("which", [0, 1, 2], ids=["light", "dark", "print"])
def test_numbers_stand_out_and_heat_grows_evenly(which):
    colours = palettes()[which]
    grounds = [
        luminance(share * colours["heat"] + (1 - share) * colours["card"]) for share in np.linspace(0, 1, 21)
    ]
    number = luminance(colours["on-heat"])
    contrasts = [(max(number, g) + 0.05) / (min(number, g) + 0.05) for g in grounds]
    assert min(contrasts) >= 4.5  # WCAG AA
    steps = np.diff(grounds)
    assert (steps > 0).all() or (steps < 0).all()


def test_every_class_of_the_map_has_a_style():
    (figure,) = decision_figures([TWO_BY_TWO])
    used = {name for names in re.findall(r'class="([^"]+)"', figure.svg) for name in names.split()}
    used |= {f"line-{kind}" for kind, _ in figure.lines} - {"line-plain"}
    assert {name for name in used if f".{name}" not in CSS} == set()
    assert {"cell", "heat", "heat-value", "heat-label", "above", "chosen", "sign", "tau"} <= used
