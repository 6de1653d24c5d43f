"""Launchers: the suite of each, what holds for its own settings, and processes that end with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cbr_border.parts import guarded
from cbr_launchers.config import RayConfig, SubmititConfig
from cbr_launchers.local import LocalLauncher
from cbr_launchers.processes import start
from cbr_sweep.plan import make_launcher
from cbrcore.config import NoSettings
from cbrcore.errors import CbrError, PluginError
from cbrcore.interfaces import Build, Job, Launcher
from cbrcore.plugins import load_plugins
from cbrcore.testing import LauncherSuite


class TestLocal(LauncherSuite):
    def make(self, build):
        return LocalLauncher(NoSettings(), build)


@pytest.fixture(scope="module")
def cluster():
    """A Ray cluster of two cores that the tests share; the launcher joins what its process is connected to."""
    ray = pytest.importorskip("ray")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(address="local", num_cpus=2, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    yield ray
    ray.shutdown()


@pytest.mark.usefixtures("cluster")
class TestRay(LauncherSuite):
    def make(self, build):
        from cbr_launchers.on_ray import RayLauncher

        return RayLauncher(RayConfig(), build)

    def test_more_than_the_cluster_has_is_refused(self, build):
        from cbr_launchers.on_ray import RayLauncher

        launcher = RayLauncher(RayConfig(gpus=64), build)
        with pytest.raises(CbrError, match="asks for 64 GPU"):
            self.codes(launcher, self.jobs(build, "pass"))

    def test_jobs_see_the_resources_they_asked_for_alone(self, build):
        jobs = self.jobs(build, "import os; print(repr(os.environ.get('CUDA_VISIBLE_DEVICES')))")
        assert self.codes(self.make(build), jobs) == [(0, 0)]
        assert jobs[0].log.read_text() == "''\n"

    def test_a_job_whose_worker_is_gone_has_failed(self, build, cluster):
        jobs = self.jobs(build, "import os, signal; os.kill(os.getppid(), signal.SIGKILL)", "pass")
        assert self.codes(self.make(build), jobs, 1) == [(0, 1), (1, 0)]
        assert "lost by Ray" in jobs[0].log.read_text()


class TestSubmititLocal(LauncherSuite):
    def make(self, build):
        pytest.importorskip("submitit")
        from cbr_launchers.on_slurm import SubmititLauncher

        return SubmititLauncher(SubmititConfig(cluster="local"), build)

    def test_without_slurm_it_says_what_to_do(self, build, monkeypatch):
        pytest.importorskip("submitit")
        from cbr_launchers.on_slurm import SubmititLauncher

        monkeypatch.setenv("PATH", "")
        with pytest.raises(CbrError, match="cluster: local"):
            self.codes(SubmititLauncher(SubmititConfig(), build), self.jobs(build, "pass"))


def test_slurm_is_asked_for_what_the_settings_say(tmp_path):
    submitit = pytest.importorskip("submitit")
    from cbr_launchers.on_slurm import SubmititLauncher

    config = SubmititConfig(timeout_min=90, cpus=2, gpus=1, memory_gb=8, slurm={"partition": "short"})
    launcher = SubmititLauncher(config, Build())
    asked = launcher.parameters()
    executor = submitit.AutoExecutor(folder=tmp_path, cluster="debug")
    executor.update_parameters(**asked)
    assert asked == {
        "timeout_min": 90, "cpus_per_task": 2, "gpus_per_node": 1, "mem_gb": 8, "slurm_partition": "short"
    }  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="processes are tied to their parent on Linux")
def test_a_job_is_told_to_end_when_its_launcher_is_killed(tmp_path):
    script = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit('told'));"
        "print(1, flush=True); time.sleep(60)"
    )
    log = tmp_path / "job.log"
    parent = (
        "import sys, time, pathlib\n"
        "from cbr_launchers.processes import start; from cbrcore.interfaces import Job\n"
        f"start(Job((sys.executable, '-c', {script!r}), pathlib.Path({str(log)!r}))); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", parent])
    wait_for(lambda: log.is_file() and log.read_text())
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: "told" in log.read_text())


def test_a_terminals_interrupt_reaches_a_job_through_its_launcher_alone(tmp_path):
    process = start(Job((sys.executable, "-c", "import time; time.sleep(60)"), tmp_path / "job.log"))
    assert os.getsid(process.pid) != os.getsid(0)
    process.kill()
    process.wait()


def wait_for(ready, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(scope="module")
def registry():
    return load_plugins().registry


@pytest.mark.parametrize("text", ["local", "cbr_launchers/local", "{use: local}"])
def test_a_launcher_is_named_bare_or_as_a_section(registry, text):
    launcher: Launcher = make_launcher(text, registry)
    assert isinstance(launcher, LocalLauncher)


def test_settings_reach_the_launcher(registry):
    pytest.importorskip("submitit")
    launcher = make_launcher("{use: submitit, cluster: local, cpus: 2}", registry)
    assert launcher.config == SubmititConfig(cluster="local", cpus=2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lokal", "Did you mean 'cbr_launchers/local'"),
        ("{adress: auto}", "names no launcher"),
        ("[local]", "names no launcher"),
        ("{use: ray, adress: auto}", "adress"),
        ("{use: submitit, cpus: 0}", "cpus"),
        ("cbr_text/text", "belongs under 'agent'"),
    ],
)
def test_a_wrong_launcher_is_explained(registry, text, says):
    with pytest.raises(CbrError) as caught:
        make_launcher(text, registry)
    assert says in str(caught.value)


@pytest.mark.parametrize(("name", "module"), [("ray", "ray"), ("submitit", "submitit")])
def test_what_is_missing_is_named_with_what_to_install(registry, monkeypatch, name, module):
    for loaded in [*sys.modules]:
        if loaded.startswith("cbr_launchers.on_"):
            monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(PluginError, match=f"pip install {name}") as caught:
        make_launcher(name, registry)
    assert Path(__file__).name not in str(caught.value)


# -- launchers of others -------------------------------------------------------------------------------------

SMOKE = Path(__file__).parents[2] / "recipes" / "smoke" / "text_cbr_generated.yaml"
ODD = """
from cbrcore import hookimpl

@hookimpl
def register_launchers(registry):
    registry.add("odd", factory="odd_launcher:make")

def make(*given):
    return Odd(*given)

class Odd:
    def __init__(self, config, build): ...
    def interrupt(self): ...
    def launch(self, jobs, at_once):
        {}
"""
FAILED = "the launcher odd_launcher/odd failed in launch: "
WRONG = {
    "yield []\nmake = lambda *_: None": "its factory gave None, expected a part of the kind Launcher",
    "yield []\nmake = lambda *_: 1 / 0": "odd_launcher/odd could not be made: ZeroDivisionError",
    "yield []\nmake = lambda *_: exit(0)": "odd_launcher/odd could not be made: SystemExit",
    "yield []\ndel Odd.interrupt": "it lacks interrupt",
    "return None": "launch(...) gave None, expected a generator",
    "return [[(0, 0)]]": "launch(...) gave [[(0, 0)]], expected a generator",
    "return 1 / 0": f"{FAILED}ZeroDivisionError",
    "yield []; raise SystemExit(0)": f"{FAILED}SystemExit",
    "yield []; open('/nowhere/x')": f"{FAILED}FileNotFoundError",
    "yield None": "launch(...) gave None, expected a list of what has ended",
    "yield [0]": "launch(...) gave 0, expected a position and an exit code",
    "yield [(0, None)]": "launch(...) gave (0, None), expected a position and an exit code",
    "yield [(7, 0)]": "launch(...) gave the position 7, expected one of a job that has not ended",
    "yield [(-1, 0)]": "launch(...) gave the position -1, expected one of a job that has not ended",
    "yield [(0, 1)]; yield [(0, 1)]": "launch(...) gave the position 0, expected one of a job that has not ended",
    "yield [(0, 1), (0, 1)]": "launch(...) gave the position 0, expected one of a job that has not ended",
    "yield [(0, 1)]": "launch(...) gave no exit code of 1 jobs, expected one of each job",
}
"""What a launcher does -> what is said of it."""


@pytest.mark.parametrize("does", WRONG)
def test_what_is_wrong_with_a_launcher_is_told(does, here, tmp_path):
    plugin = tmp_path / "odd_launcher.py"
    plugin.write_text(ODD.format(does))
    words = ["--launcher", "odd_launcher/odd", "--plugin", plugin, "--out", tmp_path / "sweep"]
    try:
        done = here("sweep", SMOKE, "--set", "sweep={seed: [0, 1]}", *words)
    finally:
        sys.modules.pop("odd_launcher", None)
    assert done.returncode == 1
    assert "launcher odd_launcher/odd" in done.stderr
    assert WRONG[does] in done.stderr
    assert "mend the plugin 'odd_launcher'" in done.stderr
    assert "Traceback" not in done.stderr


class Waiting:
    """One of its jobs at a time; an interrupt ends it."""

    def __init__(self) -> None:
        self.stopped = self.closed = False

    def launch(self, jobs, at_once):
        try:
            for position, _ in enumerate(jobs):
                yield [(position, 0)]
                if self.stopped:
                    return
        finally:
            self.closed = True

    def interrupt(self) -> None:
        self.stopped = True


def test_jobs_that_an_interrupt_left_waiting_are_not_missed():
    launcher = guarded(Waiting(), "launcher", "lab/it")
    work = launcher.launch([None] * 3, 1)
    assert next(work) == [(0, 0)]
    launcher.interrupt()
    assert list(work) == []
    assert launcher.closed


def test_a_launch_that_is_closed_early_is_closed_within():
    launcher = guarded(Waiting(), "launcher", "lab/it")
    work = launcher.launch([None] * 3, 1)
    next(work)
    work.close()
    assert launcher.closed
