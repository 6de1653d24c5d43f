"""Commonsense graphs: files, triples, entity linking, and how a graph grows."""

from __future__ import annotations

import gzip
import logging
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from cbr_commonsense.build import build_commonsense
from cbr_commonsense.config import CommonsenseConfig
from cbr_commonsense.files import conceptnet, household, manual, read_triples
from cbr_commonsense.graphs import EMPTY, EvolvingGraph, ManualGraphs
from cbr_commonsense.linking import link
from cbr_commonsense.triples import TripleBase
from cbrcore import Action, Build, CbrError, Observation, StateGraph

TRIPLES = [
    ("shirt", "isa", "clothing"),
    ("clothing", "atlocation", "wardrobe"),
    ("wardrobe", "atlocation", "bedroom"),
    ("bed", "atlocation", "bedroom"),
    ("sock", "relatedto", "shirt"),
    ("shirt", "relatedto", "shirt"),
]


def seen(*nodes: str, commands: Sequence[Action] = (), game: str = "") -> Observation:
    return Observation("", "", "", tuple(commands), StateGraph.of([], nodes), game=game)


def put(thing: str, place: str) -> Action:
    return Action.from_template("put {} on {}", [thing, place])


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# --- files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "hat\tatlocation\thook\nsock\tisa\tclothing\n",
        "hat\tatlocation\thook\nsock\tisa\tclothing",  # no newline at the end
        "hat  atlocation hook\r\n\r\n sock\t isa   clothing \r\n",
        "Hat\tAtLocation\tHook\nsock\tisa\tclothing\n\n\n",
        "\ufeffhat\tatlocation\thook\nsock\tisa\tclothing\n",
    ],
)
def test_columns_may_be_apart_by_any_space(tmp_path, text):
    assert read_triples(write(tmp_path / "t.txt", text)) == [
        ("hat", "atlocation", "hook"),
        ("sock", "isa", "clothing"),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"hat\tatlocation\thook\nhat\thook\n", r"t\.txt:2: 2 columns"),
        (b"a b c d\n", r"t\.txt:1: 4 columns"),
        (b"\n \n", "holds no triples"),
        (b"", "holds no triples"),
        (gzip.compress(b"hat\tatlocation\thook\n", mtime=0), "is compressed"),
    ],
)
def test_a_file_that_is_not_one_of_triples_is_refused_by_name(tmp_path, content: bytes, message: str):
    (tmp_path / "t.txt").write_bytes(content)
    with pytest.raises(CbrError, match=message) as error:
        conceptnet(tmp_path / "t.txt")
    assert "t.txt" in error.value.message
    assert error.value.hint


@pytest.mark.parametrize("read", [conceptnet, lambda path: manual(path, "brief")], ids=["conceptnet", "manual"])
def test_a_missing_resource_says_where_it_is_from(tmp_path, read):
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "missing"):
        with pytest.raises(CbrError, match=path.name) as error:
            read(path)
        assert "commonsense-rl" in (error.value.hint or "")


def test_the_files_of_a_folder_are_read_together(tmp_path):
    write(tmp_path / "train" / "conceptnet_subgraph.txt", "a\tr\tb\nb\tr\tc\n")
    write(tmp_path / "valid" / "conceptnet_subgraph.txt", "b\tr\tc\nd\tr\ta")
    base = conceptnet(tmp_path)
    assert len(base) == 3
    assert base.around("a") == {"b", "d"}


def test_a_file_that_changes_is_read_again(tmp_path):
    path = write(tmp_path / "t.txt", "a\tr\tb\n")
    before = conceptnet(path)
    assert conceptnet(path) is before
    write(path, "a\tr\tb\na\tr\tc\n")
    assert len(conceptnet(path)) == 2


def test_graphs_by_hand_are_found_by_game_and_detail(tmp_path):
    for detail in ("brief", "complete"):
        folder = tmp_path / "easy" / "train" / f"manual_subgraph_{detail}"
        write(folder / "conceptnet_manual_subgraph-objects1-train-aB3.tsv", f"hat\tatlocation\t{detail}")
    assert manual(tmp_path, "complete")["aB3"].around("hat") == {"complete"}
    assert manual(tmp_path / "easy" / "train" / "manual_subgraph_brief", "complete")["aB3"].around("hat") == {
        "brief"
    }


# --- triples ------------------------------------------------------------------------------------------------


def test_what_is_between_some_concepts():
    base = TripleBase(TRIPLES)
    assert base.between(["shirt", "sock", "wardrobe"]) == [("sock", "relatedto", "shirt")]
    assert base.between([]) == []
    assert "shirt" in base
    assert "hat" not in base


def test_near_is_one_or_two_steps_in_any_direction():
    base = TripleBase(TRIPLES)
    assert base.around("wardrobe") == {"clothing", "bedroom"}
    assert [base.near("shirt", other) for other in ("clothing", "wardrobe", "bedroom")] == [True, True, False]
    assert base.near("wardrobe", "shirt")
    assert not base.near("shirt", "shirt")


CONCEPT = st.sampled_from("abcdefg")


@given(st.lists(st.tuples(CONCEPT, st.sampled_from("rs"), CONCEPT), min_size=1, max_size=15), st.sets(CONCEPT))
@settings(deadline=None, max_examples=50)
def test_a_base_answers_as_a_graph_does(triples, wanted):
    base, graph = TripleBase(triples), nx.Graph((head, tail) for head, _, tail in triples)
    wanted &= set(graph)
    expected = [t for t in triples if {t[0], t[2]} <= wanted and t[0] != t[2]]
    assert sorted(base.between(wanted)) == sorted(expected)
    for one in graph:
        assert base.around(one) == set(graph[one]) - {one}
        steps = nx.single_source_shortest_path_length(graph, one)
        assert {other for other in graph if base.near(one, other)} == {o for o, n in steps.items() if n in (1, 2)}


def test_no_triples_at_all():
    base = TripleBase([])
    assert (len(base), base.between([]), "a" in base) == (0, [], False)


# --- linking ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "concepts", "found"),
    [
        ("clean azure skirt", {"skirt", "azure", "clean", "shirt"}, ("clean", "azure", "skirt")),
        ("peanut butter jar", {"peanut_butter", "peanut", "butter", "jar"}, ("peanut_butter", "jar")),
        ("chest of drawers", {"chest_of_drawers", "chest", "drawer"}, ("chest_of_drawers",)),
        ("running shoes", {"running_shoe", "shoe"}, ("running_shoe",)),
        ("berries", {"berry"}, ("berry",)),
        ("knives", {"knife"}, ("knife",)),
        ("shelves", {"shelf"}, ("shelf",)),
        ("brushes", {"brush"}, ("brush",)),
        ("socks", {"socks", "sock"}, ("socks",)),
        ("glass", {"glas"}, ()),
        ("Wet Hoodie!", {"hoodie"}, ("hoodie",)),
        ("player", {"player"}, ()),
        ("pair of the scissors", {"of", "the", "scissors"}, ("scissors",)),
        ("a b c", {"a_b", "b_c", "b"}, ("a_b", "b_c")),
        ("red red hat", {"red", "hat"}, ("red", "hat")),
        ("", {"a"}, ()),
    ],
)
def test_a_name_speaks_of_its_longest_concepts(name, concepts, found):
    assert link(name, concepts) == found


# --- growing ------------------------------------------------------------------------------------------------

BASE = TripleBase(TRIPLES)


def grown(graph, *observations: Observation) -> StateGraph:
    known = EMPTY
    for observation in observations:
        known = graph.grow(known, observation)
    return known


@pytest.mark.parametrize("contextual", [True, False], ids=["cdc", "dc"])
def test_concepts_seen_so_far_stay_and_are_linked_as_in_the_source(contextual):
    graph = EvolvingGraph(BASE, contextual=contextual, name="test")
    known = grown(graph, seen("wet shirt", "player"), seen("bed", "red socks"), seen("bedroom"))
    assert known == StateGraph.of(
        [("sock", "relatedto", "shirt"), ("bed", "atlocation", "bedroom")], ["shirt", "sock", "bed", "bedroom"]
    )


def test_things_in_commands_are_seen_too():
    graph = EvolvingGraph(BASE, contextual=False, name="test")
    assert grown(graph, seen(commands=[put("shirt", "bed")])).nodes == ("bed", "shirt")


def test_contextual_links_join_what_is_held_to_places_two_steps_away_and_stay():
    graph = EvolvingGraph(BASE, contextual=True, name="test")
    commands = [put("wet shirt", "wardrobe"), put("wet shirt", "bed"), put("sock", "wardrobe")]
    insert = Action.from_template("insert {} into {}", ["sock", "shirt"])
    take = Action.from_template("take {} from {}", ["shirt", "bedroom"])
    known = grown(graph, seen(commands=[*commands, insert, take]))
    assert ("shirt", "relatedto", "wardrobe") in known.triples  # by way of clothing
    joined = {frozenset((head, tail)) for head, _, tail in known.triples}
    assert frozenset(("shirt", "bed")) not in joined  # four steps
    assert frozenset(("sock", "wardrobe")) not in joined  # three steps
    assert frozenset(("shirt", "bedroom")) not in joined  # three steps, and it is not put there
    assert ("sock", "relatedto", "shirt") in known.triples  # of the source, not of the context: shirt is held
    later = grown(graph, seen(commands=commands), seen("lamp"))
    assert ("shirt", "relatedto", "wardrobe") in later.triples


def test_direct_links_have_no_context():
    graph = EvolvingGraph(BASE, contextual=False, name="test")
    assert grown(graph, seen(commands=[put("shirt", "wardrobe")])).triples == ()


def test_a_graph_is_a_function_of_what_was_seen():
    graph, other = (EvolvingGraph(BASE, contextual=True, name="test") for _ in range(2))
    one, two = seen("shirt", "sock"), seen(commands=[put("shirt", "wardrobe")])
    grown(graph, two, one)
    assert grown(graph, one, two) == grown(other, one, two) == grown(other, one, two, two, one)
    known = grown(graph, one)
    assert graph.grow(known, one) is known


def test_an_oracle_brings_the_neighbours_of_what_was_seen(caplog):
    bases = {"x7": TripleBase(TRIPLES)}
    graph = ManualGraphs(bases, detail="brief")
    known = graph.grow(EMPTY, seen("shirt", game="tw-take1-train-x7"))
    assert known.nodes == ("clothing", "shirt", "sock")
    assert known.triples == (("shirt", "isa", "clothing"), ("sock", "relatedto", "shirt"))
    assert "bedroom" in graph.grow(known, seen("bed", game="tw-take1-train-x7")).nodes
    assert "oracle" in graph.handicaps["commonsense"]
    with caplog.at_level(logging.WARNING):
        assert [graph.grow(EMPTY, seen("shirt", game="other-y1")) for _ in range(2)] == [EMPTY, EMPTY]
    assert [record.args for record in caplog.records] == [("other-y1",)]


class NamesOnALine:
    """A text encoder whose cosines a reader can see: unit vectors at an angle in degrees."""

    dim = 2
    identity = "angles"

    def __init__(self, angles: Mapping[str, float]) -> None:
        self.angles = angles

    def encode(self, texts: Sequence[str]) -> torch.Tensor:
        angles = torch.deg2rad(torch.tensor([self.angles[text] for text in texts]))
        return 3 * torch.stack([angles.cos(), angles.sin()], dim=1)


def test_similar_names_are_linked():
    encoder = NamesOnALine({"lamp": 0.0, "torch": 50.0, "egg": 115.0})
    config = CommonsenseConfig(source="nearest", threshold=0.5)  # 60 degrees
    graph = build_commonsense(config, Build(text_encoder=encoder))
    known = grown(graph, seen("torch", "you"), seen("lamp"), seen("egg"))
    assert known == StateGraph.of([("lamp", "relatedto", "torch")], ["egg"])


# --- the package's own triples ------------------------------------------------------------------------------


def test_household_triples_are_well_formed():
    base = household()
    assert len(base) >= 300
    for concept in base._names:
        assert link(concept.replace("_", " "), base) == (concept,), concept


def test_everyday_things_find_everyday_places():
    graph = build_commonsense(CommonsenseConfig(source="embedded"), Build())
    commands = [put("dirty wool sweater", "washing machine"), put("dirty wool sweater", "bookcase")]
    known = grown(graph, seen(commands=commands))
    assert ("sweater", "relatedto", "washing_machine") in known.triples
    assert not any("bookcase" in triple for triple in known.triples)


# --- settings and determinism -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"source": "conceptnet"}, "needs a path"),
        ({"source": "manual"}, "needs a path"),
        ({"source": "embedded", "path": "x"}, "no use for 'path'"),
        ({"source": "conceptnet", "path": "x", "detail": "complete"}, "no use for 'detail'"),
        ({"source": "manual", "path": "x", "evolve": "dc"}, "no use for 'evolve'"),
        ({"source": "none", "threshold": 0.3}, "no use for 'threshold'"),
        ({}, "source"),
        ({"source": "wordnet"}, "conceptnet"),
        ({"threshold": 1.0, "source": "nearest"}, "less than 1"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(settings_, message):
    with pytest.raises(ValidationError, match=message):
        CommonsenseConfig(**settings_)


@pytest.mark.parametrize("source", ["embedded", "nearest", "none"])
def test_written_out_defaults_are_no_mistake(source):
    written = CommonsenseConfig(source=source).model_dump()
    assert CommonsenseConfig(**written) == CommonsenseConfig(source=source)


def test_paths_are_relative_to_the_recipe_and_may_hold_variables(tmp_path, monkeypatch):
    write(tmp_path / "kg" / "conceptnet_subgraph.txt", "a\tr\tb\n")
    monkeypatch.setenv("MY_FILES", str(tmp_path))
    for path in ("kg/conceptnet_subgraph.txt", "$MY_FILES/kg"):
        config = CommonsenseConfig(source="conceptnet", path=path)
        assert "a" in build_commonsense(config, Build(recipe_dir=tmp_path)).base


def test_similar_names_need_an_encoder():
    with pytest.raises(CbrError, match="text encoder"):
        build_commonsense(CommonsenseConfig(source="nearest"), Build())


def test_the_hash_seed_of_the_process_changes_nothing():
    script = (
        "from cbrcore import Action, Observation, StateGraph, Build\n"
        "from cbr_commonsense.build import build_commonsense\n"
        "from cbr_commonsense.config import CommonsenseConfig\n"
        "things = ['red shirt', 'sock', 'knife', 'wine glass']\n"
        "pairs = [[thing, place] for thing in things for place in ('wardrobe', 'dishwasher')]\n"
        "acts = [Action.from_template('put {} on {}', pair) for pair in pairs]\n"
        "seen = Observation('', '', '', tuple(acts), StateGraph.of([], ['bed', 'bedroom', 'fridge']))\n"
        "print(build_commonsense(CommonsenseConfig(source='embedded'), Build()).grow(StateGraph(()), seen))\n"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1
    assert "dishwasher" in printed.pop()


# --- the published files ------------------------------------------------------------------------------------


def test_the_published_conceptnet_graph(games_dir: Path):
    base = conceptnet(games_dir / "twc" / "easy" / "train" / "conceptnet_subgraph.txt")
    assert len(base) == 160_319
    graph = EvolvingGraph(base, contextual=True, name="conceptnet")
    commands = [put("clean red dress", "wardrobe"), put("clean red dress", "patio chair")]
    known = grown(graph, seen("bedroom", commands=commands))
    assert set(known.nodes) == {"clean", "red", "dress", "wardrobe", "patio_chair", "bedroom"}
    assert ("dress", "relatedto", "wardrobe") in known.triples
    direct = EvolvingGraph(base, contextual=False, name="conceptnet")
    assert set(grown(direct, seen("bedroom", commands=commands)).triples) < set(known.triples)


def test_the_published_graphs_by_hand(games_dir: Path):
    for detail in ("brief", "complete"):
        assert len(manual(games_dir / "twc", detail)) == 45
    graph = ManualGraphs(manual(games_dir / "twc" / "easy", "brief"), detail="brief")
    game = "tw-iqa-cleanup-objects1-take1-rooms1-train-8nq3SWoaFxWxUVYa"
    known = graph.grow(EMPTY, replace(seen("wet hoodie"), game=game))
    assert known.triples == (("hoodie", "atlocation", "clothesline"),)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("nope", "no such file or folder"),
        ("$NOPE/twc", "holds $NOPE, which is not set"),
        ("link", "a link to nowhere"),
    ],
)
def test_a_missing_folder_is_told_before_torch_is_imported(tmp_path, path, said):
    (tmp_path / "link").symlink_to("gone")
    recipe = tmp_path / "r.yaml"
    text = (Path(__file__).parents[2] / "recipes" / "bike_cbr_twc.yaml").read_text()
    recipe.write_text(text.replace("$CBR_GAMES/twc/easy", path))
    code = (
        "import sys\nfrom cbrcore.cli import main\ntry:\n    main()\nfinally:\n    print('torch' in sys.modules)\n"
    )
    for words in (["run", recipe, "--out", tmp_path / "run"], ["check", recipe]):
        command = [sys.executable, "-c", code, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        assert (done.returncode, done.stdout) == (2, "False\n"), done.stderr
        assert re.search(r"r\.yaml:\d+: agent\.commonsense\.path: ", done.stderr)
        assert said in done.stderr
    assert not (tmp_path / "run").exists()
