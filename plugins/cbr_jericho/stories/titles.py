"""The titles that Jericho knows, by checksum, and the 33 of them that the paper plays [P Table 2]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from cbrcore.errors import GameError


@dataclass(frozen=True)
class Title:
    """A story file that Jericho knows: `file` is its usual file name, `md5` the one content it accepts."""

    name: str
    file: str
    md5: str


@dataclass(frozen=True)
class PaperGame:
    """One of the paper's games; `max_score` is the column "Human (max)" of [P Table 2]."""

    name: str
    max_score: int

    @property
    def md5(self) -> str:
        """From Jericho's own table; GameError if Jericho is not installed."""
        return titles_by_name()[self.name].md5


_MAX_SCORES = {
    "905": 1,
    "acorncourt": 30,
    "adventureland": 100,
    "afflicted": 75,
    "awaken": 50,
    "detective": 360,
    "dragon": 25,
    "inhumane": 90,
    "library": 30,
    "moonlit": 1,
    "omniquest": 50,
    "pentari": 70,
    "reverb": 50,
    "snacktime": 50,
    "temple": 35,
    "ztuu": 100,
    "advent": 350,
    "balances": 51,
    "deephome": 300,
    "gold": 100,
    "jewel": 90,
    "karn": 170,
    "ludicorp": 150,
    "yomomma": 35,
    "zenon": 20,
    "zork1": 350,
    "zork3": 7,
    "anchor": 100,
    "enchanter": 400,
    "sorcerer": 400,
    "spellbrkr": 600,
    "spirit": 250,
    "tryst205": 350,
}

PAPER_GAMES: Mapping[str, PaperGame] = {name: PaperGame(name, score) for name, score in _MAX_SCORES.items()}
"""The paper's 33 games by name, in the order of its table: possible, difficult, extreme."""


@cache
def titles_by_md5() -> Mapping[str, Title]:
    """Every title that Jericho supports, by the MD5 of its story file.

    Raises:
        GameError: Jericho is not installed.
    """
    try:
        from jericho.defines import BINDINGS_DICT
    except ImportError as error:
        raise GameError(
            f"Jericho cannot be imported: {error}", hint="Type: pip install 'jericho>=3.3.1'"
        ) from error
    return {md5: Title(known["name"], known["rom"], md5) for md5, known in BINDINGS_DICT.items()}


@cache
def titles_by_name() -> Mapping[str, Title]:
    """The same titles by name."""
    return {title.name: title for title in titles_by_md5().values()}
