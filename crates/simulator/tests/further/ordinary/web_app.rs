//! No bug: a ConfigMap, a Deployment and a Service are applied, with owner references. The status comes from the answer to the
//! apply of the Deployment, and each change of the Deployment reconciles its owner.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};

use crate::common::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "apps.example.com", version = "v1", kind = "WebApp", namespaced, status = "WebAppStatus")]
#[serde(default)]
struct WebAppSpec {
    image: String,
    replicas: i32,
    greeting: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
struct WebAppStatus {
    ready_replicas: i32,
    phase: String,
}

struct WebApps {
    apps: Cached<WebApp>,
}

fn config(app: &WebApp) -> Result<ConfigMap, ReconcileError> {
    let mut config = map("default", &format!("{}-config", app.name_any()), "greeting", &app.spec.greeting);
    set_controller_reference(app, &mut config)?;
    Ok(config)
}

fn deployment(app: &WebApp) -> Result<Deployment, ReconcileError> {
    let labels = json!({"app": app.name_any()});
    let mut deployment: Deployment = serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": app.name_any(), "namespace": app.namespace(), "labels": labels},
        "spec": {"replicas": app.spec.replicas, "selector": {"matchLabels": labels}, "template": {
            // A new greeting needs new pods.
            "metadata": {"labels": labels, "annotations": {"apps.example.com/greeting": app.spec.greeting}},
            "spec": {"containers": [{
                "name": "web", "image": app.spec.image, "ports": [{"name": "http", "containerPort": 8080}],
                "envFrom": [{"configMapRef": {"name": format!("{}-config", app.name_any())}}],
            }]},
        }},
    }))?;
    set_controller_reference(app, &mut deployment)?;
    Ok(deployment)
}

fn service(app: &WebApp) -> Result<Service, ReconcileError> {
    let labels = json!({"app": app.name_any()});
    let mut service: Service = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": app.name_any(), "namespace": app.namespace(), "labels": labels},
        "spec": {"selector": labels, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    }))?;
    set_controller_reference(app, &mut service)?;
    Ok(service)
}

impl Reconciler for WebApps {
    type Request = ObjectKey<WebApp>;

    async fn reconcile(&self, key: &ObjectKey<WebApp>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(app) = self.apps.get(key)? else { return Ok(Action::done()) };
        cx.client().apply(&config(&app)?).await?;
        let deployment = cx.client().apply(&deployment(&app)?).await?;
        cx.client().apply(&service(&app)?).await?;

        let reported = deployment.status.unwrap_or_default();
        let ready = reported.ready_replicas.unwrap_or_default();
        let is_current = reported.observed_generation == deployment.metadata.generation;
        let phase = if is_current && ready == app.spec.replicas { "Available" } else { "Progressing" };
        let status = WebAppStatus { ready_replicas: ready, phase: phase.to_owned() };
        if app.status.as_ref() != Some(&status) {
            cx.client().apply_status(key, &status).await?;
        }
        Ok(Action::done())
    }
}

fn app(spec: &str) -> String {
    format!("{{apiVersion: apps.example.com/v1, kind: WebApp, metadata: {{name: shop}}, spec: {spec}}}")
}

pub(crate) fn simulation() -> Simulation {
    let add = |manager: &Manager| -> Result<(), AddError> {
        Builder::managed_by(manager)
            .for_kind::<WebApp>()
            .owns::<ConfigMap>()
            .owns::<Deployment>()
            .owns::<Service>()
            .complete(WebApps { apps: manager.cached() })?;
        Ok(())
    };
    Simulation::new("web-apps", add)
        .crd::<WebApp>()
        .actor("deployments", actors::deployments)
        .applies("an app is created", &app("{image: 'shop:1', replicas: 1, greeting: hello}"))
        .step("it grows and gets a new image", async |user| {
            user.apply_yaml(&app("{image: 'shop:1', replicas: 3, greeting: hello}")).await?;
            user.apply_yaml(&app("{image: 'shop:2', replicas: 3, greeting: hello}")).await
        })
        .applies("its greeting changes", &app("{image: 'shop:2', replicas: 3, greeting: welcome}"))
        .step("its Service is deleted", async |user| user.delete_key(&in_default::<Service>("shop")).await)
        .step("it is replaced", async |user| {
            user.delete_key(&in_default::<WebApp>("shop")).await?;
            user.apply_yaml(&app("{image: 'shop:3', replicas: 2, greeting: hello}")).await
        })
        .step("it is deleted", async |user| user.delete_key(&in_default::<WebApp>("shop")).await)
}

#[test]
fn the_operator_has_no_finding() {
    find_nothing(simulation());
}
