use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use controller_runtime::{
    Action, Builder, Context, Manager, ObjectKey, Reconciler,
    leader_election::{self, Timing},
    manager::{Endpoint, Options, Request, Response, Serving},
    metrics::ServerOptions,
    reconcile,
};
use kube_envtest::{Environment, Transport, eventually};
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::Instant,
};

use crate::{
    access::{Reviews, guarded_on},
    faults::{Fault, faulty},
    support::{Notes, Running, Widget, alone_in_real_time, environment, widget},
};

pub(crate) fn anywhere() -> Endpoint {
    "127.0.0.1:0".parse().unwrap()
}

pub(crate) async fn connect(address: SocketAddr) -> tokio::net::TcpStream {
    #[expect(clippy::disallowed_methods, reason = "the server that is tested is on the loopback interface")]
    let stream = tokio::net::TcpStream::connect(address).await;
    stream.unwrap()
}

/// Asks a server over a socket, and returns code and body.
pub(crate) async fn get(address: SocketAddr, path: &str, headers: &str) -> (u16, String) {
    ask(connect(address).await, path, headers).await
}

/// The same over a connection.
pub(crate) async fn ask(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    path: &str,
    headers: &str,
) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

pub(crate) fn serving(env: &Environment, metrics: ServerOptions) -> Manager {
    let options = Options::new("test").metrics(metrics.bind_address(anywhere()));
    Manager::new(env.client(), options.health_probe_bind_address(anywhere()))
}

#[tokio::test]
async fn metrics_and_probes_are_served_while_the_manager_runs() {
    let env = environment().await;
    let hello = async |_: Request| Response::new("hello".into());
    let manager = serving(&env, ServerOptions::default().extra_handler("/hello", hello));
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
        let handler = async move |_: Request| Response::new(says.into());
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
async fn probes_tell_of_caches_that_are_not_complete() {
    let env = Environment::builder().start().await.unwrap(); // without the kind
    let manager = serving(&env, ServerOptions::default());
    let _widgets = manager.cached::<Widget>();
    let running = Running::begin(manager.clone());
    let probes = eventually(Duration::from_secs(10), async || {
        manager.health_probe_address().ok_or("no address".to_owned())
    });
    let probes = probes.await.expect("probes are served before the caches are complete");
    assert_eq!(get(probes, "/healthz", "").await.0, 200);
    let (code, text) = get(probes, "/readyz", "").await;
    assert_eq!(code, 500);
    assert!(text.contains("[-]caches failed") && text.contains("[-]started failed"), "{text}");
    running.stop().await.expect("a stop while caches cannot sync");
}

#[tokio::test]
async fn readiness_tells_of_a_cache_that_has_been_in_trouble_for_too_long() {
    let env = environment().await;
    let forbidden = Arc::new(AtomicBool::new(false));
    let served = async |limit: Option<Duration>| {
        let forbidden = Arc::clone(&forbidden);
        let client =
            faulty(env.client(), move |seen| match forbidden.load(SeqCst) && seen.is_about("widgets") {
                true => Fault::Refuse(403, "Forbidden"),
                false => Fault::Pass,
            });
        let options = Options::new("test").seed(1).health_probe_bind_address(anywhere());
        let manager = Manager::new(client, options.stale_after(limit));
        let widgets = manager.cached::<Widget>();
        let running = Running::start(manager.clone()).await;
        (manager.health_probe_address().unwrap(), widgets, running)
    };
    let (strict, widgets, _strict) = served(Some(Duration::from_millis(1))).await;
    let (patient, others, _patient) = served(Some(Duration::from_secs(3600))).await;
    let (lenient, _others, _lenient) = served(None).await;
    for probes in [strict, patient, lenient] {
        assert_eq!(get(probes, "/readyz", "").await.0, 200);
    }
    forbidden.store(true, SeqCst);
    assert!(env.server().faults().close_watches("example.com", "widgets"));
    let told = eventually(Duration::from_secs(20), async || {
        let (code, text) = get(strict, "/readyz", "").await;
        let troubled = widgets.trouble().is_some() && others.trouble().is_some();
        if code == 500 && troubled { Ok(text) } else { Err(text) }
    });
    let text = told.await.unwrap();
    assert!(text.contains("[-]caches failed"), "{text}");
    assert_eq!(get(patient, "/readyz", "").await.0, 200, "it has not been so for long");
    assert_eq!(get(lenient, "/readyz", "").await.0, 200, "it never minds");
    forbidden.store(false, SeqCst);
    let told = eventually(Duration::from_secs(20), async || match get(strict, "/readyz", "").await {
        (200, _) => Ok(()),
        (_, text) => Err(text),
    });
    told.await.unwrap();
}

/// Never comes to an end.
struct Stuck;

impl Reconciler for Stuck {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, _: &ObjectKey<Widget>, _: &Context) -> Result<Action, reconcile::Error> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_reconcile_that_is_stuck_fails_liveness() {
    let env = environment().await;
    let options = Options::new("test").health_probe_bind_address(anywhere()).stuck_after(Duration::ZERO);
    let manager = Manager::new(env.client(), options);
    Builder::managed_by(&manager).for_kind::<Widget>().complete(Stuck).unwrap();
    let _running = Running::start(manager.clone()).await;
    let probes = manager.health_probe_address().unwrap();
    assert_eq!(get(probes, "/healthz/workers", "").await.0, 200, "nothing is reconciled");
    controller_runtime::Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    let stuck = eventually(Duration::from_secs(10), async || match get(probes, "/healthz", "").await {
        (500, text) if text.contains("[-]workers failed") => Ok(()),
        answer => Err(format!("{answer:?}")),
    });
    stuck.await.unwrap();
}

#[tokio::test]
async fn an_address_that_is_taken_ends_the_start_with_its_name() {
    let env = environment().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let options = Options::new("test").health_probe_bind_address(Endpoint::At(address));
    let error = Manager::new(env.client(), options).run(std::future::pending()).await.unwrap_err();
    let expected = format!("health probe failed: the server of health probe cannot listen on {address}");
    assert!(format!("{error:?}").starts_with(&expected), "{error:?}");
}

#[tokio::test]
async fn why_a_request_fails_is_explained_to_those_who_may_see_it() {
    let env = environment().await;
    let manager = guarded_on(&env, Reviews::default());
    let fails = Notes::new(|_, _| Err(reconcile::Error::new("no luck")));
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
    let expected = "controller widget has no request default/b in its queue or among the 1024 that ran last: nothing has \
                    asked for it, or it is spelt otherwise (default/web, say)";
    assert_eq!(ask("?controller=widget&request=default/b").await, (404, format!("{expected}\n")));
    assert_eq!(manager.explain("widget", "default/b").unwrap_err().to_string(), expected);
    assert_eq!(manager.explain("widget", "default/a").unwrap().request, "Widget default/a");
    assert_eq!(manager.overview()[0].failing.len(), 1);
    assert_eq!(ask("?request=default/a").await.0, 400);
    assert_eq!(ask("?format=yaml").await.0, 400);
}

#[tokio::test]
async fn nothing_is_explained_where_everybody_may_ask() {
    let env = environment().await;
    let manager = serving(&env, ServerOptions::default());
    let _running = Running::start(manager.clone()).await;
    let (code, text) = get(manager.metrics_address().unwrap(), "/explain", "").await;
    assert_eq!(code, 403);
    assert!(text.contains("AllowedTo::Authorized"), "{text}");
}

#[tokio::test]
async fn a_socket_that_was_given_is_served_on_in_every_run() {
    let env = environment().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let metrics = ServerOptions::default().listener(listener);
    let manager = Manager::new(env.client(), Options::new("test").metrics(metrics));
    for _ in 0..2 {
        let running = Running::begin(manager.clone());
        assert_eq!(get(address, "/metrics", "").await.0, 200);
        assert_eq!(manager.metrics_address(), Some(address));
        running.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_shakes_no_hands_is_cut_off() {
    let env = environment().await;
    let manager = serving(&env, ServerOptions::default().serving(Serving::SelfSigned));
    let _running = Running::start(manager.clone()).await;
    let mut stream = connect(manager.metrics_address().unwrap()).await;
    let (began, mut answer) = (Instant::now(), Vec::new());
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!((began.elapsed().as_secs(), answer.len()), (10, 0));
}

/// How many sockets this process has.
fn sockets() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let is_socket = |path: std::path::PathBuf| path.to_string_lossy().starts_with("socket:");
    open.filter(|file| std::fs::read_link(file.path()).is_ok_and(is_socket)).count()
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
            let manager = serving(&env, ServerOptions::default());
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
            // The client keeps a few connections for the next one: as many as in the first round, and no more.
            let ended = eventually(Duration::from_secs(10), async || match (sockets(), left) {
                (now, None) if now > 0 => Ok(now),
                (now, Some(before)) if now <= before => Ok(now),
                (now, _) => Err(format!("{now} sockets in round {round}, {left:?} after the first one")),
            });
            left = left.or(Some(ended.await.unwrap()));
        }
    });
}

/// What this process logs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn begin() -> Self {
        let log = Self::default();
        let written = log.clone();
        tracing_subscriber::fmt().with_ansi(false).with_writer(move || written.clone()).init();
        log
    }

    fn contains(&self, part: &str) -> bool {
        String::from_utf8_lossy(&self.0.lock().unwrap()).contains(part)
    }
}

impl std::io::Write for Log {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Computes until it is told to stop, without an `.await`.
struct Computes {
    began: Arc<AtomicUsize>,
    stop: Arc<AtomicUsize>,
}

impl Reconciler for Computes {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, _: &ObjectKey<Widget>, _: &Context) -> Result<Action, reconcile::Error> {
        self.began.fetch_add(1, SeqCst);
        while self.stop.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        Ok(Action::done())
    }
}

#[test]
fn what_never_waits_is_named_when_the_lease_is_lost_and_fails_liveness() {
    let this = "servers::what_never_waits_is_named_when_the_lease_is_lost_and_fails_liveness";
    alone_in_real_time(this, async || {
        let log = Log::begin();
        let on_two_threads = move || {
            let mut threads = tokio::runtime::Builder::new_multi_thread();
            let threads = threads.worker_threads(2).enable_all().build().unwrap();
            threads.block_on(lose_the_lease_while_computing(&log));
        };
        std::thread::spawn(on_two_threads).join().unwrap();
    });
}

async fn lose_the_lease_while_computing(log: &Log) {
    let (env, cut_off) = (environment().await, Arc::new(AtomicUsize::new(0)));
    let cut = Arc::clone(&cut_off);
    let client = faulty(env.client(), move |seen| match cut.load(SeqCst) > 0 && seen.is_about("leases") {
        true => Fault::Hang,
        false => Fault::Pass,
    });
    let timing = [1500, 1000, 200].map(Duration::from_millis);
    let timing = Timing::try_new(timing[0], timing[1], timing[2]).unwrap();
    let election = leader_election::Options::new("the-lease").identity("one").timing(timing);
    let options = Options::new("test").leader_election(election).health_probe_bind_address(anywhere());
    let manager = Manager::new(client, options);
    let (began, stop) = (Arc::default(), Arc::default());
    let computes = Computes { began: Arc::clone(&began), stop: Arc::clone(&stop) };
    Builder::managed_by(&manager).for_kind::<Widget>().complete(computes).unwrap();
    let running = Running::start(manager.clone()).await;
    controller_runtime::Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    let until = async |what: &str, is_so: &dyn Fn() -> bool| {
        let looked = eventually(Duration::from_secs(20), async || match is_so() {
            true => Ok(()),
            false => Err(format!("{what} does not come")),
        });
        looked.await.unwrap();
    };
    until("the reconcile", &|| began.load(SeqCst) == 1).await;
    let address = manager.health_probe_address().unwrap();
    let is_live = async || get(address, "/healthz/leader-election", "").await.0 == 200;
    assert!(is_live().await);

    cut_off.store(1, SeqCst);
    let said = "still running 2 s after the lease was lost, because it never waits: widget: Widget default/a";
    until("the message", &|| log.contains(said)).await;
    assert!(!*manager.leads().borrow() && !is_live().await);

    stop.store(1, SeqCst);
    until("the end", &|| log.contains("what ran on without the lease has stopped")).await;
    assert!(is_live().await);
    running.stop().await.unwrap();
}
