"""What was compared for a decision that was recorded: cases with contexts, and pi over the admissible actions.

The parts are asked again for what the record does not hold; nothing in them changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cbr_open.explanations import Explanation, explain
from cbrcore import Action, Case, Decision, EntityTuple, Match

if TYPE_CHECKING:
    from cbrcore.cycle.reasoner import CaseBasedReasoner, Trace


def explained(
    decision: Decision, trace: Trace, reasoner: CaseBasedReasoner, policy: Mapping[Action, float]
) -> Explanation:
    """The explanation of a decision, with the nearest case and tau; `policy` is pi, see `policy_of`."""
    tau = reasoner.retriever.threshold if reasoner.retriever else None
    return explain(decision, tau=tau, nearest=nearest_case(reasoner, trace), probabilities=policy)


def policy_of(reasoner: CaseBasedReasoner, trace: Trace) -> dict[Action, float]:
    """pi(a | s_t) of every admissible action at a step; changes nothing."""
    import torch

    with torch.no_grad():
        logits = reasoner.agent.policy([trace.agent_input])[0].logits  # [A]
    probabilities = torch.softmax(logits.double(), dim=0).tolist()
    return dict(zip(trace.agent_input.observation.admissible, probabilities, strict=True))


def nearest_case(reasoner: CaseBasedReasoner, trace: Trace) -> tuple[EntityTuple, Match] | None:
    """(context, the most similar case) over all contexts of a step, whatever tau says; None if there is none."""
    compared = similarities_at(reasoner, trace)
    if not compared.values.size:
        return None
    column, row = divmod(int(compared.values.T.argmax()), len(compared.cases))  # the first context among equals
    relevance = float(compared.values[row, column])
    if relevance == float("-inf"):  # an approximate index did not look at any
        return None
    return compared.contexts[column], Match(compared.cases[row], relevance)


@dataclass(frozen=True)
class Compared:
    """What the retriever compared at a step: every case of the memory with every context.

    Attributes:
        contexts: n, each once, in the order of the admissible actions.
        arities: of each context, how many entities its actions take; a case of another arity cannot be reused.
        cases: m, in the order of the memory.
        values: [m, n] similarities in [0, 1]; -inf where an approximate index did not look.
    """

    contexts: tuple[EntityTuple, ...]
    arities: tuple[frozenset[int], ...]
    cases: tuple[Case, ...]
    values: NDArray[np.float64]


def similarities_at(reasoner: CaseBasedReasoner, trace: Trace) -> Compared:
    """The similarities of a step that was just taken: the numbers that were compared with tau; changes nothing.

    To be asked before the next episode begins, which forgets the keys of this one.
    """
    retriever, seen = reasoner.retriever, trace.agent_input.observation
    if retriever is None:
        return Compared((), (), (), np.zeros((0, 0)))
    arities: dict[EntityTuple, set[int]] = {}
    for action in seen.admissible:
        if action.seeds:
            view = retriever.view(action)
            arities.setdefault(view.seeds, set()).add(len(view.entities))
    memory, contexts = retriever.memory, tuple(arities)
    values = np.zeros((len(memory), len(contexts)))
    if values.size:
        keys = retriever.keys(trace.situation, contexts)
        values = memory.similarities(keys).double().cpu().numpy().T  # [n, m] -> [m, n]
    return Compared(contexts, tuple(map(frozenset, arities.values())), tuple(memory.cases), values)
