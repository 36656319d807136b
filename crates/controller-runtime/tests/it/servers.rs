//! Servers of a manager, and their end.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use controller_runtime::{
    Builder, Manager, ManagerOptions, ReconcileError,
    manager::{ManagerError, Shutdown},
    serving::{Endpoint, HttpRequest, HttpResponse, MetricsServerOptions, Serving},
};
use kube_envtest::{Environment, Transport, eventually};
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::Notify,
    time::Instant,
};

use crate::{
    access::{Reviews, guarded_on},
    support::{Notes, Running, Widget, alone_in_real_time, environment, sockets, widget},
};

pub(crate) fn anywhere() -> Endpoint {
    "127.0.0.1:0".parse().unwrap()
}

pub(crate) async fn connect(address: SocketAddr) -> tokio::net::TcpStream {
    #[expect(clippy::disallowed_methods, reason = "the server that is tested is on the loopback interface")]
    let stream = tokio::net::TcpStream::connect(address).await;
    stream.unwrap()
}

/// Sends a request over a new connection, and returns code and body.
pub(crate) async fn get(address: SocketAddr, path: &str, headers: &str) -> (u16, String) {
    ask(connect(address).await, path, headers).await
}

/// Sends a request over this connection, and returns code and body.
pub(crate) async fn ask(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    path: &str,
    headers: &str,
) -> (u16, String) {
    send(stream, "GET", path, headers).await
}

/// Sends a request with this method and no body.
pub(crate) async fn send(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    method: &str,
    path: &str,
    headers: &str,
) -> (u16, String) {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

pub(crate) fn serving(env: &Environment, metrics: MetricsServerOptions) -> Manager {
    let options = ManagerOptions::new("test").metrics(metrics.bind_address(anywhere()));
    Manager::new(env.client(), options.health_probe_bind_address(anywhere()))
}

#[tokio::test]
async fn metrics_and_probes_are_served_while_the_manager_runs() {
    let env = environment().await;
    let hello = async |_: HttpRequest| HttpResponse::new("hello".into());
    let manager = serving(&env, MetricsServerOptions::default().extra_handler("/hello", hello));
    Builder::managed_by(&manager).for_kind::<Widget>().complete(Notes::done()).unwrap();
    let running = Running::start(manager.clone()).await;
    controller_runtime::Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    let address = manager.metrics_address().expect("ready means listening");
    let counted = eventually(Duration::from_secs(10), async || {
        let (code, text) = get(address, "/metrics", "").await;
        let sample = "controller_runtime_reconcile_total{controller=\"widget\",result=\"success\"} 1\n";
        if code == 200 && text.contains(sample) { Ok(text) } else { Err(text) }
    });
    let text = counted.await.unwrap();
    assert!(text.contains("# TYPE controller_runtime_reconcile_total counter\n") && !text.contains("# EOF"));
    let (_, text) = get(address, "/metrics", "Accept: application/openmetrics-text;version=1.0.0\r\n").await;
    assert!(
        text.contains("workqueue_work_duration_seconds_bucket{le=\"1\",") && !text.contains("# EOF"),
        "{text}"
    );
    assert_eq!(get(address, "/hello", "").await, (200, "hello".to_owned()));
    assert_eq!(get(address, "/other", "").await.0, 404);
    for (path, says) in [("/other", "late"), ("/hello", "late, too"), ("/metrics", "never")] {
        let handler = async move |_: HttpRequest| HttpResponse::new(says.into());
        manager.add_metrics_server_extra_handler(path, handler);
    }
    assert_eq!(get(address, "/other", "").await, (200, "late".to_owned()));
    assert_eq!(get(address, "/hello", "").await, (200, "late, too".to_owned()));
    assert!(get(address, "/metrics", "").await.1.contains("controller_runtime_reconcile_total"));

    let probes = manager.health_probe_address().expect("ready means listening");
    assert_eq!(get(probes, "/healthz", "").await, (200, "ok".to_owned()));
    let expected = "[+]caches ok\n[+]ping ok\n[+]started ok\nreadyz check passed\n";
    assert_eq!(get(probes, "/readyz?verbose", "").await, (200, expected.to_owned()));
    manager.add_readyz_check("mine", || async { Err("no".into()) });
    assert_eq!(get(probes, "/readyz/mine", "").await.0, 500);
    assert_eq!(get(probes, "/readyz", "").await.0, 500);
    assert_eq!(get(probes, "/else", "").await.0, 404);

    running.stop().await.unwrap();
    assert_eq!((manager.metrics_address(), manager.health_probe_address()), (None, None));
}

#[tokio::test]
async fn an_address_that_is_taken_ends_the_start_with_its_name() {
    let env = environment().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let options = ManagerOptions::new("test").health_probe_bind_address(Endpoint::At(address));
    let error = Manager::new(env.client(), options).run(std::future::pending()).await.unwrap_err();
    let expected = format!("health probes failed: the server of health probes cannot listen on {address}");
    assert!(format!("{error:?}").starts_with(&expected), "{error:?}");
}

#[tokio::test]
async fn explanations_are_served_to_authorized_clients() {
    let env = environment().await;
    let manager = guarded_on(&env, Reviews::default());
    let fails = Notes::new(|_, _| Err(ReconcileError::new("no luck")));
    Builder::managed_by(&manager).for_kind::<Widget>().complete(fails.clone()).unwrap();
    let _running = Running::start(manager.clone()).await;
    controller_runtime::Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    let failed = eventually(Duration::from_secs(10), async || {
        if fails.names().is_empty() { Err("it has not run".to_owned()) } else { Ok(()) }
    });
    failed.await.unwrap();

    let address = manager.metrics_address().unwrap();
    let ask =
        async |query: &str| get(address, &format!("/explain{query}"), "Authorization: Bearer good\r\n").await;
    assert_eq!(get(address, "/explain", "").await.0, 401);
    let (code, body) = ask("?controller=widget&request=default%2Fa").await;
    let explained: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((code, &explained["request"]), (200, &json!("Widget default/a")));
    assert_eq!(explained["runs"][0]["result"], json!({ "failed": "no luck" }));
    assert!(explained["runs"][0]["took"].is_f64() && explained["attempt"].as_u64() > Some(0), "{explained}");
    let (_, story) = ask("?controller=widget&request=Widget+default/a&format=text").await;
    assert!(story.starts_with("Widget default/a of controller widget "), "{story}");

    let (_, all) = ask("").await;
    let all: serde_json::Value = serde_json::from_str(&all).unwrap();
    assert_eq!(all[0]["failing"], json!([{ "request": "Widget default/a", "error": "no luck" }]));
    let (_, one) = ask("?controller=widget&format=text").await;
    assert!(
        one.starts_with("controller widget: ") && one.ends_with("1 failing\n  Widget default/a: no luck\n"),
        "{one}"
    );

    assert_eq!(
        ask("?controller=gadget&request=default/a").await,
        (404, "there is no controller gadget: the manager has widget\n".to_owned())
    );
    assert_eq!(ask("?controller=gadget").await.0, 404);
    let expected = "controller widget has no request default/b in its queue or among the 1024 that ran last: it has \
                    default/a";
    assert_eq!(ask("?controller=widget&request=default/b").await, (404, format!("{expected}\n")));
    assert_eq!(manager.explain("widget", "default/b").unwrap_err().to_string(), expected);
    assert_eq!(manager.explain("widget", "default/a").unwrap().request, "Widget default/a");
    assert_eq!(manager.overview()[0].failing.len(), 1);
    assert_eq!(ask("?request=default/a").await.0, 400);
    assert_eq!(ask("?format=yaml").await.0, 400);
}

#[tokio::test]
async fn explanations_are_not_served_without_authorization() {
    let env = environment().await;
    let manager = serving(&env, MetricsServerOptions::default());
    let _running = Running::start(manager.clone()).await;
    let (code, text) = get(manager.metrics_address().unwrap(), "/explain", "").await;
    assert_eq!(code, 403);
    assert!(text.contains("AllowedTo::Authorized"), "{text}");
}

#[tokio::test]
async fn a_given_socket_is_used_in_every_run() {
    let env = environment().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let metrics = MetricsServerOptions::default().listener(listener);
    let manager = Manager::new(env.client(), ManagerOptions::new("test").metrics(metrics));
    for _ in 0..2 {
        let running = Running::begin(manager.clone());
        assert_eq!(get(address, "/metrics", "").await.0, 200);
        assert_eq!(manager.metrics_address(), Some(address));
        running.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_without_a_tls_handshake_is_disconnected() {
    let env = environment().await;
    let manager = serving(&env, MetricsServerOptions::default().serving(Serving::SelfSigned));
    let _running = Running::start(manager.clone()).await;
    let mut stream = connect(manager.metrics_address().unwrap()).await;
    let (began, mut answer) = (Instant::now(), Vec::new());
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!((began.elapsed().as_secs(), answer.len()), (10, 0));
}

#[test]
fn a_manager_that_has_stopped_or_was_dropped_leaves_no_socket() {
    let this = "servers::a_manager_that_has_stopped_or_was_dropped_leaves_no_socket";
    alone_in_real_time(this, async || {
        let env = Environment::builder()
            .transport(Transport::Tcp(([127, 0, 0, 1], 0).into()))
            .crd::<Widget>()
            .start()
            .await
            .unwrap();
        let mut left = None;
        for round in 0..6 {
            let manager = serving(&env, MetricsServerOptions::default());
            Builder::managed_by(&manager).for_kind::<Widget>().complete(Notes::done()).unwrap();
            let running = Running::start(manager.clone()).await;
            assert_eq!(get(manager.metrics_address().unwrap(), "/metrics", "").await.0, 200);
            assert_eq!(get(manager.health_probe_address().unwrap(), "/readyz", "").await.0, 200);
            if round % 2 == 0 {
                running.stop().await.unwrap();
            } else {
                drop(running);
            }
            drop(manager);
            // The client keeps a few connections for the next round: as many as in the first one.
            let ended = eventually(Duration::from_secs(10), async || match (sockets(), left) {
                (now, None) if now > 0 => Ok(now),
                (now, Some(before)) if now <= before => Ok(now),
                (now, _) => Err(format!("{now} sockets in round {round}, {left:?} after the first one")),
            });
            left = left.or(Some(ended.await.unwrap()));
        }
    });
}

/// Stops a manager while it answers a very long request for metrics. Returns its result, the seconds it took, and the
/// answer that the client received.
async fn stopped_while_answering(grace: Shutdown) -> (Result<(), ManagerError>, u64, String) {
    let env = environment().await;
    let asked = Arc::new(Notify::new());
    let begun = Arc::clone(&asked);
    let slow = move |_: HttpRequest| {
        begun.notify_one();
        async {
            tokio::time::sleep(Duration::from_secs(100_000)).await;
            HttpResponse::new("late".into())
        }
    };
    let metrics = MetricsServerOptions::default().bind_address(anywhere()).extra_handler("/slow", slow);
    let options = ManagerOptions::new("test").metrics(metrics).graceful_shutdown_timeout(grace);
    let manager = Manager::new(env.client(), options);
    let running = Running::start(manager.clone()).await;
    let mut stream = connect(manager.metrics_address().unwrap()).await;
    stream.write_all(b"GET /slow HTTP/1.1\r\nHost: test\r\n\r\n").await.unwrap();
    asked.notified().await;
    // Not earlier: paused time would advance while data is on the way, because no timer waits for it.
    tokio::time::pause();
    let (began, mut answer) = (Instant::now(), String::new());
    let stopped = async { (running.stop().await, began.elapsed().as_secs()) };
    let ((ended, seconds), _) = tokio::join!(stopped, stream.read_to_string(&mut answer));
    tokio::time::resume();
    (ended, seconds, answer)
}

#[tokio::test]
async fn a_running_request_has_a_minute_at_the_stop_or_less_if_the_shutdown_has() {
    let (ended, seconds, answer) = stopped_while_answering(Shutdown::Unbounded).await;
    assert_eq!((seconds, &*answer), (60, ""));
    ended.unwrap();

    // As in Go, where this manager fails because a runnable did not end within its grace period.
    let (ended, seconds, answer) = stopped_while_answering(Shutdown::Within(Duration::from_secs(30))).await;
    assert_eq!((seconds, &*answer), (30, ""));
    assert_eq!(
        ended.unwrap_err().to_string(),
        "the manager's shutdown timeout of 30 s has passed; these reconciles and runnables were still running and have been dropped: metrics"
    );
}
