//! Effects of signals on a process that runs a manager. Each test starts itself again as this process.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use controller_runtime::{
    BoxError, Manager, ManagerOptions,
    manager::{RunContext, Runnable, Shutdown},
};
use kube_envtest::Environment;
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinSet;

use crate::support::{Widget, environment};

/// Environment variable with the behaviour of the process.
const ROLE: &str = "CONTROLLER_RUNTIME_TEST_ROLE";

/// A process that runs a manager. It is killed when the test fails.
struct Operator {
    process: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Operator {
    /// Starts the test of this name as the process, and waits until it reports that its role is ready.
    fn start(test: &str, role: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("signals::{test}"), "--nocapture"])
            .env(ROLE, role)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut operator = Self { process, lines };
        operator.wait_for("waits for signals");
        operator
    }

    fn wait_for(&mut self, line: &str) {
        let found = self.lines.by_ref().map_while(Result::ok).any(|said| said.contains(line));
        assert!(found, "the process ended without saying {line:?}");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Returns its exit code; `None` if a signal killed it.
    fn exit_code(mut self) -> Option<i32> {
        self.process.wait().unwrap().code()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _gone = self.process.kill();
    }
}

/// Ignores the request to stop.
struct Deaf;

impl Runnable for Deaf {
    async fn start(&self, cx: RunContext) -> Result<(), BoxError> {
        cx.shutdown().await;
        println!("drains");
        std::future::pending().await
    }
}

/// Blocks its thread after the request to stop.
struct Computes;

impl Runnable for Computes {
    async fn start(&self, cx: RunContext) -> Result<(), BoxError> {
        cx.shutdown().await;
        println!("drains");
        let began = tokio::time::Instant::now();
        while began.elapsed() < Duration::from_secs(60) {
            std::thread::yield_now();
        }
        std::process::exit(86)
    }
}

/// If this is the process of a test, plays its role and exits.
fn be_the_operator() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let mut runtime = match &*role {
        "computes" => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = runtime.enable_all().build().unwrap();
    let code = runtime.block_on(async {
        // If the manager ends too late, this code makes the test fail.
        let late = tokio::time::sleep(Duration::from_secs(60));
        tokio::select! {
            code = operator(&role) => code,
            () = late => 86,
        }
    });
    std::process::exit(code);
}

async fn operator(role: &str) -> i32 {
    let env = match role {
        "without the kind" => Environment::builder().start().await.unwrap(),
        _ => environment().await,
    };
    let options = ManagerOptions::new("test").graceful_shutdown_timeout(Shutdown::Unbounded);
    let manager = Manager::new(env.client(), options);
    let _widgets = manager.cached::<Widget>();
    if role == "deaf" {
        manager.add(Deaf).unwrap();
    }
    if role == "computes" {
        manager.add(Computes).unwrap();
    }
    let ready = manager.ready();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { manager.run_until_signal().await });
    if role == "without the kind" {
        // The first list has failed, and its retry is waiting.
        tokio::time::sleep(Duration::from_millis(100)).await;
    } else {
        ready.await.unwrap();
    }
    println!("waits for signals");
    let result = tasks.join_next().await.unwrap().unwrap();
    result.map_or(2, |()| 0)
}

#[test]
fn sigterm_ends_the_process_in_order_also_while_its_caches_cannot_sync() {
    be_the_operator();
    let this = "sigterm_ends_the_process_in_order_also_while_its_caches_cannot_sync";
    for role in ["ready", "without the kind"] {
        let operator = Operator::start(this, role);
        operator.signal(Signal::TERM);
        assert_eq!(operator.exit_code(), Some(0), "{role}");
    }
}

#[test]
fn sigint_does_the_same() {
    be_the_operator();
    let operator = Operator::start("sigint_does_the_same", "ready");
    operator.signal(Signal::INT);
    assert_eq!(operator.exit_code(), Some(0));
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    be_the_operator();
    let this = "a_second_signal_ends_the_process_at_once";
    for role in ["deaf", "computes"] {
        let mut operator = Operator::start(this, role);
        operator.signal(Signal::TERM);
        operator.wait_for("drains");
        operator.signal(Signal::INT);
        assert_eq!(operator.exit_code(), Some(1), "{role}");
    }
}
