"""One spelling per text, so that what a reader cannot tell apart has one vector."""

from __future__ import annotations

import re
import unicodedata

_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def canonical(text: str) -> str:
    """`text` in Unicode's composed form (NFC), without zero-width characters.

    A lone surrogate (an undecodable byte of the game) becomes the replacement character: it has no UTF-8 form.
    """
    if text.isascii():
        return text
    visible = _INVISIBLE.sub("", text)
    return unicodedata.normalize("NFC", _SURROGATE.sub("\ufffd", visible))
