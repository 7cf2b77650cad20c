"""Labels in a file of their own, next to an array of scores."""

from pathlib import Path

from calibrant.errors import FileFormatError
from calibrant.tables.array_source import ArraySource
from calibrant.tables.columns import listed
from calibrant.tables.file_set import open_source
from calibrant.tables.source import Source, usual_labels

__all__ = ["label_of"]


def label_of(source: Source, label: str | None) -> str:
    """Return the name of the labels; for an array of scores these may be in another file of arrays, such as labels.npy."""
    path = None if label is None or label in source.columns else Path(label)
    if path is None or not isinstance(source, ArraySource) or not path.is_file():
        return source.label_column(label)
    with open_source(path) as other:
        if not isinstance(other, ArraySource):
            raise FileFormatError(f"{path} is no file of arrays; give the labels as .npy, .npz or .pt.")
        usual = usual_labels(other.columns)
        names = usual if usual or len(other.columns) > 1 else list(other.columns)
        if len(names) != 1:
            raise FileFormatError(
                f"{path} has several arrays, {listed(other.columns)}; give a file with the labels alone."
            )
        source.add(path.name, other.array(names[0]).copy())
    return path.name
