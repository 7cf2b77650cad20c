"""Three ways to make one-vs-rest probabilities sum to one, compared on rows that were not used for the fit.

Reads the sets of ``baselines.py`` and two more. Prints log-loss, Brier score and classwise-ECE (15 bins of equal width) for
division by the sum, a common shift of the log-odds, and projection in least squares. Usage::

    python benchmarks/normalisations.py [--sets ...] [--bases platt beta isotonic venn-abers]
"""

import argparse
import warnings

from baselines import SETS, halves

from calibrant import OneVsRest, registry
from calibrant.calibrators.reductions.one_vs_rest import NORMALISATIONS
from calibrant.metrics import brier_score, classwise_ece, log_loss


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=[*SETS, "other/hpc_cv", "other/labelerrors_20news"])
    parser.add_argument("--bases", nargs="+", default=["platt", "beta", "isotonic", "venn-abers"])
    arguments = parser.parse_args()
    for name in arguments.sets:
        calibration, calibration_labels, test, test_labels = halves(name)
        print(f"\n{name}: {calibration.n_rows:,} calibration and {test.n_rows:,} test rows")
        print(f"  {'base':14s}{'normalisation':16s}{'log-loss':>9s}{'Brier':>9s}{'class-ECE':>11s}")
        for base in arguments.bases:
            for normalisation in NORMALISATIONS:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    fitted = OneVsRest(registry.make(base), normalisation).fit(
                        calibration, calibration_labels
                    )
                p = fitted.transform(test)
                print(
                    f"  {base:14s}{normalisation:16s}{log_loss(test_labels, p):9.5f}"
                    f"{brier_score(test_labels, p):9.5f}{classwise_ece(test_labels, p):11.6f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
