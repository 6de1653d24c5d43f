"""Whether the text encoder that recipes use by default works, for ``cbr doctor``."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from cbr_text_encoders.config import TransformerConfig
from cbr_text_encoders.transformer import TransformerEncoder
from cbrcore import Build, CbrError, Finding

REINSTALL = "pip install --force-reinstall cbr-textrl"


def packaged(*, quick: bool) -> Iterator[Finding]:
    """Its files, and unless `quick` a text encoded with it."""
    try:
        with tempfile.TemporaryDirectory(prefix="cbr-doctor-") as folder:
            encoder = TransformerEncoder(TransformerConfig(), Build(cache_dir=Path(folder)))
            if not quick:
                encoder.encode(["a text"])
    except CbrError as error:
        yield Finding("models", "text encoder", "broken", error.message, error.hint or REINSTALL)
    else:
        yield Finding("models", "text encoder", "ok", encoder.identity)
