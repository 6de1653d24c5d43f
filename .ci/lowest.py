"""Print the lowest versions that pyproject.toml allows, as a constraints file for pip.

    python .ci/lowest.py [EXTRA ...] > lowest.txt && pip install -c lowest.txt -e .

torch is left out: its builds are chosen by hand (README, "Install and run").
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def lowest(extras: list[str]) -> list[str]:
    """``name==version`` for each requirement with a lower bound, of the project and of these extras."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    optional = project["optional-dependencies"]
    written = [*project["dependencies"], *(each for name in extras for each in optional[name])]
    pinned = []
    for requirement in map(Requirement, written):
        bounds = [each.version for each in requirement.specifier if each.operator in (">=", "==")]
        if bounds and requirement.name != "torch":
            pinned.append(f"{requirement.name}=={bounds[0]}")
    return sorted(pinned)


if __name__ == "__main__":
    sys.stdout.write("".join(f"{line}\n" for line in lowest(sys.argv[1:])))
