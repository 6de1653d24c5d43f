"""What the valid actions depend on, as a key for the cache; three kinds of keys.

`StateKeys` are exact: equal keys mean equal valid actions. The search plays every candidate in the interpreter, so
what it finds depends on everything there: also on timers ("wait" changes the world when the lamp goes out), on
the next random numbers (a blow that hits), on whom "it" means. So the key is the whole memory, the stack and the
random numbers. The last command's own traces (its letters, its words) are no matter, as the next command writes
over them: the key takes the memory as it is after ``look``, which the step has asked for anyway.

`WorldKeys` hold the world that the comparison of effects sees, and no more: the object table (who is in what,
all attributes; not in which order: "take x, drop x" changes that alone), less what Jericho's comparison leaves
out; the special bytes that Jericho lists for a game; and the words that the search takes from the texts. They
match much more often, but then some action can be missing, or offered in vain (README, "The cache of valid
actions"). Jericho's own world hash is coarser still: it hides attributes that the comparison does see (in
pentari "visited", which decides whether two ways into a room count as one effect).

`ViewKeys` hold what is around the player: the room, what is in it and what is carried (who is in what, all
attributes that count), and the answers to ``look`` and ``inventory``. They match far more often, since what was
done elsewhere is no part of them; what is not in sight and matters all the same (timers, chance, a lamp that
burns down) is overlooked.
"""

from __future__ import annotations

import hashlib
from functools import cached_property, lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from jericho.util import clean
from numpy.typing import NDArray

from cbr_jericho.engine import RAM, Engine, State
from cbr_jericho.objects import Layout, ObjectTree
from cbr_jericho.tagging import Tagger

KEY_BYTES = 16

STACK_WORD = 2
"""Bytes; the interpreter's stack grows downwards."""

REMEMBERED_TEXTS = 4096
"""A spaCy model takes longer for a text than everything else in a step together."""


class Seen(NamedTuple):
    """A state, the answers to ``look`` and ``inventory`` in it, and the state that ``look`` would lead to."""

    state: State
    look: str
    inventory: str
    after_look: State


class CacheKeys(Protocol):
    """Makes keys of states; keys of different kinds are never equal."""

    def of(self, seen: Seen) -> bytes: ...


class StateKeys:
    """Keys of everything that a search can depend on."""

    def __repr__(self) -> str:
        return "StateKeys()"

    def of(self, seen: Seen) -> bytes:
        """The key of a state."""
        _, _, *registers, random_numbers, _ = seen.state
        ram, stack, counter, top, *later_registers, _, _ = seen.after_look
        digest = hashlib.blake2b(ram.tobytes(), digest_size=KEY_BYTES, person=b"state")
        digest.update(stack[top * STACK_WORD :].tobytes())  # beyond the top lies what is not read again
        later = (counter, top, *later_registers)
        digest.update(repr((registers, random_numbers, later, seen.look, seen.inventory)).encode())
        return digest.digest()


class WorldKeys:
    """Keys of what a comparison of two worlds shows."""

    def __init__(self, engine: Engine, tagger: Tagger) -> None:
        self.engine = engine
        self._nouns = lru_cache(maxsize=REMEMBERED_TEXTS)(lambda text: repr(sorted(nouns(tagger, text))).encode())

    def __repr__(self) -> str:
        return f"WorldKeys({self.engine!r})"

    def of(self, seen: Seen) -> bytes:
        """The key of a state's world."""
        digest = hashlib.blake2b(self.objects(seen.state).tobytes(), digest_size=KEY_BYTES, person=b"parents")
        digest.update(self.engine._get_special_ram().tobytes())
        digest.update(self._nouns(seen.look))
        digest.update(self._nouns(seen.inventory))
        return digest.digest()

    def objects(self, state: State) -> NDArray[np.uint8]:
        """[objects, size]: the object table without ignored attributes, without the order of what is in the same
        thing, and without restless objects that are elsewhere."""
        layout = self.engine.layout
        memory = state[RAM].copy()
        for number in self._restless:
            take_out(memory, layout, number, self.engine.player_obj_num)
        table: NDArray[np.uint8] = memory[layout.start : layout.end] & self._visible_bits
        return table.reshape(layout.count, layout.size)

    @cached_property
    def _visible_bits(self) -> NDArray[np.uint8]:
        """[objects * size] 1 for every bit of the table that counts."""
        layout, library = self.engine.layout, self.engine.frotz_lib
        bits = np.ones((layout.count, layout.size * 8), np.uint8)
        for number in range(1, layout.count + 1):
            for attribute in range(layout.attributes * 8):
                unseen = (library.ignore_attr_diff, library.ignore_attr_clr)
                bits[number - 1, attribute] = not all(ignore(number, attribute) for ignore in unseen)
        parent = layout.attributes + layout.link
        bits[:, parent * 8 : (parent + 2 * layout.link) * 8] = 0  # sibling and child
        return np.packbits(bits, axis=1).reshape(-1)

    @cached_property
    def _restless(self) -> tuple[int, ...]:
        """The objects whose moves do not count, wherever they go (Zork I's thief)."""
        ignored, places = self.engine.frotz_lib.ignore_moved_obj, range(self.engine.layout.count + 1)
        return tuple(number for number in places[1:] if all(ignored(number, place) for place in places))


class ViewKeys:
    """Keys of the room, of what is in it and carried, and of the answers to look and inventory."""

    def __init__(self, world: WorldKeys) -> None:
        self.world = world

    def __repr__(self) -> str:
        return f"ViewKeys({self.world!r})"

    def of(self, seen: Seen) -> bytes:
        """The key of what is around the player in a state."""
        engine, table = self.world.engine, self.world.objects(seen.state)  # [objects, size]
        tree = engine.tree(seen.state)
        room = tree.room(engine.player_obj_num)
        here = sorted({room, *tree.descendants(room)})
        digest = hashlib.blake2b(
            repr((here, seen.look, seen.inventory)).encode(), digest_size=KEY_BYTES, person=b"view"
        )
        digest.update(table[[number - 1 for number in here if 0 < number <= len(table)]].tobytes())
        return digest.digest()


def take_out(memory: NDArray[np.uint8], layout: Layout, number: int, player: int) -> None:
    """Forget of an object in `memory` where it is, and its attributes, unless that is where the player is. What it
    holds stays."""
    tree = ObjectTree(memory.tobytes(), layout)
    if tree.room(number) != tree.room(player):
        parent = layout.link_at(number, 0)
        memory[parent.start - layout.attributes : parent.stop] = 0


def nouns(tagger: Tagger, text: str) -> list[tuple[str, str]]:
    """The words that Jericho's search tries as objects, with their parts of speech, in the order of the text.

    The keys leave the order out: of two equally good names for a thing the search takes the one that it met first,
    so that an entry may call a thing by its other name.
    """
    words = ((token.text.lower(), token.pos_) for token in tagger(clean(text)))
    return list(dict.fromkeys(word for word in words if word[1] in ("ADJ", "NOUN", "PROPN")))
