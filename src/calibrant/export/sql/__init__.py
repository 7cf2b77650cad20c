"""SQL exports: a fitted calibrator as one query, in several dialects."""

from calibrant.export.sql.query import DIALECTS, sql_of

__all__ = ["DIALECTS", "sql_of"]
