//! The program as users run it.

use std::process::Command;

#[test]
fn a_killed_leader_is_replaced_after_the_lease_and_a_stopped_one_at_once() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_leader-election")).arg("--quick").output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let seconds: Vec<f32> = text
        .lines()
        .filter_map(|line| line.split_once("took over after ")?.1.trim_end_matches(" s").parse().ok())
        .collect();
    let [killed, stopped] = seconds[..] else { panic!("two leaders are replaced: {text}") };
    assert!(killed > 2.0, "the lease of 3 s was renewed less than a second before: {text}");
    assert!(stopped < killed, "{text}");
    assert!(text.contains("two is stopping"), "{text}");
}
