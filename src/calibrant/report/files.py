"""A text that takes the place of a file only when it is whole."""

import os

from calibrant.persistence.replacing import replacing

__all__ = ["written"]


def written(text: str, path: str | os.PathLike[str] | None) -> str:
    """Write a text in UTF-8 to ``path``, if there is one, and return it."""
    if path is not None:
        with replacing(path) as stream:
            stream.write(text.encode("utf-8"))
    return text
