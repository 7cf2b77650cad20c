"""Pages of folders whose files say what they export; ``make pages`` writes them.

In these folders ``__all__`` of a file lists the names for users, and ``__init__.py`` imports and lists those of all files.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "calibrant"

FOLDERS = ("metrics", "plots")


def listed(tree: ast.Module) -> list[str]:
    """Return ``__all__`` of a file."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value) if value:
                return list(ast.literal_eval(value))
            case ast.AnnAssign(target=ast.Name(id="__all__"), value=value) if value:
                return list(ast.literal_eval(value))
    return []


def exported(folder: str) -> dict[str, list[str]]:
    """Return module -> the names that it exports, for every file of a folder."""
    found = {}
    for path in sorted((PACKAGE / folder).rglob("*.py")):
        if path.name != "__init__.py":
            module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
            found[module] = sorted(listed(ast.parse(path.read_text(encoding="utf-8"))))
    return {module: names for module, names in found.items() if names}


def imported(folder: str) -> dict[str, list[str]]:
    """Return module -> the names that the page of a folder imports from it and lists."""
    tree = ast.parse((PACKAGE / folder / "__init__.py").read_text(encoding="utf-8"))
    names = set(listed(tree))
    return {
        node.module or "": sorted(name.name for name in node.names if name.name in names)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
    }


def problems() -> Iterator[str]:
    """Yield a sentence for every page that is not up to date."""
    for folder in FOLDERS:
        of_files, of_page = exported(folder), imported(folder)
        for module in sorted(of_files.keys() | of_page.keys()):
            missing = sorted({*of_files.get(module, ())} ^ {*of_page.get(module, ())})
            if missing:
                yield (
                    f"{folder}/__init__.py and __all__ of {module} differ in {', '.join(missing)}; run `make pages`, "
                    "or remove from __all__ of the file what is not for users."
                )


def write(folder: str) -> None:
    """Write the imports and ``__all__`` of a page; the docstring stays."""
    path = PACKAGE / folder / "__init__.py"
    text = path.read_text(encoding="utf-8")
    docstring = ast.parse(text).body[0]
    lines = text.splitlines()[: docstring.end_lineno]
    of_files = exported(folder)
    lines += ["", *(f"from {module} import {', '.join(names)}" for module, names in of_files.items())]
    every = sorted(name for names in of_files.values() for name in names)
    lines += ["", "__all__ = [", *(f"    {name!r}," for name in every), "]", ""]
    path.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    for each in FOLDERS:
        write(each)
