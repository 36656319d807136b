//! `cargo +nightly fuzz run patches`: the four patch types.
#![no_main]

use kube_apiserver_embedded_fuzz::with_target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| with_target(|target| target.patch(data)));
