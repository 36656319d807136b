//! Plugin `LimitRanger`: applies the LimitRanges of a namespace to new pods and claims, and to resized pods.
//!
//! - Containers without a limit or a request get the default of the limits of type `Container`. The annotation `kubernetes.io/limit-ranger`
//!   records the defaults that were set.
//! - Each container must be within the limits of type `Container`, the sum of a pod within those of type `Pod`, and the request of
//!   a claim within those of type `PersistentVolumeClaim`: the minimum, the maximum, and except for claims the ratio of limit to request.
//! - If a write violates a LimitRange, it is refused with all violations of that LimitRange; the remaining LimitRanges are not checked.
//!
//! Amounts are compared in thousandths, rounded up.

use std::collections::BTreeSet;

use kube_apimachinery::metadata;
use kube_apimachinery::quantity::Quantity;
use kube_apimachinery::status::ApiError;
use serde_json::{Value, json};

use super::rules::WriteRule;
use super::{Attributes, Operation};
use crate::kinds::builtin::pod::resources::{self as pod_resources, AmountKind};
use crate::kinds::builtin::shared::amounts::Amounts;

/// Annotation that records which amounts were set.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

pub(super) struct LimitRanger;

impl WriteRule for LimitRanger {
    fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> Result<(), ApiError> {
        if limited(attributes) == Some(Limited::Pod) {
            for range in ranges(attributes) {
                set_defaults(&range, object);
            }
        }
        Ok(())
    }

    fn validate(&self, attributes: &Attributes<'_>, object: &Value) -> Result<(), ApiError> {
        let Some(limited) = limited(attributes) else {
            return Ok(());
        };
        for range in ranges(attributes) {
            let violations = match limited {
                Limited::Pod => pod_violations(&range, object),
                Limited::Claim => claim_violations(&range, object),
            };
            if !violations.is_empty() {
                return Err(attributes.forbidden(object, &aggregate(&violations)));
            }
        }
        Ok(())
    }
}

/// Objects to which limits apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limited {
    Pod,
    Claim,
}

/// Returns the kind of object with the limits that apply to a write; `None` if none do. The resources of a pod change only by `resize`.
fn limited(attributes: &Attributes<'_>) -> Option<Limited> {
    // The finalizers of an object that violates a newer limit must still be removable.
    if attributes.old.is_some_and(metadata::is_terminating) {
        return None;
    }
    if attributes.is_of("", "persistentvolumeclaims") {
        return Some(Limited::Claim);
    }
    let is_pod = attributes.is_below("", "pods");
    let applies = match attributes.operation {
        Operation::Create => attributes.subresource.is_empty(),
        Operation::Update => attributes.subresource == "resize",
        _ => false,
    };
    (is_pod && applies).then_some(Limited::Pod)
}

fn ranges(attributes: &Attributes<'_>) -> Vec<Value> {
    attributes.list("", "limitranges", attributes.namespace)
}

/// Returns the limits of a type in a LimitRange.
fn limits<'a>(range: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    elements(&range["spec"]["limits"]).filter(move |limit| limit["type"] == kind)
}

/// Sets the missing limits and requests of all containers of a pod.
fn set_defaults(range: &Value, pod: &mut Value) {
    let (mut requests, mut bounds) = (Amounts::default(), Amounts::default());
    // Of several limits with a default for a resource, the last one counts.
    for limit in limits(range, "Container") {
        for (name, amount) in Amounts::read(&limit["defaultRequest"]).iter() {
            requests.set(name, amount);
        }
        for (name, amount) in Amounts::read(&limit["default"]).iter() {
            bounds.set(name, amount);
        }
    }
    let mut set = Vec::new();
    for (list, what) in [("containers", "container"), ("initContainers", "init container")] {
        let containers =
            pod.get_mut("spec").and_then(|spec| spec.get_mut(list)).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            for (field, amounts, label) in [("requests", &requests, "request"), ("limits", &bounds, "limit")]
            {
                let added = complete(container, field, amounts);
                if !added.is_empty() {
                    set.push(format!("{} {label} for {what} {name}", added.join(", ")));
                }
            }
        }
    }
    if set.is_empty() {
        return;
    }
    let text = format!("LimitRanger plugin set: {}", set.join("; "));
    let annotations = metadata::of(pod).entry("annotations").or_insert_with(|| json!({}));
    if annotations.is_null() {
        *annotations = json!({});
    }
    annotations[ANNOTATION] = json!(text);
}

/// Sets the missing requests or limits of a container; returns their names.
fn complete(container: &mut Value, field: &str, amounts: &Amounts) -> Vec<String> {
    let own = Amounts::read(&container["resources"][field]);
    let missing = amounts.only(|name, _| own.get(name).is_none());
    if missing.is_empty() {
        return Vec::new();
    }
    if !container["resources"].is_object() {
        container["resources"] = json!({});
    }
    if !container["resources"][field].is_object() {
        container["resources"][field] = json!({});
    }
    for (name, amount) in missing.iter() {
        container["resources"][field][name] = json!(amount.to_string());
    }
    missing.names().map(str::to_owned).collect()
}

/// Returns the violations of a LimitRange by a pod.
fn pod_violations(range: &Value, pod: &Value) -> Vec<String> {
    let mut violations = Vec::new();
    for limit in elements(&range["spec"]["limits"]) {
        match limit["type"].as_str() {
            Some("Container") => {
                for list in ["containers", "initContainers"] {
                    for container in elements(&pod["spec"][list]) {
                        let resources = &container["resources"];
                        let requests = Amounts::read(&resources["requests"]);
                        violations.extend(outside(limit, &requests, &Amounts::read(&resources["limits"])));
                    }
                }
            }
            Some("Pod") => {
                let sums = [AmountKind::Requests, AmountKind::Limits]
                    .map(|bound| pod_resources::in_spec(pod, bound));
                violations.extend(outside(limit, &sums[0], &sums[1]));
            }
            _ => {}
        }
    }
    violations
}

/// Returns the violations of a LimitRange by a claim. Only the requests of a claim count.
fn claim_violations(range: &Value, claim: &Value) -> Vec<String> {
    let requests = Amounts::read(&claim["spec"]["resources"]["requests"]);
    let mut violations = Vec::new();
    for limit in limits(range, "PersistentVolumeClaim") {
        let check = LimitCheck { limit, requests: &requests, limits: &Amounts::default() };
        violations.extend(check.each("min", LimitCheck::below_minimum));
        violations.extend(check.each("max", LimitCheck::request_above_maximum));
    }
    violations
}

/// Returns the violations of a limit by a container or a pod.
fn outside(limit: &Value, requests: &Amounts, limits: &Amounts) -> Vec<String> {
    let check = LimitCheck { limit, requests, limits };
    let mut violations = check.each("min", LimitCheck::below_minimum);
    violations.extend(check.each("max", LimitCheck::above_maximum));
    violations.extend(check.each("maxLimitRequestRatio", LimitCheck::above_ratio));
    violations
}

/// Requests and limits to compare with a limit of a LimitRange.
struct LimitCheck<'a> {
    limit: &'a Value,
    requests: &'a Amounts,
    limits: &'a Amounts,
}

impl LimitCheck<'_> {
    /// Compares each amount in a field of the limit.
    fn each(&self, field: &str, compare: impl Fn(&Self, &str, Quantity) -> Option<String>) -> Vec<String> {
        let amounts = Amounts::read(&self.limit[field]);
        amounts.iter().filter_map(|(name, amount)| compare(self, name, amount)).collect()
    }

    fn kind(&self) -> &str {
        self.limit["type"].as_str().unwrap_or_default()
    }

    fn below_minimum(&self, name: &str, minimum: Quantity) -> Option<String> {
        let text = format!("minimum {name} usage per {} is {minimum}", self.kind());
        match (self.requests.get(name), self.limits.get(name)) {
            (None, _) => Some(format!("{text}.  No request is specified")),
            (Some(request), _) if request.millis() < minimum.millis() => {
                Some(format!("{text}, but request is {request}"))
            }
            (_, Some(limit)) if limit.millis() < minimum.millis() => {
                Some(format!("{text}, but limit is {limit}"))
            }
            _ => None,
        }
    }

    fn above_maximum(&self, name: &str, maximum: Quantity) -> Option<String> {
        let text = format!("maximum {name} usage per {} is {maximum}", self.kind());
        match (self.requests.get(name), self.limits.get(name)) {
            (_, None) => Some(format!("{text}.  No limit is specified")),
            (_, Some(limit)) if limit.millis() > maximum.millis() => {
                Some(format!("{text}, but limit is {limit}"))
            }
            (Some(request), _) if request.millis() > maximum.millis() => {
                Some(format!("{text}, but request is {request}"))
            }
            _ => None,
        }
    }

    fn request_above_maximum(&self, name: &str, maximum: Quantity) -> Option<String> {
        let text = format!("maximum {name} usage per {} is {maximum}", self.kind());
        match self.requests.get(name) {
            None => Some(format!("{text}.  No request is specified")),
            Some(request) if request.millis() > maximum.millis() => {
                Some(format!("{text}, but request is {request}"))
            }
            _ => None,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "the ratio is a float, as in kube-apiserver")]
    fn above_ratio(&self, name: &str, maximum: Quantity) -> Option<String> {
        let text = format!("{name} max limit to request ratio per {} is {maximum}", self.kind());
        // An amount of 0 counts as absent, because it has no ratio.
        let present = |amount: Option<Quantity>| amount.map(Quantity::millis).filter(|amount| *amount != 0);
        let Some(request) = present(self.requests.get(name)) else {
            return Some(format!("{text}, but no request is specified or request is 0"));
        };
        let Some(limit) = present(self.limits.get(name)) else {
            return Some(format!("{text}, but no limit is specified or limit is 0"));
        };
        let ratio = limit as f64 / request as f64;
        (ratio * 1000.0 > maximum.millis() as f64)
            .then(|| format!("{text}, but provided ratio is {ratio:.6}"))
    }
}

/// Joins messages like Go's aggregated errors: each once, in brackets if there are several.
fn aggregate(messages: &[String]) -> String {
    let mut seen = BTreeSet::new();
    let distinct: Vec<&str> =
        messages.iter().map(String::as_str).filter(|message| seen.insert(*message)).collect();
    match distinct.as_slice() {
        [one] => (*one).to_owned(),
        many => format!("[{}]", many.join(", ")),
    }
}

fn elements(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(limit: &Value) -> Value {
        json!({"spec": {"limits": [limit]}})
    }

    fn pod(requests: &Value, limits: &Value) -> Value {
        json!({"spec": {"containers": [{"name": "c", "resources": {"requests": requests, "limits": limits}}]}})
    }

    #[test]
    fn missing_amounts_are_set_and_recorded() {
        let limits = range(&json!({
            "type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "500m"},
        }));
        let mut pod = json!({"metadata": {}, "spec": {
            "containers": [{"name": "a"}, {"name": "b", "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}}],
            "initContainers": [{"name": "i", "resources": {"limits": {"cpu": "3", "memory": "1"}}}],
        }});
        set_defaults(&limits, &mut pod);
        assert_eq!(
            pod["metadata"]["annotations"][ANNOTATION],
            "LimitRanger plugin set: cpu request for container a; cpu, memory limit for container a; memory limit for \
             container b; cpu request for init container i"
        );
        assert_eq!(
            pod["spec"]["containers"][0]["resources"],
            json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "1Gi"}})
        );
        let again = pod.clone();
        set_defaults(&limits, &mut pod);
        assert_eq!(pod, again, "nothing is missing any more");
    }

    #[test]
    fn a_pod_with_all_amounts_is_unchanged() {
        let mut pod = json!({"metadata": {}, "spec": {"containers": [{"name": "a", "resources": {}}]}});
        let before = pod.clone();
        set_defaults(&range(&json!({"type": "Pod", "max": {"cpu": "1"}})), &mut pod);
        assert_eq!(pod, before);
    }

    #[test]
    fn containers_stay_within_their_limits() {
        let limits = range(&json!({
            "type": "Container", "min": {"cpu": "10m"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "10"},
        }));
        let cpu = |amount: &str| json!({ "cpu": amount });
        for (request, limit, violations) in [
            (cpu("1"), cpu("2"), &[][..]),
            (cpu("1m"), cpu("5m"), &["minimum cpu usage per Container is 10m, but request is 1m"]),
            (cpu("20m"), cpu("5m"), &["minimum cpu usage per Container is 10m, but limit is 5m"]),
            (cpu("1"), cpu("3"), &["maximum cpu usage per Container is 2, but limit is 3"]),
            (cpu("3"), cpu("2"), &["maximum cpu usage per Container is 2, but request is 3"]),
            (
                cpu("100m"),
                cpu("1001m"),
                &["cpu max limit to request ratio per Container is 10, but provided ratio is 10.010000"],
            ),
            (
                json!({}),
                json!({}),
                &[
                    "minimum cpu usage per Container is 10m.  No request is specified",
                    "maximum cpu usage per Container is 2.  No limit is specified",
                    "cpu max limit to request ratio per Container is 10, but no request is specified or request is 0",
                ],
            ),
            (
                cpu("1"),
                json!({}),
                &[
                    "maximum cpu usage per Container is 2.  No limit is specified",
                    "cpu max limit to request ratio per Container is 10, but no limit is specified or limit is 0",
                ],
            ),
        ] {
            assert_eq!(pod_violations(&limits, &pod(&request, &limit)), violations, "{request} {limit}");
        }
    }

    #[test]
    fn pods_are_limited_by_their_sums_and_claims_by_their_request() {
        let both = json!({"memory": "600Mi"});
        let mut two = pod(&both, &both);
        let copy = two["spec"]["containers"][0].clone();
        two["spec"]["containers"].as_array_mut().unwrap().push(copy);
        assert_eq!(
            pod_violations(&range(&json!({"type": "Pod", "max": {"memory": "1Gi"}})), &two),
            ["maximum memory usage per Pod is 1Gi, but limit is 1200Mi"]
        );
        let storage = range(
            &json!({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}),
        );
        let violations = |requests: Value| {
            claim_violations(&storage, &json!({"spec": {"resources": {"requests": requests}}}))
        };
        assert_eq!(violations(json!({"storage": "2Gi"})), [""; 0]);
        assert_eq!(
            violations(json!({"storage": "3Gi"})),
            ["maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"]
        );
        assert_eq!(
            violations(json!({"storage": "1"})),
            ["minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1"]
        );
    }

    #[test]
    fn messages_are_listed_once() {
        let message = |text: &str| text.to_owned();
        assert_eq!(aggregate(&[message("a"), message("a")]), "a");
        assert_eq!(aggregate(&[message("a"), message("b"), message("a")]), "[a, b]");
    }
}
