# Commands of this repository. `just` without arguments lists them.

_list:
    @just --list --unsorted

# run the guestbook operator on an embedded API server, until Ctrl-C
run *arguments:
    cargo run -p guestbook -- {{arguments}}

# run all tests
test:
    cargo test --workspace

# run everything that CI runs
ci:
    bash .ci/run
    bash .ci/projects
    bash .ci/portability

# check for compile errors only
check:
    cargo check --workspace --all-targets

# format, and run the lints
lint:
    cargo fmt --all
    cargo clippy --workspace --all-targets --features kube-simulator/report -- -D warnings

# render and open the documentation of these crates, without dependencies
doc:
    cargo doc --workspace --no-deps --features controller-runtime/http2,controller-runtime/logging,controller-runtime/opentelemetry --open

# build the book and open it; needs mdbook (`cargo install mdbook --locked`)
book:
    mdbook build docs/book --open

# write the pages of the book that follow from the program
reference:
    UPDATE_EXPECT=1 cargo test -p cargo-operator --test it reference
    UPDATE_EXPECT=1 cargo test -p controller-runtime --lib the_page_of

# package all crates as for a release, and build each from its package; publishes nothing
packages *options:
    K8S_OPENAPI_ENABLED_VERSION=1.36 .ci/packages {{options}}

# check licences, sources and advisories of dependencies; needs cargo-deny
deny:
    cargo deny check

# compare the public API with a release: `just semver v0.1.0`; needs cargo-semver-checks
semver revision:
    cargo semver-checks --workspace --exclude cargo-operator --baseline-rev {{revision}}

# print changes of the public API since the last release; with `--write` record it; needs a nightly compiler and cargo-public-api. `--since v0.1.0` checks the version
public-api *options:
    .ci/public-api {{options}}

# replay recorded scenarios of a kube-apiserver against the embedded one; `just conformance apply/` selects some
conformance *filter:
    cargo test -p kube-apiserver-embedded --test conformance -- {{filter}}

# replay the required scenarios against the program over TLS, with the recording tool: `just replay path/to/replay.py`
replay tool *options:
    crates/apiserver/tests/conformance/replay.sh {{tool}} {{options}}

# show the differences in scenarios that are not required yet
conformance-gaps *filter:
    cargo test -p kube-apiserver-embedded --test conformance -- --ignored {{filter}}

# add newly passing scenarios to the required ones
conformance-update:
    UPDATE_PASSING=1 cargo test -p kube-apiserver-embedded --test conformance

# play buggy operators, corrected ones and the examples under simulation, and measure: bugs found, false findings, determinism, speed
simulations *files:
    cargo run --profile bench -p kube-simulator --features report -- report {{files}}

# check the work queue's locks and wake-ups under all thread interleavings (loom)
loom:
    RUSTFLAGS="--cfg workqueue_loom" cargo test -p kube-workqueue --release --test loom --target-dir target/loom

# compare the API server with the kube-apiserver in KUBEBUILDER_ASSETS by random requests: `just differential --requests 100000 --seed 7`
differential *arguments:
    cargo run --release -p kube-apiserver-embedded --example differential -- {{arguments}}

# compare the work queue with its model, in about two million steps
model:
    WORKQUEUE_CASES=20000 cargo test -p kube-workqueue --lib any_sequence

# Status 3 of cargo-mutants: with some changes the tests do not end. They count as noticed.
# list small changes of the work queue and of state machines that no test notices; needs cargo-mutants and hours, `just mutants --shard 0/12` takes a sample
mutants *options:
    cargo mutants -p kube-workqueue --timeout 60 {{options}} -- --lib --test queue --test figures --test observe --test recovery -- --skip million --skip ten_thousand --skip storm || [ $? -eq 3 ]
    just mutants-of leader_election src/leader_election/elector.rs {{options}}
    just mutants-of runnable::lifecycle src/runnable/lifecycle.rs {{options}}
    just mutants-of cache::watch::list_watch src/cache/watch/list_watch.rs {{options}}
    just mutants-of cache::state 'src/cache/state/store/*.rs' {{options}}

# the same for one module of the runtime, with its own unit tests: `just mutants-of runnable::lifecycle src/runnable/lifecycle.rs`
mutants-of module files *options:
    cargo mutants -p controller-runtime --file 'crates/controller-runtime/{{files}}' --timeout 120 {{options}} -- --lib -- {{module}} || [ $? -eq 3 ]

# simulate leader elections with clock drift, pauses, partitions and lost answers: there are never two leaders
elections:
    LEASE_SEEDS=100000 cargo test -p controller-runtime --lib leader_election::simulation -- --nocapture

# run 1,000 objects under half an hour of faults, once per seed: all converge, and no task or request remains
fault-run seeds="5":
    FAULT_RUN_SEEDS={{seeds}} cargo test -p controller-runtime --release --test it fault_run -- --nocapture

# run caches of several kinds against failing lists and watches; a failure names its history: `HISTORY=17 just histories`
histories number="2000":
    HISTORIES={{number}} cargo test -p controller-runtime --test it histories -- --nocapture

# print the retry behaviour as tables and charts
figures *folder:
    cargo run -p kube-workqueue --example backoff-figures -- {{folder}}

# compare with controller-runtime for Go and kube-rs: `just compare --quick`, `just compare --only cache`
compare *arguments:
    cargo run --release -p bench -- {{arguments}}

# measure the work queue with criterion; `cargo run --profile bench … --example speed` prints one measurement as JSON
bench:
    cargo bench -p kube-workqueue

# measure the API server against its goals: `just load --quick`, `just load --only watchers`
load *arguments:
    cargo build --profile bench -p kube-apiserver-embedded --bin kube-apiserver-embedded
    cargo run --profile bench -p kube-apiserver-embedded --example load -- {{arguments}}

# fuzz the API server: `just fuzz bodies`; needs cargo-fuzz and a nightly compiler
fuzz target:
    cd crates/apiserver && cargo +nightly fuzz run {{target}}

# fuzz the API server with proptest, which needs no nightly compiler
any-input inputs="100000":
    INPUTS={{inputs}} cargo test --release -p kube-apiserver-embedded --test it any_input

# update expectations in tests after an intended change; review the diff before committing it
expect-update *arguments:
    UPDATE_EXPECT=1 cargo test {{arguments}}

# measure a cold build of the guestbook, per crate
timings:
    cargo clean
    cargo build --timings -p guestbook
