//! Health checks of a manager.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use controller_runtime::{
    Action, Builder, Context, Manager, ManagerOptions, ObjectKey, ReconcileError, Reconciler,
    cache::CacheOptions,
    leader_election::{LeaderElectionOptions, Timing},
    serving::MetricsServerOptions,
};
use kube_envtest::{Environment, eventually};

use crate::{
    faults::{Fault, faulty},
    servers::{anywhere, get, serving},
    support::{Running, Widget, alone_in_real_time, environment, widget},
};

#[tokio::test]
async fn readiness_fails_while_caches_are_incomplete() {
    let env = Environment::builder().start().await.unwrap(); // without the kind
    let manager = serving(&env, MetricsServerOptions::default());
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
async fn readiness_fails_while_a_cache_is_stale() {
    let env = environment().await;
    let forbidden = Arc::new(AtomicBool::new(false));
    let served = async |limit: Option<Duration>| {
        let forbidden = Arc::clone(&forbidden);
        let client =
            faulty(env.client(), move |seen| match forbidden.load(SeqCst) && seen.is_about("widgets") {
                true => Fault::Refuse(403, "Forbidden"),
                false => Fault::Pass,
            });
        let options = ManagerOptions::new("test").seed(1).health_probe_bind_address(anywhere());
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
    let answer = eventually(Duration::from_secs(20), async || {
        let (code, text) = get(strict, "/readyz", "").await;
        let troubled = widgets.trouble().is_some() && others.trouble().is_some();
        if code == 500 && troubled { Ok(text) } else { Err(text) }
    });
    let text = answer.await.unwrap();
    assert!(text.contains("[-]caches failed"), "{text}");
    assert_eq!(get(patient, "/readyz", "").await.0, 200, "it has not been so for long");
    assert_eq!(get(lenient, "/readyz", "").await.0, 200, "it never minds");
    forbidden.store(false, SeqCst);
    let answer = eventually(Duration::from_secs(20), async || match get(strict, "/readyz", "").await {
        (200, _) => Ok(()),
        (_, text) => Err(text),
    });
    answer.await.unwrap();
}

#[tokio::test]
async fn readiness_names_a_cluster_that_is_down_and_passes() {
    let (env, away) = (environment().await, environment().await);
    let down = faulty(away.client(), |_| Fault::Refuse(503, "ServiceUnavailable"));
    let manager = serving(&env, MetricsServerOptions::default());
    let east = manager.add_cluster("east", down, CacheOptions::default()).unwrap();
    let _widgets = (manager.cached::<Widget>(), east.cached::<Widget>());
    let _running = Running::start(manager.clone()).await;
    let probes = manager.health_probe_address().unwrap();
    let answer = eventually(Duration::from_secs(10), async || {
        let (code, text) = get(probes, "/readyz?verbose", "").await;
        if code == 200 && east.trouble().is_some() { Ok(text) } else { Err(text) }
    });
    let text = answer.await.unwrap();
    let expected = "[+]caches ok\n[+]ping ok\n[+]started ok\n\
                    warn: cluster east is not up to date: reason withheld\nreadyz check passed\n";
    assert_eq!(text, expected);
    assert_eq!(get(probes, "/readyz", "").await, (200, "ok".to_owned()));
    east.remove().await;
    let (_, text) = get(probes, "/readyz?verbose", "").await;
    assert!(!text.contains("east"), "{text}");
}

/// A runnable that never ends.
struct Stuck;

impl Reconciler for Stuck {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, _: &ObjectKey<Widget>, _: &Context) -> Result<Action, ReconcileError> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_reconcile_that_is_stuck_fails_liveness() {
    let env = environment().await;
    let options =
        ManagerOptions::new("test").health_probe_bind_address(anywhere()).stuck_after(Duration::ZERO);
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
async fn probes_have_configurable_paths_and_checks() {
    let env = environment().await;
    let options = ManagerOptions::new("test").health_probe_bind_address(anywhere());
    let options = options.liveness_endpoint("/live").readiness_endpoint("/ready");
    let manager = Manager::new(env.client(), options);
    manager.add_healthz_check("disk", || async { Ok(()) });
    let _running = Running::start(manager.clone()).await;
    let probes = manager.health_probe_address().unwrap();
    let ask = async |path: &str| get(probes, path, "").await;
    assert_eq!(ask("/live?verbose").await, (200, "[+]disk ok\n[+]ping ok\nlive check passed\n".to_owned()));
    assert_eq!(ask("/live/disk").await, (200, "ok".to_owned()));
    let expected = "[+]caches ok\n[+]ping ok\n[+]started ok\nready check passed\n";
    assert_eq!(ask("/ready?verbose").await, (200, expected.to_owned()));
    for path in ["/healthz", "/readyz", "/ready/disk"] {
        assert_eq!(ask(path).await.0, 404, "{path}");
    }
    manager.add_healthz_check("disk", || async { Err("it is full".into()) });
    let expected = "[-]disk failed: reason withheld\n[+]ping ok\nlive check failed\n";
    assert_eq!(ask("/live").await, (500, expected.to_owned()));
    assert_eq!(ask("/live/disk").await.0, 500);
    assert_eq!(ask("/ready").await.0, 200, "who is to be restarted may be ready");
}

/// Returns a candidate with short timeouts, which serves health checks.
fn candidate(client: kube::Client) -> Manager {
    let timing = [1500, 1000, 200].map(Duration::from_millis);
    let timing = Timing::try_new(timing[0], timing[1], timing[2]).unwrap();
    let election = LeaderElectionOptions::new("the-lease").identity("one").timing(timing);
    Manager::new(
        client,
        ManagerOptions::new("test").leader_election(election).health_probe_bind_address(anywhere()),
    )
}

/// Returns a client that does not reach leases once `cut` is set.
fn cut_off_by(cut: &Arc<AtomicBool>, env: &Environment) -> kube::Client {
    let cut = Arc::clone(cut);
    faulty(env.client(), move |seen| match cut.load(SeqCst) && seen.is_about("leases") {
        true => Fault::Hang,
        false => Fault::Pass,
    })
}

/// If the task that runs the manager hangs, its servers and its candidate still work.
#[tokio::test]
async fn liveness_fails_while_an_expired_lease_is_unnoticed() {
    let (env, cut_off) = (environment().await, Arc::new(AtomicBool::new(false)));
    let manager = candidate(cut_off_by(&cut_off, &env));
    let mut run = Box::pin(manager.clone().run(std::future::pending()));
    let mut leads = manager.leads();
    tokio::select! {
        ended = &mut run => panic!("{ended:?}"),
        led = leads.wait_for(|leads| *leads) => drop(led.unwrap()),
    }
    // From here on the manager is not polled.
    let address = manager.health_probe_address().unwrap();
    assert_eq!(get(address, "/healthz/leader-election", "").await.0, 200);
    cut_off.store(true, SeqCst);
    let answer = eventually(Duration::from_secs(20), async || match get(address, "/healthz", "").await {
        (500, text) if text.contains("[-]leader-election failed") => Ok(()),
        answer => Err(format!("{answer:?}")),
    });
    answer.await.unwrap();
    assert!(*manager.leads().borrow());

    tokio::select! {
        ended = &mut run => panic!("{ended:?}"),
        lost = leads.wait_for(|leads| !*leads) => drop(lost.unwrap()),
    }
    assert_eq!(get(address, "/healthz", "").await, (200, "ok".to_owned()));
}

/// Log of this process.
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

/// Computes without an `.await` until it is stopped.
struct Computes {
    began: Arc<AtomicUsize>,
    stop: Arc<AtomicUsize>,
}

impl Reconciler for Computes {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, _: &ObjectKey<Widget>, _: &Context) -> Result<Action, ReconcileError> {
        self.began.fetch_add(1, SeqCst);
        while self.stop.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        Ok(Action::done())
    }
}

#[test]
fn a_reconcile_that_never_waits_fails_liveness_after_the_lease_is_lost() {
    let this = "probes::a_reconcile_that_never_waits_fails_liveness_after_the_lease_is_lost";
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
    let (env, cut_off) = (environment().await, Arc::new(AtomicBool::new(false)));
    let manager = candidate(cut_off_by(&cut_off, &env));
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

    cut_off.store(true, SeqCst);
    let named = "after the lease was lost, because they do not reach an .await; the liveness check fails until they end: \
                 widget: Widget default/a";
    until("the message", &|| log.contains(named)).await;
    assert!(!*manager.leads().borrow() && !is_live().await);

    stop.store(1, SeqCst);
    let ended = "the reconciles and runnables that still ran after the lease was lost have ended";
    until("the end", &|| log.contains(ended)).await;
    assert!(is_live().await);
    running.stop().await.unwrap();
}
