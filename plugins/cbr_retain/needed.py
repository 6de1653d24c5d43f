"""Of the last steps before a reward those that it needed: no detours, nothing that is no part of it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from cbr_retain.config import NeededConfig
from cbrcore import Build
from cbrcore.interfaces import RetainItem
from cbrcore.types import Observation


class Needed:
    """What the rewarded action needed of the k - 1 steps before it. Not in the paper: its "k most recent" actions
    hold also what was taken back at once ("take lantern, put down lantern") and what has nothing to do with it.

    1. *Loops go.* Steps i .. j are a loop if the world after step j is the world before step i <= j: they changed
       nothing (i = j: a step without an effect) or were undone. So they are if each of them went to another room
       and the view after j is that before i: they came back, and that a room counts as visited now is no matter.
       The longest loop goes first, of equally long ones the earliest, until there is none. The rewarded step is
       part of no loop.
    2. *What serves a kept step stays.* The rewarded step is kept. From the last of the others to the first, a step
       is kept if it

       * went to another room: with the loops gone, such steps are the way to where the reward was; or
       * made the command of a kept step admissible: of the steps before that one, but for those to another room,
         it is the last which the command was not admissible before, and admissible after; or
       * names an entity that a kept step names too (by the command's word or by its node).

    World and view are the fingerprint's (`cbrcore.types.Fingerprint`). Of a game that tells none the world is the
    state graph with the admissible commands, the view the description with them: an effect that neither shows is
    taken for none. The room is that of the map (`Build.places`); without a map every step on no entity is taken to
    go to another. Of an item whose observations are not known (`RetainItem.before`, `after`) nothing but its
    entities is looked at.
    """

    def __init__(self, config: NeededConfig, build: Build) -> None:
        self.k, self.places = config.k, build.places

    def __repr__(self) -> str:
        return f"Needed(k={self.k})"

    def select(self, buffer: Sequence[RetainItem], rng: np.random.Generator) -> Sequence[RetainItem]:
        """At most k items, oldest first, the rewarded one last."""
        *earlier, rewarded = (Step(item, self._moved(item)) for item in buffer[-self.k :])
        way = [*without_loops(earlier), rewarded]
        kept = [len(way) - 1]
        for place in reversed(range(len(way) - 1)):
            if way[place].moved or any(serves(way, place, later) for later in kept):
                kept.append(place)
        return [way[place].item for place in reversed(kept)]

    def _moved(self, item: RetainItem) -> bool:
        """Whether the player was in another room after the step."""
        if item.before is None or item.after is None:
            return False
        if self.places is None:
            return not item.action.entities
        return self.places(item.before).here != self.places(item.after).here


class Step(NamedTuple):
    """An executed action, and whether it led to another room."""

    item: RetainItem
    moved: bool


def without_loops(steps: Sequence[Step]) -> list[Step]:
    """The steps that are left when those that lead from a world back to the same one are taken out."""
    left = list(steps)
    while loops := [
        (j - i, -i) for i in range(len(left)) for j in range(i, len(left)) if is_loop(left[i : j + 1])
    ]:
        more, start = max(loops)
        del left[-start : more - start + 1]
    return left


def is_loop(steps: Sequence[Step]) -> bool:
    """Whether it is known that all was as before after these steps."""
    before, after = steps[0].item.before, steps[-1].item.after
    if before is None or after is None:
        return False
    walked = all(step.moved for step in steps)
    return world(before) == world(after) or (walked and view(before) == view(after))


def world(seen: Observation) -> Hashable:
    """Equal: what is where, and how, is equal, as far as it is known."""
    return seen.fingerprint.world if seen.fingerprint else (seen.graph, commands(seen))


def view(seen: Observation) -> Hashable:
    """Equal: what surrounds the player is equal, as far as it is known."""
    return seen.fingerprint.view if seen.fingerprint else (seen.description, commands(seen))


def serves(way: Sequence[Step], place: int, later: int) -> bool:
    """Whether a step made a later one possible, or has to do with the same things."""
    command = way[later].item.action.text
    enabling = [at for at in range(later) if not way[at].moved and enables(way[at].item, command)]
    return enabling[-1:] == [place] or not names(way[place].item).isdisjoint(names(way[later].item))


def enables(item: RetainItem, command: str) -> bool:
    """Whether the command became admissible by this step."""
    if item.before is None or item.after is None:
        return False
    return command in commands(item.after) - commands(item.before)


def commands(seen: Observation) -> frozenset[str]:
    return frozenset(action.text for action in seen.admissible)


def names(item: RetainItem) -> frozenset[str]:
    """The words for what an action is on, and the nodes they mean; none of an action on nothing, whose seeds are
    the player and the room."""
    action = item.action
    return frozenset((*action.entities, *action.seeds)) if action.entities else frozenset()
