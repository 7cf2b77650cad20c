"""Save and load fitted calibrators without pickle; reading a file never runs code."""

from calibrant.persistence.reading import load
from calibrant.persistence.writing import save

__all__ = ["load", "save"]
