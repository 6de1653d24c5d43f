"""``cbr doctor``: what is installed, what is found, and whether it works; every problem says how to mend it.

Python, packages, plugins, cache and device are looked at here; what a plugin needs, its own checks tell.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement

from cbr_doctor.selftest import tiny_run
from cbrcore import CbrError, Component, Finding, cache_dir
from cbrcore.console import plugins_of
from cbrcore.recipe import DISTRIBUTION

if TYPE_CHECKING:
    from cbrcore.plugins import PluginInfo, PluginReport

REINSTALL = f"pip install --force-reinstall {DISTRIBUTION}"
FOR_USERS = ("spacy", "tensorboard", "report")
"""Extras whose absence is told; those for developers are not."""
CACHE = "export CBR_CACHE=/a/folder/of/yours"
MIB = 1 << 20
FIRST = ("python", "packages", "plugins")
LAST = ("cache", "device", "self-test")
"""Sections at the beginning and at the end; those of plugins stand between them."""


@dataclass(frozen=True)
class Examination:
    """All findings, section by section."""

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing essential is broken."""
        return all(finding.status != "broken" for finding in self.findings)

    def data(self) -> dict[str, Any]:
        """What ``cbr doctor --json`` prints."""
        return {"ok": self.ok, "checks": [asdict(finding) for finding in self.findings]}

    def lines(self) -> list[str]:
        """For people: a line per finding, and below it how to mend what is wrong."""
        lines: list[str] = []
        section = ""
        for finding in self.findings:
            if finding.section != section:
                section = finding.section
                lines.append(f"{section}:")
            lines.append(f"  {finding.status:9}{finding.name:24}{finding.found}".rstrip())
            lines += [f"           mend it: {finding.mend}"] if finding.mend else []
        return lines


def examine(*, quick: bool = False) -> Examination:
    """Look at everything; without `quick` also test it, which takes two minutes at most."""
    found = [*_python(), *_packages()]
    try:
        report = plugins_of(quiet=True)
    except CbrError as error:
        found.append(Finding("plugins", "loading", "broken", error.message, error.hint or REINSTALL))
    else:
        found += _plugins(report)
        for component in report.registry.of_kind("check"):
            found += asked(component, report.origin(component), quick=quick)
    for section, name, mend, look in (("cache", "folder", CACHE, _cache), ("device", "torch", REINSTALL, _device)):
        found += guarded(look, Finding(section, name, "broken", "", mend))
    if not quick:
        found += guarded(_self_test, Finding("self-test", "tiny run", "broken", "", REINSTALL))
    order = [*FIRST, *(f.section for f in found if f.section not in FIRST + LAST), *LAST]
    return Examination(tuple(sorted(found, key=lambda finding: order.index(finding.section))))


def asked(component: Component, origin: str, *, quick: bool) -> list[Finding]:
    """What a plugin's check finds; whatever it does wrong is a finding that names whose it is."""

    def look() -> Iterator[Finding]:
        for found in component.load_factory()(quick=quick):
            if not isinstance(found, Finding):
                raise TypeError(f"it gave a {type(found).__name__}, not a Finding")
            yield found

    wrong = Finding(
        "plugins", component.qualified, "problem", f"its check failed ({origin}): ", f"mend the {origin}"
    )
    return guarded(look, wrong)


def guarded(look: Callable[[], Iterable[Finding]], wrong: Finding) -> list[Finding]:
    """What `look` finds, and `wrong` with what was raised: one broken thing must not hide the others."""
    found: list[Finding] = []
    try:
        found.extend(look())
    except CbrError as error:
        found.append(_with(wrong, error.message, error.hint))
    except (Exception, SystemExit) as error:
        found.append(_with(wrong, f"{type(error).__name__}: {error}", None))
    return found


def _with(wrong: Finding, said: str, mend: str | None) -> Finding:
    return Finding(wrong.section, wrong.name, wrong.status, f"{wrong.found}{said}", mend or wrong.mend)


# -- what is installed -----------------------------------------------------------------------------------------


def _python() -> Iterator[Finding]:
    yield Finding("python", "python", "ok", f"{platform.python_version()} ({sys.executable})")
    yield Finding("python", "platform", "ok", platform.platform())


def _packages() -> Iterator[Finding]:
    """The packages that this one needs, and those of its extras for users."""
    try:
        needed = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        yield Finding("packages", DISTRIBUTION, "broken", "not installed", f"pip install {DISTRIBUTION}")
        return
    yield Finding("packages", DISTRIBUTION, "ok", metadata.version(DISTRIBUTION))
    for requirement in map(Requirement, needed):
        marker = requirement.marker
        extra = next((each for each in FOR_USERS if marker and marker.evaluate({"extra": each})), None)
        if marker is None or extra:
            yield package_found(requirement, extra)


def package_found(requirement: Requirement, extra: str | None) -> Finding:
    """Whether a package is here in a version that fits; one of an extra may be missing."""
    name, versions = requirement.name, requirement.specifier
    mend = f"pip install '{DISTRIBUTION}[{extra}]'" if extra else f"pip install '{name}{versions}'"
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        why = f" (for the extra {extra!r})" if extra else ""
        return Finding("packages", name, "absent" if extra else "broken", f"not installed{why}", mend)
    if not versions.contains(version, prereleases=True):
        found = f"{version}, but {versions} is needed"
        return Finding("packages", name, "problem" if extra else "broken", found, mend)
    return Finding("packages", name, "ok", version)


def _plugins(report: PluginReport) -> Iterator[Finding]:
    loaded = [info for info in report.plugins if info.status == "ok"]
    names = ", ".join(info.name for info in loaded)
    yield Finding("plugins", "loaded", "ok", f"{len(loaded)}: {names}")
    for info in report.plugins:
        if info.status == "skipped":
            yield Finding("plugins", info.name, "absent", info.cause, "unset CBR_LOAD_PLUGINS")
        elif info.status != "ok":
            yield _bad_plugin(info)


def _bad_plugin(info: PluginInfo) -> Finding:
    ours = info.distribution == DISTRIBUTION
    mend = (
        REINSTALL if ours else f"pip install --upgrade {info.distribution}, or pip uninstall {info.distribution}"
    )
    found = f"{info.status} ({info.distribution} {info.version}): {info.cause}"
    return Finding("plugins", info.name, "broken" if ours else "problem", found, mend)


# -- cache and device ------------------------------------------------------------------------------------------


def _cache() -> Iterator[Finding]:
    """Where files are kept that can be made again, and how large they are."""
    folder = cache_dir()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        yield Finding("cache", "folder", "broken", f"{folder} cannot be written", CACHE)
        return
    free = shutil.disk_usage(there).free
    yield Finding("cache", "folder", "ok", f"{folder} ({free // MIB} MiB free)")
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        yield Finding("cache", path.name, "ok", f"{size(path) / MIB:.1f} MiB")


def size(path: Path) -> int:
    """Bytes of a file, or of all files below a folder; what vanishes meanwhile does not count."""
    total = 0
    for file in (path, *path.rglob("*")) if path.is_dir() else (path,):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except OSError:
            continue
    return total


def _device() -> Iterator[Finding]:
    import torch

    found = f"cuda: {torch.cuda.get_device_name()}" if torch.cuda.is_available() else "cpu"
    yield Finding("device", "device", "ok", found)
    threads = f"{torch.get_num_threads()} of torch, {os.cpu_count()} cores"
    yield Finding(
        "device", "threads", "ok", f"{threads}, OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', 'unset')}"
    )


# -- the self-test ---------------------------------------------------------------------------------------------


def _self_test() -> Iterator[Finding]:
    start = time.monotonic()
    missing = tiny_run()
    if missing:
        yield Finding("self-test", "tiny run", "absent", missing, "unset CBR_LOAD_PLUGINS")
        return
    found = f"generated games, trained, evaluated in {time.monotonic() - start:.0f} s"
    yield Finding("self-test", "tiny run", "ok", found)
