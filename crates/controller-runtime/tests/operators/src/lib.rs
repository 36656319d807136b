//! Operators for the comparison of declared rights with the audit log of a kube-apiserver: those of the examples, and small ones that
//! together send every kind of request.

mod examples;
mod small;

use controller_runtime::Manager;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// An operator with the steps of its user.
pub struct Audited {
    /// Name of the operator, and of the namespace in which it runs.
    pub name: &'static str,
    /// Its CustomResourceDefinitions.
    pub definitions: Vec<CustomResourceDefinition>,
    /// Registers its controllers.
    pub add: fn(&Manager) -> anyhow::Result<()>,
    /// Steps of its user, one per line:
    ///
    /// - `apply PATH OBJECT`: applies an object, in YAML;
    /// - `delete PATH`: deletes an object;
    /// - `until PATH POINTER VALUE`: waits until the operator has given a field this value;
    /// - `exists PATH`, `gone PATH`: waits until the operator has created, or deleted, an object;
    /// - `any PATH`: waits until a list has objects.
    pub steps: &'static str,
}

/// All operators.
#[must_use]
pub fn all() -> Vec<Audited> {
    examples::all().into_iter().chain(small::all()).collect()
}
