"""``cbr doctor``: what is installed, what is found, and whether it works; every problem says how to mend it."""

from __future__ import annotations

import importlib
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from cbr_doctor.selftest import engine_step, tiny_run
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build
from cbrcore.plugins import PluginInfo, PluginReport, load_plugins
from cbrcore.recipe import DISTRIBUTION
from cbrcore.recipe.model import DEFAULTS
from cbrcore.registry import Registry

REINSTALL = f"pip install --force-reinstall {DISTRIBUTION}"
EXTRAS = ("spacy", "tensorboard")
LEVELS = ("easy", "medium", "hard")
GAMES = "export CBR_GAMES=/path/to/games (it holds twc/ and jericho/)"
MIB = 1 << 20

Status = Literal["ok", "absent", "problem", "broken"]
"""absent: something optional is not here. problem: something optional is wrong. broken: it is essential."""


@dataclass(frozen=True)
class Check:
    """What was found.

    Attributes:
        mend: what to type; empty if all is well.
    """

    section: str
    name: str
    status: Status
    found: str
    mend: str = ""


@dataclass(frozen=True)
class Examination:
    """All checks, in the order in which they were made."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing essential is broken."""
        return all(check.status != "broken" for check in self.checks)

    def data(self) -> dict[str, Any]:
        """What ``cbr doctor --json`` prints."""
        return {"ok": self.ok, "checks": [asdict(check) for check in self.checks]}

    def lines(self) -> list[str]:
        """For people: a line per check, and below it how to mend what is wrong."""
        lines: list[str] = []
        section = ""
        for check in self.checks:
            if check.section != section:
                section = check.section
                lines.append(f"{section}:")
            lines.append(f"  {check.status:9}{check.name:24}{check.found}".rstrip())
            lines += [f"           mend it: {check.mend}"] if check.mend else []
        return lines


def examine(*, quick: bool = False) -> Examination:
    """Look at everything; without `quick` also test it, which takes two minutes at most."""
    checks = [*_python(), *_packages()]
    report: PluginReport | None = None
    with _Guard(checks, "plugins", "loading", REINSTALL, status="broken"):
        report = load_plugins(strict=False)
        checks += _plugins(report)
    registry = report.registry if report else Registry()
    sections: Sequence[tuple[str, str, Status, str, Callable[[], Iterator[Check]]]] = (
        ("games", "TWC", "problem", GAMES, lambda: _twc(registry)),
        ("games", "Jericho", "problem", "cbr games list", _jericho),
        ("models", "text encoder", "broken", REINSTALL, lambda: _text_encoder(registry, quick=quick)),
        ("models", "spaCy model", "absent", f"pip install '{DISTRIBUTION}[spacy]'", _spacy),
        ("cache", "folder", "broken", "export CBR_CACHE=/a/folder/of/yours", _cache),
        ("device", "torch", "broken", REINSTALL, _device),
    )
    tests: Sequence[tuple[str, str, Status, str, Callable[[], Iterator[Check]]]] = (
        ("self-test", "tiny run", "broken", REINSTALL, _test_run),
        ("self-test", "Jericho's engine", "broken", REINSTALL, lambda: _test_engine(registry)),
    )
    for section, name, status, mend, look in (*sections, *(() if quick else tests)):
        with _Guard(checks, section, name, mend, status=status):
            checks.extend(look())
    return Examination(tuple(checks))


class _Guard:
    """Whatever fails is a finding: one broken thing must not hide the others."""

    def __init__(self, checks: list[Check], section: str, name: str, mend: str, *, status: Status) -> None:
        self._checks = checks
        self._about = section, name, status
        self._mend = mend

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, CbrError):
            self._checks.append(Check(*self._about, error.message, error.hint or self._mend))
        elif isinstance(error, Exception):
            self._checks.append(Check(*self._about, f"{type(error).__name__}: {error}", self._mend))
        return error is None or isinstance(error, Exception)


# -- what is installed -----------------------------------------------------------------------------------------


def _python() -> Iterator[Check]:
    yield Check("python", "python", "ok", f"{platform.python_version()} ({sys.executable})")
    yield Check("python", "platform", "ok", platform.platform())


def _packages() -> Iterator[Check]:
    """The packages that this one needs, and those of its extras for users."""
    try:
        needed = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        yield Check("packages", DISTRIBUTION, "broken", "not installed", f"pip install {DISTRIBUTION}")
        return
    yield Check("packages", DISTRIBUTION, "ok", metadata.version(DISTRIBUTION))
    for requirement in needed:
        name, versions, extra = parse_requirement(requirement)
        if extra is None or extra in EXTRAS:
            yield package_check(name, versions, extra)


def parse_requirement(text: str) -> tuple[str, str, str | None]:
    """``name>=1.2; extra == "x"`` -> (name, ">=1.2", "x")."""
    named, _, marker = text.partition(";")
    found = re.match(r"\s*([\w.-]+)\s*(.*?)\s*$", named)
    extra = re.search(r"extra == [\"']([\w-]+)[\"']", marker)
    assert found is not None
    return found[1], found[2], extra[1] if extra else None


def package_check(name: str, versions: str, extra: str | None) -> Check:
    """Whether a package is here in a version that fits; one of an extra may be missing."""
    mend = f"pip install '{DISTRIBUTION}[{extra}]'" if extra else f"pip install '{name}{versions}'"
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        why = f" (for the extra {extra!r})" if extra else ""
        return Check("packages", name, "absent" if extra else "broken", f"not installed{why}", mend)
    if not _fits(version, versions):
        found = f"{version}, but {versions} is needed"
        return Check("packages", name, "problem" if extra else "broken", found, mend)
    return Check("packages", name, "ok", version)


def _fits(version: str, versions: str) -> bool:
    try:
        from packaging.specifiers import SpecifierSet
    except ImportError:
        return True  # nobody can tell
    return SpecifierSet(versions).contains(version, prereleases=True)


def _plugins(report: PluginReport) -> Iterator[Check]:
    loaded = [info for info in report.plugins if info.status == "ok"]
    names = ", ".join(info.name for info in loaded)
    yield Check("plugins", "loaded", "ok", f"{len(loaded)}: {names}")
    for info in report.plugins:
        if info.status == "skipped":
            yield Check("plugins", info.name, "absent", info.cause, "unset CBR_LOAD_PLUGINS")
        elif info.status != "ok":
            yield _bad_plugin(info)


def _bad_plugin(info: PluginInfo) -> Check:
    ours = info.distribution == DISTRIBUTION
    mend = (
        REINSTALL if ours else f"pip install --upgrade {info.distribution}, or pip uninstall {info.distribution}"
    )
    found = f"{info.status} ({info.distribution} {info.version}): {info.cause}"
    return Check("plugins", info.name, "broken" if ours else "problem", found, mend)


# -- games and models ------------------------------------------------------------------------------------------


def _twc(registry: Registry) -> Iterator[Check]:
    """CBR_GAMES, and the published games of each level. Without them there are generated ones."""
    shared = os.environ.get("CBR_GAMES")
    if not shared:
        yield Check("games", "CBR_GAMES", "absent", "not set: no published TWC games", GAMES)
        return
    if not Path(shared).expanduser().is_dir():
        yield Check("games", "CBR_GAMES", "problem", f"{shared} is not a folder", GAMES)
        return
    yield Check("games", "CBR_GAMES", "ok", shared)
    component = registry.find("environment", "cbr_twc/twc")
    settings, make = component.load_config(), component.load_factory()
    for level in LEVELS:
        environment = make(settings(level=level), Build())
        try:
            counts = [f"{len(environment.games(split))} {split}" for split in environment.splits()]
            yield Check("games", f"TWC {level}", "ok", ", ".join(counts))
        except CbrError as error:
            there = (Path(shared).expanduser() / "twc" / level).exists()
            yield Check(
                "games", f"TWC {level}", "problem" if there else "absent", error.message, error.hint or GAMES
            )


def _jericho() -> Iterator[Check]:
    games = importlib.import_module("cbr_jericho.stories").paper_inventory()
    present = sum(game.status == "present" for game in games)
    mend = "" if present == len(games) else "cbr games add PATH, or cbr games fetch"
    yield Check("games", "Jericho", "ok" if present else "absent", f"{present} of {len(games)} games", mend)
    for game in games:
        if game.status == "wrong":
            yield Check("games", game.name, "problem", f"{game.path}: {game.problem}", "cbr games add PATH")


def _text_encoder(registry: Registry, *, quick: bool) -> Iterator[Check]:
    """The one that recipes use by default: its files, and unless `quick` a text encoded with it."""
    component = registry.find("text_encoder", DEFAULTS["text_encoder"])
    with tempfile.TemporaryDirectory(prefix="cbr-doctor-") as folder:
        encoder = component.load_factory()(component.load_config()(), Build(cache_dir=Path(folder)))
        if not quick:
            encoder.encode(["a text"])
    yield Check("models", "text encoder", "ok", encoder.identity)


def _spacy() -> Iterator[Check]:
    yield Check("models", "spaCy model", "ok", importlib.import_module("cbr_jericho.tagging").installed_model())


# -- cache and device ------------------------------------------------------------------------------------------


def _cache() -> Iterator[Check]:
    """Where files are kept that can be made again, and how large they are."""
    from cbrcore.runs.assemble import cache_dir  # needs torch, which may be what is broken

    folder = cache_dir()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        yield Check(
            "cache", "folder", "broken", f"{folder} cannot be written", "export CBR_CACHE=/a/folder/of/yours"
        )
        return
    free = shutil.disk_usage(there).free
    yield Check("cache", "folder", "ok", f"{folder} ({free // MIB} MiB free)")
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        yield Check("cache", path.name, "ok", f"{size(path) / MIB:.1f} MiB")


def size(path: Path) -> int:
    """Bytes of a file, or of all files below a folder; what vanishes meanwhile does not count."""
    total = 0
    for file in (path, *path.rglob("*")) if path.is_dir() else (path,):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except OSError:
            continue
    return total


def _device() -> Iterator[Check]:
    import torch

    found = f"cuda: {torch.cuda.get_device_name()}" if torch.cuda.is_available() else "cpu"
    yield Check("device", "device", "ok", found)
    threads = f"{torch.get_num_threads()} of torch, {os.cpu_count()} cores"
    yield Check(
        "device", "threads", "ok", f"{threads}, OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', 'unset')}"
    )


# -- the self-test ---------------------------------------------------------------------------------------------


def _test_run() -> Iterator[Check]:
    start = time.monotonic()
    tiny_run()
    found = f"generated games, trained, evaluated in {time.monotonic() - start:.0f} s"
    yield Check("self-test", "tiny run", "ok", found)


def _test_engine(registry: Registry) -> Iterator[Check]:
    valid = engine_step(registry)
    yield Check("self-test", "Jericho's engine", "ok", f"one step of the generated story; {valid} valid actions")
