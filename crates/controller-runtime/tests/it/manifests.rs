//! The manifests of the examples.

use std::{fs, path::Path};

use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, ValidationDirective},
};
use kube_envtest::Environment;

/// Returns every object of every manifest, with its file.
fn manifests() -> Vec<(String, DynamicObject)> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut found = Vec::new();
    for example in fs::read_dir(examples).unwrap() {
        let example = example.unwrap().path();
        // Build output is not an example.
        if !example.join("Cargo.toml").exists() {
            continue;
        }
        let folder = fs::read_dir(example.join("manifests"));
        let folder = folder.unwrap_or_else(|error| panic!("{}: no manifests: {error}", example.display()));
        for file in folder {
            let path = file.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let objects: Vec<DynamicObject> = serde_saphyr::from_multiple(&text)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            found.extend(objects.into_iter().map(|object| (path.display().to_string(), object)));
        }
    }
    found
}

#[tokio::test(start_paused = true)]
async fn every_manifest_of_the_examples_is_accepted_to_the_last_field() {
    let env = Environment::builder().start().await.unwrap();
    let manifests = manifests();
    let params =
        PatchParams { field_validation: Some(ValidationDirective::Strict), ..PatchParams::apply("test") };
    for (file, object) in manifests {
        let types = object.types.clone().expect("an object has a kind");
        let kind = GroupVersionKind::try_from(&types).unwrap();
        let resource = ApiResource::from_gvk(&kind);
        let is_cluster_scoped = kind.kind == "Namespace" || kind.kind.starts_with("Cluster");
        let objects: Api<DynamicObject> = match &object.metadata.namespace {
            _ if is_cluster_scoped => Api::all_with(env.client(), &resource),
            Some(namespace) => Api::namespaced_with(env.client(), namespace, &resource),
            None => Api::default_namespaced_with(env.client(), &resource),
        };
        let name = object.metadata.name.clone().expect("an object has a name");
        let applied = objects.patch(&name, &params, &Patch::Apply(&object)).await;
        applied.unwrap_or_else(|error| panic!("{file}: {} {name}: {error}", kind.kind));
    }
}

/// Permissions that the operator of an example needs at its start.
#[test]
fn every_example_has_an_account_rights_and_a_deployment() {
    let manifests = manifests();
    let mut folders: Vec<_> =
        manifests.iter().map(|(file, _)| Path::new(file).parent().unwrap().to_owned()).collect();
    folders.sort();
    folders.dedup();
    assert!(folders.len() >= 6, "{folders:?}");
    for folder in folders {
        let here = manifests.iter().filter(|(file, _)| Path::new(file).parent().unwrap() == folder);
        let kinds: Vec<_> = here.map(|(_, object)| object.types.as_ref().unwrap().kind.as_str()).collect();
        for kind in ["ServiceAccount", "Role", "RoleBinding", "Deployment"] {
            assert!(kinds.iter().any(|known| known.ends_with(kind)), "{}: no {kind}", folder.display());
        }
    }
}
