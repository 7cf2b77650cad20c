"""Print the lower bound of every run-time dependency as a pip constraint: `numpy>=2.1` becomes `numpy==2.1`.

Packages that the extra `test` pins are left out, since pip could not install both versions.
"""

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)(?:\[[^]]*\])?>=(?P<floor>[0-9.]+)$")
NOT_RUN_TIME = {"docs", "test", "lint", "dev"}


def lower_bounds() -> dict[str, str]:
    """Return name and oldest allowed version of the dependencies of the package and of its extras."""
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    requirements = list(project["dependencies"])
    for extra, names in project["optional-dependencies"].items():
        if extra not in NOT_RUN_TIME:
            requirements += [name for name in names if not name.startswith("calibrant[")]
    found = {}
    for requirement in requirements:
        match = REQUIREMENT.match(requirement)
        if match is None:
            raise SystemExit(
                f"'{requirement}' in pyproject.toml has no lower bound of the form name>=version."
            )
        found[match["name"].lower()] = match["floor"]
    return found


def pinned_by_tests() -> set[str]:
    """Return the names that the extra `test` pins to one version."""
    requirements = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]["test"]
    return {requirement.partition("==")[0].lower() for requirement in requirements if "==" in requirement}


if __name__ == "__main__":
    bounds = {name: floor for name, floor in lower_bounds().items() if name not in pinned_by_tests()}
    print("\n".join(f"{name}=={floor}" for name, floor in bounds.items()))
