//! `pods/binding`, and its older form `bindings`: assigns a pod to a node.

use bytes::Bytes;
use kube_apimachinery::go::quote;
use kube_apimachinery::metadata;
use kube_apimachinery::status::{ApiError, FieldError};
use serde_json::{Value, json};

use super::super::reply::Reply;
use super::super::update::{self, Ownership, RequestedState, UpdateReview};
use super::super::{Call, object_meta, require_name};
use crate::api::admission::{Attributes, ObjectKind, OperationOptions};
use crate::request::path::ResourcePath;

/// Binds the pod that the body names. If the URL names a pod, it must be the same.
pub(super) async fn run(call: &Call, bytes: &Bytes) -> Result<Reply, ApiError> {
    let options = call.create_options()?;
    let kind = ObjectKind::new("v1", "Binding");
    let mut binding = super::decode(call, bytes, kind.kind, &[kind.version], options.field_validation)?;
    object_meta::reconcile_namespace(&call.served, &call.path.namespace, &mut binding)?;
    super::track(call, &mut binding, kind, &options);
    let name = [call.path.name.as_str(), metadata::text(&binding, "name")];
    let name = name.into_iter().find(|name| !name.is_empty()).unwrap_or_default().to_owned();
    let (admission, attributes) =
        (&call.context.admission, call.attributes(OperationOptions::Create(&options), None).named(&name));
    let attributes = Attributes { kind, ..attributes };
    admission.mutate(&attributes, Some(&mut binding)).await?;
    let name = metadata::text(&binding, "name").to_owned();
    if !call.path.name.is_empty() && call.path.name != name {
        return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
    }
    check_target(&binding["target"])?;
    admission.validate(&attributes, Some(&binding)).await?;
    let Some(pods) = call.cluster.registry().get("", "v1", "pods").cloned() else {
        return Err(call.not_found());
    };
    require_name(&name)?;
    // The rest of the request is an update of the pod.
    let path = ResourcePath { name, subresource: "binding".to_owned(), ..call.path.clone() };
    let of_pod = Call { served: pods, path, ..call.clone() };
    update::change(&of_pod, &options, UpdateReview::Before, |call, pod| bind(call, pod, &binding)).await?;
    Ok(super::done(call))
}

/// Validates the target. kube-apiserver's error does not name the object.
fn check_target(target: &Value) -> Result<(), ApiError> {
    let text = |field: &str| target[field].as_str().unwrap_or_default();
    let mut errors = Vec::new();
    if !["", "Node"].contains(&text("kind")) {
        errors.push(FieldError {
            reason: "FieldValueNotSupported",
            field: "target.kind".to_owned(),
            message: format!(
                "Unsupported value: {}: supported values: \"Node\", \"<empty>\"",
                quote(text("kind"))
            ),
        });
    }
    if text("name").is_empty() {
        errors.push(FieldError::required("target.name", ""));
    }
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [] => Ok(()),
        [one] => Err(ApiError::internal(one)),
        many => Err(ApiError::internal(format!("[{}]", many.join(", ")))),
    }
}

/// Returns the pod with its node set.
fn bind(call: &Call, pod: &Value, binding: &Value) -> Result<RequestedState, ApiError> {
    let name = call.path.name.clone();
    let refuse = |why: String| Err(ApiError::conflict("", "pods/binding", &name, &why));
    for (name, field) in [("UID", "uid"), ("ResourceVersion", "resourceVersion")] {
        let (wanted, actual) = (metadata::text(binding, field), metadata::text(pod, field));
        if !wanted.is_empty() && wanted != actual {
            return Err(update::failed_precondition(call, name, wanted, actual));
        }
    }
    if metadata::is_terminating(pod) {
        return refuse(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        return refuse(format!("pod {name} is already assigned to node {}", quote(node)));
    }
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return refuse(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    let mut bound = pod.clone();
    bound["spec"]["nodeName"] = binding["target"]["name"].clone();
    for field in ["annotations", "labels"] {
        let given = binding["metadata"][field].as_object().into_iter().flatten();
        let given: Vec<(String, Value)> = given.map(|(key, value)| (key.clone(), value.clone())).collect();
        if !given.is_empty() {
            let all = metadata::of(&mut bound).entry(field).or_insert_with(|| json!({}));
            all.as_object_mut().into_iter().for_each(|all| all.extend(given.clone()));
        }
    }
    // The scheduler's earlier choice does not matter any more.
    if let Some(status) = bound["status"].as_object_mut() {
        status.remove("nominatedNodeName");
    }
    schedule(&mut bound["status"], &call.cluster.clock.now_seconds());
    // The client of a binding does not become the owner of the fields that the binding sets.
    Ok(RequestedState::new(bound, Ownership::Applied))
}

/// Sets the condition `PodScheduled`.
fn schedule(status: &mut Value, now: &str) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let scheduled = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
    });
    if let Some(conditions) = status["conditions"].as_array_mut() {
        match conditions.iter_mut().find(|condition| condition["type"] == "PodScheduled") {
            Some(condition) if condition["status"] == "True" => {}
            Some(condition) => *condition = scheduled,
            None => conditions.push(scheduled),
        }
    }
}
