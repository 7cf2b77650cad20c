"""ONNX: fitted maps as models of the default operator domain, alone or at the end of a classifier's model."""

from calibrant.export.backend import Backend
from calibrant.export.onnx.model import metadata, run, write

__all__ = ["BACKEND"]

BACKEND = Backend("ONNX", (".onnx",), "onnx", write, run, metadata, dtype="float32")
