# The commands of this repository. `just` without arguments lists them.

_list:
    @just --list --unsorted

# see the loop work: a controller on an embedded API server, until Ctrl-C
run *arguments:
    cargo run -p guestbook -- {{arguments}}

# all tests; the README's second command
test:
    cargo test --workspace

# everything that CI asks, before it asks
ci:
    bash .ci/run

# compile errors alone, for the loop while writing
check:
    cargo check --workspace --all-targets

# what reviewers should not have to say
lint:
    cargo fmt --all
    cargo clippy --workspace --all-targets -- -D warnings

# rendered documentation of the crates here, without those of dependencies
doc:
    cargo doc --workspace --no-deps --features controller-runtime/http2,controller-runtime/logging,controller-runtime/opentelemetry --open

# recorded scenarios of a real kube-apiserver against the embedded one; `just conformance apply/` plays some
conformance *filter:
    cargo test -p kube-apiserver-embedded --test conformance -- {{filter}}

# the required scenarios against the program over TLS, by the recordings' own tool: `just replay path/to/replay.py`
replay tool *options:
    crates/apiserver/tests/conformance/replay.sh {{tool}} {{options}}

# what the scenarios that are not required yet still get wrong
conformance-gaps *filter:
    cargo test -p kube-apiserver-embedded --test conformance -- --ignored {{filter}}

# require the scenarios that have come to pass
conformance-update:
    UPDATE_PASSING=1 cargo test -p kube-apiserver-embedded --test conformance

# the work queue's shell under all interleavings of its threads
loom:
    RUSTFLAGS="--cfg workqueue_loom" cargo test -p kube-workqueue --release --test loom --target-dir target/loom

# the work queue against its model: some two million steps
model:
    WORKQUEUE_CASES=20000 cargo test -p kube-workqueue --lib any_sequence

# elections with clocks that disagree, pauses, partitions and lost answers: never two leaders
elections:
    LEASE_SEEDS=100000 cargo test -p controller-runtime --lib leader_election::simulation -- --nocapture

# half an hour of faults at 1,000 objects, as many times as there are seeds: everything converges, nothing is left over
fault-run seeds="5":
    FAULT_RUN_SEEDS={{seeds}} cargo test -p controller-runtime --release --test it fault_run -- --nocapture

# caches of several kinds on a server whose lists and watches go wrong; a failure names its history: `HISTORY=17 just histories`
histories number="2000":
    HISTORIES={{number}} cargo test -p controller-runtime --test it histories -- --nocapture

# the retry behaviour as tables and pictures
figures *folder:
    cargo run -p kube-workqueue --example backoff-figures -- {{folder}}

# side by side with controller-runtime for Go and kube-rs: `just compare --quick`, `just compare --only cache`
compare *arguments:
    cargo run --release -p bench -- {{arguments}}

# what the work queue costs, under criterion; `cargo run --profile bench … --example speed` prints it once, as JSON
bench:
    cargo bench -p kube-workqueue

# what the API server costs, goal by goal: `just load --quick`, `just load --only watchers`
load *arguments:
    cargo build --profile bench -p kube-apiserver-embedded --bin kube-apiserver-embedded
    cargo run --profile bench -p kube-apiserver-embedded --example load -- {{arguments}}

# bytes that break the API server: `just fuzz bodies`; needs cargo-fuzz and a nightly compiler
fuzz target:
    cd crates/apiserver && cargo +nightly fuzz run {{target}}

# the same with proptest, for as many inputs as asked for
any-input inputs="100000":
    INPUTS={{inputs}} cargo test --release -p kube-apiserver-embedded --test any_input

# expectations in tests that changed on purpose; read the diff before committing it
expect-update *arguments:
    UPDATE_EXPECT=1 cargo test {{arguments}}

# seconds of a cold build of the example, by crate
timings:
    cargo clean
    cargo build --timings -p guestbook
