//! An API server for pods alone, in another process, so that its memory is not counted as the cache's.

use std::{
    convert::Infallible,
    error::Error,
    io::{BufRead, BufReader, Read, Write},
    pin::Pin,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::core::PartialObjectMeta;
use tokio::{net::TcpListener, sync::mpsc, task::JoinSet};

use crate::pods::Pods;

/// Version of the list. Events have later versions.
pub(crate) const VERSION: usize = 900_000_000;

/// A server in another process. It ends with this process.
pub(crate) struct Server {
    process: Child,
    pub(crate) url: String,
}

impl Server {
    /// Starts a server with this number of pods. `stream` says whether it supports initial events.
    pub(crate) fn start(pods: usize, stream: bool) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(std::env::current_exe()?);
        let how = if stream { "stream" } else { "list" };
        command.args(["serve", &pods.to_string(), how]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let mut url = String::new();
        BufReader::new(process.stdout.as_mut().ok_or("no output")?).read_line(&mut url)?;
        Ok(Self { process, url: url.trim().to_owned() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.stdin.take()); // the server ends when its input ends
        let _ = self.process.wait();
    }
}

/// Prints its address, then serves this number of pods until standard input ends.
pub(crate) async fn serve(count: usize, streams: bool) -> Result<(), Box<dyn Error>> {
    let mut all = Pods::new(1);
    let (send, lines) = mpsc::unbounded_channel();
    let served = Arc::new(Served {
        pods: (0..count).map(|_| all.next().into()).collect(),
        streams,
        events: send,
        lines: Mutex::new(Some(lines)),
    });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "http://{}", listener.local_addr()?)?;
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        while connections.try_join_next().is_some() {} // removes finished connections
        let served = Arc::clone(&served);
        connections.spawn(async move {
            let answer = service_fn(move |request| {
                let answer = Ok::<_, Infallible>(served.answer(&request));
                async { answer }
            });
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

struct Served {
    pods: Vec<Bytes>,
    streams: bool,
    events: mpsc::UnboundedSender<Bytes>,
    /// For the first watch of events; later watches receive none.
    lines: Mutex<Option<mpsc::UnboundedReceiver<Bytes>>>,
}

type Texts = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

impl Served {
    fn answer<B>(
        self: &Arc<Self>,
        request: &Request<B>,
    ) -> Response<StreamBody<impl Stream<Item = Result<Frame<Bytes>, Infallible>> + use<B>>> {
        let query = request.uri().query().unwrap_or_default();
        let number = |name: &str| {
            let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            value.and_then(|value| value.parse::<usize>().ok())
        };
        let (status, texts): (_, Texts) = match request.uri().path() {
            "/api/v1/pods" if query.contains("sendInitialEvents") => match self.streams {
                true => (StatusCode::OK, self.present()),
                false => (StatusCode::UNPROCESSABLE_ENTITY, Box::pin(stream::empty())),
            },
            "/api/v1/pods" if query.contains("watch=true") => (StatusCode::OK, self.changes()),
            "/api/v1/pods" => {
                (StatusCode::OK, self.page(number("continue").unwrap_or_default(), number("limit")))
            }
            "/events" => {
                let last = self.send_events(number("count").unwrap_or(1));
                (StatusCode::OK, Box::pin(stream::iter([last.into()])))
            }
            _ => (StatusCode::NOT_FOUND, Box::pin(stream::empty())),
        };
        let mut response = Response::new(StreamBody::new(texts.map(|text| Ok(Frame::data(text)))));
        *response.status_mut() = status;
        response
    }

    fn pods(self: &Arc<Self>, from: usize, to: usize) -> impl Stream<Item = Bytes> + Send + use<> {
        let served = Arc::clone(self);
        stream::iter(from..to).map(move |number| served.pods[number].clone())
    }

    fn page(self: &Arc<Self>, from: usize, limit: Option<usize>) -> Texts {
        let to = limit.map_or(self.pods.len(), |limit| (from + limit).min(self.pods.len()));
        let token = if to == self.pods.len() { String::new() } else { format!(r#","continue":"{to}""#) };
        let head = format!(
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{VERSION}"{token}}},"items":["#
        );
        let comma = |first| Bytes::from_static(if first { b"" } else { b"," });
        let items = self.pods(from, to).enumerate();
        let items = items.flat_map(move |(number, pod)| stream::iter([comma(number == 0), pod]));
        let (head, end) = (stream::iter([Bytes::from(head)]), stream::iter([Bytes::from_static(b"]}\n")]));
        Box::pin(head.chain(items).chain(end))
    }

    /// Returns all pods as events, followed by changes.
    fn present(self: &Arc<Self>) -> Texts {
        let line =
            |pod| [Bytes::from_static(br#"{"type":"ADDED","object":"#), pod, Bytes::from_static(b"}\n")];
        let pods = self.pods(0, self.pods.len()).flat_map(move |pod| stream::iter(line(pod)));
        let end = format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"{VERSION}\",\"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}}}}}}}}\n"
        );
        Box::pin(pods.chain(stream::iter([Bytes::from(end)])).chain(self.changes()))
    }

    fn changes(&self) -> Texts {
        let lines = self.lines.lock().expect("no holder of the lock panics").take();
        Box::pin(stream::unfold(lines, |lines| async move {
            match lines {
                Some(mut lines) => lines.recv().await.map(|line| (line, Some(lines))),
                None => std::future::pending().await,
            }
        }))
    }

    /// Sends the first pods again with new versions, like changes of status. Returns namespace and name of the last
    /// one.
    fn send_events(&self, count: usize) -> String {
        for (number, pod) in self.pods.iter().take(count).enumerate() {
            let pod = std::str::from_utf8(pod).expect("text");
            let (head, tail) = pod.split_once(r#""resourceVersion":""#).expect("it has a version");
            let tail = tail.split_once('"').expect("it ends").1;
            let version = VERSION + 1 + number;
            let line = format!(
                "{{\"type\":\"MODIFIED\",\"object\":{head}\"resourceVersion\":\"{version}\"{tail}}}\n"
            );
            let _ = self.events.send(line.into()); // an error means that there is no watch any more
        }
        let last = self
            .pods
            .get(count - 1)
            .and_then(|pod| serde_json::from_slice::<PartialObjectMeta<Pod>>(pod).ok());
        let last = last.expect("at least one pod was sent").metadata;
        format!("{}/{}", last.namespace.unwrap_or_default(), last.name.unwrap_or_default())
    }
}
