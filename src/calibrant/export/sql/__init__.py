"""SQL: a fitted calibrator as one query, for the dialects of several systems."""

from calibrant.export.sql.query import DIALECTS, sql_of

__all__ = ["DIALECTS", "sql_of"]
