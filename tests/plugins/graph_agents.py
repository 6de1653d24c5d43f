"""What the agents with a graph have in common, as a suite; more than `AgentSuite` asks of any agent."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest
import torch

from cbrcore import Action, CbrError, StateGraph
from cbrcore.interfaces import AgentInput, Build, NeuralAgent
from cbrcore.testing import AgentSuite, WordHashEncoder, sample_observation

torch.set_num_threads(1)

ROOM = StateGraph.of(
    [
        ("player", "at", "bedroom"),
        ("wardrobe", "at", "bedroom"),
        ("bed", "at", "bedroom"),
        ("shirt", "in", "player"),
    ]
)
PLACES = ("wardrobe", "bed")
SHIRT = sample_observation(
    ROOM,
    feedback="You pick up the shirt.",
    description="A bedroom. A wardrobe and a bed are here.",
    inventory="You carry a shirt.",
    admissible=(Action("look", "look"), *(Action.from_template("put {} on {}", ["shirt", p]) for p in PLACES)),
)
LATER = replace(
    SHIRT,
    graph=StateGraph.of([*ROOM.triples, ("sock", "on", "bed")]),
    feedback="A sock!",
    scored=("put shirt on wardrobe",),
    score=1.0,
    last_action="put shirt on wardrobe",
)
NOWHERE = StateGraph(())


class GraphAgentSuite(AgentSuite):
    """`make` builds a small agent."""

    idle: Collection[str] = ()
    """Modules that have nothing to do, so that no gradient reaches them."""

    def steps(self, agent: NeuralAgent) -> list[AgentInput]:
        """Two steps in a row, and a first step without anything to see."""
        first = AgentInput(SHIRT, agent.initial_state())
        state = agent.policy([first])[0].state
        blank = sample_observation(NOWHERE, feedback="", description="", inventory="")
        return [first, AgentInput(LATER, state), AgentInput(blank, agent.initial_state())]

    def test_steps_of_different_sizes_do_not_influence_each_other(self, build: Build):
        agent = self.make(build).train(False)
        inputs = self.steps(agent)
        for together, item in zip(agent.policy(inputs), inputs, strict=True):
            alone = agent.policy([item])[0]
            torch.testing.assert_close(together.logits, alone.logits, atol=1e-5, rtol=0)
            torch.testing.assert_close(together.value, alone.value, atol=1e-5, rtol=0)

    @pytest.mark.parametrize(
        "graph", [NOWHERE, StateGraph(("bedroom",)), StateGraph(("bed", "shirt", "wardrobe"))]
    )
    def test_a_graph_without_edges_gives_finite_outputs_and_gradients(self, build: Build, graph: StateGraph):
        agent = self.make(build)
        (output,) = agent.policy([AgentInput(replace(SHIRT, graph=graph), agent.initial_state())])
        (output.logits.sum() + output.value).backward()
        assert torch.isfinite(output.logits).all()
        assert all(p.grad is None or torch.isfinite(p.grad).all() for p in agent.parameters())

    def test_every_parameter_receives_a_gradient(self, build: Build):
        agent = self.make(build)
        outputs = agent.policy(self.steps(agent))
        sum(output.logits.square().sum() + output.value.square() for output in outputs).backward()
        missed = [n for n, p in agent.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
        assert {name for name in missed if not name.startswith(tuple(self.idle))} == set()

    def test_the_cache_forgets_when_a_parameter_changes(self, build: Build):
        agent = self.make(build).train(False)
        inputs = self.steps(agent)
        with torch.no_grad():
            before = agent.policy(inputs)[1].logits.clone()
            agent.project.weight.mul_(3.0)
            after = agent.policy(inputs)[1].logits
        torch.testing.assert_close(after, agent.policy(inputs)[1].logits)
        assert not torch.allclose(before, after)

    def test_what_was_read_is_not_read_again_until_an_episode_starts(
        self, build: Build, monkeypatch: pytest.MonkeyPatch
    ):
        agent = self.make(build).train(False)
        inputs = self.steps(agent)
        asked: list[str] = []
        encode = WordHashEncoder.encode
        monkeypatch.setattr(
            WordHashEncoder, "encode", lambda self, texts: asked.extend(texts) or encode(self, texts)
        )
        with torch.no_grad():
            agent.policy(inputs)
            asked.clear()
            agent.policy(inputs)
            assert asked == []
            agent.initial_state()
            agent.policy(inputs)
        assert {"shirt", "sock", "put"} <= set(asked)

    def test_gradients_do_not_cross_steps(self, build: Build):
        agent = self.make(build)
        state = agent.policy([AgentInput(SHIRT, agent.initial_state())])[0].state
        assert not getattr(state, "hidden", state).requires_grad

    def test_what_was_seen_before_matters(self, build: Build):
        agent = self.make(build).train(False)
        later = self.steps(agent)[1]
        fresh = agent.policy([AgentInput(later.observation, agent.initial_state())])[0]
        assert not torch.allclose(fresh.logits, agent.policy([later])[0].logits)

    def test_the_order_of_commands_is_the_order_of_logits(self, build: Build):
        agent = self.make(build).train(False)
        turned = replace(SHIRT, admissible=SHIRT.admissible[::-1])
        forth, back = (agent.policy([AgentInput(seen, agent.initial_state())])[0] for seen in (SHIRT, turned))
        torch.testing.assert_close(forth.logits, back.logits.flip(0), atol=1e-5, rtol=0)

    def test_it_can_learn_what_to_do(self, build: Build):
        agent = self.make(build)
        inputs, right = self.steps(agent), [1, 0, 2]
        optimizer = torch.optim.Adam(agent.parameters(), lr=1e-2)
        for _ in range(40):
            losses = [
                -output.logits.log_softmax(0)[i] for output, i in zip(agent.policy(inputs), right, strict=True)
            ]
            optimizer.zero_grad()
            sum(losses).backward()
            optimizer.step()
        assert [int(output.logits.argmax()) for output in agent.policy(inputs)] == right

    def test_its_weights_are_on_the_device_that_was_asked_for(self, build: Build):
        agent = self.make(replace(build, device="meta"))
        assert {each.device.type for each in (*agent.parameters(), *agent.buffers())} == {"meta"}

    def test_a_missing_text_encoder_is_named(self, build: Build):
        with pytest.raises(CbrError, match="text_encoder"):
            self.make(replace(build, text_encoder=None))
