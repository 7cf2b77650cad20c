"""Fit, evaluate and apply calibrators where the rows are: partitions of files, of DuckDB, Dask and Spark."""

from calibrant.distributed.evaluation import assess, calibration_tests, evaluate
from calibrant.distributed.fitting import fit
from calibrant.distributed.prediction import predict_proba

__all__ = ["assess", "calibration_tests", "evaluate", "fit", "predict_proba"]
