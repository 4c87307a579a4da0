# Two commands on a fresh machine: `make demo` and `make test`. Each sets up .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# One thread per process: the tests run in parallel, and results must not depend on it anyway.
WORKERS ?= 2

.PHONY: demo test test-all lint format bench setup clean

setup: $(READY)

# Dependencies first, at the pinned versions; then the package itself, without an isolated build,
# so that nothing is fetched that constraints.txt does not name.
$(READY): constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "hipshield needs Python 3.11 or newer; try: make PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation \
	  --no-deps --editable .
	@touch $@

demo: $(READY)
	$(BIN)/hipshield demo --out demo

test: $(READY)
	$(BIN)/python -m pytest -q -n $(WORKERS) -m "not slow"

test-all: $(READY)
	$(BIN)/python -m pytest -q -n $(WORKERS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/hipshield bench worlds

clean:
	rm -rf $(VENV) .venv-side .venv-omnisafe demo
