"""Toys are known to files as plug-ins would be."""

import pytest
from methods import TOYS

from calibrant import registry


@pytest.fixture(autouse=True)
def toys_among_the_classes(monkeypatch):
    classes = registry._classes() | {toy.__name__: toy for toy in TOYS.values()}
    monkeypatch.setattr(registry, "_classes", lambda: classes)
