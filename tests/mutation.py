"""A mutation run: how many small faults in the core and in the paper's plugins does some test notice?

    python tests/mutation.py --sample 300 --seed 0 --jobs 2
    python tests/mutation.py --sample 20 --only plugins/cbr_vq --only cbrcore/rng.py

Mutates copies of the repository, never the repository itself, and asks the test files that are nearest to the
mutated module (`mutants/which_tests.py`). What is mutated, and what not, says `mutants/places.py`. A mutant is
killed if a test fails, or if the tests take more than three times as long as without it. Results are kept in a
session of cosmic-ray (`cr-report` reads it), so that a run that was stopped goes on; where code or tests have
changed a new one begins.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from compileall import compile_dir
from dataclasses import dataclass
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Any

import yaml
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome, WorkItem, WorkResult
from mutants.places import Mutant, sample
from mutants.which_tests import files_for, modules

ROOT = Path(__file__).parents[1]
ACCEPTED = Path(__file__).parent / "mutants" / "accepted.yaml"
LEAST_LIMIT, MOST_TIME_ALONE = 30.0, 600.0
SHORT = {"survived": "SURVIVED", "timeout": "timeout"}


@dataclass(frozen=True)
class Result:
    """What came of a mutant: "killed", "timeout" (counts as killed) or "survived"."""

    mutant: Mutant
    outcome: str


class Worker:
    """A copy of the repository, and a process that runs tests in it."""

    def __init__(self, folder: Path) -> None:
        self.tree = folder / "tree"
        _copy(self.tree)
        path = os.pathsep.join(map(str, (self.tree, self.tree / "plugins")))
        plain = {"PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1", "PYTHONHASHSEED": "0"}
        threads = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        own = {"PYTHONPATH": path, "MUTANTS_TMP": str(folder / "tmp"), "CBR_CACHE": str(folder / "cache")}
        self._process = subprocess.Popen(
            [sys.executable, str(self.tree / "tests" / "mutants" / "worker.py")],
            cwd=self.tree,
            env={**os.environ, **plain, **threads, **own},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, files: Sequence[str], limit: float, mutant: Mutant | None = None) -> dict[str, Any]:
        """What these test files say of the mutant, or of the plain code."""
        request = {"path": mutant.path if mutant else "", "code": mutant.code if mutant else "", "files": files}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({**request, "limit": limit}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a worker has ended; run the same command again to go on")
        return dict(json.loads(line))

    def close(self) -> None:
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)
        self._process.kill()
        self._process.wait()


def _copy(tree: Path) -> None:
    """The files that git knows or would, compiled so that a changed source is noticed by its content."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    for folder in ("cbrcore", "plugins"):
        compile_dir(tree / folder, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)


@contextlib.contextmanager
def workers(count: int) -> Iterator[list[Worker]]:
    """So many, each in a folder of its own, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        made = [Worker(Path(folder) / str(number)) for number in range(count)]
        try:
            yield made
        finally:
            for worker in made:
                worker.close()


def each(made: Sequence[Worker], tasks: Iterable[Any], work: Any) -> Iterator[tuple[Any, Any]]:
    """(task, what `work(worker, task)` gave), as they come; the workers share the tasks."""
    waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
    done: queue.SimpleQueue[Any] = queue.SimpleQueue()
    count = 0
    for count, task in enumerate(tasks, 1):  # noqa: B007
        waiting.put(task)

    def serve(worker: Worker) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                task = waiting.get_nowait()
                try:
                    done.put((task, work(worker, task)))
                except BaseException as fault:
                    done.put((task, fault))
                    return

    for worker in made:
        threading.Thread(target=serve, args=(worker,), daemon=True).start()
    for _ in range(count):
        task, found = done.get()
        if isinstance(found, BaseException):
            raise found
        yield task, found


def clean_times(made: Sequence[Worker], files: Iterable[str], path: Path) -> dict[str, float]:
    """Seconds of each test file with the plain code; measured once in a session.

    Raises:
        SystemExit: one fails without any mutation.
    """
    known: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
    missing = [name for name in files if name not in known]
    for name, found in each(made, missing, lambda worker, name: worker.ask([name], MOST_TIME_ALONE)):
        if found["outcome"] != "survived":
            raise SystemExit(f"{name} fails without any mutation:\n{found['output']}")
        known[name] = round(found["seconds"], 1)
        path.write_text(json.dumps(known))
        print(f"{found['seconds']:6.1f} s  {name}", flush=True)
    return known


def carry_out(made: Sequence[Worker], mutants: Sequence[Mutant], times: Mapping[str, float], db: WorkDB) -> None:
    """Ask about those that the session does not know yet."""

    def work(worker: Worker, mutant: Mutant) -> dict[str, Any]:
        files = files_for(ROOT, mutant.path)
        return worker.ask(files, max(LEAST_LIMIT, 3 * sum(times[name] for name in files)), mutant)

    known = {job for job, _ in db.results}
    missing = [mutant for mutant in mutants if mutant.id not in known]
    for number, (mutant, found) in enumerate(each(made, missing, work), 1):
        outcome = TestOutcome.SURVIVED if found["outcome"] == "survived" else TestOutcome.KILLED
        text = f"{found['outcome']}\n{found['output']}"
        db.set_result(mutant.id, WorkResult(WorkerOutcome.NORMAL, text, outcome, _diff(mutant)))
        said = SHORT.get(found["outcome"], "killed")
        print(
            f"{number}/{len(missing)} {said:8} {found['seconds']:6.1f} s  {mutant.path}:{mutant.line}", flush=True
        )


def _diff(mutant: Mutant) -> str:
    return f"- {mutant.was}\n+ {mutant.becomes}"


def _item(mutant: Mutant) -> WorkItem:
    where = (mutant.path, mutant.operator, mutant.occurrence, mutant.start, mutant.end)
    return WorkItem.single(mutant.id, MutationSpec(*where, definition_name=mutant.function))


# -- the report ------------------------------------------------------------------------------------------------


def report(results: Sequence[Result]) -> None:
    """A line for each module, the total share, and the survivors."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        rows[result.mutant.path][result.outcome] += 1
    print(f"\n{'module':45} killed survived timeout")
    for path, row in sorted(rows.items()):
        print(f"{path:45} {row['killed']:6} {row['survived']:8} {row['timeout']:7}")
    survivors = [result.mutant for result in results if result.outcome == "survived"]
    reasons = {mutant.id: entry for mutant in survivors if (entry := _accepted(mutant))}
    _total(len(results), len(survivors), sum(bool(entry.get("equivalent")) for entry in reasons.values()))
    _list("survivors", [mutant for mutant in survivors if mutant.id not in reasons], {})
    _list("accepted survivors", [mutant for mutant in survivors if mutant.id in reasons], reasons)


def _total(count: int, survived: int, equivalent: int) -> None:
    killed = count - survived
    print(f"\nkilled: {killed} of {count} ({killed / max(count, 1):.1%})")
    print(f"without {equivalent} equivalent ones: {killed / max(count - equivalent, 1):.1%}")


def _list(title: str, mutants: Iterable[Mutant], reasons: Mapping[str, Mapping[str, Any]]) -> None:
    print(f"\n{title}:")
    for mutant in sorted(mutants, key=lambda mutant: (mutant.path, mutant.line)):
        print(f"\n{mutant.path}:{mutant.line} {mutant.function} ({mutant.operator})\n{_diff(mutant)}")
        if mutant.id in reasons:
            print(f"  accepted: {reasons[mutant.id]['reason']}")


def _accepted(mutant: Mutant) -> Mapping[str, Any] | None:
    entries = yaml.safe_load(ACCEPTED.read_text(encoding="utf-8")) or []
    this = (mutant.path, mutant.function, mutant.was, mutant.becomes)
    same = (e for e in entries if (e["file"], e["function"], e["was"], e["becomes"]) == this)
    return next(same, None)


# -- the command -----------------------------------------------------------------------------------------------


def session_folder(given: Path | None) -> Path:
    """Where results are kept: named by the content of code and tests, unless it is given."""
    digest = hashlib.sha256()
    for path in sorted(
        [*ROOT.glob("cbrcore/**/*.py"), *ROOT.glob("plugins/**/*.py"), *ROOT.glob("tests/**/*.py")]
    ):
        digest.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    folder = given or Path(tempfile.gettempdir()) / f"mutation-{digest.hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=300, help="how many mutants")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--jobs", type=int, default=2, help="how many at the same time")
    parser.add_argument("--only", action="append", help="only modules whose path begins like this")
    parser.add_argument("--session", type=Path, help="folder of results (default: a temporary one)")
    return parser.parse_args()


def main() -> None:
    given = options()
    folder = session_folder(given.session)
    chosen = [
        path for path in modules(ROOT) if path.startswith(tuple(given.only or [""])) and files_for(ROOT, path)
    ]
    mutants = sample(ROOT, chosen, given.sample, given.seed)
    print(f"{len(mutants)} mutants of {len(chosen)} modules; session: {folder}", flush=True)
    files = sorted({name for mutant in mutants for name in files_for(ROOT, mutant.path)})
    with use_db(str(folder / "session.sqlite")) as db:
        known = {item.job_id for item in db.work_items}
        db.add_work_items(_item(mutant) for mutant in mutants if mutant.id not in known)
        try:
            with workers(given.jobs) as made:
                carry_out(made, mutants, clean_times(made, files, folder / "clean_times.json"), db)
        finally:
            report(_results(mutants, db))


def _results(mutants: Iterable[Mutant], db: WorkDB) -> list[Result]:
    """Of those that were asked about; a run that was stopped has not come to all."""
    outcomes = {job: str(result.output).partition("\n")[0] for job, result in db.results}
    return [Result(mutant, outcomes[mutant.id]) for mutant in mutants if mutant.id in outcomes]


def _leave(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit("stopped; the same command goes on")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _leave)
    try:
        main()
    except KeyboardInterrupt:
        _leave()
