"""Save and load fitted calibrators without pickle; loading never executes code from a file."""

from calibrant.persistence.bundles import (
    load_classifier,
    load_labels,
    save_classifier,
    save_labels,
    trusted_types,
)
from calibrant.persistence.reading import load, load_graph
from calibrant.persistence.writing import save

__all__ = [
    "load",
    "load_classifier",
    "load_graph",
    "load_labels",
    "save",
    "save_classifier",
    "save_labels",
    "trusted_types",
]
