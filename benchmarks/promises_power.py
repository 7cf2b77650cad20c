"""Decisions of the verdict for :mod:`promises`, with nothing that an older tree of the package lacks.

``python promises_power.py SCENARIO FIRST NUMBER`` prints how many of some simulations are rejected by the package on the path,
which is how ``promises.py --before`` asks another tree.
"""

import sys
import warnings
import zlib
from typing import Any
from unittest import mock

import numpy as np
from promises_scenarios import Draw, sizes, with_error, with_groups

from calibrant.report import evidence as module
from calibrant.report.evaluation_set import EvaluationSet

KINDS = ("over-confident", "under-confident", "shifted by 6 points", "waves of 8 points")
POWER: dict[str, Draw] = {
    **{f"{kind}, {k} classes, 500 rows": with_error(kind, k, 500) for kind in KINDS for k in (2, 4)},
    **{
        f"{kind}, {name}, 600 rows": with_groups(kind, groups)
        for name, groups in (
            ("60 equal groups", np.arange(600) % 60),
            ("20 groups, one with 70 %", sizes(20, 0.7, 600)),
        )
        for kind in KINDS[:3]
    },
}


def generator_of(text: str, place: int) -> np.random.Generator:
    """Return the source of random numbers of one simulation."""
    return np.random.default_rng([zlib.crc32(text.encode()), place])


def rejects(draw: Draw, generator: np.random.Generator) -> bool:
    """Return whether the verdict on drawn rows is miscalibrated."""
    rows = draw(generator)
    return bool(evidence_without_power(parsed(rows)).p_value <= 0.05)


def parsed(rows: Any) -> EvaluationSet:
    return EvaluationSet.parse(rows.y, rows.p, rows.weights, rows.groups)


def evidence_without_power(rows: EvaluationSet) -> Any:
    """Return the evidence without what does not decide: the simulation of power, and the test of the binned error."""
    with mock.patch.object(module, "SIMULATIONS", 1):
        if not hasattr(module, "detectable_errors"):
            return module.evidence_of(rows, rows, 0.95, 0)
        with mock.patch.object(module, "detectable_errors", return_value=()):
            return module.evidence_of(rows, rows, 0.95, 0)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    scenario, first, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    print(
        sum(
            rejects(POWER[scenario], generator_of(f"power | {scenario}", place))
            for place in range(first, first + number)
        )
    )
