"""What the numbers of a classifier mean."""

from enum import StrEnum

__all__ = ["Space"]


class Space(StrEnum):
    """The declared meaning of a score array; never guessed from its values."""

    PROBABILITIES = "probabilities"
    LOGITS = "logits"
