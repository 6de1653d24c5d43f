"""The decoders of KG-A2C: first a template, then its objects one by one, each among the nodes of the state graph.

Shapes: n = inputs in a batch, w = width, C = commands of all inputs, N = nodes of a graph, R = situations in which
the object of a slot is decoded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from cbr_kga2c.sight import Command
from cbr_nn.graphs import Nodes
from cbr_nn.padding import pad, unpad


class Situations(NamedTuple):
    """Where the objects of one slot are decoded: the R distinct beginnings (input, template, earlier objects) of
    the commands that have the slot, input by input.

    Attributes:
        commands: those that have the slot.
        rows: of each of these, which beginning it has.
        first: of each beginning a command that has it.
        parents: of each beginning the row of d_{j-1}: its input, then its beginning in the slot before.
    """

    commands: list[int]
    rows: list[int]
    first: list[int]
    parents: list[int]


def situations(flat: Sequence[Command], owner: Sequence[int]) -> Iterator[Situations]:
    """Slot by slot.

    Args:
        flat: the commands of all inputs, input by input.
        owner: the input of each.
    """
    row = dict(enumerate(owner))  # of each command, in d_{j-1}
    for slot in range(max((len(command.objects) for command in flat), default=0)):
        having = [number for number, command in enumerate(flat) if len(command.objects) > slot]
        rows, first = distinct((owner[c], flat[c].template, flat[c].objects[:slot]) for c in having)
        begun = [having[place] for place in first]
        yield Situations(having, rows, begun, [row[c] for c in begun])
        row = dict(zip(having, rows, strict=True))


def distinct(keys: Iterable[object]) -> tuple[list[int], list[int]]:
    """(of each key its number among the distinct ones, of each distinct one the place where it comes first)."""
    number: dict[object, int] = {}
    rows, first = [], []
    for place, key in enumerate(keys):
        if key not in number:
            number[key] = len(number)
            first.append(place)
        rows.append(number[key])
    return rows, first


@dataclass(frozen=True)
class Decoding:
    """What the decoders say of a batch.

    Attributes:
        query: [n, w]; the score of a template is its dot product with it.
        scores: [C], input by input: of each command the score of its template + log pi of each of its objects. One
            template with the same nodes is one output; commands that say it share it alike (- log their number).
        slots: slot by slot, of each input log pi over the nodes in its situations [R, padded N].
    """

    query: Tensor
    scores: Tensor
    slots: tuple[tuple[Tensor, ...], ...]


class Decoders(nn.Module):
    """pi(a|s) = pi(t|s) pi(o_1|t, s) pi(o_2|o_1, t, s), for a template t with two slots.

    d_0 = GRU(s, m)                                     score(t) = (W_t d_0 + b_t) · t
    d_j = GRU(ReLU(Linear([t ; o_{j-1}])), d_{j-1})     pi(o_j|...) = softmax over nodes o of (W_o d_j + b_o) · o

    with a trained vector in place of o_0. What commands begin with in common is decoded once.

    Args:
        width: w, of states, templates and objects.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.template_step = nn.GRUCell(width, width)
        self.template_query = nn.Linear(width, width)
        self.start = nn.Parameter(torch.empty(width))
        self.hear = nn.Linear(2 * width, width)
        self.object_step = nn.GRUCell(width, width)
        self.object_query = nn.Linear(width, width)
        nn.init.normal_(self.start)

    def forward(
        self,
        state: Tensor,
        memory: Tensor,
        templates: Tensor,
        objects: Nodes,
        commands: Sequence[Sequence[Command]],
    ) -> Decoding:
        """Decode every admissible command.

        Args:
            state: s [n, w].
            memory: m [n, w], with which the template decoder begins.
            templates: [C, w], the template of each command.
            objects: [n, N, w].
            commands: of each input.
        """
        flat = [command for group in commands for command in group]
        owner = [number for number, group in enumerate(commands) for _ in group]
        step = self.template_step(state, memory)  # d_0 [n, w]
        query = self.template_query(step)  # [n, w]
        scores = (query[owner] * templates).sum(dim=1)  # [C]
        slots = []
        for slot, at in enumerate(situations(flat, owner)):
            owners = [owner[c] for c in at.first]
            before = self.start.expand(len(owners), -1)  # [R, w]
            if slot:
                before = objects.vectors[owners, [flat[c].objects[slot - 1] for c in at.first]]
            heard = torch.relu(self.hear(torch.cat([templates[at.first], before], dim=1)))  # [R, w]
            step = self.object_step(heard, step[at.parents])  # d_j [R, w]
            log_pi = self._over(objects, step, [owners.count(number) for number in range(len(commands))])
            taken = torch.cat(log_pi)[at.rows, [flat[c].objects[slot] for c in at.commands]]
            scores = scores.index_add(0, torch.tensor(at.commands, device=scores.device), taken)
            slots.append(log_pi)
        outputs, _ = distinct(zip(owner, flat, strict=True))
        output = torch.tensor(outputs, dtype=torch.long, device=scores.device)
        return Decoding(query, scores - output.bincount()[output].log(), tuple(slots))

    def _over(self, objects: Nodes, step: Tensor, counts: Sequence[int]) -> tuple[Tensor, ...]:
        """log pi over the nodes in the situations of each input [R, N], from d_j of all; `counts` of them each."""
        asked, _ = pad(self.object_query(step), counts)  # [n, most R, w]
        logits = asked @ objects.vectors.mT  # [n, most R, N]
        return unpad(logits.masked_fill(~objects.mask[:, None], -math.inf).log_softmax(dim=2), counts)
