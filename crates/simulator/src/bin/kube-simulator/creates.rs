//! Creates over HTTP, as a unit for other times: on a slower machine both take longer.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

use kube_apiserver_embedded::{ApiServer, Options};
use serde_json::json;

use crate::processor_time::processor_time;

/// Creates that are measured, and earlier ones that are not: they load the code and the schema.
const MEASURED: u32 = 2000;
const EARLIER: u32 = 500;

/// Processor time of the API server for the create of a ConfigMap over a socket, one after the other.
pub(crate) fn processor_time_of_one() -> io::Result<Duration> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = ApiServer::start(Options::default());
        let listener = server.listen((Ipv4Addr::LOCALHOST, 0).into()).await.map_err(io::Error::other)?;
        // The client has another thread than the server, so that its time does not count.
        let address = listener.local_addr();
        let connection = tokio::task::spawn_blocking(move || Connection::after(address, EARLIER)).await??;
        let before = processor_time();
        tokio::task::spawn_blocking(move || connection.create(EARLIER, MEASURED)).await??;
        Ok(processor_time().saturating_sub(before) / MEASURED)
    })
}

/// A connection of HTTP/1.1 to the API server.
struct Connection(BufReader<TcpStream>);

impl Connection {
    /// A connection on which `number` objects have been created.
    fn after(address: SocketAddr, number: u32) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Self(BufReader::new(stream)).create(0, number)
    }

    /// Creates `number` ConfigMaps with numbers from `first` on.
    fn create(mut self, first: u32, number: u32) -> io::Result<Self> {
        for number in first..first + number {
            let name = format!("map-{number}");
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": "0"}});
            let map = map.to_string();
            let request = format!(
                "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\n\r\n{map}",
                map.len()
            );
            self.0.get_mut().write_all(request.as_bytes())?;
            self.read_response()?;
        }
        Ok(self)
    }

    /// Reads a response, which must be that of a create.
    fn read_response(&mut self) -> io::Result<()> {
        let mut status = String::new();
        self.0.read_line(&mut status)?;
        let mut length = None;
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line)?;
            let Some((name, value)) = line.split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok();
            }
        }
        let mut body = vec![0; length.ok_or_else(|| io::Error::other("a response has no length"))?];
        self.0.read_exact(&mut body)?;
        match status.split(' ').nth(1) {
            Some("201") => Ok(()),
            _ => Err(io::Error::other(format!("{}{}", status, String::from_utf8_lossy(&body)))),
        }
    }
}
