"""Draw the plot of a generated story: treasures lie in closed containers, and belong in one place.

The scheme is that of many games of the benchmark (Zork I's trophy case): explore, open, take, carry, put.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from cbrcore.rng import derive_seed

ROOMS = ("library", "cellar", "attic", "workshop", "chapel", "pantry", "parlour", "nursery")
CONTAINERS = ("oak chest", "iron trunk", "wicker hamper", "cedar crate", "leather suitcase", "copper urn")
SUPPORTERS = ("pine shelf", "glass desk", "velvet armchair", "bamboo stool")
GOALS = {"trophy cabinet": "c", "marble plinth": "s", "display cupboard": "c", "granite altar": "s"}
"""Where the treasures belong -> TextWorld's type: "c" (container) or "s" (supporter)."""
TREASURES = (
    "golden idol",
    "silver crown",
    "jade dragon",
    "ruby ring",
    "pearl necklace",
    "bronze mask",
    "opal flute",
)
CLUTTER = ("rusty nail", "torn letter", "muddy boot", "wooden spoon", "cracked jug", "dusty bottle", "blunt knife")
"""What earns nothing. No two of these names share a word: "take mask" means one thing."""

DIRECTIONS = {"north": "south", "south": "north", "east": "west", "west": "east"}
"""Direction -> the way back."""

REWARD_TAKE, REWARD_PUT = 1, 2
"""Points for having a treasure in hand for the first time, and for bringing it where it belongs."""


@dataclass(frozen=True)
class Furniture:
    """A container ("c"; they start closed) or a supporter ("s") that cannot be moved."""

    name: str
    kind: str
    room: str


@dataclass(frozen=True)
class Item:
    """An object that can be carried; `place` is a room (its floor) or a piece of furniture."""

    name: str
    place: str
    treasure: bool


@dataclass(frozen=True)
class Plot:
    """A story before it is written.

    `directions[i]` leads from `rooms[i]` to `rooms[i + 1]`; the treasures belong in or on `goal`.
    """

    rooms: tuple[str, ...]
    directions: tuple[str, ...]
    start: str
    furniture: tuple[Furniture, ...]
    goal: Furniture
    items: tuple[Item, ...]

    @property
    def treasures(self) -> tuple[Item, ...]:
        return tuple(item for item in self.items if item.treasure)

    @property
    def max_score(self) -> int:
        return len(self.treasures) * (REWARD_TAKE + REWARD_PUT)


def draw_plot(seed: int) -> Plot:
    """Two or three rooms in a row, a container in each, two or three treasures; the same seed gives the same."""
    rng = random.Random(derive_seed(seed, "jericho-generated/plot"))
    rooms = tuple(rng.sample(ROOMS, rng.choice((2, 3))))
    goal_name = rng.choice(list(GOALS))
    goal = Furniture(goal_name, GOALS[goal_name], rng.choice(rooms))
    containers = [
        Furniture(n, "c", room) for n, room in zip(rng.sample(CONTAINERS, len(rooms)), rooms, strict=True)
    ]
    supporters = [Furniture(rng.choice(SUPPORTERS), "s", rng.choice(rooms))]
    treasures = rng.sample(TREASURES, rng.choice((2, 3)))
    places = rng.sample(containers, len(containers)) + rng.choices(containers, k=len(treasures))
    hidden = [Item(name, place.name, treasure=True) for name, place in zip(treasures, places, strict=False)]
    spots = [*rooms, *(piece.name for piece in (*containers, *supporters))]
    clutter = [Item(name, rng.choice(spots), treasure=False) for name in rng.sample(CLUTTER, 2)]
    return Plot(
        rooms=rooms,
        directions=_directions(len(rooms) - 1, rng),
        start=rng.choice(rooms),
        furniture=(*containers, *supporters),
        goal=goal,
        items=(*hidden, *clutter),
    )


def _directions(count: int, rng: random.Random) -> tuple[str, ...]:
    """Ways through the rooms; none leads back to where the one before came from."""
    ways: list[str] = []
    for _ in range(count):
        ways.append(rng.choice([way for way in DIRECTIONS if not ways or way != DIRECTIONS[ways[-1]]]))
    return tuple(ways)
