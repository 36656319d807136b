//! No bug: two controllers of one manager own ConfigMaps. An object of one kind may have the name of an object of the other kind.
//! The configuration of a frontend contains the port of its backend. Two replicas.

use controller_runtime::{ReadError, TryMapFn};

use crate::common::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "shop.example.com", version = "v1", kind = "Backend", namespaced)]
#[serde(default)]
struct BackendSpec {
    port: i32,
}

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "shop.example.com", version = "v1", kind = "Frontend", namespaced, status = "FrontendStatus")]
#[serde(default)]
struct FrontendSpec {
    title: String,
    backend: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(default)]
struct FrontendStatus {
    phase: String,
}

struct Backends {
    backends: Cached<Backend>,
}

impl Reconciler for Backends {
    type Request = ObjectKey<Backend>;

    async fn reconcile(&self, key: &ObjectKey<Backend>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(backend) = self.backends.get(key)? else { return Ok(Action::done()) };
        let name = format!("{}-backend", key.name());
        let mut config = map("default", &name, "port", &backend.spec.port.to_string());
        set_controller_reference(&*backend, &mut config)?;
        cx.client().apply(&config).await?;
        Ok(Action::done())
    }
}

struct Frontends {
    frontends: Cached<Frontend>,
    backends: Cached<Backend>,
    maps: Cached<ConfigMap>,
}

impl Reconciler for Frontends {
    type Request = ObjectKey<Frontend>;

    async fn reconcile(&self, key: &ObjectKey<Frontend>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(frontend) = self.frontends.get(key)? else { return Ok(Action::done()) };
        let backend = self.backends.get(&in_default(&frontend.spec.backend))?;
        let address = backend.as_ref().map(|backend| format!("{}:{}", backend.name_any(), backend.spec.port));
        let mut config = map("default", &format!("{}-frontend", key.name()), "title", &frontend.spec.title);
        let backend_entry = ("backend".to_owned(), address.unwrap_or_default());
        config.data.get_or_insert_default().extend([backend_entry]);
        match self.maps.get(&in_default(&config.name_any()))? {
            None => {
                set_controller_reference(&*frontend, &mut config)?;
                cx.client().create(&config).await?;
            }
            Some(known) if known.data != config.data => {
                let mut changed = ConfigMap::clone(&known);
                changed.data = config.data;
                cx.client().update(&changed).await?;
            }
            Some(_) => {}
        }
        let phase = if backend.is_some() { "Ready" } else { "BackendNotFound" };
        let status = FrontendStatus { phase: phase.to_owned() };
        if frontend.status.as_ref() != Some(&status) {
            cx.client().apply_status(key, &status).await?;
        }
        Ok(Action::done())
    }
}

fn backend(port: i32) -> String {
    let head = "apiVersion: shop.example.com/v1, kind: Backend, metadata: {name: shop}";
    format!("{{{head}, spec: {{port: {port}}}}}")
}

fn frontend(title: &str) -> String {
    let head = "apiVersion: shop.example.com/v1, kind: Frontend, metadata: {name: shop}";
    format!("{{{head}, spec: {{title: {title}, backend: shop}}}}")
}

pub(crate) fn simulation() -> Simulation {
    let add = |manager: &Manager| -> Result<(), AddError> {
        let frontends = manager.cached::<Frontend>();
        let all = frontends.clone();
        let users = move |backend: &Backend| -> Result<Vec<ObjectKey<Frontend>>, ReadError> {
            let mut users = all.list()?;
            users.retain(|frontend| frontend.spec.backend == backend.name_any());
            Ok(users.iter().filter_map(|frontend| ObjectKey::of(&**frontend)).collect())
        };
        Builder::managed_by(manager)
            .for_kind::<Backend>()
            .owns::<ConfigMap>()
            .complete(Backends { backends: manager.cached() })?;
        Builder::managed_by(manager)
            .for_kind::<Frontend>()
            .owns::<ConfigMap>()
            .watches(Kind::new(TryMapFn(users)))
            .complete(Frontends { frontends, backends: manager.cached(), maps: manager.cached() })?;
        Ok(())
    };
    Simulation::new("shops", add)
        .crd::<Backend>()
        .crd::<Frontend>()
        .replicas(2)
        .applies("a frontend is created without its backend", &frontend("Shop"))
        .applies("its backend is created", &backend(80))
        .step("both change", async |user| {
            user.apply_yaml(&backend(81)).await?;
            user.apply_yaml(&frontend("Store")).await?;
            user.apply_yaml(&backend(82)).await
        })
        .step("both ConfigMaps are deleted", async |user| {
            user.delete_key(&in_default::<ConfigMap>("shop-backend")).await?;
            user.delete_key(&in_default::<ConfigMap>("shop-frontend")).await
        })
        .step("the backend is replaced", async |user| {
            user.delete_key(&in_default::<Backend>("shop")).await?;
            user.apply_yaml(&backend(90)).await
        })
        .step("the backend is deleted", async |user| user.delete_key(&in_default::<Backend>("shop")).await)
        .step("the frontend is deleted", async |user| user.delete_key(&in_default::<Frontend>("shop")).await)
}

#[test]
fn the_operator_has_no_finding() {
    find_nothing(simulation());
}
