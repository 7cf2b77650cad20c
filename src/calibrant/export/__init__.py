"""Exports of fitted calibrators to ONNX, torch, SQL and JSON, from the graph of the map."""

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
