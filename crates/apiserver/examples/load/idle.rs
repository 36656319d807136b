//! Ten thousand watches of a collection without changes: their cost, and their effect on other requests.

use bytes::Bytes;
use http::{Method, Response};
use hyper::body::Incoming;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::time::{Duration, sleep};

use super::Result;
use super::objects::Form;
use super::process::{Program, ServerProcess};
use super::report::{Goal, Report};
use super::requests::small_mix;
use super::wire::{Connection, Protocol};

/// No object in this collection changes.
const QUIET: &str = "/api/v1/namespaces/default/secrets?watch=1&resourceVersion=1";
/// Number of watches on one HTTP/2 connection, as the informers of a process have them; the server's limit.
const PER_CONNECTION: usize = 1_000;

/// A connection and its watches.
type Watches = (Connection, Vec<Response<Incoming>>);

/// Measures watches on connections of their own, and many watches on few connections, each on a new server.
pub(crate) async fn measure(program: &Program, quick: bool, report: &mut Report) -> Result<()> {
    let count = if quick { 1_000 } else { 10_000 };
    raise_file_limit();
    for (protocol, on_one) in [(Protocol::Http1, 1), (Protocol::Http2, PER_CONNECTION)] {
        let server = program.start()?;
        let alone = small_mix(&server, 0, quick).await?;
        let resident = server.resident()?;
        let mut connections = Vec::new();
        for _ in 0..count / on_one {
            connections.push(watches(&server, protocol, on_one).await?);
        }
        let what = format!("{count} idle watches, {on_one} on a connection");
        let each = (server.resident()? - resident) * 1e6 / count as f64;
        report.add(format!("{what}: memory of each"), each / 1e3, "kB", Goal::None);
        let seconds = if quick { 1 } else { 5 };
        let before = server.cpu()?;
        sleep(Duration::from_secs(seconds)).await;
        let idle = (server.cpu()? - before) / seconds as f64;
        report.add(format!("{what}: CPU"), idle, "cores", Goal::AtMost(0.02));
        let beside = small_mix(&server, 1_000_000, quick).await?;
        let share = beside.per_cpu_second / alone.per_cpu_second;
        // Ratio of gets per CPU second with and without the watches.
        report.add(format!("{what}: speed of others"), share, "", Goal::AtLeast(0.8));
        drop(connections);
    }
    Ok(())
}

async fn watches(server: &ServerProcess, protocol: Protocol, count: usize) -> Result<Watches> {
    let mut connection = Connection::open(server, protocol).await?;
    let mut watches = Vec::new();
    for _ in 0..count {
        watches.push(connection.start(Method::GET, QUIET, Form::Json, Bytes::new()).await?);
    }
    Ok((connection, watches))
}

/// Raises the limit of open files: each connection takes a file on either side. The server inherits the
/// limit of this process.
fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it, opening connections fails later with a clear error.
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        eprintln!("the limit of open files stays: {error}: raise it with `ulimit -n 20000`");
    }
}
