//! `cargo run --profile bench -p controller-runtime --example delivery-pauses -- [objects] [decoded]`: how long a task on the same thread waits
//! for its turn at most, while many objects are listed, delivered, and listed again.
//!
//! With `decoded` no object is compressed, so that no dictionary is trained.
//!
//! The runtime has one thread, and the controller one worker: each worker may take a turn of 128 reconciles. The API server is a stand-in that generates its answers in small pieces, so that the pauses are those
//! of the cache and the controller. Times are of a clock on the wall: on a machine with other work, run it with `chrt -f 10`.

use std::{
    convert::Infallible,
    error::Error,
    fmt::Write as _,
    future::{Ready, ready},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use controller_runtime::{
    Action, Builder, Kind, Manager, MapFn, ObjectKey, Reconciler,
    cache::{self, Retain},
    controller,
    manager::Options,
    reconcile,
};
use futures::{StreamExt, stream};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use tokio::{
    sync::Notify,
    task::{JoinSet, yield_now},
    time::Instant,
};

/// Objects in one chunk of an answer.
const CHUNK: usize = 16;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let objects: usize = std::env::args().nth(1).map_or(Ok(400_000), |number| number.parse())?;
    let server = ApiServer { objects, version: Arc::new(AtomicUsize::new(1)), expired: Arc::default() };
    let retain = match std::env::args().nth(2).as_deref() {
        Some("decoded") => Retain::Decoded,
        _ => Retain::default(),
    };
    let options = Options::new("example").cache(cache::Options::default().retain(retain));
    let manager = Manager::new(kube::Client::new(server.clone(), "default"), options);
    let maps = manager.cached::<ConfigMap>();
    let by_name = maps.index(|map: &ConfigMap| map.metadata.name.clone());
    let mapped = Arc::new(AtomicUsize::new(0));
    let map = |mapped: &Arc<AtomicUsize>| {
        let mapped = Arc::clone(mapped);
        Kind::new(MapFn(move |map: &ConfigMap| {
            mapped.fetch_add(1, Relaxed);
            ObjectKey::of(map)
        }))
    };
    let handle = Builder::managed_by(&manager)
        .for_requests::<ObjectKey<ConfigMap>>("maps")
        .watches(map(&mapped))
        .with_options(controller::Options::default().max_concurrent_reconciles(1))
        .complete(Nothing)?;

    let longest = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    tasks.spawn(take_turns(Arc::clone(&longest)));
    let begun = Instant::now();
    let report = |what: &str| {
        let longest = longest.swap(0, Relaxed);
        println!("{:6.1} s  {what}: longest pause {} µs", begun.elapsed().as_secs_f64(), longest / 1000);
    };
    println!("{objects} objects, an index and a map function that decode each");
    let measured = async {
        maps.synced().await;
        report("listed and indexed");
        until(&mapped, objects).await;
        report("delivered to a controller");
        server.version.store(2, Relaxed);
        server.expired.notify_waiters();
        // A change is mapped before and after.
        until(&mapped, 3 * objects).await;
        report("listed again, all changed");
        let late = Arc::new(AtomicUsize::new(0));
        handle.watch(map(&late));
        until(&late, objects).await;
        report("delivered to a source that was added");
        assert!(by_name.keys("map-0000007").is_ok_and(|keys| keys.len() == 1));
    };
    Ok(manager.run(measured).await?)
}

async fn until(count: &AtomicUsize, wanted: usize) {
    while count.load(Relaxed) < wanted {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Takes each turn that it gets, as a lease renewal or a probe would that is due, and measures the time between them.
async fn take_turns(longest: Arc<AtomicU64>) {
    let mut last = Instant::now();
    loop {
        yield_now().await;
        let now = Instant::now();
        longest.fetch_max(u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX), Relaxed);
        last = now;
    }
}

struct Nothing;

impl Reconciler for Nothing {
    type Request = ObjectKey<ConfigMap>;

    async fn reconcile(
        &self,
        _: &ObjectKey<ConfigMap>,
        _: &controller_runtime::Context,
    ) -> Result<Action, reconcile::Error> {
        Ok(Action::done())
    }
}

/// Lists and watches of ConfigMaps, and nothing else.
#[derive(Clone)]
struct ApiServer {
    objects: usize,
    version: Arc<AtomicUsize>,
    /// Notified when watches are to find their version too old.
    expired: Arc<Notify>,
}

type AnyBody = UnsyncBoxBody<Bytes, Infallible>;

impl ApiServer {
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

    fn watch(&self) -> AnyBody {
        let expired = Arc::clone(&self.expired).notified_owned();
        let error = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"too old","code":410}}"#;
        let line = stream::once(async move {
            expired.await;
            Ok(Frame::data(Bytes::from(format!("{error}\n"))))
        });
        StreamBody::new(line).boxed_unsync()
    }
}

impl tower_service::Service<Request<Body>> for ApiServer {
    type Response = Response<AnyBody>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let (code, body) = match path.ends_with("/configmaps") {
            true if query.contains("sendInitialEvents") => {
                (StatusCode::UNPROCESSABLE_ENTITY, AnyBody::default())
            }
            true if query.contains("watch=true") => (StatusCode::OK, self.watch()),
            true => (StatusCode::OK, self.list()),
            false => (StatusCode::NOT_FOUND, AnyBody::default()),
        };
        let mut response = Response::new(body);
        *response.status_mut() = code;
        ready(Ok(response))
    }
}
