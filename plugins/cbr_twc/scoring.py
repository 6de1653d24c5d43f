"""What actions earn: one goal per misplaced thing, paid the first time that the thing is in one of its places."""

from __future__ import annotations

from dataclasses import dataclass, field

from cbr_twc.game import Game, Goal
from cbrcore.types import Action, Ending


@dataclass(frozen=True)
class Outcome:
    """What carrying out an action brings.

    Attributes:
        goal: the goal that is reached now and earns its point.
        rescored: the thing is put where it belongs, but had earned its point before.
    """

    goal: Goal | None = None
    rescored: bool = False
    ending: Ending | None = None


NOTHING = Outcome()


@dataclass
class Score:
    """The running score of an episode."""

    game: Game
    scored: tuple[str, ...] = ()
    _done: set[Goal] = field(default_factory=set)

    @property
    def points(self) -> int:
        return len(self._done)

    def outcome(self, action: Action) -> Outcome:
        """What `action` will bring if it is carried out now."""
        if not action.template.startswith(("put", "insert")):
            return NOTHING
        thing, place = action.entities
        reached = next((goal for goal in self.game.goals if goal.thing == thing and place in goal.places), None)
        if reached is not None and reached not in self._done:
            won = len(self._done) + 1 == len(self.game.goals)
            return Outcome(reached, ending=Ending.WON if won else None)
        lost = any(trap.thing == thing and place in trap.places for trap in self.game.traps)
        return Outcome(rescored=reached is not None, ending=Ending.LOST if lost else None)

    def count(self, action: Action, outcome: Outcome) -> None:
        """The action was carried out."""
        if outcome.goal is not None:
            self._done.add(outcome.goal)
            self.scored += (action.text,)
