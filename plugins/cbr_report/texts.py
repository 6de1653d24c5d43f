"""Texts of games and runs as they can be written, read and drawn."""

from __future__ import annotations

UNKNOWN = "\ufffd"
CONTROLS = {
    code: UNKNOWN for code in (*range(32), *range(127, 160), 0xFFFE, 0xFFFF) if chr(code) not in "\t\n\r\x85"
}
"""What XML has no place for; a figure with a NUL would end the process that draws it."""


def shown(text: str) -> str:
    """The text with control characters and lone surrogates as what stands for unknown ones."""
    return text.translate(CONTROLS).encode("utf-8", "replace").decode("utf-8")


def one_line(text: str) -> str:
    """The same on one line, whatever ends a line anywhere."""
    return " ".join(shown(text).splitlines())
