"""Copy the recipes of the folder ``studies`` into the wheel, where ``calibrant bench list`` finds them."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithRecipes(build_py):
    """Build the package with the recipes of studies; an editable installation finds them in the checkout."""

    def run(self) -> None:
        """Build, and copy the recipes without their results."""
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib, "calibrant", "studies", "recipes")
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(
                "studies", target, ignore=shutil.ignore_patterns("results", "__pycache__", "*.sqlite")
            )


setup(cmdclass={"build_py": BuildWithRecipes})
