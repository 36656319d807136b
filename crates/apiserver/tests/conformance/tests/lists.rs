//! Contents of the lists, and that they only grow.

use std::path::Path;

use crate::lists::{Expectation, Lists};
use crate::transcript;

#[test]
fn each_scenario_has_one_expectation() {
    let lists = Lists::parse("# c\na/x\n\n", "b/y: CEL\n", |_| true).unwrap();
    assert_eq!(lists.expectation("a/x"), Expectation::Passes);
    assert_eq!(lists.expectation("b/y"), Expectation::Deferred("CEL"));
    assert_eq!(lists.expectation("c/z"), Expectation::Unlisted);
}

#[test]
fn an_invalid_line_is_named() {
    let parse = |passing, deferred| Lists::parse(passing, deferred, |name| name != "gone").unwrap_err();
    assert_eq!(parse("gone", ""), "passing.txt or deferred.txt: there is no scenario gone");
    assert_eq!(parse("a", "a: CEL"), "passing.txt: a is in deferred.txt too");
    assert_eq!(parse("", "a"), "deferred.txt: `a` gives no reason");
    assert_eq!(parse("", "a: "), "deferred.txt: `a:` gives no reason");
}

#[test]
fn no_recorded_scenario_is_left_out_and_few_are_deferred() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    let transcripts = transcript::load(&folder.join("transcripts")).unwrap();
    let lists = Lists::load(&folder, |name| transcripts.contains_key(name)).unwrap();
    let unlisted: Vec<&String> =
        transcripts.keys().filter(|name| lists.expectation(name) == Expectation::Unlisted).collect();
    assert_eq!(unlisted, Vec::<&String>::new());
    assert!(transcripts.len() >= 218, "{} scenarios are left", transcripts.len());
    assert!(lists.deferred.len() <= 15, "{} scenarios are deferred", lists.deferred.len());
}

#[test]
fn requiring_a_scenario_keeps_what_was_required() {
    let folder = tempfile::tempdir().unwrap();
    let lists = Lists::parse("a/x", "b/y: CEL\nb/z: allocation", |_| true).unwrap();
    lists.require(vec!["b/y".to_owned(), "c".to_owned()], folder.path()).unwrap();
    let lists = Lists::load(folder.path(), |_| true).unwrap();
    assert_eq!(lists, Lists::parse("a/x\nb/y\nc", "b/z: allocation", |_| true).unwrap());
}
