//! A thousand watches of one collection, in process and over sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{ApiServer, ApiService, Options};
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, interval};
use tower_service::Service;

use super::Result;
use super::objects::{Form, MAPS, Template};
use super::process::{Program, own_cpu};
use super::report::{Goal, Report};
use super::wire::{Connection, Protocol};

const WATCHERS: usize = 1_000;

/// Measures within this process: its CPU time includes the writer, the server and the watches.
pub(crate) async fn in_process(quick: bool, report: &mut Report) -> Result<()> {
    let per_second = 1_000;
    let server = ApiServer::start(Options::default());
    let seen = Arc::new(Seen::default());
    let mut watchers = JoinSet::new();
    for watcher in 0..WATCHERS {
        let request =
            Request::get(format!("{MAPS}?watch=1&resourceVersion=1")).body(Full::new(Bytes::new()))?;
        let mut body = server.service().call(request).await?.into_body();
        let seen = Arc::clone(&seen);
        watchers.spawn(async move {
            while let Some(Ok(frame)) = body.frame().await {
                if let Ok(data) = frame.into_data() {
                    seen.add(watcher, &data);
                }
            }
        });
    }
    let template = Template::new(Form::Json);
    let mut service = server.service();
    let seconds = if quick { 1 } else { 5 };
    let (cpu, started) = (own_cpu()?, Instant::now());
    let mut ticks = interval(Duration::from_secs(1) / per_second);
    for number in 0..(per_second * seconds) as usize {
        ticks.tick().await;
        create_in_process(&mut service, template.body(number)).await?;
    }
    let sent = (per_second * seconds) as usize;
    seen.wait_for(sent).await?;
    let cores = (own_cpu()? - cpu) / f64::from(seconds);
    report.add(
        format!("{WATCHERS} watchers in process, {per_second} events/s"),
        cores,
        "cores",
        Goal::AtMost(0.5),
    );
    report.add(
        format!("{WATCHERS} watchers in process: until the last event was seen"),
        started.elapsed().as_secs_f64() / f64::from(seconds),
        "of time",
        Goal::None,
    );
    Ok(())
}

async fn create_in_process(service: &mut ApiService, body: Bytes) -> Result<()> {
    let request =
        Request::post(MAPS).header("content-type", Form::Json.media_type()).body(Full::new(body))?;
    let answer = service.call(request).await?;
    if answer.status().is_success() { Ok(()) } else { Err(answer.status().to_string().into()) }
}

/// Measures over sockets: each watch has a connection of its own, and the CPU time is the server's.
pub(crate) async fn over_sockets(program: &Program, quick: bool, report: &mut Report) -> Result<()> {
    let per_second = 50;
    let server = program.start()?;
    let seen = Arc::new(Seen::default());
    let mut watchers = JoinSet::new();
    for watcher in 0..WATCHERS {
        let mut connection = Connection::open(&server, Protocol::Http1).await?;
        let path = format!("{MAPS}?watch=1&resourceVersion=1");
        let mut body = connection.start(Method::GET, &path, Form::Json, Bytes::new()).await?.into_body();
        let seen = Arc::clone(&seen);
        watchers.spawn(async move {
            while let Some(Ok(frame)) = body.frame().await {
                if let Ok(data) = frame.into_data() {
                    seen.add(watcher, &data);
                }
            }
            drop(connection);
        });
    }
    let resident = server.resident()?;
    let template = Template::new(Form::Json);
    let mut writer = Connection::open(&server, Protocol::Http1).await?;
    let seconds = if quick { 1 } else { 10 };
    let sent = (per_second * seconds) as usize;
    let (cpu, started) = (server.cpu()?, Instant::now());
    let mut ticks = interval(Duration::from_secs(1) / per_second);
    for number in 0..sent {
        ticks.tick().await;
        writer.send(Method::POST, MAPS, Form::Json, template.body(number)).await?;
    }
    seen.wait_for(sent).await?;
    // Per second of events instead of per second of the run: a late client does not change the server's work.
    let cores = (server.cpu()? - cpu) / f64::from(seconds);
    report.add(
        format!("{WATCHERS} watchers over sockets, {per_second} events/s"),
        cores,
        "cores",
        Goal::AtMost(1.0),
    );
    report.add(
        format!("{WATCHERS} watchers over sockets: until the last event was seen"),
        started.elapsed().as_secs_f64() / f64::from(seconds),
        "of time",
        Goal::None,
    );
    report.add(format!("resident memory with {WATCHERS} connections"), resident, "MB", Goal::None);
    Ok(())
}

/// Data that the watches have read. Searching for line ends would cost more than everything else, so only the first
/// watch does; the others are complete when they have read as many bytes.
#[derive(Debug, Default)]
struct Seen {
    /// Events read by the first watch.
    events: AtomicUsize,
    /// Bytes read by the first watch.
    bytes: AtomicUsize,
    /// Bytes read by all watches.
    total: AtomicUsize,
}

impl Seen {
    fn add(&self, watcher: usize, data: &[u8]) {
        if watcher == 0 {
            // Each event ends with a line break, and JSON text contains no others.
            let events = data.iter().filter(|byte| **byte == b'\n').count();
            self.events.fetch_add(events, Ordering::Relaxed);
            self.bytes.fetch_add(data.len(), Ordering::Relaxed);
        }
        self.total.fetch_add(data.len(), Ordering::Relaxed);
    }

    /// Waits until all watches have read this many events.
    async fn wait_for(&self, events: usize) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(60);
        let is_complete = || {
            self.events.load(Ordering::Relaxed) == events
                && self.total.load(Ordering::Relaxed) == self.bytes.load(Ordering::Relaxed) * WATCHERS
        };
        while !is_complete() {
            if Instant::now() > deadline {
                return Err(format!("not all of {events} events arrived: {self:?}").into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}
