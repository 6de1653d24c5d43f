"""A process of `tune.py`: a build of the interpreter plays a story at random, and tells what it found, how fast.

Not meant to be typed. It ends by itself, as a build that counts what it does writes its counts at the end.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

from cbr_jericho.engine import Engine
from cbr_jericho.search import ActionSearch


def walk(request: dict[str, Any]) -> dict[str, Any]:
    """Search in so many states of a random play, and digest what was found, the states and the answers.

    Args:
        request: `interpreter` (a path or None), `story`, `templates`, `searches`.

    Returns:
        `digest` and `seconds`.
    """
    engine = Engine(Path(request["story"]), None, request["interpreter"])
    search = ActionSearch(engine, request["templates"], "dictionary")
    rng, digest, start = random.Random(0), hashlib.sha256(), perf_counter()
    answer = engine.reset()[0]
    for _ in range(request["searches"]):
        state = engine.get_state()
        found = search.run(state)
        digest.update(json.dumps([answer, found.to_json(), engine.pack(state)]).encode())
        if found.actions:
            answer = engine.step(rng.choice(found.actions).text)[0]
        if not found.actions or engine.ending():
            answer = engine.reset()[0]
    return {"digest": digest.hexdigest(), "seconds": perf_counter() - start}


if __name__ == "__main__":
    json.dump(walk(json.loads(sys.argv[1])), sys.stdout)
