"""Jericho: the interactive fiction games of the benchmark [P §6.3]."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_environments(registry: Registrar) -> None:
    registry.add(
        "jericho",
        factory="cbr_jericho.environment:JerichoEnvironment",
        config="cbr_jericho.config:JerichoConfig",
        summary="Jericho: 33 human-made interactive fictions, one of which is played",
        requires=("jericho>=3.3.1",),
    )


@hookimpl
def register_commands(registry: Registrar) -> None:
    registry.add(
        "games",
        factory="cbr_jericho.games:games_app",
        summary="List, add and download the story files of the Jericho games.",
    )
