"""Recipes that come with the package: the studies of published papers."""

from pathlib import Path

from calibrant.studies.recipe import FILE_NAME

__all__ = ["shipped_recipes"]

HERE = Path(__file__).parent


def shipped_recipes() -> dict[str, Path]:
    """Return the folders of the recipes that come with the package, by name.

    A wheel has them in this package, a checkout in its folder ``studies``.

    >>> "kull2019-uci" in shipped_recipes()
    True
    """
    for folder in (HERE / "recipes", HERE.parents[2] / "studies"):
        found = {path.parent.name: path.parent for path in sorted(folder.glob(f"*/{FILE_NAME}"))}
        if found:
            return found
    return {}
