//! Creates and gets over eight connections, and the cost of many objects.

use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::Method;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Duration, Instant};

use super::Result;
use super::alarm::Alarm;
use super::objects::{Form, MAPS, Template, name};
use super::process::{Program, ServerProcess};
use super::report::{Goal, Report};
use super::wire::{Connection, Protocol};

const CONNECTIONS: usize = 8;

/// Encoding and protocol of requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    pub(crate) form: Form,
    pub(crate) protocol: Protocol,
}

impl Way {
    pub(crate) fn name(self) -> String {
        format!("{} in {}", self.form.name(), self.protocol.name())
    }
}

/// Measures creates, gets, and creates at half load, for each encoding and protocol on a new server.
pub(crate) async fn measure(program: &Program, quick: bool, report: &mut Report) -> Result<()> {
    let count = if quick { 4_000 } else { 40_000 };
    // The last is client-go's default.
    for way in [
        Way { form: Form::Json, protocol: Protocol::Http1 },
        Way { form: Form::Protobuf, protocol: Protocol::Http1 },
        Way { form: Form::Protobuf, protocol: Protocol::Http2 },
    ] {
        let server = program.start()?;
        let how = way.name();
        let created = creates(&server, way, Client::StaysAwake, 0, count).await?;
        report.add(
            format!("creates per CPU second, {how}"),
            created.per_cpu_second,
            "/s",
            Goal::AtLeast(8_000.0),
        );
        report.add(format!("creates per second, {how}"), created.per_second, "/s", Goal::None);
        let got = gets(&server, way, 0..count, 2 * count).await?;
        report.add(format!("gets per CPU second, {how}"), got.per_cpu_second, "/s", Goal::AtLeast(25_000.0));
        report.add(format!("gets per second, {how}"), got.per_second, "/s", Goal::None);
        let seconds = if quick { 1 } else { 5 };
        // Half load is half of the throughput with a client that sleeps between responses, as it does at half load too. 4,000/s
        // is half of the required creates, on a machine with other load. 1,000/s shows the origin of delays: the server's own
        // occur at any load, those of a virtual machine only close to its CPU limit.
        let reached = creates(&server, way, Client::Sleeps, count, count / 2).await?;
        report.add(format!("creates per second, client asleep, {how}"), reached.per_second, "/s", Goal::None);
        let half = reached.per_second / 2.0;
        let mut first = count + count / 2;
        for (rate, is_half_of_reached, goal) in [
            (half, true, Goal::AtMost(2.0)),
            (4_000.0, false, Goal::AtMost(2.0)),
            (1_000.0, false, Goal::None),
        ] {
            let (waited, began) = (server.waited_for_cpu()?, Instant::now());
            let creates = creates_at(&server, way, first, rate, seconds).await?;
            let (waited, span) = (server.waited_for_cpu()? - waited, began.elapsed().as_secs_f64());
            first += creates.len();
            let named = |what: &str| match is_half_of_reached {
                true => format!("{what}, {how}, {rate:.0}/s"),
                false => format!("{what} at {rate:.0}/s, {how}"),
            };
            let took: Vec<Duration> = creates.iter().map(|create| create.done - create.due).collect();
            let late: Vec<Duration> = creates.iter().map(|create| create.called - create.due).collect();
            report.add(named("create p50"), percentile(&took, 50), "ms", Goal::None);
            report.add(named("create p99"), percentile(&took, 99), "ms", goal);
            report.add(named("create called late p99"), percentile(&late, 99), "ms", Goal::None);
            let share = waited * 100.0 / span;
            report.add(named("time that server or client waited for a CPU"), share, "%", Goal::None);
        }
    }
    Ok(())
}

/// Returns a percentile in milliseconds; 0 without figures.
fn percentile(took: &[Duration], percent: usize) -> f64 {
    let mut sorted = took.to_vec();
    sorted.sort();
    sorted.get(sorted.len().saturating_sub(1) * percent / 100).map_or(0.0, Duration::as_secs_f64) * 1e3
}

/// Measures the memory with many objects.
pub(crate) async fn fill(program: &Program, quick: bool, report: &mut Report) -> Result<()> {
    let count = if quick { 10_000 } else { 100_000 };
    let server = program.start()?;
    let size = Template::new(Form::Json).len();
    creates(&server, Way { form: Form::Json, protocol: Protocol::Http1 }, Client::StaysAwake, 0, count)
        .await?;
    let what = format!("resident memory with {count} ConfigMaps of {size} bytes");
    report.add(what, server.resident()?, "MB", Goal::AtMost(400.0));
    Ok(())
}

/// Like [`fill`], with a data file; also measures the restart of a server that was killed.
pub(crate) async fn fill_file(program: &Program, quick: bool, report: &mut Report) -> Result<()> {
    let count = if quick { 10_000 } else { 100_000 };
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("objects.redb");
    let options = [OsStr::new("--data-file"), path.as_os_str()];
    let server = program.start_with(&options)?;
    let way = Way { form: Form::Json, protocol: Protocol::Http1 };
    let created = creates(&server, way, Client::StaysAwake, 0, count).await?;
    let with = format!("with a data file, {count} objects");
    report.add(format!("creates per CPU second {with}"), created.per_cpu_second, "/s", Goal::None);
    report.add(format!("creates per second {with}"), created.per_second, "/s", Goal::None);
    report.add(format!("resident memory {with}"), server.resident()?, "MB", Goal::None);
    drop(server);
    report.add("size of the data file", fs::metadata(&path)?.len() as f64 / 1e6, "MB", Goal::None);
    let server = program.start_with(&options)?;
    report.add(format!("ready again {with}"), server.ready.as_secs_f64() * 1e3, "ms", Goal::None);
    let last = format!("{MAPS}/{}", name(count - 1));
    Connection::open(&server, way.protocol).await?.send(Method::GET, &last, way.form, Bytes::new()).await
}

pub(crate) struct Rates {
    pub(crate) per_cpu_second: f64,
    per_second: f64,
}

/// Behaviour of this program while it waits for responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    /// Polls without sleeping. Over loopback a sender is charged for waking a sleeping receiver, a third of the cost of a get on
    /// a virtual machine; this keeps that cost out of the server's CPU time.
    StaysAwake,
    Sleeps,
}

/// Creates objects from `first` on as fast as possible.
pub(crate) async fn creates(
    server: &ServerProcess,
    way: Way,
    client: Client,
    first: usize,
    count: usize,
) -> Result<Rates> {
    let template = Arc::new(Template::new(way.form));
    let create = move |number| (Method::POST, MAPS.to_owned(), template.body(first + number));
    rates(server, way, client, count, create).await
}

/// Creates objects in JSON over HTTP/1.1, and gets each of them many times.
pub(crate) async fn small_mix(server: &ServerProcess, first: usize, quick: bool) -> Result<Rates> {
    let way = Way { form: Form::Json, protocol: Protocol::Http1 };
    let count = if quick { 1_000 } else { 10_000 };
    creates(server, way, Client::StaysAwake, first, count).await?;
    gets(server, way, first..first + count, 4 * count).await
}

/// Sends `count` gets to these objects, in an order without neighbours.
pub(crate) async fn gets(
    server: &ServerProcess,
    way: Way,
    existing: Range<usize>,
    count: usize,
) -> Result<Rates> {
    rates(server, way, Client::StaysAwake, count, move |number| {
        let path = format!("{MAPS}/{}", name(existing.start + number * 7919 % existing.len()));
        (Method::GET, path, Bytes::new())
    })
    .await
}

/// Sends `count` requests over all connections, each after the response to the previous one.
pub(crate) async fn rates(
    server: &ServerProcess,
    way: Way,
    client: Client,
    count: usize,
    make: impl Fn(usize) -> (Method, String, Bytes) + Clone + Send + 'static,
) -> Result<Rates> {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(Connection::open(server, way.protocol).await?);
    }
    let next = Arc::new(AtomicUsize::new(0));
    let (cpu, started) = (server.cpu()?, Instant::now());
    let mut tasks = JoinSet::new();
    for mut connection in connections {
        let (next, make) = (Arc::clone(&next), make.clone());
        tasks.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return Ok::<(), Box<dyn std::error::Error + Send + Sync>>(());
                }
                let (method, path, body) = make(number);
                connection.send(method, &path, way.form, body).await?;
            }
        });
    }
    while let Some(done) = match client {
        Client::StaysAwake => awake(&mut tasks).await,
        Client::Sleeps => tasks.join_next().await,
    } {
        done??;
    }
    let (cpu, took) = (server.cpu()? - cpu, started.elapsed());
    Ok(Rates { per_cpu_second: count as f64 / cpu, per_second: count as f64 / took.as_secs_f64() })
}

/// Times of a create.
#[derive(Debug)]
struct Create {
    due: Instant,
    /// Time at which the alarm rang for it.
    called: Instant,
    done: Instant,
}

/// Creates objects from `first` on at a constant rate, and returns the times of each. Connections take turns, and each sends one
/// request at a time: a late request delays the following ones, which counts, whether this program or the server is the cause.
///
/// This program sleeps when idle, like clients at half load. If it were busy, the server would have to share the other of two
/// CPUs with everything else, and a virtual machine at its CPU limit is paused.
async fn creates_at(
    server: &ServerProcess,
    way: Way,
    first: usize,
    rate: f64,
    seconds: u64,
) -> Result<Vec<Create>> {
    let template = Arc::new(Template::new(way.form));
    let mut queues = Vec::new();
    let mut tasks = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let mut connection = Connection::open(server, way.protocol).await?;
        let (queue, mut calls) = mpsc::unbounded_channel::<(usize, Instant, Instant)>();
        queues.push(queue);
        let template = Arc::clone(&template);
        tasks.spawn(async move {
            let mut creates = Vec::new();
            while let Some((number, due, called)) = calls.recv().await {
                connection.send(Method::POST, MAPS, way.form, template.body(number)).await?;
                creates.push(Create { due, called, done: Instant::now() });
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(creates)
        });
    }
    let count = (seconds as f64 * rate) as usize;
    let started = Instant::now();
    let alarm = Alarm::new()?;
    for number in 0..count {
        let due = started + Duration::from_secs_f64(number as f64 / rate);
        alarm.sleep_until(due).await?;
        queues[number % CONNECTIONS].send((first + number, due, Instant::now()))?;
    }
    drop(queues);
    let mut all = Vec::new();
    while let Some(creates) = tasks.join_next().await {
        all.extend(creates??);
    }
    Ok(all)
}

/// Returns the next finished task, without sleeping while waiting.
async fn awake<T: 'static>(tasks: &mut JoinSet<T>) -> Option<std::result::Result<T, JoinError>> {
    while !tasks.is_empty() {
        if let Some(done) = tasks.try_join_next() {
            return Some(done);
        }
        tokio::task::yield_now().await;
    }
    None
}
