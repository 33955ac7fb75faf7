# Every target makes its own environment in .venv from a bare python3 (>= 3.11).
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready
# One BLAS thread per process: the tests run one process per core, and small batched matrices gain nothing from more.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export NO_MKDOCS_2_WARNING := 1

.PHONY: help setup demo test lint bench bench-peers audit mutation reproduce gallery docs clean
help:
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(STAMP)  ## the environment, with everything the tests use

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "curvedp needs Python 3.11 or newer; set PYTHON=python3.11 (or later)")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test]'
	touch $@

demo: $(STAMP)  ## private Fréchet means of real covariance descriptors, with certificate, plots and report
	$(BIN)/curvedp demo

test: $(STAMP)  ## all tests, the documentation's code and a strict build of the site among them
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(STAMP)  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)  ## every speed table: against peers, floors and the machine's limits
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python -m benchmarks

bench-peers: $(STAMP)  ## the table against peers alone; makes their environments in .peers/ the first time
	$(BIN)/python -m benchmarks.peers
	-$(BIN)/python -m benchmarks.regression_peers --repeats 3

audit: $(STAMP)  ## claimed against audited privacy, every mechanism on every space
	$(BIN)/python -m benchmarks.audit

mutation: $(STAMP)  ## which seeded faults of samplers, accounting and ledger the tests catch
	$(BIN)/python -m benchmarks.mutation

reproduce: $(STAMP)  ## every figure and table of the papers, reduced form, in out/ (data sets: CURVEDP_DATA)
	$(BIN)/curvedp reproduce all

gallery: $(STAMP)  ## run the tutorials and renew the pictures of README and site (data sets: CURVEDP_DATA)
	$(BIN)/python examples/gallery.py
	$(BIN)/python docs/pictures.py

docs: $(STAMP)  ## the documentation site, in site/
	$(BIN)/mkdocs build --strict

clean:
	rm -rf .venv .peers site build dist out
