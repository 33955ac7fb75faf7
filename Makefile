# Every target makes the environment it needs from a bare python3 (>= 3.11): .venv for the demonstration and the tests, others
# for what cannot live beside them.
PYTHON ?= python3
BIN := .venv/bin
CORE := .venv/.demo
STAMP := .venv/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# One BLAS thread per process: the tests run one process per core, and small batched matrices gain nothing from more.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export NO_MKDOCS_2_WARNING := 1
# Bytecode is kept, as it is by default: or each of the processes that tests start would compile the library again.
unexport PYTHONDONTWRITEBYTECODE
# Archives hold this time and no other, so that two builds of one commit are the same bytes.
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 315532800)

.PHONY: help setup demo check test lint matrix dist lock sbom bench bench-peers utility coverage audit staged-audit transcripts mutation reproduce gallery docs preprint clean
help:
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(STAMP)  ## the environment, with everything the tests use

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "curvedp needs Python 3.11 or newer; set PYTHON=python3.11 (or later)")'
	$(PYTHON) -m venv .venv

$(CORE): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[report]'
	touch $@

$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[test]'
	touch $(CORE) $@

demo: $(CORE)  ## private Fréchet means of real covariance descriptors, with certificate, plots and report
	$(BIN)/curvedp demo

check: $(STAMP)  ## the quick lane: style, and the first case of every test that is not slow
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow'

test: $(STAMP)  ## all tests, the documentation's code and a strict build of the site among them
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(STAMP)  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

matrix:  ## newest, oldest, core-only and Flower, on every Python that is installed here; LANES='core-3.12 oldest-3.11' for some
	$(PYTHON) .ci/matrix.py $(LANES)

dist: $(STAMP)  ## wheel and source archive in dist/, the same bytes each time
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	cd dist && sha256sum *

lock: $(STAMP)  ## constraints.txt from this environment, and the same with the hashes of every archive
	$(BIN)/python .ci/lock.py

sbom: $(STAMP)  ## what the environment is made of, as CycloneDX, in out/sbom.json
	mkdir -p out
	$(PYTHON) -m venv .sbom
	.sbom/bin/python -m pip install --quiet --disable-pip-version-check 'cyclonedx-bom==7.5.0'
	.sbom/bin/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml --output-file out/sbom.json $(BIN)/python

bench: $(STAMP)  ## every speed table: against peers, floors and the machine's limits
	$(PIP) --editable '.[bench]'
	$(BIN)/python -m benchmarks

bench-peers: $(STAMP)  ## the table against peers alone; makes their environments in .peers/ the first time
	$(BIN)/python -m benchmarks.peers
	-$(BIN)/python -m benchmarks.regression_peers --repeats 3

utility: $(STAMP)  ## error without a radius, of persons, against CoinPress; classifiers of many channels (data sets: CURVEDP_DATA)
	$(BIN)/python -m benchmarks.utility_private
	$(BIN)/python -m benchmarks.high_dimension

coverage: $(STAMP)  ## how often regions hold the truth, how often tests err, and what they find; hours on a small machine
	$(BIN)/python -m benchmarks.coverage

audit: $(STAMP)  ## claimed against audited privacy, every mechanism on every space
	$(BIN)/python -m benchmarks.audit

staged-audit: $(STAMP)  ## 10⁶ transcripts a side of private balls and medians, by both kinds of noise; two hours
	$(BIN)/python -m benchmarks.staged_audit

transcripts: $(STAMP)  ## what 10⁴ adversarial pairs a space are told apart by in the stages of a private ball; hours
	PYTHONPATH=tests $(BIN)/python tests/support/transcript.py

mutation: $(STAMP)  ## which seeded faults of samplers, accounting and ledger the tests catch
	$(BIN)/python -m benchmarks.mutation

reproduce: $(STAMP)  ## every figure and table of the papers, reduced form, in out/ (data sets: CURVEDP_DATA)
	$(BIN)/curvedp reproduce all

gallery: $(STAMP)  ## run the tutorials and renew the pictures of README and site (data sets: CURVEDP_DATA)
	$(BIN)/python examples/gallery.py
	$(BIN)/python docs/pictures.py

docs: $(STAMP)  ## the documentation site, in site/
	$(BIN)/mkdocs build --strict

preprint:  ## the theory as a PDF, in out/preprint.pdf; pandoc and typst come from PyPI, into .preprint
	$(PYTHON) -m venv .preprint
	.preprint/bin/python -m pip install --quiet --disable-pip-version-check 'pypandoc_binary==1.17' 'typst==0.15.0' 'mkdocs>=1.6' 'griffe>=1.5'
	.preprint/bin/python docs/preprint/build.py

clean:
	rm -rf .venv .peers .matrix .sbom .preprint site build dist out
