"""The map that an observation of Jericho's games holds. The games and the engine are the real ones."""

from __future__ import annotations

from contextlib import closing

import pytest
from jericho_play import open_game, say

from cbr_jericho.places import read_places
from cbrcore.interfaces import Places, TellsPlaces
from cbrcore.types import Action, Observation, StateGraph


def seen(triples: list[tuple[str, str, str]], *actions: Action) -> Observation:
    return Observation("", "", "", actions, StateGraph.of(triples))


def test_a_map_by_hand():
    """The player sits on a chair; the way back was gone, the one up was not, and "out" leads somewhere."""
    put = Action("put cup in case", "put {} in {}", ("cup", "case"), ("tea cup", "glass case"))
    moves = [Action(text, text, (), ("you", "hall")) for text in ("go up", "go west")]
    triples = [
        ("you", "in", "chair"), ("chair", "in", "hall"), ("glass case", "in", "hall"), ("you", "have", "tea cup"),
        ("pin", "in", "box"), ("box", "in", "attic"), ("hall", "exit", "up"), ("hall", "exit", "west"),
        ("hall", "west", "yard"), ("yard", "east", "hall"), ("yard", "exit", "street"),
    ]  # fmt: skip
    assert read_places(seen(triples, put, *moves)) == Places(
        here="hall",
        exits={"hall": {"go west": "yard", "go up": None}, "yard": {"go east": "hall", "go exit": "street"}},
        where={"chair": "hall", "glass case": "hall", "tea cup": "you", "pin": "box", "box": "attic"},
        player="you",
        holders=frozenset({"chair", "box", "glass case"}),
    )


@pytest.mark.parametrize("triples", [[], [("you", "have", "hat")], [("you", "in", "you")]])
def test_where_nothing_is_known_nothing_is_told(triples):
    found = read_places(seen(triples))
    assert (found.here, found.exits) == ("", {"": {}})


def test_zork(games_dir, cache_dir):
    with closing(open_game(games_dir, cache_dir)) as zork:
        assert isinstance(zork, TellsPlaces)
        first = zork.places(zork.reset("zork1", 0))
        assert (first.here, first.player, first.holders) == ("west house", "you", frozenset())
        assert first.exits == {"west house": dict.fromkeys(("north", "south", "west"))}
        assert first.where["mailbox"] == "west house"
        assert "leaflet" not in first.where, "the mailbox is closed"
        opened = zork.places(say(zork, "open mailbox").observation)
        assert (opened.where["leaflet"], opened.holders) == ("mailbox", {"mailbox"})
        say(zork, "take leaflet")
        north = zork.places(say(zork, "north").observation)
        assert (north.here, north.where["leaflet"]) == ("north house", "you")
        assert north.exits["west house"] == {"north": "north house"}
        assert set(north.exits["north house"].values()) == {None}


def test_the_generated_story_spells_its_ways_in_its_own_manner(cache_dir, tmp_path):
    with closing(open_game(tmp_path, cache_dir, "generated")) as story:
        (game,) = story.games("train")
        begin = story.places(story.reset(game, 0))
        (command,) = begin.exits[begin.here]
        assert command.startswith("go ")
        after = story.places(say(story, command).observation)
        assert after.exits[begin.here] == {command: after.here}
        assert after.here != begin.here
