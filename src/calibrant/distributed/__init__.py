"""Fit, evaluate and apply calibrators where the rows are: partitions of files, of DuckDB, Dask and Spark."""

from calibrant.distributed.fitting import fit

__all__ = ["fit"]
