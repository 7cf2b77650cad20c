# Everything runs inside a local .venv; `make demo` and `make test` are all a newcomer needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: install demo test test-slow bench docs clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: install
	$(BIN)/python -m calibrant.demo

test: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2

test-slow: install
	$(BIN)/python -m pytest -m slow -n 2

bench: install
	$(BIN)/python benchmarks/logistic_family.py
	$(BIN)/python benchmarks/one_vs_rest.py
	$(BIN)/python benchmarks/metrics.py
	$(BIN)/python benchmarks/levels_and_coverage.py
	$(BIN)/python benchmarks/floor_for_zeros.py

docs: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf $(VENV) build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
