"""KG-A2C in two kinds: a scorer of admissible commands [P §6.1], and decoders as they were published."""

from cbrcore import hookimpl
from cbrcore.registry import Registrar


@hookimpl
def register_agents(registry: Registrar) -> None:
    registry.add(
        "scorer",
        factory="cbr_kga2c.scorer:ScorerAgent",
        config="cbr_kga2c.config:ScorerConfig",
        summary="KG-A2C that scores the admissible commands: text and the state graph [P §6.1]",
        requires=("torch", "torch-geometric"),
    )
    registry.add(
        "decoder",
        factory="cbr_kga2c.decoder:DecoderAgent",
        config="cbr_kga2c.config:DecoderConfig",
        summary="KG-A2C that decodes a template and its objects, with the graph mask, as it was published",
        requires=("torch", "torch-geometric"),
        brings={"learner": "cbr_kga2c/supervised"},
    )


@hookimpl
def register_learners(registry: Registrar) -> None:
    registry.add(
        "supervised",
        factory="cbr_kga2c.supervised:Supervised",
        config="cbr_kga2c.config:SupervisedConfig",
        summary="A2C with the supervised losses of KG-A2C's template and object decoders",
        requires=("torch", "torch-geometric"),
    )
