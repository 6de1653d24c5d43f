"""What was tried in vain: which commands a search can leave out. Runs in the worker.

Most candidates of a search are about things that were in sight many times, and never did anything. The more
often a thing, or a pair of things, was met, the less likely are commands about it to be tried again. Whatever
was valid once is always tried, and so are commands without a thing. This is **approximate**: what can be done
with a thing may depend on what was done elsewhere, and is found late then.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from hashlib import blake2b
from itertools import permutations

from cbr_jericho.search import MOST_SLOTS, Found

TRIES = {1: 40, 2: 5}
"""Things in a command -> how often all commands about them are tried; after n times with probability TRIES / n."""


class Tried:
    """What a run's views tell: of the set of them, in whatever order they come."""

    def __init__(self) -> None:
        self._met: Counter[tuple[str, ...]] = Counter()
        self._valid: defaultdict[str, set[tuple[str, ...]]] = defaultdict(set)

    def __repr__(self) -> str:
        return f"Tried({len(self._met)} things and pairs)"

    def learn(self, found: Found) -> None:
        """What was found where nobody was before."""
        for slots in range(1, MOST_SLOTS + 1):
            self._met.update(permutations(found.names, slots))
        for valid in found.actions or ():
            self._valid[valid.template].add(valid.entities)

    def due(self, entities: tuple[str, ...]) -> bool:
        """Whether all commands about these are tried. A draw, but the same one in every process."""
        return not entities or draw(entities, self._met[entities]) * self._met[entities] < TRIES[len(entities)]

    def was_valid(self, template: str, entities: tuple[str, ...]) -> bool:
        """Whether this command was offered somewhere."""
        return entities in self._valid[template]


def draw(entities: tuple[str, ...], met: int) -> float:
    """A number in [0, 1) that depends on nothing else."""
    digest = blake2b(repr((entities, met)).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") / 2**32
