//! `cargo +nightly fuzz run bodies`: objects in JSON and YAML.
#![no_main]

use kube_apiserver_embedded_fuzz::with_target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| with_target(|target| target.body(data)));
