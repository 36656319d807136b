//! Kinds that are added and removed on a genuine API server, and their caches.

use std::fs;

use controller_runtime::ObjectKey;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{Api, CustomResource, CustomResourceExt, api::PostParams};
use kube_envtest::{eventually, install_crds, read_crds, uninstall_crds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::timeout;

use super::{NOBODY, SOON, genuine};
use crate::support::Running;

/// A kind that is defined during the test.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "late.example.com", version = "v1", kind = "Gadget", namespaced)]
struct GadgetSpec {
    size: i32,
}

#[tokio::test]
async fn a_cache_of_an_undefined_kind_fills_when_the_definition_is_installed_and_again_when_it_is_reinstalled()
 {
    let Some(cluster) = genuine().await else { return };
    let manager = cluster.manager();
    let gadgets = manager.cached::<Gadget>();
    let running = Running::begin(manager);
    let missed = eventually(SOON, async || gadgets.trouble().ok_or("no trouble".to_owned())).await.unwrap();
    assert!(missed.contains("gadgets.late.example.com") && !gadgets.has_synced(), "{missed}");
    let key = |name: &str| ObjectKey::<Gadget>::new(cluster.namespace.as_str(), name);
    for name in ["a", "b"] {
        install_crds(&cluster.kube, &[Gadget::crd()]).await.unwrap();
        timeout(SOON, gadgets.synced()).await.expect("its definition is watched");
        let mut gadget = Gadget::new(name, GadgetSpec { size: 1 });
        gadget.metadata.namespace = Some(cluster.namespace.clone());
        cluster.client().create(&gadget).await.unwrap();
        gadgets.until(&key(name), |gadget| gadget.is_some(), SOON).await.unwrap();
        uninstall_crds(&cluster.kube, &[Gadget::crd()]).await.unwrap();
        gadgets.until(&key(name), |gadget| gadget.is_none(), SOON).await.unwrap();
    }
    running.stop().await.unwrap();
}

#[tokio::test]
async fn definitions_are_installed_from_files_and_uninstalled() {
    let Some(cluster) = genuine().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "gizmos.files.example.com" },
        "spec": {
            "group": "files.example.com", "scope": "Cluster",
            "names": { "kind": "Gizmo", "plural": "gizmos" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object" } },
            }],
        },
    });
    fs::write(folder.path().join("gizmos.json"), definition.to_string()).unwrap();
    let definitions = read_crds(folder.path()).unwrap();
    let client = cluster.client();
    let discovered = async || client.discover("files.example.com", "v1", "Gizmo").await;
    assert!(discovered().await.unwrap_err().is_not_served());
    for _ in 0..2 {
        install_crds(&cluster.kube, &definitions).await.unwrap();
    }
    let gizmos = client.of(discovered().await.unwrap());
    let gizmo = kube::core::DynamicObject::new("a", gizmos.kind().resource());
    gizmos.create(&gizmo).await.unwrap();
    for _ in 0..2 {
        uninstall_crds(&cluster.kube, &definitions).await.unwrap();
    }
    let gone = eventually(SOON, async || match discovered().await {
        Err(error) if error.is_not_served() => Ok(()),
        other => Err(format!("{other:?}")),
    });
    gone.await.unwrap();
}

#[tokio::test]
async fn a_user_has_the_name_and_groups_that_it_was_created_with() {
    let Some(cluster) = genuine().await else { return };
    let reviews = Api::<SelfSubjectReview>::all(cluster.nobody().await);
    let me = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
    let me = me.status.unwrap().user_info.unwrap();
    assert_eq!(me.username.as_deref(), Some(NOBODY));
    assert_eq!(me.groups.unwrap(), ["nothing", "system:authenticated"]);
}
