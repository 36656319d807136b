//! Two operators update one site each, and a site is down meanwhile. Each operator looks whether the other
//! site serves, and then writes that its own one is down. It asks the API server, not a cache, and no other
//! operator writes its site: but two operators that look before either has written take both sites down. In
//! the corrected version both write one lock, of which only one can be the next version.
//!
//! Expected: the check. Minimum plan: the update of the second site is asked for, and begins, before the
//! first site is reported as down.

use controller_runtime::client::Patch;
use k8s_openapi::jiff::Timestamp;
use kube_simulator::Now;

use crate::common::*;

/// Time for which a site is down.
const DOWNTIME: Duration = Duration::from_secs(20);

/// Interval at which an operator looks whether it is its turn.
const INTERVAL: Duration = Duration::from_secs(5);

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Site", namespaced, status = "SiteStatus")]
#[serde(default)]
struct SiteSpec {
    kernel: String,
}

/// The kernel of the site, and the end of the time for which the site is down.
#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[serde(default)]
struct SiteStatus {
    kernel: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    down_until: Option<String>,
}

impl Site {
    fn is_down(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.down_until.is_some())
    }
}

struct Updates {
    own: &'static str,
    other: &'static str,
    variant: Variant,
}

fn lock_key() -> ObjectKey<ConfigMap> {
    in_default("maintenance")
}

fn holder_of(lock: &ConfigMap) -> Option<&str> {
    lock.data.as_ref()?.get("holder").map(String::as_str)
}

async fn current_lock(cx: &Context) -> Result<ConfigMap, ReconcileError> {
    let lock = cx.client().get(&lock_key()).await?;
    lock.ok_or_else(|| ReconcileError::new("there is no lock"))
}

/// Gives the lock to a site or to none, unless it has changed since it was read.
async fn change(lock: &ConfigMap, holder: Option<&str>, cx: &Context) -> Result<(), ReconcileError> {
    let change = Patch::merge(&json!({"data": {"holder": holder}}));
    cx.client().patch(&lock_key(), change.with_version_of(lock)).await?;
    Ok(())
}

async fn report(
    key: &ObjectKey<Site>,
    kernel: &str,
    end: Option<Timestamp>,
    cx: &Context,
) -> Result<(), ReconcileError> {
    let status = SiteStatus { kernel: kernel.to_owned(), down_until: end.map(|end| end.to_string()) };
    cx.client().apply_status(key, &status).await?;
    Ok(())
}

impl Updates {
    /// Whether the site may go down.
    async fn may_begin(&self, cx: &Context) -> Result<bool, ReconcileError> {
        if self.variant == Variant::Buggy {
            let other = cx.client().get(&in_default::<Site>(self.other)).await?;
            return Ok(other.is_none_or(|other| !other.is_down()));
        }
        let lock = current_lock(cx).await?;
        if let Some(holder) = holder_of(&lock) {
            return Ok(holder == self.own);
        }
        change(&lock, Some(self.own), cx).await?;
        Ok(true)
    }

    async fn end(&self, cx: &Context) -> Result<(), ReconcileError> {
        if self.variant == Variant::Twin {
            let lock = current_lock(cx).await?;
            if holder_of(&lock) == Some(self.own) {
                change(&lock, None, cx).await?;
            }
        }
        Ok(())
    }
}

impl Reconciler for Updates {
    type Request = ObjectKey<Site>;

    async fn reconcile(&self, key: &ObjectKey<Site>, cx: &Context) -> Result<Action, ReconcileError> {
        if key.name() != self.own {
            return Ok(Action::done());
        }
        let Some(site) = cx.client().get(key).await? else { return Ok(Action::done()) };
        let wanted = &site.spec.kernel;
        let status = site.status.clone().unwrap_or_default();
        if status.kernel != *wanted || site.is_down() {
            let end = match status.down_until.and_then(|end| end.parse::<Timestamp>().ok()) {
                Some(end) => end,
                None => {
                    if !self.may_begin(cx).await? {
                        return Ok(Action::requeue_after(INTERVAL));
                    }
                    let end = cx.wall_time() + DOWNTIME;
                    report(key, &status.kernel, Some(end), cx).await?;
                    end
                }
            };
            let left = Duration::try_from(end.duration_since(cx.wall_time())).unwrap_or_default();
            if !left.is_zero() {
                return Ok(Action::requeue_after(left));
            }
            report(key, wanted, None, cx).await?;
        }
        // Also if the process before has ended before it came to this.
        self.end(cx).await?;
        Ok(Action::done())
    }
}

/// The operator of a site.
fn operator(
    own: &'static str,
    other: &'static str,
    variant: Variant,
) -> impl Fn(&Manager) -> Result<(), AddError> + 'static {
    move |manager: &Manager| -> Result<(), AddError> {
        let updates = Updates { own, other, variant };
        Builder::managed_by(manager).for_kind::<Site>().complete(updates)?;
        Ok(())
    }
}

/// Whether at most one site is down.
fn one_site_serves(now: &Now<'_>) -> bool {
    now.all::<Site>().iter().filter(|site| site.is_down()).count() <= 1
}

fn simulation(variant: Variant) -> Simulation {
    let site = |name: &str, kernel: &str| {
        let head = format!("apiVersion: further.dev/v1, kind: Site, metadata: {{name: {name}}}");
        format!("{{{head}, spec: {{kernel: '{kernel}'}}}}")
    };
    let lock = "{apiVersion: v1, kind: ConfigMap, metadata: {name: maintenance}, data: {of: sites}}";
    let start = [lock.to_owned(), site("east", ""), site("west", "")].join("\n---\n");
    Simulation::new("east-updates", operator("east", "west", variant))
        .also("west-updates", operator("west", "east", variant))
        .crd::<Site>()
        .applies("there are two sites", &start)
        .applies("one is to be updated", &site("east", "6.1"))
        .applies("the other one is to be updated", &site("west", "6.1"))
        .always("one site serves", one_site_serves)
}

#[test]
fn two_sites_that_are_down_at_once_are_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::Check, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
