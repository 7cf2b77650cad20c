"""Dirichlet calibration with the plain L2 penalty of the paper's program: all weights and intercepts shrink to zero."""

from typing import Any

from calibrant import DirichletCalibration
from calibrant.calibrators.scaling.affine import Strength

__all__ = ["PlainL2"]


class PlainL2(DirichletCalibration):
    r"""Dirichlet calibration with the penalty :math:`\lambda (\lVert W \rVert^2 + \lVert b \rVert^2)`.

    As in all of this library's fits, a map that would be worse than none on the calibration rows is none: a penalty so
    strong that the predictions would become uniform leaves them as they are.

    Examples
    --------
    >>> fitted = PlainL2(reg_lambda=0.01).fit([[0.9, 0.1], [0.2, 0.8]] * 10, [0, 1, 0, 0] * 5)
    >>> fitted.predict_proba([[0.2, 0.8]]).round(2)
    array([[0.51, 0.49]])
    """

    registry_names = {}  # noqa: RUF012 (none: it is of this study alone)

    def __init__(self, reg_lambda: Strength = "auto", cv: Any = 5, average_folds: bool = True) -> None:
        super().__init__("l2", reg_lambda, None, cv, average_folds, "zero")
