"""The section "Jericho": our scores beside what 100 steps allow, the paper, and the best known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from cbr_paper.belong import Paper
from cbr_paper.section import beside_the_paper
from cbr_report.comparable import remarks
from cbr_report.facts import protocol_of
from cbr_report.measures import points
from cbr_report.runs import ENVIRONMENT, Group, Runs
from cbr_report.statistics import summarize
from cbr_report.tables import NOTHING, columns, mean_std, number, text_columns
from cbrcore import Section, Table

GAME = "environment.game"
TABLE = "jericho_33"
"""The paper's table of these games; its first columns are the maximum and the walkthrough's first 100 steps."""

BEST_PUBLISHED = {
    "905": 1, "acorncourt": 30, "adventureland": 27.3, "advent": 81, "afflicted": 27, "anchor": 2, "awaken": 2,
    "balances": 24, "deephome": 114.7, "detective": 346.7, "dragon": 8.3, "enchanter": 98.3, "gold": 10.8,
    "inhumane": 38, "jewel": 6.5, "karn": 10, "library": 28.3, "ludicorp": 78.8, "moonlit": 0, "omniquest": 17.2,
    "pentari": 70, "reverb": 15, "snacktime": 23.4, "sorcerer": 38.6, "spellbrkr": 70.2, "spirit": 5.2,
    "temple": 13, "tryst205": 14, "yomomma": 1, "zenon": 4.1, "zork1": 103.4, "zork3": 3.63, "ztuu": 87.2,
}  # fmt: skip
"""The best mean score that we found in print for each game: not of one agent, nor under one protocol. Among them
are XTX (some 800,000 steps), MC-DML (some 400,000, with save and restore), and agents that ask language models."""

LEAD = (
    "P1, the paper's protocol: one seed, the mean score of the last 100 training episodes. P2: each episode has a"
    " seed of its own, the mean score of an evaluation with seeds that were never trained on."
)


@dataclass(frozen=True)
class Known:
    """What is known of a game besides our runs."""

    maximum: float
    ceiling: float
    paper: float | None
    paper_best: float


def of_jericho(runs: Runs) -> Section | None:
    """The tables; None if no run plays one of the paper's games."""
    known = known_games(beside_the_paper.paper(runs))
    groups = [group for group in runs.groups if group.settings.get(GAME) in known]
    if not groups:
        return None
    parts = [games_table(groups, known), means_table(groups, known)]
    return Section("about-jericho", "Jericho, game by game", parts, lead=LEAD, order=16)


def known_games(paper: Paper) -> dict[str, Known]:
    """By game; nothing where the paper's numbers are not at hand."""
    found = {}
    for table in paper.tables:
        if table.id == TABLE:
            for row, cells in zip(table.rows, table.cells, strict=True):
                values = [None if cell.value is None else cell.value.mean for cell in cells]
                maximum, ceiling, *agents = values
                told = [value for value in agents if value is not None]
                if maximum is not None and ceiling is not None and told:
                    found[row[GAME]] = Known(maximum, ceiling, agents[-1], max(told))
    return found


def ways_to_play(groups: Sequence[Group]) -> dict[Group, str]:
    """ "max_steps 400": of each group the settings of its environment, but for the game and what its protocol is,
    that are not the same for all of them at a game; empty where all play alike."""
    aside = {GAME, f"{ENVIRONMENT}games_dir", f"{ENVIRONMENT}seed"}
    by_game: dict[Any, list[Group]] = {}
    for group in groups:
        by_game.setdefault(group.settings[GAME], []).append(group)
    paths = dict.fromkeys(path for group in groups for path in group.settings if path.startswith(ENVIRONMENT))
    apart = [
        path
        for path in paths
        if path not in aside
        and any(len({str(group.settings.get(path)) for group in same}) > 1 for same in by_game.values())
    ]
    return {
        group: ", ".join(f"{path.removeprefix(ENVIRONMENT)} {group.settings.get(path, '-')}" for path in apart)
        for group in groups
    }


def _named(group: Group, way: str) -> str:
    return f"{group.agent} ({way})" if way else group.agent


def games_table(groups: Sequence[Group], known: dict[str, Known]) -> Table:
    """A row for each agent at each game, and for each way to play it."""
    ways = ways_to_play(groups)
    rows = []
    for group in sorted(groups, key=lambda group: list(known).index(str(group.settings[GAME]))):
        game = str(group.settings[GAME])
        about, scores, own = known[game], points(group)[0].of(group), protocol_of(group.runs[0].results)
        name = _named(group, ways[group])
        shown = mean_std(summarize(scores), 1)
        share = number(fmean(scores) / about.ceiling, 2) if scores else NOTHING
        best = group.numbers("training", "best_score")
        rows.append(
            (
                game, name, shown if own == "P1" else NOTHING, shown if own == "P2" else NOTHING,
                number(max(best), 0) if best else NOTHING,
                random_score(group), number(about.ceiling, 0), share, number(about.maximum, 0),
                NOTHING if about.paper is None else number(about.paper, 1), number(about.paper_best, 1),
                number(BEST_PUBLISHED.get(game), 1),
            )
        )  # fmt: skip
    return Table(
        "jericho_games",
        "Score by game",
        (
            *text_columns("game", "agent"),
            *columns(["P1", "P2", "best episode", "uniform random", "ceiling", "share of it", "maximum"]),
            *columns(["the paper's BiKE + CBR", "best of the paper", "best published"], "paper"),
        ),
        tuple(rows),
        note="Mean ± standard deviation over runs. Ceiling: what the published walkthrough has after 100 commands."
        " Best of the paper: of all agents in its Table 3. Best published: of any agent that we know of, under any"
        " protocol and budget.",
        remarks=remarks(groups),
    )  # fmt: skip


def random_score(group: Group) -> str:
    """Of the uniform random policy, in as many steps."""
    found = group.numbers("evaluation", "train", "random", "score", "mean")
    return number(fmean(found), 1) if found else NOTHING


def means_table(groups: Sequence[Group], known: dict[str, Known]) -> Table:
    """For each agent, way to play and protocol the mean share of the maximum over its games, beside others at the
    same ones."""
    ways = ways_to_play(groups)
    alike: dict[tuple[str, str], list[Group]] = {}
    for group in groups:
        alike.setdefault((_named(group, ways[group]), protocol_of(group.runs[0].results)), []).append(group)
    rows: list[tuple[str, ...]] = []
    for (agent, protocol), same in alike.items():
        scores = {str(each.settings[GAME]): fmean(found) for each in same if (found := points(each)[0].of(each))}
        if scores:
            others: list[dict[str, Any]] = [
                {game: known[game].paper or 0.0 for game in scores},
                {game: known[game].paper_best for game in scores},
                {game: BEST_PUBLISHED.get(game) or 0.0 for game in scores},
                {game: known[game].ceiling for game in scores},
            ]
            shares = (f"{_share(each, known):.1%}" for each in (scores, *others))
            rows.append((agent, protocol, str(len(scores)), *shares))
    return Table(
        "jericho_means",
        "Mean share of the maximum score over the games that an agent played",
        (
            *text_columns("agent", "protocol"),
            *columns(["games", "ours"]),
            *columns(["the paper's BiKE + CBR", "best of the paper", "best published", "ceiling"], "paper"),
        ),
        tuple(rows),
        note="The other columns are means over the same games. Two of them take the best agent of each game: no"
        " agent has them all.",
        remarks=remarks(groups),
    )


def _share(scores: dict[str, float], known: dict[str, Known]) -> float:
    return fmean(score / known[game].maximum for game, score in scores.items())
