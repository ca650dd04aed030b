# Every task of the project. The machine needs Python 3.11 or later and make; the rest comes with `make setup`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := .uv/bin/uv
READY := $(VENV)/.ready
SITE = $(BIN)/sphinx-build -W --keep-going -c maintenance/site -d dist/doctrees docs dist/docs

.PHONY: help run setup test pythons browser promtool test-integrations test-resolve check format bench soak fuzz-api openapi reference golden sbom picture screenshots docs release lock clean
.DEFAULT_GOAL := help

help: ## list the tasks
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

run: setup ## start the service on its embedded default
	@$(BIN)/coatcheck serve --data $${COATCHECK_DATA:-coatcheck-data}

setup: $(READY) ## make .venv from the hashed lock

$(UV): requirements-uv.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Coatcheck needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version). Name another: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv .uv
	@.uv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.lock
	@touch $@

$(READY): $(UV) requirements.lock pyproject.toml client/pyproject.toml
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
	@VIRTUAL_ENV=$(VENV) $(UV) pip sync --quiet --system-certs --require-hashes requirements.lock
	@VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet --no-deps --no-build-isolation --offline --editable client --editable .
	@touch $@

test: setup pythons browser promtool ## run the tests
	@$(BIN)/pytest -n auto $(ARGS)

pythons: setup ## environments of the other Pythons of this machine, for the tests that run on each
	@$(BIN)/python tests/support/pythons.py

browser: setup ## a Chromium, as a package carries it, for the tests of the page
	@$(BIN)/python tests/support/browser.py

promtool: setup ## Prometheus' checker of rules, as a Debian package carries it, for the tests of deploy/alerts.yaml
	@$(BIN)/python tests/support/promtool.py

test-integrations: setup ## test each framework's integration against its release of today; ARGS="agno crewai" for some
	@$(BIN)/python tests/stacks/run.py $(ARGS)

test-resolve: setup ## resolve the client beside each framework's newest release; ARGS="agno crewai" for some
	@$(BIN)/python tests/stacks/resolve.py $(ARGS)

check: setup ## format, lint, types, import contracts, line budget, generated files, documentation
	@$(BIN)/ruff format --check --diff
	@$(BIN)/ruff check
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports
	@$(BIN)/python maintenance/line_budget.py --check
	@$(BIN)/coatcheck openapi --check openapi/openapi.json
	@$(BIN)/python maintenance/site/reference.py --check
	@PYTHONPATH=deploy $(BIN)/python maintenance/sbom.py --check
	@$(SITE) -q

format: setup ## put the code into the project's form, lower the line budget to what is left
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix
	@$(BIN)/python maintenance/line_budget.py --lower

bench: setup ## measure, beside floors taken in the same run
	@PYTHONPATH=tests $(BIN)/python -m bench $(ARGS)

openapi: setup ## write openapi/openapi.json from the code
	@$(BIN)/coatcheck openapi > openapi/openapi.json.new && mv openapi/openapi.json.new openapi/openapi.json

reference: setup ## write docs/reference from the code
	@$(BIN)/python maintenance/site/reference.py

golden: setup ## write the digests of the golden set's cards; ENGINE has to be raised before, once a release
	@PYTHONPATH=tests $(BIN)/python tests/golden/golden_cards.py

sbom: setup ## write each distribution's bill of materials from requirements.lock
	@PYTHONPATH=deploy $(BIN)/python maintenance/sbom.py

picture: setup ## draw docs/card.svg from a real card
	@PYTHONPATH=tests $(BIN)/python maintenance/site/picture.py

screenshots: setup browser ## take the pictures of the page that docs/how-to/page.md shows
	@mkdir -p docs/images
	@$(BIN)/pytest tests/page/test_screenshots.py -q -k is_made --screenshots docs/images

docs: reference ## build the documentation site in dist/docs
	@$(SITE) -q && echo dist/docs/index.html

release: setup ## check that the tree can be released, build and try both distributions in dist, say what to publish
	@PYTHONPATH=deploy $(BIN)/python maintenance/release.py

lock: setup ## resolve the dependencies again
	@$(UV) pip compile --quiet --system-certs --universal --generate-hashes --no-header --python-version 3.11 --upgrade --all-extras --group dev --no-emit-package coatcheck-client pyproject.toml -o requirements.lock
	@$(MAKE) --no-print-directory sbom

clean: ## remove what the tasks made
	rm -rf $(VENV) .uv .stacks .pythons .browser .promtool .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist

fuzz-api: setup ## thousands of requests made up from the OpenAPI document; ARGS="--cases 500 --seed 2"
	@PYTHONPATH=tests $(BIN)/python tests/fuzz/api_fuzz.py $(ARGS)

soak: setup ## the fault harness at length (over an hour); STORAGE=postgresql+s3 for one combination, ARGS="--share 0.1"
	@PYTHONPATH=tests $(BIN)/python tests/faults/soak.py $(STORAGE) $(ARGS)
