"""What the game answers to admissible commands, and checks that this is what it really answers.

The sentences are those of TextWorld and Inform 7; what they name comes from the game's .json. The game itself is
asked where they cannot tell, and to check them (setting `verify`).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from cbr_twc.game import Game
from cbr_twc.interpreter import Answer, Interpreter
from cbr_twc.scoring import Outcome
from cbr_twc.world import World, in_sight
from cbrcore.errors import GameError
from cbrcore.types import Action, Ending, fill

SENTENCES = {
    "take {}": "You pick up {} from the ground.",
    "take {} from {}": "You take {} from {}.",
    "drop {}": "You drop {} on the ground.",
    "put {} on {}": "You put {} on {}.",
    "insert {} into {}": "You put {} into {}.",
    "open {}": "You open {}.",
    "close {}": "You close {}.",
}
SCORED = "\n\nYour score has just gone up by one point."
WON = f"""


{"*** The End ***":>70}

You scored {{score}} out of a possible {{score}}, in {{turns}} turns.


Would you like to RESTART, RESTORE a saved game, QUIT or UNDO the last command?"""


class Answers:
    """The answers of one game."""

    def __init__(self, game: Game, interpreter: Interpreter) -> None:
        self.game = game
        self._interpreter = interpreter
        self._prefixes: dict[Hashable, str] = {}

    def __repr__(self) -> str:
        return f"Answers({self.game.name!r})"

    def expected(self, action: Action, world: World, outcome: Outcome, commands: int) -> str | None:
        """The game's answer to an admissible action.

        Args:
            action: what is about to be carried out.
            world: before the action.
            outcome: what the action brings.
            commands: how many commands there were, with this one.

        Returns:
            None if only the game itself can tell.
        """
        if outcome.ending is Ending.LOST or self.game.may_ask_back(action):
            return None
        if not self.game.rivals(action):
            return self._sentence(action, world, outcome, commands)
        prefix = self._prefixes.get(self._prefix_key(action, world))
        return None if prefix is None else prefix + self._sentence(action, world, outcome, commands)

    def opening(self) -> str:
        """What the game prints first; GameError unless it ends with the description of the first room."""
        printed = self._interpreter.opening()
        self._expect("the start", printed, agrees=printed.endswith(self.game.description(self.game.start)))
        return printed

    def check(self, action: Action, world: World, outcome: Outcome, commands: int, answer: Answer) -> None:
        """GameError unless the game's `answer` is as expected; learn from it what could not be expected."""
        self.check_outcome(action, outcome, answer)
        expected = self.expected(action, world, outcome, commands)
        if expected is None and outcome.ending is not Ending.LOST:
            expected = self._sentence(action, world, outcome, commands)
            self._prefixes[self._prefix_key(action, world)] = answer.text.removesuffix(expected)
            self._expect(action.text, answer.text, agrees=answer.text.endswith(expected))
        else:
            self._expect(action.text, answer.text, agrees=expected in (None, answer.text))

    def check_outcome(self, action: Action, outcome: Outcome, answer: Answer) -> None:
        """GameError unless the game gives the point, and ends, as expected."""
        agrees = answer.scored == (outcome.goal is not None) and answer.ending == outcome.ending
        self._expect(action.text, answer.text, agrees=agrees)

    def check_texts(self, world: World) -> None:
        """GameError unless the game describes room and inventory as we do."""
        for command, text in (("look", self.game.description(world)), ("inventory", self.game.inventory(world))):
            printed = self._interpreter.peek(command)
            self._expect(command, printed, agrees=printed == text)

    def _prefix_key(self, action: Action, world: World) -> Hashable:
        """Some names fit two things: then the parser says first which one it takes: "(the desk)".

        What it says depends on the command and on the other things that are in sight.
        """
        seen = {*in_sight(world, self.game), *self.game.furniture[world.room]}
        rivals = sorted(self.game.rivals(action) & seen)
        return action.text, tuple((rival, world.place.get(rival)) for rival in rivals)

    def _sentence(self, action: Action, world: World, outcome: Outcome, commands: int) -> str:
        game = self.game
        verb, _, rest = action.template.partition(" ")
        if verb == "look":
            return game.description(world)
        if verb == "go":
            return game.description(replace(world, room=game.exits[world.room][rest].room))
        if verb == "examine":
            return game.appearance(action.entities[0], world)
        text = fill(SENTENCES[action.template], [game.definite(name) for name in action.entities])
        if verb == "open" and world.contents.get(action.entities[0]):
            text = f"{text[:-1]}, revealing {game.enumerate(world.contents[action.entities[0]])}."
        text += SCORED if outcome.goal else ""
        if outcome.ending is Ending.WON:  # the game's turns count from 1
            text += WON.format(score=game.max_score, turns=commands + 1)
        return text

    def _expect(self, command: str, printed: str, *, agrees: bool) -> None:
        if not agrees:
            raise GameError(
                f"{self.game.name}: the .z8 and the .json do not belong together; by its .json the game would not"
                f" answer {printed!r} to {command!r}",
                hint="Delete the .z8 to have it compiled again from the .json, or download both again.",
            )
