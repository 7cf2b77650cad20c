"""Files of predictions: read and write CSV, Parquet, NPZ and others, completely or batch by batch."""

from calibrant.tables.file_set import open_source
from calibrant.tables.formats import Format, formats
from calibrant.tables.formats.csv import Dialect
from calibrant.tables.prediction_file import PredictionFile, Table, read_predictions
from calibrant.tables.rewriting import rewrite

__all__ = [
    "Dialect",
    "Format",
    "PredictionFile",
    "Table",
    "formats",
    "open_source",
    "read_predictions",
    "rewrite",
]
