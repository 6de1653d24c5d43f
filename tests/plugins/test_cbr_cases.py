"""`cbr cases`: look at the cases of a run; and cases of one run in another, by the command line."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from parts import item

import cbrcore as cbr
from cbr_cases.listing import CaseRow, neighbours_of, select, situation_lines
from cbr_cases.page import COLUMNS, page
from cbr_memory.files import read_cases, write_cases
from cbrcore import CbrError, StateGraph

RECIPES = Path(__file__).parents[2] / "recipes"
SMOKE = RECIPES / "smoke" / "text_cbr_generated.yaml"


@pytest.fixture(scope="module")
def trained(here, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    done = here("run", SMOKE, "--set", "evaluation.splits=[]", "--set", "run.episodes=6", "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def exported(here, trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported") / "cases"
    done = here("cases", "export", trained, folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_exported_cases_are_those_of_the_run(trained, exported):
    stored, own = read_cases(exported), read_cases(trained / "memory")
    assert stored.cases == own.cases
    assert stored.weights == own.weights != ""
    assert stored.situations == own.situations
    assert stored.cases
    assert None not in stored.situations


def test_imported_cases_are_used_by_another_run(here, exported, tmp_path):
    """Another seed, so other weights: the keys are made anew."""
    folder = tmp_path / "run"
    tiny = ["--set", "evaluation.splits=[]", "--set", "run.episodes=1", "--seed", 3]
    assert here("run", SMOKE, *tiny, "--out", folder).returncode == 0
    before = len(read_cases(folder / "memory").cases)
    done = here("cases", "import", folder, exported)
    assert done.returncode == 0, done.stderr
    new, total = int(done.stdout.split()[0]), int(done.stdout.split()[-2])
    assert (new > 0, total) == (True, before + new)
    assert len(read_cases(folder / "memory").cases) == total
    again = here("cases", "import", folder, exported)
    assert again.stdout.startswith("0 new cases")
    prolonged = here("run", folder / "recipe.yaml", "--set", "run.episodes=2", "--resume", folder)
    assert prolonged.returncode == 0, prolonged.stderr
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["memory_size"] >= total


def test_figures_of_before_an_import_are_set_aside(here, exported, tmp_path):
    """They are of another memory: the run is to be measured again, and is not shared until then."""
    folder = tmp_path / "my run"
    tiny = ["--set", "evaluation.passes=1", "--set", "evaluation.random_passes=1", "--set", "run.episodes=1"]
    assert here("run", SMOKE, *tiny, "--seed", 3, "--out", folder).returncode == 0
    before = (folder / "results.json").read_bytes()
    done = here("cases", "import", folder, exported)
    assert f"measure it again: cbr evaluate '{folder}'" in done.stderr
    assert (folder / "results_before_import.json").read_bytes() == before
    refused = here("export", folder, tmp_path / "out.cbr")
    assert (refused.returncode, "is not finished" in refused.stderr) == (2, True)
    assert here("evaluate", folder).returncode == 0
    assert (folder / "results.json").read_bytes() != before
    assert here("export", folder, tmp_path / "out.cbr").returncode == 0
    again = here("cases", "import", folder, exported)
    assert (again.stdout.startswith("0 new"), (folder / "results.json").exists()) == (True, True)


@pytest.mark.parametrize("option", [["--search", "x"], ["--limit", "1"], ["--html", "x.html"], ["--failures"]])
@pytest.mark.parametrize("what", ["--effects", "--sequences"])
def test_options_that_would_be_ignored_are_refused(here, trained, what, option):
    done = here("cases", "list", trained, what, *option)
    assert (done.returncode, "leave the other options out" in done.stderr) == (2, True)


HOSTILE = "take \x1b[2J\x1b]0;title\x07\x9b31m\u202e[/red]\nrow\rend"


def hostile(source: Path, to: Path) -> Path:
    """The cases in `source` with texts that would do things to a terminal, as new ones."""
    stored = read_cases(source)
    cases = [
        replace(
            case, template=f"{HOSTILE} {case.id}", text=HOSTILE, provenance=replace(case.provenance, game=HOSTILE)
        )
        for case in stored.cases
    ]
    write_cases(to, replace(stored, cases=cases, situations=[(HOSTILE, each) for each in stored.situations]))
    return to


def test_texts_of_cases_are_shown_and_not_obeyed(here, exported, trained, tmp_path):
    folder = Path(shutil.copytree(trained, tmp_path / "run"))
    done = here("cases", "import", folder, hostile(exported, tmp_path / "cases"))
    assert done.returncode == 0, done.stderr
    last = json.loads(here("cases", folder, "--json").stdout)[-1]
    assert last["command"] == HOSTILE
    for words in ([folder], ["show", folder, last["id"]], ["show", folder, 99999]):
        done = here("cases", *words)
        assert r"\x1b" in done.stdout or 99999 in words
        for said in (done.stdout, done.stderr if done.returncode == 0 else ""):  # `main` prints errors
            assert all(letter.isprintable() or letter == "\n" for letter in said)
    lines = here("cases", folder).stdout.splitlines()
    assert len(lines) == 1 + len(json.loads(here("cases", folder, "--json").stdout))


def killed_at(monkeypatch, step: int) -> list[int]:
    """Whoever renames something for the `step`-th time is killed before it; returns what is left to count."""
    left = [step]

    def wrapped(original):
        def rename(*arguments: object, **options: object) -> object:
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
            return original(*arguments, **options)

        return rename

    for module, name in ((os, "rename"), (os, "replace"), (shutil, "rmtree")):
        monkeypatch.setattr(module, name, wrapped(getattr(module, name)))
    return left


def test_an_import_that_is_killed_is_done_or_not_begun(here, exported, tmp_path, monkeypatch):
    """Before whichever rename or removal: the checkpoint has the old cases or all, and the next import works."""
    first = tmp_path / "run"
    tiny = ["--set", "evaluation.splits=[]", "--set", "run.episodes=1", "--seed", 3]
    assert here("run", SMOKE, *tiny, "--out", first).returncode == 0
    before = json.loads(here("cases", first, "--json").stdout)
    seen = set()
    for step in range(1, 40):
        run = Path(shutil.copytree(first, tmp_path / f"run{step}"))
        with monkeypatch.context() as patch:
            left = killed_at(patch, step)
            here("cases", "import", run, exported)
        now = json.loads(here("cases", run, "--json").stdout)
        seen.add(len(now))
        assert now[: len(before)] == before
        again = here("cases", "import", run, exported)
        assert again.returncode == 0, again.stderr
        total = int(again.stdout.split()[-2])
        assert (
            len(json.loads(here("cases", run, "--json").stdout)) == len(read_cases(run / "memory").cases) == total
        )
        shutil.rmtree(run)
        if left[0] > 0:
            break
    assert left[0] > 0  # nothing was left to be killed at
    assert seen == {len(before), total}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["export", "nowhere", "to"], "holds no run"),
        (["export", "{run}", "{cases}"], "holds cases already"),
        (["import", "{run}", "nowhere"], "not a case memory"),
        (["import", "nowhere", "{cases}"], "holds no run"),
    ],
)
def test_wrong_input_ends_with_one_clear_error(here, trained, exported, arguments, says):
    words = [word.format(run=trained, cases=exported) for word in arguments]
    done = here("cases", *words)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr


def test_a_run_without_case_memory_says_so(here, exported, tmp_path):
    plain = RECIPES / "text_twc.yaml"
    folder = tmp_path / "run"
    sets = {"environment": "{use: cbr_twc/twc, source: generate, games_per_split: 1, max_steps: 5}",
            "evaluation.splits": "[]", "run.episodes": 1, "agent.hidden": 8,
            "text_encoder": "{use: cbr_text_encoders/untrained, dim: 24}"}  # fmt: skip
    words = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    done = here("run", plain, *words, "--out", folder)
    assert done.returncode == 0, done.stderr
    for command in (["export", folder, tmp_path / "to"], ["import", folder, exported]):
        done = here("cases", *command)
        assert (done.returncode, "no case memory" in done.stderr) == (2, True)


# -- look at them


@pytest.fixture
def look(here):
    """What `cbr cases ...` prints."""

    def call(*words: object) -> str:
        done = here("cases", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


def test_all_cases_are_listed_with_origin_counts_and_age(look, trained):
    (checkpoint,) = sorted((trained / "checkpoints").iterdir())[-1:]
    now = json.loads((checkpoint / "state.json").read_text())["progress"]["env_steps"]
    rows = json.loads(look("list", trained, "--json"))
    cases = read_cases(trained / "memory").cases
    assert [row["id"] for row in rows] == [case.id for case in cases]
    for row, case in zip(rows, cases, strict=True):
        assert (row["command"], row["game"], row["episode"]) == (
            case.text, case.provenance.game, case.provenance.episode,
        )  # fmt: skip
        assert (row["rewarded"], row["reused"], row["age"]) == (case.rewarded, case.reused, now - case.last_step)
        assert row["success"] == (case.reuse_rewarded / case.reused if case.reused else None)
    plain = look("list", trained)
    assert plain.splitlines()[0].split() == [
        "id", "command", "game", "episode", "step", "reward", "rewarded", "reused", "success", "age",
    ]  # fmt: skip
    assert [line.split()[0] for line in plain.splitlines()[1:]] == [str(case.id) for case in cases]


def test_list_is_what_is_done_with_a_run(look, trained):
    assert look(trained) == look("list", trained)
    all_rows = json.loads(look(trained, "--json"))
    word = all_rows[0]["command"].split()[-1]
    found = json.loads(look("list", trained, "--search", word.upper(), "--json"))
    assert found == [
        row for row in all_rows if word in f"{row['command']} {row['template']} {row['game']}".lower()
    ]
    assert found
    assert look(trained, "--search", word, "--json") == look("list", trained, "--search", word, "--json")
    assert json.loads(look(trained, "--search", "nothing like it", "--json")) == []
    assert look(trained, "--sort", "used", "--limit", "1", "--json") != "[]\n"


def test_a_misspelt_command_is_no_run(here):
    done = here("cases", "exprot", "run", "to")
    assert done.returncode == 2
    assert "Did you mean 'export'?" in done.stderr


ROWS = [
    CaseRow(0, "take cup", "take {}", ("cup",), "kitchen", 0, 0, 3, 1.0, 5, 0, 0, None, 40),
    CaseRow(1, "put cup on rack", "put {} on {}", ("cup", "rack"), "kitchen", 0, 1, 4, 1.0, 2, 4, 1, 0.25, 10),
    CaseRow(2, "put hat on hook", "put {} on {}", ("hat", "hook"), "Hall", 0, 2, 1, 1.0, 2, 2, 2, 1.0, 90),
]


@pytest.mark.parametrize(
    ("asked", "ids"),
    [
        ({}, [0, 1, 2]),
        ({"search": "CUP"}, [0, 1]),
        ({"search": "hall"}, [2]),
        ({"search": "put {}"}, [1, 2]),
        ({"template": "put {} on {}"}, [1, 2]),
        ({"game": "kitchen", "template": "put {} on {}"}, [1]),
        ({"sort": "age"}, [2, 0, 1]),
        ({"sort": "success"}, [2, 1, 0]),
        ({"sort": "used"}, [1, 2, 0]),
        ({"sort": "rewarded"}, [0, 1, 2]),
        ({"search": "cup", "sort": "used"}, [1, 0]),
        ({"search": "spoon"}, []),
    ],
)
def test_rows_are_selected_and_sorted(asked, ids):
    assert [row.id for row in select(ROWS, **asked)] == ids


def test_an_unknown_template_or_game_is_told_with_a_suggestion():
    with pytest.raises(
        CbrError, match=r"no case has the template 'put \{\} onto \{\}'\. Did you mean 'put \{\} on \{\}'"
    ):
        select(ROWS, template="put {} onto {}")
    with pytest.raises(CbrError, match="no case has the game 'hall'"):
        select(ROWS, game="hall")


def test_a_case_is_shown_with_its_situation_and_neighbours(here, look, trained):
    stored = read_cases(trained / "memory")
    case, situation = stored.cases[-1], stored.situations[-1]
    text = look("show", trained, case.id)
    assert re.search(rf"^command +{case.text}$", text, re.MULTILINE)
    for head, relation, tail in situation.triples:
        assert f"  {head} --{relation}--> {tail}\n" in text
    shown = json.loads(look("show", trained, case.id, "--json"))
    assert shown["row"]["id"] == case.id
    assert [row["id"] for _, row in shown["neighbours"]] == [
        other.id for other in stored.cases if other is not case
    ][:5]
    assert "has no case 999" in here("cases", "show", trained, 999).stderr


def test_neighbours_are_ordered_as_the_share_of_equal_codes(trained, cache_dir, monkeypatch):
    """A slow twin: codes [parts] of every pair of cases compared one by one."""
    monkeypatch.setenv("CBR_CACHE", str(cache_dir))
    with cbr.open(trained) as run:
        memory = run.parts.reasoner.retriever.memory
        for case in [*memory.cases]:  # two cases are few: add some with made-up keys
            for flipped in range(1, 4):
                key = memory.key_of(case)
                key[:flipped] = (key[:flipped] + 1) % 8
                action = replace(case, template=f"{case.template} {flipped}")
                memory.add(item(key, action), case.provenance, step=0)
        for case in memory.cases:
            found = [(near.relevance, near.case) for near in neighbours_of(run.memory, case)]
            assert case not in [other for _, other in found]
            assert len(found) == len(memory) - 1
            for similarity, other in found:
                codes = zip(memory.key_of(case).tolist(), memory.key_of(other).tolist(), strict=True)
                assert similarity == pytest.approx(sum(a == b for a, b in codes) / len(memory.key_of(case)))
            assert [s for s, _ in found] == sorted((s for s, _ in found), reverse=True)


def test_situations_as_text():
    graph = StateGraph.of([("cup", "on", "floor"), ("rack", "at", "kitchen"), ("a", "at", "kitchen")], ["player"])
    assert situation_lines(graph, ("rack",)) == [
        "rack --at--> kitchen", "a --at--> kitchen", "cup --on--> floor", "player",
    ]  # fmt: skip
    assert situation_lines(("You see a cup.", frozenset({"b", "a"}), graph))[:3] == ["You see a cup.", "a", "b"]
    assert situation_lines(None) == []


INSIDE = ("a", "button")
"""Tags within a cell."""


class Page(HTMLParser):
    """What a browser sees: cells by row, ids, tags and their attributes, what is loaded from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows, self.ids, self.loaded, self.tags, self.attributes = [], set(), [], [], []
        self._cell = False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        facts = dict(attributes)
        self.tags.append(tag)
        self.attributes.append(set(facts))
        self.ids.add(facts.get("id"))
        self.loaded += [
            facts[name] for name in ("src", "href") if name in facts and not facts[name].startswith(("#", "data:"))
        ]
        self._cell = tag in ("td", "th") or (self._cell and tag in INSIDE)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        self._cell = self._cell and tag in INSIDE

    def handle_data(self, data):
        if self._cell:
            self.rows[-1][-1] += data


def test_the_page_holds_every_case_and_loads_nothing(here, look, trained, tmp_path):
    cases = read_cases(trained / "memory").cases
    out = tmp_path / "new" / "cases.html"
    assert look(trained, "--html", out) == f"{len(cases)} of {len(cases)} cases in {out}\n"
    text = out.read_text()
    seen = Page(text)
    assert seen.rows[0] == list(COLUMNS.values())
    assert [row[:2] for row in seen.rows[1:]] == [[str(case.id), case.text] for case in cases]
    assert {f"case-{case.id}" for case in cases} | {"search"} <= seen.ids
    assert seen.loaded == []
    assert "://" not in text
    assert "is a folder" in here("cases", trained, "--html", tmp_path).stderr


def test_the_page_holds_what_is_looked_for(look, trained, tmp_path):
    out = tmp_path / "cases.html"
    found = json.loads(look(trained, "--sort", "rewarded", "--limit", 2, "--json"))
    look(trained, "--sort", "rewarded", "--limit", 2, "--html", out)
    assert [row[0] for row in Page(out.read_text()).rows[1:]] == [str(row["id"]) for row in found]
    assert len(found) == 2


def test_texts_of_games_stay_texts_in_the_page():
    nasty = replace(ROWS[0], command="</script><img src=x>", game='" onclick="x', template="{{ 7 * 7 }} \udc80")
    seen = Page(page("<b>", [nasty], [["<i>--is--> bad", "</pre><script>alert(1)</script>"]]))
    plain = Page(page("b", [ROWS[0]], [["i --is--> good"]]))
    assert seen.rows[1][1:4] == ["</script><img src=x>", "{{ 7 * 7 }} ?", '" onclick="x']
    assert (seen.tags, seen.attributes) == (plain.tags, plain.attributes)


def test_the_browser_is_told_to_fetch_nothing():
    (policy,) = re.findall(
        r'<meta http-equiv="Content-Security-Policy" content="(.*?)">', page("run", ROWS, [[]] * 3)
    )
    rules = dict(rule.split(maxsplit=1) for rule in policy.split("; "))
    assert rules.pop("default-src") == "'none'"
    assert rules.pop("img-src", "data:") == "data:"
    assert rules == {"style-src": "'unsafe-inline'", "script-src": "'unsafe-inline'"}


def test_a_case_without_a_situation_says_so():
    assert "(its situation was not stored)" in page("run", ROWS[:1], [[]])


@pytest.fixture(scope="module")
def with_failures(here, tmp_path_factory):
    """A run that keeps what failed; at a low tau much is reused."""
    folder = tmp_path_factory.mktemp("failures") / "run"
    sets = {"evaluation.splits": "[]", "run.episodes": 4, "memory.outcome": "both", "memory.threshold": 0.1}
    words = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    done = here("run", SMOKE, *words, "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_cases_that_failed_are_listed_and_shown_on_request(look, with_failures):
    failed = json.loads(look(with_failures, "--failures", "--json"))
    assert failed
    assert all(row["rewarded"] == 0 and row["reward"] <= 0 for row in failed)
    rewarded = json.loads(look(with_failures, "--json"))
    assert all(row["rewarded"] > 0 or row["reward"] == 0 for row in rewarded)
    one = json.loads(look("show", with_failures, failed[0]["id"], "--failures", "--json"))
    assert one["row"] == failed[0]
    assert {row["id"] for _, row in one["neighbours"]} < {row["id"] for row in failed}


def test_a_run_that_keeps_no_failures_says_how_to_keep_them(here, trained):
    done = here("cases", trained, "--failures")
    assert (done.returncode, "outcome: both" in done.stderr) == (2, True)


@pytest.mark.parametrize("command", [["list"], ["show", 0], ["list", "--html", "out.html"], []])
def test_looking_at_what_is_no_run_says_so(here, command):
    done = here("cases", *command[:1], "nowhere", *command[1:])
    assert (done.returncode, "holds no run" in done.stderr) == (2, True)
