"""One game, played episode by episode: what the player sees, scores and may do."""

from __future__ import annotations

from dataclasses import dataclass

from cbr_twc.answers import Answers
from cbr_twc.commands import parse
from cbr_twc.config import TwcConfig
from cbr_twc.game import Game
from cbr_twc.graph import GraphView
from cbr_twc.interpreter import Answer, Interpreter
from cbr_twc.remember import Remembered
from cbr_twc.scoring import NOTHING, Outcome, Score
from cbr_twc.world import World, admissible, apply
from cbrcore.types import Action, Ending, Observation, StepResult


@dataclass
class Episode:
    """The state of a running episode.

    Attributes:
        verify: execute every command in the game and compare.
        by_hand: the game got a command that it did not list, or did not understand. Its parser may be in a state
            that we do not know ("Which do you mean, ...?"), so it is asked every time from then on.
    """

    world: World
    score: Score
    verify: bool
    by_hand: bool = False
    steps: int = 0
    ending: Ending | None = None


class Play:
    """A game and its running episode."""

    def __init__(self, game: Game, interpreter: Interpreter, config: TwcConfig) -> None:
        self.game = game
        self.config = config
        self._interpreter = interpreter
        self._answers = Answers(game, interpreter)
        self._graph = GraphView(game, config.graph)
        self._actions: Remembered[tuple[Action, ...]] = Remembered(2_000)
        self._opening = ""
        self._episode = self._new_episode(verify=False)

    def __repr__(self) -> str:
        return f"Play({self.game.name!r}, step {self._episode.steps})"

    def reset(self) -> Observation:
        """Start anew."""
        self._interpreter.restart()
        self._graph.restart()
        first = not self._opening
        if first:
            self._opening = self._answers.opening()
        verify = self.config.verify == "always" or (first and self.config.verify == "first")
        self._episode = self._new_episode(verify=verify)
        return self._observe(self._opening, None)

    def step(self, command: str) -> StepResult:
        """Execute a command.

        Raises:
            RuntimeError: the episode is over.
            GameError: this is no command of the game, or the game does not do what its .json says.
        """
        episode = self._episode
        if episode.ending is not None:
            raise RuntimeError(f"the episode of {self.game.name} is over: call reset() before step()")
        text = " ".join(command.lower().split())
        action = next((action for action in self._admissible() if action.text == text), None)
        if action is None or episode.by_hand:
            action = parse(text, self.game.names)
            return self._take_stock(action, self._interpreter.run(text))
        outcome = episode.score.outcome(action)
        about = (action, episode.world, outcome, episode.steps + 1)
        feedback = self._answers.expected(*about)
        if feedback is None or episode.verify:
            answer = self._interpreter.run(text)
            if not answer.carries_out(text):
                return self._take_stock(action, answer)
            self._answers.check(*about, answer)
            feedback = answer.text
        else:
            self._interpreter.note(text)
        apply(episode.world, action, self.game)
        return self._finish(action, feedback, outcome)

    def _take_stock(self, action: Action, answer: Answer) -> StepResult:
        """After a command that the game did not list, or did not understand: see what became of it."""
        episode = self._episode
        episode.by_hand = True
        outcome = NOTHING
        for command in answer.carried_out:
            done = parse(command, self.game.names)
            outcome = episode.score.outcome(done)
            apply(episode.world, done, self.game)
        self._answers.check_outcome(action, outcome, answer)
        return self._finish(action, answer.text, outcome)

    def _finish(self, action: Action, feedback: str, outcome: Outcome) -> StepResult:
        """Count the step and the score."""
        episode = self._episode
        episode.steps += 1
        episode.score.count(action, outcome)
        out_of_time = Ending.TRUNCATED if episode.steps >= self.config.max_steps else None
        episode.ending = outcome.ending or out_of_time
        if self.config.verify == "always" and outcome.ending is None:
            self._answers.check_texts(episode.world)
        reward = 1.0 if outcome.goal else 0.0
        return StepResult(self._observe(feedback, action.text), reward, episode.ending, outcome.rescored)

    def _observe(self, feedback: str, command: str | None) -> Observation:
        episode = self._episode
        return Observation(
            feedback=feedback,
            description=self.game.description(episode.world),
            inventory=self.game.inventory(episode.world),
            admissible=self._offered(),
            graph=self._graph.graph(episode.world),
            score=float(episode.score.points),
            max_score=float(self.game.max_score),
            scored=episode.score.scored,
            last_action=command,
            game=self.game.name,
            steps=episode.steps,
        )

    def _new_episode(self, *, verify: bool) -> Episode:
        return Episode(self.game.start.copy(), Score(self.game), verify)

    def _admissible(self) -> tuple[Action, ...]:
        """All that the game lists."""
        world = self._episode.world
        return self._actions.get(world.key, lambda: tuple(admissible(world, self.game)))

    def _offered(self) -> tuple[Action, ...]:
        """What is left of it for the agent."""
        dropped = self.config.drop_commands
        if not dropped:
            return self._admissible()
        return tuple(action for action in self._admissible() if not action.text.startswith(dropped))
