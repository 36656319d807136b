//! Empty lists and maps of an object in a body. The server handles them like absent ones, as JSON and the storage do. Go distinguishes them,
//! so messages of kube-apiserver show them, and some of its comparisons count them.

use kube_apimachinery::go_struct::EmptyCollections;
use kube_apimachinery::managed_fields::Emptied;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use crate::kind::registry::ServedKind;

/// Empty lists and maps of an object as a client sent it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EmptyParts {
    /// Lists that the writer owns because of empty parts in their elements.
    pub(super) owned: Emptied,
    pub(super) collections: EmptyCollections,
}

impl EmptyParts {
    /// Finds the parts in an object before it is completed. Custom objects keep theirs.
    pub(super) fn of(served: &ServedKind, object: &Value) -> Self {
        let converted = served.strategy.converted_form(object);
        let object = converted.as_ref().unwrap_or(object);
        let collections = served.message.map(|message| EmptyCollections::of(message, object));
        Self { owned: Emptied::of(&served.schema, object), collections: collections.unwrap_or_default() }
    }
}

/// Returns the object with its empty lists and maps if kube-apiserver counts these in comparisons of this kind.
pub(super) fn compared(served: &ServedKind, object: &Value, collections: &EmptyCollections) -> Option<Value> {
    let is_compared = !collections.is_empty() && served.strategy.compares_empty();
    is_compared.then(|| {
        let mut compared = object.clone();
        collections.put_into(&mut compared);
        compared
    })
}

/// Validates an object. The errors are those of the object with the empty collections that kube-apiserver refuses, or with all of them if
/// the kind compares them. Messages show all empty collections.
pub(super) fn validate(
    served: &ServedKind,
    object: &Value,
    collections: &EmptyCollections,
    mut validate: impl FnMut(&Value) -> Vec<FieldError>,
) -> Vec<FieldError> {
    if let Some(compared) = compared(served, object, collections) {
        return validate(&compared);
    }
    let errors = if collections.has_refused() {
        let mut refused = object.clone();
        collections.put_refused(&mut refused);
        validate(&refused)
    } else {
        validate(object)
    };
    if errors.is_empty() || collections.is_empty() {
        return errors;
    }
    let mut shown = object.clone();
    collections.show_in(&mut shown);
    with_messages_of(errors, validate(&shown))
}

/// Replaces the message of each error by that of the error in `shown` about the same field. Both lists have the same order.
fn with_messages_of(mut errors: Vec<FieldError>, shown: Vec<FieldError>) -> Vec<FieldError> {
    let mut shown: Vec<Option<FieldError>> = shown.into_iter().map(Some).collect();
    for error in &mut errors {
        let is_same = |other: &&mut Option<FieldError>| {
            other.as_ref().is_some_and(|other| (other.reason, &other.field) == (error.reason, &error.field))
        };
        if let Some(same) = shown.iter_mut().find(is_same).and_then(Option::take) {
            error.message = same.message;
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;
    use crate::api::verbs::patch;
    use crate::testing;

    #[test]
    fn errors_take_the_messages_of_errors_about_the_same_fields() {
        let error = |field: &str, shown: &str| FieldError::invalid(field, shown, "bad");
        let errors = vec![error("a", "null"), error("b", "null"), error("a", "1"), error("c", "null")];
        let shown = vec![error("x", "[]"), error("a", "[]"), error("b", "{}"), error("a", "2")];
        let expected = [error("a", "[]"), error("b", "{}"), error("a", "2"), error("c", "null")];
        assert_eq!(with_messages_of(errors, shown), expected);
    }

    /// Applies a merge patch to an object.
    fn merge(server: &testing::Running, path: &str, changes: &Value) -> Result<(), String> {
        let mut call = testing::call(server, path);
        call.content_type = Some("application/merge-patch+json".to_owned());
        let outcome = testing::now(patch::run(&call, &Bytes::from(changes.to_string())));
        outcome.map(drop).map_err(|error| error.message().to_owned())
    }

    /// Messages of kube-apiserver v1.36.3.
    #[tokio::test]
    async fn messages_show_empty_lists_and_maps_of_the_request() {
        let server = testing::server();
        let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
        let claim = json!({"metadata": {"name": "a"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        }});
        testing::create(&server, claims, &claim).unwrap();
        let changes = json!({"spec": {"accessModes": []}});
        let error = merge(&server, &format!("{claims}/a"), &changes).unwrap_err();
        let diff = "- \"AccessModes\": [\n-  \"ReadWriteOnce\"\n- ],\n+ \"AccessModes\": [],\n  \"Selector\": null,\n";
        assert!(error.contains(diff), "{error}");
        // A missing list is shown as null.
        let changes = json!({"spec": {"accessModes": null}});
        let error = merge(&server, &format!("{claims}/a"), &changes).unwrap_err();
        assert!(error.contains("\n+ \"AccessModes\": null,\n"), "{error}");
        let ingress = json!({"metadata": {"name": "a"}, "spec": {"rules": []}});
        let error =
            testing::create(&server, "/apis/networking.k8s.io/v1/namespaces/default/ingresses", &ingress);
        assert_eq!(
            error.unwrap_err().message(),
            "Ingress.networking.k8s.io \"a\" is invalid: spec: Invalid value: []: either `defaultBackend` or `rules` must be specified"
        );
    }

    /// Messages of kube-apiserver v1.36.3.
    #[tokio::test]
    async fn some_empty_lists_and_maps_are_refused() {
        let server = testing::server();
        let refuse = |path: &str, spec: Value, expected: &str| {
            let object = json!({"metadata": {"name": "x"}, "spec": spec});
            let error = testing::create(&server, path, &object).unwrap_err();
            assert!(error.message().ends_with(expected), "{}\n{expected}", error.message());
        };
        let templates = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";
        let spec = json!({"metadata": {"ownerReferences": []}, "spec": {}});
        refuse(templates, spec, " is invalid: spec.metadata.ownerReferences: Forbidden: cannot be set");
        let pods = "/api/v1/namespaces/default/pods";
        let pod = |part: Value| {
            let mut pod = json!({"containers": [{"name": "a", "image": "a"}]});
            pod.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
            pod
        };
        let windows = pod(json!({"os": {"name": "windows"}, "securityContext": {"supplementalGroups": []}}));
        let expected = " is invalid: spec.securityContext.supplementalGroups: Forbidden: cannot be set for a windows pod";
        refuse(pods, windows, expected);
        let expected =
            " is invalid: spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level";
        refuse(pods, pod(json!({"resources": {"claims": []}})), expected);
        let scalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
        let spec = json!({
            "maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
            "behavior": {"scaleUp": {"policies": []}},
        });
        let expected =
            " is invalid: spec.behavior.scaleUp.policies: Required value: must specify at least one Policy";
        refuse(scalers, spec, expected);
    }

    /// Observed with kube-apiserver v1.36.3.
    #[tokio::test]
    async fn some_kinds_count_an_empty_map_as_a_change() {
        let server = testing::server();
        let maps = "/api/v1/namespaces/default/configmaps";
        let map = json!({"metadata": {"name": "a"}, "immutable": true, "data": {"a": "1"}});
        testing::create(&server, maps, &map).unwrap();
        let path = format!("{maps}/a");
        merge(&server, &path, &json!({"metadata": {"labels": {"a": "b"}}})).unwrap();
        let error = merge(&server, &path, &json!({"binaryData": {}})).unwrap_err();
        assert_eq!(
            error,
            "ConfigMap \"a\" is invalid: binaryData: Forbidden: field is immutable when `immutable` is set"
        );
        let policies = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
        let policy = json!({"metadata": {"name": "a"}, "spec": {"podSelector": {}}});
        testing::create(&server, policies, &policy).unwrap();
        let path = format!("{policies}/a");
        let generation = || {
            let call = testing::call(&server, &path);
            let stored = call.cluster.read(|store| store.get(call.served.storage(), &call.key()).cloned());
            call.served.value(&stored.unwrap())["metadata"]["generation"].as_i64()
        };
        merge(&server, &path, &json!({"spec": {"podSelector": {}}})).unwrap();
        assert_eq!(generation(), Some(1));
        merge(&server, &path, &json!({"spec": {"podSelector": {"matchLabels": {}}}})).unwrap();
        assert_eq!(generation(), Some(2));
        // A stored object has no empty maps, so that every such update counts.
        merge(&server, &path, &json!({"spec": {"podSelector": {"matchLabels": {}}}})).unwrap();
        assert_eq!(generation(), Some(3));
    }
}
