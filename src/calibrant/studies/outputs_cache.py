"""Cache of base outputs: one file for every key, whole or not there."""

import json
import struct
import zipfile
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import StoreError
from calibrant.persistence.replacing import replacing
from calibrant.predictions import Predictions
from calibrant.space import Space
from calibrant.studies.outputs_parts import BaseOutputs, Part
from calibrant.synthetic.task import SyntheticTask

__all__ = ["OutputsCache"]

FORMAT = 1

# What numpy and the archive raise of a file that is not whole.
DAMAGE = (
    *(OSError, EOFError, zipfile.BadZipFile, zlib.error, struct.error, ValueError, KeyError, IndexError),
    *(TypeError, AttributeError, OverflowError, NotImplementedError, RuntimeError, SyntaxError),
)


class OutputsCache:
    """Files of base outputs in a folder, which several processes may use at a time.

    Parameters
    ----------
    folder : Path
        Is made when something is put into it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    def path(self, key: str) -> Path:
        """Return where the outputs of a key are, or would be."""
        return self.folder / f"{key}.npz"

    def has(self, key: str) -> bool:
        """Tell whether there is a file for a key, without looking into it."""
        return self.path(key).is_file()

    def get(self, key: str) -> BaseOutputs | None:
        """Return the outputs of a key; None if they are not there, or not whole, and must be made anew."""
        try:
            # Opened here, since numpy leaves a file open that is not whole.
            with self.path(key).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                return _decoded({name: file[name] for name in file.files})
        except DAMAGE:
            return None

    def put(self, key: str, outputs: BaseOutputs) -> None:
        """Write outputs, which then are there as a whole; outputs of a task are not kept."""
        if isinstance(outputs.truth, SyntheticTask):
            return
        content = BytesIO()
        np.savez(content, **_encoded(outputs))  # type: ignore[arg-type]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(self.path(key)) as stream:
                stream.write(content.getbuffer())
        except OSError as error:
            raise StoreError(
                f"outputs cannot be written to {self.folder}: {error.strerror}; make room or choose another folder."
            ) from error


def _encoded(outputs: BaseOutputs) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {"test_labels": outputs.test_labels}
    spaces: list[dict[str, str]] = []
    for number, part in enumerate(outputs.parts):
        spaces.append({})
        for name in ("calibration", "test", "training"):
            predictions = getattr(part, name)
            if predictions is not None:
                arrays[f"{number}_{name}"] = predictions.scores
                spaces[-1][name] = str(predictions.space)
        arrays[f"{number}_calibration_labels"] = part.calibration_labels
        if part.training_labels is not None:
            arrays[f"{number}_training_labels"] = part.training_labels
    if outputs.truth is not None:
        assert isinstance(outputs.truth, np.ndarray)
        arrays["truth"] = outputs.truth
    facts = {
        "format": FORMAT,
        "spaces": spaces,
        "n_classes": outputs.n_classes,
        "train_seconds": outputs.train_seconds,
    }
    return {"facts": np.array(json.dumps(facts)), **arrays}


def _decoded(arrays: dict[str, NDArray[Any]]) -> BaseOutputs:
    facts = json.loads(str(arrays["facts"]))
    if facts["format"] != FORMAT:
        raise ValueError("another format")
    parts = []
    for number, spaces in enumerate(facts["spaces"]):
        scores = {
            name: Predictions(arrays[f"{number}_{name}"], Space(space)) for name, space in spaces.items()
        }
        parts.append(
            Part(
                scores["calibration"],
                arrays[f"{number}_calibration_labels"],
                scores["test"],
                scores.get("training"),
                arrays.get(f"{number}_training_labels"),
            )
        )
    return BaseOutputs(
        tuple(parts), arrays["test_labels"], facts["n_classes"], arrays.get("truth"), facts["train_seconds"]
    )
