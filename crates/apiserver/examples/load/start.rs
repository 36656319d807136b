//! Start-up time of a server, and its memory when idle.

use std::process::Command;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use kube_apiserver_embedded::{ApiServer, Options};
use tokio::time::{Duration, Instant};
use tower_service::Service;

use super::Result;
use super::process::Program;
use super::report::{Goal, Report};

/// Measures repeated starts and reports the median.
pub(crate) fn measure(program: &Program, quick: bool, report: &mut Report) -> Result<()> {
    let runs = if quick { 3 } else { 11 };
    let in_process: Vec<Duration> = (0..runs).map(|_| in_a_fresh_process()).collect::<Result<_>>()?;
    report.add("ready in process, first request answered", median(in_process), "ms", Goal::AtMost(10.0));
    let mut ready = Vec::new();
    let mut resident: f64 = 0.0;
    for _ in 0..runs {
        let server = program.start()?;
        ready.push(server.ready);
        resident = resident.max(server.resident()?);
    }
    report.add("ready as a program", median(ready), "ms", Goal::AtMost(30.0));
    report.add("resident memory when ready", resident, "MB", Goal::AtMost(30.0));
    Ok(())
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}

/// Starts in a fresh process, because lazily read data is read once per process.
fn in_a_fresh_process() -> Result<Duration> {
    let output = Command::new(std::env::current_exe()?).arg("--start-in-process").output()?;
    Ok(Duration::from_nanos(String::from_utf8(output.stdout)?.trim().parse()?))
}

/// Prints the nanoseconds from the start of a server to its first response.
pub(crate) async fn print_in_process() {
    let started = Instant::now();
    let mut service = ApiServer::start(Options::default()).service();
    let request = Request::get("/api/v1/namespaces/default").body(Full::new(Bytes::new()));
    let answer = match request {
        Ok(request) => service.call(request).await.map(|answer| answer.status()).ok(),
        Err(_) => None,
    };
    let took = started.elapsed().as_nanos();
    // No output is an error for the reader.
    if answer.is_some_and(|status| status.is_success()) {
        println!("{took}");
    }
}
