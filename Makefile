# Everything runs inside a local .venv; `make demo` and `make test` are all a newcomer needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Tests start many processes; without stored bytecode each of them compiles the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo test pages lint test-slow test-spark explore test-minimum test-newest test-extras bench docs clean

install: $(VENV)/.installed

PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

$(VENV)/.installed: pyproject.toml constraints/tested.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP_INSTALL) --constraint constraints/tested.txt --editable '.[dev]'
	touch $@

# The demo needs neither linters nor torch; a complete installation serves it as well.
demo: $(if $(wildcard $(VENV)/.installed),install,$(VENV)/.installed-demo)
	$(BIN)/python -m calibrant.demo

$(VENV)/.installed-demo: pyproject.toml constraints/tested.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP_INSTALL) --constraint constraints/tested.txt --editable '.[plots,report,cli]'
	touch $@

test: install
	$(BIN)/python -m pytest -n 2

# Exports of metrics/ and plots/, from __all__ of their files.
pages: install
	$(BIN)/python tests/pages.py
	$(BIN)/ruff check --quiet --fix src
	$(BIN)/ruff format --quiet src

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test-slow: install
	$(BIN)/python -m pytest -m slow -n 2

# Fits on Spark, with two executors on this machine. pyspark is pinned, as are other tools that judge.
test-spark: install
	@java -version 2>&1 | grep -q 'version "\(1[7-9]\|2[0-9]\)' || \
		{ echo "Spark needs Java 17 or later on the path; install a Java runtime, or leave these tests out."; exit 1; }
	$(BIN)/python $(PIP_INSTALL) 'pyspark==4.3.0'
	$(BIN)/python -m pytest -m spark tests/distributed

# Random trials with new seeds, recorded in exploration.jsonl, and the property tests with new random examples.
MINUTES ?= 10
explore: install
	$(BIN)/python benchmarks/explore.py --minutes $(MINUTES); found=$$?; \
	HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest -n 2 tests/common tests/numerics tests/metrics \
		-k "order or weight or sum or bound" && exit $$found

# The lower bounds of pyproject.toml, each at its oldest allowed version, in an environment of their own.
test-minimum:
	$(PYTHON) -m venv .venv-minimum
	$(PYTHON) constraints/minimum.py > .venv-minimum/minimum.txt
	.venv-minimum/bin/python $(PIP_INSTALL) --constraint .venv-minimum/minimum.txt --editable '.[test]'
	.venv-minimum/bin/python -m pytest -n 2

# The newest releases of all dependencies.
test-newest:
	$(PYTHON) -m venv .venv-newest
	.venv-newest/bin/python $(PIP_INSTALL) --upgrade --editable '.[test]'
	.venv-newest/bin/python -m pytest -n 2

# Every extra alone, in an environment of its own.
test-extras:
	$(PYTHON) constraints/extras.py

bench: install
	$(BIN)/python benchmarks/logistic_family.py
	$(BIN)/python benchmarks/one_vs_rest.py
	$(BIN)/python benchmarks/metrics.py
	$(BIN)/python benchmarks/levels_and_coverage.py
	$(BIN)/python benchmarks/floor_for_zeros.py

docs: install
	$(BIN)/python $(PIP_INSTALL) --constraint constraints/tested.txt --editable '.[docs]'
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf $(VENV) .venv-minimum .venv-newest build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
