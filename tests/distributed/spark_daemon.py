"""Parent of Spark's Python workers that has imported what they need, so that each starts in no time."""

import pandas  # noqa: F401
import pyarrow  # noqa: F401

import calibrant.distributed.evaluation
import calibrant.distributed.fitting
import calibrant.distributed.prediction  # noqa: F401

if __name__ == "__main__":
    from pyspark.daemon import manager

    manager()
