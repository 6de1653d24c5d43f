"""Answers requests about one story: plays, looks around, searches. Runs in the worker."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from cbr_isolate.protocol import Message
from cbr_jericho.cache import ActionCache
from cbr_jericho.commands import asks_to_leave
from cbr_jericho.engine import JERICHO_VERSION, Engine
from cbr_jericho.fingerprint import CacheKeys, Seen, StateKeys, ViewKeys, WorldKeys
from cbr_jericho.search import ActionSearch, Choice, Found
from cbr_jericho.surroundings import Surroundings
from cbr_jericho.tried import Tried

EXACT = "state"
"""Kind of keys that need no check."""

CHECK_EVERY, CHECK_OFTEN, CHECK_LATER = 50, 1000, 500
"""Where keys are not exact, one in so many remembered answers is compared with a search; after so many answers one
in so many."""

NOTHING = Found({})
"""Nothing is known."""

NO_COMMANDS = Found({}, ())
"""The game takes no command now."""


class Desk:
    """One story and the state of its play.

    A reply about a state holds `feedback`, `score` and `ending`; while the game goes on also `look`, `inventory`,
    `room`, `triples`, `nodes` and `aliases` (see `surroundings.Facts` and `search.Found`), `fits`
    (see `Engine.longest_line`), `actions`: pairs of template and entities, or None where they are not known,
    `fingerprint` where the game takes commands, `wrong_entry` if the cache held one that is damaged, `view`: the
    key and what was found, where the valid actions of a view were not remembered, and `checked` if what is
    remembered was compared with a search. Requests tell what the run remembers besides, as `views` (see `Views`).

    Args:
        request: the story, how to search it, where the cache is (`client.Worker` writes it).
        announce: sends a message before the reply.
    """

    def __init__(self, request: Message, announce: Callable[[Message], None]) -> None:
        story = Path(request["scratch"]) / request["name"]
        story.write_bytes(base64.b64decode(request["story"]))
        self.engine = Engine(story, request["seed"], request["interpreter"])
        self._seed = int(self.engine._seed)
        self.search = ActionSearch(self.engine, request["templates"], request["tagger"])
        self.surroundings = Surroundings(self.engine)
        world = WorldKeys(self.engine, self.search.tagger)
        self.keys: dict[str, CacheKeys] = {"state": StateKeys(), "world": world, "view": ViewKeys(world)}
        self.kind: str = request["cache_key"]
        identity = f"{self.engine.md5} jericho-{JERICHO_VERSION} {self.search.tagger.identity} names"
        self.tried = Tried() if request["learns"] else None
        kept = request["cache"] and self.tried is None  # what is left out depends on the run
        self.cache = ActionCache(Path(request["cache"]), identity, Found.from_json) if kept else None
        self.seconds: dict[str, float] = {}
        self.counts = {"observations": 0, "cached": 0, "remembered": 0, "searched": 0}
        self._views: dict[bytes, Found] = {}
        self._given_up = {bytes.fromhex(key) for key in request["given_up"]}
        self._announce = announce

    def __repr__(self) -> str:
        return f"Desk({self.engine!r})"

    def facts(self, request: Message) -> Message:
        """What does not change during a game."""
        engine, search = self.engine, self.search
        walkthrough = engine.get_walkthrough() if engine.bindings else []
        supported = bool(engine.is_fully_supported)
        return {
            "md5": engine.md5,
            "jericho": JERICHO_VERSION,
            "seed": self._seed,
            "max_score": engine.get_max_score() if supported else None,
            "initial_score": engine.get_score() if supported else None,
            "walkthrough": walkthrough,
            "vocabulary": engine.vocabulary(),
            "templates": len(engine.act_gen.templates) if engine.act_gen else 0,
            "tagger": search.tagger.identity,
        }

    def reset(self, request: Message) -> Message:
        """Start anew."""
        self._remember(request)
        seed = request["seed"]
        self.engine.seed(self._seed if seed is None else seed)
        opening, _ = self.engine.reset()
        self._follow("")
        return self._observe(opening, request["effort"])

    def step(self, request: Message) -> Message:
        """Execute a command, from where the commands `after` lead to if there are some."""
        self._remember(request)
        with self._timed("engine"):
            self._go(request["after"])
            answer = self._execute(request["command"], known=request["known"])
        self._follow(request["command"])
        return self._observe(answer, request["effort"])

    def look_again(self, request: Message) -> Message:
        """The present state, whose valid actions were looked for, anew by what is remembered now."""
        self._remember(request)
        return self._observe(request["feedback"], "actions")

    def _go(self, after: Sequence[str] | None) -> None:
        """Be where these commands lead to from the start, unless there are none to be told."""
        if after is not None:
            self.engine.reset()
            for command in after:
                self._execute(command)

    def _execute(self, command: str, *, known: bool = False) -> str:
        """The answer to a command; to a single key, where the game waits for one, unless a known command is
        replayed."""
        if self.engine.awaits_key and not known:
            command = command[:1]
        answer = self.engine.step(command)[0]
        if asks_to_leave(answer):
            answer = f"{answer.rstrip()} no\n{self.engine.step('no')[0]}"
        return answer

    def _remember(self, request: Message) -> None:
        told = {bytes.fromhex(key): Found.from_json(entry) for key, entry in request["views"].items()}
        if self.tried is not None:
            for key in told.keys() - self._views.keys():
                self.tried.learn(told[key])
        self._views |= told

    def _follow(self, command: str) -> None:
        if self.tried is not None:
            self.tried.follow(command)

    def resume(self, request: Message) -> Message:
        """Go on from a state that another worker had; the search in it is not tried again."""
        self._remember(request)
        self._given_up.add(bytes.fromhex(request["key"]))
        self.engine.reset()
        self.engine.set_state(self.engine.unpack(request["state"]))
        return self._observe("", "actions")

    def gains(self, request: Message) -> Message:
        """What each of the commands would add to the score in the present state, or that `after` leads to."""
        self._go(request["after"])
        state, score = self.engine.get_state(), self.engine.get_score()
        gains = []
        for command in request["commands"]:
            self.engine.step(command)
            gains.append(self.engine.get_score() - score)
            self.engine.set_state(state)
        return {"gains": gains}

    def figures(self, request: Message) -> Message:
        """Counts, and seconds per part, since the start."""
        return {"counts": self.counts, "seconds": self.seconds}

    def _observe(self, answer: str, effort: str) -> Message:
        """The present state.

        Args:
            effort: "actions" searches for the valid actions if they are not in the cache; "things" only for what
                is in sight; "nothing" for neither.
        """
        engine = self.engine
        self.counts["observations"] += 1
        reply = {"feedback": answer.strip(), "score": engine.get_score(), "ending": engine.ending()}
        if reply["ending"] is not None:
            return reply
        state = engine.get_state()
        seen, found = Seen(state, "", "", state), NO_COMMANDS
        if not engine.awaits_key:
            with self._timed("texts"):
                look, after_look = engine.peek("look", state)
                seen = Seen(state, look, engine.peek("inventory", state)[0], after_look)
            found = self._find(seen, effort, reply)
        with self._timed("facts"):
            facts = self.surroundings.facts(engine.tree(state), seen.look, seen.inventory, found.aliases)
        return {
            **reply,
            "look": seen.look,
            "inventory": seen.inventory,
            "room": facts.room,
            "triples": facts.triples,
            "nodes": facts.nodes,
            "aliases": found.aliases,
            "actions": found.actions,
            "fits": engine.longest_line(state),
        }

    def _find(self, seen: Seen, effort: str, reply: Message) -> Found:
        if effort == "nothing" or not self.search.possible:
            return NOTHING
        with self._timed("keys"):
            keys = {kind: makes.of(seen) for kind, makes in self.keys.items()}
        reply["fingerprint"] = [key.hex() for key in keys.values()]
        key = keys[self.kind]
        if (known := self._views.get(key)) is not None:
            self._check(known, seen, key, reply)
            return known
        if effort == "things" or key in self._given_up:
            with self._timed("search"):
                return self.search.things(seen.state)
        found = self._found(keys[EXACT], seen, key, reply)
        if self.kind != EXACT:
            reply["view"] = [key.hex(), found.to_json()]
        return found

    def _found(self, state: bytes, seen: Seen, key: bytes, reply: Message) -> Found:
        """What the cache holds of precisely this state, or else a search finds."""
        with self._timed("cache"):
            known = self._known(state, reply)
        if known is not None:
            self.counts["cached"] += 1
            return known
        with self._timed("search"):
            found = self._searched(seen, key, reply, self.tried)
        self.counts["searched"] += 1
        if self.cache:
            self.cache.put(state, found.to_json())
        return found

    def _check(self, known: Found, seen: Seen, key: bytes, reply: Message) -> None:
        """Compare what is remembered with what a search finds now, now and then."""
        self.counts["remembered"] += 1
        count = self.counts["remembered"]
        if count % (CHECK_EVERY if count <= CHECK_OFTEN else CHECK_LATER) or key in self._given_up:
            return
        with self._timed("checks"):
            now = set(self._searched(seen, key, reply, check=True).actions or ())
        offered = set(known.actions or ())
        counts = {"offered": len(offered), "stale": len(offered - now), "missing": len(now - offered)}
        reply["checked"] = counts

    def _searched(
        self, seen: Seen, key: bytes, reply: Message, choice: Choice | None = None, *, check: bool = False
    ) -> Found:
        state = self.engine.pack(seen.state)
        self._announce({"searching": key.hex(), "state": state, "reply": reply, "check": check})
        return self.search.run(seen.state, choice)

    def _known(self, key: bytes, reply: Message) -> Found | None:
        """What the cache holds; the reply tells of an entry that is wrong."""
        if self.cache is None:
            return None
        wrong = self.cache.tally.entries
        found: Found | None = self.cache.get(key)
        if self.cache.tally.entries > wrong:
            reply["wrong_entry"] = key.hex()
        return found

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        start = perf_counter()
        try:
            yield
        finally:
            self.seconds[part] = self.seconds.get(part, 0.0) + perf_counter() - start
