use kube_apimachinery::metadata::Compared;
use kube_apimachinery::names::NameRule;

use crate::kind::resource::{Generation, Rules, ScalePaths, SelectorForm, StorageKey};

use super::*;
use crate::kind::storage_version::storage_version_hash;
use crate::request::accept::Encoding;

fn custom(group: &str, version: &str, plural: &str, kind: &str) -> Arc<Resource> {
    let verbs = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
    Arc::new(Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: plural.to_owned(),
        singular: "item".to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        namespaced: true,
        short_names: vec!["th".to_owned(), "tng".to_owned()],
        categories: vec!["all".to_owned(), "golden".to_owned()],
        verbs: verbs.map(str::to_owned).to_vec(),
        storage: StorageKey { group: group.to_owned(), plural: plural.to_owned() },
        storage_version_hash: storage_version_hash(group, version, kind),
        status: true,
        scale: Some(ScalePaths {
            spec_replicas: vec!["spec".to_owned(), "size".to_owned()],
            status_replicas: vec!["status".to_owned(), "replicas".to_owned()],
            selector: None,
            selector_form: SelectorForm::Selector,
        }),
        other_subresources: Vec::new(),
        action: None,
        is_converted: false,
        columns: Vec::new(),
        selectable: Vec::new(),
        rules: Rules {
            generation: Generation::OutsideMetadata,
            unconditional_update: false,
            create_on_update: false,
            create_on_status_apply: false,
            returns_deleted_object: false,
            name: NameRule::Subdomain,
            any_finalizer: true,
            revalidated: 1,
            compared: Compared::Always,
            revalidated_in: &[],
            cached: true,
            custom: true,
            any_prefix: false,
            derived_name: None,
            field_refusal: kube_apimachinery::selector::FieldRefusal::Plain,
        },
    })
}

fn builtin_resources() -> Vec<Arc<Resource>> {
    builtin::served().into_iter().map(|(resource, _)| resource).collect()
}

#[test]
fn a_custom_kind_is_listed_with_its_subresources() {
    let resources = [custom("cr-discovery-documents.example.com", "v1", "things", "Thing")];
    assert_eq!(
        resource_list(&resources, "cr-discovery-documents.example.com", "v1").unwrap(),
        json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "cr-discovery-documents.example.com/v1",
            "resources": [
                {"name": "things", "singularName": "item", "namespaced": true, "kind": "Thing",
                 "verbs": ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
                 "shortNames": ["th", "tng"], "categories": ["all", "golden"], "storageVersionHash": "lxvJN+F3A+4="},
                {"name": "things/status", "singularName": "", "namespaced": true, "kind": "Thing",
                 "verbs": ["get", "patch", "update"]},
                {"name": "things/scale", "singularName": "", "namespaced": true, "group": "autoscaling",
                 "version": "v1", "kind": "Scale", "verbs": ["get", "patch", "update"]},
            ],
        })
    );
    assert_eq!(
        group(&resources, &[], "cr-discovery-documents.example.com").unwrap(),
        json!({
            "kind": "APIGroup", "apiVersion": "v1", "name": "cr-discovery-documents.example.com",
            "versions": [{"groupVersion": "cr-discovery-documents.example.com/v1", "version": "v1"}],
            "preferredVersion": {"groupVersion": "cr-discovery-documents.example.com/v1", "version": "v1"},
        })
    );
}

#[test]
fn builtin_kinds_are_listed_as_recorded() {
    assert_eq!(
        resource_list(&builtin_resources(), "coordination.k8s.io", "v1").unwrap(),
        json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "coordination.k8s.io/v1",
            "resources": [{
                "name": "leases", "singularName": "lease", "namespaced": true, "kind": "Lease",
                "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
                "storageVersionHash": "gqkMMb/YqFM=",
            }],
        })
    );
    let core = resource_list(&builtin_resources(), "", "v1").unwrap();
    assert_eq!(core.get("apiVersion"), None);
    let names: Vec<&str> = core["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|resource| resource["name"].as_str().unwrap())
        .collect();
    assert!(names.is_sorted(), "{names:?}");
    let of_workloads: Vec<&str> = names
        .into_iter()
        .filter(|name| name.starts_with("pods") || name.starts_with("replication"))
        .collect();
    assert_eq!(
        of_workloads,
        [
            "pods",
            "pods/attach",
            "pods/binding",
            "pods/ephemeralcontainers",
            "pods/eviction",
            "pods/exec",
            "pods/log",
            "pods/portforward",
            "pods/proxy",
            "pods/resize",
            "pods/status",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "replicationcontrollers/status",
        ]
    );
}

#[test]
fn groups_are_in_the_order_of_a_kube_apiserver() {
    let mut resources = vec![
        custom("b.example.com", "v1", "things", "Thing"),
        custom("a.example.com", "v1beta1", "things", "Thing"),
        custom("a.example.com", "v1", "things", "Thing"),
    ];
    resources.extend(builtin_resources().into_iter().rev());
    let list = group_list(&resources, &[]);
    let shown: Vec<String> = list["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| {
            let versions = group["versions"].as_array().unwrap().iter();
            let versions: Vec<&str> = versions.map(|version| version["version"].as_str().unwrap()).collect();
            format!("{} {}", group["name"].as_str().unwrap(), versions.join(","))
        })
        .collect();
    assert_eq!(
        shown,
        [
            "apiregistration.k8s.io v1",
            "apps v1",
            "events.k8s.io v1",
            "authentication.k8s.io v1",
            "authorization.k8s.io v1",
            "autoscaling v2,v1",
            "batch v1",
            "certificates.k8s.io v1",
            "networking.k8s.io v1",
            "policy v1",
            "rbac.authorization.k8s.io v1",
            "storage.k8s.io v1",
            "admissionregistration.k8s.io v1",
            "apiextensions.k8s.io v1",
            "scheduling.k8s.io v1",
            "coordination.k8s.io v1",
            "node.k8s.io v1",
            "discovery.k8s.io v1",
            "resource.k8s.io v1",
            "flowcontrol.apiserver.k8s.io v1",
            "a.example.com v1,v1beta1",
            "b.example.com v1",
        ]
    );
}

#[test]
fn both_forms_contain_the_same_resources() {
    let mut resources = builtin_resources();
    resources.push(custom("a.example.com", "v1", "things", "Thing"));
    let list = aggregated(&resources, &[], DiscoveryRoot::Apis);
    assert_eq!(
        list["items"][1]["versions"][0]["resources"][2],
        json!({
            "resource": "deployments", "responseKind": {"group": "", "version": "", "kind": "Deployment"},
            "scope": "Namespaced", "singularResource": "deployment",
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            "shortNames": ["deploy"], "categories": ["all"],
            "subresources": [
                {"subresource": "scale", "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                 "verbs": ["get", "patch", "update"]},
                {"subresource": "status", "responseKind": {"group": "", "version": "", "kind": "Deployment"},
                 "verbs": ["get", "patch", "update"]},
            ],
        })
    );
    let last = list["items"].as_array().unwrap().last().unwrap();
    assert_eq!(
        last["versions"][0]["resources"][0]["responseKind"],
        json!({"group": "a.example.com", "version": "v1", "kind": "Thing"})
    );
    assert_eq!(aggregated(&resources, &[], DiscoveryRoot::Api)["items"][0]["metadata"], json!({}));
}

#[test]
fn the_accept_header_requests_the_aggregated_form() {
    let v2 = AGGREGATED_JSON;
    let v2beta1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
    let json = Some(Encoding::Json);
    for (accept, expected) in [
        (format!("{v2},{v2beta1},application/json"), json),
        (format!("{v2beta1},{v2},application/json"), json),
        (format!("{v2};profile=nopeer,application/json"), json),
        (format!("{v2beta1},application/json"), None),
        (format!("application/json,{v2}"), json),
        (AGGREGATED_YAML.to_owned(), Some(Encoding::Yaml)),
        (format!("application/json;v=v3,{AGGREGATED_YAML}"), Some(Encoding::Yaml)),
        ("*/*;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList".to_owned(), json),
        (String::new(), None),
        ("*/*".to_owned(), None),
    ] {
        assert_eq!(wants_aggregated(&accept), expected, "{accept}");
    }
}

#[test]
fn hashes_are_those_of_go() {
    assert_eq!(storage_version_hash("", "v1", "ConfigMap"), "qFsyl6wFWjQ=");
    assert!(etag(b"").starts_with("CF83E1357EEFB8BDF1542850D66D8007"));
}
