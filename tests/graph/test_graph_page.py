"""The page that specifies graphs names all operations."""

import re
from pathlib import Path

from every_operation import GRAPHS

from calibrant.graph import OPERATIONS

PAGE = Path(__file__).parents[2] / "docs" / "graphs.md"


def test_the_page_has_every_operation():
    """With the formula or rule in its docstring; functions of Python cannot be stored."""
    shown = re.findall(
        r"^\.\. autoclass:: (calibrant\.graph\.\w+\.\w+)$", PAGE.read_text(encoding="utf-8"), re.M
    )
    known = {
        f"{kind.__module__}.{kind.__qualname__}" for name, kind in OPERATIONS.items() if name != "opaque"
    }
    assert set(shown) == known
    assert len(shown) == len(known)


def test_there_is_a_small_graph_of_every_operation():
    assert set(GRAPHS) == set(OPERATIONS) - {"opaque"}
