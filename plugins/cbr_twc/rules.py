"""TextWorld's rules, as the knowledge base in a game's .json states them.

`world` writes them out in Python for speed. Two generations of games differ in three points; a game whose rules
differ in anything else is refused rather than played wrongly.
"""

from __future__ import annotations

import re
from typing import NamedTuple

RULES = {
    "look": "at(P, r) -> at(P, r)",
    "take": "$at(P, r) & at(o, r) -> in(o, I)",
    "take/c": "$at(P, r) & $at(c, r) & $open(c) & in(o, c) -> in(o, I)",
    "take/s": "$at(P, r) & $at(s, r) & on(o, s) -> in(o, I)",
    "drop": "$at(P, r) & in(o, I) -> at(o, r)",
    "insert": "$at(P, r) & $at(c, r) & $open(c) & in(o, I) -> in(o, c)",
    "put": "$at(P, r) & $at(s, r) & in(o, I) -> on(o, s)",
    "open/c": "$at(P, r) & $at(c, r) & closed(c) -> open(c)",
    "close/c": "$at(P, r) & $at(c, r) & open(c) -> closed(c)",
    "open/d": "$at(P, r) & $link(r, d, r') & $link(r', d, r) & closed(d) -> open(d) & free(r, r') & free(r', r)",
    "close/d": "$at(P, r) & $link(r, d, r') & $link(r', d, r) & open(d) & free(r, r') & free(r', r) -> closed(d)",
    "examine/t": "at(P, r) & $at(t, r) -> at(P, r)",
    "examine/s": "at(P, r) & $at(s, r) & $on(o, s) -> at(P, r)",
    "examine/c": "at(P, r) & $at(c, r) & $open(c) & $in(o, c) -> at(P, r)",
}
RULES |= {
    f"go/{way}": f"at(P, r) & ${way}_of(r', r) & $free(r, r') & $free(r', r) -> at(P, r')"
    for way in ("north", "south", "east", "west")
}
"""Rule -> its body without the bookkeeping of inventory slots."""

OPTIONAL = {
    "examine/I": {"in(o, I) -> in(o, I)", "at(o, I) -> at(o, I)"},
    "examine/d": {"at(P, r) & $link(r, d, r') -> at(P, r)"},
}
"""What else a game may have. Nothing is ever *at* the inventory, so that the second body of examine/I, that of the
published games, does not apply: what is held cannot be examined."""

LOCKS = {f"{verb}/{kind}" for verb in ("lock", "unlock") for kind in "cd"}
"""Never applicable: games with keys or locks are refused."""

_RULE = re.compile(r"^\s*([\w/]+)\s*::\s*([^\"\n]*->[^\"\n]*);", re.MULTILINE)
_SLOT = re.compile(r" & (?:free|used)\(slot\)")


class Rules(NamedTuple):
    """Where generations of TextWorld differ.

    Attributes:
        slots: the player holds no more things than there are slots.
        examine_held: what is held can be examined.
        examine_doors: doors can be examined.
    """

    slots: bool
    examine_held: bool
    examine_doors: bool


def read_rules(logic: str) -> Rules:
    """The variant that a knowledge base describes; ValueError for rules that are not TWC's."""
    bodies = {name: " ".join(body.split()) for name, body in _RULE.findall(logic) if "fail()" not in body}
    plain = {name: _SLOT.sub("", body) for name, body in bodies.items() if name not in LOCKS}
    for name, body in plain.items():
        if body not in OPTIONAL.get(name, {RULES.get(name)}):
            raise ValueError(f"it has an unknown rule {name} :: {body}")
    if missing := sorted(set(RULES) - set(plain)):
        raise ValueError(f"it lacks the rule {missing[0]}")
    held = plain.get("examine/I") == "in(o, I) -> in(o, I)"
    return Rules("slot" in bodies["take"], held, "examine/d" in plain)
