//! No bug: a ConfigMap by `create_or_update`, and a Service by hand: it is read, changed and updated. A conflict is an error of
//! the reconcile, which then runs again.

use k8s_openapi::{
    api::core::v1::{Service, ServicePort},
    apimachinery::pkg::util::intstr::IntOrString,
};

use crate::common::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "web.example.com", version = "v1", kind = "Site", namespaced, status = "SiteStatus")]
#[serde(default)]
struct SiteSpec {
    domain: String,
    port: i32,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(default)]
struct SiteStatus {
    url: String,
}

struct Sites {
    sites: Cached<Site>,
}

async fn ensure_config(site: &Site, cx: &Context) -> Result<(), ReconcileError> {
    let mut config = ConfigMap::default();
    config.metadata.name = Some(format!("{}-nginx", site.name_any()));
    config.metadata.namespace = site.namespace();
    let text = format!("listen {}; server_name {};", site.spec.port, site.spec.domain);
    cx.client()
        .create_or_update(config, |config| {
            config.data.get_or_insert_default().insert("nginx.conf".to_owned(), text.clone());
            set_controller_reference(site, config)?;
            Ok(())
        })
        .await?;
    Ok(())
}

async fn ensure_service(site: &Site, cx: &Context) -> Result<(), ReconcileError> {
    let port = ServicePort {
        name: Some("http".to_owned()),
        port: site.spec.port,
        protocol: Some("TCP".to_owned()),
        target_port: Some(IntOrString::Int(8080)),
        ..ServicePort::default()
    };
    let ports = Some(vec![port]);
    let Some(mut service) = cx.client().get(&in_default::<Service>(&site.name_any())).await? else {
        let mut service: Service = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": site.name_any(), "namespace": site.namespace()},
            "spec": {"selector": {"site": site.name_any()}, "ports": ports},
        }))?;
        set_controller_reference(site, &mut service)?;
        cx.client().create(&service).await?;
        return Ok(());
    };
    let spec = service.spec.get_or_insert_default();
    if spec.ports != ports {
        spec.ports = ports;
        cx.client().update(&service).await?;
    }
    Ok(())
}

impl Reconciler for Sites {
    type Request = ObjectKey<Site>;

    async fn reconcile(&self, key: &ObjectKey<Site>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(site) = self.sites.get(key)? else { return Ok(Action::done()) };
        ensure_config(&site, cx).await?;
        ensure_service(&site, cx).await?;
        let status = SiteStatus { url: format!("http://{}:{}", site.spec.domain, site.spec.port) };
        if site.status.as_ref() != Some(&status) {
            cx.client().apply_status(key, &status).await?;
        }
        Ok(Action::done())
    }
}

fn site(port: i32) -> String {
    let head = "apiVersion: web.example.com/v1, kind: Site, metadata: {name: blog}";
    format!("{{{head}, spec: {{domain: blog.example.com, port: {port}}}}}")
}

pub(crate) fn simulation() -> Simulation {
    let add = |manager: &Manager| -> Result<(), AddError> {
        Builder::managed_by(manager)
            .for_kind::<Site>()
            .owns::<ConfigMap>()
            .owns::<Service>()
            .complete(Sites { sites: manager.cached() })?;
        Ok(())
    };
    Simulation::new("sites", add)
        .crd::<Site>()
        .applies("a site is created", &site(80))
        .step("a tool annotates its ConfigMap", async |user| {
            let note = json!({"metadata": {"annotations": {"tool.example.com/note": "keep"}}});
            user.merge_patch(&in_default::<ConfigMap>("blog-nginx"), &note).await
        })
        .step("its port changes twice", async |user| {
            user.apply_yaml(&site(81)).await?;
            user.apply_yaml(&site(82)).await
        })
        .step("its ConfigMap is edited by hand", async |user| {
            let edit = json!({"data": {"nginx.conf": "listen 1;"}});
            user.merge_patch(&in_default::<ConfigMap>("blog-nginx"), &edit).await
        })
        .step("it is deleted", async |user| user.delete_key(&in_default::<Site>("blog")).await)
}

#[test]
fn the_operator_has_no_finding() {
    find_nothing(simulation());
}
