# Short verbs. Each line here is what you would type; scripts/ and cargo do the work.

# Checks and tests are built with every feature, and all of them with the same: other features would build all again.
FEATURES := --features cloze/otlp,cloze-train/otlp

.PHONY: help setup demo install dist test test-timing check test-readers fmt lint doc keys gpu-pack gpu-rehearsal streaming-proof bench bench-load bench-prepare bench-tokenize bench-train bench-views bench-watched profile-cases golden test-extension code-stats fuzz soak test-deploy test-page clean

help:            ## these lines
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | expand -t 16

setup:           ## libtorch into .libtorch, once; SETUP=full adds Python references and CUDA
	@scripts/setup

demo:            ## from text files to a trained model that fills in blanks: 4 minutes after the build
	@scripts/demo

install: setup   ## `cloze` and `cloze-train` into ~/.cargo/bin, stripped; they find libtorch in this folder, which has to stay
	CARGO_PROFILE_RELEASE_STRIP=symbols cargo install --locked --target-dir target --path .
	CARGO_PROFILE_RELEASE_STRIP=symbols cargo install --locked --target-dir target --path trainer/cli

dist: setup      ## a folder and a tarball that run elsewhere: program, libtorch, manual, licences (TARBALL=no, PROGRAM=path)
	@scripts/dist

test: setup      ## every test but those of `test-timing`; ends with how many were skipped, and why
	@scripts/test

test-timing: setup  ## what a clock says of planted delays; on a machine without other load
	cargo test --workspace $(FEATURES) --test program --test timing -- --test-threads=1

check: setup     ## what CI checks
	@.ci/run

test-readers: setup  ## what TensorBoard, DuckDB, a collector and Perfetto read of a small run (PROGRAM=path; skips aloud without their packages)
	@scripts/test-readers

fmt:             ## format by list: cargo fmt does not see modules that a macro declares
	git ls-files '*.rs' | xargs rustfmt --edition 2024

lint: setup      ## clippy
	cargo clippy --all-targets --workspace $(FEATURES) -- -D warnings
	cargo clippy --workspace $(FEATURES) --test timing -- -D warnings

doc: setup       ## the documentation of all crates, private items included
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --no-deps --workspace --document-private-items $(FEATURES)

keys: setup      ## docs/configuration.md, the tables of docs/events.md and the page's charts, from doc comments and tables; look at the diff
	UPDATE=1 cargo test --quiet --workspace $(FEATURES) --lib the_page_of_keys

gpu-pack: setup  ## one tarball for the first hour on a GPU: program, tests, corpus, gpu-day (PROGRAM=path, TESTS=release, RIVALS=script)
	@scripts/gpu-pack

gpu-rehearsal: setup  ## that hour on a device made of host memory, killed once in its middle (TARBALL=path, SAVE=folder)
	@scripts/gpu-rehearsal

streaming-proof: ## (after a release build) a run that begins while 2 GB are prepared ends as one that began after: CORPUS=folder SAVE=folder [MB=2000]
	@scripts/streaming-proof $(CORPUS) $(SAVE) $(MB)

bench: setup     ## nanoseconds per token of each stage, tokens per second of a step
	cargo bench --workspace

bench-load: setup  ## the online half beside its rivals (RIVALS=script; skipped aloud where absent)
	@scripts/bench-load

bench-views: setup  ## what each view and its audit cost, in nanoseconds and in instructions per token (BEFORE=program for another build's beside; needs valgrind)
	@scripts/bench-views

bench-tokenize:  ## text to ids beside the rivals, ids compared (TOKENIZERS="folder …", FILE=text; installs the rivals into .venv-rivals; more in the script)
	@scripts/bench-tokenize

bench-prepare: setup  ## all of `cloze prepare` beside `datasets.map` to Parquet (TOKENIZER=folder FILE=text; after bench-tokenize, which installs it)
	cargo build --release --quiet -p cloze -p cloze-train
	@scripts/bench-prepare

bench-train: setup  ## a training step on the CPU beside Hugging Face's (RIVALS=script, RIVALS_PYTHON=python; skipped aloud where absent)
	@scripts/bench-train

bench-watched: setup  ## a step of a run that everybody looks at, or that is profiled, beside one that nobody does, in turns (CLOZE, PAIRS, STEPS)
	cargo build --release --quiet -p cloze -p cloze-train
	@scripts/bench-watched

profile-cases: setup  ## bottlenecks that are planted and what `cloze profile` says of them; changes that it foretells, and what they bring
	cargo build --release --quiet -p cloze -p cloze-train
	@scripts/profile-cases

golden:          ## (after SETUP=full make setup) rewrite tests/golden; look at the diff before you commit it
	.venv/bin/python tests/reference/parity_reference.py
	.venv/bin/python tests/reference/hf_parity.py
	UPDATE_GOLDEN=1 cargo test --quiet --workspace $(FEATURES) golden

test-extension: setup  ## the view and the objective of CONTRIBUTING.md, as written there
	@scripts/test-extension

fuzz: setup      ## every parser of foreign bytes on broken files, a minute each (FOR=seconds)
	@scripts/fuzz

soak: setup      ## a small run with faults and kills beside the same in calm: memory, bits (HOURS=3, EVERY=seconds, FOLDER=path)
	cargo build --release --quiet -p cloze -p cloze-train
	@scripts/soak

test-page: setup ## the page of a run in Chromium, played and real; pictures (CLOZE, FOLDER)
	cargo build --release --quiet -p cloze -p cloze-train
	@scripts/test-page

test-deploy:     ## (after a release build, as root on Debian) deploy/ with the real thing: Slurm, systemd, Kubernetes' schema, the image
	@scripts/test-deploy

code-stats:      ## circles, public items, lengths of files, here or elsewhere (FOLDER=path, LIST=yes)
	@cargo run --quiet --example code-stats -- $(if $(LIST),--unused) $(FOLDER)

.PHONY: book
book:            ## docs/ as a book in target/book (needs mdbook: cargo install mdbook)
	@command -v mdbook >/dev/null || { echo "error: mdbook is not installed: cargo install mdbook" >&2; exit 1; }
	mdbook build docs

clean:           ## build output and demo folders; .libtorch stays
	cargo clean
	rm -rf demo
