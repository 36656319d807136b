//! Validation of the fields that decide on which node a pod runs: tolerations, affinity, topology spread.

use std::collections::BTreeSet;

use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::GatedValues;
use crate::kinds::builtin::shared::field_checks::{duplicate, invalid_text, supported};
use crate::kinds::builtin::shared::fields::{list, text};
use crate::kinds::builtin::shared::label_selector::{self, invalid};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const ACTIONS: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Whether the values of a node selector's expressions must be label values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LabelValues {
    Checked,
    /// For preferences. kube-apiserver only warns about other values there.
    Unchecked,
}

/// Validates the tolerations of a pod spec, or of another object with the field.
pub(in crate::kinds::builtin) fn tolerations(
    spec: &Value,
    path: &str,
    gated: GatedValues,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, toleration) in list(spec, "tolerations").iter().enumerate() {
        let path = format!("{path}.tolerations[{index}]");
        let [key, operator, value, effect] =
            ["key", "operator", "value", "effect"].map(|field| text(toleration, field));
        let field = format!("{path}.operator");
        if !key.is_empty() {
            errors.extend(invalid(&format!("{path}.key"), key, &names::qualified(key)));
        } else if operator != "Exists" {
            let why =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(invalid_text(&*field, operator, why));
        }
        if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(invalid_text(format!("{path}.effect"), effect, why));
        }
        match operator {
            // Go's internal type has no default for the operator; empty means `Equal`.
            "Equal" | "" => {
                let wrong = names::label_value(value);
                if !wrong.is_empty() {
                    errors.push(invalid_text(field, value, &wrong.join(";")));
                }
            }
            "Exists" if !value.is_empty() => {
                errors.push(invalid_text(field, value, "value must be empty when `operator` is 'Exists'"));
            }
            "Exists" => {}
            "Lt" | "Gt" if gated.comparisons => {
                let why = compared_number(value).err();
                errors.extend(why.map(|why| invalid_text(format!("{path}.value"), value, why)));
            }
            // Nevertheless the message names comparisons as supported.
            "Lt" | "Gt" => {
                errors.push(FieldError::not_supported(field, operator, &["Equal", "Exists", "Lt", "Gt"]));
            }
            _ => errors.push(FieldError::not_supported(field, operator, &["Equal", "Exists"])),
        }
        if !effect.is_empty() {
            errors.extend(supported(toleration, "effect", &path, &EFFECTS));
        }
    }
    errors
}

/// Checks the value of a toleration that compares: a decimal integer in the only form that Go's `content.IsDecimalInteger` accepts, within
/// 64 bits.
///
/// # Errors
/// The reason why it is none.
fn compared_number(value: &str) -> Result<(), &'static str> {
    let digits = value.strip_prefix('-').unwrap_or(value);
    let is_canonical = value == "0"
        || (digits.starts_with(|c: char| ('1'..='9').contains(&c))
            && digits.bytes().all(|byte| byte.is_ascii_digit()));
    match value {
        "" => Err("must be non-empty"),
        _ if is_canonical && value.parse::<i64>().is_ok() => Ok(()),
        _ => Err("must be a valid decimal integer in canonical form"),
    }
}

/// Validates the affinity of a pod to nodes and other pods.
pub(super) fn affinity(spec: &Value, path: &str) -> Vec<FieldError> {
    let affinity = &spec["affinity"];
    let path = format!("{path}.affinity");
    let mut errors = Vec::new();
    let nodes = &affinity["nodeAffinity"];
    if !nodes[REQUIRED].is_null() {
        errors.extend(node_selector(&nodes[REQUIRED], &format!("{path}.nodeAffinity.{REQUIRED}")));
    }
    for (index, term) in list(nodes, PREFERRED).iter().enumerate() {
        let path = format!("{path}.nodeAffinity.{PREFERRED}[{index}]");
        errors.extend(weight(term, &path));
        errors.extend(node_selector_term(
            &term["preference"],
            LabelValues::Unchecked,
            &format!("{path}.preference"),
        ));
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let pods = &affinity[kind];
        for (index, term) in list(pods, REQUIRED).iter().enumerate() {
            errors.extend(pod_term(term, &format!("{path}.{kind}.{REQUIRED}[{index}]")));
        }
        for (index, term) in list(pods, PREFERRED).iter().enumerate() {
            let path = format!("{path}.{kind}.{PREFERRED}[{index}]");
            errors.extend(weight(term, &path));
            errors.extend(pod_term(&term["podAffinityTerm"], &format!("{path}.podAffinityTerm")));
        }
    }
    errors
}

fn weight(term: &Value, path: &str) -> Option<FieldError> {
    let weight = term["weight"].as_i64().unwrap_or_default();
    (!(1..=100).contains(&weight)).then(|| {
        FieldError::invalid(format!("{path}.weight"), &weight.to_string(), "must be in the range 1-100")
    })
}

/// Validates a node selector.
pub(in crate::kinds::builtin) fn node_selector(selector: &Value, path: &str) -> Vec<FieldError> {
    let path = format!("{path}.nodeSelectorTerms");
    let terms = list(selector, "nodeSelectorTerms");
    if terms.is_empty() {
        return vec![FieldError::required(path, "must have at least one node selector term")];
    }
    let check = |(index, term): (usize, &Value)| {
        node_selector_term(term, LabelValues::Checked, &format!("{path}[{index}]"))
    };
    terms.iter().enumerate().flat_map(check).collect()
}

fn node_selector_term(term: &Value, values: LabelValues, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // A term without expressions is valid; it matches no node.
    for (index, expression) in list(term, "matchExpressions").iter().enumerate() {
        errors.extend(node_expression(expression, values, &format!("{path}.matchExpressions[{index}]")));
    }
    for (index, expression) in list(term, "matchFields").iter().enumerate() {
        errors.extend(node_field(expression, &format!("{path}.matchFields[{index}]")));
    }
    errors
}

fn node_expression(expression: &Value, checked: LabelValues, path: &str) -> Vec<FieldError> {
    let (operator, values) = (text(expression, "operator"), list(expression, "values"));
    let field = format!("{path}.values");
    let mut errors = Vec::new();
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let why = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(&*field, why));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&*field, why));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(FieldError::required(&*field, why));
        }
        // kube-apiserver does not check that the value for `Gt` and `Lt` is a number.
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => {
            let field = format!("{path}.operator");
            errors.push(invalid_text(field, operator, "not a valid selector operator"));
        }
    }
    let key = text(expression, "key");
    errors.extend(invalid(&format!("{path}.key"), key, &names::qualified(key)));
    if checked == LabelValues::Checked {
        for (index, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            errors.extend(invalid(&format!("{field}[{index}]"), value, &names::label_value(value)));
        }
    }
    errors
}

fn node_field(expression: &Value, path: &str) -> Vec<FieldError> {
    let (operator, values) = (text(expression, "operator"), list(expression, "values"));
    let mut errors = Vec::new();
    if !["In", "NotIn"].contains(&operator) {
        let why = "not a valid selector operator";
        errors.push(invalid_text(format!("{path}.operator"), operator, why));
    } else if values.len() != 1 {
        let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
        errors.push(FieldError::required(format!("{path}.values"), why));
    }
    if text(expression, "key") == "metadata.name" {
        for (index, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            errors.extend(invalid(&format!("{path}.values[{index}]"), value, &names::subdomain(value)));
        }
    } else {
        let why = "not a valid field selector key";
        errors.push(invalid_text(format!("{path}.key"), text(expression, "key"), why));
    }
    errors
}

/// Validates a term of pod affinity or anti-affinity.
fn pod_term(term: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for selector in ["labelSelector", "namespaceSelector"] {
        errors.extend(label_selector::validate(&term[selector], &format!("{path}.{selector}")));
    }
    for name in list(term, "namespaces") {
        let name = name.as_str().unwrap_or_default();
        // kube-apiserver's path has the singular, without an index.
        errors.extend(invalid(&format!("{path}.namespace"), name, &names::label(name)));
    }
    errors.extend(label_keys(term, path));
    let (key, field) = (text(term, "topologyKey"), format!("{path}.topologyKey"));
    if key.is_empty() {
        errors.push(FieldError::required(&*field, "can not be empty"));
    }
    errors.extend(invalid(&field, key, &names::qualified(key)));
    errors
}

/// Validates `matchLabelKeys` and `mismatchLabelKeys`.
fn label_keys(term: &Value, path: &str) -> Vec<FieldError> {
    let keys = |field: &str| -> Vec<&str> { list(term, field).iter().filter_map(Value::as_str).collect() };
    let (matching, other) = (keys("matchLabelKeys"), keys("mismatchLabelKeys"));
    let selector = &term["labelSelector"];
    let mut errors = Vec::new();
    for (field, keys) in [("matchLabelKeys", &matching), ("mismatchLabelKeys", &other)] {
        let field = format!("{path}.{field}");
        if selector.is_null() && !keys.is_empty() {
            let why = "must not be specified when labelSelector is not set";
            errors.push(FieldError::forbidden(field, why));
            continue;
        }
        for (index, key) in keys.iter().enumerate() {
            errors.extend(invalid(&format!("{field}[{index}]"), key, &names::qualified(key)));
        }
    }
    // Before validation, kube-apiserver adds an expression to a pod's selector for each of `matchLabelKeys`. If a key occurs twice, the
    // client wrote one of the expressions, which is an error. Keys of `mismatchLabelKeys` may occur twice: their expressions exclude a
    // single value, so the client's expression can restrict the selector further.
    let mut selected: BTreeSet<&str> =
        selector["matchLabels"].as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    for expression in list(selector, "matchExpressions") {
        let key = text(expression, "key");
        // The last index of a key counts.
        let index = matching.iter().rposition(|matching| *matching == key);
        if let Some(index) = index.filter(|_| selected.contains(key)) {
            let why = "exists in both matchLabelKeys and labelSelector";
            errors.push(invalid_text(format!("{path}[{index}]"), key, why));
        }
        selected.insert(key);
    }
    for (index, key) in matching.iter().enumerate().filter(|(_, key)| other.contains(key)) {
        let why = "exists in both matchLabelKeys and mismatchLabelKeys";
        errors.push(invalid_text(format!("{path}.matchLabelKeys[{index}]"), key, why));
    }
    errors
}

/// Validates topology spread constraints.
pub(super) fn spread(spec: &Value, path: &str) -> Vec<FieldError> {
    let constraints = list(spec, "topologySpreadConstraints");
    let mut errors = Vec::new();
    for (index, constraint) in constraints.iter().enumerate() {
        let path = format!("{path}.topologySpreadConstraints[{index}]");
        let (key, action) = (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
        let positive = |field: &str| {
            let number = constraint[field].as_i64().unwrap_or_default();
            let place = format!("{path}.{field}");
            (number <= 0)
                .then(|| FieldError::invalid(place, &number.to_string(), "must be greater than zero"))
        };
        errors.extend(positive("maxSkew"));
        if key.is_empty() {
            errors.push(FieldError::required(format!("{path}.topologyKey"), "can not be empty"));
        }
        if !ACTIONS.contains(&action) {
            errors.push(FieldError::not_supported(format!("{path}.whenUnsatisfiable"), action, &ACTIONS));
        }
        let is_same =
            |other: &&Value| text(other, "topologyKey") == key && text(other, "whenUnsatisfiable") == action;
        // kube-apiserver reports a repetition at the earlier constraint.
        if constraints.iter().skip(index + 1).any(|other| is_same(&other)) {
            let field = format!("{path}.{{topologyKey, whenUnsatisfiable}}");
            errors.push(duplicate(field, &format!("{{{key}, {action}}}")));
        }
        if !constraint["minDomains"].is_null() {
            errors.extend(positive("minDomains"));
            if action != "DoNotSchedule" {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                let number = constraint["minDomains"].to_string();
                errors.push(FieldError::invalid(format!("{path}.minDomains"), &number, &why));
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            errors.extend(supported(constraint, field, &path, &["Honor", "Ignore"]));
        }
        errors.extend(label_keys(constraint, &path));
        errors
            .extend(label_selector::validate(&constraint["labelSelector"], &format!("{path}.labelSelector")));
    }
    errors
}
