"""An action's object entity as its context [P App. G]."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor, nn

from cbr_entity.config import EntityConfig
from cbr_entity.held_out import HeldOut, leave_one_out
from cbr_nn.feedforward import FeedForward
from cbr_nn.names import mean_of_names
from cbrcore import Build, CbrError, Observation
from cbrcore.interfaces import TextEncoder
from cbrcore.types import SLOT, Action, EntityTuple, arity, fill

ANY_STATE = "any state"
"""The situation of every observation: the state plays no role."""


class EntityEncoder(nn.Module):
    """context = FFN(h_v), with h_v the frozen text encoding of the name of the action's object v [P App. G].

    With `entities: mean`, h_v is the mean over the set of the action's entities. An action without entities has
    the context FFN(0).

    Each distinct object is computed once per call; its name is encoded once per process, by the text encoder.

    Raises:
        CbrError: there is no text encoder.
    """

    def __init__(self, config: EntityConfig, build: Build) -> None:
        super().__init__()
        if build.text_encoder is None:
            raise CbrError("entity needs a text encoder", hint="add a `text_encoder` to the recipe")
        self.config = config
        self.device = build.device
        self._names: TextEncoder = build.text_encoder
        self.dim = config.dim or self._names.dim
        self.ffn = FeedForward(self._names.dim, self.dim)
        self.to(build.device)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, entities={self.config.entities}"

    def situation(self, observation: Observation, past: Sequence[Observation]) -> str:
        """The same for every observation."""
        return ANY_STATE

    def view(self, action: Action) -> Action:
        """With `entities: first` the place belongs to the template, "insert {} into fridge": so that the memory is
        "a registry where each object is paired with its commonsensical location"."""
        if self.config.entities != "first" or len(action.entities) < 2:
            return action
        thing, *others = action.entities
        template = fill(action.template, (SLOT, *others))
        if arity(template) != 1:  # a name that makes a slot of its own ("{") cannot be part of a template
            return action
        return Action(action.text, template, (thing,), action.seeds[:1])

    def contexts_of_pairs(self, pairs: Sequence[tuple[str, EntityTuple]]) -> Tensor:
        """[n, d]: one context per pair; the situation is ignored."""
        if not pairs:
            return torch.zeros(0, self.dim, device=self.device)
        wanted = [self._objects(entities) for _, entities in pairs]
        rows = {objects: row for row, objects in enumerate(dict.fromkeys(wanted))}
        contexts: Tensor = self.ffn(mean_of_names(self._names, list(rows)))  # [distinct, d]
        return contexts[[rows[objects] for objects in wanted]]  # [n, d]

    @torch.no_grad()
    def held_out(self, places: Mapping[str, Collection[str]]) -> HeldOut:
        """The objects in this encoder's space, and whether neighbours there belong to the same place.

        Raises:
            CbrError: there are fewer than two objects, or one without a place.
        """
        names = tuple(places)
        vectors = self.contexts_of_pairs([(ANY_STATE, (name,)) for name in names]).cpu().double().numpy()
        texts = self._names.encode(names).cpu().double().numpy()  # [n, w]
        return HeldOut(names, vectors, leave_one_out(names, places, vectors), leave_one_out(names, places, texts))

    def _objects(self, entities: EntityTuple) -> EntityTuple:
        """The entities that a context is made of."""
        return entities[:1] if self.config.entities == "first" else tuple(sorted(set(entities)))
