//! Parameters of policies: objects that a binding refers to.

use std::fmt;
use std::sync::Arc;

use kube_apimachinery::selector::LabelSelector;
use serde_json::Value;

use crate::api::admission::{Attributes, ObjectKind};
use crate::api::conversion::Converter;
use crate::kind::registry::ServedKind;
use crate::store::{Key, Stored};

/// Kind of the parameters of a policy (`paramKind`).
#[derive(Debug)]
pub(super) struct ParamKind {
    api_version: String,
    kind: String,
}

/// Reference of a binding to parameters (`paramRef`).
#[derive(Debug)]
pub(super) struct ParamRef {
    name: String,
    namespace: String,
    /// Labels of the parameters; `None` selects none, because the stored selector is invalid.
    selector: Option<LabelSelector>,
    /// Whether the binding fails without parameters (`parameterNotFoundAction: Deny`).
    requires_params: bool,
}

impl ParamKind {
    /// Reads the `paramKind` of a specification, if it has one.
    pub(super) fn read(spec: &Value) -> Option<Self> {
        let text = |field: &str| spec["paramKind"][field].as_str().unwrap_or_default().to_owned();
        spec["paramKind"].is_object().then(|| Self { api_version: text("apiVersion"), kind: text("kind") })
    }

    /// Returns the resource of the parameters.
    ///
    /// # Errors
    /// kube-apiserver's text if the kind is not served.
    pub(super) fn served(&self, attributes: &Attributes<'_>) -> Result<Arc<ServedKind>, String> {
        let ObjectKind { group, version, kind } = ObjectKind::new(&self.api_version, &self.kind);
        let registry = attributes.cluster.registry();
        let served = registry.by_kind(group, version, kind).cloned();
        served.ok_or_else(|| format!("failed to find resource referenced by paramKind: '{self}'"))
    }
}

/// Formats the kind as Go does, such as `apps/v1, Kind=Deployment` or `/v1, Kind=ConfigMap`.
impl fmt::Display for ParamKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectKind { group, version, kind } = ObjectKind::new(&self.api_version, &self.kind);
        write!(f, "{group}/{version}, Kind={kind}")
    }
}

/// Returns the parameters of a binding, for one evaluation each. If the policy or the binding has none, the only item is `None`.
///
/// # Errors
/// As [`ParamRef::params`].
pub(super) async fn params_of(
    kind: Option<&ServedKind>,
    reference: Option<&ParamRef>,
    attributes: &Attributes<'_>,
    converter: &Converter,
) -> Result<Vec<Option<Value>>, String> {
    let (Some(served), Some(reference)) = (kind, reference) else { return Ok(vec![None]) };
    let found = reference.params(served, attributes, converter).await?;
    Ok(found.into_iter().map(Some).collect())
}

impl ParamRef {
    /// Reads the `paramRef` of a specification, if it has one.
    pub(super) fn read(spec: &Value) -> Option<Self> {
        let reference = &spec["paramRef"];
        let text = |field: &str| reference[field].as_str().unwrap_or_default().to_owned();
        reference.is_object().then(|| Self {
            name: text("name"),
            namespace: text("namespace"),
            selector: LabelSelector::from_object(&reference["selector"]),
            requires_params: reference["parameterNotFoundAction"] == "Deny",
        })
    }

    /// Returns the parameters for a request, in the version of `served`, by name. Without any, the binding does not apply.
    ///
    /// # Errors
    /// kube-apiserver's text if the reference does not fit the scope of the kind, or nothing is found and the binding requires parameters.
    async fn params(
        &self,
        served: &ServedKind,
        attributes: &Attributes<'_>,
        converter: &Converter,
    ) -> Result<Vec<Value>, String> {
        let namespace = match (served.resource.namespaced, &*self.namespace) {
            (true, "") if attributes.namespace.is_empty() => {
                return Err(
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                        .to_owned(),
                );
            }
            (true, "") => attributes.namespace,
            (_, namespace) => namespace,
        };
        if !served.resource.namespaced && !namespace.is_empty() {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
        let found: Vec<Arc<Stored>> = if self.name.is_empty() {
            let snapshot = attributes.cluster.read(|store| store.snapshot(served.storage()));
            snapshot.range(namespace, None).map(|(_, stored)| Arc::clone(stored)).collect()
        } else {
            let key = Key::new(namespace, &self.name);
            let stored = attributes.cluster.read(|store| store.get(served.storage(), &key).cloned());
            stored.into_iter().collect()
        };
        let found = converter.read(attributes.cluster, served, &found).await;
        let found = found.map_err(|error| error.message().to_owned())?;
        let params = found.iter().map(|stored| served.value(stored));
        let is_selected = |object: &Value| {
            !self.name.is_empty() || self.selector.as_ref().is_some_and(|selector| selector.matches(object))
        };
        let params: Vec<Value> = params.filter(is_selected).collect();
        if params.is_empty() && self.requires_params {
            return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
        }
        Ok(params)
    }
}
