"""n-step advantage actor-critic, with the contrastive loss for reused steps [P §5]; others may take its losses."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_learners(registry: Registrar) -> None:
    registry.add(
        "a2c",
        factory="cbr_a2c.learner:A2cLearner",
        config="cbr_a2c.config:A2cConfig",
        summary="n-step A2C for the agent's own steps, the contrastive loss for reused ones [P §5]",
        requires=("torch",),
    )
