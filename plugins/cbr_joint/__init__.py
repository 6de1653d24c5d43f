"""The joint variant: any agent, told what the case memory offers, trained with the retriever [P App. E]."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_agents(registry: Registrar) -> None:
    registry.add(
        "joint",
        factory="cbr_joint.agent:JointAgent",
        config="cbr_joint.config:JointConfig",
        summary="another agent, trained jointly with the retriever: it weighs the candidates itself [P App. E]",
        requires=("torch",),
        brings={"learner": "cbr_joint/joint"},
    )


@hookimpl
def register_learners(registry: Registrar) -> None:
    registry.add(
        "joint",
        factory="cbr_joint.learner:JointLearner",
        config="cbr_joint.config:JointLearnerConfig",
        summary="one optimiser for a joint agent and the retriever, on the sum of all losses [P App. E]",
        requires=("torch",),
    )
