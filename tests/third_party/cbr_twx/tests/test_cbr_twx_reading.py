"""What the texts tell, on texts as TextWorldExpress prints them."""

import pytest
from cbrcore import StateGraph

from cbr_twx.reading import Remembered, parse_command, read_inventory, read_places, read_room

KITCHEN = (
    "You are in the kitchen. In one part of the room you see a stove. There is also an oven. You also see a "
    "fridge that is closed. In another part of the room you see a counter that has a raw purple potato, and a "
    "cookbook on it. There is also an open cutlery drawer, that contains a knife. You also see a dining chair, "
    "that has nothing on it. In another part of the room you see a box, that is empty. There is also some olive "
    "oil. \nThrough an open plain door, to the North you see the backyard. To the East you see a closed screen "
    "door. To the South you see the attic. "
)
NAMES = ["purple potato", "cookbook", "knife", "fridge", "north", "east", "south", "olive oil"]
PANTRY = "You are in the pantry. In one part of the room you see a shelf. \nTo the West you see the kitchen. "


@pytest.mark.parametrize(
    ("text", "template", "entities", "seeds"),
    [
        ("take dirty green T-shirt", "take {}", ("dirty green T-shirt",), ("dirty green T-shirt",)),
        ("put blue cup in sink", "put {} in {}", ("blue cup", "sink"), ("blue cup", "sink")),
        ("cook white onion in oven", "cook {} in {}", ("white onion", "oven"), ("white onion", "oven")),
        ("open door to south", "open door to {}", ("south",), ("south",)),
        ("open clothes drier", "open {}", ("clothes drier",), ("clothes drier",)),
        ("move west", "move {}", ("west",), ("west",)),
        ("take 216 grapes", "take {}", ("216 grapes",), ("216 grapes",)),
        ("look around", "look around", (), ("player",)),
        ("eat meal", "eat meal", (), ("player",)),
        ("jump up and down", "jump up and down", (), ("player",)),
        ("inventory", "inventory", (), ("player",)),
    ],
)
def test_commands_are_templates_with_entities(text: str, template: str, entities: tuple, seeds: tuple) -> None:
    action = parse_command(text)
    assert (action.text, action.template, action.entities, action.seeds) == (text, template, entities, seeds)


def test_a_room_with_everything_in_it() -> None:
    room = read_room(KITCHEN, NAMES)
    assert room is not None
    assert room.name == "kitchen"
    assert set(room.facts) == {
        *((thing, "at", "kitchen") for thing in ("stove", "oven", "fridge", "counter", "cutlery drawer", "box")),
        ("dining chair", "at", "kitchen"),
        ("olive oil", "at", "kitchen"),
        ("fridge", "is", "closed"),
        ("purple potato", "on", "counter"),
        ("purple potato", "is", "raw"),
        ("cookbook", "on", "counter"),
        ("cutlery drawer", "is", "open"),
        ("knife", "in", "cutlery drawer"),
        ("north", "exit of", "kitchen"),
        ("north", "leads to", "backyard"),
        ("north", "is", "open"),
        ("east", "exit of", "kitchen"),
        ("east", "is", "closed"),
        ("south", "exit of", "kitchen"),
        ("south", "leads to", "attic"),
    }


def test_of_two_names_the_longer_one_counts() -> None:
    text = "You are in the hall. In one part of the room you see a bench that has a dirty old coat on it."
    facts = read_room(text, ["coat", "dirty old coat"]).facts
    assert ("dirty old coat", "on", "bench") in facts
    assert not [fact for fact in facts if fact[0] == "coat"]


def test_an_inventory() -> None:
    text = "Inventory (maximum capacity is 4 items): \n  a raw purple potato\n  some olive oil\n"
    assert list(read_inventory(text, NAMES)) == [
        ("purple potato", "in", "player"),
        ("purple potato", "is", "raw"),
        ("olive oil", "in", "player"),
    ]
    assert list(read_inventory("Inventory: \n  Your inventory is currently empty.\n", NAMES)) == []
    assert list(read_inventory("", NAMES)) == []


def test_rooms_are_remembered_and_what_is_carried_is_nowhere_else() -> None:
    remembered = Remembered()
    assert ("cookbook", "on", "counter") in remembered.take_in(KITCHEN, "Inventory: \n", NAMES)
    facts = remembered.take_in(PANTRY, "Inventory: \n  a cookbook\n", ["cookbook", "west"])
    assert ("player", "at", "pantry") in facts
    assert ("cookbook", "in", "player") in facts
    assert ("cookbook", "on", "counter") not in facts
    assert ("purple potato", "on", "counter") in facts  # as it was last seen
    assert ("backyard", "north of", "kitchen") in facts
    assert ("kitchen", "west of", "pantry") in facts
    assert ("pantry", "east of", "kitchen") in facts
    assert ("west", "leads to", "kitchen") in facts
    assert not [fact for fact in facts if fact[0] == "north"]  # an exit of the other room


def test_the_map() -> None:
    remembered = Remembered()
    remembered.take_in(KITCHEN, "Inventory: \n", NAMES)
    facts = remembered.take_in(PANTRY, "Inventory: \n  a cookbook\n", ["cookbook", "west"])
    places = read_places(StateGraph.of(facts).triples)
    assert places.here == "pantry"
    assert places.exits["pantry"] == {"move west": "kitchen"}
    assert places.exits["kitchen"] == {"move north": "backyard", "move south": "attic", "move east": "pantry"}
    assert places.where["cookbook"] == "player"
    assert places.where["knife"] == "cutlery drawer"
    assert places.holders == {"counter", "cutlery drawer"}


def test_what_describes_no_room_is_an_empty_graph() -> None:
    assert Remembered().take_in("", "", ["grape"]) == []
    assert read_places([]).here == ""
