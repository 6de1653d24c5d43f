"""Sound parts as a loose plugin (``--plugin``), one method of which answers otherwise.

ODD says which: "agent.policy|given[:1]" is what the agent's `policy` gives instead; `given` is the sound answer,
`part` and `args` what it was asked with. "agent|None" is what the factory gives. From the third answer on, so that
a run has begun; "agent.policy!|..." from the first.
"""

import os
from collections import Counter
from dataclasses import replace

import torch
from toy import ToyEnvironment

from cbr_a2c.learner import A2cLearner
from cbr_continuous.quantizer import ContinuousContext
from cbr_memory.memory import case_memory
from cbr_retain.policies import LastK
from cbr_seeded_gat.encoder import SeededGat
from cbr_text.agent import TextAgent
from cbr_text_encoders.untrained import UntrainedEncoder
from cbrcore import hookimpl
from cbrcore.types import Action, StateGraph

NAN, INF = float("nan"), float("inf")
WORDS = {
    "replace": replace, "torch": torch, "Action": Action, "StateGraph": StateGraph, "NAN": NAN, "INF": INF,
}  # fmt: skip


def throw(error):
    raise error


def odd(kind, part):
    """The part, with the method that ODD names answering otherwise."""
    asked, _, answer = os.environ.get("ODD", "").partition("|")
    mine, _, method = asked.partition(".")
    if mine != kind:
        return part
    if not method:
        return eval(answer, WORDS | {"part": part, "throw": throw})
    at_once, name, calls = method.endswith("!"), method.rstrip("!"), Counter()
    sound = getattr(type(part), name)

    def otherwise(self, *args, **kwargs):
        calls["of"] += 1
        given = sound(self, *args, **kwargs)
        if calls["of"] < 3 and not at_once:
            return given
        return eval(answer, WORDS | {"given": given, "part": self, "args": args, "throw": throw})

    part.__class__ = type(f"Odd{type(part).__name__}", (type(part),), {name: otherwise})
    return part


def environment(config, build):
    return odd("environment", ToyEnvironment())


def text_encoder(config, build):
    return odd("text_encoder", UntrainedEncoder(config, build))


def context_encoder(config, build):
    return odd("context_encoder", SeededGat(config, build))


def quantizer(config, build):
    made = ContinuousContext(config, build)
    index = made.index
    made.index = lambda: odd("index", index())
    return odd("quantizer", made)


def memory(config, build):
    return odd("memory", case_memory(config, build))


def retain_policy(config, build):
    return odd("retain_policy", LastK(config, build))


def agent(config, build):
    return odd("agent", TextAgent(config, build))


def learner(config, build):
    return odd("learner", A2cLearner(config, build))


def kind(name, config="cbrcore.config:NoSettings"):
    hook = f"register_{name.removesuffix('y') + 'ies' if name.endswith('y') else name + 's'}"

    def register(registry):
        registry.add("odd", factory=f"odd_parts:{name}", config=config, summary="not as it should be")

    register.__name__ = hook
    globals()[hook] = hookimpl(register)


kind("environment")
kind("text_encoder", "cbr_text_encoders.config:UntrainedConfig")
kind("context_encoder", "cbr_seeded_gat.config:SeededGatConfig")
kind("quantizer", "cbr_continuous.config:ContinuousContextConfig")
kind("memory", "cbr_memory.config:CaseMemoryConfig")
kind("retain_policy", "cbr_retain.config:LastKConfig")
kind("agent", "cbr_text.config:TextConfig")
kind("learner")
