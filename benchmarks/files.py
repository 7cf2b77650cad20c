"""CPU time and peak memory of commands on files, as ratios to reading, to copying, and to DuckDB.

    python benchmarks/files.py                  # 5,000,000 rows of 10 classes
    python benchmarks/files.py --rows 200000 --formats parquet

Every step runs in a process of its own. CPU seconds are user and system time of that process, less those of the same step on
1,000 rows, which are start-up and imports. Peak memory is the largest resident set. Needs calibrant[cli] and duckdb.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CLASSES = 10
BATCH = 100_000
COLUMNS = [f"p_{number}" for number in range(CLASSES)]
FORMATS = ("parquet", "csv")
METHODS = ("temperature", "shared-matrix", "isotonic")
SMALL = (
    "--version",
    "--help",
    "evaluate --help",
    "methods",
    "evaluate small.csv --space probabilities --no-tests",
)

CALIBRANT = "from calibrant.cli.main import main; main(sys.argv[1:])"
COMMON = "--label label --space probabilities --columns p_*"
READ = {
    "parquet": "from pyarrow import parquet; table = parquet.read_table(sys.argv[1])",
    "csv": "from pyarrow import csv; table = csv.read_csv(sys.argv[1])",
}
WRITE = {
    "parquet": "parquet.write_table(table, sys.argv[2])",
    "csv": "csv.write_csv(table, sys.argv[2])",
}
# The confidence ECE with 15 bins, and the log-loss.
SQL = """
WITH rows AS (SELECT label, list_value({columns}) AS p FROM '{path}'),
     scored AS (SELECT list_max(p) AS s, list_position(p, list_max(p)) - 1 = label AS hit, p[label + 1] AS q FROM rows),
     bins AS (SELECT least(floor(s * 15), 14) AS b, count(*) AS n, abs(sum(hit::DOUBLE) - sum(s)) AS gap FROM scored GROUP BY b)
SELECT (SELECT sum(gap) / sum(n) FROM bins), (SELECT avg(-ln(q)) FROM scored)
"""
DUCKDB = """
import duckdb
connection = duckdb.connect()
connection.execute('SET threads = 1')
connection.execute('SET enable_progress_bar = false')
print('{:.6f} {:.6f}'.format(*connection.execute(sys.argv[1]).fetchone()))
"""


def make(folder: Path, name: str, n_rows: int) -> None:
    """Write the same over-confident predictions as Parquet and as CSV, batch by batch."""
    import numpy as np
    import pyarrow
    from pyarrow import csv, parquet

    generator = np.random.default_rng(0)
    schema = pyarrow.schema(
        [("label", pyarrow.int64()), *((column, pyarrow.float32()) for column in COLUMNS)]
    )
    with (
        parquet.ParquetWriter(folder / f"{name}.parquet", schema) as one,
        csv.CSVWriter(
            folder / f"{name}.csv", schema, write_options=csv.WriteOptions(quoting_style="none")
        ) as other,
    ):
        for start in range(0, n_rows, BATCH):
            size = min(BATCH, n_rows - start)
            logits = 2 * generator.normal(size=(size, CLASSES))
            labels = (0.6 * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
            p = np.exp(logits)
            p = (p / p.sum(axis=1, keepdims=True)).astype(np.float32)
            table = pyarrow.table([labels, *(np.ascontiguousarray(column) for column in p.T)], schema=schema)
            one.write_table(table)
            other.write_table(table)


def measured(program: str, *arguments: str, folder: Path) -> tuple[float, float, float, str]:
    """Return CPU seconds, wall seconds, peak memory in MB and output of a Python program."""
    command = [sys.executable, "-c", f"import sys\n{program}", *arguments]
    began = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)} ended with exit code {process.returncode}:\n{output}")
    return (
        usage.ru_utime + usage.ru_stime,
        time.perf_counter() - began,
        usage.ru_maxrss / 1024,
        output,
    )


class Table:
    """Prints a line for each step, with the ratio to the floor."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        print(f"  {'':<34}{'CPU s':>8}{'ratio':>8}{'wall s':>8}{'peak MB':>9}")

    def add(self, name: str, program: str, *arguments: str, floor: float | None = None) -> float:
        """Run a step, print its line and return its CPU seconds."""
        started = measured(
            program, *(text.replace("rows.", "few.") for text in arguments), folder=self.folder
        )[0]
        cpu, wall, memory, output = measured(program, *arguments, folder=self.folder)
        cpu -= started
        ratio = "" if floor is None else f"{cpu / floor:8.2f}"
        result = output.strip() if "duckdb" in program else ""
        print(f"  {name:<34}{cpu:8.2f}{ratio:>8}{wall:8.2f}{memory:9.0f}  {result}", flush=True)
        return cpu


def run(folder: Path, n_rows: int, formats: list[str], methods: list[str]) -> None:
    """Print the tables."""
    for kind in formats:
        path = f"rows.{kind}"
        size = (folder / path).stat().st_size / 2**20
        print(f"\n{n_rows:,} x {CLASSES}, {kind}, {size:,.0f} MB")
        table = Table(folder)
        read = table.add("pyarrow: read", READ[kind], path)
        copied = table.add("pyarrow: read and write", f"{READ[kind]}; {WRITE[kind]}", path, f"copy.{kind}")
        query = SQL.format(columns=", ".join(COLUMNS), path=path)
        sql = table.add("DuckDB: ECE and log-loss", DUCKDB, query)
        floor = max(read, sql)
        table.add("calibrant evaluate", CALIBRANT, "evaluate", path, *COMMON.split(), "--stream", floor=floor)
        for method in methods:
            fit = ["fit", path, *COMMON.split(), "--method", method, "-o", f"{method}.npz"]
            table.add(f"calibrant fit, {method}", CALIBRANT, *fit, floor=read)
        for method in methods:
            apply = ["apply", path, "--calibrator", f"{method}.npz", "-o", f"out.{kind}"]
            table.add(f"calibrant apply, {method}", CALIBRANT, *apply, floor=copied)
    print(
        "\nratio: evaluate to the larger of pyarrow's read and DuckDB, fit to the read, apply to the read and write"
    )
    print(
        f"\n  {'CPU seconds of small commands, with all imports':<68}{'CPU s':>8}{'wall s':>8}{'peak MB':>9}"
    )
    (folder / "small.csv").write_text("y,a,b\n" + "0,0.9,0.1\n1,0.2,0.8\n0,0.7,0.3\n" * 40)
    for line in SMALL:
        cpu, wall, memory, _ = measured(CALIBRANT, *line.split(), folder=folder)
        print(f"  calibrant {line:<58}{cpu:8.2f}{wall:8.2f}{memory:9.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--folder", type=Path, help="Folder for the files [a temporary one].")
    parser.add_argument("--formats", nargs="*", default=FORMATS, choices=FORMATS)
    parser.add_argument("--methods", nargs="*", default=METHODS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "rows.csv").exists():
            # In a process of its own: a child starts with the peak memory of its parent.
            for name, n_rows in (("rows", given.rows), ("few", 1000)):
                program = f"import files; from pathlib import Path; files.make(Path(sys.argv[1]), {name!r}, {n_rows})"
                measured(program, str(folder.resolve()), folder=Path(__file__).parent)
        run(folder, given.rows, given.formats, given.methods)


if __name__ == "__main__":
    main()
