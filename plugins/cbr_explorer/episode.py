"""One episode of the explorer: return to a case, explore from there, retain what came of it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from cbr_explorer.archive import ROOT
from cbr_explorer.following import Here, go_on, mend
from cbr_explorer.memory import GameMemory
from cbr_explorer.news import LOST
from cbr_explorer.planning import begin_plan
from cbr_explorer.revision import Plan
from cbr_explorer.scene import Scene, read_scene, sentences
from cbrcore.interfaces import Reuse, Situation
from cbrcore.rng import derive_seed
from cbrcore.types import (
    Action,
    Candidate,
    Case,
    Decision,
    Ending,
    EntityTuple,
    Match,
    Observation,
    Provenance,
    StepResult,
)

if TYPE_CHECKING:
    from cbr_explorer.policy import Explorer

Offered = Mapping[int, Action]
"""The number of a command -> the admissible action."""
REPAIRS = 3
"""How often an episode looks for another way to its case."""


class ExplorerReuse:
    """One episode of it.

    Args:
        policy: what lasts longer than the episode.
        fallback: is asked where the explorer leaves a step to others.
    """

    def __init__(self, policy: Explorer, fallback: Reuse | None, *, learning: bool) -> None:
        self._policy, self._config, self._fallback, self._learning = policy, policy.config, fallback, learning
        self._begun: tuple[GameMemory, Plan] | None = None
        self._seen: Observation | None = None
        self._planned: Candidate | None = None
        self._phase, self._node, self._repairs = "explore", ROOT, 0

    def asks(self, observation: Observation) -> Iterable[EntityTuple]:
        """What the fallback asks, where it has the step."""
        if self._fallback is None or self._plan(observation) is not None:
            return ()
        return self._fallback.asks(observation)

    def offer(self, observation: Observation, situation: Situation) -> tuple[Candidate, ...]:
        """The planned command; where there is none, what the fallback offers."""
        planned = self._plan(observation)
        if planned is not None:
            return (planned,)
        return () if self._fallback is None else self._fallback.offer(observation, situation)

    def choose(self, candidates: Sequence[Candidate], probability: Mapping[Action, float]) -> Candidate | None:
        """The planned command, else the fallback's choice."""
        if self._planned is not None or self._fallback is None:
            return self._planned
        return self._fallback.choose(candidates, probability)

    def observe(self, decision: Decision, result: StepResult) -> bool:
        """Retain what came of a step; whether a case of the fallback's failed."""
        if self._learning and self._begun is not None:
            self._take_in(self._begun[0], decision, result)
        if self._fallback is None or self._planned is not None:
            return False  # a fallback has seen nothing of this step
        return self._fallback.observe(decision, result)

    # -- decide ----------------------------------------------------------------------------------------------

    def _plan(self, seen: Observation) -> Candidate | None:
        """What is done in this state, found out once; None: the fallback or the agent decides."""
        if self._seen is not seen:
            self._begun = self._begun or self._begin(seen)
            self._look(self._begun[0], seen)
            self._planned = self._decide(*self._begun, seen)
        return self._planned

    def _begin(self, seen: Observation) -> tuple[GameMemory, Plan]:
        """The game is known now: retrieve a case, and revise it."""
        memory = self._policy.memory(seen.game, learning=self._learning)
        self._exploits = not self._learning or self._policy.explored
        self._episode = self._policy.count_episode(learning=self._learning)
        self._rng = random.Random(derive_seed(self._policy.seed, f"explorer:{self._episode}"))
        return memory, begin_plan(memory, self._config, self._rng, exploits=self._exploits)

    def _look(self, memory: GameMemory, seen: Observation) -> None:
        """Where one is; an evaluation adds no names to the archive."""
        archive, scene = memory.archive, read_scene(seen, self._policy.places)
        if self._learning:
            view, room, load = memory.numbers(scene)
            numbers = [archive.command(action.text, action.template) for action in seen.admissible]
            self._spot = memory.ways.spot(seen.score, view, room, load)
            if self._node == ROOT and not seen.steps:
                archive.retain(ROOT, scene, seen.score, self._episode)
                memory.news.take(_found(seen, scene))
        else:
            view, room = (
                names.get(name, -2) for names, name in ((archive.views, scene.view), (archive.rooms, scene.room))
            )
            numbers = [archive.commands.get(each.text, -2 - at) for at, each in enumerate(seen.admissible)]
        self._seen, self._scene, self._view, self._room = seen, scene, view, room
        self._offered: Offered = dict(zip(numbers, seen.admissible, strict=True))

    def _decide(self, memory: GameMemory, plan: Plan, seen: Observation) -> Candidate | None:
        """Replay as long as the world is what the case says; where it is not, another way; else explore."""
        here = Here(self._scene, seen.score, self._view, self._room, self._offered)
        if not go_on(plan, here) and (plan.over or not self._mend(memory, plan, here)):
            return self._rest(memory) if self._exploits else self._explore(memory)
        self._phase = "exploit" if self._exploits else "return"
        step, case = plan.steps[plan.at], memory.archive.cases[plan.case]
        plan.at += 1
        about = f"{case.score:g} points, {len(plan.steps)} commands" + (f", {plan.how}" if plan.how else "")
        return self._candidate(
            memory, plan.case, step.command, 1.0, f"replays ({about}; {plan.at} of {len(plan.steps)})"
        )

    def _mend(self, memory: GameMemory, plan: Plan, here: Here) -> bool:
        """Whether the plan goes on, in another way; in training it is not mended for ever."""
        self._repairs += 1
        if self._learning and not plan.how:
            memory.counts.failed[plan.case] = None
        if self._learning and self._repairs > REPAIRS:
            plan.steps = plan.steps[: plan.at]
        return not plan.over and mend(memory, plan, here)

    def _explore(self, memory: GameMemory) -> Candidate | None:
        """The command that is worth most; None where none is worth enough and the agent is the prior."""
        news, view, room = memory.news, self._view, self._room
        worths = {
            number: news.worth(view, room, number, action.template) for number, action in self._offered.items()
        }
        commands = ((number, action.template) for number, action in self._offered.items())
        news.look(view, room, worths.values(), commands)
        best = max(worths.values())
        self._phase = "explore"
        if self._config.prior == "agent" and best < self._config.plateau:
            self._phase = "fallback"
            return None
        why = "explores: news is expected of this command, or of what lies behind it"
        if self._rng.random() < self._config.epsilon:
            number, why = self._rng.choice(list(worths)), "explores: drawn at random"
        else:
            number = self._rng.choice([number for number, worth in worths.items() if worth >= best - EQUAL])
            if (view, number) not in news.leads:
                why = "explores: this command was never tried here"
        return self._candidate(memory, memory.archive.case_of(self._node), number, min(1.0, worths[number]), why)

    def _rest(self, memory: GameMemory) -> Candidate | None:
        """What keeps the score: a command that changed nothing in this view; else one that was not lost here, or
        whose template was lost least."""
        news = memory.news

        def order(number: int) -> tuple[bool, bool, int, int]:
            tries, after = news.leads.get((self._view, number), (0, LOST))
            losses = news.losses.get(self._offered[number].template, 0)
            return after == self._view, after != LOST, -losses, tries

        self._phase = "exploit"
        if memory.archive.best is None:
            return None  # nothing was played yet
        number = max(self._offered, key=order)
        return self._candidate(memory, memory.archive.case_of(self._node), number, 1.0, "keeps the score")

    def _candidate(self, memory: GameMemory, case: int, command: int, relevance: float, why: str) -> Candidate:
        """The planned command as a candidate; the case is where the episode started, or where it is now."""
        action, origin = self._offered[command], Provenance("", self._policy.seed, 0, 0, 0.0)
        if 0 <= case < len(memory.archive.cases):
            known = memory.archive.cases[case]
            length = memory.archive.depth(known.node)
            origin = Provenance(
                self._seen.game if self._seen else "", self._policy.seed, known.episode, length, known.score
            )
        told = Case(case + 1, action.template, action.entities, action.text, origin)
        return Candidate(action, Match(told, relevance), (), "admissible", why=why)

    # -- retain ----------------------------------------------------------------------------------------------

    def _take_in(self, memory: GameMemory, decision: Decision, result: StepResult) -> None:
        """A step of the training: into the archive, and what it brought into the news."""
        archive, action, after = memory.archive, decision.action, result.observation
        command = archive.command(action.text, action.template)
        self._policy.count_step("fallback" if self._planned is None else self._phase)
        known, before = archive.child(self._node, command), archive.best
        self._node = archive.add(self._node, command, result.reward)
        if known is None or self._phase != "return":
            self._learn(memory, command, decision, result)
        if result.ending is Ending.TRUNCATED:
            memory.horizon = max(memory.horizon or 0, archive.depth(self._node))
        ended = result.ending not in (None, Ending.ENGINE_ERROR)  # a crash is no end to come to again
        archive.note_score(self._node, after.score, ended=ended)
        if archive.best is not None and (before is None or archive.best[0] > before[0]):
            memory.found_at.append((archive.best[0], self._policy.steps))

    def _learn(self, memory: GameMemory, command: int, decision: Decision, result: StepResult) -> None:
        """What a command brought that is not one of an exact replay."""
        news, template, after = memory.news, decision.action.template, result.observation
        lost = result.reward < 0 or result.ending is Ending.LOST
        if lost:
            news.losses[template] = news.losses.get(template, 0) + 1
        crashed = result.ending is Ending.ENGINE_ERROR
        if lost or crashed or (result.ending is not None and result.ending.terminal):
            brought, view = 0.0, LOST
        else:
            scene = read_scene(after, self._policy.places)
            brought = news.take(_found(after, scene))
            view, room, load = memory.numbers(scene)
            news.go(self._room, command, room)
            memory.ways.link(self._spot, command, memory.ways.spot(after.score, view, room, load))
            if result.ending is not None:
                news.cut_off(view)
            else:
                memory.archive.retain(self._node, scene, after.score, self._episode)
        if result.reward > 0:
            memory.note_reward(self._room, command, self._node)
            brought = 1.0 if news.earns(self._room, command, result.reward) else brought
        news.learn(self._view, self._room, command, template, brought)
        news.lead(self._view, command, view)


EQUAL = 1e-6
"""Commands whose worth differs by less are equal."""


def _found(seen: Observation, scene: Scene) -> dict[str, Iterable[str | int]]:
    """What is seen, by the kinds of news."""
    return {
        "room": (scene.room,),
        "thing": sorted(scene.carried),
        "command": [action.text for action in seen.admissible],
        "sentence": sorted(sentences(seen.feedback)),
        "load": (scene.load,),
        "view": (scene.view,),
    }
