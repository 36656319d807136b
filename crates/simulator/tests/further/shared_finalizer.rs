//! Two operators make the parts of a site: one a balancer, the other one a DNS record. Both have the name of their
//! finalizer from the same library. Whichever has cleaned up first removes it, and the site is gone: if the other one
//! was down, or has to try again, it finds no site any more, and its part stays and costs money. In the corrected
//! version each operator has a finalizer of its own.
//!
//! Expected: same remotes. Minimum plan: a crash of one operator while nothing happens, with the restart after the
//! deletion; or the deletion of the balancer is refused once.

use std::collections::BTreeSet;

use crate::common::*;

/// Parts of sites, such as `record of db`.
#[derive(Default, Serialize)]
struct Cloud {
    parts: BTreeSet<String>,
}

struct FakeCloud(Remote<Cloud>);

impl FakeCloud {
    async fn create(&self, part: &str, site: &str) -> Result<(), Lost> {
        let name = format!("{part} of {site}");
        let create = move |cloud: &mut Cloud| {
            cloud.parts.insert(name);
        };
        self.0.effect(&format!("create {part}"), site, create).await
    }

    /// Deletes a part, and returns whether that has ended. A record goes at once, a balancer only after a while.
    async fn delete(&self, part: &'static str, site: &str) -> Result<bool, Lost> {
        let name = format!("{part} of {site}");
        let delete = move |cloud: &mut Cloud| {
            let was_there = cloud.parts.remove(&name);
            part == "record" || !was_there
        };
        self.0.effect(&format!("delete {part}"), site, delete).await
    }
}

/// Makes one part of each site.
struct Sites {
    clusters: Cached<Cluster>,
    cloud: FakeCloud,
    part: &'static str,
    finalizer: String,
}

impl Reconciler for Sites {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        if cluster.is_terminating() {
            if has_finalizer(&*cluster, &self.finalizer) {
                if !self.cloud.delete(self.part, key.name()).await? {
                    return Ok(Action::requeue_after(Duration::from_secs(5)));
                }
                cx.client().remove_finalizer(&*cluster, &self.finalizer).await?;
            }
            return Ok(Action::done());
        }
        cx.client().add_finalizer(&*cluster, &self.finalizer).await?;
        self.cloud.create(self.part, key.name()).await?;
        Ok(Action::done())
    }
}

/// The operator for this part.
fn operator(part: &'static str, variant: Variant) -> impl Fn(&Manager) -> Result<(), AddError> + 'static {
    move |manager: &Manager| -> Result<(), AddError> {
        let finalizer = match variant {
            Variant::Buggy => "further.dev/cleanup".to_owned(),
            Variant::Twin => format!("further.dev/{part}"),
        };
        let cloud = FakeCloud(Remote::of_this_run());
        let sites = Sites { clusters: manager.cached(), cloud, part, finalizer };
        Builder::managed_by(manager).for_kind::<Cluster>().complete(sites)?;
        Ok(())
    }
}

fn simulation(variant: Variant) -> Simulation {
    Simulation::new("balancers", operator("balancer", variant))
        .also("records", operator("record", variant))
        .crd::<Cluster>()
        .remote("cloud", Cloud::default)
        .cluster("a site is asked for", "{}")
        .deletes_cluster("it is deleted")
}

#[test]
fn a_part_that_stays_when_its_site_is_gone_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameRemotes, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
