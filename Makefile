# make demo   the main job on real data        make test   the fast suite
# make lint   style, types, layers             make bench  ratios, both sides in one run (BENCH=--strict)
# make proof  crash states, faults, kills       make deep   the long proofs; stop it, it goes on
# make clean  remove what make made
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
KERNELS := $(VENV)/.kernels

.PHONY: demo test lint bench proof deep clean
.DEFAULT_GOAL := help

help:
	@head -4 Makefile

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "seglog needs Python 3.11 or newer: set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --progress-bar off --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m seglog.spark.java || $(BIN)/pip install --quiet --progress-bar off --constraint constraints.txt --editable '.[java]'
	touch $@

# numba's cache does not see a change in what a kernel inlines from another file
$(KERNELS): $(wildcard src/seglog/kernels/*.py) $(STAMP)
	find src -name '*.nb[ic]' -delete
	touch $@

demo: $(KERNELS)
	$(BIN)/seglog demo --output demo-output

test: $(KERNELS)
	$(BIN)/python -m pytest -m 'not proof and not deep' -n 2 --dist loadgroup --cov --cov-report=

proof: $(KERNELS)
	$(BIN)/python -m pytest -m proof -n 2 --dist loadgroup

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(KERNELS)
	$(BIN)/python -m benchmarks $(BENCH)

deep: $(KERNELS)
	$(BIN)/python -m pytest -m deep --timeout 0
	$(BIN)/python -m tests.crash.deep
	$(BIN)/python -m tests.crash.mutants

clean:
	rm -rf $(VENV) demo-output .coverage .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
