//! `cargo +nightly fuzz run definitions`: patterns, JSONPaths and schemas of CustomResourceDefinitions.
#![no_main]

use kube_apiserver_embedded_fuzz::with_target;

libfuzzer_sys::fuzz_target!(|text: &str| with_target(|target| target.definition(text)));
