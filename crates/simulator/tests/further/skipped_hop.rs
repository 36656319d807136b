//! A release of a database reads files in its own format and in that of the release before, and converts them on
//! request. The operator starts the release that the user asks for. If it has not seen the release before that one,
//! the new release cannot read the files, and ruins them.
//!
//! Expected: same remotes. Minimum plan: a release is asked for before the one before is started or its files are
//! converted.

use std::collections::BTreeMap;

use crate::common::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Mongo", namespaced, status = "MongoStatus")]
#[serde(default)]
struct MongoSpec {
    release: i32,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[serde(default)]
struct MongoStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    release: Option<i32>,
}

/// The release that runs, that of the format of its files, and whether a release has met files that it cannot read.
/// Neither of the first two goes back.
#[derive(Serialize)]
struct Server {
    release: i32,
    format: i32,
    is_ruined: bool,
}

#[derive(Default, Serialize)]
struct Servers {
    servers: BTreeMap<String, Server>,
}

struct FakeServers(Remote<Servers>);

impl FakeServers {
    async fn start(&self, name: &str, release: i32) -> Result<(), Lost> {
        let owner = name.to_owned();
        let start = move |servers: &mut Servers| {
            let new = Server { release, format: release, is_ruined: false };
            let server = servers.servers.entry(owner).or_insert(new);
            server.is_ruined |= release > server.format + 1;
            server.release = server.release.max(release);
        };
        self.0.effect("start", name, start).await
    }

    async fn convert(&self, name: &str, release: i32) -> Result<(), Lost> {
        let owner = name.to_owned();
        let convert = move |servers: &mut Servers| {
            servers.servers.entry(owner).and_modify(|server| server.format = server.format.max(release));
        };
        self.0.effect("convert", name, convert).await
    }

    /// The release of the format of the files; `None` if there are none.
    async fn format(&self, name: &str) -> Result<Option<i32>, Lost> {
        let owner = name.to_owned();
        let look = move |servers: &mut Servers| servers.servers.get(&owner).map(|server| server.format);
        self.0.effect("look at", name, look).await
    }
}

struct Mongos {
    mongos: Cached<Mongo>,
    servers: FakeServers,
    variant: Variant,
}

impl Reconciler for Mongos {
    type Request = ObjectKey<Mongo>;

    async fn reconcile(&self, key: &ObjectKey<Mongo>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(mongo) = self.mongos.get(key)? else { return Ok(Action::done()) };
        let (name, wanted) = (key.to_string(), mongo.spec.release);
        let first = match self.variant {
            Variant::Buggy => wanted,
            Variant::Twin => self.servers.format(&name).await?.map_or(wanted, |format| format + 1),
        };
        for release in first..=wanted {
            self.servers.start(&name, release).await?;
            self.servers.convert(&name, release).await?;
        }
        cx.client().apply_status(key, &MongoStatus { release: Some(wanted) }).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let servers = FakeServers(Remote::of_this_run());
        let mongos = Mongos { mongos: manager.cached(), servers, variant };
        Builder::managed_by(manager).for_kind::<Mongo>().complete(mongos)?;
        Ok(())
    };
    let mongo = |namespace: &str, release: i32| {
        let head = "apiVersion: further.dev/v1, kind: Mongo";
        format!("{{{head}, metadata: {{name: db, namespace: {namespace}}}, spec: {{release: {release}}}}}")
    };
    let namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: red}}";
    let both = format!("{namespace}\n---\n{}\n---\n{}", mongo("red", 4), mongo("default", 4));
    Simulation::new("mongos", add)
        .crd::<Mongo>()
        .replicas(2)
        .remote("servers", Servers::default)
        .applies("two databases are created", &both)
        .applies("release 5 is asked for", &mongo("red", 5))
        .applies("release 6 is asked for", &mongo("red", 6))
}

#[test]
fn a_release_that_is_skipped_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameRemotes, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
