"""What actions make possible, learned from play at the level of templates.

Nothing here knows a game. Executing the template t with an entity e in slot i *enables* the template t' with e in
slot j if afterwards an action of t' with e in that slot is admissible that was not before: "take {}" enables
"put {} on {}" for its object, "open {}" enables "insert {} into {}" for its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from cbr_goals.kinds import names_of
from cbrcore.types import Action


class Effect(NamedTuple):
    """Template and slot that enable another template's slot."""

    template: str
    slot: int
    enables: str
    there: int


class Effects:
    """N[t, i -> t', j]: in how many executions of t the effect was seen; and how often each t was executed."""

    def __init__(self) -> None:
        self.seen: Counter[Effect] = Counter()
        self.executed: Counter[str] = Counter()
        self._enabling: dict[tuple[str, int], list[Effect]] = {}

    def __repr__(self) -> str:
        return f"Effects({len(self.seen)} of {len(self.executed)} templates)"

    def note(self, before: Iterable[Action], action: Action, after: Iterable[Action]) -> None:
        """Take in one step: the actions that were admissible before and after it."""
        known = {each.text for each in before}
        self.executed[action.template] += 1
        self._saw({effect for new in after if new.text not in known for effect in effects(action, new)})

    def enabling(self, templates: Collection[str], there: int) -> dict[str, set[int]]:
        """template t -> its slots whose entity can be in slot `there` of one of `templates` once t is executed."""
        found: dict[str, set[int]] = {}
        for template in templates:
            for effect in self._enabling.get((template, there), ()):
                found.setdefault(effect.template, set()).add(effect.slot)
        return found

    def _saw(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if effect not in self.seen:
                self._enabling.setdefault((effect.enables, effect.there), []).append(effect)
            self.seen[effect] += 1

    def rows(self) -> list[tuple[Effect, int, int]]:
        """(effect, how often it was seen, how often its template was executed), the most frequent first."""
        order = sorted(self.seen.items(), key=lambda each: (-each[1], each[0]))
        return [(effect, count, self.executed[effect.template]) for effect, count in order]

    def state(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "seen": [[*effect, count] for effect, count in sorted(self.seen.items())],
            "executed": dict(sorted(self.executed.items())),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """What `state` gave."""
        self.seen, self._enabling = Counter(), {}
        self._saw(Effect(*fields) for *fields, _ in state["seen"])
        self.seen.update({Effect(*fields): count - 1 for *fields, count in state["seen"]})
        self.executed = Counter(state["executed"])


def effects(action: Action, new: Action) -> Iterable[Effect]:
    """Of an action, given one that it made admissible: the entities that both have in one of their slots.

    The new action must not need the rest of the old one: "take the cup from the table" does not enable "put ... on
    the table" for the table, since only the cup can be put there now.
    """
    if not action.entities or not new.entities:
        return
    mine, its = names_of(action), names_of(new)
    pairs: Sequence[tuple[int, int]] = [
        (i, j) for i, j in product(range(len(mine)), range(len(its))) if mine[i] == its[j]
    ]
    for i, j in pairs:
        others = {name for at, name in enumerate(its) if at != j}
        if others.isdisjoint(mine):
            yield Effect(action.template, i, new.template, j)
