# Everything runs from .venv, which these targets create; nothing else is needed but Python 3.11 to 3.13.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
JOBS ?= 2
PRODUCT := pyproject.toml README.md LICENSE $(shell find harness reference_models rules reports -type f \
	-not -path '*/__pycache__/*' -not -name '*.pyc')

.PHONY: demo test test-all test-long gpu gpu-wheels lint picture reference-system clean
.DEFAULT_GOAL := demo

demo: $(VENV)/demo.stamp
	$(BIN)/dlrmbench run
	@echo "next     is the optimized implementation faster? $(BIN)/dlrmbench versus latest --implementation optimized"

# Three tiers, told apart by what a test costs: CONTRIBUTING.md has their table.
test: $(VENV)/test.stamp
	JOBS=$(JOBS) BIN=$(BIN) tests/run_checks.sh $@

test-all: $(VENV)/test.stamp
	JOBS=$(JOBS) BIN=$(BIN) tests/run_checks.sh $@

test-long: $(VENV)/test.stamp
	JOBS=$(JOBS) BIN=$(BIN) tests/run_checks.sh $@

# On a system with a GPU, by its own Python, which has torch: all steps, or STEP="tests throughput"; its result goes
# to OUT=FILE, and it ends WITHIN=SECONDS.
gpu:
	$(PYTHON) tests/gpu $(STEP) $(if $(OUT),--out "$(OUT)") $(if $(WITHIN),--within $(WITHIN))

# Elsewhere, with a network: what that Python lacks. FOR is its version, HAS a file that lists what it has.
gpu-wheels: $(BIN)/python
	$(PIP) install packaging
	$(BIN)/python tests/gpu/wheels.py $(if $(FOR),--python $(FOR)) $(if $(HAS),--has $(HAS))

lint: $(VENV)/test.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# The picture of a page in README; needs Chromium.
picture: $(VENV)/demo.stamp
	PATH="$(CURDIR)/$(BIN):$$PATH" .ci/picture

# This system's bundle, to be shipped for others to compare with: NAME=amd-epyc-zen3-2-cores; on a quiet system alone.
reference-system: $(VENV)/demo.stamp
	$(BIN)/dlrmbench measure-system --bundle "$(NAME)" -o "reports/reference_systems/$(NAME).zip"

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	@echo "creating $(VENV)"
	$(PYTHON) -m venv $(VENV)

# A newer stamp of either kind means that the product inside .venv is the one in this checkout.
$(VENV)/demo.stamp: $(BIN)/python $(PRODUCT)
	@echo "installing dlrmbench and what it needs into $(VENV): 1 GB, of CUDA more, two to five minutes; pip is silent"
	@rm -rf build # which keeps files that a later commit has no more, and installs them again
	$(PIP) install --upgrade .
	@touch $@

$(VENV)/test.stamp: $(BIN)/python $(PRODUCT) reference_models/dlrm/requirements/torchrec-cpu.txt
	@echo "installing dlrmbench and what tests need into $(VENV): 1 GB, of CUDA more, two to five minutes; pip is silent"
	@rm -rf build
	$(PIP) install --upgrade ".[test,dev]"
	$(PIP) install --no-deps -r reference_models/dlrm/requirements/torchrec-cpu.txt || echo "no torchrec here: its tests skip"
	@touch $@ $(VENV)/demo.stamp
