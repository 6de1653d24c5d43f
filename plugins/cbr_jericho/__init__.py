"""Jericho: the interactive fiction games of the benchmark [P §6.3]."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_environments(registry: Registrar) -> None:
    registry.add(
        "jericho",
        factory="cbr_jericho.environment:jericho",
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


@hookimpl
def register_checks(registry: Registrar) -> None:
    registry.add("stories", factory="cbr_jericho.checks:games", summary="the paper's story files")
    registry.add("tagger", factory="cbr_jericho.checks:tagger", summary="a spaCy model, for the setting `tagger`")
    registry.add(
        "interpreter", factory="cbr_jericho.checks:interpreter", summary="a faster build of Jericho's interpreter"
    )
    registry.add("engine", factory="cbr_jericho.checks:engine", summary="a step of the engine")
