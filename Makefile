# make demo   sets everything up in .venv and trains two models
# make test   sets everything up in .venv and runs every test
# make quick  builds what src/ says, hardly optimised; and runs some tests: make quick T="tests/python/test_dual.py -k copies"
# make test-benches  every program of benches/, at sizes that only show that it runs (minutes; before a release)
# make bench  the comparison with scikit-learn (minutes), then Rust's own benches
# make reproduce  the papers' tables and figures and the comparison with other machines, quick; FULL=1: the sizes of the docs
# make torture    hostile input by the ten thousand, each case in a process of its own (some twenty minutes)
# make release-check  a wheel, the source distribution and the crate, as somebody without Rust and without the rest gets them (minutes)
# make converge  time to a certified gap and to an accuracy, beside LinearSVC and SGDClassifier (an hour)

PYTHON ?= python3
BIN := .venv/bin
SOURCES := Cargo.toml Cargo.lock pyproject.toml $(shell find src -name '*.rs')
# Into .venv, whatever else is active.
MATURIN := env -u CONDA_PREFIX VIRTUAL_ENV='$(CURDIR)/.venv' MATURIN_NO_MISSING_BUILD_BACKEND_WARNING=1 $(BIN)/maturin develop --locked

.PHONY: demo test quick test-benches bench reproduce torture converge release-check clean

demo: .venv/demo.stamp
	$(BIN)/python docs/demo.py

test: .venv/test.stamp
	cargo test --locked --features ndarray
	PEGASOS_SIMD=baseline cargo test --locked --features ndarray --lib --test rust --test memory
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal

quick: $(BIN)/maturin
	rm -f .venv/*.stamp
	$(MATURIN) --extras test --profile quick
	$(if $(T),$(BIN)/python -m pytest $(T))

test-benches: .venv/test.stamp
	$(BIN)/python -m pytest tests/benches

bench: .venv/test.stamp
	$(BIN)/python benches/compare.py
	$(BIN)/python benches/classes.py
	$(BIN)/python benches/shards.py
	$(BIN)/python benches/kernels.py
	$(BIN)/python benches/budget.py
	$(BIN)/python benches/refit.py
	cargo bench --locked

reproduce: .venv/test.stamp
	$(BIN)/python benches/reproduce.py $(if $(FULL),--full)

torture: .venv/test.stamp
	$(BIN)/python tests/torture.py

converge: .venv/test.stamp
	$(BIN)/python benches/converge.py

release-check: $(BIN)/maturin
	.ci/release

.venv/test.stamp: EXTRAS := --extras test
.venv/demo.stamp .venv/test.stamp: $(BIN)/maturin $(SOURCES)
	@printf '\nThe extension is optimised as one piece: a minute or two, most of it on the last crate.\n'
	@while sleep 15 >/dev/null; do echo '   ... still compiling'; done & trap "kill $$!" EXIT INT TERM; \
	$(MATURIN) $(EXTRAS) --release
	touch $@

$(BIN)/maturin: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "$(PYTHON) must be Python 3.11 or newer; set PYTHON=")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --disable-pip-version-check 'maturin>=1.16,<2'
	touch $@

clean:
	rm -rf .venv target python/pegasos/*.so
