"""Importing the package is quick, and the core needs none of the extras."""

import subprocess
import sys
import textwrap

import pytest

import calibrant


def run(program: str) -> str:
    """Run a program in a fresh interpreter in which warnings are errors, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


BLOCK_EXTRAS = """
    import sys

    class Absent:
        names = {"matplotlib", "pandas", "polars", "pyarrow", "dask", "torch", "jinja2", "click", "rich"}
        names |= {"onnx", "onnxruntime", "sqlglot"}
        names |= {"duckdb", "jax", "mlflow", "skops", "array_api_strict", "pyspark"}

        def find_spec(self, name, path=None, target=None):
            if name.split(".")[0] in self.names:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Absent())
"""


def test_importing_the_package_loads_nothing_heavy():
    heavy = {"matplotlib", "numpy", "pandas", "polars", "sklearn", "scipy"}
    loaded = set(run("import sys, calibrant; print(*sys.modules, sep='\\n')").split())
    assert not heavy & loaded


@pytest.mark.parametrize("part", ["metrics", "registry", "binning", "persistence", "export"])
def test_importing_a_part_of_the_core_loads_no_extra(part):
    """Pandas, pyarrow and narwhals are not asked for: scikit-learn loads them by itself where they are installed."""
    extras = {"matplotlib", "polars", "array_api_strict", "jax"}
    extras |= {"onnx", "onnxruntime", "torch", "duckdb", "sqlglot", "pyspark", "mlflow", "skops"}
    loaded = set(run(f"import sys, calibrant.{part}; print(*sys.modules, sep='\\n')").split())
    assert not extras & loaded


@pytest.mark.parametrize("name", calibrant.__all__)
def test_every_public_name_resolves(name):
    assert getattr(calibrant, name) is not None


def test_public_names_are_sorted_different_and_listed_by_dir():
    assert calibrant.__all__ == sorted(set(calibrant.__all__))
    assert set(calibrant.__all__) <= set(dir(calibrant))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'calibrant' has no attribute 'nonsense'"):
        calibrant.nonsense  # noqa: B018 - the access is what is tested


def test_parts_can_be_reached_without_an_import_of_their_own():
    assert run("import calibrant; print('temperature' in calibrant.registry.calibrators())").split() == [
        "True"
    ]


def test_an_import_that_fails_inside_a_part_is_not_reported_as_a_missing_attribute():
    """Whoever lacks scipy must read that scipy is missing, not that calibrant has no metrics."""
    program = """
        import sys
        sys.modules["scipy"] = None
        sys.modules["numpy"] = None
        import calibrant
        try:
            calibrant.predictions
        except ImportError as error:
            print("numpy" in str(error))
    """
    assert run(program).split() == ["True"]


def test_the_core_works_without_the_extras():
    program = (
        BLOCK_EXTRAS
        + """
    import os, tempfile, warnings
    import numpy as np
    import calibrant
    from calibrant import registry

    # With so few rows some methods rightly keep the identity, and say so.
    warnings.filterwarnings("ignore", ".*identity is kept", calibrant.errors.CalibrationWarning)
    generator = np.random.default_rng(0)
    X = generator.dirichlet(np.ones(3), 120)
    y = np.array(["a", "b", "c"])[(np.log(X) + generator.gumbel(size=X.shape)).argmax(axis=1)]
    for name in registry.calibrators():
        K = 2 if registry.make(name).traits.binary_only else 3
        p = X[:, :K] / X[:, :K].sum(axis=1, keepdims=True)
        labels = np.where(y == "c", "b", y) if K == 2 else y
        fitted = registry.make(name).fit(p, labels)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "calibrator.npz")
            fitted.save(path)
            assert (calibrant.load(path).predict_proba(p) == fitted.predict_proba(p)).all()
    for name in registry.metrics():
        assert isinstance(getattr(calibrant.metrics, name)(y, X), float)
    print("done")
    """
    )
    assert run(program).split() == ["done"]
