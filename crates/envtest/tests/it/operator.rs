//! Start, stop and crash of an operator, in paused time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};
use kube_envtest::{CrashPoint, Environment, Instance, Operator, OperatorError, eventually};
use tokio::time::{Instant, sleep};

/// Names of the ConfigMaps that the operator creates, in this order.
const NAMES: [&str; 3] = ["a", "b", "c"];

fn maps(client: kube::Client) -> Api<ConfigMap> {
    Api::namespaced(client, "default")
}

/// Creates the ConfigMaps that do not exist yet.
async fn converge(client: kube::Client) -> Result<(), kube::Error> {
    let maps = maps(client);
    for name in NAMES {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        if maps.get_opt(name).await?.is_none() {
            maps.create(&PostParams::default(), &map).await?;
        }
    }
    Ok(())
}

/// An operator that creates its ConfigMaps at startup and then waits until it is stopped.
fn operator(env: &Environment) -> Operator {
    Operator::new(env.client(), |instance: Instance| async move {
        converge(instance.client()).await?;
        instance.set_ready();
        instance.stopped().await;
        Ok(())
    })
}

async fn names(env: &Environment) -> Vec<String> {
    maps(env.client()).list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect()
}

#[tokio::test(start_paused = true)]
async fn an_operator_starts_stops_and_starts_again() {
    let env = Environment::builder().start().await.unwrap();
    let mut operator = operator(&env);
    for _ in 0..2 {
        operator.start().await.unwrap();
        assert_eq!(names(&env).await, NAMES);
        assert!(matches!(operator.start().await, Err(OperatorError::AlreadyRunning)));
        operator.stop().await.unwrap();
        assert!(matches!(operator.stop().await, Err(OperatorError::NotRunning)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_a_write_prevents_it_and_one_after_it_keeps_it() {
    for (number, kept_before) in [(1, 0), (2, 1), (3, 2)] {
        for (point, kept) in [
            (CrashPoint::before_write(number), kept_before),
            (CrashPoint::after_write(number), kept_before + 1),
        ] {
            let env = Environment::builder().start().await.unwrap();
            let mut operator = operator(&env);
            operator.crash_at(point.clone()).await.unwrap();
            assert_eq!(names(&env).await, NAMES[..kept], "{point}");
            operator.start().await.unwrap();
            assert_eq!(names(&env).await, NAMES, "{point}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_point_names_a_request() {
    let env = Environment::builder().start().await.unwrap();
    let mut operator = operator(&env);
    operator.crash_at(CrashPoint::after("create configmaps")).await.unwrap();
    assert_eq!(names(&env).await, ["a"]);
    operator.crash_at(CrashPoint::before("get configmaps")).await.unwrap();
    assert_eq!(names(&env).await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_crash_point_that_is_not_reached_is_an_error_with_the_requests() {
    let env = Environment::builder().start().await.unwrap();
    let mut operator = operator(&env);
    let error = operator.crash_at(CrashPoint::before("create secrets")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the operator did not reach before create secrets within 180s; it made these requests: \
         create configmaps, get configmaps"
    );
    operator.stop().await.unwrap();
}

/// Counts live tasks: each holds one guard.
struct Task(Arc<AtomicU32>);

impl Task {
    fn new(count: &Arc<AtomicU32>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_and_a_drop_end_the_operator_without_a_stop() {
    let env = Environment::builder().start().await.unwrap();
    let (tasks, stops) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (counted, stopped) = (Arc::clone(&tasks), Arc::clone(&stops));
    let mut operator = Operator::new(env.client(), move |instance| {
        let (task, stops) = (Task::new(&counted), Arc::clone(&stopped));
        async move {
            instance.set_ready();
            instance.stopped().await;
            stops.fetch_add(1, Ordering::Relaxed);
            drop(task);
            Ok(())
        }
    });
    operator.start().await.unwrap();
    assert_eq!(tasks.load(Ordering::Relaxed), 1);
    operator.crash().await;
    assert_eq!(tasks.load(Ordering::Relaxed), 0);
    operator.start().await.unwrap();
    drop(operator);
    let ended = eventually(Duration::from_secs(1), async || match tasks.load(Ordering::Relaxed) {
        0 => Ok(()),
        left => Err(format!("{left} tasks")),
    });
    ended.await.unwrap();
    assert_eq!(stops.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_survives_a_crash_sends_nothing() {
    let env = Environment::builder().start().await.unwrap();
    let (send, mut clients) = tokio::sync::mpsc::unbounded_channel();
    let mut operator = Operator::new(env.client(), move |instance| {
        send.send(instance.client()).unwrap();
        async move {
            instance.set_ready();
            std::future::pending().await
        }
    });
    operator.start().await.unwrap();
    let leaked = clients.recv().await.unwrap();
    assert!(maps(leaked.clone()).get_opt("a").await.unwrap().is_none());
    operator.crash().await;
    let survivor = tokio::time::timeout(Duration::from_secs(3600), converge(leaked));
    assert!(survivor.await.is_err(), "neither sent nor answered");
    assert_eq!(names(&env).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn errors_of_an_operator_reach_the_test() {
    let env = Environment::builder().start().await.unwrap();
    let mut failing = Operator::new(env.client(), |_| async { Err("no luck".into()) });
    let Err(OperatorError::Failed(cause)) = failing.start().await else { panic!("it fails") };
    assert_eq!(cause.to_string(), "no luck");

    let mut hasty = Operator::new(env.client(), |_| async { Ok(()) });
    assert!(matches!(hasty.start().await, Err(OperatorError::EndedBeforeReady)));

    let mut late = Operator::new(env.client(), |instance| async move {
        instance.run(async { Ok::<(), OperatorError>(()) }, sleep(Duration::from_secs(5))).await;
        Err("too late".into())
    });
    late.start().await.unwrap();
    let Err(OperatorError::Failed(cause)) = late.ended().await else { panic!("it fails") };
    assert_eq!(cause.to_string(), "too late");

    let began = Instant::now();
    let mut silent =
        Operator::new(env.client(), |_| std::future::pending()).start_within(Duration::from_secs(7));
    let error = silent.start().await.unwrap_err();
    assert!(error.to_string().contains("`Instance::run`"), "{error}");
    assert_eq!(began.elapsed(), Duration::from_secs(7));
    assert!(matches!(silent.stop().await, Err(OperatorError::NotRunning)));
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "a bug")]
async fn a_panic_of_an_operator_fails_the_test() {
    let env = Environment::builder().start().await.unwrap();
    let _ = Operator::new(env.client(), |_| async { panic!("a bug") }).start().await;
}
