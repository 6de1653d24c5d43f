"""Small drawings: boxes, arrows and words, as an SVG that is read in light and dark, on a phone and a desk."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from pathlib import Path

WIDTH = 440
"""Of every picture, in units of which a letter is 14 high: on a phone it is not made much smaller."""
LINE = 17
STYLE = (Path(__file__).parent / "picture.css").read_text(encoding="utf-8")
"""By which a file is read alone; on the site docs/site/site.css chooses the colours."""


@dataclass
class Drawing:
    """A picture that grows downwards.

    Attributes:
        height: in the same units as `WIDTH`.
    """

    height: int
    parts: list[str] = field(default_factory=list)

    def box(self, x: float, y: float, w: float, h: float, *lines: str, tone: str = "plain") -> Drawing:
        """A rounded box with lines of words in its middle; a line that begins with "~" is small, with "*" bold."""
        self.parts.append(f'<rect class="line {tone}" x="{x}" y="{y}" width="{w}" height="{h}" rx="6"/>')
        top = y + h / 2 - (len(lines) - 1) * LINE / 2 + 5
        for number, line in enumerate(lines):
            self.words(x + w / 2, top + number * LINE, line)
        return self

    def circle(self, x: float, y: float, r: float, line: str = "", tone: str = "plain") -> Drawing:
        """A node of a graph with a word in it."""
        self.parts.append(f'<circle class="line {tone}" cx="{x}" cy="{y}" r="{r}"/>')
        return self.words(x, y + 5, line) if line else self

    def words(self, x: float, y: float, line: str, anchor: str = "middle") -> Drawing:
        """A line of words; `anchor`: whether x is its start, middle or end."""
        style = {"~": "small", "*": "strong"}.get(line[:1], "")
        said = escape(line.lstrip("~*"), quote=False)
        self.parts.append(f'<text class="{style}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{said}</text>')
        return self

    def arrow(self, *points: tuple[float, float], dashed: bool = False) -> Drawing:
        """A line through these points with a tip at its end."""
        self.line(*points, dashed=dashed)
        (x0, y0), (x, y) = points[-2:]
        length = ((x - x0) ** 2 + (y - y0) ** 2) ** 0.5
        u, v = (x - x0) / length, (y - y0) / length
        left, right = (x - 9 * u - 4 * v, y - 9 * v + 4 * u), (x - 9 * u + 4 * v, y - 9 * v - 4 * u)
        corners = " ".join(f"{a:.1f},{b:.1f}" for a, b in ((x, y), left, right))
        self.parts.append(f'<polygon class="tip" points="{corners}"/>')
        return self

    def line(self, *points: tuple[float, float], dashed: bool = False) -> Drawing:
        """A line through these points."""
        way = " ".join(f"{x:g},{y:g}" for x, y in points)
        self.parts.append(f'<polyline class="line{" dashed" if dashed else ""}" points="{way}"/>')
        return self

    def svg(self) -> str:
        """The file."""
        head = f'<svg class="cbr-picture" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}">'
        sheet = f'<rect class="sheet" width="{WIDTH}" height="{self.height}" rx="8"/>'
        return "\n".join([head, f"<style>\n{STYLE}</style>", sheet, *self.parts, "</svg>"]) + "\n"
