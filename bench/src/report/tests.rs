use std::collections::BTreeSet;

use expect_test::expect;

use super::*;
use crate::build::Programs;
use crate::figures::{QUEUE, RECONCILES};
use crate::goals::verdicts;

/// A run of two rounds without Go.
fn session() -> Session {
    let mut session = Session::new(Programs::absent("Go is not installed: not measured"), 2, false, 50_000);
    session.contenders = vec!["ours", "client-go typed", "kube-rs"];
    for (round, time) in [100.0, 120.0].into_iter().enumerate() {
        session.samples.add("queue.one_at_a_time", "ours", round, time);
        session.samples.add("queue.one_at_a_time", "kube-rs", round, time * 8.0);
        session.samples.add("reconciles.per_second", "ours", round, 9_000.0);
        session.samples.add("reconciles.per_second", "kube-rs", round, 3_000.0);
    }
    session.samples.miss("queue.one_at_a_time", "client-go typed", "Go is not installed: not measured");
    session.samples.bound("queue.one_at_a_time", 10.0, "two locks");
    session
}

#[test]
fn a_row_per_figure_and_contender() {
    expect![[r#"
        | add, get, done, one at a time: CPU per key | ours | 110 ns | 100 ns – 120 ns |  |
        |  | client-go typed | not measured | Go is not installed: not measured |  |
        |  | kube-rs | 880 ns | 800 ns – 960 ns | 8.00 (8.00 – 8.00) |
        | | bound | 10.0 ns | two locks | |"#]]
    .assert_eq(&rows(&QUEUE, &session()).join("\n"));
}

#[test]
fn the_better_direction_depends_on_the_goal() {
    let rows = rows(&RECONCILES, &session()).join("\n");
    expect![[r#"
        | events per second | ours | 9,000 /s | 9,000 /s – 9,000 /s |  |
        |  | kube-rs | 3,000 /s | 3,000 /s – 3,000 /s | 3.00 (3.00 – 3.00) |"#]]
    .assert_eq(&rows);
}

#[test]
fn programs_get_every_goal_once_and_every_sample() {
    let session = session();
    let verdicts = verdicts(&session.samples);
    let json = json(&session, &verdicts);
    let goals = json["goals"].as_array().expect("goals are a list");
    let names: BTreeSet<&str> = goals.iter().filter_map(|goal| goal["name"].as_str()).collect();
    assert_eq!(names.len(), goals.len());
    for goal in goals {
        assert!(goal["goal"].is_string() && goal["unit"].is_string() && goal["met"] == false, "{goal}");
        assert!(
            goal["figure"].is_null() && !goal["reason"].as_str().unwrap_or_default().is_empty(),
            "{goal}"
        );
    }
    let samples = |contender: &str| {
        let rows = json["rows"].as_array().expect("rows are a list");
        rows.iter().find(|row| row["contender"] == contender).map(|row| row["samples"].clone())
    };
    assert_eq!(samples("ours"), Some(serde_json::json!([100.0, 120.0])));
    assert_eq!(samples("client-go typed"), Some(serde_json::json!([])));
}

#[test]
fn a_report_names_parts_that_were_not_run() {
    let machine = Machine { date: "today".to_owned(), lines: vec!["a machine".to_owned()] };
    let session = session();
    let text = markdown(&machine, &session, &verdicts(&session.samples), &Remarks::default());
    assert!(text.contains("\n- a machine\n") && text.contains("## Work queue"));
    assert!(text.contains("## Failover"));
    assert_eq!(text.matches("Not part of this run.").count(), 10, "all but two of twelve sections");
}

#[test]
fn a_missed_goal_has_its_remark() {
    let verdict = |name: &str, figure: Option<f64>, met: bool| Verdict {
        name: name.to_owned(),
        goal: "≤ 2".to_owned(),
        figure,
        unit: "ms".to_owned(),
        met,
        reason: String::new(),
    };
    let verdicts = [
        verdict("slow", Some(3.0), false),
        verdict("strange", Some(4.0), false),
        verdict("fast", Some(1.0), true),
        verdict("absent", None, false),
    ];
    let remarks = Remarks::parse("\n## slow\n\nThe disk.\n\n## fast\n\nNothing.\n");
    expect![[r"

        ## Missed goals

        ### slow

        3.00 ms; the goal is ≤ 2. The disk.

        ### strange

        4.00 ms; the goal is ≤ 2. Not analysed yet.
    "]]
    .assert_eq(&missed(&verdicts, &remarks));
}
