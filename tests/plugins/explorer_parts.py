"""A house for the explorer: three rooms in a row, things to take and drop, and three rewards. All by hand.

    hall -- east -- kitchen -- down -- cellar

The lamp is in the hall, the bell in the kitchen, the chest in the cellar. "ring bell" earns 1 once, "open chest" 5
with the lamp; "sing" does nothing anywhere, "jump" in the cellar loses the game.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cbr_explorer.config import ExplorerConfig
from cbr_explorer.episode import ExplorerReuse
from cbr_explorer.memory import GameMemory
from cbr_explorer.policy import Explorer
from cbrcore.interfaces import Build
from cbrcore.types import Action, Decision, Ending, Fingerprint, Observation, StateGraph, StepResult

GAME = "house"
WAYS = {"hall": {"east": "kitchen"}, "kitchen": {"west": "hall", "down": "cellar"}, "cellar": {"up": "kitchen"}}


class House:
    """The environment; with `locked` ways are closed: {(room, command)}; with `toll` one command costs a point;
    from the step `dusk` on everything looks otherwise; the engine does not survive the command `fatal`."""

    handicaps: Mapping[str, Any] = {}

    def __init__(
        self,
        *,
        max_steps: int = 20,
        locked: Iterable[tuple[str, str]] = (),
        toll: str = "",
        dusk: int | None = None,
        fatal: str = "",
    ) -> None:
        self.max_steps, self.locked, self.toll, self.dusk = max_steps, set(locked), toll, dusk
        self.fatal = fatal
        self.seen: Observation

    def reset(self, game: str = GAME, seed: int = 0) -> Observation:
        self.room, self.lamp, self.rung, self.opened, self.steps, self.score = "hall", "hall", False, False, 0, 0.0
        self.answer = "Welcome."
        return self._observe(None)

    def step(self, action: Action) -> StepResult:
        text, before, ending = action.text, self.score, None
        if text == self.fatal:
            return StepResult(self.seen, 0.0, Ending.ENGINE_ERROR)
        self.answer = f"You {text}."
        if text in WAYS[self.room]:
            self.room = WAYS[self.room][text]
        elif text == "take lamp":
            self.lamp = "you"
        elif text == "drop lamp":
            self.lamp = self.room
        elif text == "ring bell" and not self.rung:
            self.rung, self.score = True, self.score + 1
        elif text == "open chest" and self.lamp == "you" and not self.opened:
            self.opened, self.score = True, self.score + 5
        elif text == "jump":
            ending = Ending.LOST
        self.score -= text == self.toll
        self.steps += 1
        if ending is None and self.steps >= self.max_steps:
            ending = Ending.TRUNCATED
        return StepResult(self._observe(text), self.score - before, ending)

    def _observe(self, last: str | None) -> Observation:
        texts = ["sing", *(way for way in WAYS[self.room] if (self.room, way) not in self.locked)]
        texts += ["drop lamp"] if self.lamp == "you" else ["take lamp"] if self.lamp == self.room else []
        texts += {"kitchen": ["ring bell"], "cellar": ["open chest", "jump"], "hall": []}[self.room]
        actions = tuple(act(text) for text in sorted(texts))
        here = f"{self.room}\n{'There is a lamp.' if self.lamp == self.room else 'Nothing is here.'}"
        here += "" if self.dusk is None or self.steps < self.dusk else " It is dusk."
        held = "a lamp" if self.lamp == "you" else ""
        opened = self.opened and self.room == "cellar"
        names = (self.room, self.lamp, self.rung, self.opened)
        self.seen = Observation(
            self.answer, f"{here}{' The chest is open.' if opened else ''}", held, actions,
            StateGraph(()), self.score, 6.0, (), last, GAME, self.steps,
            Fingerprint(str((*names, self.steps)), str(names), str((here, held, opened))),
        )  # fmt: skip
        return self.seen


def act(text: str) -> Action:
    """A command: its verb with a slot, where it has an object."""
    verb, _, thing = text.partition(" ")
    return Action.from_template(f"{verb} {{}}", [thing]) if thing else Action.from_template(verb, [])


def explorer(seed: int = 0, **settings: Any) -> Explorer:
    return Explorer(ExplorerConfig(**settings), Build(seed=seed))


def force(policy: Explorer, house: House, commands: Sequence[str], *, learning: bool = True) -> ExplorerReuse:
    """An episode in which these commands are given, whatever is planned, and no more."""
    reuse, seen = policy.begin(None, learning=learning), house.reset()
    for text in commands:
        reuse.offer(seen, None)
        result = house.step(act(text))
        reuse.observe(Decision(act(text), "agent"), result)
        seen = result.observation
    return reuse


def play(policy: Explorer, house: House, *, learning: bool = True) -> tuple[list[str], Observation, list[str]]:
    """An episode as the policy plans it: (commands, what was seen last, why each was given)."""
    reuse, seen, given, why = policy.begin(None, learning=learning), house.reset(), list[str](), list[str]()
    while True:
        chosen = reuse.choose(reuse.offer(seen, None), dict.fromkeys(seen.admissible, 0.1))
        assert chosen is not None
        assert chosen.executed in seen.admissible
        result = house.step(chosen.executed)
        reuse.observe(Decision(chosen.executed, "reuse", chosen=chosen), result)
        given.append(chosen.executed.text)
        why.append(chosen.why)
        seen = result.observation
        if result.ending is not None:
            return given, seen, why


def memory_after(*episodes: Sequence[str], **settings: Any) -> GameMemory:
    """What is kept after these episodes."""
    policy, house = explorer(**settings), House()
    for commands in episodes:
        force(policy, house, commands)
    return policy.memory(GAME)


def texts(memory: GameMemory, steps: Iterable[Any]) -> list[str]:
    """The commands of steps."""
    return [memory.archive.commands.values[step.command] for step in steps]


def case_at(memory: GameMemory, *commands: str) -> int:
    """The number of the case to which these commands led."""
    node = 0
    for text in commands:
        found = memory.archive.child(node, memory.archive.commands.get(text, -1))
        assert found is not None
        node = found
    return memory.archive.case_of(node)
