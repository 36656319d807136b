//! Serves Websites with Deployments. Webhooks set defaults, validate, and convert between the versions v1 and v2.
//!
//! The reconciler and the webhooks of v2 never receive v1: the API server sends objects of v1 to the conversion webhook first.

pub mod v1;
pub mod v2;

use controller_runtime::{
    Action, Builder, Cached, Context, Manager, ObjectKey, ReconcileError, Reconciler, manager::AddError,
    set_controller_reference,
};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::{Container, PodSpec, PodTemplateSpec},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use kube::{CustomResourceExt, core::crd::MergeError};

use crate::v2::Website;

/// CustomResourceDefinition of both versions.
///
/// # Errors
///
/// The versions are not of one kind.
pub fn definition() -> Result<CustomResourceDefinition, MergeError> {
    kube::core::crd::merge_crds(vec![v1::Website::crd(), Website::crd()], "v2")
}

/// Adds the controller and its webhooks to a manager.
///
/// # Errors
///
/// The manager already has this controller.
pub fn add_to(manager: &Manager) -> Result<(), AddError> {
    Builder::managed_by(manager)
        .for_kind::<Website>()
        .owns::<Deployment>()
        .defaulted()
        .validated()
        .converted::<(v1::Website,)>()
        .without_events()
        .complete(WebsiteReconciler { websites: manager.cached() })?;
    Ok(())
}

/// Keeps a Deployment for each Website.
struct WebsiteReconciler {
    websites: Cached<Website>,
}

impl Reconciler for WebsiteReconciler {
    type Request = ObjectKey<Website>;

    async fn reconcile(&self, key: &ObjectKey<Website>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(website) = self.websites.get(key)? else {
            return Ok(Action::done()); // deleted; its Deployment is garbage collected
        };
        let v2::WebsiteSpec { image, replicas } = &website.spec;
        let labels = Some([("website".to_owned(), key.name().to_owned())].into());
        let container = Container {
            name: "website".to_owned(),
            image: Some(format!("{}:{}", image.repository, image.tag.as_deref().unwrap_or("latest"))),
            ..Container::default()
        };
        let mut deployment = Deployment {
            metadata: ObjectMeta {
                name: Some(key.name().to_owned()),
                namespace: key.namespace().map(str::to_owned),
                ..ObjectMeta::default()
            },
            spec: Some(DeploymentSpec {
                replicas: replicas.map(i32::from),
                selector: LabelSelector { match_labels: labels.clone(), ..LabelSelector::default() },
                template: PodTemplateSpec {
                    metadata: Some(ObjectMeta { labels, ..ObjectMeta::default() }),
                    spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
                },
                ..DeploymentSpec::default()
            }),
            ..Deployment::default()
        };
        set_controller_reference(&*website, &mut deployment)?;
        cx.client().apply(&deployment).await?;
        Ok(Action::done())
    }
}
