"""The state graph `text`: lists by hand, sentences with a real dependency parse."""

from __future__ import annotations

from contextlib import closing

import pytest
from jericho_play import check_contract, observations, open_game

from cbr_jericho.tagging import installed_model
from cbr_jericho.texts import HERE, LONGEST_NAME, TextTriples, split_lists
from cbrcore.errors import GameError


@pytest.fixture(scope="module")
def reader() -> TextTriples:
    try:
        installed_model()
    except GameError as error:
        pytest.skip(str(error))
    return TextTriples()


def told(reader: TextTriples, text: str) -> set[tuple[str, str, str]]:
    """What a text tells beyond the player's being in the room."""
    return set(reader.of(f"Cellar\n{text}", "", "", "cellar")) - {("you", "in", "cellar")}


# -- lists ---------------------------------------------------------------------------------------------------


def test_lists_are_read_without_a_parse():
    text = """You are carrying:
  A brass lantern (providing light)
  The rusty knife

The brown sack contains:
  A clove of garlic
It is raining. You see nothing."""
    prose, listed = split_lists(text)
    assert prose == "It is raining. You see nothing."
    assert listed == [
        ("you", "have", "brass lantern"),
        ("you", "have", "rusty knife"),
        ("clove of garlic", "in", "brown sack"),
    ]


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("You can see:\n  a desk", [("desk", "in", HERE)]),
        ("Sitting here, you have:\n  2 gold coins", []),  # it is not clear who holds them
        ("You have:\n  2 gold coins", [("you", "have", "gold coins")]),
        ("You have:\n  a thing so long that it is no name\n  it", []),
        ("You have:", []),
        ("", []),
    ],
)
def test_what_a_list_tells(text, listed):
    assert split_lists(text)[1] == listed


# -- sentences -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentence", "triples"),
    [
        ("There is a small mailbox here.", {("small mailbox", "in", "cellar"), ("small mailbox", "is", "small")}),
        ("A bottle is sitting on the table.", {("bottle", "on", "table")}),
        ("The mailbox is closed.", {("mailbox", "is", "closed")}),
        ("The lamp was eaten by a grue.", {("grue", "eaten", "lamp")}),
        ("You have a brass lantern.", {("you", "have", "brass lantern")}),
        ("You see a lamp on the table.", {("lamp", "in", "cellar"), ("lamp", "on", "table")}),
        (
            "The kitchen window is open and leads to the west.",
            {("kitchen window", "is", "open"), ("kitchen window", "to", "west")},
        ),
        ("You are standing west of a house.", {("you", "west of", "house")}),
        ("The Master's chair stands beside the fireplace.", {("master's chair", "beside", "fireplace")}),
    ],
)
def test_what_a_sentence_tells(reader, sentence, triples):
    assert told(reader, sentence) == triples


def test_joined_things_are_told_one_by_one(reader):
    triples = told(reader, "You can see a desk, a wooden chair and a locked door here.")
    assert {("desk", "in", "cellar"), ("wooden chair", "in", "cellar"), ("locked door", "in", "cellar")} <= triples


def test_pronouns_name_nothing_but_the_player(reader):
    before = reader.dropped
    triples = told(reader, "It is dark. This looks dangerous. You are carrying a lamp, a rope and a sack.")
    assert triples == {("you", "have", "lamp"), ("you", "have", "rope"), ("you", "have", "sack")}
    assert reader.dropped == before + 2


def test_names_are_short_and_no_pronouns(reader, games_dir, cache_dir):
    with closing(open_game(games_dir, cache_dir, "zork1", graph="text")) as environment:
        commands = environment.walkthrough("zork1")[:40]
        seen = observations(environment.replay("zork1", commands, effort="things"))
    for observation in seen:
        check_contract(observation)
        nodes = set(observation.graph.nodes)
        assert not {"it", "this", "that", "they", "which", "here", "there", "yourself", HERE} & nodes
        assert max(len(name.split()) for name in nodes) <= LONGEST_NAME
    assert environment.counts["triples_dropped"] > 0


def test_the_same_text_gives_the_same_graph(reader):
    text = "On the table is an elongated brown sack, smelling of hot peppers."
    assert reader.of(text, text, text, "") == reader.of(text, text, text, "")
    assert TextTriples().of(text, "", "", "hall") == reader.of(text, "", "", "hall")


def test_graph_of_the_texts(reader, games_dir, cache_dir):
    with closing(open_game(games_dir, cache_dir, "zork1", graph="text")) as environment:
        first = environment.reset("zork1", 0)
        assert "texts" in environment.handicaps["state_graph"]
    check_contract(first)
    assert {("you", "in", "west of house"), ("small mailbox", "in", "west of house")} <= set(first.graph.triples)
    assert ("west of house", "exit", "north") in first.graph.triples
    mailbox = next(action for action in first.admissible if action.text == "open mailbox")
    assert (mailbox.entities, mailbox.seeds) == (("mailbox",), ("small mailbox",))


def test_spacy_can_tag_the_words_to_try(reader, games_dir, cache_dir):
    with closing(open_game(games_dir, cache_dir, "zork1", tagger="spacy")) as environment:
        first = environment.reset("zork1", 0)
        assert environment.game_info("zork1")["tagger"].startswith("spacy-")
    check_contract(first)
    assert {"north", "open mailbox", "south", "west"} <= {action.text for action in first.admissible}
