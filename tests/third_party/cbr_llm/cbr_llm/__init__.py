"""A language model as an agent. Import paths stand here as strings: loading the plugin imports no torch."""

from cbrcore import Registrar, hookimpl

cbr_api_version = 1


@hookimpl
def register_agents(registry: Registrar) -> None:
    registry.add(
        "llm",
        factory="cbr_llm.agent:LlmAgent",
        config="cbr_llm.config:LlmConfig",
        summary="a frozen causal language model scores the admissible commands; acts where no case fits",
        requires=("torch", "transformers"),
    )
    registry.add(
        "reviser",
        factory="cbr_llm.agent:LlmReviser",
        config="cbr_llm.config:LlmConfig",
        summary="the same model does the revise step: it is asked always, and reads what the memory offers",
        requires=("torch", "transformers"),
    )


@hookimpl
def register_commands(registry: Registrar) -> None:
    registry.add(
        "tiny-llm",
        factory="cbr_llm.command:tiny_llm",
        summary="Train a tiny language model on random plays of a recipe's training games, for cbr_llm/llm.",
    )
