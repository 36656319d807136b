//! The status says for which generation an object was registered, and is written by name. If the user replaces the object in the meantime,
//! the status is written to its successor, whose generation is the same number: it counts as registered, and never is.
//!
//! Expected: same remotes. Minimum plan: the user replaces the object before the status is written.

use std::collections::BTreeMap;

use controller_runtime::client::Patch;

use crate::common::*;

#[derive(Default, Serialize)]
struct Registry {
    /// Sizes by name.
    sizes: BTreeMap<String, i32>,
}

struct Registrations {
    clusters: Cached<Cluster>,
    registry: Remote<Registry>,
    variant: Variant,
}

impl Reconciler for Registrations {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let generation = format!("generation {}", cluster.metadata.generation.unwrap_or_default());
        if cluster.status().message.as_ref() == Some(&generation) {
            return Ok(Action::done());
        }
        let (name, size) = (key.name().to_owned(), cluster.spec.size);
        let register = move |registry: &mut Registry| {
            registry.sizes.insert(name, size);
        };
        self.registry.effect("register", key.name(), register).await?;
        let status = ClusterStatus { message: Some(generation), ..ClusterStatus::default() };
        match self.variant {
            Variant::Buggy => drop(cx.client().apply_status(key, &status).await?),
            Variant::Twin => {
                // Refused if this is not the object that was registered.
                let patch = Patch::merge(&json!({"status": status})).with_version_of(&*cluster);
                cx.client().subresource(key, "status").patch::<Cluster>(patch).await?;
            }
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let registrations =
            Registrations { clusters: manager.cached(), registry: Remote::of_this_run(), variant };
        Builder::managed_by(manager).for_kind::<Cluster>().complete(registrations)?;
        Ok(())
    };
    Simulation::new("registrations", add)
        .crd::<Cluster>()
        .remote("registry", Registry::default)
        .cluster("a cluster is created", "{size: 1}")
        .step("a larger one replaces it", async |user| {
            user.delete_key(&in_default::<Cluster>("db")).await?;
            user.apply_yaml(&cluster("{size: 2}")).await
        })
}

#[test]
fn the_bug_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameRemotes, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
