"""Write a text file atomically: an existing file is replaced only once the new one is complete."""

import os

from calibrant.persistence.replacing import replacing

__all__ = ["written"]


def written(text: str, path: str | os.PathLike[str] | None) -> str:
    """Return a text, and write it to ``path`` in UTF-8 if given."""
    if path is not None:
        with replacing(path) as stream:
            stream.write(text.encode("utf-8"))
    return text
