"""One game, played episode by episode: what the agent sees, scores and may do."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from cbr_isolate.faults import EpisodeLost
from cbr_isolate.protocol import Message
from cbr_jericho.commands import (
    ANSWERS,
    LARGEST_COMMAND,
    LOOK_AROUND,
    META,
    clean_command,
    is_denied,
    plain_actions,
)
from cbr_jericho.config import JerichoConfig
from cbr_jericho.graphs import Map, RoomScene, SceneReader
from cbr_jericho.naming import PLAYER
from cbr_jericho.parser import Parser
from cbr_jericho.supervisor import Supervisor
from cbrcore.types import Action, Ending, Fingerprint, Observation, StateGraph, StepResult, fill

log = logging.getLogger(__name__)

NO_MOVE = "(That is no move of the game. Nothing was done.)"
ONE_AT_A_TIME = "(One command at a time. Nothing was done.)"

BEFORE = Observation("", "", "", (), StateGraph(()))
"""Stands for what came before the first observation."""


class Play:
    """A game and the state of its running episode.

    Attributes:
        counts: `shortened` and `refused` commands; observations that offered `look_around` (the search failed, or
            is impossible) or `answers` (it found nothing) instead of valid actions.
    """

    def __init__(self, game: str, supervisor: Supervisor, scenes: SceneReader, config: JerichoConfig) -> None:
        self.game = game
        self.config = config
        self.supervisor = supervisor
        self.counts: Counter[str] = Counter()
        self.scenes = scenes
        self._denied = {*META, *(" ".join(entry.lower().split()) for entry in config.deny)}
        self._map = Map()
        self._now = BEFORE
        self._over = True
        self._known: str | None = None
        self._sent: str | None = None
        self._refusal: str | None = None
        self._things: frozenset[str] = frozenset()
        self._room: tuple[int, int | None] = (LARGEST_COMMAND, None)

    def __repr__(self) -> str:
        return f"Play({self.game!r}, step {self._now.steps})"

    def reset(self, *, known: str | None = None) -> Observation:
        """Start anew.

        Args:
            known: None for an agent. Otherwise known commands will be replayed: none is refused, and there is no
                limit to them; `known` says how much is found out at each step, see `Desk`.

        Raises:
            GameError: the story or the tagger cannot be used.
            RunFailed: the engine fails again and again.
        """
        if self._sent is not None:
            self.receive()
        self._map, self._now, self._over, self._known = Map(), BEFORE, False, known
        while True:
            try:
                reply = self.supervisor.begin(known or "actions")
            except EpisodeLost:
                continue  # the supervisor counts, and raises when it is too often
            self._now = self._observe(reply, None)
            return self._now

    def send(self, command: str) -> None:
        """Hand a command to the engine; `receive` gives what comes of it.

        Raises:
            RuntimeError: no episode is running, or the last command was not received.
        """
        if self._over:
            raise RuntimeError(f"no episode of {self.game} is running: call reset() before step()")
        if self._sent is not None:
            raise RuntimeError("the last command was not received: call receive() before send()")
        effort = self._known
        self._refusal = None
        if effort is None:
            if not any(action.text == command for action in self._now.admissible):
                lines = command.strip().splitlines()
                command = self._shortened(clean_command(command))
                self._refusal = ONE_AT_A_TIME if len(lines) > 1 else self._objection(command)
                self.counts["refused"] += self._refusal is not None
            effort = "things" if self._now.steps + 1 >= self.config.max_steps else "actions"
        self._sent = command
        if self._refusal is None:
            self.supervisor.send(command, effort, known=self._known is not None)

    def receive(self) -> StepResult:
        """What came of the command that was sent.

        Raises:
            RuntimeError: nothing was sent.
            RunFailed: the engine fails again and again.
        """
        if self._sent is None:
            raise RuntimeError("nothing was sent: call send() before receive()")
        before, command, self._sent = self._now, self._sent, None
        ending = self._take_in(command)
        if ending is None and self._known is None and self._now.steps >= self.config.max_steps:
            ending = Ending.TRUNCATED
        self._over = ending is not None
        if self._over and ending is not Ending.ENGINE_ERROR:
            self.supervisor.finished()
        return StepResult(self._now, self._now.score - before.score, ending)

    def close(self) -> None:
        """End the episode and the worker; `reset` starts both anew."""
        self._over, self._sent = True, None
        self.supervisor.close()

    def best_gain(self) -> int:
        """The most points that an admissible action would earn at once; 0 if none earns any."""
        return max(0, *self.supervisor.gains([action.text for action in self._now.admissible]))

    # -- what is sent --------------------------------------------------------------------------------------

    @cached_property
    def _parser(self) -> Parser:
        return Parser.of(self.supervisor.facts["vocabulary"], self._denied)

    def _shortened(self, command: str) -> str:
        short = self._parser.fit(command, *self._room)
        if short != command:
            if not self.counts["shortened"]:
                log.warning("%s: %r is too long and was cut to %r (said once)", self.game, command, short)
            self.counts["shortened"] += 1
        return short

    def _objection(self, command: str) -> str | None:
        """Why a command that is not admissible is not carried out; None if it is."""
        if self._parser.is_refused(command):
            return NO_MOVE
        return ONE_AT_A_TIME if self._parser.is_several(command, self._things) else None

    # -- what comes back -----------------------------------------------------------------------------------

    def _take_in(self, command: str) -> Ending | None:
        """Make the outcome the present observation."""
        still = replace(self._now, last_action=command, steps=self._now.steps + 1)
        if self._refusal is not None:
            self._now = replace(still, feedback=self._refusal)
            return None
        try:
            reply = self.supervisor.receive()
        except EpisodeLost:
            self._now = still
            return Ending.ENGINE_ERROR
        self._now = self._observe(reply, command)
        return Ending(reply["ending"]) if reply["ending"] else None

    def _observe(self, reply: Message, command: str | None) -> Observation:
        before, score = self._now, float(reply["score"])
        observation = replace(
            before,
            feedback=reply["feedback"],
            score=score,
            max_score=self.supervisor.facts["max_score"],
            scored=(*before.scored, command) if command and score > before.score else before.scored,
            last_action=command,
            game=self.game,
            steps=0 if command is None else before.steps + 1,
            fingerprint=Fingerprint(*reply["fingerprint"]) if "fingerprint" in reply else None,
        )
        if reply["ending"]:  # nothing more can be asked; the graph stays as it was
            return replace(
                observation, description="", inventory="", admissible=plain_actions(LOOK_AROUND, (PLAYER,))
            )
        self._now_reads(reply)
        scene = self.scenes.read(reply)
        self._map.enter(scene.room, command)
        valid = self._valid(reply["actions"], scene)
        actions = valid or self._fallback(scene, searched=reply["actions"] is not None)
        graph = self._map.graph(scene, actions, exits=valid)
        return replace(
            observation, description=reply["look"], inventory=reply["inventory"], admissible=actions, graph=graph
        )

    def _now_reads(self, reply: Message) -> None:
        """What is in sight by which names, and how long a line may be."""
        named = (name for names in (reply["aliases"] or {}).values() for name in names)
        self._things = frozenset((*(name.lower() for name in reply["nodes"]), *named))
        most, words = reply["fits"] or (LARGEST_COMMAND, None)
        self._room = min(most, LARGEST_COMMAND), words

    def _valid(self, found: Sequence[tuple[str, list[str]]] | None, scene: RoomScene) -> tuple[Action, ...]:
        """The valid actions that are not denied, sorted by text."""
        actions = (
            Action(fill(template, entities), template, tuple(entities), scene.seeds(entities))
            for template, entities in found or ()
        )
        return tuple(sorted((a for a in actions if not is_denied(a.text, self._denied)), key=lambda a: a.text))

    def _fallback(self, scene: RoomScene, *, searched: bool) -> tuple[Action, ...]:
        """What is offered where no valid action is known."""
        self.counts["answers" if searched else "look_around"] += 1
        return plain_actions(ANSWERS if searched else LOOK_AROUND, scene.place)
