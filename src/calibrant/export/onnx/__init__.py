"""ONNX exports: fitted maps as models of the default operator domain, alone or appended to a classifier."""

from calibrant.export.backend import Backend
from calibrant.export.onnx.model import metadata, run, write

__all__ = ["BACKEND"]

BACKEND = Backend("ONNX", (".onnx",), "onnx", write, run, metadata, dtype="float32")
