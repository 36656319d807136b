//! Child objects of a Guestbook, built from its spec.

use std::collections::BTreeMap;

use controller_runtime::{OwnerError, set_controller_reference};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::{
            ConfigMap, ConfigMapVolumeSource, Container, ContainerPort, PodSpec, PodTemplateSpec, Volume,
            VolumeMount,
        },
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use kube::ResourceExt;

use crate::api::Guestbook;

/// ConfigMap with the files of the page.
pub(crate) fn page(guestbook: &Guestbook, style: Option<&str>) -> Result<ConfigMap, OwnerError> {
    let mut files = BTreeMap::from([("index.html".to_owned(), html(&guestbook.spec.greeting))]);
    files.extend(style.map(|style| ("style.css".to_owned(), style.to_owned())));
    let mut page = ConfigMap { metadata: child_meta(guestbook), data: Some(files), ..ConfigMap::default() };
    set_controller_reference(guestbook, &mut page)?;
    Ok(page)
}

/// Deployment of the web servers.
pub(crate) fn deployment(guestbook: &Guestbook) -> Result<Deployment, OwnerError> {
    let labels = labels(guestbook);
    let container = Container {
        name: "web".to_owned(),
        image: Some("nginx:1.29".to_owned()),
        ports: Some(vec![ContainerPort { container_port: 80, ..ContainerPort::default() }]),
        volume_mounts: Some(vec![VolumeMount {
            name: "page".to_owned(),
            mount_path: "/usr/share/nginx/html".to_owned(),
            ..VolumeMount::default()
        }]),
        ..Container::default()
    };
    let page = Volume {
        name: "page".to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: guestbook.name_any(),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    };
    let mut deployment = Deployment {
        metadata: child_meta(guestbook),
        spec: Some(DeploymentSpec {
            replicas: Some(guestbook.spec.replicas),
            selector: LabelSelector { match_labels: Some(labels.clone()), ..LabelSelector::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }),
                spec: Some(PodSpec {
                    containers: vec![container],
                    volumes: Some(vec![page]),
                    ..PodSpec::default()
                }),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    };
    set_controller_reference(guestbook, &mut deployment)?;
    Ok(deployment)
}

/// ConfigMap with the greeting of a deleted Guestbook. It has no owner, so it remains.
pub(crate) fn archive(guestbook: &Guestbook) -> ConfigMap {
    let mut archive = ConfigMap { metadata: child_meta(guestbook), ..ConfigMap::default() };
    // Without an owner reference, so that the archive outlives the Guestbook.
    archive.metadata.name = Some(format!("{}-archive", guestbook.name_any()));
    archive.data = Some(BTreeMap::from([("greeting".to_owned(), guestbook.spec.greeting.clone())]));
    archive
}

fn child_meta(guestbook: &Guestbook) -> ObjectMeta {
    ObjectMeta {
        namespace: guestbook.namespace(),
        name: Some(guestbook.name_any()),
        labels: Some(labels(guestbook)),
        ..ObjectMeta::default()
    }
}

fn labels(guestbook: &Guestbook) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("app.kubernetes.io/name".to_owned(), "guestbook".to_owned()),
        ("app.kubernetes.io/instance".to_owned(), guestbook.name_any()),
    ])
}

/// Returns the page. The greeting comes from a user, so HTML markup in it is escaped.
fn html(greeting: &str) -> String {
    let greeting = greeting.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("<!doctype html>\n<link rel=\"stylesheet\" href=\"style.css\">\n<h1>{greeting}</h1>\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::GuestbookSpec;

    fn guestbook() -> Guestbook {
        let spec = GuestbookSpec { greeting: "<Hello> & welcome".to_owned(), replicas: 2, theme: None };
        let mut guestbook = Guestbook::new("welcome", spec);
        guestbook.metadata.namespace = Some("default".to_owned());
        guestbook.metadata.uid = Some("u1".to_owned());
        guestbook
    }

    #[test]
    fn children_are_controlled_by_the_guestbook_and_the_archive_is_not() {
        let guestbook = guestbook();
        let page = page(&guestbook, None).expect("a fresh object has no other controller");
        let deployment = deployment(&guestbook).expect("a fresh object has no other controller");
        assert_eq!(page.owner_references()[0].uid, "u1");
        assert_eq!(deployment.owner_references()[0].uid, "u1");
        assert!(archive(&guestbook).owner_references().is_empty());
    }

    #[test]
    fn a_greeting_cannot_smuggle_markup_into_the_page() {
        let page = page(&guestbook(), Some("h1 {}")).expect("a fresh object has no other controller");
        let files = page.data.expect("files");
        assert!(files["index.html"].contains("&lt;Hello&gt; &amp; welcome"), "{}", files["index.html"]);
        assert_eq!(files["style.css"], "h1 {}");
    }
}
