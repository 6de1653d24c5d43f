"""Metrics rows as TensorBoard scalars."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cbrcore.config import NoSettings
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build

log = logging.getLogger(__name__)

INSTALL = "pip install 'cbr-textrl[tensorboard]'"


class TensorBoardRecorder:
    """Event files in the run folder; nothing at all where tensorboard is not installed, or broken."""

    def __init__(self, config: NoSettings, build: Build) -> None:
        self._writer: Any = None

    def __repr__(self) -> str:
        return "TensorBoardRecorder()"

    def begin(self, folder: Path, recipe: Mapping[str, Any], *, after: int) -> None:
        """Open a new event file; what earlier ones hold for episodes later than `after` is purged when read.

        Raises:
            CbrError: nothing can be written into the folder.
        """
        try:
            from torch.utils.tensorboard import SummaryWriter
        except (Exception, SystemExit) as error:
            _tell_missing(error)
            return
        try:
            _wait_for_a_later_name(folder)
            self._writer = SummaryWriter(str(folder), purge_step=after + 1)
        except OSError as error:
            raise CbrError(
                f"TensorBoard's event file cannot be written: {error}",
                hint=f"make room in {folder}, or take the recorder out of the recipe",
            ) from error

    def write(self, row: Mapping[str, Any]) -> None:
        if self._writer is None:
            return
        for name, value in row.items():
            if isinstance(value, int | float) and math.isfinite(value) and name != "episode":
                self._writer.add_scalar(name, value, row["episode"])

    def finish(self, results: Mapping[str, Any]) -> None:
        """Nothing: the results are no series."""

    def close(self) -> None:
        """Write what is left."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def _wait_for_a_later_name(folder: Path) -> None:
    """Event files are read in the order of their names, which begin with the second; what follows has no order."""
    names = [path.name.split(".") for path in folder.glob("events.out.tfevents.*")]
    latest = max((int(name[3]) for name in names if name[3].isdigit()), default=0)
    time.sleep(min(1.0, max(0.0, latest + 1 - time.time())))


def _tell_missing(error: BaseException) -> None:
    """A TensorBoard that is not installed is no news; one that is there and cannot be imported is named."""
    if isinstance(error, ModuleNotFoundError) and error.name == "tensorboard":
        log.info("no TensorBoard files: %s", INSTALL)
    else:
        cause = (str(error).splitlines() or [""])[0]
        told = "no TensorBoard files, it cannot be imported: %s: %s (mend it: %s)"
        log.warning(told, type(error).__name__, cause, INSTALL)
