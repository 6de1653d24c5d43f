"""How fast agents train on TWC, where the time goes, and what a second core is worth."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from time import process_time

from cbr_bench.children import NOT_MEASURED, cost, recipe_file, trained
from cbr_bench.figures import Figure
from cbr_bench.measures import Setting
from cbrcore.config import expand_path
from cbrcore.errors import RunFailed

WANTED = ("feedback", "description", "inventory", "admissible_commands", "facts", "score", "won", "lost")
"""What an observation here is made of."""

SHARE = """
import json, sys, time
import torch
import cbrcore
from torch.profiler import ProfilerActivity, profile

smoke, recipe, folder = sys.argv[1:]
cbrcore.run(smoke, out=folder + "/warm")  # imports everything
with profile(activities=[ProfilerActivity.CPU]) as seen:
    started = time.perf_counter()
    run = cbrcore.run(recipe, out=folder + "/run")
    seconds = time.perf_counter() - started
print(json.dumps([sum(each.self_cpu_time_total for each in seen.key_averages()) / 1e6, seconds]))
"""


def training(setting: Setting) -> Iterator[Figure]:
    """Training steps a second, pretraining's time included, nothing else running."""
    for recipe, level, passes in (("text_cbr_twc.yaml", "easy", 100), ("bike_cbr_twc.yaml", "hard", 40)):
        most = passes // 10 if setting.quick else passes
        found = trained(recipe, setting.folder / recipe, f"environment.level={level}", f"run.episodes={most}")
        stories = sorted(expand_path(f"$CBR_GAMES/twc/{level}/train", Path()).glob("*.z8"))
        alone = textworld_rate(stories, WANTED)
        what = f"{recipe.removesuffix('.yaml')}, {level}, {most} passes"
        yield Figure(what, found["steps_per_second"], "steps/s", "TextWorld alone, random policy", alone)


def textworld_rate(stories: Sequence[Path], wanted: Sequence[str]) -> float:
    """Steps per CPU second of TextWorld alone, asked for these infos; a random policy plays each game once."""
    import textworld

    rng, steps, started = random.Random(0), 0, process_time()
    for story in stories:
        game = textworld.start(str(story), textworld.EnvInfos(**dict.fromkeys(wanted, True)))
        state, done, until = game.reset(), False, steps + 50
        while not done and steps < until:
            state, _, done = game.step(rng.choice(state.admissible_commands))
            steps += 1
        game.close()
    return steps / (process_time() - started)


def arithmetic(setting: Setting) -> Iterator[Figure]:
    """Of a whole short run, what is not spent in torch's operators (by its profiler, which slows both down)."""
    smoke, recipe = recipe_file("smoke/text_cbr_generated.yaml"), recipe_file("quickstart.yaml")
    text = recipe.read_text().replace("run: {episodes: 30}", "run: {episodes: 6}")
    short = setting.folder / "short.yaml"
    short.write_text(text + "\nevaluation: {splits: []}\n")
    done = cost(["-c", SHARE, str(smoke), str(short), str(setting.folder)])
    inside, seconds = json.loads(done.stdout.splitlines()[-1])
    yield Figure("training outside torch's operators", 1 - inside / seconds, "of all seconds")


def cores(setting: Setting) -> Iterator[Figure]:
    """Four games at the same time, engines in processes of their own: on two cores, against the same on one."""
    available = sorted(os.sched_getaffinity(0))
    if len(available) < 2:
        raise RunFailed("there is one core only")
    settings = f"run.env_steps={300 if setting.quick else 3000}", "run.num_envs=4", NOT_MEASURED
    rates = []
    for count in (2, 1):
        folder, cache = setting.folder / f"{count} run", setting.folder / f"{count} cache"
        stay = partial(os.sched_setaffinity, 0, available[:count])
        found = trained("quickstart_jericho.yaml", folder, *settings, cache=cache, begin=stay)
        rates.append(found["steps_per_second"])
    yield Figure("quickstart_jericho, four games, two cores", rates[0], "steps/s", "one core", rates[1])
