# Every target makes what it needs: a virtual environment in .venv, re-installed only when pyproject.toml changes.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo up test test-deploy test-integrations check format lint types imports bench bench-peers schemas kubernetes topics lock dashboards collector docs docs-serve clean

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do command -v $$p && break; done)
BIN := .venv/bin
INSTALLED := .venv/.installed

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 19

demo: $(INSTALLED) ## five agents, four of them runaways: watch them being stopped
	$(BIN)/spanfuse demo

up: $(INSTALLED) ## the circuit breaker in one process, on ports 4317, 4318 and 8787
	$(BIN)/spanfuse up

test: $(INSTALLED) ## all tests, on a real Kafka and a real Redis that are started as needed
	@$(BIN)/python -m tests.services.prepare
	$(BIN)/python -m pytest -m "not integration and not deploy" -n auto
	$(BIN)/python -m pytest -m "integration and not deploy and not paced" -n 2 --dist loadfile
	$(BIN)/python -m pytest -m paced

test-deploy: $(INSTALLED) ## what is deployed, with a real Collector and Helm, which are built from their sources once
	@$(BIN)/python -m tests.services.go_tools
	@$(BIN)/python -m tests.services.prepare
	@$(BIN)/python -m tests.services.otelcol
	$(BIN)/python -m pytest -m deploy

test-integrations: $(INSTALLED) ## the integrations with each framework, in its newest version and in an older one
	$(BIN)/nox $(if $(FRAMEWORK),--session "$(FRAMEWORK)") $(if $(VERSIONS),--tags "$(VERSIONS)")

check: format lint types imports docs test ## what CI runs: format, lint, types, layers, docs, tests

format: $(INSTALLED)
	$(BIN)/ruff format --check .

lint: $(INSTALLED)
	$(BIN)/ruff check .

types: $(INSTALLED)
	$(BIN)/mypy

imports: $(INSTALLED)
	$(BIN)/lint-imports

bench: $(INSTALLED) ## measure, with a baseline in the same run
	@$(BIN)/python -m tests.services.prepare
	$(BIN)/python -m bench

bench-peers: $(INSTALLED) ## compare with other loop detectors on the recordings in FOLDER=…, scored by LABELS=… if there are any
	@test -n "$(FOLDER)" || { echo "usage: make bench-peers FOLDER=recordings [LABELS=labels.jsonl]" >&2; exit 2; }
	$(BIN)/python -m bench.peers "$(FOLDER)" $(if $(LABELS),--labels "$(LABELS)")

schemas: $(INSTALLED) ## write schemas/json/ anew from the models
	$(BIN)/python -m spanfuse_schemas.json_schema schemas/json

dashboards: $(INSTALLED) ## write dashboards/*.json anew from their code
	$(BIN)/python -m dashboards.generator

collector: $(INSTALLED) ## write deploy/collector/without-content.yaml anew from the tables of dialects
	$(BIN)/python -m deploy.collector.generator

docs: $(INSTALLED) ## the site of docs/ into build/site; a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: $(INSTALLED) ## the same on http://127.0.0.1:8000, anew with each change
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --strict

kubernetes: $(INSTALLED) ## write deploy/kubernetes/ anew from the Helm chart
	@$(BIN)/python -m tests.services.go_tools
	$(BIN)/python -m tests.deploy.charts

topics: $(INSTALLED) ## write deploy/kafka/topics.md anew from the tables of topics
	$(BIN)/python -m deploy.kafka.generator

lock: $(INSTALLED) ## choose the versions anew that the image installs
	{ echo '# What the image installs, by version: `make lock` writes it anew from pyproject.toml.'; \
	  $(BIN)/uv pip compile pyproject.toml --quiet --extra processor --python-version 3.12 \
	    --python-platform x86_64-unknown-linux-gnu --no-header --no-annotate; } > deploy/requirements.txt

clean: ## remove everything that make and the tools created
	rm -rf .venv .nox .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "spanfuse needs Python 3.11 or newer: apt-get install python3.11 python3.11-venv" >&2; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv .venv \
	  || { rm -rf .venv; echo "python3 -m venv does not work here: apt-get install python3-venv" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
