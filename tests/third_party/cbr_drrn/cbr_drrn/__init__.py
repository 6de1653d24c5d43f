"""DRRN (He et al., ACL 2016) as on Jericho (Hausknecht et al., AAAI 2020): an agent, and the learner it brings."""

from cbrcore import Registrar, hookimpl

cbr_api_version = 1


@hookimpl
def register_agents(registry: Registrar) -> None:
    registry.add(
        "drrn",
        factory="cbr_drrn.agent:DrrnAgent",
        config="cbr_drrn.config:DrrnConfig",
        summary="Q of each admissible action, by GRUs over three texts and the action; softmax policy (DRRN)",
        requires=("torch",),
        brings={"learner": "cbr_drrn/drrn"},
    )


@hookimpl
def register_learners(registry: Registrar) -> None:
    registry.add(
        "drrn",
        factory="cbr_drrn.learner:DrrnLearner",
        config="cbr_drrn.config:DrrnLearnerConfig",
        summary="Q-learning from a replay memory, maxima over the next admissible actions; with cases L_r, too",
        requires=("torch", "numpy"),
    )
