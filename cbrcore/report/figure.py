"""A figure of the page, and one style for each agent in all figures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cbrcore.report.runs import Group
from cbrcore.report.svg import COLOURS, Style

WITH_CBR = re.compile(r"( \+ |_)cbr", re.IGNORECASE)
Styles = Mapping[str, Style]
"""agent -> its style, the same in all figures."""


@dataclass(frozen=True)
class Figure:
    """An image, what it shows in words, and what its styles mean.

    Attributes:
        lines: (kind, text), as `cbrcore.explanations` makes them; shown below it.
    """

    id: str
    title: str
    svg: str
    caption: str
    legend: tuple[tuple[str, Style], ...] = ()
    lines: tuple[tuple[str, str], ...] = ()


def styles_of(groups: Sequence[Group]) -> dict[str, Style]:
    """A colour for each agent. With and without CBR ("bike_cbr" and "bike") it is one colour, dashed without."""
    kinds = {group.agent: (WITH_CBR.sub("", group.agent), group.uses_cases) for group in groups}
    if len(set(kinds.values())) < len(kinds):
        return {agent: Style(position, dashed=position >= COLOURS) for position, agent in enumerate(kinds)}
    colours = {part: position for position, part in enumerate(dict.fromkeys(part for part, _ in kinds.values()))}
    return {agent: Style(colours[part], dashed=not cases) for agent, (part, cases) in kinds.items()}


def legend_of(agents: Sequence[str], styles: Styles) -> tuple[tuple[str, Style], ...]:
    return tuple((agent, styles[agent]) for agent in dict.fromkeys(agents))
