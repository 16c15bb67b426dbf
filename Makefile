# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
INSTALL := $(RUN) -m pip install --quiet --disable-pip-version-check

.PHONY: demo examples dist release-check container-check lint-files test prepared coverage warm check bench fuzz fuzz-service test-slow test-versions test-browser test-gpu test-gpu-interpreter test-gpu-smoke gpu-environment clean

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

# The wheel and the sdist of the last commit, built twice to the same bytes, with their bill of materials and hashes.
dist: $(VENV)/.installed-release
	$(RUN) -m release.build

# From the wheel in dist to the first report, in a clean environment: CPU time against its goal.
release-check: $(VENV)/.installed-release
	$(RUN) -m release.check

# The steps of the Dockerfile without Docker, to a service that answers.
container-check: $(VENV)/.installed-release
	$(RUN) -m release.container

# Workflows by their schema and by zizmor, the Dockerfile by hadolint, the recipe by rattler-build.
lint-files: $(VENV)/.installed-lint
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(VENV)/bin/zizmor --offline --quiet .github
	$(VENV)/bin/hadolint Dockerfile
	$(RUN) -c "import pathlib, rattler_build as r; r.Stage0Recipe.from_yaml(pathlib.Path('release/conda/recipe.yaml').read_text()).render()"

# Kernels are compiled by one process, beside the checks: each worker would compile most of them for itself. Lines are
# not counted here: tracing takes time and decides nothing (3.11 has no monitoring). `make coverage` counts them. The
# environment of Triton's interpreter, most of which is waiting for packages, comes beside all that, for kernels of the GPU
# on tiny cases at the end.
test:
	@$(MAKE) --no-print-directory -j2 --output-sync=target prepared gpu-environment
	$(RUN) -m pytest -n auto --dist worksteal
	@$(MAKE) --no-print-directory test-gpu-smoke

prepared: $(VENV)/.installed-dev
	@$(MAKE) --no-print-directory -j2 --output-sync=target check warm

coverage: $(VENV)/.installed-dev
	$(RUN) -m pytest -n auto --dist worksteal --cov --cov-report=term

warm: $(VENV)/.installed-dev
	$(RUN) -m armillary warmup --quiet

test-slow: $(VENV)/.installed-dev
	$(RUN) -m pytest -m slow

# The campaigns of tests/campaigns, each for so many minutes; `make test` runs a few seconds of each.
MINUTES ?= 1
SEED ?= 0
CAMPAIGNS ?= calls archives inputs kills random_kills threads service_kills service_bodies
fuzz: $(VENV)/.installed-dev
	@for name in $(CAMPAIGNS); do \
	  echo "== tests/campaigns/$$name.py, seed $(SEED)"; \
	  $(RUN) -m tests.campaigns.$$name --minutes $(MINUTES) --seed $(SEED) || exit 1; done

# 1,000 kills of the service at its writes and fsyncs, and 100,000 bodies that nobody meant: a quarter of an hour.
fuzz-service: $(VENV)/.installed-dev
	$(RUN) -m tests.campaigns.service_kills --trials 500 --seed $(SEED) --store
	$(RUN) -m tests.campaigns.service_bodies --trials 500 --seed $(SEED) --store

# The suite on the lowest versions of everything, on each Python that is found, and for lesser processors: an hour or two.
test-versions:
	$(PYTHON) -m tests.campaigns.versions --store

# The report in a real browser: Playwright, and Chromium from the system's packages.
test-browser: $(VENV)/.installed-dev,browser
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	  { sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); $$sudo apt-get update -q && $$sudo apt-get install -qy chromium; }
	$(RUN) -m pytest tests/browser

# The GPU engine on the GPU that is here: laws, parity, adversarial cases, then the benchmark with its floors and peers.
test-gpu: $(VENV)/.installed-dev,gpu
	$(RUN) -m pytest tests/gpu tests/laws/test_passes_laws.py tests/laws/test_sets_laws.py -k "gpu or cuda"
	$(RUN) -m benchmarks.gpu

# The same kernels on the CPU, by Triton's interpreter, and compiled for cards that are not here; an environment of its
# own, since the interpreter needs an older NumPy (of which it does what that deprecates), and torch's build for the CPU.
GPU_VENV := .venv-gpu
$(GPU_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(GPU_VENV)
	$(GPU_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --retries 0 --timeout 10 --editable ".[cli]" \
	  "torch==2.13.0" --extra-index-url https://download.pytorch.org/whl/cpu "triton==3.6.0" "numpy<2.4" pytest pyarrow
	@touch $@

INTERPRET := TRITON_INTERPRET=1 $(GPU_VENV)/bin/python -m pytest -p no:randomly -W "ignore:Conversion of an array" \
  -W "ignore:overflow encountered"

# About 400 MB to fetch the first time. What cannot be had in five minutes is left out, and the next target says so.
gpu-environment:
	@timeout 300 $(MAKE) --silent $(GPU_VENV)/.installed >/dev/null 2>&1 || true

# 13 s of CPU: every kernel but those of sets once, and three steps of four models, held to NumPy.
test-gpu-smoke:
	@if [ -e $(GPU_VENV)/.installed ]; then \
	  timeout 180 env $(INTERPRET) -q tests/gpu/test_smoke.py; \
	else \
	  echo "Kernels of the GPU were not run: torch for the CPU, or triton, could not be installed in four minutes." \
	    "make test-gpu-interpreter says why."; \
	fi

test-gpu-interpreter: $(GPU_VENV)/.installed
	$(INTERPRET) tests/gpu
	$(GPU_VENV)/bin/python -m pytest -p no:randomly tests/gpu/test_cross_compilation.py

check: $(VENV)/.installed-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

# The site, in docs/_build/html: warnings are errors, every block of code runs, internal links and anchors lead somewhere.
.PHONY: docs clean-docs
docs: $(VENV)/.installed-docs
	$(RUN) -W error::UserWarning docs/building/code_blocks.py
	$(RUN) -m sphinx -W --keep-going -q -b html docs docs/_build/html
	$(RUN) docs/building/page_links.py docs/_build/html

clean: clean-docs
clean-docs:
	rm -rf docs/_build docs/_generated docs/gallery docs/api/generated

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
	$(RUN) -m benchmarks.service

clean:
	rm -rf $(VENV) $(GPU_VENV) .versions demo dist .coverage .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
