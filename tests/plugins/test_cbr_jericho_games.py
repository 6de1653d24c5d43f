"""All 33 games of the paper: their walkthroughs, their valid actions, and the filling of the cache."""

from __future__ import annotations

import time
from contextlib import closing

import pytest
from jericho_play import check_contract, observations, open_game

from cbr_jericho.objects import Layout
from cbr_jericho.stories import PAPER_GAMES
from cbr_jericho.warm import warm, warm_cache
from cbrcore.errors import GameError
from cbrcore.types import Ending

START = {"detective": 10, "advent": 36, "deephome": 1, "ludicorp": 1}
"""Games that start with points."""

SHORT_OF_THE_MAXIMUM = {"anchor": 99, "balances": 50, "yomomma": 34}
"""Walkthroughs that miss a point; known to Jericho's authors."""

FLAGGED_AS_LOST = ("anchor", "deephome")
"""Jericho does not recognise the good end of these."""

SECONDS_PER_GAME = 120.0


@pytest.mark.parametrize("game", PAPER_GAMES)
def test_walkthroughs_reach_their_scores(games_dir, cache_dir, game):
    """With look, inventory and graph at each step: what is taken back leaves no trace."""
    with closing(open_game(games_dir, cache_dir, game)) as environment:
        walkthrough = environment.walkthrough(game)
        played = list(environment.replay(game, walkthrough))
        info = environment.game_info(game)
    seen, results = observations(played), played[1:]
    maximum = PAPER_GAMES[game].max_score
    assert info["max_score"] == maximum
    assert seen[0].score == info["initial_score"] == START.get(game, 0)
    assert seen[-1].score == SHORT_OF_THE_MAXIMUM.get(game, maximum)
    assert sum(result.reward for result in results) == seen[-1].score - seen[0].score
    assert len(results) == len(walkthrough) == info["walkthrough_steps"]
    assert results[-1].ending is (Ending.LOST if game in FLAGGED_AS_LOST else Ending.WON)
    for observation in seen[:: max(1, len(seen) // 20)]:
        check_contract(observation)


@pytest.mark.parametrize("game", ["zork1", "enchanter", "detective", "anchor", "afflicted", "advent"])
def test_the_object_table_is_read_as_jericho_reads_it(games_dir, cache_dir, game):
    """Jericho knows of fewer objects than there are in some games, never of others."""
    from cbr_jericho.engine import Engine
    from cbr_jericho.stories import find_story

    engine = Engine(find_story(game, games_dir / "jericho").path, None)
    for command in engine.get_walkthrough()[:20]:
        engine.step(command)
        tree = engine.tree(engine.get_state())
        for known in engine.get_world_objects():
            if known.num > 0:
                ours = (tree.parent(known.num), tree.sibling(known.num), tree.child(known.num))
                assert ours == (known.parent, known.sibling, known.child)
    assert isinstance(engine.layout, Layout)
    assert engine.layout.count >= len(engine.get_world_objects()) - 1


@pytest.mark.long
@pytest.mark.parametrize("game", PAPER_GAMES)
def test_every_game_offers_valid_actions(games_dir, cache_dir, game):
    """Reset and five steps; some searches take half a minute."""
    deadline = time.monotonic() + SECONDS_PER_GAME
    with closing(open_game(games_dir, cache_dir, game, valid_timeout_s=SECONDS_PER_GAME)) as environment:
        observation = environment.reset(game, 0)
        for _ in range(5):
            check_contract(observation)
            if time.monotonic() > deadline:
                break
            result = environment.step(observation.admissible[len(observation.admissible) // 2])
            observation = result.observation
            if result.ending is not None:
                break
        assert not environment.counts.get("look_around")
        assert not environment.counts.get("searches_given_up")


def test_the_cache_is_filled_along_a_walkthrough(games_dir, tmp_path):
    told = []
    with closing(open_game(games_dir, tmp_path, "detective")) as environment:
        report = warm(environment, "detective", steps=3, progress=lambda *figures: told.append(figures))
        assert (report.states, report.searched) == (4, 4)
        assert (report.rewarded, report.covered) == (1, 1)  # "take paper"
        assert told == [(n, 4) for n in range(1, 5)]
        again = warm(environment, "detective", steps=3)
        assert (again.states, again.searched) == (4, 0)


def test_a_games_cache_is_filled_by_its_name(games_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("CBR_GAMES", str(games_dir))
    assert warm_cache("zork1", tmp_path, steps=2).searched == 3
    with closing(open_game(games_dir, tmp_path)) as environment:
        environment.reset("zork1", 0)
        assert environment.figures()["counts"] == {"observations": 1, "cached": 1, "remembered": 0, "searched": 0}


def test_a_game_without_walkthrough_cannot_be_warmed(cache_dir, games_dir):
    environment = open_game(games_dir, cache_dir, "generated")
    with closing(environment), pytest.raises(GameError, match="no walkthrough"):
        warm(environment, environment.games("train")[0])
