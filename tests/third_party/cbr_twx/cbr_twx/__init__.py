"""TextWorldExpress for cbr. Import paths stand here as strings: loading the plugin starts no Java."""

from cbrcore import Registrar, hookimpl

cbr_api_version = 1


@hookimpl
def register_environments(registry: Registrar) -> None:
    registry.add(
        "twx",
        factory="cbr_twx.environment:TextWorldExpress",
        config="cbr_twx.config:TwxConfig",
        summary="the games of TextWorldExpress (Jansen and Côté 2022): coin collector, cooking, TWC and five more",
        requires=("textworld-express",),
    )
