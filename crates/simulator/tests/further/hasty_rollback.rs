//! Apps share a database server, which is started with the first one. If an installation fails, the operator
//! takes back all that it consists of, so that an app that cannot be installed costs nothing: also the
//! server, with the data of the other apps. The corrected operator takes back only what belongs to this app.
//!
//! Expected: same remotes. Minimum plan: a request of the second installation is refused once, or its answer
//! is lost.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "App", namespaced, status = "AppStatus")]
#[serde(default)]
struct AppSpec {
    server: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[serde(default)]
struct AppStatus {
    installed: bool,
}

/// The schemas of each server that runs.
#[derive(Default, Serialize)]
struct Host {
    servers: BTreeMap<String, BTreeSet<String>>,
}

struct FakeHost(Remote<Host>);

impl FakeHost {
    async fn start(&self, server: &str) -> Result<(), Lost> {
        let name = server.to_owned();
        let start = move |host: &mut Host| {
            host.servers.entry(name).or_default();
        };
        self.0.effect("start server", server, start).await
    }

    /// Stops a server, and deletes its data.
    async fn stop(&self, server: &str) -> Result<(), Lost> {
        let name = server.to_owned();
        let stop = move |host: &mut Host| {
            host.servers.remove(&name);
        };
        self.0.effect("stop server", server, stop).await
    }

    /// Creates a schema, and returns whether the server runs.
    async fn create_schema(&self, server: &str, schema: &str) -> Result<bool, Lost> {
        let (server, name) = (server.to_owned(), schema.to_owned());
        let create = move |host: &mut Host| {
            let Some(schemas) = host.servers.get_mut(&server) else { return false };
            schemas.insert(name);
            true
        };
        self.0.effect("create schema", schema, create).await
    }

    async fn drop_schema(&self, server: &str, schema: &str) -> Result<(), Lost> {
        let (server, name) = (server.to_owned(), schema.to_owned());
        let delete = move |host: &mut Host| {
            if let Some(schemas) = host.servers.get_mut(&server) {
                schemas.remove(&name);
            }
        };
        self.0.effect("drop schema", schema, delete).await
    }
}

struct Apps {
    host: FakeHost,
    variant: Variant,
}

impl Apps {
    async fn install(&self, app: &App, cx: &Context) -> Result<(), ReconcileError> {
        let (name, server) = (app.name_any(), &app.spec.server);
        self.host.start(server).await?;
        if !self.host.create_schema(server, &name).await? {
            return Err(ReconcileError::new("the server does not run"));
        }
        let mut connection = map("default", &format!("{name}-connection"), "server", server);
        set_controller_reference(app, &mut connection)?;
        cx.client().apply(&connection).await?;
        Ok(())
    }

    async fn take_back(&self, app: &App) -> Result<(), Lost> {
        match self.variant {
            Variant::Buggy => self.host.stop(&app.spec.server).await,
            Variant::Twin => self.host.drop_schema(&app.spec.server, &app.name_any()).await,
        }
    }
}

impl Reconciler for Apps {
    type Request = ObjectKey<App>;

    async fn reconcile(&self, key: &ObjectKey<App>, cx: &Context) -> Result<Action, ReconcileError> {
        // Not from the cache: nothing is taken back from an app that is in use.
        let Some(app) = cx.client().get(key).await? else { return Ok(Action::done()) };
        if app.status.as_ref().is_some_and(|status| status.installed) {
            return Ok(Action::done());
        }
        if let Err(error) = self.install(&app, cx).await {
            self.take_back(&app).await?;
            return Err(error);
        }
        cx.client().apply_status(key, &AppStatus { installed: true }).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let apps = Apps { host: FakeHost(Remote::of_this_run()), variant };
        Builder::managed_by(manager).for_kind::<App>().complete(apps)?;
        Ok(())
    };
    let app = |name: &str| {
        format!(
            "{{apiVersion: further.dev/v1, kind: App, metadata: {{name: {name}}}, spec: {{server: main}}}}"
        )
    };
    Simulation::new("apps", add)
        .crd::<App>()
        .remote("host", Host::default)
        .applies("an app is asked for", &app("shop"))
        .applies("another one is asked for", &app("blog"))
}

#[test]
fn a_rollback_that_takes_the_data_of_another_app_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameRemotes, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
