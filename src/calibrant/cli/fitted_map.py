"""Describe a fitted calibrator: its map, from the graph, and the parameters chosen by cross-validation."""

from calibrant.calibrator import Calibrator
from calibrant.calibrators import Chain
from calibrant.errors import NoGraphError
from calibrant.graph.description import described
from calibrant.wording import shortened

__all__ = ["fitted_map"]

# With more operations than this, a graph is only summarised.
MOST_SENTENCES = 8


def fitted_map(calibrator: Calibrator, longest_name: int | None = None) -> list[str]:
    """Return sentences on a fitted calibrator, with class names shortened to a given length."""
    explanation = getattr(calibrator, "explanation_", None)
    if explanation:
        return [str(explanation)]
    names = [str(label) for label in calibrator.classes_.tolist()]
    if longest_name is not None:
        names = [shortened(name, longest_name) for name in names]
    try:
        graph = calibrator.graph()
    except NoGraphError:
        return _chosen(calibrator)
    sentences = described(graph, names)
    if not 0 < len(sentences) <= MOST_SENTENCES:
        sentences = [f"A map of {len(graph.nodes)} operations; graph() lists them."]
    return [*sentences, *_chosen(calibrator)]


def _chosen(calibrator: Calibrator) -> list[str]:
    """Return the parameters given as a grid or "auto", with the values selected by the fit."""
    parts = calibrator.calibrators_ if isinstance(calibrator, Chain) else [calibrator]
    found = [
        f"{name} {value:.4g}"
        for part in parts
        for name, given in part.get_params(deep=False).items()
        if not isinstance(given, int | float)
        and isinstance(value := getattr(part, f"{name}_", None), int | float)
        and not isinstance(value, bool)
    ]
    return [f"Chosen by cross-validation: {', '.join(found)}."] if found else []
