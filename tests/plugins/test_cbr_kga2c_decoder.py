"""KG-A2C's decoders: by hand, against a slow twin, the graph mask, and what pi is."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from graph_agents import LATER, NOWHERE, SHIRT, GraphAgentSuite
from torch import Tensor

import cbr_kga2c
from cbr_joint.agent import JointAgent
from cbr_joint.config import JointConfig
from cbr_kga2c.config import DecoderConfig, SupervisedConfig
from cbr_kga2c.decoder import Decoded, DecoderAgent
from cbr_kga2c.decoding import Decoders
from cbr_kga2c.sight import Command, objects_of, sight, spoken
from cbr_kga2c.supervised import Supervised
from cbr_nn.graphs import Nodes
from cbr_nn.padding import pad
from cbrcore import Action, CbrError, NoSettings, Observation, StateGraph
from cbrcore.config import Part
from cbrcore.interfaces import AgentInput, Build
from cbrcore.registry import Registrar
from cbrcore.testing import WordHashEncoder, sample_observation

torch.set_num_threads(1)

PUT, TAKE, LOOK = "put {} on {}", "take {}", "look"


def decoder(build: Build, **settings: Any) -> DecoderAgent:
    torch.manual_seed(0)
    return DecoderAgent(DecoderConfig(**{"hidden": 8, "unit": "sentence", **settings}), build)


class TestDecoder(GraphAgentSuite):
    def make(self, build: Build) -> DecoderAgent:
        return decoder(build)


class TestDecoderOfTheWholeText(GraphAgentSuite):
    def make(self, build: Build) -> DecoderAgent:
        return decoder(build, inputs="observation", score_bits=0)


@pytest.fixture
def build() -> Build:
    return Build(text_encoder=WordHashEncoder())


def decoded(agent: DecoderAgent, *seen: Observation) -> list[Decoded]:
    agent.train(False)
    return [
        output
        for output in agent.policy([AgentInput(each, agent.initial_state()) for each in seen])
        if isinstance(output, Decoded)
    ]


# -- what can be an object ---------------------------------------------------------------------------------------

GRAPH = StateGraph.of([("brass lantern", "in", "hall"), ("you", "in", "hall")])


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (Action(LOOK, LOOK, (), ("you", "hall")), []),
        (Action.from_template(TAKE, ["brass lantern"]), ["brass lantern"]),
        (Action.from_template(TAKE, ["lantern"], seeds=["brass lantern"]), ["brass lantern"]),
        (Action.from_template(TAKE, ["hall"], seeds=["brass lantern"]), ["hall"]),
        (Action.from_template(TAKE, ["rug"], seeds=["rug"]), ["rug"]),
        (Action.from_template(TAKE, ["rug"], seeds=[]), ["rug"]),
        (Action.from_template(PUT, ["lantern", "rug"], seeds=["brass lantern", "rug"]), ["brass lantern", "rug"]),
        (Action.from_template(PUT, ["lantern", "lamp"], seeds=["brass lantern"]), ["lantern", "lamp"]),
    ],
)
def test_an_object_is_the_node_that_its_word_means(action: Action, expected: list[str]):
    assert list(objects_of(action, GRAPH)) == expected


def test_what_is_in_sight_and_not_in_the_graph_is_a_node_without_edges():
    actions = (Action(LOOK, LOOK), Action.from_template(PUT, ["brass lantern", "rug"]))
    seen = sight(sample_observation(GRAPH, admissible=actions))
    assert seen.graph == StateGraph(("brass lantern", "hall", "rug", "you"), GRAPH.triples)
    assert seen.commands == (Command(LOOK, ()), Command(PUT, (0, 2)))
    assert seen.valid == [0, 2]
    without = sight(sample_observation(GRAPH, admissible=actions[:1]))
    assert (without.graph, without.valid) == (GRAPH, [])


def test_a_template_is_read_with_a_word_in_its_slots():
    assert [spoken(template) for template in (PUT, LOOK)] == ["put something on something", "look"]


# -- the formulas ------------------------------------------------------------------------------------------------


def halving() -> Decoders:
    """Decoders whose GRUs halve their state, whatever they hear, and whose queries are it: d_j = m / 2^(j+1)."""
    made = Decoders(2)
    for name, value in made.named_parameters():
        value.data.zero_()
        if name in ("template_query.weight", "object_query.weight"):
            value.data.copy_(torch.eye(2))
    return made


def test_a_score_by_hand():
    """m = (8 ln 2, 0): d_0 = (4 ln 2, 0), so "put on", which is (1, 5), has the score 4 ln 2. The objects are
    (1, 0), (0, 3) and (0, 7): pi is 4/6, 1/6, 1/6 at d_1 = (2 ln 2, 0), and 2/4, 1/4, 1/4 at d_2 = (ln 2, 0)."""
    memory = torch.tensor([[8 * math.log(2), 0.0]])
    objects = Nodes(torch.tensor([[[1.0, 0.0], [0.0, 3.0], [0.0, 7.0]]]), torch.ones(1, 3, dtype=torch.bool))
    commands = [Command(LOOK, ()), Command(PUT, (0, 1)), Command(PUT, (2, 0)), Command(TAKE, (0,))]
    templates = torch.tensor([[0.5, 0.0], [1.0, 5.0], [1.0, 5.0], [0.0, 1.0]])
    found = halving()(torch.zeros(1, 2), memory, templates, objects, [commands])
    expected = [
        2 * math.log(2),
        4 * math.log(2) + math.log(4 / 6) + math.log(1 / 4),
        4 * math.log(2) + math.log(1 / 6) + math.log(2 / 4),
        math.log(4 / 6),
    ]
    torch.testing.assert_close(found.scores, torch.tensor(expected))
    torch.testing.assert_close(found.query, torch.tensor([[4 * math.log(2), 0.0]]))
    (first,), (second,) = found.slots
    torch.testing.assert_close(first.exp(), torch.tensor([[4.0, 1.0, 1.0]] * 2) / 6)  # after "put" and "take"
    torch.testing.assert_close(second.exp(), torch.tensor([[2.0, 1.0, 1.0]] * 2) / 4)  # after either object


def test_commands_of_one_meaning_share_one_output():
    """As above: TAKE of (1, 0) has the score ln 4/6, and it is one output, whichever of two words says it; another
    input's command, and one with the objects the other way round, are others."""
    memory = torch.tensor([[8 * math.log(2), 0.0]] * 2)
    vectors = torch.tensor([[[1.0, 0.0], [0.0, 3.0], [0.0, 7.0]]] * 2)
    objects = Nodes(vectors, torch.ones(2, 3, dtype=torch.bool))
    take, put, back = Command(TAKE, (0,)), Command(PUT, (1, 2)), Command(PUT, (2, 1))
    commands = [[take, put, take, back], [take]]
    templates = torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    found = halving()(torch.zeros(2, 2), memory, templates, objects, commands).scores.exp()
    torch.testing.assert_close(found, torch.tensor([4 / 12, 1 / 24, 4 / 12, 1 / 24, 4 / 6]))


def slowly(made: Decoders, state: Tensor, memory: Tensor, template: Tensor, objects: Tensor, rows: Any) -> Tensor:
    """The score of one command of one input, word for word as it is defined: state, memory, template [w], objects
    [N, w]."""
    step = made.template_step(state[None], memory[None])
    score = (made.template_query(step)[0] * template).sum()
    before = made.start
    for row in rows:
        step = made.object_step(made.hear(torch.cat([template, before]))[None].relu(), step)
        score = score + (objects @ made.object_query(step)[0]).log_softmax(0)[row]
        before = objects[row]
    return score


COMMANDS = [
    [Command(PUT, (0, 1)), Command(LOOK, ()), Command(PUT, (0, 2)), Command(PUT, (2, 0)), Command(TAKE, (1,))],
    [Command(LOOK, ())],
    [Command(TAKE, (0,))],
    [Command(TAKE, (4,)), Command(PUT, (4, 3)), Command(PUT, (4, 3)), Command("give {} {} {}", (1, 3, 2))],
]
SIZES = [3, 0, 1, 5]


def test_all_at_once_is_one_by_one():
    """Also where inputs have different numbers of nodes, commands and slots, and none."""
    torch.manual_seed(3)
    made, width = Decoders(6), 6
    state, memory = torch.randn(4, width), torch.randn(4, width)
    nodes = [torch.randn(size, width) for size in SIZES]
    words = {command.template: torch.randn(width) for group in COMMANDS for command in group}
    templates = torch.stack([words[command.template] for group in COMMANDS for command in group])
    found = made(state, memory, templates, Nodes(*pad(torch.cat(nodes), SIZES)), COMMANDS)
    expected = [
        slowly(made, state[i], memory[i], words[command.template], nodes[i], command.objects)
        - math.log(group.count(command))
        for i, group in enumerate(COMMANDS)
        for command in group
    ]
    torch.testing.assert_close(found.scores, torch.stack(expected))
    assert [[len(rows) for rows in slot] for slot in found.slots] == [[2, 0, 1, 3], [2, 0, 0, 2], [0, 0, 0, 1]]
    gradients = torch.autograd.grad(found.scores.square().sum(), made.parameters(), retain_graph=True)
    alone = torch.autograd.grad(torch.stack(expected).square().sum(), made.parameters())
    for one, other in zip(gradients, alone, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


# -- the graph mask ----------------------------------------------------------------------------------------------


def test_what_the_mask_leaves_out_has_no_probability_and_gets_no_gradient():
    torch.manual_seed(0)
    made = Decoders(4)
    vectors = torch.randn(1, 3, 4, requires_grad=True)
    objects = Nodes(vectors, torch.tensor([[True, False, True]]))
    found = made(torch.randn(1, 4), torch.randn(1, 4), torch.randn(1, 4), objects, [[Command(TAKE, (2,))]])
    ((pi,),) = [[rows.exp() for rows in slot] for slot in found.slots]
    assert pi[0, 1] == 0
    assert float(pi[0].detach().sum()) == pytest.approx(1)
    found.scores.sum().backward()
    assert (vectors.grad[0].abs().sum(dim=1) > 0).tolist() == [True, False, True]


def test_objects_are_the_nodes_of_the_state_graph_and_no_others(build: Build):
    """Each input's own, also beside a larger graph; a node that is gone leaves its probability to the others."""
    agent = decoder(build)
    larger = replace(
        SHIRT, graph=StateGraph.of([*SHIRT.graph.triples, ("sock", "on", "bed"), ("cap", "on", "bed")])
    )
    small, large = decoded(agent, SHIRT, larger)
    for output, seen in ((small, SHIRT), (large, larger)):
        assert [slot.shape[1] for slot in output.slots] == [len(seen.graph.nodes)] * 2
        for slot in output.slots:
            torch.testing.assert_close(slot.exp().sum(dim=1), torch.ones(1))
    cap = larger.graph.index["cap"]
    assert float(large.slots[0][0, cap].exp()) > 0.01
    assert "cap" not in SHIRT.graph.index
    (alone,) = decoded(agent, SHIRT)
    torch.testing.assert_close(small.slots[1], alone.slots[1], atol=1e-5, rtol=0)


@pytest.mark.parametrize("left", [slice(0, 8), slice(8, 16)], ids=["name", "surroundings"])
def test_objects_are_told_apart_by_their_names_and_by_their_surroundings(build: Build, left: slice):
    """By either alone."""
    agent = decoder(build)
    with torch.no_grad():
        weight = agent.merge_object.weight  # [2h, name h + surroundings h]
        kept = weight[:, left].clone()
        weight.zero_()
        weight[:, left] = kept
    (output,) = decoded(agent, SHIRT)
    (pi,) = output.slots[0].exp().tolist()
    assert len({round(value, 5) for value in pi}) == len(SHIRT.graph.nodes)


# -- what pi is --------------------------------------------------------------------------------------------------

TEMPLATES = (LOOK, TAKE, PUT)
EVERYTHING = tuple(
    Action.from_template(template, names)
    for template in TEMPLATES
    for names in product(SHIRT.graph.nodes, repeat=template.count("{}"))
)
"""All that can be generated of three templates and the nodes of the graph."""


def test_pi_is_what_is_generated_given_that_it_is_admissible(build: Build):
    """The decoders' distribution over all that they can generate, where what is not admissible is refused."""
    agent = decoder(build)
    everything, some = decoded(agent, replace(SHIRT, admissible=EVERYTHING), SHIRT)
    scores = agent.template_scores(everything.query[None], TEMPLATES)  # [1, 3]
    generated = (everything.logits - scores.logsumexp(1)).exp()
    assert float(generated.sum()) == pytest.approx(1, abs=1e-5)
    kept = generated[[EVERYTHING.index(action) for action in SHIRT.admissible]]
    torch.testing.assert_close(some.logits.softmax(0), kept / kept.sum(), atol=1e-5, rtol=1e-4)


def test_a_second_word_for_an_object_makes_it_no_more_probable(build: Build):
    """ "take top" means the shirt: the two commands have together what one had, and the others what they had."""
    agent, taken = decoder(build), Action.from_template(TAKE, ["shirt"])
    synonym = replace(taken, text="take top", entities=("top",))
    plain = replace(SHIRT, admissible=(Action.from_template(LOOK, ()), taken))
    both = replace(SHIRT, admissible=(*plain.admissible, synonym))
    assert sight(both).commands[1] == sight(both).commands[2]
    one, two = (output.logits.softmax(0) for output in decoded(agent, plain, both))
    torch.testing.assert_close(two, torch.stack([one[0], one[1] / 2, one[1] / 2]), atol=1e-6, rtol=1e-5)


def test_a_template_is_judged_without_its_objects_and_an_object_after_its_template(build: Build):
    """p(template) is that of the template decoder alone, and p(object) depends on the template before it."""
    agent = decoder(build)
    (output,) = decoded(agent, replace(SHIRT, admissible=EVERYTHING))
    scores = agent.template_scores(output.query[None], TEMPLATES)[0]
    by_template = [
        torch.stack([output.logits[i] for i, a in enumerate(EVERYTHING) if a.template == each]).logsumexp(0)
        for each in TEMPLATES
    ]
    torch.testing.assert_close(torch.stack(by_template), scores, atol=1e-5, rtol=1e-4)
    after_take, after_put = output.slots[0]
    assert not torch.allclose(after_take, after_put)
    assert len(output.slots[1]) == len(SHIRT.graph.nodes)
    assert not torch.allclose(output.slots[1][0], output.slots[1][1])  # depends on the first object


def test_templates_and_objects_that_were_never_seen_have_a_score(build: Build):
    seen = replace(
        SHIRT, admissible=(Action.from_template("polish {} with {}", ["zebra", "yak"]), *SHIRT.admissible)
    )
    (output,) = decoded(decoder(build), seen)
    assert output.logits.shape == (4,)
    assert torch.isfinite(output.logits).all()
    assert output.logits[0] != output.logits[2]


@pytest.mark.parametrize("name", ["template_query.weight", "template_step.weight_ih", "object_query.weight",
                                  "object_step.weight_ih", "hear.weight", "start"])  # fmt: skip
def test_the_policys_gradient_reaches_both_decoders(build: Build, name: str):
    agent = decoder(build)
    agent.policy([AgentInput(SHIRT, agent.initial_state())])[0].logits.log_softmax(0)[1].backward()
    assert float(agent.decoders.get_parameter(name).grad.abs().sum()) > 0


def test_the_graph_and_the_score_reach_the_value(build: Build):
    agent = decoder(build)
    moved = replace(SHIRT, graph=StateGraph.of([*SHIRT.graph.triples, ("bed", "in", "wardrobe")]))
    (one, other, richer) = decoded(agent, SHIRT, moved, replace(SHIRT, score=3.0))
    assert len({round(float(output.value), 6) for output in (one, other, richer)}) == 3


def test_what_is_remembered_is_what_was_read(build: Build):
    """Text and score, not the graph, which remembers by itself."""
    agent = decoder(build)
    moved = replace(SHIRT, graph=NOWHERE)
    one, other, richer = decoded(agent, SHIRT, moved, replace(SHIRT, score=3.0))
    torch.testing.assert_close(one.state, other.state, atol=1e-6, rtol=0)
    assert not torch.allclose(one.state, richer.state)


def test_without_a_graph_and_without_objects_there_is_a_policy(build: Build):
    nothing = replace(LATER, graph=NOWHERE, admissible=(Action(LOOK, LOOK), Action("wait", "wait")))
    (output,) = decoded(decoder(build), nothing)
    assert output.slots == ()
    assert torch.isfinite(output.logits).all()


def test_it_cannot_be_told_of_candidates(build: Build):
    """Features of an action are no part of a template and its objects."""
    config = JointConfig(agent=Part(use="cbr_kga2c/decoder", settings=NoSettings()))
    with pytest.raises(CbrError, match="cbr_kga2c/scorer"):
        JointAgent(config, replace(build, make=lambda setting, build: decoder(build)))


def test_the_plugin_offers_agent_and_learner():
    agents, learners = Registrar("agent", "cbr_kga2c"), Registrar("learner", "cbr_kga2c")
    cbr_kga2c.register_agents(agents)
    cbr_kga2c.register_learners(learners)
    _, made = agents.components
    assert (made.name, made.load_factory(), made.load_config()) == ("decoder", DecoderAgent, DecoderConfig)
    assert made.brings == {"learner": "cbr_kga2c/supervised"}
    (learner,) = learners.components
    assert (learner.name, learner.load_factory(), learner.load_config()) == (
        "supervised",
        Supervised,
        SupervisedConfig,
    )
