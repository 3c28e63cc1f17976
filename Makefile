# Needs Python 3.11 or newer; everything else is installed into $(VENV).
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
READY = $(VENV)/.installed

.PHONY: help demo test check test-slow test-mutations test-onnx test-stablehlo onnxruntime-cases test-zoo bench format clean

help:
	@echo "make demo       compile, verify and run the sample model"
	@echo "make test       the tests"
	@echo "make check      ruff and mypy"
	@echo "make test-slow  the long suites"
	@echo "make test-onnx  the suites of the onnx package against the lists of known gaps"
	@echo "make test-stablehlo  StableHLO modules that check themselves"
	@echo "make onnxruntime-cases  writes build/onnxruntime, a suite of onnxruntime's own operators and of ai.onnx.ml"
	@echo "make test-mutations  faults planted in lowering rules: caught, named and reduced"
	@echo "make test-zoo   real models, minutes each; downloads them"
	@echo "make bench      speed against other engines, for docs/benchmarks.md; hours, on a quiet machine"
	@echo "make format     rewrite the sources in the project's format"

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

demo: $(READY)
	mkdir -p build
	$(BIN)/fornaxc compile samples/digits/digits.onnx -o build/digits.fxa
	$(BIN)/fornaxc verify samples/digits/digits.onnx
	$(BIN)/fornaxc run build/digits.fxa --inputs samples/digits/images.npz -o build/digits.npz
	$(BIN)/python samples/digits/show.py samples/digits/images.npz build/digits.npz

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: $(READY)
	$(BIN)/python -m pytest -m "not slow and not zoo" --numprocesses 2 --dist loadfile

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow

test-onnx: $(READY)
	$(BIN)/python -m pytest -m "slow or not slow" tests/onnx_suite

test-stablehlo: $(READY)
	$(BIN)/python -m pytest -m "slow or not slow" tests/stablehlo_suite

onnxruntime-cases: $(READY)
	rm -rf build/onnxruntime
	FORNAXC_RECORD_CASES=build/onnxruntime $(BIN)/python -m pytest tests/importers/test_onnx_ml.py tests/importers/test_onnx_runtime_*.py

test-mutations: $(READY)
	$(BIN)/python -m pytest -m slow tests/diagnosis

test-zoo: $(READY)
	$(BIN)/python -m pytest -m zoo

bench: $(READY)
	$(BIN)/python -m benchmarks

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf build dist $(VENV) .mypy_cache .pytest_cache .ruff_cache
