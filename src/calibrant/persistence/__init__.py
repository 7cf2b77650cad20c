"""Save and load fitted calibrators without pickle; reading a file never runs code."""

from calibrant.persistence.classifiers import load_classifier, save_classifier, trusted_types
from calibrant.persistence.reading import load, load_graph
from calibrant.persistence.writing import save

__all__ = ["load", "load_classifier", "load_graph", "save", "save_classifier", "trusted_types"]
