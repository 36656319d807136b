//! Creates and gets over eight connections, and what many objects take.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::Method;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, MissedTickBehavior, interval};

use super::Result;
use super::objects::{Form, MAPS, Template, name};
use super::process::{Program, ServerProcess};
use super::report::{Goal, Report};
use super::wire::{Connection, Protocol};

const CONNECTIONS: usize = 8;

/// How requests are sent.
#[derive(Debug, Clone, Copy)]
struct Way {
    form: Form,
    protocol: Protocol,
}

impl Way {
    fn name(self) -> String {
        format!("{} in {}", self.form.name(), self.protocol.name())
    }
}

/// Creates, gets, and creates at half load, each way on a server of its own.
pub(crate) async fn measure(program: &Program, quick: bool, report: &mut Report) -> Result<()> {
    let count = if quick { 4_000 } else { 40_000 };
    // The last is what client-go does.
    for way in [
        Way { form: Form::Json, protocol: Protocol::Http1 },
        Way { form: Form::Protobuf, protocol: Protocol::Http1 },
        Way { form: Form::Protobuf, protocol: Protocol::Http2 },
    ] {
        let server = program.start()?;
        let how = way.name();
        let created = creates(&server, way, 0, count).await?;
        report.add(
            format!("creates per CPU second, {how}"),
            created.per_cpu_second,
            "/s",
            Goal::AtLeast(8_000.0),
        );
        report.add(format!("creates per second, {how}"), created.per_second, "/s", Goal::None);
        let got = gets(&server, way, count, 2 * count).await?;
        report.add(format!("gets per CPU second, {how}"), got.per_cpu_second, "/s", Goal::AtLeast(25_000.0));
        report.add(format!("gets per second, {how}"), got.per_second, "/s", Goal::None);
        // Half of what these connections reach, whatever else the machine does.
        let rate = created.per_second / 2.0;
        let mut late = creates_at(&server, way, count, rate, if quick { 1 } else { 5 }).await?;
        late.sort();
        let at = |share: usize| late[(late.len() - 1) * share / 1000].as_secs_f64() * 1e3;
        let how = format!("{how}, {rate:.0}/s");
        report.add(format!("create p50, {how}"), at(500), "ms", Goal::None);
        report.add(format!("create p99, {how}"), at(990), "ms", Goal::AtMost(2.0));
    }
    Ok(())
}

/// What many objects take, after they were created.
pub(crate) async fn fill(program: &Program, quick: bool, report: &mut Report) -> Result<()> {
    let count = if quick { 10_000 } else { 100_000 };
    let server = program.start()?;
    let size = Template::new(Form::Json).len();
    creates(&server, Way { form: Form::Json, protocol: Protocol::Http1 }, 0, count).await?;
    let what = format!("resident memory with {count} ConfigMaps of {size} bytes");
    report.add(what, server.resident()?, "MB", Goal::AtMost(400.0));
    Ok(())
}

struct Rates {
    per_cpu_second: f64,
    per_second: f64,
}

/// Creates objects from `first` on as fast as the connections go.
async fn creates(server: &ServerProcess, way: Way, first: usize, count: usize) -> Result<Rates> {
    let template = Arc::new(Template::new(way.form));
    rates(server, way, count, move |number| (Method::POST, MAPS.to_owned(), template.body(first + number)))
        .await
}

/// Gets `count` times one of the first `existing` objects, in an order without neighbours.
async fn gets(server: &ServerProcess, way: Way, existing: usize, count: usize) -> Result<Rates> {
    rates(server, way, count, move |number| {
        let path = format!("{MAPS}/{}", name(number * 7919 % existing));
        (Method::GET, path, Bytes::new())
    })
    .await
}

/// Sends `count` requests over all connections, each as soon as the one before it is answered.
async fn rates(
    server: &ServerProcess,
    way: Way,
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
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let (cpu, took) = (server.cpu()? - cpu, started.elapsed());
    Ok(Rates { per_cpu_second: count as f64 / cpu, per_second: count as f64 / took.as_secs_f64() })
}

/// Creates objects from `first` on at a rate, and says how long each took from when it was due. Connections take
/// turns, and each sends one request at a time: a slow answer delays what is behind it, and that counts. What the
/// client's own clock is late by does not.
async fn creates_at(
    server: &ServerProcess,
    way: Way,
    first: usize,
    rate: f64,
    seconds: u64,
) -> Result<Vec<Duration>> {
    let template = Arc::new(Template::new(way.form));
    let mut queues = Vec::new();
    let mut tasks = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let mut connection = Connection::open(server, way.protocol).await?;
        let (queue, mut due) = mpsc::unbounded_channel::<(usize, Instant)>();
        queues.push(queue);
        let template = Arc::clone(&template);
        tasks.spawn(async move {
            let mut took = Vec::new();
            while let Some((number, due)) = due.recv().await {
                connection.send(Method::POST, MAPS, way.form, template.body(number)).await?;
                took.push(due.elapsed());
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(took)
        });
    }
    let started = Instant::now();
    let mut ticks = interval(Duration::from_millis(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut sent = 0;
    while started.elapsed() < Duration::from_secs(seconds) {
        ticks.tick().await;
        let now = Instant::now();
        let due = ((now - started).as_secs_f64() * rate) as usize;
        for number in sent..due {
            queues[number % CONNECTIONS].send((first + number, now))?;
        }
        sent = sent.max(due);
    }
    drop(queues);
    let mut all = Vec::new();
    while let Some(took) = tasks.join_next().await {
        all.extend(took??);
    }
    Ok(all)
}
