"""A plugin of your own to start from."""

from cbrcore import Registrar, hookimpl


@hookimpl
def register_commands(registry: Registrar) -> None:
    registry.add(
        "new-plugin",
        factory="cbr_new_plugin.command:new_plugin",
        summary="Write a plugin of your own to start from: a working part with its tests and a recipe.",
    )
