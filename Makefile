# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
INSTALL := $(RUN) -m pip install --quiet --disable-pip-version-check

.PHONY: demo examples test check bench fuzz test-slow test-versions test-browser clean

# Each stamp is one set of extras installed, redone when pyproject.toml changes.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-%: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) --editable ".[$*]"
	@touch $@

demo: $(VENV)/.installed-all
	$(RUN) examples/demo.py --output demo
	$(RUN) examples/room.py --output demo

# One question per file; `make test` runs them too, and holds what they print to what they say.
examples: $(VENV)/.installed-all
	@for name in embeddings documents stream_ids pipeline topics saving links_stream links_topics tour; do \
	  echo "== examples/$$name.py"; (cd $$(mktemp -d) && $(CURDIR)/$(RUN) $(CURDIR)/examples/$$name.py) || exit 1; done

test: check
	$(RUN) -m pytest -n auto --dist worksteal --cov --cov-report=term

test-slow: $(VENV)/.installed-dev
	$(RUN) -m pytest -m slow

# The campaigns of tests/campaigns, each for so many minutes; `make test` runs a few seconds of each.
MINUTES ?= 1
SEED ?= 0
CAMPAIGNS ?= calls archives inputs kills random_kills threads
fuzz: $(VENV)/.installed-dev
	@for name in $(CAMPAIGNS); do \
	  echo "== tests/campaigns/$$name.py, seed $(SEED)"; \
	  $(RUN) -m tests.campaigns.$$name --minutes $(MINUTES) --seed $(SEED) || exit 1; done

# The suite on the lowest versions of everything, on each Python that is found, and for lesser processors: an hour or two.
test-versions:
	$(PYTHON) -m tests.campaigns.versions --store

# The report in a real browser: Playwright, and Chromium from the system's packages.
test-browser: $(VENV)/.installed-dev,browser
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	  { sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); $$sudo apt-get update -q && $$sudo apt-get install -qy chromium; }
	$(RUN) -m pytest tests/browser

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
	$(RUN) -m benchmarks.vision
	$(RUN) -m benchmarks.defaults
	$(RUN) -m benchmarks.import_time

clean:
	rm -rf $(VENV) .versions demo .coverage .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
