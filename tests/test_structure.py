"""The shape of the package: who may import whom, and what each method brings along."""

import ast
import inspect
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import calibrant
import calibrant.calibrators
from calibrant import Calibrator

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "calibrant"
BIBLIOGRAPHY = ROOT / "docs" / "references.bib"

# From left to right: a file imports from its own layer and from those before it. A package stands for
# all that is inside.
LAYERS = [
    {"arrays", "errors", "options", "wording", "notices", "tabular", "fit_cost"},
    {"numerics"},
    {"space", "mistaken_space", "origin", "predictions", "labels", "labelled_predictions"},
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
        "scorers",
        "streaming",
        "synthetic",
        "online",
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


def files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


every_file = pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(PACKAGE)))


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def part_of(path: Path) -> str:
    """Return the first folder or module below the package; empty for the package's own page."""
    part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if part in ("__init__", "__main__") else part


def imports_of(path: Path) -> Iterator[Import]:
    tree = tree_of(path)
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield Import(name.name, node.lineno, id(node) in inside)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno} imports relatively"
            if node.module == "calibrant":
                for name in node.names:
                    yield Import(f"calibrant.{home_of(name.name)}", node.lineno, id(node) in inside)
            else:
                yield Import(node.module or "", node.lineno, id(node) in inside)


def home_of(name: str) -> str:
    """Return the part of the package in which a name that the package re-exports lives."""
    if name in LEVELS:
        return name
    return inspect.getmodule(getattr(calibrant, name)).__name__.split(".")[1]


def parts_imported(path: Path) -> Iterator[tuple[str, Import]]:
    for statement in imports_of(path):
        if statement.module.startswith("calibrant."):
            yield statement.module.split(".")[1], statement


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


@every_file
def test_a_file_imports_only_from_layers_to_its_left(path):
    part = part_of(path)
    if not part:
        return  # the page of the package opens every layer to the user
    assert part in LEVELS, f"{part} is in no layer; give it a place in LAYERS"
    for imported, statement in parts_imported(path):
        where = f"{path.relative_to(PACKAGE)}:{statement.line} imports {statement.module}"
        assert imported in LEVELS, f"{where}, which is in no layer"
        if statement.deferred and (part, imported) in DEFERRED:
            continue
        assert LEVELS[imported] <= LEVELS[part], f"{where} from a layer to its right"
        for strangers in STRANGERS:
            apart = imported == part or not {imported, part} <= strangers
            assert apart, f"{where}, but the two know nothing of each other"


@every_file
def test_imports_inside_functions_within_the_package_are_listed(path):
    part = part_of(path)
    for imported, statement in parts_imported(path):
        if statement.deferred and part:
            assert (part, imported) in DEFERRED, (
                f"{path.relative_to(PACKAGE)}:{statement.line} imports {statement.module} inside a function"
            )


def test_every_listed_deferred_import_is_in_use():
    used = {(part_of(path), imported) for path in files() for imported, _ in parts_imported(path)}
    assert used >= DEFERRED


@every_file
def test_a_file_imports_nothing_that_is_not_a_declared_dependency(path):
    """At the top of a file only the core dependencies; inside functions those of the extras as well.

    Packages that are of no use without an extra may import it at the top, behind a first file that does not.
    """
    for statement in imports_of(path):
        module = statement.module.split(".")[0]
        if module == "calibrant" or module in sys.stdlib_module_names:
            continue
        distribution = DISTRIBUTIONS.get(module, module)
        where = f"{path.relative_to(PACKAGE)}:{statement.line} imports {module}"
        if distribution in BROUGHT_BY_SCIKIT_LEARN:
            continue
        folder = str(path.parent.relative_to(PACKAGE).as_posix())
        first = NEED_AN_EXTRA.get(part_of(path), NEED_AN_EXTRA.get(folder, path.name))
        assert distribution in declared_dependencies(extras=statement.deferred or path.name != first), (
            f"{where}, which pyproject.toml does not list"
        )


@every_file
def test_a_file_says_what_it_is_for_in_one_line(path):
    docstring = ast.get_docstring(tree_of(path))
    assert docstring, "no docstring"
    first = docstring.splitlines()[0]
    assert first.endswith(".")
    assert len(first) <= 110


@every_file
def test_a_file_lists_its_public_names(path):
    """Packages that hold nothing of their own need no list."""
    tree = tree_of(path)
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
    if not defined and path.name == "__init__.py":
        return
    if path.name == "__main__.py":
        return
    assert listed is not None, "no __all__"
    assert len(listed) == len(set(listed))
    if path != PACKAGE / "__init__.py":  # there names are imported when first used
        assert set(listed) <= defined, f"{set(listed) - defined} are listed but not defined"


@every_file
def test_a_file_is_short_enough_to_read(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) < LONGEST_FILE


@every_file
def test_every_reference_is_in_the_bibliography(path):
    if not BIBLIOGRAPHY.exists():
        return
    entries = set(re.findall(r"^@\w+\{([^,\s]+),", BIBLIOGRAPHY.read_text(encoding="utf-8"), re.MULTILINE))
    for keys in re.findall(r":cite(?::\w+)?:`([^`]+)`", path.read_text(encoding="utf-8")):
        assert {key.strip() for key in keys.split(",")} <= entries


def test_folders_of_python_files_are_packages():
    """A folder without its own page would be left out of the built distribution."""
    for folder in {path.parent for path in files()}:
        assert (folder / "__init__.py").exists(), f"{folder.relative_to(PACKAGE)} has no __init__.py"


def test_test_files_have_different_names():
    """Without packages among the tests, pytest tells modules apart by their file names."""
    names = [path.name for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py"]
    assert len(names) == len(set(names)), sorted({name for name in names if names.count(name) > 1})


# Methods


def subclasses(cls: type) -> Iterator[type]:
    for subclass in cls.__subclasses__():
        if subclass.__module__.startswith("calibrant."):
            yield subclass
            yield from subclasses(subclass)


ALL_CALIBRATORS = sorted(set(subclasses(Calibrator)), key=lambda cls: cls.__name__)
PUBLIC = [getattr(calibrant.calibrators, name) for name in calibrant.calibrators.__all__]
every_calibrator = pytest.mark.parametrize("cls", ALL_CALIBRATORS, ids=lambda cls: cls.__name__)
every_public_class = pytest.mark.parametrize("cls", PUBLIC, ids=lambda cls: cls.__name__)


@every_calibrator
def test_a_calibrator_is_abstract_or_final(cls):
    """Nobody inherits from a class that can be instantiated."""
    parents = [parent for parent in cls.__mro__[1:] if issubclass(parent, Calibrator)]
    assert all(inspect.isabstract(parent) for parent in parents)


@every_calibrator
def test_a_calibrator_is_at_most_three_classes_below_the_base(cls):
    def depth(kind):
        parents = [base for base in kind.__bases__ if issubclass(base, Calibrator)]
        return 0 if kind is Calibrator else 1 + max(depth(base) for base in parents)

    assert depth(cls) <= 3, (
        f"{cls.__name__} is {depth(cls)} classes below Calibrator; give it parts, not bases."
    )


@every_calibrator
def test_a_final_calibrator_is_public_and_an_abstract_one_is_not(cls):
    assert (cls in PUBLIC) is not inspect.isabstract(cls)


@every_public_class
def test_a_public_calibrator_is_re_exported_by_the_package(cls):
    assert cls.__name__ in calibrant.__all__
    assert getattr(calibrant, cls.__name__) is cls


@every_public_class
def test_a_public_calibrator_has_a_name_in_the_registry_or_combines_others(cls):
    combines = {"combinators", "reductions", "shift"} & set(cls.__module__.split("."))
    assert getattr(cls, "registry_names", {}) or combines


@every_public_class
def test_a_public_calibrator_has_a_formula_an_example_and_its_parameters_described(cls):
    docstring = inspect.getdoc(cls)
    assert "Examples\n--------" in docstring
    assert ">>> " in docstring
    parameters = [name for name in inspect.signature(cls).parameters if name != "self"]
    if parameters:
        assert "Parameters\n----------" in docstring
    for parameter in parameters:
        assert re.search(rf"^(\w+, )*{parameter}(, \w+)* : ", docstring, re.MULTILINE), (
            f"{parameter} is not described"
        )


@every_public_class
def test_a_public_calibrator_has_a_test_file_of_its_own(cls):
    """Some file of tests mentions it; the ones that go through all methods do not count."""
    own = [
        path
        for path in (ROOT / "tests").rglob("test_*.py")
        if path.parent.name != "common" and path != Path(__file__)
        if re.search(rf"\b{cls.__name__}\b", path.read_text(encoding="utf-8"))
    ]
    assert own


@every_public_class
def test_a_public_calibrator_is_in_the_changelog(cls):
    assert re.search(rf"\b{cls.__name__}\b", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))


@every_public_class
def test_one_public_calibrator_per_file(cls):
    module = sys.modules[cls.__module__]
    assert module.__all__ == [cls.__name__]
