"""Settings and versions that reproduce the numbers."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from calibrant.report.contents import Repeatability

__all__ = ["repeatability"]

PACKAGES = ("calibrant", "numpy", "scipy", "scikit-learn")


def repeatability(settings: dict[str, Any], seconds: dict[str, float]) -> Repeatability:
    """Return settings as text, package versions, and the run time of each step."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return Repeatability(
        {name: str(value) for name, value in settings.items()},
        versions,
        {part: round(taken, 3) for part, taken in seconds.items()},
    )
