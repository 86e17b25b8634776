# Shortcuts for development. scripts/ and cargo do the work.

# Checks and tests are built with every feature, and all of them with the same: other features would build all again.
FEATURES := --features cloze/otlp,cloze-train/otlp

.PHONY: help setup demo install dist test test-timing check test-readers test-stores test-text-to-prediction fmt lint doc keys gpu-pack gpu-rehearsal streaming-proof bench bench-duplicates bench-filters bench-load bench-many-files bench-prepare bench-tokenize bench-train bench-remote bench-views bench-watched profile-cases scaling scaling-check golden test-extension code-stats fuzz soak test-cluster test-deploy test-page clean

help:            ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | expand -t 16

setup:           ## download libtorch into .libtorch, once; SETUP=full adds Python references and CUDA
	@scripts/setup

demo:            ## from text files to a trained model that fills in blanks: 4 minutes after the build
	@scripts/demo

install: setup   ## `cloze` and `cloze-train` into ~/.cargo/bin, stripped; they use libtorch in this folder
	CARGO_PROFILE_RELEASE_STRIP=symbols cargo install --locked --target-dir target --path .
	CARGO_PROFILE_RELEASE_STRIP=symbols cargo install --locked --target-dir target --path trainer/cli

dist: setup      ## a folder and a tarball for other machines: program, libtorch, manual, licences (TARBALL=no, PROGRAM=path)
	@scripts/dist

test: setup      ## all tests except test-timing; ends with the number of skipped tests and the reasons
	@scripts/test

test-timing: setup  ## tests that measure injected delays; needs a machine without other load
	cargo test --workspace $(FEATURES) --test program --test timing -- --test-threads=1

check: setup     ## the checks of CI
	@.ci/run

test-readers: setup  ## read the outputs of a small run with TensorBoard, DuckDB, a collector and Perfetto (PROGRAM=path)
	@scripts/test-readers

test-text-to-prediction:  ## compare exports in transformers 4 and 5 with cloze, from a text to a prediction (after SETUP=full make setup and a release build); writes docs/exports-tested.md (SCRATCH=folder keeps everything)
	@scripts/test-text-to-prediction

test-stores:     ## run the contract of a store on moto (S3) and Azurite (Azure); writes docs/stores-tested.md (SCRATCH=folder keeps the servers)
	@scripts/test-stores

fmt:             ## format by list: cargo fmt does not see modules that a macro declares
	git ls-files '*.rs' | xargs rustfmt --edition 2024

lint: setup      ## clippy
	cargo clippy --all-targets --workspace $(FEATURES) -- -D warnings
	cargo clippy --workspace $(FEATURES) --test timing -- -D warnings

doc: setup       ## API documentation of all crates, private items included
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --no-deps --workspace --document-private-items $(FEATURES)

keys: setup      ## regenerate docs/configuration.md, the tables of docs/events.md and the charts of the page
	UPDATE=1 cargo test --quiet --workspace $(FEATURES) --lib generated_

gpu-pack: setup  ## one tarball for the first hour on a GPU: program, tests, corpus, gpu-day (PROGRAM=path, TESTS=release, RIVALS=script)
	@scripts/gpu-pack

gpu-rehearsal: setup  ## run gpu-day on a simulated device, with one kill in the middle (TARBALL=path, SAVE=folder)
	@scripts/gpu-rehearsal

streaming-proof: ## compare a run that starts during preparation with one that starts after it: CORPUS=folder SAVE=folder [MB=2000]
	@scripts/streaming-proof $(CORPUS) $(SAVE) $(MB)

bench: setup     ## nanoseconds per token of each stage, tokens per second of a step
	cargo bench --workspace

bench-filters:  ## what each text filter removes, and its cost, next to datatrove (CORPORA="folder …", RIVALS=folder)
	@scripts/bench-filters

bench-load: setup  ## loading throughput, next to other loaders (RIVALS=script)
	@scripts/bench-load

bench-views: setup  ## time and instructions per token of each view and its audit (BEFORE=program compares with another build; needs valgrind)
	@scripts/bench-views

bench-tokenize:  ## tokenization throughput next to other tokenizers, ids compared (TOKENIZERS="folder …", FILE=text)
	@scripts/bench-tokenize

bench-prepare: setup  ## `cloze prepare` next to `datasets.map` to Parquet (TOKENIZER=folder FILE=text; run bench-tokenize first)
	cargo build --release --quiet -p cloze -p cloze-train
	@scripts/bench-prepare

bench-duplicates:  ## cost of finding duplicates next to datatrove's MinHash (FILE=one document per line, TEST_FILE=text, RIVALS=folder)
	@scripts/bench-duplicates

bench-train: setup  ## a training step on the CPU next to Hugging Face (RIVALS=script, RIVALS_PYTHON=python)
	@scripts/bench-train

bench-watched: setup  ## cost of monitoring and profiling per step, alternating with unmonitored steps (CLOZE, PAIRS, STEPS)
	cargo build --release --quiet -p cloze -p cloze-train
	@scripts/bench-watched

bench-many-files: ## steps of a preparation with 10,000 and 100,000 files (after a release build)
	@scripts/bench-many-files

bench-remote: setup  ## waiting for data of a training from a server with 100 ms per request (CLOZE, LATENCY, STEPS)
	cargo build --release --quiet -p cloze -p cloze-train
	@scripts/bench-remote

scaling:         ## what `cloze plan --ranks` computes for 8, 64 and 1,024 H100s (RANKS=list GPU=name BANDWIDTH=GB/s)
	cargo build --release --quiet -p cloze
	@scripts/scaling-table

scaling-check: setup  ## steps of 1, 2 and 3 ranks here, next to what `cloze plan --ranks` computes (RANKS=list ROUNDS=n BANDWIDTH=GB/s)
	cargo build --release --quiet -p cloze -p cloze-train
	@scripts/scaling-check

profile-cases: setup  ## known bottlenecks and the diagnosis of `cloze profile`; predicted and measured effects of changes
	cargo build --release --quiet -p cloze -p cloze-train
	@scripts/profile-cases

golden:          ## rewrite tests/golden (after SETUP=full make setup); read the diff before committing
	.venv/bin/python tests/reference/parity_reference.py
	.venv/bin/python tests/reference/hf_parity.py
	UPDATE_GOLDEN=1 cargo test --quiet --workspace $(FEATURES) golden

test-extension: setup  ## build and test the view, objective, task and analysis of CONTRIBUTING.md as written there
	@scripts/test-extension

fuzz: setup      ## fuzz every parser of foreign bytes, one minute each (FOR=seconds)
	@scripts/fuzz

soak: setup      ## compare a run with faults and kills to an undisturbed one: memory, bits (HOURS=3, EVERY=seconds, FOLDER=path)
	cargo build --release --quiet -p cloze -p cloze-train
	@scripts/soak

test-page: setup ## test the status page in Chromium and take screenshots (CLOZE, FOLDER)
	cargo build --release --quiet -p cloze -p cloze-train
	@scripts/test-page

test-deploy:     ## test deploy/ with Slurm, systemd, the Kubernetes schema and the image (as root on Debian, after a release build)
	@scripts/test-deploy

test-cluster:    ## prepare one corpus with processes, kills, S3, Slurm, Ray, Kubernetes schemas, and train with ranks (after a release build); writes docs/cluster-tests.md
	@scripts/test-cluster

code-stats:      ## circular imports, public items and file lengths (FOLDER=path, LIST=yes)
	@cargo run --quiet --example code-stats -- $(if $(LIST),--unused) $(FOLDER)

.PHONY: book
book:            ## build docs/ as a book in target/book (needs mdbook: cargo install mdbook)
	@command -v mdbook >/dev/null || { echo "error: mdbook is not installed: cargo install mdbook" >&2; exit 1; }
	mdbook build docs

clean:           ## remove build output and demo folders; .libtorch stays
	cargo clean
	rm -rf demo
