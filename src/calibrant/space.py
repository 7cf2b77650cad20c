"""Whether scores are probabilities or logits."""

from enum import StrEnum

__all__ = ["Space"]


class Space(StrEnum):
    """The declared type of a score array, never guessed from its values."""

    PROBABILITIES = "probabilities"
    LOGITS = "logits"
