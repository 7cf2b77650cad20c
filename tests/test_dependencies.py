"""What the package needs: tools are pinned, every dependency has a floor, and the tested versions are above it."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
TESTED = ROOT / "constraints" / "tested.txt"


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _floors() -> dict[str, str]:
    found: dict[str, str] = runpy.run_path(str(ROOT / "constraints" / "minimum.py"))["lower_bounds"]()
    return found


def _tested() -> dict[str, str]:
    lines = [line for line in TESTED.read_text().splitlines() if line and not line.startswith("#")]
    return {name.lower(): version for name, version in (line.split("==") for line in lines)}


@pytest.mark.parametrize("extra", ["test", "lint"])
def test_tools_that_judge_have_one_version(extra):
    for requirement in EXTRAS[extra]:
        name = requirement.split("[")[0]
        assert name == "calibrant" or re.fullmatch(r"[\w-]+==[\d.]+", requirement), (
            f"'{requirement}' in the extra '{extra}' may change overnight; pin it as name==version."
        )


def test_pins_agree_with_the_tested_versions():
    for requirement in EXTRAS["test"] + EXTRAS["lint"]:
        if "==" in requirement:
            name, version = requirement.split("==")
            assert _tested()[name] == version, (
                f"{name} is {version} in pyproject.toml and {_tested()[name]} in {TESTED.name}."
            )


@pytest.mark.parametrize("name", _floors())
def test_tested_version_is_not_below_the_floor(name):
    floor, tested = _floors()[name], _tested()[name]
    assert _parts(tested) >= _parts(floor), f"{name} {tested} was tested, but at least {floor} is asked for."


def test_the_conda_recipe_has_the_version_and_the_requirements_of_the_project():
    """The recipe's command line needs the extra cli too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = (ROOT / "conda" / "recipe.yaml").read_text()
    assert f'version: "{project["version"]}"' in recipe
    run = recipe.partition("  run:\n")[2].partition("\ntests:")[0]
    found = [line.removeprefix("    - ").replace(" ", "") for line in run.splitlines() if "- " in line]
    expected = ["python>=${{python_min}}", *project["dependencies"], *EXTRAS["cli"]]
    assert found == expected
    assert f'python_min: "{project["requires-python"].removeprefix(">=")}"' in recipe
