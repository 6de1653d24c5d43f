"""The pictures of the paper's parts. `python docs/site/pictures.py` writes them to docs/images."""

from __future__ import annotations

from pathlib import Path

from drawing import Drawing

IMAGES = Path(__file__).parents[1] / "images"


def cycle() -> Drawing:
    """Algorithm 1: one step."""
    d = Drawing(516)
    d.box(20, 10, 190, 46, "state s: text and graph", "~and admissible actions").arrow((115, 56), (115, 84))
    d.box(20, 84, 190, 60, "*1  retrieve", "~for each action the most", "~similar case above tau", tone="a")
    d.box(280, 84, 140, 60, "memory", "~cases (key, action)", tone="c").arrow((280, 114), (210, 114))
    d.arrow((115, 144), (115, 172))
    d.box(20, 172, 190, 60, "*2  reuse", "~the case's template with", "~the current entities", tone="a")
    d.arrow((115, 232), (115, 260))
    d.box(20, 260, 190, 60, "*3  revise", "~only what is admissible;", "~the most relevant one", tone="a")
    d.box(280, 260, 140, 60, "neural agent", "~draws an action", tone="b")
    d.arrow((210, 290), (280, 290)).words(245, 282, "~none fits")
    d.arrow((115, 320), (115, 366)).words(123, 348, "~reuse", "start")
    d.arrow((350, 320), (350, 386), (210, 386)).words(342, 348, "~agent", "end")
    d.box(20, 366, 190, 40, "the game: reward r").arrow((115, 406), (115, 440)).words(123, 428, "~r > 0", "start")
    d.box(20, 440, 190, 60, "*4  retain", "~what was done becomes", "~a case", tone="a")
    return d.arrow((210, 470), (432, 470), (432, 114), (420, 114))


def seeded_graph_attention() -> Drawing:
    """Seeds, and how far what starts there comes."""
    d = Drawing(356)
    d.words(20, 24, "action: put apple in fridge", "start").words(20, 42, "~seeds: apple, fridge", "start")
    spots = {
        "player": (70, 180),
        "apple": (170, 120),
        "kitchen": (230, 220),
        "fridge": (330, 130),
        "stove": (370, 240),
    }
    spots["hall"] = (130, 270)
    ties = ("player apple", "player kitchen", "fridge kitchen", "stove kitchen", "hall kitchen")
    for one, other in (tie.split() for tie in ties):
        d.line(spots[one], spots[other])
    tones = {"apple": "a", "fridge": "a", "player": "b", "kitchen": "b"}
    for name, (x, y) in spots.items():
        d.circle(x, y, 32, name, tones.get(name, "plain"))
    d.circle(30, 322, 8, tone="a").words(44, 327, "~beta = 1/2 at first", "start")
    d.circle(178, 322, 8, tone="b").words(192, 327, "~reached by layer 2", "start")
    return d.circle(326, 322, 8).words(340, 327, "~not yet", "start")


def quantization() -> Drawing:
    """A context is cut into parts; each becomes the number of its nearest entry."""
    d = Drawing(356)
    d.words(20, 26, "context c of width d, cut into D parts", "start")
    for part in range(5):
        x = 20 + part * 80
        d.box(x, 38, 74, 34, ("c¹", "c²", "c³", "…", "cᴰ")[part], tone="a").arrow((x + 37, 72), (x + 37, 104))
        for entry in range(4):
            near = entry == (2, 0, 3, 1, 1)[part]
            d.box(x + 12, 106 + entry * 20, 50, 18, f"~{entry}", tone="b" if near else "plain")
        d.arrow((x + 37, 188), (x + 37, 214))
    d.words(20, 234, "key of the context: the numbers of the nearest entries", "start")
    rows = (("~key", (2, 0, 3, 1, 1), 246), ("~case", (2, 0, 1, 1, 1), 286))
    for word, codes, y in rows:
        for part, code in enumerate(codes):
            equal = code == rows[0][1][part] == rows[1][1][part]
            d.box(20 + part * 66, y, 60, 30, str(code), tone="c" if equal else "none")
        d.words(362, y + 20, word, "start")
    return d.words(20, 342, "similarity: share of equal codes, 4/5 = 0.80", "start")


def memory() -> Drawing:
    """From contexts to matches."""
    d = Drawing(356)
    d.words(20, 24, "admissible actions", "start").words(250, 24, "distinct entity tuples", "start")
    actions = ("take apple", "examine apple", "put apple in fridge", "open fridge")
    tuples = {"(apple)": 58, "(apple, fridge)": 106, "(fridge)": 154}
    for row, (action, goal) in enumerate(zip(actions, (58, 58, 106, 154), strict=True)):
        y = 36 + row * 38
        d.box(20, y, 160, 28, action).arrow((180, y + 14), (250, goal + 14))
    for name, y in tuples.items():
        d.box(250, y, 160, 28, name, tone="a")
    d.arrow((330, 182), (330, 216)).words(322, 204, "~encode, quantize", "end")
    d.words(20, 208, "~cases", "start")
    for row, (case, share) in enumerate((("insert {} into {}", "0.91"), ("take {}", "0.66"), ("open {}", "0.44"))):
        y = 218 + row * 36
        d.box(20, y, 150, 28, case, tone="c").box(250, y, 160, 28, share, tone="b" if row == 0 else "none")
        d.line((170, y + 14), (250, y + 14), dashed=True)
    return d.words(20, 346, "retrieved: similarity above tau = 0.70, strictly", "start")


def reuse_and_revise() -> Drawing:
    """A template is filled, and what is not admissible is dropped."""
    d = Drawing(344)
    d.box(20, 14, 260, 48, "case: insert compass into trunk", "~relevance 1.00", tone="c")
    d.arrow((150, 62), (150, 92)).words(158, 82, "~its template", "start")
    d.box(20, 92, 260, 32, "insert {} into {}", tone="a").box(310, 92, 112, 32, "(razor, cabinet)", tone="a")
    d.arrow((150, 124), (150, 154)).line((366, 124), (366, 139), (150, 139))
    d.box(20, 154, 260, 32, "insert razor into cabinet").words(292, 175, "~admissible, 1.00", "start")
    d.words(28, 204, "~from other cases, for other entities:", "start")
    d.box(20, 212, 260, 32, "insert razor into bin").words(292, 233, "~admissible, 0.88", "start")
    d.box(20, 250, 260, 32, "put razor on basket", tone="none").words(292, 271, "~not admissible, 0.91", "start")
    d.arrow((20, 170), (6, 170), (6, 314), (20, 314))
    return d.box(20, 296, 400, 36, "executed: the most relevant one that is admissible", tone="b")


def retain() -> Drawing:
    """Which steps of an episode are stored when a reward comes."""
    d = Drawing(282)
    steps = ("look", "take lamp", "drop lamp", "take sword", "put sword in case")
    for row, step in enumerate(steps):
        d.box(20, 34 + row * 42, 170, 32, step, tone="b" if row == 4 else "plain")
        if row:
            d.arrow((105, 24 + row * 42), (105, 34 + row * 42))
    d.words(20, 22, "episode's buffer", "start").words(105, 262, "~reward +5")
    columns = (("last_k, k = 3", 208, (2, 3, 4)), ("needed", 290, (3, 4)), ("rewarded_only", 366, (4,)))
    for name, x, kept in columns:
        d.words(x + 20, 22, f"~{name}")
        for row in range(5):
            d.circle(x + 20, 50 + row * 42, 10, tone="c" if row in kept else "none")
    return d.circle(228, 257, 8, tone="c").words(244, 262, "~becomes a case", "start")


def learning() -> Drawing:
    """Which loss learns from which step."""
    d = Drawing(340)
    d.words(20, 22, "one window of training.update_every steps", "start")
    for step, who in enumerate(("agent", "reuse", "agent", "agent", "reuse")):
        d.box(20 + step * 82, 34, 74, 34, who, tone="b" if who == "agent" else "a")
    for step, goal in ((0, 100), (2, 120), (3, 140)):
        d.arrow((57 + step * 82, 68), (goal, 128))
    for step, goal in ((1, 300), (4, 345)):
        d.arrow((57 + step * 82, 68), (goal, 128))
    d.box(20, 130, 190, 78, "*A2C", "~policy, value, entropy", "~returns over all steps", tone="b")
    d.box(230, 130, 190, 78, "*L_r, contrastive", "~rewarded: pull together", "~not: push apart", tone="a")
    d.arrow((115, 208), (115, 240)).arrow((325, 208), (325, 240))
    d.box(20, 240, 190, 34, "neural agent").box(230, 240, 190, 34, "~context encoder, quantizer")
    d.arrow((325, 306), (325, 276))
    return d.box(230, 306, 190, 28, "~pretraining: pairs of actions", tone="c")


def agents() -> Drawing:
    """What each agent reads."""
    d = Drawing(300)
    reads = ("text", "state graph", "commonsense")
    for column, what in enumerate(reads):
        d.words(160 + column * 108, 24, f"~{what}")
    rows = (("random", ""), ("Text", "t"), ("TPC", "tc"), ("KG-A2C", "ts"), ("BiKE", "tsc"))
    for row, (agent, what) in enumerate(rows):
        y = 38 + row * 40
        d.box(16, y, 90, 30, agent, tone="b")
        for column, letter in enumerate("tsc"):
            d.circle(160 + column * 108, y + 15, 10, tone="a" if letter in what else "none")
    d.line((16, 250), (424, 250), dashed=True)
    return d.words(220, 274, "each with and without cases, same network").words(220, 292, "~filled: it reads this")


def joint() -> Drawing:
    """The agent hears the candidates and chooses itself."""
    d = Drawing(366)
    d.box(20, 12, 180, 40, "admissible actions a_i", tone="b").box(
        240, 12, 180, 40, "candidates c_j, delta_j", tone="a"
    )
    d.arrow((110, 52), (180, 88)).arrow((330, 52), (260, 88))
    d.box(90, 88, 260, 60, "*attention", "~alpha_i over the candidates and", "~a vector for “none of them”")
    d.arrow((220, 148), (220, 176)).box(90, 176, 260, 34, "selector of each action", tone="a")
    d.arrow((220, 210), (220, 238)).box(
        90, 238, 260, 44, "the agent scores the actions", "~and its choice is executed", tone="b"
    )
    d.arrow((220, 282), (220, 310)).box(
        20, 310, 400, 44, "one optimiser on the sum of all losses", "~gradients reach the retriever through delta"
    )
    return d


def text_and_entities() -> Drawing:
    """Three ways to a context."""
    d = Drawing(330)
    columns = (
        ("seeded GAT", ("state graph", "around the", "action's entities"), "graph attention"),
        ("MPTR", ("observation and", "earlier paragraphs", "with its objects"), "text encoder"),
        ("entities", ("the name of", "the action's", "object alone"), "text encoder"),
    )
    for column, (name, sees, how) in enumerate(columns):
        x, middle = 12 + column * 142, 12 + column * 142 + 66
        d.words(middle, 24, f"*{name}").box(x, 36, 132, 78, *(f"~{line}" for line in sees))
        d.arrow((middle, 114), (middle, 144)).box(x, 144, 132, 34, f"~{how}", tone="b")
        d.arrow((middle, 178), (middle, 208)).box(x, 208, 132, 30, "context", tone="a")
        d.arrow((middle, 238), (220, 278))
    return d.box(82, 280, 276, 36, "any quantizer, any memory", tone="c")


PICTURES = (
    cycle, seeded_graph_attention, quantization, memory, reuse_and_revise, retain, learning, agents, joint,
    text_and_entities,
)  # fmt: skip

if __name__ == "__main__":
    for picture in PICTURES:
        (IMAGES / f"{picture.__name__}.svg").write_text(picture().svg(), encoding="utf-8")
