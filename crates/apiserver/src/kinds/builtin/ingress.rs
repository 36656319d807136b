//! Ingresses.

use serde_json::Value;

use super::builtin_kind::BuiltinKind;
use super::shared::discouraged;
use crate::kind::resource::Resource;

/// Annotation that was replaced by `spec.ingressClassName`.
const CLASS: &str = "kubernetes.io/ingress.class";

#[derive(Debug)]
pub(super) struct Ingress;

impl BuiltinKind for Ingress {
    fn warnings(&self, _resource: &Resource, ingress: &Value, old: Option<&Value>) -> Vec<String> {
        let is_old_form = old.is_none()
            && ingress["metadata"]["annotations"].get(CLASS).is_some()
            && ingress["spec"]["ingressClassName"].is_null();
        let warning =
            || format!("annotation \"{CLASS}\" is deprecated, please use 'spec.ingressClassName' instead");
        is_old_form.then(warning).into_iter().collect()
    }

    fn status_warnings(&self, ingress: &Value) -> Vec<String> {
        discouraged::of_load_balancer(ingress)
    }
}
