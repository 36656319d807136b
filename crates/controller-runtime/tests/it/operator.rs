//! Managers that a test stops, crashes and restarts.

use std::time::Duration;

use controller_runtime::{
    Action, Builder, Client, Context, Manager, ManagerOptions, ObjectKey, ReconcileError, Reconciler,
    leader_election::LeaderElectionOptions, set_controller_reference,
};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::Api;
use kube_envtest::{CrashPoint, Environment, Operator, OperatorError, eventually};
use tokio::time::Instant;

use crate::support::{Widget, WidgetStatus, config_map, environment, key, widget};

/// A reconciler that creates a ConfigMap for each Widget, and then updates the status.
struct Pages(Client);

impl Reconciler for Pages {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, key: &ObjectKey<Widget>, _: &Context) -> Result<Action, ReconcileError> {
        let Some(widget) = self.0.get(key).await? else { return Ok(Action::done()) };
        let mut page = config_map(key.name());
        set_controller_reference(&widget, &mut page)?;
        if self.0.get(&page_key()).await?.is_none() {
            self.0.create(&page).await?;
        }
        self.0.apply_status(key, &WidgetStatus { seen: widget.spec.size }).await?;
        Ok(Action::done())
    }
}

fn page_key() -> ObjectKey<ConfigMap> {
    ObjectKey::new("default", "a")
}

/// The operator of [`Pages`].
fn pages(env: &Environment, options: impl Fn() -> ManagerOptions + Send + 'static) -> Operator {
    Operator::new(env.client(), move |instance| {
        let manager = Manager::new(instance.client(), options());
        async move {
            let pages = Pages(manager.client());
            Builder::managed_by(&manager).for_kind::<Widget>().owns::<ConfigMap>().complete(pages)?;
            Ok(instance.run(manager.ready(), manager.run(instance.stopped())).await?)
        }
    })
}

/// Waits until the operator has finished its work.
async fn converged(client: &Client) {
    let looked = eventually(Duration::from_secs(60), async || {
        let widget = client.get(&key("a")).await.map_err(|error| error.to_string())?;
        let page = client.get(&page_key()).await.map_err(|error| error.to_string())?;
        let seen = widget.and_then(|widget| widget.status).map(|status| status.seen);
        if page.is_some() && seen == Some(1) { Ok(()) } else { Err(format!("{page:?}, seen {seen:?}")) }
    });
    looked.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_crashes_at_any_of_its_writes_converges_after_a_restart() {
    for at in [CrashPoint::before_write, CrashPoint::after_write] {
        let mut crashes = 0;
        for write in 1.. {
            let env = environment().await;
            let client = Client::new(env.client(), "test");
            client.create(&widget("a", 1)).await.unwrap();
            let mut operator = pages(&env, || ManagerOptions::new("test").seed(1));
            match operator.crash_at(at(write)).await {
                Ok(()) => crashes += 1,
                Err(OperatorError::NotReached { .. }) => break,
                Err(error) => panic!("{error}"),
            }
            operator.start().await.unwrap();
            converged(&client).await;
            operator.stop().await.unwrap();
        }
        // Its own writes cause more runs.
        assert!(crashes >= 2, "a create and a patch, and {crashes} crashes");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crashed_leader_keeps_its_lease_and_a_stopped_one_releases_it() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let election = || LeaderElectionOptions::new("lease").namespace("default").identity("the-pod");
    let mut operator = pages(&env, move || ManagerOptions::new("test").seed(1).leader_election(election()));
    client.create(&widget("a", 1)).await.unwrap();
    operator.crash_at(CrashPoint::after("create configmaps")).await.unwrap();
    let holder = async || {
        let lease = Api::<Lease>::namespaced(env.client(), "default").get("lease").await.unwrap();
        lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default()
    };
    assert_eq!(holder().await, "the-pod", "a crash returns nothing");
    let began = Instant::now();
    operator.start().await.unwrap();
    converged(&client).await;
    let elapsed = began.elapsed();
    assert!(elapsed < Duration::from_secs(20), "{elapsed:?}");
    operator.stop().await.unwrap();
    assert_eq!(holder().await, "", "a stop returns the lease");
}
