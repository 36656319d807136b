//! Replays that stop before each action.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use super::{crashes, doubling, panic_of};

#[test]
fn a_replay_stops_before_each_action() {
    let story = panic_of(|| drop(doubling().explore(crashes())));
    if std::env::var_os("SIMULATION").is_some() {
        panic!("{story}");
    }
    let path = story.split("SIMULATION=").nth(1).and_then(|rest| rest.split(' ').next()).expect("a path");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "stepping::a_replay_stops_before_each_action"]);
    command.env("SIMULATION", path).env("SIMULATION_STEP", "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut replay = command.spawn().expect("it starts");
    let mut input = replay.stdin.take().expect("an input");
    // Two actions one by one, and then all others.
    input.write_all(b"\n\nc\n").expect("it reads");
    drop(input);
    let output = replay.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "a replay of a violation fails: {text}");
    assert_eq!(text.matches("[Enter: this action, c: all]").count(), 3, "{text}");
    assert!(text.contains("the server carries out, for operator: create configmaps default/"), "{text}");
    assert!(text.contains("the user takes the step \"a namespace is created\""), "{text}");
}
