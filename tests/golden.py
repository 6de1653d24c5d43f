"""Golden hashes: what small runs leave, byte for byte. Run it before and after a change that must change nothing::

    CBR_GAMES=... python tests/golden.py before.txt
    CBR_GAMES=... python tests/golden.py after.txt && diff before.txt after.txt

The smoke recipes, a joint run and a sweep of four; metrics, results, memory, the checkpoint's tensors and random
streams. Hashes hold for one machine and one set of versions: they are compared, never kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

RECIPES = Path(__file__).parents[1] / "recipes"
SMALL = ["run.episodes=1", "training.pretrain.episodes=1", "training.pretrain.epochs=1", "evaluation.passes=1"]
SWEEP = "\nsweep:\n  seed: [0, 1]\n  training.gamma: [0.9, 0.95]\n"


def sets(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def cbr(*words: object) -> None:
    command = [sys.executable, "-m", "cbrcore.cli", *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    subprocess.run(command, check=True, capture_output=True, env=environment, timeout=1200)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def hashes(run: Path) -> Iterator[tuple[str, str]]:
    """(what, its hash) of one run folder."""
    for name in ("metrics.jsonl", "results.json"):
        yield name, digest((run / name).read_bytes())
    for path in sorted(run.glob("memory/*")):
        yield f"memory/{path.name}", digest(path.read_bytes())
    newest = max((run / "checkpoints").iterdir())
    yield "tensors", digest((newest / "tensors.safetensors").read_bytes())
    state = json.loads((newest / "state.json").read_text())
    state["progress"].pop("seconds")
    yield "state", digest(json.dumps([state["progress"], state["streams"]], sort_keys=True).encode())


def runs(folder: Path) -> Iterator[Path]:
    for recipe in sorted((RECIPES / "smoke").glob("*.yaml")):
        cbr("run", recipe, "--out", folder / recipe.stem)
        yield folder / recipe.stem
    cbr("run", RECIPES / "bike_joint_twc.yaml", "--out", folder / "joint", *sets(*SMALL))
    yield folder / "joint"
    smoke = RECIPES / "smoke" / "text_cbr_generated.yaml"
    recipe = folder / "sweep.yaml"
    recipe.write_text(smoke.read_text(encoding="utf-8") + SWEEP, encoding="utf-8")
    cbr("sweep", recipe, "--out", folder / "sweep", "--jobs", 1)
    yield from sorted(path.parent for path in (folder / "sweep").glob("*/results.json"))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        out = stack.enter_context(open(sys.argv[1], "w", encoding="utf-8")) if sys.argv[1:] else sys.stdout
        for run in runs(Path(folder)):
            out.writelines(f"{run.relative_to(folder)} {name} {value}\n" for name, value in hashes(run))
            sys.stderr.write(f"{run.name}\n")


if __name__ == "__main__":
    main()
