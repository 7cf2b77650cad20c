"""Exports: a fitted calibrator as a file that other systems run, from the graph of its map."""

from calibrant.export.backend import Backend, Exportable, backends
from calibrant.export.exporting import export, exportable
from calibrant.export.onnx.attaching import attach
from calibrant.export.parity import Parity, verify
from calibrant.export.torch import to_torch

__all__ = [
    "Backend",
    "Exportable",
    "Parity",
    "attach",
    "backends",
    "export",
    "exportable",
    "to_torch",
    "verify",
]
