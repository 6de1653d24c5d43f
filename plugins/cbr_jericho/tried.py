"""What was tried in vain: which commands a search can leave out. Runs in the worker.

Most candidates of a search are about things that were in sight many times, and never did anything. The more
often a thing, or a pair of things, was met, the less likely are commands about it to be tried again. Whatever
was valid once is always tried, and so are commands without a thing. This is **approximate**: what can be done
with a thing may depend on what was done elsewhere, and is found late then. So what is in
another condition (examined, it looks otherwise) is tried anew, and so is what the last command was about: where
something was opened, lit or moved just now, there is something new to be done. There are many pairs, and a thing
whose look changes all the time makes new conditions of all: they are tried anew with templates that did
something with any two things.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from hashlib import blake2b
from itertools import permutations

from cbr_jericho.search import MOST_SLOTS, Found, Thing

TRIES = {1: 40, 2: 5}
"""Things in a command -> how often all commands about them are tried; after n times with probability TRIES / n."""
ANEW = {1: 5, 2: 2}
"""The same of things in one condition; of a pair the condition counts that was met less often."""


class Tried:
    """What a run's views tell: of the set of them, in whatever order they come."""

    def __init__(self) -> None:
        self._met: Counter[tuple[str, ...]] = Counter()
        self._conditions: Counter[Thing] = Counter()
        self._valid: defaultdict[str, set[tuple[str, ...]]] = defaultdict(set)
        self._last = ""

    def __repr__(self) -> str:
        return f"Tried({len(self._met)} things and pairs)"

    def learn(self, found: Found) -> None:
        """What was found where nobody was before."""
        for slots in range(1, MOST_SLOTS + 1):
            self._met.update(permutations((name for name, _ in found.things), slots))
        self._conditions.update(found.things)
        for valid in found.actions or ():
            self._valid[valid.template].add(valid.entities)

    def follow(self, command: str) -> None:
        """This command led to where the next search is."""
        self._last = f" {command.lower()} "

    def due(self, things: tuple[Thing, ...]) -> bool:
        """Whether all commands about these are tried. A draw, but the same one in every process."""
        if not things:
            return True
        names, slots = tuple(name for name, _ in things), len(things)
        if slots == 1 and f" {names[0].lower()} " in self._last:
            return True
        return drawn(names, self._met[names], TRIES[slots]) or (slots == 1 and self._in_new_condition(things))

    def anew(self, things: tuple[Thing, ...]) -> bool:
        """Whether commands about these are tried whose template was valid with others: of two things, of which
        one is in another condition."""
        return len(things) > 1 and self._in_new_condition(things)

    def _in_new_condition(self, things: tuple[Thing, ...]) -> bool:
        return drawn(things, min(self._conditions[thing] for thing in things), ANEW[len(things)])

    def did_something(self, template: str) -> bool:
        """Whether a command of this template was offered somewhere."""
        return template in self._valid

    def was_valid(self, template: str, entities: tuple[str, ...]) -> bool:
        """Whether this command was offered somewhere."""
        return entities in self._valid.get(template, ())


def drawn(about: tuple[str | Thing, ...], met: int, tries: int) -> bool:
    """True with probability tries / met, by a number that depends on nothing else."""
    digest = blake2b(repr((about, met)).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") / 2**32 * met < tries
