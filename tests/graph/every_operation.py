"""Small graphs as plain data: one for every operation, with two or three columns and sound parameters."""

import numpy as np


def plain(columns, *operations):
    """Return a graph of operations, each given as its name, its sources and its parameters."""
    return {
        "columns": columns,
        "space": "probabilities",
        "output_space": "probabilities",
        "operations": [
            {"operation": name, "of": list(sources)} | parameters for name, sources, parameters in operations
        ],
    }


PIECEWISE = {
    "knots": np.array([0.2, 0.6, 0.1]),
    "n_knots": np.array([2, 1]),
    "origins": np.zeros(5),
    "coefficients": np.arange(10.0).reshape(2, 5),
    "lower": np.array([-np.inf, 0, 0, 0, 0]),
    "upper": np.full(5, 8.0),
    "closed": "right",
}

TREES = {
    "n_splits": np.array([2, 0]),
    "columns": np.array([0, 1]),
    "thresholds": np.array([0.5, 0.4]),
    "children": np.array([[1, -1], [-2, -3]]),
    "values": np.arange(8.0).reshape(4, 2) / 10,
}

GRAPHS = {
    "affine": plain(2, ("affine", [0], {"scale": np.array([2.0, 3.0]), "shift": 0.5})),
    "arithmetic": plain(2, ("arithmetic", [0, 0], {"function": "divide"})),
    "bound-gaps": plain(2, ("bound-gaps", [0], {})),
    "clip": plain(2, ("clip", [0], {"low": np.array([0.1, 0.2]), "high": np.array(np.inf)})),
    "columns": plain(3, ("columns", [0], {"columns": np.array([2, 0])})),
    "constant": plain(
        2, ("constant", [0], {"numbers": np.array([0.5])}), ("join", [0, 1], {"columns": np.arange(3)})
    ),
    "cumulative-sum": plain(3, ("cumulative-sum", [0], {})),
    "dense": plain(2, ("dense", [0], {"weights": np.ones((2, 3)), "intercept": np.zeros(3)})),
    "first-of-least": plain(3, ("first-of-least", [0], {"tolerance": 1e-9})),
    "floor": plain(2, ("floor", [0], {"floor": 1e-9, "only_zeros": False})),
    "function": plain(2, ("function", [0], {"function": "sigmoid"})),
    "join": plain(2, ("join", [0, 0], {"columns": np.array([3, 1, 0, 2])})),
    "log": plain(2, ("log", [0], {"floor": 1e-38})),
    "log-softmax": plain(2, ("log-softmax", [0], {})),
    "mixture": plain(2, ("widen", [0], {}), ("mixture", [0, 1], {"weights": np.array([0.3, 0.7])})),
    "narrow": plain(2, ("widen", [0], {}), ("narrow", [1], {"keep_positive": True})),
    "normalise": plain(3, ("normalise", [0, 0], {"how": "shift"})),
    "piecewise": plain(2, ("piecewise", [0], PIECEWISE)),
    "ramps": plain(2, ("ramps", [0], {"knots": np.array([0.2, 0.5]), "slopes": np.array([1.0, 2.0, 3.0])})),
    "rest-of-classes": plain(3, ("rest-of-classes", [0], {"logits": False})),
    "rest-of-largest": plain(3, ("rest-of-largest", [0], {"logits": True})),
    "restore": plain(
        2, ("affine", [0], {"scale": 2.0, "shift": 0.0}), ("restore", [1, 0], {"kept": "order"})
    ),
    "restrict": plain(3, ("restrict", [0], {"columns": np.array([0, 1])})),
    "row-reduce": plain(
        3, ("row-reduce", [0], {"function": "mean"}), ("arithmetic", [0, 1], {"function": "add"})
    ),
    "set-largest": plain(2, ("set-largest", [0, 0], {"logits": True, "floor": 1e-9})),
    "softmax": plain(2, ("softmax", [0], {}), ("restore", [1, 0], {"kept": "argmax"})),
    "sort-descending": plain(3, ("sort-descending", [0], {"n_largest": 2})),
    "switch": plain(
        2,
        (
            "switch",
            [0, 0],
            {
                "branches": [plain(2, ("softmax", [0], {})), plain(2, ("log", [0], {"floor": 0.1}))],
                "branch_of_column": np.array([1, 0]),
            },
        ),
    ),
    "tree-means": plain(2, ("tree-means", [0], TREES)),
    "unsort": plain(3, ("sort-descending", [0], {"n_largest": 3}), ("unsort", [1, 0], {})),
    "widen": plain(2, ("widen", [0], {}), ("narrow", [1], {"keep_positive": False})),
}
