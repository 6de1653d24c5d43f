"""The toy game as a loose plugin (``--plugin``), with an agent whose factory can fail.

What goes wrong is said by TOY_TROUBLE: "4:raise ValueError('torn')" in the second step of the fourth play,
"7:stop" for a SIGTERM to itself then, or "factory:raise ...".
"""

import os
import signal

from toy import ToyEnvironment

from cbrcore import CbrError, hookimpl


class Environment(ToyEnvironment):
    def __init__(self, config, build):
        super().__init__()
        self.plays = 0

    def reset(self, game, seed):
        self.plays += 1
        return super().reset(game, seed)

    def step(self, action):
        if self._steps == 1:
            trouble(self.plays)
        return super().step(action)


def agent(config, build):
    from cbr_text.agent import TextAgent

    trouble("factory")
    return TextAgent(config, build)


def fill(path, room):
    """Write into a file until the disk has so many bytes left."""
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            file.truncate(max(0, file.tell() - room))


def trouble(place):
    when, _, what = os.environ.get("TOY_TROUBLE", "").partition(":")
    if when != str(place):
        return
    if what == "stop":
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        exec(what)


class RefusingRecorder:
    """Cannot begin; its server is down, as it were."""

    def __init__(self, config, build):
        pass

    def begin(self, folder, recipe, *, after):
        raise CbrError("no server", hint="start it")

    def write(self, row):
        pass

    def finish(self, results):
        pass

    def close(self):
        pass


def leave(code: str = "0"):
    """A command that ends the process."""
    raise SystemExit(int(code))


@hookimpl
def register_commands(registry):
    registry.add("leave", factory="toy_plugin:leave", summary="ends the process")


@hookimpl
def register_recorders(registry):
    registry.add("refusing", factory="toy_plugin:RefusingRecorder", summary="cannot begin")


@hookimpl
def register_environments(registry):
    registry.add("toy", factory="toy_plugin:Environment", summary="one room")


@hookimpl
def register_agents(registry):
    registry.add("text", factory="toy_plugin:agent", config="cbr_text.config:TextConfig", summary="the text agent")
