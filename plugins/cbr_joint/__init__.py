"""The joint variant: any agent, made aware of what the case memory offers [P App. E]."""

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
    )
