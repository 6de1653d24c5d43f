"""Builds Jericho's interpreter once more from its own source, so that the compiler knows where the time goes.

A search for valid actions is nothing but the interpreter at work, many thousand instructions a command. pip builds
it without a thought for that; here a first build counts what it does while it plays, and a second one is laid out
by these counts (profile-guided optimization, across all files at once). What the installed and the second build
answer is compared before that is kept.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from cbr_cache.sealed import keep
from cbr_isolate.client import child_environment
from cbr_jericho.interpreter import identity, tuned_path
from cbr_jericho.stories import Story, find_story, generated_story, paper_inventory
from cbrcore import GameError
from cbrcore.errors import os_failure

TOGETHER = "-flto -fno-semantic-interposition"
"""All files are one to the compiler, and what one defines no other library replaces."""

COUNTING = f"{TOGETHER} -fprofile-generate"
COUNTED = f"{TOGETHER} -fprofile-use -Wno-missing-profile"

STORIES = ("zork1", "detective", "zenon")
"""Played to count and to compare, as far as they are there: compilers of stories differ."""

SEARCHES = 12
"""States that are searched in each."""

LIMIT_S = 600.0
"""For any one of the programs that are called."""

LAST_LINES = 12


@dataclass(frozen=True)
class Compared:
    """A story played by both builds: seconds of the one that pip installed, and of the new one."""

    story: str
    installed_s: float
    tuned_s: float

    @property
    def ratio(self) -> float:
        """How many times as fast the new one is."""
        return self.installed_s / self.tuned_s


Say = Callable[[str], None]


def tune(cache_dir: Path, say: Say, *, source: Path | None = None) -> list[Compared]:
    """Build, compare, and keep the faster interpreter where runs find it.

    Args:
        cache_dir: for the generated story, where no title is there.
        say: told what is being done.
        source: Jericho's, an archive or a folder; None: pip gets it.

    Raises:
        GameError: no GNU compiler, no source, or a program failed; or the builds do not answer alike, and nothing
            is kept.
    """
    compiler = _compiler()
    target = tuned_path()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".making-") as name:
            folder = Path(name)
            say(f"getting the source of Jericho {version('jericho')} ...")
            frotz = _unpacked(source or _downloaded(folder), folder) / "frotz"
            say("building an interpreter that counts ...")
            counting = _built(frotz, f"{compiler} {COUNTING}")
            stories = list(_stories(cache_dir))
            for story in stories:
                say(f"playing {story.name} ...")
                _walk(story, counting)
            say("building the faster one ...")
            fresh = _built(frotz, f"{compiler} {COUNTED}")
            say(f"comparing {SEARCHES} searches in each ...")
            compared = [_compared(story, fresh) for story in stories]
            keep(fresh, target, identity())
    except OSError as error:
        raise os_failure(error, target) from error
    return compared


def _compiler() -> str:
    """The GNU compiler that builds it; others count in other ways."""
    name = os.environ.get("CC", "gcc")
    hint = "Install gcc and make, or let CC name a GNU compiler. Without them all works as before."
    if shutil.which(name.split()[0] if name.split() else "") is None or shutil.which("make") is None:
        raise GameError(f"there is no {name!r}, or no make", hint=hint)
    if "Free Software Foundation" not in _called([*name.split(), "--version"]):
        raise GameError(f"{name!r} is not GNU's compiler", hint=hint)
    return name


def _downloaded(folder: Path) -> Path:
    """The archive that pip gets."""
    wanted = f"jericho=={version('jericho')}"
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "jericho", wanted]
    _called([*command, "-d", str(folder)], hint="Download it yourself, and type: cbr games tune --source PATH")
    return next(folder.glob("jericho-*"))


def _unpacked(source: Path, folder: Path) -> Path:
    """A copy of the source, checked to be of the version that is installed."""
    copy, wanted = folder / "source", version("jericho")
    try:
        if source.is_dir():
            shutil.copytree(source, copy / source.name)
        else:
            shutil.unpack_archive(source, copy, filter="data")
        (found,) = copy.iterdir()
        told = (found / "jericho" / "version.py").read_text("utf-8")
    except (OSError, ValueError, shutil.ReadError) as error:
        raise GameError(f"{source} is no source of Jericho: {error}") from error
    if f"'{wanted}'" not in told.replace('"', "'"):
        raise GameError(f"{source} is not of Jericho {wanted}, which is installed", hint=f"{told.strip()} there")
    return found


def _built(frotz: Path, compiler: str) -> Path:
    """The library that the source gives; counts of an earlier build stay."""
    for old in (path for path in frotz.rglob("*") if path.suffix in (".o", ".a", ".so")):
        old.unlink()
    _called(["make", "-C", str(frotz), "library"], {"CC": compiler})
    return frotz / "src" / "libfrotz.so"


def _stories(cache_dir: Path) -> Iterator[Story]:
    """Those of `STORIES` that are there, else one that is, else a generated one."""
    there = [game.name for game in paper_inventory() if game.status == "present"]
    named = [name for name in STORIES if name in there] or there[:1]
    yield from map(find_story, named)
    if not named:
        yield generated_story(0, cache_dir)


def _compared(story: Story, fresh: Path) -> Compared:
    """Both builds at the same story."""
    (expected, installed_s), (found, tuned_s) = _walk(story, None), _walk(story, fresh)
    if found != expected:
        raise GameError(
            f"the new build plays {story.name} differently: it is not kept",
            hint="Is the source that of the Jericho that is installed? Is there another compiler (CC)?",
        )
    return Compared(story.name, installed_s, tuned_s)


def _walk(story: Story, interpreter: Path | None) -> tuple[str, float]:
    """What a build finds (a digest), and in how many seconds; see `walk.py`."""
    request = {
        "interpreter": interpreter and str(interpreter),
        "story": str(story.path),
        "templates": story.templates,
        "searches": SEARCHES,
    }
    command = [sys.executable, "-P", "-m", "cbr_jericho.walk", json.dumps(request)]
    told = json.loads(_called(command, child_environment()))
    return str(told["digest"]), float(told["seconds"])


def _called(command: Sequence[str], more: Mapping[str, str] | None = None, *, hint: str | None = None) -> str:
    """What a program prints.

    Raises:
        GameError: it fails, or takes too long; the end of what it printed is told.
    """
    env = {**os.environ, **(more or {})}
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, errors="replace", timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        raise GameError(f"{command[0]!r} took longer than {LIMIT_S:g} s", hint=hint) from None
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-LAST_LINES:])
        raise GameError(f"{' '.join(command[:4])} failed:\n{last}", hint=hint)
    return done.stdout
