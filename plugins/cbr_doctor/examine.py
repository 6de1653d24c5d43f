"""``cbr doctor``: what is installed, what is found, and whether it works; every problem says how to mend it.

Python, packages, plugins, cache and device are looked at here; what a plugin needs, its own checks tell.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from packaging.requirements import Requirement

from cbr_doctor.selftest import self_test
from cbrcore import CbrError, Component, Finding, cache_dir
from cbrcore.console import plugins_of
from cbrcore.interfaces import Health
from cbrcore.recipe import DISTRIBUTION

if TYPE_CHECKING:
    from cbrcore.plugins import PluginInfo, PluginReport

REINSTALL = f"pip install --force-reinstall {DISTRIBUTION}"
FOR_DEVELOPERS = ("test", "dev")
"""Extras whose absence is no news to a user."""
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


def one_line(text: str) -> str:
    """For a terminal, whatever an author's text holds."""
    parts = (part.strip() for part in text.splitlines())
    line = " / ".join(part for part in parts if part)
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def examine(*, quick: bool = False, files: Sequence[Path] = ()) -> Examination:
    """Look at everything; without `quick` also test it, which takes two minutes at most.

    Args:
        files: plugins that are loose files.
    """
    found = [*_python(), *_packages()]
    try:
        report = plugins_of(files, quiet=True)
    except CbrError as error:
        found.append(Finding("plugins", "loading", "broken", one_line(error.message), error.hint or REINSTALL))
    else:
        found += _of_plugins(report, quick=quick)
    found += guarded(_cache, Finding("cache", "folder", "broken", "", CACHE))
    found += guarded(_device, Finding("device", "torch", "broken", "", REINSTALL))
    order = [*FIRST, *(each.section for each in found if each.section not in FIRST + LAST), *LAST]
    return Examination(tuple(sorted(found, key=lambda each: order.index(each.section))))


def _of_plugins(report: PluginReport, *, quick: bool) -> list[Finding]:
    """What became of them, what their checks find, and whether they work together."""
    found = list(_plugins(report))
    for info in report.plugins:
        for component in info.components:
            if component.kind == "check":
                found += asked(component, info, quick=quick)
    if not quick:
        found += guarded(lambda: self_test(report), Finding("self-test", "tiny run", "broken", "", REINSTALL))
    return found


def asked(component: Component, info: PluginInfo, *, quick: bool) -> list[Finding]:
    """What a plugin's check finds; whatever it does wrong is a finding that names whose it is."""

    def look() -> Iterator[Finding]:
        for found in component.load_factory()(quick=quick):
            if not isinstance(found, Finding):
                raise TypeError(f"it gave a {type(found).__name__}, not a Finding")
            if found.status not in get_args(Health):
                raise ValueError(f"the status of {found.name!r} is {found.status!r}, none of {get_args(Health)}")
            section, name, said, mend = map(one_line, (found.section, found.name, found.found, found.mend))
            yield Finding(section, name, found.status, said, mend)

    status, how = _blame(info)
    failed = f"its check failed ({info.distribution} {info.version}): "
    return guarded(look, Finding("plugins", component.qualified, status, failed, how))


def guarded(look: Callable[[], Iterable[Finding]], wrong: Finding) -> list[Finding]:
    """What `look` finds, and `wrong` with what was raised: one broken thing must not hide the others."""
    found: list[Finding] = []
    try:
        with redirect_stdout(sys.stderr):  # stdout is for the findings, whatever a check prints
            found.extend(look())
    except CbrError as error:
        said, mend = one_line(f"{wrong.found}{error.message}"), one_line(error.hint or wrong.mend)
        found.append(replace(wrong, found=said, mend=mend))
    except (Exception, SystemExit) as error:
        found.append(replace(wrong, found=one_line(f"{wrong.found}{type(error).__name__}: {error}")))
    return found


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
    extras = metadata.metadata(DISTRIBUTION).get_all("Provides-Extra") or []
    for requirement in map(Requirement, needed):
        wanted = [extra for extra in ("", *extras) if extra not in FOR_DEVELOPERS and _applies(requirement, extra)]
        if wanted:
            yield package_found(requirement, wanted[0] or None)


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


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
    left_out = [info for info in report.plugins if "CBR_LOAD_PLUGINS" in info.cause]
    if left_out:
        yield Finding("plugins", "left out", "absent", f"{len(left_out)}, by CBR_LOAD_PLUGINS", "unset it")
    for info in report.plugins:
        if info.status == "skipped" and info not in left_out:
            yield Finding("plugins", info.name, "absent", info.cause, "name it once only")
        elif info.status not in ("ok", "skipped"):
            status, mend = _blame(info)
            found = f"{info.status} ({info.distribution} {info.version}): {info.cause}"
            yield Finding("plugins", info.name, status, one_line(found), mend)


def _blame(info: PluginInfo) -> tuple[Health, str]:
    """How bad it is if this plugin does not work, and how to mend it."""
    if info.distribution == DISTRIBUTION:
        return "broken", REINSTALL
    if Path(info.distribution).is_file():  # a loose one
        return "problem", f"mend {info.distribution}, or leave it out"
    return "problem", f"pip install --upgrade {info.distribution}, or pip uninstall {info.distribution}"


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
