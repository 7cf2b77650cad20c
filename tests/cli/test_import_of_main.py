"""The entry point itself needs nothing but the library."""

import ast
from pathlib import Path

import calibrant.cli.main


def test_main_imports_no_extra():
    tree = ast.parse(Path(calibrant.cli.main.__file__).read_text(encoding="utf-8"))
    modules = {node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert modules.isdisjoint({"click", "rich", "pyarrow", "jinja2", "matplotlib"})
