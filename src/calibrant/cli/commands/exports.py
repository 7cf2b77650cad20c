"""``calibrant export`` and ``calibrant verify``: a calibrator as a file for another system."""

from pathlib import Path

from calibrant import load
from calibrant.cli.console import tell
from calibrant.cli.files import check_writable
from calibrant.export import export as exported
from calibrant.export import verify as compared
from calibrant.export.backend import backend_for

__all__ = ["export", "verify"]


def export(
    calibrator: Path,
    output: Path,
    space: str | None,
    dtype: str | None,
    columns: tuple[str, ...],
    dialect: str | None,
    table: tuple[str, ...],
    keep: tuple[str, ...],
) -> None:
    """Write a saved calibrator to a file that another system runs."""
    check_writable(output, calibrator)
    backend = backend_for(output)
    given = {"dialect": dialect, "table": table, "keep": keep}
    options = {name: value for name, value in given.items() if value}
    parity = exported(load(calibrator), output, dtype=dtype, space=space, columns=columns or None, **options)
    if parity is None:
        need = f"; to check it, install calibrant[{backend.extra}]" if backend.extra else ""
        tell(f"Wrote {output} ({backend.name}), not checked{need}.")
    else:
        tell(f"Wrote {output} ({backend.name}); {parity}.")


def verify(file: Path, against: Path) -> None:
    """Compare an exported file with its calibrator."""
    parity = compared(file, load(against))
    tell(f"{file} ({parity.backend}) computes what {against} does; {parity}.")
