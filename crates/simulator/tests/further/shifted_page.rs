//! A balancer lists its listeners in pages. The operator looks for its listener page by page, and skips as many as it
//! has seen. If one of them is deleted between two pages, the others move up by one: the first listener of the next
//! page is seen on neither page, counts as missing, and is created a second time. The corrected operator goes on
//! after the last name that it has seen.
//!
//! Expected: same remotes. Minimum plan: a listener of the first page is deleted before the second page is read.

use crate::common::*;

const FINALIZER: &str = "further.dev/listener";

/// Listeners of a page.
const PAGE: usize = 2;

#[derive(Clone, Serialize)]
struct Listener {
    name: String,
    port: i32,
}

/// Listeners in the order of their names. The balancer does not care whether a name is unique.
#[derive(Default, Serialize)]
struct Balancer {
    listeners: Vec<Listener>,
}

struct FakeBalancer(Remote<Balancer>);

impl FakeBalancer {
    /// Returns a page of the listeners whose names come after `after`, without the first `skip` of them.
    async fn page(&self, reader: &str, after: String, skip: usize) -> Result<Vec<Listener>, Lost> {
        let list = move |balancer: &mut Balancer| {
            let rest = balancer.listeners.iter().filter(|listener| listener.name > after);
            rest.skip(skip).take(PAGE).cloned().collect::<Vec<_>>()
        };
        self.0.effect("list", reader, list).await
    }

    async fn create(&self, name: &str, port: i32) -> Result<(), Lost> {
        let listener = Listener { name: name.to_owned(), port };
        let create = move |balancer: &mut Balancer| {
            balancer.listeners.push(listener);
            balancer.listeners.sort_by(|one, other| one.name.cmp(&other.name));
        };
        self.0.effect("create listener", name, create).await
    }

    async fn change(&self, name: &str, port: i32) -> Result<(), Lost> {
        let changed = name.to_owned();
        let change = move |balancer: &mut Balancer| {
            for listener in balancer.listeners.iter_mut().filter(|listener| listener.name == changed) {
                listener.port = port;
            }
        };
        self.0.effect("change listener", name, change).await
    }

    async fn delete(&self, name: &str) -> Result<(), Lost> {
        let deleted = name.to_owned();
        let delete = move |balancer: &mut Balancer| {
            balancer.listeners.retain(|listener| listener.name != deleted);
        };
        self.0.effect("delete listener", name, delete).await
    }
}

struct Listeners {
    clusters: Cached<Cluster>,
    balancer: FakeBalancer,
    variant: Variant,
}

impl Listeners {
    /// Returns the port of the listener with this name, if there is one.
    async fn port_of(&self, name: &str) -> Result<Option<i32>, Lost> {
        let (mut last, mut seen) = (String::new(), 0);
        loop {
            let page = match self.variant {
                Variant::Buggy => self.balancer.page(name, String::new(), seen).await?,
                Variant::Twin => self.balancer.page(name, last, 0).await?,
            };
            if let Some(found) = page.iter().find(|listener| listener.name == name) {
                return Ok(Some(found.port));
            }
            let Some(end) = page.last() else { return Ok(None) };
            (last, seen) = (end.name.clone(), seen + page.len());
        }
    }
}

impl Reconciler for Listeners {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        if cluster.is_terminating() {
            if has_finalizer(&*cluster, FINALIZER) {
                self.balancer.delete(key.name()).await?;
                cx.client().remove_finalizer(&*cluster, FINALIZER).await?;
            }
            return Ok(Action::done());
        }
        cx.client().add_finalizer(&*cluster, FINALIZER).await?;
        // The size of a cluster is its port.
        let port = cluster.spec.size;
        match self.port_of(key.name()).await? {
            None => self.balancer.create(key.name(), port).await?,
            Some(known) if known != port => self.balancer.change(key.name(), port).await?,
            Some(_) => {}
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let balancer = FakeBalancer(Remote::of_this_run());
        let listeners = Listeners { clusters: manager.cached(), balancer, variant };
        Builder::managed_by(manager).for_kind::<Cluster>().complete(listeners)?;
        Ok(())
    };
    let named = |name: &str, port: i32| {
        let head = format!("apiVersion: further.dev/v1, kind: Cluster, metadata: {{name: {name}}}");
        format!("{{{head}, spec: {{size: {port}}}}}")
    };
    let three = ["api", "shop", "web"].map(|name| named(name, 80)).join("\n---\n");
    let changed = named("web", 8443);
    Simulation::new("listeners", add)
        .crd::<Cluster>()
        .remote("balancer", Balancer::default)
        .applies("three clusters are created", &three)
        .applies("the last one gets another port", &named("web", 443))
        .step("the first one goes, and the last one changes again", async move |user| {
            user.delete_key(&in_default::<Cluster>("api")).await?;
            user.apply_yaml(&changed).await
        })
}

#[test]
fn a_listener_that_moves_to_the_page_before_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameRemotes, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
