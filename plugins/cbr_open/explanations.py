"""Why an action was taken, as data made from a recorded `Decision`, and as lines of text.

Nothing here asks the agent or the memory again: what is explained is what was decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cbrcore import Action, Candidate, Case, Decision, Match, Observation, StepResult

SHOWN = 5
"""Candidates that the text tells about; the data has all."""

VERDICTS = {
    "admissible": "admissible here",
    "inadmissible": "not admissible here",
    "failed": "admissible, but it failed before",
    "solved": "admissible, but its goal was reached before",
    "pending": "a goal that is out of reach now",
}
"""What revise found, in words."""


@dataclass(frozen=True)
class Origin:
    """The game play that a case was retained from: game, episode of the training, step, the step's reward."""

    game: str
    seed: int
    episode: int
    step: int
    reward: float


@dataclass(frozen=True)
class Retrieved:
    """A retrieved case, and what reuse and revise made of it.

    Attributes:
        case: its number in the memory; `cbr cases show RUN CASE` tells more.
        command, template: what the case did.
        origin: where it comes from.
        rewarded, reused, reuse_rewarded: its counts.
        context: the entities for which it was retrieved.
        relevance: delta, its similarity; above tau.
        against: relevance of the most similar case that failed with this template (0 if none are kept).
        reused_as: the case's template on the entities here.
        verdict: one of `VERDICTS`.
        chosen: whether this is what was done.
    """

    case: int
    command: str
    template: str
    origin: Origin
    rewarded: int
    reused: int
    reuse_rewarded: int
    context: tuple[str, ...]
    relevance: float
    against: float
    reused_as: str
    verdict: str
    chosen: bool


@dataclass(frozen=True)
class Nearest:
    """The most similar case of the whole memory, whether or not it was retrieved.

    Attributes:
        context: the entities to which it is most similar.
        relevance: its similarity, perhaps below tau.
    """

    case: int
    command: str
    template: str
    context: tuple[str, ...]
    relevance: float


@dataclass(frozen=True)
class Explanation:
    """Why an action was taken.

    Attributes:
        action: the command that was decided on.
        source: "reuse" if it came from the case memory, "agent" if the neural agent was asked, "person" if a
            person chose something else.
        reason: the decision in a sentence.
        probability: pi of `action`.
        agent_action: what the agent alone would have done.
        agent_probability: pi of `agent_action`; None where the record does not tell.
        value: V of the state.
        tau: the retriever's threshold; None without a case memory.
        retrieved: the cases above tau whose template fits, most relevant first.
        nearest: the most similar case; None without cases, or where nobody looked.
    """

    action: str
    source: str
    reason: str
    probability: float
    agent_action: str | None
    agent_probability: float | None
    value: float
    tau: float | None
    retrieved: tuple[Retrieved, ...]
    nearest: Nearest | None


def explain(
    decision: Decision,
    *,
    tau: float | None = None,
    nearest: tuple[tuple[str, ...], Match] | None = None,
    probabilities: Mapping[Action, float] | None = None,
) -> Explanation:
    """The explanation of a decision.

    Args:
        tau: the retriever's threshold; None for an agent without a case memory.
        nearest: (context, match) of the most similar case, if somebody looked.
        probabilities: pi over the admissible actions, if known: the record has that of the executed one only.
    """
    closest = _nearest(*nearest) if nearest else None
    return Explanation(
        action=decision.action.text,
        source=decision.source,
        reason=_reason(decision, tau, closest),
        probability=decision.agent_probability,
        agent_action=decision.agent_action.text if decision.agent_action else None,
        agent_probability=_agent_probability(decision, probabilities or {}),
        value=decision.value,
        tau=tau,
        retrieved=tuple(_retrieved(candidate, decision) for candidate in decision.candidates),
        nearest=closest,
    )


def _agent_probability(decision: Decision, probabilities: Mapping[Action, float]) -> float | None:
    if decision.agent_action == decision.action:
        return decision.agent_probability
    return probabilities.get(decision.agent_action) if decision.agent_action else None


def _retrieved(candidate: Candidate, decision: Decision) -> Retrieved:
    case, match = candidate.match.case, candidate.match
    return Retrieved(
        case=case.id,
        command=case.text,
        template=case.template,
        origin=origin_of(case),
        rewarded=case.rewarded,
        reused=case.reused,
        reuse_rewarded=case.reuse_rewarded,
        context=candidate.seeds,
        relevance=match.relevance,
        against=match.against,
        reused_as=candidate.action.text,
        verdict=candidate.verdict,
        chosen=candidate is decision.chosen,
    )


def origin_of(case: Case) -> Origin:
    """Where a case comes from."""
    p = case.provenance
    return Origin(p.game, p.seed, p.episode, p.step, p.reward)


def _nearest(context: tuple[str, ...], match: Match) -> Nearest:
    return Nearest(match.case.id, match.case.text, match.case.template, context, match.relevance)


def _reason(decision: Decision, tau: float | None, nearest: Nearest | None) -> str:
    """The decision in a sentence: reuse, or why the agent was asked."""
    chosen = decision.chosen
    if decision.source == "person":
        return "a person chose it"
    if decision.source == "reuse" and chosen is not None and not chosen.seeds and chosen.why:
        return chosen.why
    if decision.source == "reuse" and chosen is not None and chosen.verdict == "pending":
        return (
            f"{chosen.why}, because case #{chosen.match.case.id}, {chosen.match.case.text!r}, says that"
            f" {chosen.action.text!r} may be right ({chosen.match.relevance:.2f})"
        )
    if decision.source == "reuse" and chosen is not None and chosen.value is not None:
        return (
            f"case #{chosen.match.case.id} and what else is known make it the goal of the greatest value"
            f" ({chosen.match.relevance:.2f})"
        )
    if decision.source == "reuse" and chosen is not None:
        return (
            f"case #{chosen.match.case.id} is the most relevant one ({chosen.match.relevance:.2f} > tau) whose"
            " template gives an admissible action"
        )
    if chosen is not None:
        return f"the agent weighs what the memory offers, and takes what case #{chosen.match.case.id} offers"
    if tau is None:
        return "the agent has no case memory"
    return f"the agent is asked: {_why_no_reuse(decision, tau, nearest)}"


def _why_no_reuse(decision: Decision, tau: float, nearest: Nearest | None) -> str:
    if decision.candidates:
        verdicts = [candidate.verdict for candidate in decision.candidates]
        if "admissible" in verdicts:
            return "it weighs what the memory offers, and takes an action of its own"
        kinds = [VERDICTS[verdict] for verdict in dict.fromkeys(verdicts)]
        return f"of {len(verdicts)} retrieved, none can be reused ({'; '.join(kinds)})"
    if nearest is None:
        return "nothing was retrieved"
    if nearest.relevance > tau:
        return "what was retrieved takes another number of entities"
    return f"no case is similar enough (the nearest is #{nearest.case}: {nearest.relevance:.2f}, tau {tau:.2f})"


# -- as text ---------------------------------------------------------------------------------------------------

Lines = list[tuple[str, str]]
"""(kind, text): the kind is what a terminal may colour by."""


def decision_lines(explained: Explanation) -> Lines:
    """What was retrieved, reused and revised, what the agent alone would have done, and what is done."""
    lines: Lines = [line for found in explained.retrieved[:SHOWN] for line in _retrieved_lines(found, explained)]
    if len(explained.retrieved) > SHOWN:
        lines.append(("quiet", f"  ... and {len(explained.retrieved) - SHOWN} more"))
    if not explained.retrieved and explained.nearest and explained.tau is not None:
        lines.append(("quiet", f"  nearest    {_nearest_text(explained.nearest, explained.tau)}"))
    lines.append(("quiet", f"  agent      {_agent_text(explained)}; value {explained.value:.2f}"))
    lines.append(("plain", f"  because    {explained.reason}"))
    how = f"{explained.source}; the agent's probability of it: {explained.probability:.2f}"
    return [*lines, (explained.source, f"  > {explained.action}   ({how})")]


def _retrieved_lines(found: Retrieved, explained: Explanation) -> Lines:
    tau = "" if explained.tau is None else f" > tau {explained.tau:.2f}"
    against = f", against it {found.against:.2f}" if found.against else ""
    relevance = f"relevance {found.relevance:.2f}{tau}{against}"
    mark = " <-" if found.chosen else ""
    return [
        ("quiet", f"  retrieved  case #{found.case} {found.command!r}: {relevance}"),
        ("quiet", f"             from {origin_text(found.origin)}"),
        (
            "chosen" if found.chosen else "quiet",
            f"    reused   {found.reused_as!r}: {VERDICTS.get(found.verdict, found.verdict)}{mark}",
        ),
    ]  # fmt: skip


def origin_text(origin: Origin) -> str:
    """Where a case comes from, in words."""
    return f"{origin.game}, episode {origin.episode}, step {origin.step}, reward {origin.reward:g}"


def _nearest_text(nearest: Nearest, tau: float) -> str:
    relation = ">" if nearest.relevance > tau else "<="
    about = ", ".join(nearest.context)
    return (
        f"case #{nearest.case} {nearest.command!r}: relevance {nearest.relevance:.2f} {relation} tau {tau:.2f}"
        f" (for {about})"
    )


def _agent_text(explained: Explanation) -> str:
    if explained.agent_action is None:
        return "was not asked"
    known = explained.agent_probability
    return f"alone: {explained.agent_action!r}" + ("" if known is None else f" (probability {known:.2f})")


def score_text(seen: Observation, *, scored: bool) -> str:
    """The score; not of a game that cannot tell it."""
    if not scored:
        return "score not available"
    return f"score {seen.score:g}" + ("" if seen.max_score is None else f" of {seen.max_score:g}")


def result_line(result: StepResult, *, scored: bool) -> tuple[str, str]:
    """What came of an action."""
    ending = f"; the game is over: {result.ending}" if result.ending else ""
    kind = "good" if result.reward > 0 else "bad" if result.reward < 0 else "quiet"
    return kind, f"  reward {result.reward:g}, {score_text(result.observation, scored=scored)}{ending}"
