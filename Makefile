# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
INSTALL := $(RUN) -m pip install --quiet --disable-pip-version-check

.PHONY: demo test check bench test-slow clean

# Each stamp is one set of extras installed, redone when pyproject.toml changes.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-%: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) --editable ".[$*]"
	@touch $@

demo: $(VENV)/.installed-all
	$(RUN) examples/demo.py --output demo

test: check
	$(RUN) -m pytest -n auto --dist worksteal --cov --cov-report=term

test-slow: $(VENV)/.installed-dev
	$(RUN) -m pytest -m slow

check: $(VENV)/.installed-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

bench: $(VENV)/.installed-bench
	$(RUN) -m benchmarks.run
	$(RUN) -m benchmarks.algorithms
	$(RUN) -m benchmarks.dp_means
	$(RUN) -m benchmarks.streams
	$(RUN) -m benchmarks.mixtures
	$(RUN) -m benchmarks.trees_and_slices
	$(RUN) -m benchmarks.dirichlet_process
	$(RUN) -m benchmarks.links
	$(RUN) -m benchmarks.import_time

clean:
	rm -rf $(VENV) demo .coverage .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
