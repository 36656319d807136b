//! A child is rendered from the cached Secret, and stamped with the version of the Secret that the API server returns. A stamp that
//! equals the version counts as done.
//!
//! Expected: same objects. Minimum plan: the event of the Secret is held back until the Cluster is reconciled.

use crate::common::*;

const STAMP: &str = "further.dev/secret-version";

struct Renderer {
    clusters: Cached<Cluster>,
    secrets: Cached<Secret>,
    maps: Cached<ConfigMap>,
    variant: Variant,
}

impl Reconciler for Renderer {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let Some(secret) = self.secrets.get(&in_default("login"))? else { return Ok(Action::done()) };
        let latest = match self.variant {
            Variant::Buggy => cx.client().get(&in_default::<Secret>("login")).await?,
            Variant::Twin => Some((*secret).clone()),
        };
        let version = latest.and_then(|secret| secret.metadata.resource_version).unwrap_or_default();
        let stamp = format!("{version}-{}", cluster.spec.version);
        let known = self.maps.get(&in_default("db-config"))?;
        if known.is_some_and(|known| known.annotations().get(STAMP) == Some(&stamp)) {
            return Ok(Action::done());
        }
        let login = secret.data.as_ref().and_then(|data| data.get("user")).cloned().unwrap_or_default();
        let login = String::from_utf8(login.0).map_err(ReconcileError::new)?;
        let mut config = map("default", "db-config", "user", &login);
        config.metadata.annotations = Some([(STAMP.to_owned(), stamp)].into());
        set_controller_reference(&*cluster, &mut config)?;
        cx.client().apply(&config).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let renderer = Renderer {
            clusters: manager.cached(),
            secrets: manager.cached(),
            maps: manager.cached(),
            variant,
        };
        let to_cluster =
            |secret: &Secret| (secret.name_any() == "login").then(|| in_default::<Cluster>("db"));
        Builder::managed_by(manager)
            .for_kind::<Cluster>()
            .owns::<ConfigMap>()
            .watches(Kind::new(MapFn(to_cluster)))
            .complete(renderer)?;
        Ok(())
    };
    let login = |user: &str| {
        format!("{{apiVersion: v1, kind: Secret, metadata: {{name: login}}, stringData: {{user: {user}}}}}")
    };
    Simulation::new("renderer", add)
        .crd::<Cluster>()
        .applies("there is a login", &login("ann"))
        .cluster("a cluster is created", "{version: '1'}")
        .applies("login and version change", &format!("{}\n---\n{}", login("bob"), cluster("{version: '2'}")))
}

#[test]
fn an_old_content_with_a_new_stamp_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
