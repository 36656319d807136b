//! The elector as scripts.
//!
//! A script is a list of steps, each a time and an input: `0s stand`, `1s absent`, `2s got 7 other 4` (the lease at version 7,
//! held by `other`, with 4 changes of leader and a duration of 15 s), `3s got 7 other 4 30s`, `4s seen 7 other 4`, `4s seen -`,
//! `5s conflict`, `5s failed`, `6s wake`, `7s release` and `7s quit` (step down with and without releasing the lease). A holder
//! of `-` is none. The output has a line per step: the request that is sent, the events, and the time of the next wake-up.
//! A time that the elector draws at random is shown as `after a pause`.

mod candidates;
mod leaders;
mod stepping_down;

use expect_test::Expect;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// Leads from 2 s on, until 11 s; the next renewal is at 4 s.
const LEADS: &str = "0s stand; 1s absent; 2s got 1 me 0";

/// Runs a script and compares its output.
fn check(script: &str, expected: &Expect) {
    let mut elector = Elector::new(Timing::default(), "me".to_owned(), fastrand::Rng::with_seed(1));
    let mut last = None;
    let lines = script.split(';').map(|step| {
        let (time, input) = step.trim().split_once(' ').expect("a step is a time and an input");
        let now = seconds(time);
        let output = elector.step(input_of(input), now);
        let mut parts: Vec<String> = output.request.iter().map(request_text).collect();
        parts.extend(output.events.iter().map(event_text));
        let wake = elector.next_wake();
        // A pause counts from the step that drew it.
        let drawn = wake.filter(|_| wake != last).map(|at| at.saturating_sub(now));
        parts.push(wake.map_or("no wake".to_owned(), |at| wake_text(at, drawn)));
        last = wake;
        format!("{time} {input}: {}\n", parts.join(", "))
    });
    expected.assert_eq(&lines.collect::<String>());
}

fn seconds(text: &str) -> Duration {
    Duration::from_secs_f64(text.strip_suffix('s').expect("a unit").parse().expect("a number"))
}

fn holder(text: &str) -> &str {
    if text == "-" { "" } else { text }
}

fn lease(words: &[&str]) -> LeaseRecord {
    let [version, of, transitions, rest @ ..] = words else { panic!("no lease: {words:?}") };
    LeaseRecord {
        version: (*version).to_owned(),
        holder: holder(of).to_owned(),
        lease_duration: rest.first().map_or(15 * SECOND, |duration| seconds(duration)),
        transitions: transitions.parse().expect("a number"),
    }
}

fn input_of(text: &str) -> ElectorInput {
    let words: Vec<&str> = text.split(' ').collect();
    match *words {
        ["wake"] => ElectorInput::Wake,
        ["stand"] => ElectorInput::Stand,
        ["release"] => ElectorInput::StepDown { release: true },
        ["quit"] => ElectorInput::StepDown { release: false },
        ["seen", "-"] => ElectorInput::Seen(None),
        ["seen", ref words @ ..] => ElectorInput::Seen(Some(lease(words))),
        ["got", ref words @ ..] => ElectorInput::Answer(LeaseAnswer::Lease(lease(words))),
        ["absent"] => ElectorInput::Answer(LeaseAnswer::Absent),
        ["conflict"] => ElectorInput::Answer(LeaseAnswer::Conflict),
        ["failed"] => ElectorInput::Answer(LeaseAnswer::Failed("no answer".to_owned())),
        _ => panic!("no input: {text}"),
    }
}

fn request_text(request: &LeaseRequest) -> String {
    let name = |holder: &str| if holder.is_empty() { "-".to_owned() } else { holder.to_owned() };
    match request {
        LeaseRequest::Get => "get".to_owned(),
        LeaseRequest::Create { holder, lease_seconds, transitions } => {
            format!("create {} {transitions} {lease_seconds}s", name(holder))
        }
        LeaseRequest::Update { version, holder, lease_seconds, transitions, acquired } => {
            let why = if *acquired { "acquire" } else { "update" };
            format!("{why} {version} {} {transitions} {lease_seconds}s", name(holder))
        }
    }
}

fn event_text(event: &LeadershipEvent) -> String {
    match event {
        LeadershipEvent::StartedLeading { until, transitions } => {
            format!("LEADS until {until:?} as {transitions}")
        }
        LeadershipEvent::Renewed { until } => format!("RENEWED until {until:?}"),
        LeadershipEvent::StoppedLeading { reason } => format!("STOPS ({reason})"),
        LeadershipEvent::NewLeader { identity } => format!("leader is {identity}"),
        LeadershipEvent::SlowPath => "slow path".to_owned(),
        LeadershipEvent::Over { released } => format!("OVER, released: {released}"),
    }
}

/// A candidate's pause is 1 to 2.2 retry periods of 2 s, drawn to the nanosecond.
fn wake_text(at: Moment, drawn: Option<Duration>) -> String {
    if at.subsec_nanos().is_multiple_of(1_000_000) {
        return format!("wake at {at:?}");
    }
    assert!(drawn.is_none_or(|pause| (2 * SECOND..=seconds("4.4s")).contains(&pause)), "{drawn:?}");
    "wake after a pause".to_owned()
}
