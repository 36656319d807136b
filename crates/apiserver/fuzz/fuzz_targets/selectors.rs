//! `cargo +nightly fuzz run selectors`: label and field selectors.
#![no_main]

use kube_apiserver_embedded_fuzz::with_target;

libfuzzer_sys::fuzz_target!(|text: &str| with_target(|target| target.selector(text)));
