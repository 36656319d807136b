//! The cache over a connection that misbehaves.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use controller_runtime::{Builder, Client, Manager, manager::Options};
use http::{Request, Response, StatusCode};
use kube::client::Body;
use kube_envtest::{Environment, eventually};
use serde_json::json;

use crate::support::{Notes, Running, Widget, environment, key, settle, widget};

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    Pass,
    Gone,
    Unavailable,
}

/// A client to the environment's server whose requests pass `judge` first; it sees the path and query.
fn faulty(env: &Environment, judge: impl FnMut(&str) -> Fault + Send + 'static) -> kube::Client {
    let service = Faulty {
        inner: env.client(),
        judge: Arc::new(Mutex::new(judge)),
    };
    kube::Client::new(service, "default")
}

type Judge = dyn FnMut(&str) -> Fault + Send;

struct Faulty {
    inner: kube::Client,
    judge: Arc<Mutex<Judge>>,
}

impl tower_service::Service<Request<Body>> for Faulty {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let path = request
            .uri()
            .path_and_query()
            .map_or_else(String::new, ToString::to_string);
        let fault = (self.judge.lock().unwrap())(&path);
        let inner = self.inner.clone();
        Box::pin(async move {
            let (code, reason) = match fault {
                Fault::Pass => return inner.send(request).await,
                Fault::Gone => (StatusCode::GONE, "Expired"),
                Fault::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
            };
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "a fault of the test", "reason": reason, "code": code.as_u16(),
            });
            let mut response = Response::new(Body::from(status.to_string().into_bytes()));
            *response.status_mut() = code;
            Ok(response)
        })
    }
}

fn manager(client: kube::Client) -> Manager {
    Manager::new(client, Options::new("test").seed(1))
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_is_tried_again_until_it_succeeds() {
    let env = environment().await;
    Client::new(env.client(), "test")
        .create(&widget("a", 1))
        .await
        .unwrap();
    let mut failures = 3;
    let client = faulty(&env, move |_| {
        failures -= 1;
        if failures >= 0 {
            Fault::Unavailable
        } else {
            Fault::Pass
        }
    });
    let manager = manager(client);
    let widgets = manager.cached::<Widget>();
    let _running = Running::start(manager).await;
    assert_eq!(widgets.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn http_410_at_the_start_of_a_watch_leads_to_a_new_list_whose_differences_are_events() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let doomed = client.create(&widget("doomed", 1)).await.unwrap();
    client.create(&widget("kept", 1)).await.unwrap();
    // Between the first list and the first watch something happens, and then the version is too old.
    let (meddle, mut meddled) = tokio::sync::mpsc::unbounded_channel();
    let mut watches = 0;
    let faulty = faulty(&env, move |path| {
        if !path.contains("watch=true") || !path.contains("widgets") {
            return Fault::Pass;
        }
        watches += 1;
        if watches == 1 {
            meddle.send(()).unwrap();
            Fault::Gone
        } else {
            Fault::Pass
        }
    });
    let manager = manager(faulty);
    let notes = Notes::done();
    Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .complete(notes.clone())
        .unwrap();
    let widgets = manager.cached::<Widget>();
    let _running = Running::start(manager).await;
    meddled.recv().await.unwrap();
    client.delete(&doomed).await.unwrap();
    client.create(&widget("new", 1)).await.unwrap();
    eventually(Duration::from_secs(60), async || {
        let names: Vec<_> = widgets
            .list()
            .iter()
            .filter_map(|widget| widget.metadata.name.clone())
            .collect();
        if names == ["kept", "new"] {
            Ok(())
        } else {
            Err(format!("{names:?}"))
        }
    })
    .await
    .unwrap();
    settle().await;
    let names = notes.names();
    for name in ["doomed", "new"] {
        assert!(names.iter().any(|noted| noted == name), "{name} in {names:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_failing_kind_does_not_hold_up_another() {
    use k8s_openapi::api::core::v1::ConfigMap;
    let env = environment().await;
    let mut listed = false;
    // After its first list, everything about ConfigMaps fails for good.
    let faulty = faulty(&env, move |path| {
        let first = !listed;
        if !path.contains("configmaps") {
            return Fault::Pass;
        }
        listed = true;
        if first { Fault::Pass } else { Fault::Unavailable }
    });
    let manager = manager(faulty);
    let notes = Notes::done();
    Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .owns::<ConfigMap>()
        .complete(notes.clone())
        .unwrap();
    let _running = Running::start(manager).await;
    let client = Client::new(env.client(), "test");
    client.create(&widget("a", 0)).await.unwrap();
    for size in 1..=200 {
        client
            .merge_patch(&key("a"), &json!({ "spec": { "size": size } }))
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(
        notes.names().len() >= 200,
        "{} reconciles in 40 s",
        notes.names().len()
    );
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_listed_and_watched_once_however_many_read_it() {
    let env = environment().await;
    let lists = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&lists);
    let client = faulty(&env, move |path| {
        if path.contains("widgets") && !path.contains("watch=true") {
            *counted.lock().unwrap() += 1;
        }
        Fault::Pass
    });
    let manager = manager(client);
    for name in ["one", "two", "three"] {
        Builder::managed_by(&manager)
            .for_kind::<Widget>()
            .named(name)
            .complete(Notes::done())
            .unwrap();
    }
    let _handle = manager.cached::<Widget>();
    let _running = Running::start(manager).await;
    settle().await;
    assert_eq!(*lists.lock().unwrap(), 1);
}
