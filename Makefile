# Everything runs in .venv, which the targets make and fill by themselves: no root, nothing outside this folder; only
# `make browser`, which the tests use, installs a system package where none is there and the user is root.

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

# The interpreter for .venv: make PYTHON=/path/to/python3, or the first of these that is new enough.
PYTHONS := $(if $(PYTHON),"$(PYTHON)",python3 python3.13 python3.12 python3.11 python3.14)

# Prints "3.12" for a released Python 3.11 or newer, and fails for any other.
PROBE_VERSION := import sys; v = sys.version_info; \
	sys.exit(1) if v < (3, 11) or v[3] != "final" else print("%d.%d" % v[:2])

# Where other versions stand side by side with the one of .venv, as pyenv and uv keep them.
PROBE_BESIDE := import glob, os, sys; \
	print(*sorted(glob.glob(os.path.join(os.path.dirname(sys.base_prefix), "*", "bin", "python3"))))

# What a bare installation must do: solve, exactly, without any of the extras.
define SMOKE
import platform, sys
import lazyrich as lr

network = lr.inits.zero_balanced(0, sizes=(8, 14, 8), scale=0.01)
traj = lr.solve(lr.Problem(lr.tasks.semantic_hierarchy(), network), [0.0, 10.0, 1000.0])
assert traj.loss[0] > traj.loss[-1] >= 0, traj.loss
extras = {"starlette", "jax", "diffrax", "equinox", "optax", "torch", "matplotlib", "tqdm", "xarray"} & set(sys.modules)
assert not extras, f"a bare solve imported {extras}"
print(f"Python {platform.python_version()}: lazyrich {lr.__version__} installs alone and solves ({traj.method})")
endef

export SMOKE PROBE_VERSION PROBE_BESIDE

# Bytecode goes to .venv, also where PYTHONDONTWRITEBYTECODE keeps the folders clean: compiling the sources takes longer
# than most tests, and each process that a test starts would do it again.
PYTEST := PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX="$(CURDIR)/$(VENV)/bytecode" \
	$(BIN)/python -m pytest -q -n 2 --dist loadfile

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo explore test test-rest test-all test-slow bench lint claims docs wheel gallery browser clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1|/p' Makefile | while IFS='|' read -r target text; do \
		printf 'make %-10s %s\n' "$$target" "$$text"; done

demo: $(VENV)/.demo ## the semantic hierarchy from three initialisations: a table and a figure
	@$(BIN)/lazyrich demo

explore: $(VENV)/.explore ## drag λ from lazy to rich: the explorer, in your browser
	@$(BIN)/lazyrich explore

test: lint ## style, types, layers and the quick tests of every room: five minutes on 2 cores
	@$(PYTEST) -m quick

test-rest: $(VENV)/.test browser ## what is not quick: browser, processes, compilation, figures, pages; about 12 minutes
	@$(PYTEST) -m 'not quick and not slow' --durations 25

test-all: test test-rest ## both: all tests but the slow ones

test-slow: $(VENV)/.test ## the slow tests: published sizes, a thousand problems, every mutation; about an hour
	@$(PYTEST) -m slow

bench: $(VENV)/.test ## what we promise about speed beside what is measured here, as ratios; ten minutes
	@$(BIN)/python benchmarks/promises.py

lint: $(VENV)/.test ## style, types and layers alone
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

claims: $(VENV)/.demo ## every statement of the ledger on random problems; fails if a verdict changes
	@mkdir -p build
	@$(BIN)/lazyrich claims --json >build/claims.part
	@mv build/claims.part build/claims.json
	@echo "No verdict of the ledger has changed; build/claims.json has the numbers."

docs: $(VENV)/.docs build/claims.json ## the documentation, built strictly, notebooks executed, links checked
	@rm -rf build/docs
	@$(BIN)/python -m sphinx -E -W --keep-going -n -q -d build/doctrees docs build/docs
	@$(BIN)/python docs/check_links.py build/docs
	@echo "Open build/docs/index.html."

build/claims.json: $(shell find src/lazyrich -name '*.py')
	@$(MAKE) --no-print-directory claims

wheel: $(VENV)/.wheel ## build the wheel and try it, without extras, on every Python 3.11+ found here
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist . >$(VENV)/build.log 2>&1 || { cat $(VENV)/build.log; exit 1; }
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; trap 'exit 1' INT TERM; tried=" "; \
	for python in $(BIN)/python python3.11 python3.12 python3.13 python3.14 $$($(BIN)/python -c "$$PROBE_BESIDE"); do \
		version=$$("$$python" -c "$$PROBE_VERSION" 2>/dev/null) || continue; \
		case "$$tried" in *" $$version "*) continue;; esac; \
		tried="$$tried$$version "; \
		"$$python" -m venv "$$tmp/$$version" && \
		"$$tmp/$$version/bin/python" -m pip --disable-pip-version-check install --quiet --prefer-binary \
			dist/lazyrich-*.whl && \
		(cd "$$tmp" && "$$version/bin/python" -I -c "$$SMOKE") || \
			{ echo "The wheel fails on Python $$version ($$python)." >&2; exit 1; }; \
		rm -rf "$$tmp/$$version"; \
	done

browser: $(VENV)/.made ## a Chromium for the tests of the explorer's page, from the system's packages where that is allowed
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null 2>&1 && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
		echo "Installing Chromium for the tests of the explorer's page."; \
		(apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
			chromium fonts-dejavu-core) >$(VENV)/browser.log 2>&1 && exit 0; \
		echo "That failed; $(VENV)/browser.log says how." >&2; \
	fi; \
	echo "NO BROWSER: the explorer's page will NOT be tested. With apt: sudo apt-get install chromium" >&2

gallery: $(VENV)/.test ## every figure of the papers with its published settings, and docs/gallery from them
	@$(BIN)/lazyrich figure all --out build/figures
	@$(BIN)/python -m lazyrich.papers.gallery build/figures docs/gallery

clean: ## remove all that make and the tests have made, .venv included
	rm -rf $(VENV) build dist figures docs/ledger docs/papers docs/generated docs/reference lazyrich-out lazyrich-demo.png lazyrich-predict.png
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Set-up. A stamp is written last, so that one interrupted half-way counts for nothing.
# .made holds the path of this folder: an environment that was moved, copied or lost its Python is made anew.
ifneq ($(shell test -x $(BIN)/python && cat $(VENV)/.made 2>/dev/null),$(CURDIR))
.PHONY: $(VENV)/.made
endif

$(VENV)/.made:
	@rm -rf $(VENV)
	@for python in $(PYTHONS); do \
		"$$python" -c "$$PROBE_VERSION" >/dev/null 2>&1 || continue; \
		echo "Setting up $(VENV): the first time takes a few minutes."; \
		"$$python" -m venv $(VENV) && echo "$(CURDIR)" >$@; exit; \
	done; \
	echo 'lazyrich needs Python 3.11 or newer, and found none: name one with make PYTHON=/path/to/python3.' >&2; \
	exit 1

$(VENV)/.demo: $(VENV)/.made pyproject.toml
	@$(PIP) --editable '.[engines,figures,files]'
	@touch $@

$(VENV)/.explore: $(VENV)/.made pyproject.toml
	@$(PIP) --editable '.[explorer,figures]'
	@touch $@

$(VENV)/.docs: $(VENV)/.made pyproject.toml
	@$(PIP) --editable '.[all,docs]'
	@touch $(VENV)/.demo $(VENV)/.explore $@

# All that the others need is in here too. PyTorch comes without CUDA, 0.2 GB in place of 3, where an index that pip knows
# has such a build (PIP_EXTRA_INDEX_URL names one); where none has, and on macOS, pip takes what there is.
$(VENV)/.test: $(VENV)/.made pyproject.toml
	@cpu=$$($(BIN)/python -m pip --disable-pip-version-check index versions torch 2>/dev/null | \
		grep -o '[0-9.]*+cpu' | head -n 1); [ -z "$$cpu" ] || $(PIP) "torch==$$cpu"
	@$(PIP) --editable '.[all,docs,dev]'
	@touch $(VENV)/.demo $(VENV)/.explore $(VENV)/.docs $(VENV)/.wheel $@

$(VENV)/.wheel: $(VENV)/.made
	@$(PIP) build
	@touch $@
