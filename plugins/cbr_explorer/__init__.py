"""A case-based explorer for deterministic games: a case is a place to start from."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_reuse_policies(registry: Registrar) -> None:
    registry.add(
        "explorer",
        factory="cbr_explorer.policy:Explorer",
        config="cbr_explorer.config:ExplorerConfig",
        summary="returns to a case by replaying its commands, explores from there, keeps what is new or shorter",
        requires=(),
    )
