"""Section "Terms": every term and every method of the report in one line."""

from calibrant import registry
from calibrant.presentation import Facts, Paragraph, Section
from calibrant.report.sections import Assessment, section_at

__all__: list[str] = []

TEXT = """
Accuracy: Fraction of rows whose predicted class is the true class.
Adjusted p-value: P-value multiplied so that all tests together reject calibrated predictions at the level.
AUROC: Probability that a row with the event has a higher score than a row without it.
Brier score: Mean squared distance between the probabilities and the true class; lower is better.
Calibrated: Of all rows with a predicted probability of 80 %, the event occurs in 80 %.
Calibration set: Rows to which a calibrator is fitted; the classifier was not trained on them.
Class frequency: Fraction of rows of a class.
Classwise ECE: Mean over all classes of the ECE of the probability of each class.
Confidence: Probability of the predicted class, the largest of a row.
Confidence interval: Range that contains the true value in 95 % of repetitions, if the level is 95 %.
Coverage: Fraction of rows that are decided; the others are referred.
Cross-validation: Fit on all folds but one and measure on that one, so that all rows are held out once.
Cumulative difference: Sum of outcomes minus probabilities over the rows in the order of their scores.
Debiased: With the expected effect of noise subtracted.
Discrimination: Part of the loss that differences between the predictions save.
ECE: Expected calibration error: mean difference of confidence and accuracy over bins of the confidence.
Held-out rows: Rows that a fit has not seen.
In the large: Mean probability of a class minus its frequency.
Isotonic curve: Observed frequency as a function of the score that never decreases.
Kuiper statistic: Largest difference of outcomes and probabilities over any interval of scores.
L1 error: Mean absolute difference of the probability and the frequency given that probability.
Log-loss: Mean of minus the logarithm of the probability of the true class, in nats; lower is better.
Log-odds: Logarithm of p / (1 - p); 0 for a probability of one half.
Lower bound: Value that the error exceeds with a confidence of 95 %, if the level is 95 %.
Miscalibration: Part of the loss that a calibrator can remove.
Nat: Unit of the log-loss; one nat is a factor of 2.7 in the probability of the true class.
Net benefit: Gain of acting above a threshold: true positives minus false ones at the odds of the threshold.
Over-confident: Probabilities are more extreme than the frequencies; too extreme, for a class.
P-value: Probability of data at least as extreme if the predictions were calibrated.
Points: Percentage points: from 70 % to 75 % are five.
Power: Probability that a test rejects if there is an error of the given size.
Predicted class: Class with the largest probability of a row.
Refinement: Loss that remains after recalibration.
Reliability diagram: Observed frequency by predicted probability; calibrated predictions are on the diagonal.
Segment: Rows with the same values of side columns, such as a region.
Slope: Factor of the log-odds that fits best; below 1 if probabilities are too extreme.
Smooth ECE: Calibration error with a Gaussian kernel in place of bins.
Standard error: Standard deviation of an estimate over repetitions.
Too timid: Probabilities of a class are not extreme enough.
Uncertainty: Loss of predicting the class frequencies for every row.
Under-confident: Probabilities are less extreme than the frequencies.
"""

TERMS = tuple((term, text) for term, _, text in (line.partition(": ") for line in TEXT.strip().splitlines()))
"""Terms of the field in alphabetic order, each in one line."""


@section_at(200)
def terms_section(assessment: Assessment) -> Section:
    """Return the section with the terms of the field and the methods that were tried."""
    known = registry.calibrators()
    names = [row.name for row in assessment.recommendation.methods]
    methods = tuple(
        (name, registry.about(registry.make(name), parameters_too=False))
        for name in names
        if all(part in known for part in name.split("+"))
    )
    lead = Paragraph("Every term of this page in one line.", "lead")
    tried = (Facts(methods, "Methods"),) if methods else ()
    return Section("terms", "Terms", (lead, Facts(TERMS), *tried))
