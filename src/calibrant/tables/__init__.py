"""Files of predictions: CSV, Parquet, Feather and NPZ, read and written as wholes or batch by batch."""

from calibrant.tables.opening import open_source
from calibrant.tables.rewriting import rewrite
from calibrant.tables.table import PredictionFile, Table, read_predictions

__all__ = ["PredictionFile", "Table", "open_source", "read_predictions", "rewrite"]
