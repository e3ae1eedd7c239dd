# For a newcomer: `make image` builds and verifies the cpu image, `make test` runs every test.
# Both set up what they need: a virtual environment, and Debian packages where they are missing.

PYTHON ?= python3
VENV := .venv
PLUGIN_VENV := .venv-plugin
FLBUILD := $(VENV)/bin/flbuild
IMAGE := build/cpu
WHEELS := build/wheels

IMAGE_PACKAGES := ca-certificates git mmdebstrap python3-venv
TEST_PACKAGES := $(IMAGE_PACKAGES) buildah docker-registry docker.io iptables runc skopeo umoci

.PHONY: image test lint unit integration plugin builders golden clean

image: $(VENV)/.installed
	scripts/apt-prerequisites $(IMAGE_PACKAGES)
	$(FLBUILD) image cpu --output oci:$(IMAGE) --refresh-base
	$(FLBUILD) verify digest oci:$(IMAGE)
	$(FLBUILD) verify image oci:$(IMAGE)

# The two long parts mostly wait, for disks, engines and each other's processes, so they run side by side.
test: lint unit
	$(MAKE) --jobs 2 --output-sync=target integration plugin

$(VENV)/.installed: pyproject.toml
	scripts/apt-prerequisites python3-venv
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(VENV)/bin/pip install --quiet --editable '.[dev]'
	touch $@

lint: $(VENV)/.installed-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	MYPYPATH=plugin $(VENV)/bin/mypy --package vllm_fl
	$(VENV)/bin/lint-imports

unit: $(VENV)/.installed-dev
	scripts/apt-prerequisites git
	$(VENV)/bin/python -m pytest -n auto tests/unit tests/golden

integration: $(VENV)/.installed-dev
	scripts/apt-prerequisites $(TEST_PACKAGES)
	$(VENV)/bin/python -m pytest tests/integration

# The plugin's tests run on the wheel that the image carries: built by flbuild, beside the CPU build of torch.
$(PLUGIN_VENV)/.installed: $(VENV)/.installed plugin/requirements-test.txt images.lock
	$(FLBUILD) wheel vllm-empty --output $(WHEELS)
	$(PYTHON) -m venv $(PLUGIN_VENV)
	$(PLUGIN_VENV)/bin/pip install --quiet --requirement plugin/requirements-test.txt --find-links $(WHEELS)
	touch $@

plugin: $(PLUGIN_VENV)/.installed
	$(FLBUILD) wheel plugin --output $(WHEELS)
	OMP_NUM_THREADS=1 $(PLUGIN_VENV)/bin/python -m pytest tests/plugin

# Every recipe and target by every builder, which takes as long as all other tests together.
builders: $(VENV)/.installed-dev
	scripts/apt-prerequisites $(TEST_PACKAGES)
	FLBUILD_TEST_BUILDERS=all $(VENV)/bin/python -m pytest tests/integration/test_builders.py

golden: $(VENV)/.installed-dev
	$(VENV)/bin/python -m pytest tests/golden --update-golden

clean:
	rm -rf $(VENV) $(PLUGIN_VENV) build
