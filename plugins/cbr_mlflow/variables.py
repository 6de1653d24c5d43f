"""How MLflow is told, by environment variables, to write plain files and to keep quiet."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

WANTED = {
    "MLFLOW_ALLOW_FILE_STORE": "true",  # MLflow asks for this consent before it writes plain files
    "MLFLOW_DISABLE_TELEMETRY": "true",  # nothing is reported to anybody unless asked for
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


@contextlib.contextmanager
def our_variables() -> Iterator[None]:
    """What we want of MLflow holds within, except where the user has said something else; nothing stays behind."""
    mine = {name: value for name, value in WANTED.items() if name not in os.environ}
    os.environ.update(mine)
    try:
        yield
    finally:
        for name in mine:
            os.environ.pop(name, None)
