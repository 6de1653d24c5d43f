"""Which earlier paragraphs stand beside an observation [P App. F]. Texts and sets only, no torch.

"We compute an action-specific representation [...], concatenating o_t with the n most recent observations that
share objects with it or with the given action" [P App. F], after the history of MPRC-DQN. As there, the objects
of an observation are those that its admissible actions name, and of an earlier observation only the description
is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from cbrcore import Observation

Paragraph = tuple[str, frozenset[str]]
"""The text of an earlier observation, and the objects that it shares with the current one."""

Passage = tuple[str, tuple[Paragraph, ...]]
"""The text of the current observation, and the earlier paragraphs that an action of it may ask for, newest first.
Plain tuples and sets, so that a case memory can be written with what its keys were made of."""


def objects_of(observation: Observation) -> frozenset[str]:
    """The objects that the admissible actions name. Actions without entities count for nothing: their seeds are
    the player and the room, which nearly all observations would share."""
    return frozenset(name for action in observation.admissible if action.entities for name in action.seeds)


def passage_of(observation: Observation, past: Sequence[Observation], history: int) -> Passage:
    """What an encoder needs of a state: as little as gives each admissible action its `history` paragraphs.

    An equal text counts once, where it occurred last; the current description is no earlier paragraph. Of each
    object of the observation the `history` newest paragraphs are kept: no choice needs an older one.
    """
    here = objects_of(observation)
    shared: dict[str, set[str]] = {}  # newest text first
    for earlier in reversed(past):
        common = here & objects_of(earlier)
        if common and _text(earlier) != observation.description:
            shared.setdefault(_text(earlier), set()).update(common)
    seen: Counter[str] = Counter()
    kept: list[Paragraph] = []
    for text, objects in shared.items():
        if any(seen[name] < history for name in objects):
            kept.append((text, frozenset(objects)))
        seen.update(objects)
    return observation.text, tuple(kept)


def choose(passage: Passage, entities: Collection[str], history: int, *, prefer: str) -> list[str]:
    """The at most `history` earlier paragraphs for the action of these entities.

    Args:
        passage: what `passage_of` gave.
        entities: V_a. One that no paragraph mentions shares nothing.
        history: n.
        prefer: "action": paragraphs that share an object with the action come first, each part newest first;
            "recent": newest first.
    """
    _, earlier = passage
    if prefer == "action":
        about_it = frozenset(entities)
        earlier = tuple(sorted(earlier, key=lambda paragraph: about_it.isdisjoint(paragraph[1])))  # stable
    return [text for text, _ in earlier[:history]]


def _text(observation: Observation) -> str:
    """The description; the feedback where the environment gives none."""
    return observation.description or observation.feedback
