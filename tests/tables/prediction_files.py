"""Files of predictions for the tests of tables: the same rows in every format."""

from pathlib import Path

import numpy as np

CLASSES = ["cat", "dog", "owl"]


def rows(n_rows: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities, (n, 3), and the names of true classes that all occur."""
    generator = np.random.default_rng(seed)
    logits = 2 * generator.normal(size=(n_rows, 3))
    noise = generator.gumbel(size=logits.shape)
    labels = (0.6 * logits + noise).argmax(axis=1)
    labels[:3] = range(3)
    p = np.exp(logits)
    return p / p.sum(axis=1, keepdims=True), np.array(CLASSES)[labels]


def write_csv(path: Path, n_rows: int = 60, seed: int = 0) -> Path:
    p, labels = rows(n_rows, seed)
    lines = ["id,animal,p_cat,p_dog,p_owl,note"]
    for number, (values, label) in enumerate(zip(p.tolist(), labels, strict=True)):
        lines.append(f"{number:03d},{label},{','.join(map(repr, values))},")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def arrow_table(n_rows: int = 60, seed: int = 0):
    """Return the same rows as an Arrow table with columns of several types."""
    import pyarrow as pa

    p, labels = rows(n_rows, seed)
    return pa.table(
        {
            "id": [f"{number:03d}" for number in range(n_rows)],
            "animal": pa.array(labels.tolist()).dictionary_encode(),
            **{f"p_{name}": p[:, k] for k, name in enumerate(CLASSES)},
            "when": pa.array(np.arange(n_rows), pa.timestamp("s")),
            "parts": pa.array([[number] for number in range(n_rows)]),
            "maybe": pa.array([None if number % 2 else number for number in range(n_rows)], pa.int32()),
        }
    )


def write(path: Path, n_rows: int = 60, seed: int = 0) -> Path:
    """Write the rows in the format of the ending."""
    if path.suffix == ".csv":
        return write_csv(path, n_rows, seed)
    if path.suffix == ".npz":
        p, labels = rows(n_rows, seed)
        np.savez(path, probs=p, animal=labels, classes=np.array(CLASSES), extra=np.arange(n_rows))
        return path
    from pyarrow import feather, parquet

    table = arrow_table(n_rows, seed)
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=17)
    else:
        feather.write_feather(table, path, chunksize=17)
    return path
