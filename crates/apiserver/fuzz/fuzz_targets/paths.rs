//! `cargo +nightly fuzz run paths`: paths with queries, read and deleted.
#![no_main]

use kube_apiserver_embedded_fuzz::with_target;

libfuzzer_sys::fuzz_target!(|text: &str| with_target(|target| target.path(text)));
