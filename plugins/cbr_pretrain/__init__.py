"""Pretraining of the retriever on pairs of experience [P §5]."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_pretrainings(registry: Registrar) -> None:
    registry.add(
        "contrastive",
        factory="cbr_pretrain.contrastive:ContrastivePretraining",
        config="cbr_pretrain.config:PretrainConfig",
        summary="pairs of rewarded and unrewarded experience are pulled together and pushed apart [P §5]",
        requires=("torch",),
    )


@hookimpl
def register_commands(registry: Registrar) -> None:
    registry.add(
        "pretrain",
        factory="cbr_pretrain.command:pretrain",
        summary="Pretrain a recipe's retriever, for any number of runs.",
    )
