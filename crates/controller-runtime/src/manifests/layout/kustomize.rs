//! A base for kustomize.

use kube_apimachinery::yaml;
use serde_json::json;

use super::{Files, Owner};
use crate::manifests::{Manifests, Part};

/// One file for each part, and `kustomization.yaml` that lists them.
pub(super) fn files(manifests: &Manifests) -> Files {
    let mut files = Files::default();
    let mut resources = Vec::new();
    for part in Part::ALL {
        let of_part = manifests.clone().only(&[part]);
        if !of_part.objects().is_empty() {
            let name = format!("{part}.yaml");
            files.add(&name, of_part.to_yaml(), Owner::Program);
            resources.push(name);
        }
    }
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": resources,
    });
    files.add("kustomization.yaml", yaml::write(&kustomization), Owner::Program);
    files
}
