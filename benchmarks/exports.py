"""Exports beside predict_proba in one run: ONNX Runtime and torch, one thread each.

Usage::

    python benchmarks/exports.py [--sizes 5000x10,100000x10] [--methods temperature,isotonic] [--dtype float32]

CPU milliseconds of this process, the least of several repetitions with all forms in turn.
"""

import argparse
import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnxruntime
import torch
from prediction import problem
from threadpoolctl import threadpool_limits

from calibrant import Predictions, registry
from calibrant.numerics.row_blocks import one_thread

METHODS = "temperature,vector,matrix-odir,platt,beta,isotonic,iop-diagonal,ets,auto"
N_CALIBRATION_ROWS = 2000


def forms(calibrator, scores, folder: Path, dtype: str):
    """Return functions without arguments: predict_proba, ONNX Runtime, torch."""
    path = folder / "calibrator.onnx"
    calibrator.export(path, dtype=dtype)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options)
    module, tensor = calibrator.to_torch(), torch.from_numpy(scores)
    predictions = Predictions.from_logits(scores)

    def in_torch():
        with torch.inference_mode():
            return module(tensor).numpy()

    return {
        "predict_proba": lambda: calibrator.predict_proba(predictions),
        "ONNX": lambda: session.run(None, {"scores": scores})[0],
        "torch": in_torch,
    }


def measured(calls, repetitions: int) -> dict[str, float]:
    best = dict.fromkeys(calls, np.inf)
    for _ in range(repetitions):
        for name, call in calls.items():
            start = time.process_time()
            call()
            best[name] = min(best[name], 1000 * (time.process_time() - start))
    return best


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", default="5000x10,100000x10")
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--repetitions", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"{'method':16s}{'rows x classes':>16s}{'predict_proba':>15s}{'ONNX':>9s}{'torch':>9s}   difference"
    )
    for size in arguments.sizes.split(","):
        n_rows, n_classes = map(int, size.split("x"))
        logits, labels = problem(N_CALIBRATION_ROWS, n_classes)
        scores = problem(n_rows, n_classes, 1)[0].astype(arguments.dtype)
        for method in arguments.methods.split(","):
            with (
                warnings.catch_warnings(),
                TemporaryDirectory() as folder,
                threadpool_limits(1),
                one_thread(),
            ):
                warnings.simplefilter("ignore")
                fitted = registry.make(method).fit(Predictions.from_logits(logits), labels)
                calls = forms(fitted, scores, Path(folder), arguments.dtype)
                expected, *others = (call() for call in calls.values())
                difference = max(np.abs(other - expected).max() for other in others)
                best = measured(calls, arguments.repetitions)
            print(
                f"{method:16s}{size:>16s}{best['predict_proba']:13.2f}ms{best['ONNX']:7.2f}ms{best['torch']:7.2f}ms"
                f"   {difference:.1e}",
                flush=True,
            )


if __name__ == "__main__":
    main()
