"""TextWorld Commonsense games [P §6.1]."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_environments(registry: Registrar) -> None:
    registry.add(
        "twc",
        factory="cbr_twc.environment:TwcEnvironment",
        config="cbr_twc.config:TwcConfig",
        summary="TextWorld Commonsense: the 45 published games, or games generated on the spot",
        requires=("textworld",),
    )


@hookimpl
def register_checks(registry: Registrar) -> None:
    registry.add("games", factory="cbr_twc.checks:games", summary="the published games of each level")
