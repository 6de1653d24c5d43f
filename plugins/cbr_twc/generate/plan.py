"""Plan a whole set of games: what the splits share and what they do not, and the size of each game."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from cbr_twc.generate.draw import Drawer, GamePlan, Shape
from cbr_twc.generate.house import House
from cbrcore.errors import GameError
from cbrcore.rng import derive_seed

SPLITS = ("train", "in", "out")
TRAIN_SHARE = 2 / 3
"""Share of the base objects that training and IN games draw from; OUT games draw from the others."""


def _shapes(*sizes: tuple[int, int, int]) -> tuple[Shape, ...]:
    return tuple(Shape(*size) for size in sizes)


SHAPES: Mapping[str, Mapping[str, tuple[Shape, ...]]] = {
    "easy": {
        "train": _shapes((1, 1, 0)),
        "in": _shapes((1, 1, 0), (1, 1, 0), (1, 1, 0), (1, 2, 1), (1, 2, 1)),
        "out": _shapes((1, 1, 0), (1, 1, 0), (1, 1, 0), (1, 2, 1), (1, 2, 1)),
    },
    "medium": {
        "train": _shapes((1, 3, 1), (1, 3, 1), (1, 3, 0), (1, 3, 0), (1, 3, 0)),
        "in": _shapes((1, 2, 1), (1, 2, 0), (1, 3, 2), (1, 3, 1), (1, 3, 0)),
        "out": _shapes((1, 2, 1), (1, 2, 1), (1, 2, 0), (1, 3, 2), (1, 3, 2)),
    },
    "hard": {
        "train": _shapes((1, 6, 1), (1, 6, 0), (2, 7, 2), (2, 7, 1), (2, 7, 0)),
        "in": _shapes((2, 6, 0), (1, 7, 2), (1, 7, 2), (1, 7, 0), (2, 7, 0)),
        "out": _shapes((2, 6, 1), (2, 6, 1), (2, 7, 1), (2, 7, 1), (1, 7, 0)),
    },
}
"""(rooms, objects, carried) of the published games, split by split; further games repeat them in turn."""


def split_bases(house: House, seed: int) -> tuple[frozenset[str], frozenset[str]]:
    """The base objects of training and IN games, and those of OUT games: disjoint, the same for every level."""
    bases = list(house.bases)
    random.Random(derive_seed(seed, "twc-generate/split")).shuffle(bases)
    cut = round(TRAIN_SHARE * len(bases))
    return frozenset(bases[:cut]), frozenset(bases[cut:])


def plan_games(house: House, level: str, games_per_split: int, seed: int) -> dict[str, list[GamePlan]]:
    """All games of a set, no two alike.

    As in the published games, what is learned in training can be of use elsewhere: the splits visit the rooms in
    the same order, and many of the right holders of IN and OUT games were right for something in training.

    Raises:
        GameError: the house is too small for so many different games.
    """
    train_pool, out_pool = split_bases(house, seed)
    train = _plan_split(house, level, "train", games_per_split, seed, train_pool, made=[])
    inside = _plan_split(house, level, "in", games_per_split, seed, train_pool, made=train)
    outside = _plan_split(house, level, "out", games_per_split, seed, out_pool, made=train)
    return {"train": train, "in": inside, "out": outside}


def plan_houses(
    house: House, level: str, count: int, seed: int, left_out: frozenset[str], after: Sequence[str] = ()
) -> dict[str, list[GamePlan]]:
    """Games to train on alone: nothing is held back but the base objects that are `left_out`. The others come in
    turn: as long as a house can be made of objects that no house before it has, it is. Before it are those of the
    levels `after` which this one comes, as many of each.

    Raises:
        GameError: too few are left for so many different games.
    """
    pool = unused = frozenset(house.bases) - left_out
    try:
        for each in (*after, level):
            plans = _plan_split(house, each, "train", count, seed, pool, made=[], unused=unused)
            unused -= _bases(plans)
        return {"train": plans}
    except GameError as error:
        raise GameError(
            f"{len(pool)} of {len(house.bases)} objects are too few for {count} different {level} houses",
            hint="Lower `houses`, or set `leave_out: null`.",
        ) from error


def _plan_split(
    house: House,
    level: str,
    split: str,
    count: int,
    seed: int,
    pool: frozenset[str],
    *,
    made: list[GamePlan],
    unused: frozenset[str] = frozenset(),
) -> list[GamePlan]:
    """`count` games that differ from each other and from the training games already `made`; of objects that are
    `unused`, and in no game before, where these are enough."""
    rooms = list(house.rooms)
    random.Random(derive_seed(seed, "twc-generate/rooms")).shuffle(rooms)
    shapes = SHAPES[level][split]
    familiar = frozenset(goal for plan in made for thing in plan.objects for goal in thing.goals)
    drawer = Drawer(house, pool, familiar)
    seen, plans = set(made), []
    for index in range(count):
        turn = index % len(rooms)
        rng = random.Random(derive_seed(seed, f"twc-generate/{level}/{split}/{index}"))
        shape, order = shapes[index % len(shapes)], rooms[turn:] + rooms[:turn]
        draws = drawer.draws(shape, order, rng)
        if unused:
            draws = chain(Drawer(house, unused, familiar).draws(shape, order, rng), draws)
        plan = next((draw for draw in draws if draw not in seen), None)
        if plan is None:
            raise GameError(
                f"the house is too small for {count} different {level} games in the split {split!r}",
                hint="Ask for fewer games per split, or add things to house.yaml.",
            )
        seen.add(plan)
        plans.append(plan)
        unused -= _bases([plan])
    return plans


def _bases(plans: Iterable[GamePlan]) -> frozenset[str]:
    return frozenset(thing.base for plan in plans for thing in plan.objects)
