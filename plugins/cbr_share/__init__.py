"""Share a run: one file with its weights, its memory, its recipe and its results; and its card."""

from cbrcore import Registrar, hookimpl


@hookimpl
def register_commands(registry: Registrar) -> None:
    registry.add(
        "export",
        factory="cbr_share.command:export",
        summary="Write a finished run as one file, FILE.cbr, and its model card.",
    )
    registry.add("push", factory="cbr_share.command:push", summary="Upload a shared run, FILE.cbr, to a hub.")
    registry.add("pull", factory="cbr_share.command:pull", summary="Download a shared run from a hub.")


@hookimpl
def register_pretrainings(registry: Registrar) -> None:
    registry.add(
        "start",
        factory="cbr_share.start:SharedStart",
        config="cbr_share.config:StartConfig",
        summary="weights and cases of a shared run, or of another run, instead of a pretraining",
        requires=("torch",),
    )
