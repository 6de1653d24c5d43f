"""The names of an action's entities as its context."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cbr_goals.config import NamesConfig, View
from cbr_goals.layout import Layout
from cbr_keys.cosine import unit
from cbrcore import Build, CbrError, Observation
from cbrcore.interfaces import PairFeature, TellsHandicaps, TextEncoder
from cbrcore.types import EntityTuple

ANY_STATE = "any state"
"""The situation of every observation: the state plays no role."""


class NamesEncoder(nn.Module):
    """Per entity and view the unit vector of its words, and one number that is 1 where there are none; then the
    value of the pair feature, if there is one. Two views without words have cosine 1, one of them without 0.

    Of more than two entities the first two count; of a single one the second is without words, and the pair's
    value is 0. Nothing is trained. Each text is encoded once.

    Attributes:
        layout: where each view stands.
        handicaps: those of the pair feature.

    Raises:
        CbrError: there is no text encoder.
    """

    def __init__(self, config: NamesConfig, build: Build) -> None:
        super().__init__()
        if build.text_encoder is None:
            raise CbrError("names needs a text encoder", hint="add a `text_encoder` to the recipe")
        self.config = config
        self.device = build.device
        self.pair_feature: PairFeature | None = build.make("pair_feature", build) if config.pair_feature else None
        self.handicaps = dict(self.pair_feature.handicaps) if isinstance(self.pair_feature, TellsHandicaps) else {}
        self.layout = Layout.of(config, build.text_encoder.dim, pair=self.pair_feature is not None)
        self.dim = self.layout.dim
        self._texts: TextEncoder = build.text_encoder
        self._known: dict[str, Tensor] = {"": torch.eye(self.layout.width, device=build.device)[-1]}

    def extra_repr(self) -> str:
        return f"dim={self.dim}, views={', '.join(self.layout.names)}, pair_feature={self.pair_feature!r}"

    def situation(self, observation: Observation, past: Sequence[Observation]) -> str:
        """The same for every observation."""
        return ANY_STATE

    @torch.no_grad()
    def contexts_of_pairs(self, pairs: Sequence[tuple[str, EntityTuple]]) -> Tensor:
        """[n, d]: one context per pair, a constant; the situation is ignored."""
        if not pairs:
            return torch.zeros(0, self.dim, device=self.device)
        rows = {entities[:2]: row for row, entities in enumerate(dict.fromkeys(each[:2] for _, each in pairs))}
        contexts = self._contexts(list(rows))
        return contexts[[rows[entities[:2]] for _, entities in pairs]]

    def _contexts(self, tuples: Sequence[EntityTuple]) -> Tensor:
        """[n, d]: of different tuples of two entities at most."""
        texts = [self._texts_of(entities) for entities in tuples]
        self._learn(sorted({text for each in texts for text in each}.difference(self._known)))
        views = torch.stack([torch.cat([self._known[text] for text in each]) for each in texts])
        return views if self.pair_feature is None else torch.cat([views, self._values(tuples)], dim=1)

    def _texts_of(self, entities: EntityTuple) -> list[str]:
        """The words of each view; "" for none."""
        first, second = (*entities, "", "")[:2]
        config = self.config
        return [*(words(view, first) for view in config.first), *(words(view, second) for view in config.second)]

    def _learn(self, texts: Sequence[str]) -> None:
        if texts:
            units = unit(self._texts.encode(texts).double()).float()  # [n, width of a text]
            self._known.update(zip(texts, nn.functional.pad(units, (0, 1)), strict=True))

    def _values(self, tuples: Sequence[EntityTuple]) -> Tensor:
        """[n, 1]: of the pair feature; 0 where there is no pair."""
        assert self.pair_feature is not None
        rows = [row for row, entities in enumerate(tuples) if len(entities) == 2]
        values = torch.zeros(len(tuples), 1, device=self.device)
        if rows:
            found = self.pair_feature.values([(tuples[row][0], tuples[row][1]) for row in rows])
            values[rows, 0] = found.to(self.device)
        return values


def words(view: View, name: str) -> str:
    """The words of a name that a view shows, "" for none."""
    *before, head = name.split() or [""]
    match view:
        case "full":
            return " ".join([*before, head])
        case "head":
            return head
        case "modifiers":
            return " ".join(before)
        case "state":
            return before[0] if before else ""
