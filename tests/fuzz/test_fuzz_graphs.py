"""Actions, graphs and observations that nobody would think of: in every encoder of contexts, every maker of graphs
and every agent that reads one."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from cbr_bike.agent import BikeAgent
from cbr_bike.config import BikeConfig
from cbr_commonsense.graphs import EMPTY, EvolvingGraph, ManualGraphs
from cbr_commonsense.linking import NO_CONCEPTS
from cbr_commonsense.linking import entities as named_by
from cbr_commonsense.nearest import NearestNames
from cbr_commonsense.triples import TripleBase
from cbr_entity.config import EntityConfig
from cbr_entity.encoder import EntityEncoder
from cbr_jericho.graphs import Map, RoomScene, TextScenes
from cbr_jericho.naming import PLAYER, node_name, number_duplicates, room_title, which_node
from cbr_kga2c.config import DecoderConfig, ScorerConfig
from cbr_kga2c.decoder import DecoderAgent
from cbr_kga2c.scorer import ScorerAgent
from cbr_mptr.config import MultiParagraphConfig
from cbr_mptr.encoder import MultiParagraphEncoder
from cbr_nn.graphs import GraphAttention
from cbr_seeded_gat.config import SeededGatConfig
from cbr_seeded_gat.encoder import SeededGat
from cbr_text.agent import TextAgent
from cbr_text.config import TextConfig
from cbr_text_encoders.config import UntrainedConfig
from cbr_text_encoders.untrained import UntrainedEncoder
from cbr_tpc.agent import TpcAgent
from cbr_tpc.config import TpcConfig
from cbr_twc.game import Exit, Game
from cbr_twc.graph import GraphView
from cbr_twc.rules import Rules
from cbr_twc.world import World, admissible, apply
from cbrcore import Build
from cbrcore.interfaces import AgentInput, ContextEncoder, NeuralAgent
from cbrcore.types import SLOT, Action, Observation, StateGraph, arity, fill

WORDS = UntrainedEncoder(UntrainedConfig(dim=12), Build())
BUILD = Build(text_encoder=WORDS, seed=1)

ODD = [
    "",
    " ",
    "{}",
    "{",
    "a {} b",
    "the_cup",
    "CUP",
    "cup\ncup",
    "\x00",
    "é",
    "杯",
    "👩\u200d🚀",
    "cup " * 60,
    "-'",
    "(it)",
]
TINY = st.sampled_from(["cup", "rack", "player", "kitchen", "red cup"])
NAMES = TINY | st.sampled_from(ODD) | st.text(max_size=12)
TRIPLES = st.lists(st.tuples(NAMES, NAMES, NAMES) | st.tuples(TINY, TINY, TINY), max_size=8)
LOOPS = TRIPLES.map(lambda triples: [*triples, *((head, relation, head) for head, relation, _ in triples[:2])])
FACTS = st.tuples(TRIPLES | LOOPS, st.lists(NAMES, max_size=3))
TUPLES = st.lists(NAMES, max_size=4).map(tuple)
PIECES = st.lists(st.sampled_from(["put ", " on ", "take", " ", "", "é", "{", "}", "-"]), min_size=1, max_size=4)
TEMPLATES = PIECES.map(lambda pieces: SLOT.join(pieces))


@st.composite
def actions(draw: st.DrawFn) -> Action:
    template = draw(TEMPLATES)
    names = draw(st.lists(NAMES, min_size=arity(template), max_size=arity(template)))
    return Action.from_template(template, names, seeds=draw(st.none() | TUPLES))


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    facts, nodes = draw(FACTS)
    feedback, description, inventory = draw(st.tuples(NAMES, NAMES, NAMES))
    offered = draw(st.lists(actions(), min_size=1, max_size=4, unique_by=lambda action: action.text))
    scored = tuple(draw(st.lists(NAMES, max_size=2)))
    graph = StateGraph.of(facts, nodes)
    return Observation(feedback, description, inventory, tuple(offered), graph, scored=scored, game=draw(NAMES))


# -- actions ---------------------------------------------------------------------------------------------------


@given(action=actions())
def test_an_action_is_its_template_filled(action):
    assert action.text == fill(action.template, action.entities)
    assert arity(action.template) == len(action.entities)
    assert Action.from_template(action.template, action.entities, seeds=action.seeds) == action
    assert hash(Action.from_template(action.template, action.entities, seeds=action.seeds)) == hash(action)


@given(template=TEMPLATES, names=st.lists(NAMES, max_size=6))
def test_names_are_put_in_as_they_are_whatever_braces_they_hold(template, names):
    if len(names) != arity(template):
        with pytest.raises(ValueError, match=f"takes {arity(template)} entities"):
            fill(template, names)
        return
    rest = fill(template, names)
    for name, piece in zip(["", *names], template.split(SLOT), strict=True):
        assert rest.startswith(name + piece)
        rest = rest.removeprefix(name + piece)
    assert rest == ""


# -- contexts --------------------------------------------------------------------------------------------------


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return make().train(False)


ENCODERS: dict[str, ContextEncoder] = {
    name: seeded(make)
    for name, make in {
        "seeded_gat": lambda: SeededGat(SeededGatConfig(heads=2, layers=2), BUILD),
        "seeded_gat of one layer": lambda: SeededGat(SeededGatConfig(heads=3, layers=1, dim=9), BUILD),
        "seeded_gat with relations": lambda: SeededGat(SeededGatConfig(heads=2, layers=3, relations=True), BUILD),
        "entity": lambda: EntityEncoder(EntityConfig(), BUILD),
        "entity, mean": lambda: EntityEncoder(EntityConfig(entities="mean", dim=5), BUILD),
        "mptr": lambda: MultiParagraphEncoder(MultiParagraphConfig(), BUILD),
        "mptr, recent": lambda: MultiParagraphEncoder(MultiParagraphConfig(prefer="recent", history=3), BUILD),
        "mptr without history": lambda: MultiParagraphEncoder(MultiParagraphConfig(history=0), BUILD),
    }.items()
}
STEPS = st.lists(st.tuples(observations(), st.lists(TUPLES, max_size=3)), max_size=3)


@pytest.mark.parametrize("name", ENCODERS)
@given(steps=STEPS, data=st.data())
def test_a_context_is_finite_and_depends_on_its_own_pair_alone(name, steps, data):
    encoder = ENCODERS[name]
    pairs = []
    for number, (seen, tuples) in enumerate(steps):
        situation = encoder.situation(seen, [earlier for earlier, _ in steps[:number]])
        pairs += [(situation, seeds) for seeds in (*tuples, *(action.seeds for action in seen.admissible))]
    contexts = encoder.contexts_of_pairs(pairs)
    assert contexts.shape == (len(pairs), encoder.dim)
    assert torch.isfinite(contexts).all()
    order = data.draw(st.permutations(range(len(pairs))))
    turned = encoder.contexts_of_pairs([pairs[row] for row in order])
    torch.testing.assert_close(turned, contexts[list(order)], atol=1e-5, rtol=1e-4)
    for row in order[:2]:
        alone = encoder.contexts_of_pairs([pairs[row]])
        torch.testing.assert_close(alone[0], contexts[row], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ENCODERS)
@given(seen=observations(), facts=FACTS, seeds=TUPLES, mixing=st.randoms())
def test_equal_facts_give_equal_contexts(name, seen, facts, seeds, mixing):
    encoder, (triples, nodes) = ENCODERS[name], facts
    mixed = [*triples, *triples]
    mixing.shuffle(mixed)
    first, second = StateGraph.of(triples, nodes), StateGraph.of(mixed, nodes[::-1])
    assert (first, hash(first)) == (second, hash(second))
    situations = [encoder.situation(_with(seen, graph), []) for graph in (first, second)]
    assert situations[0] == situations[1]
    contexts = [encoder.contexts_of_pairs([(situation, seeds)]) for situation in situations]
    assert torch.equal(*contexts)
    assert encoder.situation(_with(seen, first), [seen]) == encoder.situation(_with(seen, second), [seen])


@pytest.mark.parametrize("name", ENCODERS)
@given(seen=observations(), tuples=st.lists(TUPLES, min_size=1, max_size=3))
def test_gradients_are_finite(name, seen, tuples):
    encoder = ENCODERS[name]
    encoder.zero_grad()
    contexts = encoder.contexts_of_pairs([(encoder.situation(seen, []), seeds) for seeds in tuples])
    contexts.square().sum().backward()
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in encoder.parameters())


@given(action=actions(), entities=st.sampled_from(["first", "mean"]))
def test_what_an_encoder_sees_in_an_action_can_still_be_filled(action, entities):
    encoder = ENCODERS["entity" if entities == "first" else "entity, mean"]
    view = encoder.view(action)
    assert view.text == action.text
    assert fill(view.template, view.entities) == action.text


def _with(seen: Observation, graph: StateGraph) -> Observation:
    return Observation(seen.feedback, seen.description, seen.inventory, seen.admissible, graph, game=seen.game)


# -- agents that read graphs -----------------------------------------------------------------------------------

READER = seeded(lambda: GraphAttention(WORDS, nn.Linear(12, 6)))
AGENTS: dict[str, NeuralAgent] = {
    name: seeded(make)
    for name, make in {
        "text": lambda: TextAgent(TextConfig(hidden=4), BUILD),
        "tpc": lambda: TpcAgent(TpcConfig(hidden=4, commonsense={"source": "embedded"}), BUILD),
        "kga2c": lambda: ScorerAgent(ScorerConfig(hidden=4), BUILD),
        "kga2c, decoder": lambda: DecoderAgent(DecoderConfig(hidden=4), BUILD),
        "bike": lambda: BikeAgent(BikeConfig(hidden=4, commonsense={"source": "embedded"}), BUILD),
        "bike, nearest": lambda: BikeAgent(BikeConfig(hidden=4, commonsense={"source": "nearest"}), BUILD),
    }.items()
}


@given(facts=st.lists(FACTS, min_size=1, max_size=4))
def test_the_nodes_of_a_graph_are_finite_and_its_own(facts):
    graphs = [StateGraph.of(*each) for each in facts]
    read = READER(graphs)
    for nodes, graph in zip(read, graphs, strict=True):
        assert nodes.shape == (1 + len(graph.nodes), 6)
        assert torch.isfinite(nodes).all()
        torch.testing.assert_close(READER([graph])[0], nodes, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", AGENTS)
@given(steps=st.lists(observations(), min_size=1, max_size=3))
def test_an_agent_has_a_finite_number_for_each_action(name, steps):
    agent = AGENTS[name]
    with torch.no_grad():
        inputs = [AgentInput(seen, agent.initial_state()) for seen in steps]
        outputs = agent.policy(inputs)
        for output, item in zip(outputs, inputs, strict=True):
            assert output.logits.shape == (len(item.observation.admissible),)
            assert torch.isfinite(output.logits).all()
            assert torch.isfinite(output.value)
            alone = agent.policy([item])[0]
            torch.testing.assert_close(alone.logits, output.logits, atol=1e-4, rtol=1e-4)
        later = agent.policy([AgentInput(seen, outputs[0].state) for seen in steps])
        assert all(torch.isfinite(output.logits).all() for output in later)


# -- makers of graphs ------------------------------------------------------------------------------------------

CONCEPTS = st.sampled_from(["cup", "red_cup", "rack", "kitchen", "knife", "shelf", "a", "player"])
BASES = st.lists(st.tuples(CONCEPTS | NAMES, TINY, CONCEPTS | NAMES), max_size=10)
PLURALS = st.sampled_from(["cups", "red cups", "knives", "shelves", "Rack", "red-cup rack"])
SIGHTS = st.lists(st.tuples(FACTS, st.lists(PLURALS | NAMES, min_size=2, max_size=2)), min_size=1, max_size=4)


def sight(facts: tuple, names: list[str], game: str = "g") -> Observation:
    put = Action.from_template("put {} on {}", names)
    return Observation("", "", "", (Action("look", "look"), put), StateGraph.of(*facts), game=game)


def sources(base: list) -> dict[str, object]:
    return {
        "dc": EvolvingGraph(TripleBase(base), contextual=False, name="dc"),
        "cdc": EvolvingGraph(TripleBase(base), contextual=True, name="cdc"),
        "manual": ManualGraphs({"g": TripleBase(base)}, detail="brief"),
        "nearest": NearestNames(WORDS, threshold=0.4),
    }


@pytest.mark.parametrize("source", ["dc", "cdc", "manual", "nearest"])
@given(base=BASES, steps=SIGHTS, mixing=st.randoms())
def test_a_commonsense_graph_only_grows_and_depends_on_what_was_seen(source, base, steps, mixing):
    mixed = base[:]
    mixing.shuffle(mixed)
    one, other = sources(base)[source], sources(mixed)[source]
    graph = twin = EMPTY
    for facts, names in steps:
        seen = sight(facts, names)
        grown, twin = one.grow(graph, seen), other.grow(twin, seen)
        assert grown == twin
        assert set(graph.nodes) <= set(grown.nodes)
        assert set(graph.triples) <= set(grown.triples)
        assert grown == StateGraph.of(grown.triples, grown.nodes)
        assert one.grow(grown, seen) == grown
        if source in ("dc", "cdc"):
            assert set(grown.nodes) <= {name for head, _, tail in base for name in (head, tail)}
        if source == "nearest":
            assert named_by(seen) - NO_CONCEPTS <= set(grown.nodes)
        graph = grown


@given(
    scenes=st.lists(st.tuples(NAMES, TRIPLES, st.dictionaries(NAMES, NAMES, max_size=3), actions()), max_size=4),
    commands=st.lists(st.sampled_from(["north", "go n", "in", "look", ""]) | NAMES, min_size=4, max_size=4),
)
def test_a_graph_of_jericho_holds_the_scene_the_seeds_and_the_ways(scenes, commands):
    ways, again = Map(), Map()
    for (room, triples, nodes, action), command in zip(scenes, commands, strict=False):
        scene = RoomScene(room, tuple(triples), nodes)
        offered = Action(action.text, action.template, action.entities, scene.seeds(action.entities))
        exits = [Action(command, command)]
        ways.enter(room, command)
        again.enter(room, command)
        graph = ways.graph(scene, [offered], exits)
        assert graph == again.graph(scene, [offered, offered], exits)
        assert {*scene.place, *offered.seeds} <= set(graph.nodes)
        assert set(triples) <= set(graph.triples)
        assert graph == StateGraph.of(graph.triples, graph.nodes)


TEXTS = st.lists(NAMES | st.sampled_from([
    "Kitchen", "Kitchen (on the table)", "You see a red cup on the rack.", "  a brass lamp\n  a sword",
    "You are carrying:", "\n", "It is dark!", ". . .", "The cup is in the", "(self object)",
]), max_size=5).map("\n".join)  # fmt: skip


@pytest.fixture(scope="module")
def reader() -> TextScenes:
    pytest.importorskip("spacy")
    return TextScenes()


@given(look=TEXTS, inventory=TEXTS, feedback=TEXTS, aliases=st.dictionaries(NAMES, st.lists(NAMES, max_size=2)))
def test_any_text_gives_a_scene(reader, look, inventory, feedback, aliases):
    reply = {"look": look, "inventory": inventory, "feedback": feedback, "aliases": aliases}
    scene = reader.read(reply)
    assert scene == reader.read(reply)
    assert all(name for triple in scene.triples for name in triple)
    assert scene.room == room_title(look)
    graph = Map().graph(scene, [], [])
    assert PLAYER in graph.nodes
    assert scene.seeds([]) == scene.place


@given(
    text=NAMES,
    others=st.lists(NAMES, max_size=6),
    nodes=st.dictionaries(NAMES.filter(str.strip), NAMES, max_size=4),
)
def test_names_of_nodes_are_settled(text, others, nodes):
    name = node_name(text)
    assert node_name(name) == name
    numbered = number_duplicates(others)
    named = [each for each in numbered if each]
    assert len(named) == len(set(named)) == sum(bool(each) for each in others)
    assert which_node(text, others, nodes) in {text, *nodes.values()}


# -- graphs of TextWorld Commonsense ---------------------------------------------------------------------------

FRESH = st.lists(NAMES.filter(lambda name: name not in ("player", "exit")), min_size=9, max_size=9, unique=True)


def small_game(names: list[str], seed: int) -> Game:
    """Two rooms with a door between them, four holders and three things of these names, put anywhere."""
    rng = random.Random(seed)
    rooms, holders, things, door = names[:2], names[2:5], names[5:8], names[8]
    furniture = {rooms[0]: tuple(holders[:2]), rooms[1]: tuple(holders[2:])}
    exits = {rooms[0]: {"north": Exit(rooms[1], door)}, rooms[1]: {"south": Exit(rooms[0], door)}}
    place = {thing: rng.choice([*rooms, *holders, "player"]) for thing in things}
    contents = {holder: [t for t in things if place[t] == holder] for holder in [*rooms, *holders, "player"]}
    world = World(rng.choice(rooms), frozenset(rng.sample([door, holders[0]], rng.randrange(3))), contents, place)
    return Game(
        name="g", things=tuple(things), containers=frozenset(holders[::2]), doors=frozenset([door]),
        furniture=furniture, exits=exits, goals=(), traps=(), start=world, capacity=2,
        rules=Rules(slots=True, examine_held=True, examine_doors=True), printed={}, phrases={}, titles={},
        texts={}, looks={},
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["evolve", "full"])
@given(names=FRESH, seed=st.integers(0, 10**6), choices=st.lists(st.integers(0, 40), max_size=12))
def test_a_graph_of_twc_holds_what_every_action_names_and_never_forgets(mode, names, seed, choices):
    game = small_game(names, seed)
    world, view, other = game.start.copy(), GraphView(game, mode), GraphView(game, mode)
    view.restart()
    other.restart()
    known: set[str] = set()
    for choice in choices:
        graph = view.graph(world)
        offered = admissible(world, game)
        assert graph == other.graph(world.copy()) == StateGraph.of(graph.triples, graph.nodes)
        assert {name for action in offered for name in action.seeds} <= set(graph.nodes)
        assert known - {"exit", "open", "closed"} <= set(graph.nodes)  # what is unknown, and states
        known = set(graph.nodes)
        apply(world, offered[choice % len(offered)], game)
