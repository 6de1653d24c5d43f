"""The Jericho plugin without any game: names, commands, messages, object table, tagger, templates, cache."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cbr_isolate.protocol import HEADER_BYTES, MessageReader, PipeClosed, TooSlow, write_message
from cbr_jericho.cache import ActionCache
from cbr_jericho.commands import (
    LARGEST_COMMAND,
    META,
    asks_to_leave,
    clean_command,
    is_denied,
    shorten,
)
from cbr_jericho.config import JerichoConfig
from cbr_jericho.graphs import Map, RoomScene
from cbr_jericho.naming import direction_of, node_name, number_duplicates, room_title, which_node
from cbr_jericho.objects import CONTAINER_OF_ROOMS, Layout, ObjectTree
from cbr_jericho.search import Found, Valid
from cbr_jericho.tagging import PRONOUNS, DictionaryTagger
from cbrcore.types import Action, StateGraph

# -- settings ------------------------------------------------------------------------------------------------


def test_defaults_are_the_papers():
    config = JerichoConfig()
    assert (config.game, config.max_steps, config.seed) == ("zork1", 100, "walkthrough")


@pytest.mark.parametrize("seed", [0, -1, 2**31, "time"])
def test_seeds_that_mean_something_else_in_jericho_are_refused(seed):
    with pytest.raises(ValidationError):
        JerichoConfig(seed=seed)


def test_declaring_the_plugin_imports_neither_jericho_nor_torch():
    code = (
        "import sys, cbr_jericho, cbr_jericho.config;"
        "print([name for name in ('jericho', 'torch', 'spacy', 'numpy') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


# -- names ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "way"),
    [
        ("north", "north"),
        ("N", "north"),
        ("go sw", "southwest"),
        ("walk up", "up"),
        ("in", "enter"),
        ("enter", "enter"),
        ("out", "exit"),
        ("go", None),
        ("enter house", None),
        ("", None),
    ],
)
def test_directions(command, way):
    assert direction_of(command) == way


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("West House", "west house"),
        ("<< Chief's office >>", "chief's office"),
        ("-= Parlour =-", "parlour"),
        ('"distressed" Laura Ashley dress', "distressed laura ashley dress"),
        ("(self object)", ""),
        ("  brass\tlantern\n", "brass lantern"),
        ("caffè", "caffè"),
        ("", ""),
    ],
)
def test_node_names(text, node):
    assert node_name(text) == node


@given(st.text())
def test_node_names_are_stable(text):
    assert node_name(node_name(text)) == node_name(text)


@pytest.mark.parametrize(
    ("look", "title"),
    [
        ("\nBedroom (in bed)\nIt is dark.", "bedroom"),
        ("West of House\nYou are", "west of house"),
        (" West of House     Score: 0   Moves: 1\n\nWest of House", "west of house"),
        ("It is pitch black. You are likely to be eaten by a grue.", ""),
        ("There is nothing to be seen in here at all", ""),
        ("", ""),
    ],
)
def test_room_titles(look, title):
    assert room_title(look) == title


def test_duplicates_are_numbered_in_order():
    names = ["maze", "", "maze", "lamp", "maze 2", "maze", ""]
    assert number_duplicates(names) == ["maze", "", "maze 3", "lamp", "maze 2", "maze 4", ""]


@given(st.lists(st.sampled_from(["", "a", "a 2", "a 3", "b"])))
def test_numbered_names_are_unique_and_only_grow(names):
    numbered = number_duplicates(names)
    named = [name for name in numbered if name]
    assert len(set(named)) == len(named)
    assert all(new.startswith(old) and bool(new) == bool(old) for old, new in zip(names, numbered, strict=True))


def test_which_node_a_word_means():
    nodes = {name: name for name in ("brass lantern", "lantern stand", "coin")} | {"gold coin": "coin 2"}
    assert which_node("coin", [], nodes) == "coin"  # of that very name
    assert which_node("lamp", ["brass lantern", "light"], nodes) == "brass lantern"  # an alias
    assert which_node("lantern", [], nodes) == "brass lantern"  # ends with it
    assert which_node("stand", [], nodes) == "lantern stand"
    assert which_node("gold", [], nodes) == "coin 2"  # has it anywhere
    assert which_node("house", ["white"], nodes) == "house"  # nothing fits


# -- commands ------------------------------------------------------------------------------------------------


@given(st.text(max_size=600), st.integers(1, 300))
def test_shortened_commands_fit_and_are_a_beginning(text, limit):
    command = clean_command(text)
    short = shorten(command, limit)
    assert len(short.encode()) <= limit
    assert command.startswith(short)
    if len(command.encode()) <= limit:
        assert short == command
    else:
        assert short == command[: len(short)]


def test_long_commands_are_cut_between_words():
    forty = " and ".join(f"thing{n}" for n in range(40))
    short = shorten(f"take {forty}")
    assert len(short) <= LARGEST_COMMAND
    assert f"take {forty} ".startswith(f"{short} ")
    assert shorten("x" * 500) == "x" * LARGEST_COMMAND
    assert shorten("é" * 500) == "é" * (LARGEST_COMMAND // 2)


@given(st.text())
def test_clean_commands_are_one_line_of_plain_characters(text):
    command = clean_command(text)
    assert "\\" not in command
    assert command.isprintable()
    assert clean_command(command) == command


def test_denied_commands():
    denied = {*META, "take all", "wait"}
    refused = ["quit", "QUIT", "save", "restart now", "undo", "take all", "take all from box", "wait", "version"]
    played = ["take lamp", "quite", "waiter", "ask man to take all", "look", ""]
    assert [command for command in refused + played if is_denied(command, denied)] == refused


def test_questions_of_the_interpreter_and_of_the_story():
    assert asks_to_leave("Are you sure you want to quit?")
    assert asks_to_leave("Do you wish to restart? (Y is affirmative): >")
    assert asks_to_leave("Please answer yes or no.>")
    assert not asks_to_leave("With what? Your bare hands?")
    assert not asks_to_leave("Would you like instructions?")


# -- messages ------------------------------------------------------------------------------------------------


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for end in ends:
        with contextlib.suppress(OSError):
            os.close(end)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.lists(st.dictionaries(st.text(), JSON, max_size=3), max_size=5))
def test_messages_arrive_as_they_were_sent(messages):
    reading, writing = os.pipe()
    try:
        for message in messages:
            write_message(writing, message)
        reader = MessageReader(reading)
        assert [reader.read(1.0) for _ in messages] == messages
    finally:
        os.close(reading)
        os.close(writing)


def test_a_message_that_does_not_come(pipe):
    reading, writing = pipe
    reader = MessageReader(reading)
    with pytest.raises(TooSlow):
        reader.read(0.01)
    os.write(writing, b"\0\0\0\x10{")  # half a message
    with pytest.raises(TooSlow):
        reader.read(0.01)
    os.close(writing)
    with pytest.raises(PipeClosed):
        reader.read(1.0)


@pytest.mark.parametrize("body", [b"not JSON", b"[1]", b"\x80\x04K\x01.", b"\xff\xfe"])
def test_what_is_no_message(pipe, body):
    reading, writing = pipe
    os.write(writing, len(body).to_bytes(HEADER_BYTES, "big") + body)
    with pytest.raises(PipeClosed):
        MessageReader(reading).read(1.0)


def test_an_absurd_length(pipe):
    os.write(pipe[1], b"\xff\xff\xff\xff")
    with pytest.raises(PipeClosed, match="4294967295"):
        MessageReader(pipe[0]).read(1.0)


def test_writing_to_nobody(pipe):
    os.close(pipe[0])
    with pytest.raises(PipeClosed):
        write_message(pipe[1], {})


# -- the object table ----------------------------------------------------------------------------------------


def memory_of(version: int, links: list[tuple[int, int, int]]) -> bytes:
    """A game's memory with these objects: (parent, sibling, child) of each, from number 1 on."""
    attributes, link, defaults = (4, 1, 31) if version <= 3 else (6, 2, 63)
    table = 0x40
    properties = table + 2 * defaults + len(links) * (attributes + 3 * link + 2)
    memory = bytearray(table + 2 * defaults)
    memory[0x0A:0x0C] = table.to_bytes(2, "big")
    for number, parts in enumerate(links):
        memory += bytes(attributes) + b"".join(part.to_bytes(link, "big") for part in parts)
        memory += (properties + number).to_bytes(2, "big")
    return bytes(memory) + bytes(len(links) + 10)


HOUSE = [(0, 0, 2), (1, 3, 4), (1, 0, 0), (2, 0, 0), (0, 0, 0)]
"""1 room holding 2 box (holding 4 key) and 3 player; 5 is nowhere."""


@pytest.mark.parametrize("version", [3, 5, 8])
def test_the_object_table_by_hand(version):
    memory = memory_of(version, HOUSE)
    layout = Layout.of(memory, version)
    tree = ObjectTree(memory, layout)
    assert layout.count == len(HOUSE)
    assert [(tree.parent(n), tree.sibling(n), tree.child(n)) for n in range(1, 6)] == HOUSE
    assert list(tree.children(1)) == [2, 3]
    assert list(tree.descendants(1)) == [2, 3, 4]
    assert tree.ancestors(4) == [2, 1]
    assert tree.ancestors(5) == []
    assert [tree.parent(n) for n in (0, 6, 999)] == [0, 0, 0]


def test_links_in_a_circle_end():
    memory = memory_of(5, [(2, 1, 2), (1, 2, 1)])
    tree = ObjectTree(memory, Layout.of(memory, 5))
    assert len(list(tree.children(1))) <= 2
    assert set(tree.descendants(1)) <= {1, 2}
    assert tree.ancestors(1) == [2, 1]


def test_the_container_of_all_rooms_is_no_room():
    rooms = CONTAINER_OF_ROOMS + 1
    links = [(0, 0, 2)] + [(1, n + 1 if n <= rooms else 0, 0) for n in range(2, rooms + 2)]
    links[1] = (1, 3, rooms + 2)
    links.append((2, 0, 0))  # the player, in the first room
    memory = memory_of(5, links)
    assert ObjectTree(memory, Layout.of(memory, 5)).ancestors(rooms + 2) == [2]


# -- the tagger ----------------------------------------------------------------------------------------------


@dataclass
class Word:
    """A dictionary word with the parser's flags."""

    word: str
    is_noun: bool = False
    is_adj: bool = False
    is_verb: bool = False
    is_prep: bool = False
    is_dir: bool = False
    is_meta: bool = False
    is_special: bool = False


def test_tags_by_the_games_dictionary():
    words = [
        Word("lanter", is_noun=True),
        Word("light", is_noun=True, is_verb=True),
        Word("brass", is_adj=True),
        Word("take", is_verb=True),
        Word("with", is_prep=True),
        Word("west", is_dir=True),
        Word("save", is_meta=True),
        Word("grue"),
        Word("it", is_noun=True),
    ]
    tagged = DictionaryTagger(words)("Take the BRASS lantern, light it with Nikolai's grue (west) and save!")
    tags = {token.lower_: token.pos_ for token in tagged}
    assert tags == {
        "take": "VERB",
        "the": "X",
        "brass": "ADJ",
        "lantern": "NOUN",
        "light": "NOUN",
        "it": "PRON",
        "with": "VERB",
        "nikolai": "X",
        "grue": "NOUN",
        "west": "VERB",
        "and": "X",
        "save": "VERB",
    }
    assert tagged[2].text == "BRASS"
    assert "it" in PRONOUNS


@given(st.text())
def test_any_text_can_be_tagged(text):
    tokens = DictionaryTagger([Word("lamp", is_noun=True)])(text)
    assert all(token.text in text and token.lower_ == token.text.lower() for token in tokens)


# -- templates -----------------------------------------------------------------------------------------------


def test_commands_are_read_back_into_template_and_entities():
    from cbr_jericho.search import Valid, read_back

    templates = ["take OBJ", "give OBJ OBJ", "put OBJ in OBJ", "climb", "climb", "take all", "a OBJ OBJ OBJ"]
    names = ["all", "brass lamp", "lamp", "old lamp brass"]
    commands = ["take all", "give brass lamp old lamp brass", "put lamp in brass lamp", "climb", "take brass lamp"]
    assert read_back(commands, templates, names) == [
        Valid("take all"),  # and not "take {}" of "all"
        Valid("give {} {}", ("brass lamp", "old lamp brass")),
        Valid("put {} in {}", ("lamp", "brass lamp")),
        Valid("climb"),
        Valid("take {}", ("brass lamp",)),
    ]


@given(st.data())
def test_whatever_the_generator_makes_is_read_back(data):
    from cbr_jericho.search import GivenTemplates, read_back

    words = st.sampled_from(["take", "put", "on", "in", "OBJ", "up"])
    templates = data.draw(st.lists(st.lists(words, min_size=1, max_size=5).map(" ".join), min_size=1, max_size=4))
    names = data.draw(st.lists(st.sampled_from(["lamp", "on lamp", "all", "up"]), unique=True, max_size=3))
    generator = GivenTemplates(templates)
    commands = sorted(set(generator.generate_actions(names)))
    read = read_back(commands, generator.templates, names)
    assert [valid.text for valid in read] == commands
    made = {
        (action.action, tuple(names[i] for i in action.obj_ids))
        for action in generator.generate_template_actions(names, range(len(names)))
    }
    assert {(valid.text, valid.entities) for valid in read} <= made
    fewest = {text: min(len(e) for t, e in made if t == text) for text in commands}
    assert all(len(valid.entities) == fewest[valid.text] for valid in read)


# -- the cache -----------------------------------------------------------------------------------------------


def test_entries_are_found_again_and_kept_apart(tmp_path):
    path = tmp_path / "deep" / "story.sqlite"
    first, other = ActionCache(path, "jericho-1 tagger-1"), ActionCache(path, "jericho-1 tagger-2")
    first.put(b"state", {"a": [1, "é"]})
    first.put(b"state", "a second search never replaces the first")
    other.put(b"state", 2)
    first.close()
    first.close()
    again = ActionCache(path, "jericho-1 tagger-1")
    assert again.get(b"state") == {"a": [1, "é"]}
    assert again.get(b"else") is None
    assert other.get(b"state") == 2
    assert first.get(b"state") is None  # closed: nothing is found, nothing breaks


@pytest.mark.parametrize("fault", ["no database", "folder in its place", "no permission"])
def test_a_cache_that_cannot_be_used_is_done_without(tmp_path, caplog, fault):
    path = tmp_path / "story.sqlite"
    if fault == "no database":
        path.write_bytes(b"<html>404</html>" * 100)
    elif fault == "folder in its place":
        path.mkdir()
    else:
        (tmp_path / "file").write_text("")
        path = tmp_path / "file" / "story.sqlite"
    with caplog.at_level(logging.WARNING):
        cache = ActionCache(path, "x")
        cache.put(b"state", 1)
        assert cache.get(b"state") == (1 if fault == "no database" else None)
    assert len(caplog.messages) == 1
    assert str(path) in caplog.text


@pytest.mark.parametrize(
    "entry",
    [
        5, "5", [], {"a": 1}, True, 0.5, [[], [], []], [{}, None, []], [{}, 5, []], [{}, [5], []],
        [{}, [["wait"]], []], [{}, [[]], []], [[], [["wait", []]], []], [None, [], []], [{}, [["take {}", 5]], []],
        [{}, []], [{}, [], [], []], [{}, [["take {}", None]], []], [{}, [], None], [{}, [], 5],
        {"aliases": {}, "actions": [], "things": []}, [{}, [], ["lamp"]], [{}, [], [["lamp", None]]],
    ],
    ids=repr,
)  # fmt: skip
def test_an_entry_of_another_shape_is_searched_again_though_its_checksum_is_right(tmp_path, entry):
    cache = ActionCache(tmp_path / "story.sqlite", "x", Found.from_json)
    cache.put(b"state", entry)
    assert cache.get(b"state") is None
    assert cache.tally.entries == 1
    valid = (Valid("take {}", ("lamp",)), Valid("wait"))
    found = Found({"lamp": ["lamp", "light"]}, valid, (("lamp", 1), ("brass", 2)))
    cache.put(b"state", found.to_json())
    assert cache.get(b"state") == found


_WRITER = """
import sys, pathlib
from cbr_jericho.cache import ActionCache
cache = ActionCache(pathlib.Path(sys.argv[1]), "x")
for n in range(200):
    cache.put(n.to_bytes(2, "big"), [n])
    assert cache.get(n.to_bytes(2, "big")) == [n], n
"""


def test_several_processes_write_at_once(tmp_path):
    path = tmp_path / "story.sqlite"
    writers = [subprocess.Popen([sys.executable, "-c", _WRITER, path]) for _ in range(3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    cache = ActionCache(path, "x")
    assert all(cache.get(n.to_bytes(2, "big")) == [n] for n in range(200))
    assert json.dumps(cache.get(b"\0\1")) == "[1]"


# -- graphs --------------------------------------------------------------------------------------------------


def test_the_map_keeps_the_ways_that_were_gone():
    places = Map()
    places.enter("hall", None)
    places.enter("cellar", "go down")
    places.enter("cellar", "north")  # bumped into a wall
    places.enter("", "wait")  # no room is known now
    places.enter("attic", "pray")  # no direction
    places.enter("hall", "s")
    scene = RoomScene("hall", (("you", "in", "hall"),), {"lamp": "brass lamp"})
    take = Action("take lamp", "take {}", ("lamp",), scene.seeds(["lamp"]))
    north = Action("north", "north", (), scene.seeds([]))
    graph = places.graph(scene, (take, north), exits=(take, north))
    assert graph == StateGraph.of(
        [
            ("hall", "down", "cellar"),
            ("attic", "south", "hall"),
            ("you", "in", "hall"),
            ("hall", "exit", "north"),
        ],
        ["brass lamp"],
    )
    assert (take.seeds, north.seeds) == (("brass lamp",), ("you", "hall"))


def test_a_scene_without_a_room():
    scene = RoomScene("", (), {})
    assert scene.seeds(["Lamp", "lamp"]) == ("lamp",)
    assert scene.seeds([]) == ("you",)
    assert Map().graph(scene, (), exits=(Action("north", "north"),)).nodes == ("you",)


# -- keys ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [2, 3, 4])
@pytest.mark.parametrize("version", [3, 5])
def test_where_a_restless_object_is_is_forgotten(version, number):
    """1 hall holding 2, 3 and 4 (4 holds 5); 6 cellar holding 7 player."""
    import numpy as np

    from cbr_jericho.fingerprint import take_out

    links = [(0, 0, 2), (1, 3, 0), (1, 4, 0), (1, 0, 5), (4, 0, 0), (0, 0, 7), (6, 0, 0)]
    memory = np.frombuffer(memory_of(version, links), np.uint8).copy()
    layout = Layout.of(memory.tobytes(), version)
    unchanged = memory.copy()
    take_out(memory, layout, number, player=1)  # in the same room
    assert (memory == unchanged).all()
    take_out(memory, layout, number, player=7)
    tree = ObjectTree(memory.tobytes(), layout)
    others = [each for each in range(1, 8) if each != number]
    assert [tree.parent(each) for each in others] == [links[each - 1][0] for each in others]
    assert tree.parent(number) == 0
    gone = layout.link_at(number, 0)
    assert not memory[gone.start - layout.attributes : gone.stop].any()
    once = memory.copy()
    take_out(memory, layout, number, player=7)  # it is nowhere now
    assert (memory == once).all()


def test_the_words_that_the_search_tries_come_in_the_order_of_the_text():
    from cbr_jericho.fingerprint import nouns

    tagger = DictionaryTagger([Word("lamp", is_noun=True), Word("old", is_adj=True), Word("take", is_verb=True)])
    assert nouns(tagger, "Take the old-lamp.\nThe LAMP is old") == [("old", "ADJ"), ("lamp", "NOUN")]
