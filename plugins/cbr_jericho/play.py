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
from cbr_jericho.transitions import Node, Transitions
from cbrcore.types import Action, Ending, Fingerprint, Observation, StateGraph, StepResult, fill

log = logging.getLogger(__name__)

NO_MOVE = "(That is no move of the game. Nothing was done.)"
ONE_AT_A_TIME = "(One command at a time. Nothing was done.)"

BEFORE = Observation("", "", "", (), StateGraph(()))
"""Stands for what came before the first observation."""


class Play:
    """A game and the state of its running episode.

    Args:
        transitions: results of commands that are known, where the game begins in the same way each time.

    Attributes:
        counts: `shortened` and `refused` commands; observations that offered `look_around` (the search failed, or
            is impossible) or `answers` (it found nothing) instead of valid actions.
    """

    def __init__(
        self,
        game: str,
        supervisor: Supervisor,
        scenes: SceneReader,
        config: JerichoConfig,
        transitions: Transitions | None = None,
    ) -> None:
        self.game = game
        self._transitions = transitions or Transitions(0)
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
        self._to_engine = ""
        self._refusal: str | None = None
        self._things: frozenset[str] = frozenset()
        self._line: tuple[int, int | None] = (LARGEST_COMMAND, None)
        self._room: str | None = None
        self._trail: list[Node] | None = None
        self._next: Node | None = None
        self._engine_waits = False
        self._unknown = False

    def __repr__(self) -> str:
        return f"Play({self.game!r}, step {self._now.steps})"

    def reset(self, *, known: str | None = None, seed: int | None = None) -> Observation:
        """Start anew.

        Args:
            seed: of this episode's chance; None for that of the story's request.
            known: None for an agent. Otherwise known commands will be replayed: none is refused, and there is no
                limit to them; `known` says how much is found out at each step, see `Desk`.

        Raises:
            GameError: the story or the tagger cannot be used.
            RunFailed: the engine fails again and again.
        """
        if self._sent is not None:
            self.receive()
        self._map, self._now, self._over, self._known = Map(), BEFORE, False, known
        self._trail, self._engine_waits = None, False
        if known is None and self._transitions.start is not None:
            self._trail, self._engine_waits = [], True
            self._move_to(self._transitions.start)
            return self._now
        while True:
            try:
                reply = self.supervisor.begin(known or "actions", seed)
            except EpisodeLost:
                continue  # the supervisor counts, and raises when it is too often
            self._now = self._observe(reply, None)
            if known is None and (start := self._transitions.begin(self._node(StepResult(self._now, 0.0)))):
                self._trail = []
                self._move_to(start)
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
        self._sent, self._refusal = command, None
        self._next = self._trail[-1].after.get(command) if self._trail else None
        if self._next is not None:
            self.counts["refused"] += self._next.sent is None
            return
        effort = self._known
        if effort is None:
            if not any(action.text == command for action in self._now.admissible):
                lines = command.strip().splitlines()
                command = self._shortened(clean_command(command))
                self._refusal = ONE_AT_A_TIME if len(lines) > 1 else self._objection(command)
                self.counts["refused"] += self._refusal is not None
            effort = "things" if self._now.steps + 1 >= self.config.max_steps else "actions"
        self._to_engine = command
        if self._refusal is None:
            known = self._known is not None
            self.supervisor.send(command, effort, known=known, after=self._way() if self._engine_waits else None)
            self._engine_waits = False

    def receive(self) -> StepResult:
        """What came of the command that was sent.

        Raises:
            RuntimeError: nothing was sent.
            RunFailed: the engine fails again and again.
        """
        if self._sent is None:
            raise RuntimeError("nothing was sent: call send() before receive()")
        before, command, self._sent = self._now, self._sent, None
        if self._next is not None:
            self._engine_waits = True
            return self._move_to(self._next)
        ending = self._take_in(self._to_engine)
        if ending is None and self._known is None and self._now.steps >= self.config.max_steps:
            ending = Ending.TRUNCATED
        self._over = ending is not None
        if self._over and ending is not Ending.ENGINE_ERROR:
            self.supervisor.finished()
        result = StepResult(self._now, self._now.score - before.score, ending)
        if self._trail and ending is not Ending.ENGINE_ERROR:
            node = self._node(result, sent=None if self._refusal else self._to_engine)
            later = ending is Ending.TRUNCATED and self._unknown and self.config.cache_key != "state"
            return self._move_to(node if later else self._transitions.go(self._trail[-1], command, node))
        return result

    # -- ways that are known -------------------------------------------------------------------------------

    def _node(self, result: StepResult, *, sent: str | None = None) -> Node:
        return Node(result, sent, None if self._refusal else self._room, self._things, self._line)

    def _move_to(self, node: Node) -> StepResult:
        """Be where a node is; the engine may be elsewhere."""
        assert self._trail is not None
        self._trail.append(node)
        self._now, self._things, self._line = node.result.observation, node.things, node.line
        self._over = node.result.ending is not None
        return node.result

    def _way(self) -> list[str]:
        """The commands of the episode so far, for an engine that is elsewhere; the map is drawn anew."""
        self._map = Map()
        for node in self._trail or ():
            if node.room is not None:
                self._map.enter(node.room, node.sent)
        return [node.sent for node in self._trail or () if node.sent is not None]

    def close(self) -> None:
        """End the episode and the worker; `reset` starts both anew."""
        self._over, self._sent = True, None
        self.supervisor.close()

    def best_gain(self) -> int:
        """The most points that an admissible action would earn at once; 0 if none earns any."""
        after = self._way() if self._engine_waits else None
        self._engine_waits = False
        return max(0, *self.supervisor.gains([action.text for action in self._now.admissible], after=after))

    # -- what is sent --------------------------------------------------------------------------------------

    @cached_property
    def _parser(self) -> Parser:
        return Parser.of(self.supervisor.facts["vocabulary"], self._denied)

    def _shortened(self, command: str) -> str:
        short = self._parser.fit(command, *self._line)
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
        self._room = scene.room
        self._map.enter(scene.room, command)
        valid = self._valid(reply["actions"], scene)
        self._unknown = reply["actions"] is None
        actions = valid or self._fallback(scene, searched=not self._unknown)
        graph = self._map.graph(scene, actions, exits=valid)
        return replace(
            observation, description=reply["look"], inventory=reply["inventory"], admissible=actions, graph=graph
        )

    def _now_reads(self, reply: Message) -> None:
        """What is in sight by which names, and how long a line may be."""
        named = (name for names in (reply["aliases"] or {}).values() for name in names)
        self._things = frozenset((*(name.lower() for name in reply["nodes"]), *named))
        most, words = reply["fits"] or (LARGEST_COMMAND, None)
        self._line = min(most, LARGEST_COMMAND), words

    def _valid(self, found: Sequence[tuple[str, list[str]]] | None, scene: RoomScene) -> tuple[Action, ...]:
        """The valid actions that are not denied, sorted by text."""
        actions = (
            Action(fill(template, entities), template, tuple(entities), scene.seeds(entities))
            for template, entities in found or ()
        )
        return tuple(sorted((a for a in actions if not is_denied(a.text, self._denied)), key=lambda a: a.text))

    def _fallback(self, scene: RoomScene, *, searched: bool) -> tuple[Action, ...]:
        """What is offered where no valid action is known, but for what is denied."""
        self.counts["answers" if searched else "look_around"] += 1
        offered = plain_actions(ANSWERS if searched else LOOK_AROUND, scene.place)
        return tuple(each for each in offered if not is_denied(each.text, self._denied))
