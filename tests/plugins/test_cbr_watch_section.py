"""Single decisions on the page: what a heat map shows is what was decided, and what is in the way is a note."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import toy_run
import vl_convert
from parts import TableEncoder, item
from report_runs import LEVELS, TABLES, played, plugins, recipe_text, results, trained_run, twc_sweep, write_run

from cbr_memory.memory import CaseMemory
from cbr_open.compared import Compared, similarities_at
from cbr_open.door import Run, newest_checkpoint
from cbr_open.explanations import explain
from cbr_paper.belong import read_paper
from cbr_report.folders import read_folders
from cbr_report.names import name_runs
from cbr_report.page import TEMPLATES, render
from cbr_report.runs import Group, Runs, group
from cbr_report.specs import figure_data
from cbr_report.theme import PALETTES
from cbr_report.write import write_report
from cbr_watch import decisions
from cbr_watch.decisions import (
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
from cbr_watch.heat import ABOVE, ADMISSIBLE, cut
from cbr_watch.heat import REFUSED as REFUSED_SIGN
from cbr_watch.heat import REUSED as REUSED_FRAME
from cbr_watch.section import decision_figures, decision_table
from cbr_watch.watching import Start, Step, watch
from cbrcore import Section
from cbrcore.cycle.reasoner import Trace
from cbrcore.cycle.retriever import Retriever
from cbrcore.interfaces import AgentInput
from cbrcore.runs.checkpoint import Progress
from cbrcore.runs.files import seal
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

pytestmark = pytest.mark.usefixtures("cache_here")
PUT, TAKE = "put {} on {}", "take {}"


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
    runs = runs_in(*folders)
    name_runs(runs, read_paper(TABLES / "paper.yaml", runs.groups, plugins()))
    return runs.groups


def runs_in(*folders: Path) -> Runs:
    return Runs(group(read_folders(folders).runs), plugins())


def examples_in(folder: Path) -> tuple[list[Example], list[str]]:
    """Of the folder's first group."""
    runs = runs_in(folder)
    return examples_of(runs.groups[0], runs)


class Recorder:
    """Keeps every decision of the plays, with what was compared for it."""

    def __init__(self, opened: Run) -> None:
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


def recorded(opened: Run) -> list[Example]:
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
    with Run(copy, plugins()) as opened:
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
    with Run(run, plugins()) as opened:
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
    retriever.memory.add(item(key, shelved), Provenance("books", 7, 3, 5, 1.0), step=1)


@pytest.mark.parametrize("kind", ["plain", "vote", "failures", "view"])
def test_they_are_for_every_kind_of_memory(tmp_path, kind):
    options = {"vote": {"neighbours": 3}, "failures": {"outcome": "both"}}.get(kind, {})
    parts = toy_run.run(tmp_path / "run", memory=options).parts
    if kind == "view":
        see_first_entities(parts.reasoner.retriever)
    opened = Run(tmp_path / "run", plugins())
    opened.checked, opened._open = toy_run.recipe(options), (parts, Progress())
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
    examples, missing = examples_in(run)
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
    with Run(run, plugins()) as opened:
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
    examples_in(run)
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
    found, missing = examples_in(run)
    assert len(found) == len(missing) == 1
    assert "in 1 game plays (1 steps)" in missing[0]


# What is in the way


def noted(folder: Path) -> list[str]:
    runs = runs_in(folder)
    decision_examples(runs)
    assert all(note.startswith(f"{folder}: ") for note in runs.notes)
    return runs.notes


def test_a_run_without_a_checkpoint_is_noted(copy):
    shutil.rmtree(copy / "checkpoints")
    assert noted(copy) == [f"{copy}: no decisions: {copy} has no checkpoint"]


def test_a_damaged_checkpoint_is_noted(copy):
    for checkpoint in (copy / "checkpoints").iterdir():
        (checkpoint / "tensors.safetensors").write_bytes(b"x")
    (note,) = noted(copy)
    assert "no decisions: " in note
    assert "damaged checkpoint" in note


def test_missing_games_are_noted(tmp_path, monkeypatch, copy):
    monkeypatch.setenv("CBR_GAMES", str(tmp_path / "nowhere"))
    change_recipe(copy, "  source: generate\n", "  source: published\n")
    (note,) = noted(copy)
    assert re.search("no decisions: .*games", note)


def test_an_empty_memory_is_noted(copy):
    with Run(copy, plugins()) as opened:
        retriever = opened.parts.reasoner.retriever
    empty = CaseMemory(retriever.quantizer.index(), identity=retriever.memory.identity)
    checkpoint = newest_checkpoint(copy)
    empty.save(checkpoint / "memory")
    seal(checkpoint, "memory")
    assert noted(copy) == [f"{copy}: no decisions: its memory holds no case"]


def test_a_missing_kind_is_noted_and_the_nearest_case_is_told(copy):
    """Nothing is above 1: no case is ever reused."""
    change_recipe(copy, "  threshold: 0.5\n", "  threshold: 1.0\n")
    (note,) = noted(copy)
    assert re.search(r": no decision in \d+ game plays \(\d+ steps\) where a case is reused$", note)
    (fallback,), _ = examples_in(copy)
    check(fallback)
    (table,) = decision_table([fallback])
    (row,) = table.rows
    assert row[-2:] == ("–", "not similar enough")
    assert row[5] == f"{fallback.compared.values.max():.2f}"
    assert ABOVE not in json.dumps(decision_figures([fallback])[0].chart.to_dict())


def test_a_part_that_breaks_costs_its_decisions_alone(copy, monkeypatch):
    def broken(reasoner, trace):
        raise ZeroDivisionError("of a plugin")

    monkeypatch.setattr("cbr_open.compared.similarities_at", broken)
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
        Compared(contexts, arities, cases, np.array(values)),
        0.7,
    )


BEST = Candidate(PUT_CAP, Match(HAT, 0.9), CAP, "admissible")
REFUSED = Candidate(TAKE_MUG, Match(CUP, 0.75), MUG, "inadmissible")
REUSED = Decision(PUT_CAP, "reuse", (BEST, REFUSED), BEST, LOOK, 0.25, 0.5)
TWO_BY_TWO = example([[0.9, 0.2], [0.4, 0.75]], REUSED, reward=1.0)


def spec_of(example: Example) -> dict:
    """The figure's specification, complete; it can be drawn."""
    data, problems = figure_data([Section("s", "s", decision_figures([example]))])
    assert problems == []
    (spec,) = data.values()
    assert vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
    return spec


def layers(spec: dict) -> dict[str, dict]:
    """What each layer draws -> the layer: heat, numbers, frames and signs."""
    found = {}
    for layer in spec["layer"]:
        mark, encoding = layer["mark"], layer["encoding"]
        kind = {"text": "numbers", "point": "signs"}.get(mark["type"]) or (
            "heat" if "color" in encoding else "frames"
        )
        assert kind not in found
        found[kind] = layer
    return found


def data_of(spec: dict, layer: dict) -> list[dict]:
    data = layer.get("data") or spec["data"]
    return data["values"] if "values" in data else spec["datasets"][data["name"]]


def cells(spec: dict) -> list[tuple[float | None, str, str]]:
    """(similarity, number, what is told on pointing, up to the case's origin) of each cell, row by row."""
    heat, numbers = layers(spec)["heat"], layers(spec)["numbers"]
    rows = data_of(spec, heat)
    assert data_of(spec, numbers) == rows
    assert heat["encoding"]["color"]["field"] == "similarity"
    assert numbers["encoding"]["text"]["field"] == "text"
    assert all(layer["encoding"]["tooltip"]["field"] == "says" for layer in spec["layer"])
    return [
        (row["similarity"], row["text"], row["says"].partition(". The case's template is ")[0]) for row in rows
    ]


def marked(spec: dict) -> list[str]:
    """The meaning of every frame and sign that is drawn."""
    found = layers(spec)
    return [row["meaning"] for kind in ("frames", "signs") if kind in found for row in data_of(spec, found[kind])]


def in_legends(spec: dict) -> list[str]:
    found = layers(spec)
    scales = (("frames", "stroke"), ("signs", "shape"))
    return [
        word for kind, by in scales if kind in found for word in found[kind]["encoding"][by]["scale"]["domain"]
    ]


def test_a_reuse_drawn_by_hand():
    (figure,), spec = decision_figures([TWO_BY_TWO]), spec_of(TWO_BY_TWO)
    assert figure.title == "Reuse: put cap on hook (Easy, BiKE + CBR)"
    hat, cup = "case #4 'put hat on hook' for", "case #2 'take cup' for"
    assert cells(spec) == [
        (0.9, "0.90", f"{hat} cap, hook: 0.90 > tau 0.70; reused as 'put cap on hook': admissible here"),
        (0.2, "0.20", f"{hat} mug: 0.20 <= tau 0.70"),
        (0.4, "0.40", f"{cup} cap, hook: 0.40 <= tau 0.70"),
        (0.75, "0.75", f"{cup} mug: 0.75 > tau 0.70; reused as 'take mug': not admissible here"),
    ]
    assert sorted(marked(spec)) == sorted([ABOVE, ABOVE, REUSED_FRAME, ADMISSIBLE, REFUSED_SIGN])
    assert in_legends(spec) == [ABOVE, REUSED_FRAME, ADMISSIBLE, REFUSED_SIGN]
    assert in_legends(spec) == ["above tau", "reused", "retrieved, admissible", "retrieved, refused by revise"]
    first = data_of(spec, layers(spec)["heat"])[0]["case"]
    assert first == "#4 put hat on hook\nput {} on {} · episode 3, step 9"
    assert "Rows: 2 of 2 cases. Columns: 2 of 2 contexts." in figure.caption


def test_tau_is_marked_on_the_scale():
    colour = layers(spec_of(TWO_BY_TWO))["heat"]["encoding"]["color"]
    assert colour["scale"]["domain"] == [0, 1]
    assert colour["legend"]["values"] == [0.0, 0.7, 1.0]
    assert "tau is 0.70" in colour["legend"]["title"]


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
    fallback = example([[0.9, float("-inf")], [0.75, 0.75]], asked)
    (figure,), spec = decision_figures([fallback]), spec_of(fallback)
    assert figure.title == "Fallback to the neural agent: look (Easy, BiKE + CBR)"
    found = cells(spec)
    assert (None, "·", "case #4 'put hat on hook' for mug: the approximate index did not look") in found
    aside = "case #2 'take cup' for cap, hook: 0.75 > tau 0.70; not retrieved: takes another number of entities"
    assert (0.75, "0.75", aside) in found
    assert REUSED_FRAME not in marked(spec)
    assert REUSED_FRAME not in in_legends(spec)


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
    assert len(cells(spec_of(large))) == 8 * 12
    assert (
        "8 of 20 cases, the most similar ones. Columns: 12 of 15 contexts, the most similar ones."
        in figure.caption
    )


def test_long_names_are_cut_and_told_whole_on_pointing():
    long = "a very long name of a thing that has no end"
    item = case(1, TAKE, long)
    decision = Decision(LOOK, "agent", (), None, LOOK)
    spec = spec_of(example([[0.5]], decision, contexts=((long,),), cases=(item,)))
    (row,) = data_of(spec, layers(spec)["heat"])
    assert row["context"] == cut(long, 26)
    assert row["case"].startswith(cut(f"#1 take {long}", 39))
    assert f"take {long}" not in row["case"]
    assert f"'take {long}' for {long}: 0.50" in row["says"]
    assert cut("abcdef", 4) == "abc…"
    assert cut("abcd", 4) == "abcd"


def test_names_are_escaped():
    odd = "<u>\"&'"
    decision = Decision(LOOK, "agent", (), None, Action(odd, odd))
    named = example([[0.8]], decision, contexts=((odd,),), cases=(case(1, TAKE, odd),))
    section = Section("s", "Decisions", decision_figures([named]))
    data, _ = figure_data([section])
    html = render(
        "report.html.j2", title="", lead="", facts=[], sections=[section], notes=[], data=data, palettes=PALETTES,
        vega="", commands=[],
    )  # fmt: skip
    assert "<u>" not in html
    assert html.count("&lt;u&gt;") + html.count("\\u003cu\\u003e") > 5
    (row,) = data_of(spec_of(named), layers(spec_of(named))["heat"])
    assert row["context"] == odd


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
    assert re.findall(r'<figure class="card" id="(\w+)" data-chart>', section) == [
        "decision_0_reuse",
        "decision_1_fallback",
    ]
    for words in ("because    case #", "because    the agent is asked: of ", "reward 1, score 1 of 1"):
        assert words in section
    with (written.tables / "decisions.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    assert head[4:7] == ["Context", "Relevance", "tau"]
    assert "reused" in [row[-1] for row in rows]
    assert "## What was retrieved for these decisions" in written.markdown.read_text()
    assert "For them alone these plays were played again." in section


def test_the_command_can_leave_them_out(here, run, tmp_path):
    done = here("report", run, "--out", tmp_path / "page.html", "--no-decisions")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "page.html").read_text()
    assert "about-decisions" not in text
    assert "played again" not in text
    assert not (tmp_path / "page_tables" / "decisions.csv").exists()


# Colours: the numbers can be read in every cell, in light, dark and print


def luminance(colour: np.ndarray) -> float:
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def rgb(text: str) -> np.ndarray:
    digits = text.removeprefix("#")
    return np.array([int(digits[at : at + 2], 16) for at in (0, 2, 4)]) / 255


@pytest.mark.parametrize("which", ["light", "dark", "print"])
def test_numbers_stand_out_and_heat_grows_evenly(which):
    colours = {name: rgb(colour) for name, colour in PALETTES[which].items()}
    grounds = [
        luminance(share * colours["heat"] + (1 - share) * colours["card"]) for share in np.linspace(0, 1, 21)
    ]
    number = luminance(colours["onheat"])
    contrasts = [(max(number, g) + 0.05) / (min(number, g) + 0.05) for g in grounds]
    assert min(contrasts) >= 4.5  # WCAG AA
    steps = np.diff(grounds)
    assert (steps > 0).all() or (steps < 0).all()


def test_every_colour_and_line_of_the_map_has_a_style():
    (figure,), spec = decision_figures([TWO_BY_TWO]), spec_of(TWO_BY_TWO)
    style = (TEMPLATES / "style.css").read_text()
    kinds = {kind for kind, _ in figure.lines} - {"plain"}
    assert {kind for kind in kinds if f".line-{kind}" not in style} == set()
    used = set(re.findall(r'"expr": "cbr_(\w+)"', json.dumps(spec["layer"])))
    assert {"ink", "c1", "card", "heat", "onheat"} <= used <= set(PALETTES["light"])
