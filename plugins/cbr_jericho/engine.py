"""The interpreter with one story loaded. Runs in the worker process: native code is touched nowhere else."""

from __future__ import annotations

import base64
import hashlib
import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jericho
import numpy as np
from jericho import FrotzEnv
from jericho.defines import BINDINGS_DICT

from cbr_isolate.protocol import Message
from cbr_jericho.objects import Layout, ObjectTree
from cbr_jericho.parser import LETTERS
from cbr_jericho.reading import Memory, Place, room_for_line
from cbrcore.errors import GameError

JERICHO_VERSION: str = jericho.__version__

State = tuple[Any, ...]
"""(ram, stack, pc, sp, fp, frame count, opcode, rng, narrative), as Jericho's `get_state` gives it."""

READ_KEY = 246
"""The Z-machine's instruction `read_char` [Jericho's `frotz_interface.c`]."""

BYTE, NEGATIVE_FROM = 256, 192
"""A score of one byte that is as high as this, and above the game's maximum, is one below zero."""

RAM = 0

DICTIONARY_POINTER = 0x08
"""Where the header says where the dictionary is."""

TEXT = "cp1252"
"""What Jericho takes the interpreter's bytes for; five byte values mean nothing in it."""


class WrongState(Exception):
    """A saved state is of another story or another version of Jericho."""


def verbs_of(bindings: Mapping[str, Any]) -> set[str]:
    """The verbs of a game's grammar, as Jericho has it: "open/unlock OBJ with OBJ;look;..." """
    lines = bindings.get("grammar", "").split(";")
    return {verb for line in lines for verb in line.split(" ")[0].split("/") if verb}


class Engine(FrotzEnv):  # type: ignore[misc]
    """Jericho's `FrotzEnv` that survives undefined bytes and keeps its dictionary, and states that travel."""

    def __init__(self, path: Path, seed: int | None, interpreter: str | None = None) -> None:
        """Load a story that has been checked.

        Args:
            path: the story file.
            seed: of the interpreter's random numbers; None for the one of the published walkthrough.
            interpreter: the path of a build of the interpreter; None: the one that came with Jericho.

        Raises:
            GameError: the build cannot be loaded.
        """
        if interpreter is not None:
            jericho.jericho.FROTZ_LIB_PATH = interpreter
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a story that Jericho does not know was let through on purpose
            try:
                super().__init__(str(path), seed=seed)
            except OSError as error:
                hint = "Type: cbr games tune, or --set environment.interpreter=installed"
                raise GameError(
                    f"{jericho.jericho.FROTZ_LIB_PATH} cannot be loaded: {error}", hint=hint
                ) from error
        self._story = rom = path.read_bytes()
        self.md5 = hashlib.md5(rom, usedforsecurity=False).hexdigest()
        self._words: list[Any] = super().get_dictionary()
        self.layout = Layout.of(self._get_ram().tobytes(), rom[0])

    def __repr__(self) -> str:
        return f"Engine({self.story_file.decode()!r})"

    def get_dictionary(self) -> list[Any]:
        """The parser's words; Jericho would read them from the story again for every search."""
        return self._words

    def reset(self) -> tuple[str, dict[str, int]]:
        """Start anew; (opening text, moves and score)."""
        self.close()
        rom = self._cache[self.story_file.decode()][0]
        opening = self.frotz_lib.setup(self.story_file, self._seed, rom, len(rom)).decode(TEXT, errors="replace")
        return opening, self._facts()

    def step(self, action: str) -> tuple[str, int, bool, dict[str, int]]:
        """Execute a command; (answer, change of the score, whether the game is over, moves and score)."""
        before = self.get_score()
        answer = self.frotz_lib.step(action.encode() + b"\n").decode(TEXT, errors="replace")
        facts = self._facts()
        return answer, facts["score"] - before, self.game_over() or self.victory(), facts

    def get_score(self) -> int:
        """The score. Of many games Jericho reads one byte of it, so that one below zero would be the highest of
        all (adventureland: -7 as 249)."""
        score: int = super().get_score()
        below_zero = max(NEGATIVE_FROM, self.get_max_score() + 1) <= score < BYTE
        return score - BYTE if below_zero else score

    def _facts(self) -> dict[str, int]:
        return {"moves": self.get_moves(), "score": self.get_score()}

    def set_state(self, state: State) -> None:
        """Go back to a state, also from a command at which the interpreter gave up."""
        if self._emulator_halted():
            self.reset()
        super().set_state(state)

    def peek(self, command: str, state: State) -> tuple[str, State]:
        """The answer to a command that is then taken back, and the state it led to; `state` is the present one."""
        answer: str = self.frotz_lib.step(command.encode() + b"\n").decode(TEXT, errors="replace")
        after = self.get_state()
        self.set_state(state)
        return answer.strip(), after

    @property
    def awaits_key(self) -> bool:
        """Whether the game waits for a single key ("press SPACE to continue") instead of a command. A longer
        command would leave its other letters behind where no saved state holds them, for the next such prompt."""
        return bool(self.frotz_lib.get_opcode() == READ_KEY)

    def longest_line(self, state: State) -> tuple[int, int | None] | None:
        """(bytes, words) of the longest line that the game has room for; see `room_for_line`."""
        ram, stack, pc, sp, fp = state[:5]
        place = Place(int(pc), memoryview(stack).cast("H"), int(sp), int(fp))
        return room_for_line(Memory(ram.tobytes(), self._story), place, self._story[0])

    def vocabulary(self) -> Message:
        """What `parser.Parser` knows of the game, but for its `denied`."""
        letters = 6 if self._story[0] <= 3 else LETTERS
        at = int.from_bytes(self._story[DICTIONARY_POINTER : DICTIONARY_POINTER + 2], "big")
        marks = self._story[at + 1 : at + 1 + self._story[at]].decode("latin-1")
        verbs = verbs_of(self.bindings) or {word.word for word in self._words if word.is_verb}
        verbs = verbs or set().union(*map(verbs_of, BINDINGS_DICT.values()))
        meta = {word.word for word in self._words if word.is_verb and word.is_meta}
        cut = [sorted({word[:letters] for word in words if word}) for words in (verbs, meta)]
        return {"separators": marks, "letters": letters, "verbs": cut[0], "meta": cut[1]}

    def tree(self, state: State) -> ObjectTree:
        """Where everything is in a state."""
        return ObjectTree(state[RAM].tobytes(), self.layout)

    def object_names(self) -> list[str]:
        """The short name of every object, from number 1 on; "" where there is none."""
        return [self._object_name(number) for number in range(1, self.layout.count + 1)]

    def _object_name(self, number: int) -> str:
        found = self.get_object(number)
        return found._name.decode(TEXT, errors="replace") if found else ""

    def ending(self) -> str | None:
        """ "engine_error", "won", "lost", or None while the game goes on."""
        if self._emulator_halted():
            return "engine_error"
        if self.victory():
            return "won"
        return "lost" if self.game_over() else None

    def pack(self, state: State) -> Message:
        """A state as plain data, with what it belongs to."""
        ram, stack, *registers, rng, narrative = state
        return {
            "md5": self.md5,
            "jericho": JERICHO_VERSION,
            "ram": base64.b64encode(zlib.compress(ram.tobytes(), 1)).decode(),
            "stack": base64.b64encode(zlib.compress(stack.tobytes(), 1)).decode(),
            "registers": [int(register) for register in registers],
            "rng": [int(part) for part in rng],
            "narrative": base64.b64encode(narrative).decode(),
        }

    def unpack(self, packed: Message) -> State:
        """The state that `pack` was given.

        Raises:
            WrongState: it is of another story or another version of Jericho; the interpreter would not notice.
        """
        mine, other = (self.md5, JERICHO_VERSION), (packed.get("md5"), packed.get("jericho"))
        if mine != other:
            raise WrongState(f"the saved state is of (story, Jericho) {other}, this is {mine}")
        parts = (zlib.decompress(base64.b64decode(packed[part])) for part in ("ram", "stack"))
        ram, stack = (np.frombuffer(part, np.uint8).copy() for part in parts)
        return (ram, stack, *packed["registers"], tuple(packed["rng"]), base64.b64decode(packed["narrative"]))
