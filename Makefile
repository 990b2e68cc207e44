# The two commands to know: `make demo` and `make test`. Both set up .venv first; nothing is installed elsewhere.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --disable-pip-version-check

# torch first and alone, so that no other package chooses a torch; then the Triton that this torch is made for.
TORCH ?= torch==2.13.0
TRITON ?= triton==3.7.1

N ?= 1000
SEED ?= $(shell date +%s)
SOURCES := pyproject.toml $(wildcard setup.py src/omnikernel/runtime/_native/*)
CHECKED := src tests examples benchmarks tools

.PHONY: help demo test bench fuzz lint lint-rules lint-format lint-types tour clean
help:
	@echo "make demo       six kernels on NumPy arrays, compiled on this CPU: a table"
	@echo "make test       the tests (installs torch and jax too)"
	@echo "make bench      against torch, torch.compile, NumPy and the interpreter: table, JSON, plot"
	@echo "make fuzz N=1000 new random programs, compiled against the reference (SEED=... repeats)"
	@echo "make lint       ruff and mypy"
	@echo "make tour       write docs/tour.md anew"
	@echo "make clean      remove .venv and everything that was built"

$(PY):
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer with its venv module is needed; name one: make PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(SOURCES) | $(PY)
	@echo "Installing the package with Triton (about 200 MB once) ..."
	$(PIP) -e '.[demo]'
	@touch $@

$(VENV)/.torch: | $(PY)
	$(PIP) '$(TORCH)'
	$(PIP) '$(TRITON)'
	@touch $@

$(VENV)/.dev: $(SOURCES) $(VENV)/.torch
	$(PIP) -e '.[dev,demo,torch,jax]'
	@touch $@

$(VENV)/.bench: $(SOURCES) $(VENV)/.torch
	$(PIP) -e '.[bench,torch]'
	@touch $@

demo: $(VENV)/.demo
	$(PY) examples/demo.py

test: $(VENV)/.dev
	$(PY) -m pytest -n 2 $(ARGS)

bench: $(VENV)/.bench
	$(PY) benchmarks/run.py $(ARGS)

fuzz: $(VENV)/.dev
	OMNIKERNEL_TEST_PROGRAMS=$(N) OMNIKERNEL_TEST_PROGRAM_SEED=$(SEED) $(PY) -m pytest tests/random_programs $(ARGS)

lint: lint-rules lint-format lint-types
lint-rules: $(VENV)/.dev
	$(PY) -m ruff check $(CHECKED)
lint-format: $(VENV)/.dev
	$(PY) -m ruff format --check $(CHECKED)
lint-types: $(VENV)/.dev
	$(PY) -m mypy --strict src/omnikernel

tour: $(VENV)/.dev
	$(PY) tools/make_tour.py

clean:
	rm -rf $(VENV) .venv-min build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src -name '*.so' -delete
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
