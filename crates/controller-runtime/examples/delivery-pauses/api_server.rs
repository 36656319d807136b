//! A stand-in for an API server.

use std::{
    convert::Infallible,
    fmt::Write as _,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use k8s_openapi::api::coordination::v1::Lease;
use kube::client::Body;
use tokio::{sync::Notify, time::Instant};

use crate::lateness::{CpuWait, Longest};

/// Objects in one chunk of an answer.
const CHUNK: usize = 16;

/// Lists and watches of ConfigMaps, one lease, and nothing else.
#[derive(Clone)]
pub(crate) struct ApiServer {
    objects: usize,
    version: Arc<AtomicUsize>,
    /// Notified when watches are to find their version too old.
    expired: Arc<Notify>,
    lease: Arc<Mutex<Option<Renewed>>>,
    renew_every: Duration,
    /// Of the thread that runs the manager.
    cpu_wait: Arc<CpuWait>,
    /// How late renewals of the lease arrive.
    pub(crate) renewals: Arc<Longest>,
}

struct Renewed {
    lease: Lease,
    at: Instant,
    /// Total of the thread's wait for a processor then.
    waited: Duration,
}

type AnyBody = UnsyncBoxBody<Bytes, Infallible>;

impl ApiServer {
    /// With so many ConfigMaps, and a lease that its holder renews so often.
    pub(crate) fn new(objects: usize, renew_every: Duration, cpu_wait: Arc<CpuWait>) -> Self {
        Self {
            objects,
            version: Arc::new(AtomicUsize::new(1)),
            expired: Arc::default(),
            lease: Arc::default(),
            renew_every,
            cpu_wait,
            renewals: Arc::default(),
        }
    }

    /// Changes all ConfigMaps and expires the open watches, so that clients list again.
    pub(crate) fn change_all(&self) {
        self.version.fetch_add(1, Relaxed);
        self.expired.notify_waiters();
    }

    fn list(&self) -> AnyBody {
        let (objects, version) = (self.objects, self.version.load(Relaxed));
        let begin = format!(
            r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"{}"}},"items":["#,
            (version + 1) * objects
        );
        let chunk = move |first: usize| {
            let mut text = String::new();
            for number in first..objects.min(first + CHUNK) {
                let comma = if number == 0 { "" } else { "," };
                let _ = write!(
                    text,
                    r#"{comma}{{"metadata":{{"name":"map-{number:07}","namespace":"default","uid":"uid-{number}","resourceVersion":"{}","labels":{{"app":"web-{}"}}}},"data":{{"version":"{version}","number":"{number}","text":"{:0200}"}}}}"#,
                    version * objects + number,
                    number % 1000,
                    number
                );
            }
            text
        };
        let chunks = stream::iter((0..objects).step_by(CHUNK)).map(chunk);
        let text = stream::iter([begin]).chain(chunks).chain(stream::iter(["]}".to_owned()]));
        StreamBody::new(text.map(|text| Ok(Frame::data(Bytes::from(text))))).boxed_unsync()
    }

    /// A watch that says nothing until all ConfigMaps change.
    fn watch(&self) -> AnyBody {
        let expired = Arc::clone(&self.expired).notified_owned();
        let error = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"too old","code":410}}"#;
        let line = stream::once(async move {
            expired.await;
            Ok(Frame::data(Bytes::from(format!("{error}\n"))))
        });
        StreamBody::new(line).boxed_unsync()
    }

    /// Reads the lease, or writes it if there is a body.
    fn lease(&self, body: &[u8]) -> (StatusCode, AnyBody) {
        let mut held = self.lease.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(mut lease) = serde_json::from_slice::<Lease>(body) {
            let (at, waited) = (Instant::now(), self.cpu_wait.total());
            if let Some(before) = &*held {
                let expected = self.renew_every + (waited - before.waited);
                self.renewals.note((at - before.at).saturating_sub(expected));
            }
            let version =
                held.as_ref().and_then(|held| held.lease.metadata.resource_version.as_ref()?.parse().ok());
            lease.metadata.resource_version = Some((version.unwrap_or(0_u64) + 1).to_string());
            *held = Some(Renewed { lease, at, waited });
        }
        match &*held {
            Some(Renewed { lease, .. }) => {
                let text = serde_json::to_vec(lease).unwrap_or_default();
                (StatusCode::OK, Full::new(text.into()).boxed_unsync())
            }
            None => (StatusCode::NOT_FOUND, AnyBody::default()),
        }
    }

    async fn answer(self, request: Request<Body>) -> Response<AnyBody> {
        let (head, body) = request.into_parts();
        let (path, query) = (head.uri.path(), head.uri.query().unwrap_or_default());
        let (code, body) = match (path.ends_with("/configmaps"), path.contains("/leases")) {
            (true, _) if query.contains("sendInitialEvents") => {
                (StatusCode::UNPROCESSABLE_ENTITY, AnyBody::default())
            }
            (_, true) | (true, _) if query.contains("watch=true") => (StatusCode::OK, self.watch()),
            (true, _) => (StatusCode::OK, self.list()),
            (_, true) if head.method == Method::GET => self.lease(&[]),
            (_, true) => {
                self.lease(&body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default())
            }
            (false, false) => (StatusCode::NOT_FOUND, AnyBody::default()),
        };
        let mut response = Response::new(body);
        *response.status_mut() = code;
        response
    }
}

impl tower_service::Service<Request<Body>> for ApiServer {
    type Response = Response<AnyBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = self.clone().answer(request);
        Box::pin(async move { Ok(answer.await) })
    }
}
