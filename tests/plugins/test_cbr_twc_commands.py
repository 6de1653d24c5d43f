"""Commands, texts and rules: read and written as the games do."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twc_games import json_files

from cbr_twc.commands import carried_out, parse, without_trace
from cbr_twc.reading import load_game
from cbr_twc.rules import OPTIONAL, RULES, Rules, read_rules
from cbr_twc.text import compile_text, enumerate_things, print_text
from cbr_twc.world import World, admissible, apply
from cbrcore.errors import GameError
from cbrcore.types import Action, arity

NAMES = frozenset({"cup", "red cup", "shelf", "note from mum", "box", "side table", "picture on wood"})
TEMPLATES = (
    *(
        "take {}",
        "take {} from {}",
        "drop {}",
        "put {} on {}",
        "insert {} into {}",
        "examine {}",
        "open {}",
        "close {}",
    ),
    *("look", "inventory", "go north", "go south", "go east", "go west"),
)


# Commands


@given(st.sampled_from(TEMPLATES), st.lists(st.sampled_from(sorted(NAMES)), min_size=2, max_size=2), st.booleans())
def test_a_command_is_read_as_it_was_written(template, names, shout):
    action = Action.from_template(template, names[: arity(template)])
    assert parse(action.text.upper() if shout else action.text, NAMES) == action


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("tke cup", "Did you mean 'take'?"),
        ("put cup", "put X on Y"),
        ("put cup into box", "put X on Y"),
        ("take cups", "Did you mean 'cup'?"),
        ("go up", "'go'"),
        ("open box then take cup", "'open box then take cup'"),
        ("", "is not a command"),
    ],
)
def test_what_cannot_be_read_says_how_to_write_it(command, expected):
    with pytest.raises(GameError) as error:
        parse(command, NAMES)
    assert expected in str(error.value)


def test_admissible_commands_parse_back_in_all_games(games_dir):
    """Lower case loses nothing: no two things of a game, and no two commands, fall together."""
    for path in json_files(games_dir):
        game, world, rng = load_game(path), load_game(path).start.copy(), random.Random(path.stem)
        for _ in range(30):
            actions = admissible(world, game)
            assert len({action.text for action in actions}) == len(actions)
            assert [parse(action.text, game.names) for action in actions] == actions
            assert all(action.text == action.text.lower() for action in actions)
            apply(world, rng.choice(actions), game)


def test_the_trace_tells_what_was_carried_out():
    answer = (
        "[removing the red cup from the shelf]\nYou take it.\n[taking the red cup - succeeded]\n"
        "[removing the red cup from the shelf - succeeded]\n[opening screen door - succeeded]\n"
        "[going west - ended without result]\n[taking inventory - succeeded]\n[looking - succeeded]\n"
        "[singing - succeeded]\n[(first taking the cup) - succeeded]\n"
    )
    expected = ["take red cup", "take red cup from shelf", "open screen door", "inventory", "look"]
    assert carried_out(answer) == expected


def test_trace_prompt_and_status_line_are_not_for_the_reader():
    printed = "\n[looking]\n-= Hall =-\nA hall.\n[looking - succeeded]\n\n\n>" + 80 * " " + "-= Hall =-0/12"
    assert without_trace(printed) == "-= Hall =-\nA hall."


# Texts


def world(contents: dict[str, list[str]], *opened: str) -> World:
    return World("hall", frozenset(opened), contents, {})


IDS = {"c_0": "box", "s_1": "shelf", "d_0": "door"}
PHRASES = {"cup": "a cup", "milk": "some milk", "apple": "an apple"}
SHELF = (
    "[if there is something on the s_1]See [a list of things on the s_1].[end if]"
    "[if there is nothing on the s_1]Bare.[end if]"
)
BOX = (
    "[if c_0 is locked]A locked[else if c_0 is open]An open[otherwise]A closed[end if] box."
    "[if c_0 is open and there is something in the c_0] In it: [a list of things in the c_0].[end if]"
    "[if c_0 is open and the c_0 contains nothing] Empty![end if]"
)


@pytest.mark.parametrize(
    ("source", "contents", "opened", "expected"),
    [
        (SHELF, {"shelf": []}, (), "Bare."),
        (SHELF, {"shelf": ["cup"]}, (), "See a cup."),
        (SHELF, {"shelf": ["milk", "cup"]}, (), "See some milk and a cup."),
        (SHELF, {"shelf": ["milk", "cup", "apple"]}, (), "See some milk, a cup and an apple."),
        (BOX, {"box": ["cup"]}, (), "A closed box."),
        (BOX, {"box": ["cup"]}, ("box",), "An open box. In it: a cup."),
        (BOX, {"box": []}, ("box",), "An open box. Empty!"),
        ("A[if d_0 is open]n open[otherwise] closed[end if] door", {}, ("door",), "An open door"),
        ("You don't say 'hi', do you?", {}, (), 'You don\'t say "hi", do you?'),
        ("One. \n\n Two.", {}, (), "One.\n\nTwo."),
        ("[if c_0 is open][if d_0 is closed]in[end if]side[end if]", {}, ("box",), "inside"),
    ],
)
def test_texts_by_hand(source, contents, opened, expected):
    assert print_text(compile_text(source, IDS), world(contents, *opened), PHRASES) == expected


@pytest.mark.parametrize(
    "source", ["[if c_0 is open]a", "a[end if]", "[one of]a", "[if c_0 is lit]a[end if]", "[otherwise]a"]
)
def test_an_unknown_notation_is_refused(source):
    with pytest.raises(ValueError, match=r"\[|condition"):
        compile_text(source, IDS)


@given(st.lists(st.sampled_from(sorted(PHRASES)), min_size=1, max_size=6))
def test_a_list_names_each_thing_once_and_in_order(things):
    text = enumerate_things(things, PHRASES)
    assert text.replace(" and ", ", ").split(", ") == [PHRASES[thing] for thing in things]


# Rules


def logic(**changes: str | None) -> str:
    rules = {name.replace("/", "_"): (name, body) for name, body in RULES.items()}
    for key, body in changes.items():
        rules[key] = (key.replace("_", "/"), body)
    return "\n".join(f"  {name} :: {body};" for name, body in rules.values() if body is not None)


def test_both_generations_of_rules_are_told_apart(games_dir):
    published = json.loads(json_files(games_dir)[0].read_text())["KB"]["logic"]
    assert read_rules(published) == Rules(slots=True, examine_held=False, examine_doors=False)
    held, door = "in(o, I) -> in(o, I)", next(iter(OPTIONAL["examine/d"]))
    assert read_rules(logic(examine_I=held, examine_d=door)) == Rules(False, True, True)


@pytest.mark.parametrize(
    "changes", [{"take": None}, {"eat": "in(o, I) -> eaten(o)"}, {"look": "at(P, r) -> lit(r)"}]
)
def test_other_rules_are_refused(changes):
    with pytest.raises(ValueError, match="rule"):
        read_rules(logic(**changes))


# Worlds


@given(st.integers(min_value=0), st.integers(0, 44))
def test_moves_lose_nothing(games_dir, seed, number):
    """Whatever is done, each thing is in one place, and the player's hands hold no more than they can."""
    game = load_game(json_files(games_dir)[number])
    state, rng = game.start.copy(), random.Random(seed)
    for _ in range(40):
        apply(state, rng.choice(admissible(state, game)), game)
        listed = [thing for things in state.contents.values() for thing in things]
        assert sorted(listed) == sorted(game.things)
        assert all(thing in state.contents[state.place[thing]] for thing in game.things)
        assert tuple(state.place) == game.things
        assert len(state.contents["player"]) <= game.capacity
    assert game.start.key == load_game(json_files(games_dir)[number]).start.key
