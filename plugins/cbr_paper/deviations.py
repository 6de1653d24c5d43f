"""What in our runs is not as in the paper, by name.

The paper's values are those of its appendix J and of the sections cited. Of the sizes and optimisers that it does
not give, the expected values are those of the public TWC baseline, whose training it follows. Where neither says
anything nothing is named: choices of ours in what the paper leaves open are in docs/paper/readings.md.
What a variant is about (another quantizer, another context encoder) is named by its row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cbr_report.runs import Group
from cbrcore.config import expand_path
from cbrcore.errors import CbrError

TWC, JERICHO = "cbr_twc/twc", "cbr_jericho/jericho"
GAT, LAST_K = "cbr_seeded_gat/seeded_gat", "cbr_retain/last_k"
SCORER, DECODER = "cbr_kga2c/scorer", "cbr_kga2c/decoder"
BERT = "bert-base-uncased"
BERT_BASE = {"model_type": "bert", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
MEMORY_GROWTH = "memory_growth.yaml"
"""The recipe of Figure 5, where k is 2."""

Flat = Mapping[str, Any]
"""Dotted path -> value of a resolved recipe."""


@dataclass(frozen=True)
class Expected:
    """A setting and its value in the paper.

    Attributes:
        says: what the setting is, in words.
        value: any of them is right where it is a tuple.
        whose: whose value it is.
        where: paths and values that the recipe must have for this to be said of it.
    """

    path: str
    says: str
    value: Any
    whose: str = "the paper"
    where: Mapping[str, Any] | None = None

    def deviation(self, recipe: Flat) -> str | None:
        """ "entropy weight 0.01 (the TWC baseline: 0.0001)"; None where it is as expected, or not there."""
        if self.path not in recipe or any(recipe.get(path) != value for path, value in (self.where or {}).items()):
            return None
        ours, right = recipe[self.path], self.value if isinstance(self.value, tuple) else (self.value,)
        return None if ours in right else f"{self.says} {_said(ours)} ({self.whose}: {_said(right[0])})"


ON_TWC, ON_JERICHO = {"environment.use": TWC}, {"environment.use": JERICHO}
WITH_GAT = {"context_encoder.use": GAT}
BASELINE = "the TWC baseline"
AGENTS = ("agent", "agent.agent")
"""Where a recipe has the settings of the neural agent: the joint one is made around another."""
OF_AGENTS = (
    Expected("training.agent_learning_rate", "learning rate of the agent", 3e-5, BASELINE),
    Expected("training.entropy_weight", "entropy weight", 1e-4, BASELINE),
    Expected("training.win_bonus", "win bonus", 100.0, BASELINE, ON_TWC),
    Expected("training.win_bonus", "win bonus", 0.0, "the paper", ON_JERICHO),
    Expected("training.gamma", "discount", 0.9),
    Expected("training.update_every", "steps per update", 20, BASELINE),
    Expected("training.value_weight", "weight of the value's loss", 0.5, BASELINE),
    Expected("training.clip", "largest gradient norm", 40.0, BASELINE),
    *(Expected(f"{agent}.hidden", "hidden size of the agent", 300, BASELINE, ON_TWC) for agent in AGENTS),
    *(Expected(f"{agent}.unit", "texts read by", "observation", BASELINE, ON_TWC) for agent in AGENTS),
    Expected("run.episodes", "passes of training", 100, "the paper", ON_TWC),
    Expected("run.env_steps", "steps of training", 100000, "the paper", ON_JERICHO),
    Expected("environment.max_steps", "steps per episode", 50, "the paper", ON_TWC),
    Expected("environment.max_steps", "steps per episode", 100, "the paper", ON_JERICHO),
    Expected("run.num_envs", "games at a time", 1, BASELINE, ON_TWC),
)
OF_CASES = (
    Expected("context_encoder.layers", "layers of the seeded GAT", 2, where=ON_TWC | WITH_GAT),
    Expected("context_encoder.layers", "layers of the seeded GAT", 3, where=ON_JERICHO | WITH_GAT),
    Expected("context_encoder.heads", "heads of the seeded GAT", 12, where=WITH_GAT),
    Expected("context_encoder.dropout", "dropout of the seeded GAT", 0.1, where=WITH_GAT),
    Expected("memory.threshold", "tau", 0.7),
    Expected("memory.neighbours", "cases that vote", 1),
    Expected("memory.outcome", "cases kept", "rewarded"),
    Expected("memory.refresh", "keys made anew", False),
    Expected("memory.cases", "cases given", None),
    Expected("reuse_policy.use", "reuse by", "cbr_reuse/most_relevant"),
    Expected("reuse_policy.retry_failed", "what failed is reused again in the episode:", True),
    Expected("reuse_policy.retry_solved", "what is solved is acted on again:", True),
)


def deviations(group: Group, table: str | None) -> list[str]:
    """What in the recipe of these runs is not as in the paper; `table`: the file of the table's recipe."""
    recipe = group.settings
    expected = (*OF_AGENTS, *(OF_CASES if group.uses_cases else ()), *_retained(table))
    return [
        *_of_text_encoder(group),
        *(text for each in expected if (text := each.deviation(recipe))),
        *_of_parallel_games(recipe),
        *_of_pretraining(group),
        *_of_kga2c(recipe),
    ]


def _said(value: Any) -> str:
    return (
        {True: "yes", False: "no", None: "none"}[value] if value is None or isinstance(value, bool) else f"{value}"
    )


def _retained(table: str | None) -> tuple[Expected, ...]:
    if table == MEMORY_GROWTH:
        return (Expected("retain_policy.k", "pairs retained", 2, where={"retain_policy.use": LAST_K}),)
    return (
        Expected("retain_policy.k", "pairs retained", 1, where=ON_TWC | {"retain_policy.use": LAST_K}),
        Expected("retain_policy.k", "pairs retained", 3, where=ON_JERICHO | {"retain_policy.use": LAST_K}),
    )


def _of_text_encoder(group: Group) -> Iterator[str]:
    recipe = group.settings
    use, model, pooling = (recipe.get(f"text_encoder.{name}") for name in ("use", "model", "pooling"))
    if use is None or (pooling == "cls" and _is_bert(model, group.recipe)):
        return
    ours = f"{str(use).rpartition('/')[2]} text encoder"
    if use == "cbr_text_encoders/transformer":
        known = "MiniLM (d = 384)" if model is None else str(model)
        ours = f"text encoder {known}, {'mean pooling' if pooling == 'mean' else '[CLS]'}"
    yield f"{ours} (the paper: BERT-base, d = 768, [CLS])"


def _is_bert(model: Any, recipe: Mapping[str, Any]) -> bool:
    """Whether the setting names BERT-base, or a folder that holds it; a folder that is gone is not known to."""
    if not isinstance(model, str) or model == BERT:
        return isinstance(model, str)
    with suppress(CbrError, OSError, ValueError):
        folder = expand_path(model, Path(str(recipe.get("directory", "."))))
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return isinstance(config, dict) and all(config.get(name) == value for name, value in BERT_BASE.items())
    return False


def _of_parallel_games(recipe: Flat) -> Iterator[str]:
    count = recipe.get("run.num_envs")
    if recipe.get("environment.use") == JERICHO and count not in (None, 1):
        yield f"{count} games at a time (the paper does not say how many)"


def _of_pretraining(group: Group) -> Iterator[str]:
    recipe = group.settings
    if not group.uses_cases:
        return
    if recipe.get("training.retriever_learning_rate") == 0:
        yield "retriever frozen after its pretraining (the paper: it learns on)"
    use, episodes, given = (recipe.get(f"training.pretrain.{name}") for name in ("use", "episodes", "retriever"))
    if not use or (not episodes and given is None):
        yield "retriever not pretrained (the paper: from the play of a baseline agent)"
    elif given is None:
        yield "retriever pretrained from uniform random play (the paper: from that of a baseline agent)"


def _of_kga2c(recipe: Flat) -> Iterator[str]:
    """The published agent generates commands; ours cannot be set beside it without a word."""
    used = {recipe.get(f"{agent}.use") for agent in AGENTS}
    if SCORER in used:
        yield "KG-A2C scores admissible commands (the published KG-A2C generates a template and its objects)"
    if DECODER in used:
        yield "KG-A2C decodes admissible commands alone (the published KG-A2C may generate what the game refuses)"
