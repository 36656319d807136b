//! Workload: the embedded API server, measured by its own load program.

use std::process::Stdio;

use anyhow::Context as _;
use serde::Deserialize;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::time::{Duration, timeout};

use crate::goals::Verdict;
use crate::number::with_unit;
use crate::process::Grouped;
use crate::samples::Samples;
use crate::session::{OURS, Session};

/// Prefix of all figure names, to keep them apart from other figures.
pub(crate) const PREFIX: &str = "server: ";

/// Time limit of the load program, so that a hanging one does not stop the run.
const LONGEST_LOAD: Duration = Duration::from_secs(300);

/// A line of the load program's output.
#[derive(Debug, Deserialize)]
struct Line {
    what: String,
    value: f64,
    unit: String,
}

#[derive(Debug, Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// Beginning of a figure's name, its unit, and its goal. The rest of a name varies, for example by object size.
const GOALS: [(&str, &str, Bound); 18] = [
    ("ready in process, first request answered", "ms", Bound::AtMost(10.0)),
    ("ready as a program", "ms", Bound::AtMost(30.0)),
    ("resident memory when ready", "MB", Bound::AtMost(30.0)),
    ("creates per CPU second, JSON in HTTP/1.1", "/s", Bound::AtLeast(8_000.0)),
    ("creates per CPU second, protobuf in HTTP/1.1", "/s", Bound::AtLeast(8_000.0)),
    ("creates per CPU second, protobuf in HTTP/2", "/s", Bound::AtLeast(8_000.0)),
    ("gets per CPU second, JSON in HTTP/1.1", "/s", Bound::AtLeast(25_000.0)),
    ("gets per CPU second, protobuf in HTTP/1.1", "/s", Bound::AtLeast(25_000.0)),
    ("gets per CPU second, protobuf in HTTP/2", "/s", Bound::AtLeast(25_000.0)),
    ("create p99, JSON in HTTP/1.1", "ms", Bound::AtMost(2.0)),
    ("create p99, protobuf in HTTP/1.1", "ms", Bound::AtMost(2.0)),
    ("create p99, protobuf in HTTP/2", "ms", Bound::AtMost(2.0)),
    ("create p99 at 4000/s, JSON in HTTP/1.1", "ms", Bound::AtMost(2.0)),
    ("create p99 at 4000/s, protobuf in HTTP/1.1", "ms", Bound::AtMost(2.0)),
    ("create p99 at 4000/s, protobuf in HTTP/2", "ms", Bound::AtMost(2.0)),
    ("1000 watchers in process, 1000 events/s", "cores", Bound::AtMost(0.5)),
    ("1000 watchers over sockets, 50 events/s", "cores", Bound::AtMost(1.0)),
    ("resident memory with 100000 ConfigMaps", "MB", Bound::AtMost(400.0)),
];

/// Runs the load program once per round.
pub(crate) async fn run(session: &mut Session) {
    let names: Vec<String> = GOALS.iter().map(|(what, ..)| format!("{PREFIX}{what}")).collect();
    let mut short =
        vec!["--only=start", "--only=requests", "--only=watchers", "--only=sockets", "--only=idle"];
    let whole = if session.quick {
        short.push("--quick");
        vec!["--only=memory"]
    } else {
        vec!["--only=memory", "--only=data-file"]
    };
    for round in 0..session.rounds {
        // Two processes: the memory of a server with many objects must not include that of other workloads.
        for arguments in [&short, &whole] {
            match load(session, arguments).await {
                Ok(lines) => {
                    for line in lines {
                        eprintln!("   {}: {}", line.what, with_unit(line.value, &line.unit));
                        session.samples.unit(&name(&line), &line.unit);
                        session.samples.add(&name(&line), OURS.name, round, line.value);
                    }
                }
                Err(error) => {
                    eprintln!("   {error:#}");
                    for name in &names {
                        session.samples.miss(name, OURS.name, &format!("{error:#}"));
                    }
                }
            }
        }
    }
}

async fn load(session: &Session, arguments: &[&str]) -> anyhow::Result<Vec<Line>> {
    let mut command = Command::new(&session.programs.load);
    command.arg("--json").arg("--server").arg(&session.programs.server).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut load = Grouped::spawn(&mut command)?;
    let mut output = load.0.stdout.take().context("a piped child has an output")?;
    let mut text = String::new();
    timeout(LONGEST_LOAD, output.read_to_string(&mut text)).await.context("the load program: no end")??;
    // Exit code 1 means that the load program's own goals are missed, which the report shows.
    let status = load.0.wait().await?;
    anyhow::ensure!(matches!(status.code(), Some(0 | 1)), "the load program: {status}");
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// Name of a figure without the rate of half load, which varies from run to run.
fn name(line: &Line) -> String {
    let is_rate = |text: &str| text.strip_suffix("/s").is_some_and(|rate| rate.parse::<f64>().is_ok());
    let what = match line.what.rsplit_once(", ") {
        Some((what, rate)) if is_rate(rate) => what,
        _ => &line.what,
    };
    format!("{PREFIX}{what}")
}

/// Verdicts on all goals of the API server.
pub(crate) fn verdicts(samples: &Samples) -> Vec<Verdict> {
    let verdict = |(what, unit, bound): &(&str, &str, Bound)| {
        let begin = format!("{PREFIX}{what}");
        let name = samples.rows().map(|(figure, ..)| figure).find(|figure| figure.starts_with(&begin));
        let summary = samples.summary(name.unwrap_or(&begin), OURS.name);
        let (goal, met): (_, Box<dyn Fn(f64) -> bool>) = match *bound {
            Bound::AtLeast(least) => {
                (format!("≥ {}", with_unit(least, unit)), Box::new(move |value| value >= least))
            }
            Bound::AtMost(most) => {
                (format!("≤ {}", with_unit(most, unit)), Box::new(move |value| value <= most))
            }
        };
        Verdict::new(&begin, goal, unit, summary.map(|summary| (summary, met(summary.median))))
    };
    GOALS.iter().map(verdict).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(what: &str) -> Line {
        Line { what: what.to_owned(), value: 1.0, unit: "ms".to_owned() }
    }

    #[test]
    fn the_rate_of_half_load_is_not_a_part_of_the_name() {
        assert_eq!(
            name(&line("create p99, JSON in HTTP/1.1, 3518/s")),
            "server: create p99, JSON in HTTP/1.1"
        );
        let watchers = "1000 watchers in process, 1000 events/s";
        assert_eq!(name(&line(watchers)), format!("server: {watchers}"));
    }

    #[test]
    fn the_size_of_objects_is_a_part_of_the_name_that_a_goal_does_not_state() {
        let mut samples = Samples::default();
        samples.add("server: resident memory with 100000 ConfigMaps of 1041 bytes", "ours", 0, 218.0);
        let verdicts = verdicts(&samples);
        let memory = verdicts.last().expect("there are goals");
        assert_eq!((memory.figure, memory.met), (Some(218.0), true));
        assert!(!verdicts[0].met && verdicts[0].figure.is_none(), "nothing else was measured");
    }
}
