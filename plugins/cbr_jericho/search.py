"""The valid actions of a state, by Jericho's own search, each with its template and entities. Runs in the worker.

Jericho tries every template on every pair of object names, keeps the commands that change the world, and of those
with one and the same effect the one whose verb human players use most.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, NamedTuple, Protocol

import jericho.util
from jericho.template_action_generator import TemplateActionGenerator

from cbr_jericho.engine import Engine, State
from cbr_jericho.tagging import DictionaryTagger, SpacyTagger
from cbrcore.types import SLOT, arity, fill

HOLE = "OBJ"
"""A slot in Jericho's templates."""

MOST_SLOTS = 2
"""Jericho leaves out templates with more."""

Thing = tuple[str, int]
"""The name that the search uses; a checksum of the answer to ``examine``: the condition that the thing is in."""

Groups = dict[str, list[tuple[str, str, str]]]
"""Answer to ``examine`` -> the names that are answered so, each with part of speech and origin."""


class Valid(NamedTuple):
    """One valid action: the command is the template with the entities in its slots."""

    template: str
    entities: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return fill(self.template, self.entities)


@dataclass(frozen=True)
class Found:
    """What is known of a state.

    Attributes:
        aliases: the name that the search uses for each thing -> all names that the game answers to alike, in lower
            case. "all" is among them.
        actions: the valid actions; None if they were not searched for.
        things: those that commands were made of; some names are of no thing.
    """

    aliases: dict[str, list[str]]
    actions: tuple[Valid, ...] | None = None
    things: tuple[Thing, ...] = ()

    def to_json(self) -> Any:
        return [self.aliases, self.actions, self.things]

    @classmethod
    def from_json(cls, data: Any) -> Found:
        """What `to_json` gave.

        Raises:
            ValueError, TypeError, AttributeError: it did not give this.
        """
        aliases, actions, things = data
        valid = tuple(Valid(template, tuple(entities)) for template, entities in actions)
        return cls(dict(aliases.items()), valid, tuple((name, int(condition)) for name, condition in things))


class Choice(Protocol):
    """Which candidates are tried (`tried.Tried`)."""

    def due(self, things: tuple[Thing, ...]) -> bool:
        """Whether all commands about these are."""
        ...

    def anew(self, things: tuple[Thing, ...]) -> bool:
        """Whether those of them are whose template did something elsewhere."""
        ...

    def did_something(self, template: str) -> bool:
        """Whether a command of this template was valid."""
        ...

    def was_valid(self, template: str, entities: tuple[str, ...]) -> bool:
        """Whether this one is, where they are not."""
        ...


class ActionSearch:
    """The search in one story.

    Args:
        templates: of a generated story, for which Jericho has none; with "{}" for each entity.
        tagger: "dictionary" or "spacy".
    """

    def __init__(self, engine: Engine, templates: Sequence[str], tagger: str) -> None:
        self.engine = engine
        self.tagger = SpacyTagger() if tagger == "spacy" else DictionaryTagger(engine.get_dictionary())
        jericho.util.spacy_nlp = self.tagger
        if templates:
            engine.act_gen = GivenTemplates(templates)

    def __repr__(self) -> str:
        return f"ActionSearch({self.engine!r}, {self.tagger!r})"

    @property
    def possible(self) -> bool:
        """Whether Jericho knows enough of the story to search at all."""
        return bool(self.engine.act_gen and self.engine.is_fully_supported)

    def things(self, state: State) -> Found:
        """The names of the things in sight; a small part of the search. `state` is the present one."""
        groups = self._groups(state)
        return Found(_aliases(groups, self.engine._score_object_names(groups)))

    def run(self, state: State, choice: Choice | None = None) -> Found:
        """The whole search, step by step as Jericho's `get_valid_actions` does it. `state` is the present one.

        Args:
            choice: leaves candidates out.
        """
        groups = self._groups(state)
        names = self.engine._score_object_names(groups)
        things = [
            (name, zlib.crc32(answer.encode()))
            for name, answer in zip(names, groups, strict=True)
            if name.isascii()  # Jericho gives others back in another encoding
        ]
        plain = [name for name, _ in things]
        if choice is None:
            candidates = self.engine.act_gen.generate_actions(plain)
        else:
            candidates = chosen(choice, self.engine.act_gen.templates, things)
        effects = self.engine._filter_candidate_actions(candidates, use_ctypes=True, use_parallel=False)
        self.engine.set_state(state)
        valid = [max(alike, key=jericho.util.verb_usage_count) for alike in effects.values()]
        actions = tuple(read_back(valid, self.engine.act_gen.templates, plain))
        return Found(_aliases(groups, names), actions, tuple(things))

    def _groups(self, state: State) -> Groups:
        groups: Groups = self.engine._identify_interactive_objects(use_object_tree=True)
        self.engine.set_state(state)
        return groups


class GivenTemplates(TemplateActionGenerator):  # type: ignore[misc]
    """Jericho's generator of candidates for templates that are not Jericho's."""

    def __init__(self, templates: Iterable[str]) -> None:
        self.templates = [template.replace(SLOT, HOLE) for template in templates]


def chosen(choice: Choice, templates: Sequence[str], things: Sequence[Thing]) -> list[str]:
    """The candidates that are tried, in the order of Jericho's `generate_actions`."""
    groups = {
        slots: [
            (tuple(name for name, _ in each), due := choice.due(each), not due and choice.anew(each))
            for each in permutations(things, slots)
        ]
        for slots in range(MOST_SLOTS + 1)
    }
    commands = []
    for spelled in templates:
        template = spelled.replace(HOLE, SLOT)
        useful = choice.did_something(template)
        for entities, due, anew in groups.get(arity(template), ()):
            if due or (useful and (anew or choice.was_valid(template, entities))):
                commands.append(fill(template, entities))
    return commands


def _aliases(groups: Groups, names: Sequence[str]) -> dict[str, list[str]]:
    """Best name -> all names. Groups of adjectives alone are no things: the game answers to "large", but not as to
    the name of anything."""
    return {
        name: sorted({alias.lower() for alias, *_ in group})
        for name, group in zip(names, groups.values(), strict=True)
        if any(part_of_speech != "ADJ" for _, part_of_speech, _ in group)
    }


def read_back(commands: Sequence[str], templates: Sequence[str], names: Sequence[str]) -> list[Valid]:
    """The template and entities of each command, in the given order.

    Commands are not parsed: what Jericho made is made again. Where a command can come about in two ways ("take
    all" is a template of its own, and "take {}" of "all"), the one with fewer entities counts, then the earlier.

    Args:
        templates: Jericho's, with "OBJ" for each entity.
        names: those that the templates were filled with.
    """
    found: dict[str, Valid] = {}
    for template in templates:
        if (slots := template.count(HOLE)) <= MOST_SLOTS:
            for valid in _spelled(template.replace(HOLE, SLOT), slots, commands, names):
                known = found.get(valid.text)
                if known is None or slots < arity(known.template):
                    found[valid.text] = valid
    return [found[command] for command in commands]


def _spelled(template: str, slots: int, commands: Sequence[str], names: Sequence[str]) -> Iterator[Valid]:
    """The commands that the template gives, as far as they are among `commands`."""
    pieces = template.split(SLOT)
    fitting = {command for command in commands if command.startswith(pieces[0]) and command.endswith(pieces[-1])}
    if fitting:
        filled = (Valid(template, entities) for entities in permutations(names, slots))
        yield from (valid for valid in filled if valid.text in fitting)
