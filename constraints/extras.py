"""Install the package with one extra at a time, in an environment of its own, and use what the extra enables.

Usage: ``python constraints/extras.py [EXTRA ...]``; without names all extras are tried, and ``core``, the package without extras.
What the core needs is installed once, for all environments. Prints one line per extra.
"""

import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Spark needs Java; `all` and the extras of developers are made of others.
LEFT_OUT = {"all", "docs", "test", "lint", "dev", "spark"}

START = """
from pathlib import Path
import numpy as np
from calibrant import CalibratedClassifier, Predictions, TemperatureScaling, assess, load
from calibrant.errors import MissingExtraError
generator = np.random.default_rng(0)
p = generator.dirichlet([1, 1, 1], 300)
y = np.array([generator.choice(3, p=np.sqrt(row) / np.sqrt(row).sum()) for row in p])
fitted = TemperatureScaling().fit(p, y)
q = fitted.predict_proba(p)
def names_the_extra(extra, action):
    try:
        action()
    except MissingExtraError as error:
        assert f"pip install 'calibrant[{extra}]'" in str(error), error
    else:
        raise AssertionError(f"without {extra} this should not work")
def write_csv(path):
    lines = [",".join([*map(str, row), "abc"[label]]) for row, label in zip(p, y)]
    Path(path).write_text("p_a,p_b,p_c,label\\n" + "\\n".join(lines) + "\\n")
"""

USES = {
    "core": """
from sklearn.naive_bayes import GaussianNB
from calibrant.metrics import log_loss
from calibrant.plots import ReliabilityDisplay
from calibrant.tables import read_predictions
assert log_loss(y, q) < log_loss(y, p)
fitted.save("calibrator.npz")
assert (load("calibrator.npz").predict_proba(p) == q).all()
assert CalibratedClassifier(GaussianNB(), method="platt", cv=3).fit(p, y).predict_proba(p).shape == (300, 3)
fitted.export("calibrator.json")
display = ReliabilityDisplay.from_predictions(y, p)
names_the_extra("plots", display.plot)
names_the_extra("frames", display.frame)
names_the_extra("frames", lambda: TemperatureScaling().fit(p, y).set_output(predict_proba="polars").predict_proba(p))
names_the_extra("onnx", lambda: fitted.export("calibrator.onnx"))
names_the_extra("sql", lambda: fitted.export("calibrator.sql", dialect="postgres"))
names_the_extra("torch", fitted.to_torch)
names_the_extra("skops", lambda: CalibratedClassifier(GaussianNB(), cv=3).fit(p, y).save("classifier.zip"))
write_csv("rows.csv")
assert read_predictions("rows.csv", label="label", space="probabilities").predictions.n_rows == 300
Path("rows.parquet").write_bytes(b"PAR1" * 3)
names_the_extra("cli", lambda: read_predictions("rows.parquet", label="label", space="probabilities"))
names_the_extra("mlflow", lambda: __import__("calibrant.mlflow").mlflow.save_model(fitted, "model"))
Path("recipe.toml").write_text("title = 'A study'")
names_the_extra("studies", lambda: __import__("calibrant.studies").studies.read_recipe("recipe.toml"))
import subprocess, sys
done = subprocess.run([sys.executable, "-m", "calibrant", "methods"], capture_output=True, text=True)
assert done.returncode == 2 and "pip install 'calibrant[cli]'" in done.stderr, done.stderr
""",
    "plots": """
from calibrant.plots import ReliabilityDisplay
ReliabilityDisplay.from_predictions(y, p).plot().figure_.savefig("diagram.png")
assert Path("diagram.png").stat().st_size > 1000
""",
    "frames": """
import pandas as pd, polars as pl
from calibrant.plots import reliability_curve
for library in (pd, pl):
    frame = library.DataFrame({"a": p[:, 0], "b": p[:, 1], "c": p[:, 2]})
    fitted = TemperatureScaling().fit(frame, list(np.array(["a", "b", "c"])[y])).set_output(predict_proba="same")
    assert type(fitted.predict_proba(frame)) is library.DataFrame
assert len(reliability_curve(y, p).frame()) == 15
""",
    "cli": """
import subprocess, sys
write_csv("rows.csv")
def calibrant(*arguments):
    done = subprocess.run([sys.executable, "-m", "calibrant", *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr
assert calibrant("report", "rows.csv")[0] == 0 and Path("rows-report.html").exists()
assert calibrant("fit", "rows.csv", "--method", "temperature", "-o", "calibrator.npz")[0] == 0
assert calibrant("apply", "rows.csv", "--calibrator", "calibrator.npz", "-o", "calibrated.csv")[0] == 0
assert calibrant("methods")[0] == 0
Path("recipe.toml").write_text("title = 'A study'")
for extra, arguments in {
    "onnx": ("export", "calibrator.npz", "-o", "calibrator.onnx"),
    "dask": ("evaluate", "rows.csv", "--label", "label", "--columns", "p_*", "--space", "probabilities", "--engine", "dask"),
    "spark": ("evaluate", "rows.csv", "--label", "label", "--columns", "p_*", "--space", "probabilities", "--engine", "spark"),
    "studies": ("bench", "run", "recipe.toml"),
}.items():
    code, text = calibrant(*arguments)
    assert code == 2 and f"calibrant[{extra}]" in text, (extra, code, text)
""",
    "report": """
found = assess(y, p, methods=["temperature"])
found.to_html("report.html")
assert "<svg" in Path("report.html").read_text() and found.to_markdown() and found.to_json()
""",
    "dask": """
import dask.dataframe as dd, pandas as pd
from calibrant.distributed import evaluate, fit
frame = dd.from_pandas(pd.DataFrame({"p_0": p[:, 0], "p_1": p[:, 1], "p_2": p[:, 2], "y": y}), npartitions=3)
roles = {"label": "y", "columns": "p_*", "space": "probabilities"}
assert abs(fit(TemperatureScaling(), frame, **roles).temperature_ - fitted.temperature_) < 1e-8
assert evaluate(frame, metrics=["accuracy"], **roles)["accuracy"].estimate > 0.3
""",
    "onnx": """
import onnxruntime
assert fitted.export("calibrator.onnx").holds
(found,) = onnxruntime.InferenceSession("calibrator.onnx").run(None, {"scores": p.astype(np.float32)})
assert np.abs(found - q).max() < 1e-6
""",
    "torch": """
import torch
assert torch.allclose(fitted.to_torch()(torch.as_tensor(p)), torch.as_tensor(q))
assert fitted.export("calibrator.pt2").holds
""",
    "sql": """
import duckdb
for dialect in ("duckdb", "postgres"):
    assert fitted.export("calibrator.sql", table="scores", dialect=dialect).holds
""",
    "mlflow": """
import mlflow, pandas as pd, calibrant.mlflow
frame = pd.DataFrame(p, columns=["a", "b", "c"])
model = TemperatureScaling().fit(frame, np.array(["a", "b", "c"])[y])
calibrant.mlflow.save_model(model, "model")
assert np.allclose(mlflow.pyfunc.load_model("model").predict(frame), q)
""",
    "skops": """
from sklearn.naive_bayes import GaussianNB
model = CalibratedClassifier(GaussianNB(), method="platt", cv=3).fit(p, y)
model.save("classifier.zip")
assert (CalibratedClassifier.load("classifier.zip").predict_proba(p) == model.predict_proba(p)).all()
""",
    "studies": """
from calibrant.studies import Store, plan, read_recipe, run
np.savez("rows.npz", probs=p, label=y)
Path("recipe.toml").write_text('''
title = "A study"
[[data]]
name = "rows"
scores = "rows.npz"
label = "label"
columns = "probs"
space = "probabilities"
[calibrators]
TempS = "temperature"
[splits]
kind = "random"
calibration_rows = [150]
repeats = 2
[measures]
log_loss = "log_loss"
''')
recipe = read_recipe("recipe.toml")
with Store("study.sqlite") as store:
    units = plan(recipe)
    assert run(units, store).failed == 0
""",
    "excel": """
import openpyxl
from calibrant.tables import read_predictions
book = openpyxl.Workbook()
for row in [["p_a", "p_b", "p_c", "label"], *([*map(float, row), "abc"[label]] for row, label in zip(p, y))]:
    book.active.append(row)
book.save("rows.xlsx")
assert read_predictions("rows.xlsx", label="label", space="probabilities").predictions.n_rows == 300
""",
    "xgboost": """
from calibrant.studies.classifiers import CLASSIFIERS
model = CalibratedClassifier(CLASSIFIERS["xgboost"](n_estimators=10), method="temperature", cv=3).fit(p, y)
assert model.predict_proba(p).shape == (300, 3)
""",
}


def extras() -> list[str]:
    """Return the extras of pyproject.toml that are tried alone."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return ["core", *(name for name in project["optional-dependencies"] if name not in LEFT_OUT)]


def python_of(folder: Path) -> Path:
    """Return the interpreter of a virtual environment."""
    return folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"


def pip(python: Path, *arguments: str) -> None:
    """Install tested versions."""
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*command, "--constraint", str(ROOT / "constraints" / "tested.txt"), *arguments], check=True
    )


def main(names: list[str]) -> int:
    """Try extras, and return the number of those that fail."""
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        subprocess.run([sys.executable, "-m", "venv", folder / "base"], check=True)
        wheel = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--wheel-dir",
            folder,
            str(ROOT),
        ]
        subprocess.run(wheel, check=True)
        (wheel_file,) = folder.glob("*.whl")
        pip(python_of(folder / "base"), str(wheel_file))
        (packages,) = (folder / "base").glob("**/site-packages")
        for name in names:
            python = python_of(folder / name)
            subprocess.run([sys.executable, "-m", "venv", folder / name], check=True)
            (own,) = (folder / name).glob("**/site-packages")
            (own / "base.pth").write_text(f"{packages}\n")
            if name != "core":
                pip(python, f"{wheel_file}[{name}]")
            (folder / "work").mkdir()
            done = subprocess.run([python, "-c", START + USES[name]], cwd=folder / "work", check=False)
            shutil.rmtree(folder / "work")
            shutil.rmtree(folder / name)
            print(f"{name:8} {'works alone' if done.returncode == 0 else 'FAILED'}", flush=True)
            failed += done.returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or extras()))
