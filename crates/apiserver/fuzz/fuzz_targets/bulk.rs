//! `cargo +nightly fuzz run bulk`: objects and definitions with many equal parts.
#![no_main]

use kube_apiserver_embedded_fuzz::with_target;

libfuzzer_sys::fuzz_target!(|texts: (&str, &str)| with_target(|target| target.bulk(texts.0, texts.1)));
