"""KG-A2C after Ammanabrolu and Hausknecht (2020): a template decoder and an object decoder with the graph mask.

texts -> m_t; state graph -> graph attention -> nodes; s_t = ReLU(Linear([m_t ; what the nodes say])); from s_t the
decoders give pi(a|s_t) of every admissible command.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cbr_kga2c.config import DecoderConfig
from cbr_kga2c.decoding import Decoders
from cbr_kga2c.reading import reader_of
from cbr_kga2c.sight import Sight, sight, spoken
from cbr_nn.attention import masked_softmax
from cbr_nn.graphs import GraphAttention, Nodes
from cbr_nn.memo import Memo
from cbr_nn.padding import pad
from cbr_nn.texts import TextGru, required_encoder
from cbrcore import Build
from cbrcore.interfaces import AgentInput, PolicyOutput


@dataclass(frozen=True, kw_only=True)
class Decoded(PolicyOutput):
    """A policy, and what the decoders said beside it. A logit is the template's score + log pi of its objects
    - log of how many admissible commands say the same.

    Attributes:
        query: [w], of the template decoder; see `DecoderAgent.template_scores`.
        slots: for each slot log pi over the objects [R, N], in the R situations in which one is decoded.
        valid: the rows of the objects that admissible commands have.
    """

    query: Tensor
    slots: tuple[Tensor, ...]
    valid: Sequence[int]


class DecoderAgent(nn.Module):
    """pi(a|s) and V(s) of decoders, for the admissible commands.

    What decoders generate beyond these would be refused: pi is what they generate, given that it is admissible.
    The templates that are not admissible cancel out of it.

    Shapes: h = hidden, n = inputs in a batch, A = admissible commands of one input, N = nodes of its graph. The
    recurrent state m_t is a constant tensor [2h].
    """

    def __init__(self, config: DecoderConfig, build: Build) -> None:
        super().__init__()
        encoder, width = required_encoder(build, "KG-A2C"), 2 * config.hidden
        self.config = config
        self.device = torch.device(build.device)
        self._encoder = encoder
        self.project = nn.Linear(encoder.dim, config.hidden, bias=False)
        self.observe = reader_of(config, encoder, self.project)
        self.remember = nn.GRUCell(width, width)
        self.read_graph = GraphAttention(encoder, self.project)
        self.ask_graph = nn.Linear(width, config.hidden, bias=False)
        self.merge = nn.Linear(width + config.hidden, width)
        self.critic = nn.Linear(width, 1)
        self.read_template = TextGru(encoder, self.project, config.max_words)
        self.merge_object = nn.Linear(width, width)
        self.decoders = Decoders(width)
        self.to(self.device)
        self._memo = Memo(self.parameters())

    def __repr__(self) -> str:
        return f"DecoderAgent(hidden={self.config.hidden}, inputs={self.config.inputs!r})"

    def initial_state(self) -> Tensor:
        """[2h] zeros; what was encoded in the last episode is forgotten."""
        self._memo.clear()
        return torch.zeros(2 * self.config.hidden, device=self.device)

    def policy(self, inputs: Sequence[AgentInput]) -> list[PolicyOutput]:
        """Logits [A], value [] and next state [2h] for each input; each a `Decoded`."""
        observations = [item.observation for item in inputs]
        seen = [sight(observation) for observation in observations]
        memory = self.remember(
            self.observe(self._memo, observations), torch.stack([item.state for item in inputs])
        )
        nodes = self._memo.each(self.read_graph, [each.graph for each in seen])  # each [1 + N, h]
        state = self._state(memory, nodes)  # [n, 2h]
        templates = [command.template for each in seen for command in each.commands]
        decoding = self.decoders(
            state, memory, self._read(templates), self._objects(seen, nodes), [each.commands for each in seen]
        )
        logits = torch.split(decoding.scores, [len(each.commands) for each in seen])
        values = self.critic(state).squeeze(-1)  # [n]
        return [
            Decoded(
                logits=logits[number],
                value=values[number],
                state=memory[number].detach(),
                query=decoding.query[number],
                slots=tuple(slot[number][:, : len(each.graph.nodes)] for slot in decoding.slots),
                valid=each.valid,
            )
            for number, each in enumerate(seen)
        ]

    def template_scores(self, queries: Tensor, templates: Sequence[str]) -> Tensor:
        """[n, T]: of each of the templates in each of the states with these queries [n, 2h]."""
        return queries @ self._read(templates).T

    def _read(self, templates: Sequence[str]) -> Tensor:
        """[T, 2h]"""
        return self._memo.rows(self.read_template, [spoken(template) for template in templates])

    def _state(self, memory: Tensor, nodes: Sequence[Tensor]) -> Tensor:
        """s = ReLU(Linear([m ; g])), g the nodes' mean by attention to m: [n, 2h]."""
        vectors, real = pad(torch.cat(list(nodes)), [len(each) for each in nodes])  # [n, 1 + N, h]
        asked = (vectors @ self.ask_graph(memory)[:, :, None]).squeeze(2)  # [n, 1 + N]
        graph = (masked_softmax(asked, real, dim=1)[:, None] @ vectors).squeeze(1)  # g [n, h]
        state: Tensor = torch.relu(self.merge(torch.cat([memory, graph], dim=1)))
        return state

    def _objects(self, seen: Sequence[Sight], nodes: Sequence[Tensor]) -> Nodes:
        """What can be an object: [name of a node ; what graph attention says of it] -> Linear; padded."""
        names = [name for each in seen for name in each.graph.nodes]
        around = torch.cat([each[1:] for each in nodes])  # [sum N, h], without the sentinels
        called = self._memo.rows(self._names, names) if names else around
        vectors = self.merge_object(torch.cat([called, around], dim=1))  # [sum N, 2h]
        return Nodes(*pad(vectors, [len(each.graph.nodes) for each in seen]))

    def _names(self, names: Sequence[str]) -> Tensor:
        """[N, h]"""
        named: Tensor = self.project(self._encoder.encode([name.replace("_", " ") for name in names]))
        return named
