"""Files of predictions: read and write CSV, Parquet, Feather and NPZ, completely or batch by batch."""

from calibrant.tables.opening import open_source
from calibrant.tables.rewriting import rewrite
from calibrant.tables.table import PredictionFile, Table, read_predictions

__all__ = ["PredictionFile", "Table", "open_source", "read_predictions", "rewrite"]
