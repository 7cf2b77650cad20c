"""The shape of the package: who may import whom, and what each method brings along."""

import ast
import inspect
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import calibrant
import calibrant.calibrators
import pages
from calibrant import Calibrator

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "calibrant"
BIBLIOGRAPHY = ROOT / "docs" / "references.bib"

# From left to right: a file imports from its own layer and from those before it. A package stands for
# all that is inside.
LAYERS = [
    {
        "arrays",
        "errors",
        "options",
        "presentation",
        "shared_parameters",
        "notices",
        "remedies",
        "tabular",
        "fit_cost",
        "segments",
        "agreement",
    },
    {"numerics"},
    {"space", "origin", "predictions", "labels", "labelled_predictions", "label_matrix"},
    {"graph"},
    {"objective", "solvers", "binning"},
    {"calibrator", "batches"},
    {"registry"},
    {"calibrators", "metrics"},
    {
        "persistence",
        "export",
        "intervals",
        "ranking",
        "conventions",
        "multicalibration",
        "scorers",
        "streaming",
        "synthetic",
        "online",
        "active",
        "tables",
    },
    {"hypothesis_tests", "comparison", "plots", "mlflow"},
    {"report", "studies", "distributed"},
    {"cli", "demo"},
]
LEVELS = {module: level for level, modules in enumerate(LAYERS) for module in modules}
STRANGERS = [{"calibrators", "metrics"}]

# The only imports inside functions within the package; each breaks a cycle that is there for a reason.
DEFERRED = {
    ("calibrator", "persistence"),  # save() is a method, and a file can hold any calibrator
    ("calibrator", "export"),
    ("calibrators", "persistence"),  # so that a classifier is saved as a calibrator is
    ("registry", "calibrators"),  # the list of names is found, not kept
    ("registry", "metrics"),
    ("calibrators", "registry"),  # a combinator takes its parts by name
}

# Name on the package index of a module that is imported under another name.
DISTRIBUTIONS = {"sklearn": "scikit-learn", "mlflow": "mlflow-skinny"}

LONGEST_FILE = 600


class Import(NamedTuple):
    """One import statement of a file."""

    module: str
    line: int
    deferred: bool
    names: tuple[str, ...] = ()


def report(problems: Iterable[str]) -> None:
    """Fail with all problems at once, each a sentence that says what to do."""
    found = list(problems)
    if found:
        pytest.fail("\n" + "\n".join(found), pytrace=False)


def shown(path: Path, line: int | None = None) -> str:
    where = path.relative_to(PACKAGE).as_posix()
    return where if line is None else f"{where}:{line}"


FILES = sorted(PACKAGE.rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    """Return a file, parsed when a test first asks for it."""
    return ast.parse(path.read_text(encoding="utf-8"))


def module_of(path: Path) -> str:
    """Return the dotted name under which a file is imported."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


def part_of(path: Path) -> str:
    """Return the first folder or module below the package; empty for the package's own page."""
    part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if part in ("__init__", "__main__") else part


@cache
def imports_of(path: Path) -> tuple[Import, ...]:
    return tuple(_imports_of(path))


def statements(node: ast.AST, deferred: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Yield every statement below a node, and whether it is inside a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield child, deferred
            yield from statements(
                child, deferred or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            )


def _imports_of(path: Path) -> Iterator[Import]:
    for node, deferred in statements(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (Import(name.name, node.lineno, deferred) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.module == "calibrant":
                for name in node.names:
                    yield Import(f"calibrant.{home_of(name.name)}", node.lineno, deferred)
            else:
                yield Import(
                    node.module or "", node.lineno, deferred, tuple(name.name for name in node.names)
                )


def home_of(name: str) -> str:
    """Return the part of the package in which a name that the package re-exports lives."""
    if name in LEVELS:
        return name
    return inspect.getmodule(getattr(calibrant, name)).__name__.split(".")[1]


def imports_within() -> Iterator[tuple[Path, str, Import]]:
    """Yield file, imported part and statement of every import within the package."""
    for path in FILES:
        for statement in imports_of(path):
            if statement.module.startswith("calibrant."):
                yield path, statement.module.split(".")[1], statement


def modules_imported(path: Path) -> set[str]:
    """Return the modules of the package that a file imports, at its top or inside functions."""
    named = {
        name
        for statement in imports_of(path)
        for name in (statement.module, *(f"{statement.module}.{part}" for part in statement.names))
    }
    return named & MODULES.keys()


# Packages of which every file but the first one needs an extra; that one says so where the extra is missing.
NEED_AN_EXTRA = {"cli": "main.py", "export/torch": "__init__.py"}


# Hard requirements of scikit-learn since long ago; the core itself declares three packages and no more.
BROUGHT_BY_SCIKIT_LEARN = {"threadpoolctl", "joblib"}


def declared_dependencies(extras: bool) -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"].values() if extras else []
    lines = [*project["dependencies"], *(line for group in optional for line in group)]
    return {re.match(r"[\w-]+", line).group().lower() for line in lines}


# Files


def test_imports_are_absolute():
    report(
        f"{shown(path, node.lineno)} imports relatively; write the full name."
        for path in FILES
        for node, _ in statements(tree_of(path))
        if isinstance(node, ast.ImportFrom) and node.level
    )


def test_every_part_of_the_package_has_a_layer():
    report(
        f"{part} is in no layer; give it a place in LAYERS of tests/test_structure.py."
        for part in sorted({part_of(path) for path in FILES} - LEVELS.keys() - {""})
    )


def test_a_file_imports_only_from_its_own_layer_and_lower_ones():
    def problems() -> Iterator[str]:
        for path, imported, statement in imports_within():
            part = part_of(path)
            if not part or (statement.deferred and (part, imported) in DEFERRED):
                continue  # the page of the package opens every layer to the user
            where = f"{shown(path, statement.line)} imports {statement.module}"
            if imported not in LEVELS:
                yield f"{where}, which is in no layer."
            elif LEVELS[imported] > LEVELS[part]:
                yield f"{where} from a higher layer; move what both need to a lower one, or pass it as an argument."
            elif imported != part and any({imported, part} <= strangers for strangers in STRANGERS):
                yield f"{where}, but {part} and {imported} are independent of each other; use what lies below both."

    report(problems())


def test_imports_inside_functions_within_the_package_are_listed():
    report(
        f"{shown(path, statement.line)} imports {statement.module} inside a function; import it at the top, or "
        "list the pair in DEFERRED with the reason."
        for path, imported, statement in imports_within()
        if statement.deferred and part_of(path) and (part_of(path), imported) not in DEFERRED
    )


def test_every_listed_deferred_import_is_in_use():
    used = {(part_of(path), imported) for path, imported, _ in imports_within()}
    report(
        f"No file of {part} imports {imported}; remove the pair from DEFERRED."
        for part, imported in DEFERRED - used
    )


# Folders whose files are found by a look at the folder.
DISCOVERED = {"calibrant.tables.formats.", "calibrant.report.sections.", "calibrant.export."}


def loaded_by_name(path: Path) -> Iterator[str]:
    """Yield the modules that a file may load by ``import_module``; the last part can be any string of its part."""
    for node in ast.walk(tree_of(path)):
        if (
            isinstance(node, ast.Call)
            and getattr(node.func, "id", getattr(node.func, "attr", "")) == "import_module"
        ):
            match node.args[0]:
                case ast.Constant(value=str(name)):
                    yield name
                case ast.JoinedStr(values=[ast.Constant(value=str(prefix)), *_]) if prefix in DISCOVERED:
                    found = (name for name in MODULES if name.startswith(prefix))
                    yield from (name for name in found if name.count(".") == prefix.count("."))
                case ast.JoinedStr(values=[ast.Constant(value=str(prefix)), *_]):
                    yield from (prefix + word for word in words_of_parts()[part_of(path)])


@cache
def words_of_parts() -> dict[str, set[str]]:
    """Return all strings that stand in the files of each part."""
    words: dict[str, set[str]] = {}
    for path in FILES:
        constants = (node.value for node in ast.walk(tree_of(path)) if isinstance(node, ast.Constant))
        words.setdefault(part_of(path), set()).update(value for value in constants if isinstance(value, str))
    return words


def test_every_module_is_imported():
    """A module that nothing imports is dead, unless users run or import it."""
    used = set().union(*(modules_imported(path) - {module_of(path)} for path in FILES))
    used |= {name for path in FILES for name in loaded_by_name(path)}
    for_users = {name for name in MODULES if name.count(".") == 1}
    report(
        f"Nothing imports {shown(path)}; export it from a page of the package, or delete it."
        for name, path in MODULES.items()
        if path.name not in ("__init__.py", "__main__.py") and name not in used | for_users
    )


def test_folders_of_a_part_do_not_import_each_other_in_circles():
    def problems() -> Iterator[str]:
        folders = {path.parent for path in FILES if path.parent != PACKAGE}
        for parent in sorted({folder.parent for folder in folders if folder.parent != PACKAGE}):
            graph: dict[str, set[str]] = {}
            for path in FILES:
                if parent in path.parents:
                    here = path.relative_to(parent).parts[0]
                    prefix = module_of(parent / "__init__.py") + "."
                    names = {
                        statement.module.removeprefix(prefix).split(".")[0]
                        for statement in imports_of(path)
                        if statement.module.startswith(prefix)
                    }
                    graph.setdefault(here, set()).update(names - {here})
            for circle in circles(graph):
                yield (
                    f"In {shown(parent)} these import each other in a circle: {' -> '.join(circle)}; "
                    "move what they share to a file of its own."
                )

    report(problems())


def circles(graph: dict[str, set[str]]) -> Iterator[list[str]]:
    """Yield one path around each circle that starts at its first name."""
    for start in sorted(graph):
        paths = [[start]]
        seen = set()
        while paths:
            path = paths.pop()
            for following in sorted(graph.get(path[-1], ())):
                if following == start and start == min(path):
                    yield [*path, start]
                    paths = []
                    break
                if following in graph and following not in seen:
                    seen.add(following)
                    paths.append([*path, following])


def test_a_file_imports_nothing_that_is_not_a_declared_dependency():
    """At the top of a file only the core dependencies; inside functions those of the extras as well.

    Packages that are of no use without an extra may import it at the top, behind a first file that does not.
    """

    def problems() -> Iterator[str]:
        core, all_of_them = declared_dependencies(extras=False), declared_dependencies(extras=True)
        for path in FILES:
            folder = path.parent.relative_to(PACKAGE).as_posix()
            first = NEED_AN_EXTRA.get(part_of(path), NEED_AN_EXTRA.get(folder, path.name))
            for statement in imports_of(path):
                module = statement.module.split(".")[0]
                if module == "calibrant" or module in sys.stdlib_module_names:
                    continue
                distribution = DISTRIBUTIONS.get(module, module)
                allowed = all_of_them if statement.deferred or path.name != first else core
                if distribution not in allowed | BROUGHT_BY_SCIKIT_LEARN:
                    yield (
                        f"{shown(path, statement.line)} imports {module}, which pyproject.toml does not list"
                        + (
                            "; import it inside the function that needs it."
                            if distribution in all_of_them
                            else "."
                        )
                    )

    report(problems())


def test_a_file_says_what_it_is_for_in_one_line():
    def problems() -> Iterator[str]:
        for path in FILES:
            first = (ast.get_docstring(tree_of(path)) or "").split("\n")[0]
            if not first:
                yield f"{shown(path)} has no docstring; say in one line what it is for."
            elif not first.endswith("."):
                yield f"The first line of {shown(path)} is no sentence; end it with a full stop."
            elif len(first) > 110:
                yield f"The first line of {shown(path)} has {len(first)} characters; 110 are enough."

    report(problems())


def names_of(tree: ast.Module) -> tuple[set[str], list[str] | None]:
    """Return the names that a file defines or imports, and its ``__all__``."""
    defined, listed = set(), None
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            defined |= {(name.asname or name.name).split(".")[0] for name in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {target.id for target in targets if isinstance(target, ast.Name)}
            defined |= names
            if "__all__" in names:
                listed = ast.literal_eval(node.value)
    return defined, listed


def test_a_file_lists_its_public_names():
    """Packages that hold nothing of their own need no list."""

    def problems() -> Iterator[str]:
        for path in FILES:
            defined, listed = names_of(tree_of(path))
            if path.name == "__main__.py" or (path.name == "__init__.py" and not defined):
                continue
            if path == PACKAGE / "__init__.py":
                continue  # there names are found when first used
            if listed is None:
                yield f"{shown(path)} has no __all__; list its public names."
                continue
            if len(listed) != len(set(listed)):
                yield f"__all__ of {shown(path)} lists a name twice."
            for name in sorted(set(listed) - defined):
                yield f"__all__ of {shown(path)} lists {name}, which the file does not define."

    report(problems())


def test_pages_list_what_their_files_export():
    report(pages.problems())


def test_a_file_is_short_enough_to_read():
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    report(
        f"{shown(path)} has {count} lines; give one of its ideas a file of its own ({LONGEST_FILE} at the most)."
        for path, count in lines.items()
        if count > LONGEST_FILE
    )


def test_every_reference_is_in_the_bibliography():
    entries = set(re.findall(r"^@\w+\{([^,\s]+),", BIBLIOGRAPHY.read_text(encoding="utf-8"), re.MULTILINE))
    report(
        f"{shown(path)} cites {key}, which docs/references.bib does not have."
        for path in FILES
        for keys in re.findall(r":cite(?::\w+)?:`([^`]+)`", path.read_text(encoding="utf-8"))
        for key in sorted({key.strip() for key in keys.split(",")} - entries)
    )


def test_folders_of_python_files_are_packages():
    """A folder without its own page would be left out of the built distribution."""
    report(
        f"{shown(folder)} has no __init__.py, so installed copies would lack it."
        for folder in {path.parent for path in FILES}
        if not (folder / "__init__.py").exists()
    )


def test_test_files_have_different_names():
    """Without packages among the tests, pytest tells modules apart by their file names."""
    names = [path.name for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py"]
    report(
        f"tests has {names.count(name)} files called {name}; give each a name of its own."
        for name in sorted({name for name in names if names.count(name) > 1})
    )


# Methods


def subclasses(cls: type) -> Iterator[type]:
    for subclass in cls.__subclasses__():
        if subclass.__module__.startswith("calibrant."):
            yield subclass
            yield from subclasses(subclass)


ALL_CALIBRATORS = sorted(set(subclasses(Calibrator)), key=lambda cls: cls.__name__)
PUBLIC = [getattr(calibrant.calibrators, name) for name in calibrant.calibrators.__all__]


def file_of(cls: type) -> str:
    return shown(MODULES[cls.__module__])


def test_a_calibrator_is_abstract_or_final():
    """Nobody inherits from a class that can be instantiated."""
    report(
        f"{cls.__name__} inherits from {parent.__name__}, which is final; give both a common part instead."
        for cls in ALL_CALIBRATORS
        for parent in cls.__mro__[1:]
        if issubclass(parent, Calibrator) and not inspect.isabstract(parent)
    )


def test_a_calibrator_is_at_most_three_classes_below_the_base():
    def depth(kind: type) -> int:
        parents = [base for base in kind.__bases__ if issubclass(base, Calibrator)]
        return 0 if kind is Calibrator else 1 + max(depth(base) for base in parents)

    report(
        f"{cls.__name__} is {depth(cls)} classes below Calibrator; give it parts, not bases."
        for cls in ALL_CALIBRATORS
        if depth(cls) > 3
    )


def test_a_final_calibrator_is_public_and_an_abstract_one_is_not():
    report(
        f"{cls.__name__} is abstract, so calibrators/__init__.py must not list it."
        if cls in PUBLIC
        else f"{cls.__name__} can be instantiated; list it in calibrators/__init__.py."
        for cls in ALL_CALIBRATORS
        if (cls in PUBLIC) is inspect.isabstract(cls)
    )


def test_a_public_calibrator_has_a_name_in_the_registry_or_combines_others():
    report(
        f"{cls.__name__} has no registry_names, so registry.make cannot build it; set a dict of names with parameters."
        for cls in PUBLIC
        if not getattr(cls, "registry_names", {})
        and not {"combinators", "reductions", "shift"} & set(cls.__module__.split("."))
    )


def test_a_public_calibrator_has_an_example_and_its_parameters_described():
    def problems() -> Iterator[str]:
        for cls in PUBLIC:
            docstring = inspect.getdoc(cls) or ""
            if "Examples\n--------" not in docstring or ">>> " not in docstring:
                yield f"The docstring of {cls.__name__} has no section Examples with code that runs."
            parameters = [name for name in inspect.signature(cls).parameters if name != "self"]
            if parameters and "Parameters\n----------" not in docstring:
                yield f"The docstring of {cls.__name__} has no section Parameters."
            for parameter in parameters:
                if not re.search(rf"^(\w+, )*{parameter}(, \w+)* : ", docstring, re.MULTILINE):
                    yield f"The docstring of {cls.__name__} does not describe {parameter}."

    report(problems())


def test_a_public_calibrator_has_a_test_file_of_its_own():
    """Some file of tests mentions it; the ones that go through all methods do not count."""
    words = {
        word
        for path in (ROOT / "tests").rglob("test_*.py")
        if path.parent.name != "common" and path != Path(__file__)
        for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))
    }
    report(
        f"No test file mentions {cls.__name__}; write one in the folder of tests/calibrators that mirrors {file_of(cls)}."
        for cls in PUBLIC
        if cls.__name__ not in words
    )


def test_a_public_calibrator_is_in_the_changelog():
    words = set(re.findall(r"\w+", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")))
    report(
        f"CHANGELOG.md does not mention {cls.__name__}; add a line to its first section."
        for cls in PUBLIC
        if cls.__name__ not in words
    )


def test_one_public_calibrator_per_file():
    report(
        f"__all__ of {file_of(cls)} must be [{cls.__name__!r}]; other public names belong to files of their own."
        for cls in PUBLIC
        if getattr(sys.modules[cls.__module__], "__all__", None) != [cls.__name__]
    )
