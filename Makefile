# Two commands are all a fresh machine needs: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Two processes, a file of tests each; one thread in each, or they would wait for one another.
TESTS := OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile
EXTRAS := demo,formats,onnx,pretrained,remote,serve,tensorboard,triton,vad,test
SHARED_DATA := $(wildcard ../shared/data)
ifndef ARBORVOX_DATA
ifneq ($(SHARED_DATA),)
export ARBORVOX_DATA := $(abspath $(SHARED_DATA))
endif
endif

.PHONY: setup demo test test-all bench pages lint format clean clean-kernels

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Arborvox needs Python 3.11 or newer; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# No data needed: three synthetic languages, two models, a report, a transcription (~5 minutes).
demo: setup
	sh recipes/demo.sh $(BIN)/arborvox demo

test: lint
	$(TESTS)

test-all: lint
	ARBORVOX_SLOW=1 $(TESTS) -m ''

# Every speed claim is a script; together they take most of an hour.
bench: setup
	cd benchmarks && for script in tree output_layer training decoding prepare; do \
	  echo "== $$script"; ../$(BIN)/python $$script.py || exit 1; done

# The tables of the pages under results/, from the JSON files beside them.
pages: setup
	$(BIN)/python benchmarks/pages.py

clean-kernels:
	find arborvox -name '*.nb[ic]' -delete

clean: clean-kernels
	rm -rf $(VENV) demo .pytest_cache .mypy_cache .ruff_cache build *.egg-info
