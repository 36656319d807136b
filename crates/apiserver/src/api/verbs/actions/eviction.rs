//! `pods/eviction`: deletes a pod if its disruption budget allows it.

use std::sync::Arc;

use bytes::Bytes;
use kube_apimachinery::selector::LabelSelector;
use kube_apimachinery::status::{ApiError, Cause};
use kube_apimachinery::{go, metadata};
use serde_json::{Value, json};

use super::super::reply::Reply;
use super::super::{Call, RETRIES, delete, object_meta};
use crate::api::admission::{Attributes, ObjectKind, OperationOptions};
use crate::kind::registry::ServedKind;
use crate::request::path::ResourcePath;
use crate::request::query::{DeleteOptions, WriteOptions};
use crate::state::Refused;
use crate::state::writer;
use crate::store::{Change, Key};

/// Maximum number of evicted pods that a budget's status lists until they are deleted. When it is reached, the budget refuses evictions.
const MAX_DISRUPTED: usize = 2000;
/// Version in which plugins receive evictions.
const VERSION: &str = "policy/v1";
const VIOLATED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// Evicts the pod in the URL.
pub(super) async fn run(call: &Call, bytes: &Bytes) -> Result<Reply, ApiError> {
    let written = call.create_options()?;
    let kind = ObjectKind::new(VERSION, "Eviction");
    let versions = [VERSION, "policy/v1beta1"];
    let mut eviction = super::decode(call, bytes, kind.kind, &versions, written.field_validation)?;
    // Older versions become the current one.
    eviction["apiVersion"] = json!(VERSION);
    object_meta::wipe(&mut eviction);
    object_meta::reconcile_namespace(&call.served, &call.path.namespace, &mut eviction)?;
    super::track(call, &mut eviction, kind, &written);
    let (admission, attributes) =
        (&call.context.admission, call.attributes(OperationOptions::Create(&written), None));
    let attributes = Attributes { kind, ..attributes };
    admission.mutate(&attributes, Some(&mut eviction)).await?;
    if metadata::text(&eviction, "name") != call.path.name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let asked = eviction.get("deleteOptions").filter(|asked| asked.is_object());
    check_dry_run(&written, asked)?;
    let (mut options, invalid) = read_options(call, asked.unwrap_or(&Value::Null))?;
    options.dry_run |= written.dry_run;
    admission.validate(&attributes, Some(&eviction)).await?;

    let stored = call.cluster.read(|store| store.get(call.served.storage(), &call.key()).cloned());
    let pod = call.served.value(&*stored.ok_or_else(|| call.not_found())?);
    // The eviction is counted before the deletion, so that concurrent evictions do not exceed the budget.
    let budget = if is_disrupted_already(&pod) { Budget::None } else { spend(call, &pod, &options)? };
    if let Budget::Spared(name) = &budget {
        // The deletion requires the revision that was read, because the pod may have become healthy since. This replaces a precondition of
        // the client.
        let read = metadata::text(&pod, "resourceVersion").to_owned();
        let is_given = options.resource_version.replace(read).is_some();
        let name = name.clone();
        return evict(call, &options, invalid)
            .await
            .map_err(|error| if error.code() == 409 && !is_given { still_processed(&name) } else { error });
    }
    evict(call, &options, invalid).await
}

/// Reads the options of the deletion. Invalid options fail only the deletion itself, after the budget was charged and the condition of the
/// pod was set. Until then, their preconditions and their dry run apply.
fn read_options(call: &Call, asked: &Value) -> Result<(DeleteOptions, Option<ApiError>), ApiError> {
    let given = if asked.is_null() { &json!({}) } else { asked };
    match DeleteOptions::read(&call.query, Some(given)) {
        Ok(options) => Ok((options, None)),
        Err(error) if error.code() == 422 => {
            let valid = match &asked["preconditions"] {
                Value::Null => json!({}),
                preconditions => json!({"preconditions": preconditions}),
            };
            let mut options = DeleteOptions::read(&call.query, Some(&valid))?;
            options.dry_run |= asked["dryRun"].as_array().is_some_and(|values| !values.is_empty());
            Ok((options, Some(error)))
        }
        Err(error) => Err(error),
    }
}

/// Checks that the options in the body do not contradict a dry run in the URL.
fn check_dry_run(written: &WriteOptions, asked: Option<&Value>) -> Result<(), ApiError> {
    let asked = asked.and_then(|asked| asked["dryRun"].as_array()).filter(|asked| !asked.is_empty());
    match asked {
        Some(asked) if written.dry_run && *asked != [json!("All")] => {
            let asked = go::value(&json!(asked));
            Err(ApiError::internal(format!(
                "Non-matching dry-run options in request and content: [All] and {asked}"
            )))
        }
        _ => Ok(()),
    }
}

/// Deletes the pod, or fails with the error about its options.
async fn evict(call: &Call, options: &DeleteOptions, invalid: Option<ApiError>) -> Result<Reply, ApiError> {
    let path = ResourcePath { subresource: String::new(), ..call.path.clone() };
    let of_pod = Call { path, ..call.clone() };
    let mut options = options.clone();
    if !options.dry_run {
        announce(&of_pod, &mut options)?;
    }
    if let Some(error) = invalid {
        return Err(error);
    }
    delete::delete(&of_pod, &options, delete::DeletionReview::Before).await?;
    Ok(super::done(call))
}

/// Stores the condition that the pod is being evicted, in a separate write. If the deletion requires a revision, it then requires that of
/// this write.
fn announce(call: &Call, options: &mut DeleteOptions) -> Result<(), ApiError> {
    let (served, key) = (&call.served, call.key());
    for _ in 0..RETRIES {
        let stored = call.cluster.read(|store| store.get(served.storage(), &key).cloned());
        let stored = stored.ok_or_else(|| call.not_found())?;
        let mut pod = served.value(&stored);
        delete::check_preconditions(call, options, &pod)?;
        set_disruption_target(&mut pod["status"], &call.cluster.clock.now_seconds());
        let document = served.document(&pod);
        if document.same(&stored.document) {
            return Ok(());
        }
        let change = Change::Put(document);
        match call.cluster.commit_unguarded(served.storage(), &key, Some(stored.revision), change) {
            Ok(event) => {
                if options.resource_version.is_some() {
                    options.resource_version = Some(event.revision.to_string());
                }
                return Ok(());
            }
            Err(Refused::Conflict) => {}
            Err(Refused::Because(never)) => match never {},
        }
    }
    Err(call.modified())
}

/// Sets the condition `DisruptionTarget`. A condition that is true already keeps its time.
fn set_disruption_target(status: &mut Value, now: &str) {
    const KIND: &str = "DisruptionTarget";
    let mut condition = json!({
        "type": KIND, "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
    });
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else {
        return;
    };
    match conditions.iter_mut().find(|condition| condition["type"] == KIND) {
        Some(old) => {
            if old["status"] == "True" {
                condition["lastTransitionTime"] = old["lastTransitionTime"].take();
            }
            *old = condition;
        }
        None => conditions.push(condition),
    }
}

/// Whether no budget counts the pod, because it is pending, has ended, or is being deleted.
fn is_disrupted_already(pod: &Value) -> bool {
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    ["Succeeded", "Failed", "Pending"].contains(&phase) || metadata::is_terminating(pod)
}

/// Result of checking a pod's budget.
enum Budget {
    /// There is no budget, or it allowed the eviction.
    None,
    /// The budget does not count the pod, because it is unhealthy. Contains the name of the budget.
    Spared(String),
}

/// Subtracts one disruption from the budget of the pod. A dry run only checks that the budget allows it.
fn spend(call: &Call, pod: &Value, options: &DeleteOptions) -> Result<Budget, ApiError> {
    let Some(served) = call.cluster.registry().get("policy", "v1", "poddisruptionbudgets").cloned() else {
        return Ok(Budget::None);
    };
    for _ in 0..RETRIES {
        let snapshot = call.cluster.read(|store| store.snapshot(served.storage()));
        let mut budgets = snapshot
            .range(&call.path.namespace, None)
            .map(|(key, stored)| (key, stored.revision, served.value(stored)))
            .filter(|(_, _, budget)| selects(budget, pod));
        let Some((key, revision, budget)) = budgets.next() else {
            return Ok(Budget::None);
        };
        if budgets.next().is_some() {
            return Err(ApiError::internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
        if !is_ready(pod) && spares_unhealthy(&budget) {
            return Ok(Budget::Spared(key.name().to_owned()));
        }
        let spent = decrement(call, &budget)?;
        // On a conflict another eviction may have used the last disruption, so the next round reads the
        // budget again.
        if options.dry_run || put_status(call, &served, key, revision, &budget, spent) {
            return Ok(Budget::None);
        }
    }
    Err(still_processed(""))
}

fn selects(budget: &Value, pod: &Value) -> bool {
    let selector = &budget["spec"]["selector"];
    !selector.is_null() && LabelSelector::from_object(selector).is_some_and(|selector| selector.matches(pod))
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn spares_unhealthy(budget: &Value) -> bool {
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        || (number("desiredHealthy") > 0 && number("currentHealthy") >= number("desiredHealthy"))
}

/// Returns the budget with one disruption less, and with the pod in its status.
fn decrement(call: &Call, budget: &Value) -> Result<Value, ApiError> {
    let name = metadata::text(budget, "name");
    let status = &budget["status"];
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    let refuse = |why: &str| Err(ApiError::forbidden("policy", "poddisruptionbudget", name, why));
    // The status belongs to an older spec. The client must wait for the disruption controller.
    if number("observedGeneration") < budget["metadata"]["generation"].as_i64().unwrap_or(0) {
        return Err(still_processed(name));
    }
    if number("disruptionsAllowed") < 0 {
        return refuse("pdb disruptions allowed is negative");
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > MAX_DISRUPTED) {
        return refuse("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if number("disruptionsAllowed") == 0 {
        let (current, desired) = (number("currentHealthy"), number("desiredHealthy"));
        let why = if current <= desired {
            format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently")
        } else {
            format!("The disruption budget {name} does not allow evicting pods currently")
        };
        return Err(violated(why));
    }
    let now = json!(call.cluster.clock.now_seconds());
    let mut spent = budget.clone();
    let status = &mut spent["status"];
    let left = number("disruptionsAllowed") - 1;
    status["disruptionsAllowed"] = json!(left);
    if left == 0 {
        disallow(status, &budget["metadata"]["generation"], &now);
    }
    if !status["disruptedPods"].is_object() {
        status["disruptedPods"] = json!({});
    }
    status["disruptedPods"][&call.path.name] = now;
    Ok(spent)
}

/// Sets the condition that no more pods may be evicted.
fn disallow(status: &mut Value, generation: &Value, now: &Value) {
    const KIND: &str = "DisruptionAllowed";
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else {
        return;
    };
    let old = conditions.iter().position(|condition| condition["type"] == KIND);
    let time = match old {
        Some(at) if conditions[at]["status"] == "False" => conditions[at]["lastTransitionTime"].clone(),
        _ => now.clone(),
    };
    let condition = json!({
        "type": KIND, "status": "False", "observedGeneration": generation, "lastTransitionTime": time,
        "reason": "InsufficientPods", "message": "",
    });
    match old {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

/// Stores a changed budget; returns `false` if it changed meanwhile.
fn put_status(
    call: &Call,
    served: &Arc<ServedKind>,
    key: &Key,
    revision: u64,
    old: &Value,
    mut new: Value,
) -> bool {
    writer::track_as(&call.cluster, served, "kube-apiserver", "status", Some(old), &mut new);
    let change = Change::Put(served.document(&new));
    let done = call.cluster.commit_unguarded(served.storage(), key, Some(revision), change);
    !matches!(done, Err(Refused::Conflict))
}

fn violated(why: String) -> ApiError {
    let cause = Cause { reason: "DisruptionBudget", message: why, field: String::new() };
    ApiError::new(429, "TooManyRequests", VIOLATED).with_causes(vec![cause])
}

fn still_processed(budget: &str) -> ApiError {
    violated(format!("The disruption budget {budget} is still being processed by the server."))
        .with_retry_after(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_condition_of_an_eviction_keeps_the_time_at_which_it_became_true() {
        let mut status = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        set_disruption_target(&mut status, "2026-01-01T00:00:00Z");
        set_disruption_target(&mut status, "2026-01-01T00:00:09Z");
        assert_eq!(
            status["conditions"],
            json!([
                {"type": "Ready", "status": "True"},
                {
                    "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
                    "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting",
                },
            ])
        );
        status["conditions"][1]["status"] = json!("False");
        set_disruption_target(&mut status, "2026-01-01T00:00:09Z");
        assert_eq!(status["conditions"][1]["lastTransitionTime"], "2026-01-01T00:00:09Z");
    }
}
