"""Files of schema 1 of every registry name predict what they predicted when they were written."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from schema_1_builder import as_predictions, rows_of

from calibrant import load, registry

ARCHIVE = Path(__file__).parent / "schema_1" / "methods.zip"

# Probabilities may be off by so much: a rounding error or two of sums in another order.
TOLERANCES = {"float64": 1e-12, "float32": 2e-7}


def stored():
    """Return the parts of every example: the file, and the predictions by space and float type."""
    parts = {}
    with zipfile.ZipFile(ARCHIVE) as archive:
        for member in archive.namelist():
            example, _, part = member.partition("/")
            parts.setdefault(example, {})[part] = archive.read(member)
    return parts


EXAMPLES = stored()


def test_there_is_an_example_of_every_name():
    names = {example.partition(",")[0] for example in EXAMPLES}
    assert names <= set(registry.calibrators())
    assert len(names) == 52  # as many as there were


@pytest.mark.parametrize("example", sorted(EXAMPLES))
def test_an_old_file_predicts_as_it_did(example, tmp_path):
    parts = dict(EXAMPLES[example])
    path = tmp_path / "calibrator.npz"
    path.write_bytes(parts.pop("calibrator.npz"))
    loaded = load(path)
    for part, content in parts.items():
        space, _, kind = part.removesuffix(".npy").partition("-")
        expected = np.load(io.BytesIO(content))
        rows = rows_of(expected.shape[1], space, kind)
        predicted = loaded.predict_proba(as_predictions(rows, space))
        assert predicted.dtype == expected.dtype
        np.testing.assert_allclose(predicted, expected, rtol=0, atol=TOLERANCES[kind], err_msg=part)
