//! Parsing of transcripts.

use std::path::Path;

use crate::transcript::{Step, load};

#[test]
fn every_transcript_can_be_read() {
    let all = load(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance/transcripts"))).unwrap();
    assert!(all.len() >= 218, "{} transcripts", all.len());
}

#[test]
fn a_step_of_an_unknown_kind_is_refused() {
    let step = r#"{"daemon": {"name": "w"}}"#;
    let error = serde_json::from_str::<Step>(step).unwrap_err().to_string();
    assert!(error.contains("unknown field `daemon`"), "{error}");
}

#[test]
fn a_step_of_two_kinds_is_refused() {
    let wait = r#"{"path": "/", "until": ["status_code", 200], "seconds": 1}"#;
    let step = format!(r#"{{"wait": {wait}, "request": {{"method": "GET", "path": "/"}}}}"#);
    let error = serde_json::from_str::<Step>(&step).unwrap_err().to_string();
    assert!(error.contains("a step is a request"), "{error}");
}
