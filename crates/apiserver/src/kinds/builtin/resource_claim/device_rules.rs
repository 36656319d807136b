//! Validation of device requests in claims and claim templates, and of device classes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use kube_apimachinery::cel::{
    Environment, ObjectType, SizeSchema, Type, estimated_cost, expression_type, result_type_name,
};
use kube_apimachinery::go;
use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use crate::kinds::builtin::shared::field_checks::{csi_driver, duplicate, invalid_text, too_long, too_many};
use crate::kinds::builtin::shared::fields::{list, text};
use crate::kinds::builtin::shared::label_selector::invalid;
use crate::kinds::builtin::webhook_configuration::compilation_error;

const MAX_ITEMS: usize = 32;
const MAX_ALTERNATIVES: usize = 8;
/// Maximum length in bytes of an expression, and of a driver's parameters.
const MAX_LENGTH: usize = 10 << 10;
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];
/// Maximum length of an attribute's name without its domain.
const MAX_ID: usize = 32;

/// Maximum estimated cost of an expression, in the units of CEL's cost model.
const MAX_COST: u64 = 1_000_000;
/// Maximum length of a driver's name, and of an attribute's domain. The cost estimate assumes these maxima.
const DOMAIN: u64 = 63;
/// Maximum length of an attribute's value.
const ATTRIBUTE: u64 = 64;
/// Maximum number of attributes of a device, and of its capacities.
const ATTRIBUTES: u64 = 32;

/// CEL environment of expressions that select devices.
static DEVICES: LazyLock<Environment> =
    LazyLock::new(|| Environment::new(vec![(VARIABLE, Type::Object(&DEVICE))]).with_bindings());
const VARIABLE: &str = "device";

/// Maximum sizes of a device's fields, for the cost estimate.
static SIZES: LazyLock<SizeSchema> = LazyLock::new(|| {
    let by_domain = |values: SizeSchema| SizeSchema::map(SizeSchema::value(DOMAIN), values, ATTRIBUTES);
    let by_name = |values: SizeSchema| SizeSchema::map(SizeSchema::value(MAX_ID as u64), values, ATTRIBUTES);
    SizeSchema::object(vec![
        ("driver", SizeSchema::value(DOMAIN)),
        ("allowMultipleAllocations", SizeSchema::value(1)),
        ("attributes", by_domain(by_name(SizeSchema::value(ATTRIBUTE)).with_keys())),
        ("capacity", by_domain(by_name(SizeSchema::value(0)))),
    ])
});

static DEVICE: ObjectType = ObjectType {
    name: "kubernetes.DRADevice",
    field: |name| {
        let map = |values: Type| Type::Map(Box::new(Type::String), Box::new(values));
        // The outer map is by domain, the inner one by name. The types of attributes are known only at run time.
        match name {
            "driver" => Some(Type::String),
            "attributes" => Some(map(map(Type::Dyn))),
            "capacity" => Some(map(map(Type::QUANTITY))),
            "allowMultipleAllocations" => Some(Type::Bool),
            _ => None,
        }
    },
};

/// Names of the requests of a claim, each with the names of its alternatives (subrequests).
pub(super) type RequestNames<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

pub(super) fn request_names(devices: &Value) -> RequestNames<'_> {
    let of = |request| {
        let alternatives = list(request, "firstAvailable").iter();
        (text(request, "name"), alternatives.map(|request| text(request, "name")).collect())
    };
    list(devices, "requests").iter().map(of).collect()
}

/// Validates the devices that a claim requests, at `path`.
pub(super) fn validate_devices(devices: &Value, path: &str) -> Vec<FieldError> {
    let requests = list(devices, "requests");
    let names = request_names(devices);
    let mut errors = set(
        requests,
        MAX_ITEMS,
        &format!("{path}.requests"),
        |request| text(request, "name"),
        validate_request,
    );
    let constraint = |constraint: &Value, path: &str| validate_constraint(constraint, path, &names);
    errors.extend(items(list(devices, "constraints"), MAX_ITEMS, &format!("{path}.constraints"), constraint));
    let config = |config: &Value, path: &str| {
        let mut errors = validate_references(config, path, &names);
        errors.extend(validate_config(config, path));
        errors
    };
    errors.extend(items(list(devices, "config"), MAX_ITEMS, &format!("{path}.config"), config));
    errors
}

/// Validates the spec of a device class.
pub(super) fn validate_class(spec: &Value) -> Vec<FieldError> {
    const NAME: &str = "extendedResourceName";
    let mut errors = items(list(spec, "selectors"), MAX_ITEMS, "spec.selectors", validate_selector);
    errors.extend(items(list(spec, "config"), MAX_ITEMS, "spec.config", validate_config));
    if let Some(name) = spec[NAME].as_str().filter(|name| !is_extended_resource(name)) {
        errors.push(invalid_text(format!("spec.{NAME}"), name, "must be a valid extended resource name"));
    }
    errors
}

/// Whether a name is that of an extended resource: outside of Kubernetes' own domains, without the prefix that quotas use, and still valid
/// with that prefix.
fn is_extended_resource(name: &str) -> bool {
    // Quotas limit extended resources under the prefix `requests.`, so the prefixed name must be a valid name too.
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    !is_native && !name.starts_with("requests.") && names::qualified(&format!("requests.{name}")).is_empty()
}

/// Validates a list of at most `max` items. The items of a longer list are not validated.
pub(super) fn items(
    items: &[Value],
    max: usize,
    path: &str,
    validate: impl Fn(&Value, &str) -> Vec<FieldError>,
) -> Vec<FieldError> {
    if items.len() > max {
        return vec![too_many(path, items.len(), max)];
    }
    items.iter().enumerate().flat_map(|(index, item)| validate(item, &format!("{path}[{index}]"))).collect()
}

/// Like [`items`], but also checks that the items have different keys.
pub(super) fn set<'a>(
    given: &'a [Value],
    max: usize,
    path: &str,
    key: impl Fn(&'a Value) -> &'a str,
    validate: impl Fn(&Value, &str) -> Vec<FieldError>,
) -> Vec<FieldError> {
    let mut errors = items(given, max, path, validate);
    let mut seen = BTreeSet::new();
    // The items of a list that is too long are not compared either.
    for (index, item) in given.iter().enumerate().take_while(|_| given.len() <= max) {
        let key = key(item);
        if !seen.insert(key) {
            errors.push(duplicate(format!("{path}[{index}]"), key));
        }
    }
    errors
}

/// Validates a field whose value is a DNS label.
pub(super) fn label(object: &Value, field: &str, path: &str) -> Vec<FieldError> {
    let name = text(object, field);
    invalid(&format!("{path}.{field}"), name, &names::label(name))
}

fn validate_request(request: &Value, path: &str) -> Vec<FieldError> {
    const ONE: &str = "exactly one of `exactly` or `firstAvailable` is required";
    let alternatives = list(request, "firstAvailable");
    let exact = &request["exactly"];
    let mut errors = label(request, "name", path);
    match (exact.is_null(), alternatives.is_empty()) {
        (true, true) => errors.push(FieldError::required(path, ONE)),
        (false, false) => {
            // kube-apiserver shows nil instead of the request.
            errors.push(FieldError::invalid(path, "null", &format!("{ONE}, but multiple fields are set")));
        }
        (false, true) => errors.extend(validate_exact(exact, &format!("{path}.exactly"))),
        (true, false) => {
            let alternative = |request: &Value, path: &str| {
                let mut errors = label(request, "name", path);
                errors.extend(validate_exact(request, path));
                errors
            };
            let path = format!("{path}.firstAvailable");
            errors.extend(set(
                alternatives,
                MAX_ALTERNATIVES,
                &path,
                |request| text(request, "name"),
                alternative,
            ));
        }
    }
    errors
}

fn validate_exact(request: &Value, path: &str) -> Vec<FieldError> {
    let class = text(request, "deviceClassName");
    let field = format!("{path}.deviceClassName");
    let mut errors = if class.is_empty() {
        vec![FieldError::required(field, "")]
    } else {
        invalid(&field, class, &names::subdomain(class))
    };
    errors.extend(items(
        list(request, "selectors"),
        MAX_ITEMS,
        &format!("{path}.selectors"),
        validate_selector,
    ));
    // In Go, the number is not a pointer, so zero means absent.
    let count = request["count"].as_i64().unwrap_or_default();
    let count_error = |why: &str| FieldError::invalid(format!("{path}.count"), &count.to_string(), why);
    match text(request, "allocationMode") {
        "All" if count != 0 => {
            errors.push(count_error("must not be specified when allocationMode is 'All'"));
        }
        "ExactCount" if count <= 0 => errors.push(count_error("must be greater than zero")),
        "All" | "ExactCount" => {}
        other => {
            let field = format!("{path}.allocationMode");
            errors.push(FieldError::not_supported(field, other, &["All", "ExactCount"]));
        }
    }
    for (index, toleration) in list(request, "tolerations").iter().enumerate() {
        errors.extend(validate_toleration(toleration, &format!("{path}.tolerations[{index}]")));
    }
    errors
}

fn validate_selector(selector: &Value, path: &str) -> Vec<FieldError> {
    let (cel, field) = (&selector["cel"], format!("{path}.cel.expression"));
    if cel.is_null() {
        return vec![FieldError::required(format!("{path}.cel"), "")];
    }
    let expression = text(cel, "expression");
    if expression.len() > MAX_LENGTH {
        return vec![too_long(field, MAX_LENGTH)];
    }
    let why = match expression_type(expression, &DEVICES, &[]) {
        Ok(None) => return Vec::new(),
        // The cost is estimated only for an expression that compiles.
        Ok(Some(Type::Bool | Type::Dyn)) => {
            let cost = estimated_cost(expression, &DEVICES, VARIABLE, &SIZES);
            let is_expensive = cost.is_some_and(|cost| cost > MAX_COST);
            return is_expensive
                .then(|| FieldError::forbidden(field, "too complex, exceeds cost limit"))
                .into_iter()
                .collect();
        }
        Ok(Some(of)) => {
            format!("must evaluate to bool or the unknown type, not {}", result_type_name(&of))
        }
        Err(why) => why,
    };
    vec![compilation_error(field, expression, &why)]
}

fn validate_toleration(toleration: &Value, path: &str) -> Vec<FieldError> {
    let [key, operator, value, effect] =
        ["key", "operator", "value", "effect"].map(|field| text(toleration, field));
    let place = |field: &str| format!("{path}.{field}");
    let mut errors = Vec::new();
    // Unlike in tolerations of pods, an empty key does not require the operator `Exists`.
    if !key.is_empty() {
        errors.extend(invalid(&place("key"), key, &names::qualified(key)));
    }
    match operator {
        "Exists" if !value.is_empty() => {
            errors.push(invalid_text(place("value"), value, "must be empty for operator `Exists`"));
        }
        "Exists" => {}
        "Equal" => errors.extend(invalid(&place("value"), value, &names::label_value(value))),
        "" => errors.push(FieldError::required(place("operator"), "")),
        other => errors.push(FieldError::not_supported(place("operator"), other, &["Equal", "Exists"])),
    }
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        errors.push(FieldError::not_supported(place("effect"), effect, &EFFECTS));
    }
    errors
}

/// Validates a taint of a device.
pub(super) fn validate_taint(taint: &Value, path: &str) -> Vec<FieldError> {
    let [key, value, effect] = ["key", "value", "effect"].map(|field| text(taint, field));
    let place = |field: &str| format!("{path}.{field}");
    let mut errors = invalid(&place("key"), key, &names::qualified(key));
    if !value.is_empty() {
        errors.extend(invalid(&place("value"), value, &names::label_value(value)));
    }
    if effect.is_empty() {
        errors.push(FieldError::required(place("effect"), ""));
    } else if !EFFECTS.contains(&effect) {
        errors.push(FieldError::not_supported(place("effect"), effect, &EFFECTS));
    }
    errors
}

/// Validates the conditions that allow or prevent the binding of a pod to a device's node.
pub(super) fn validate_bindings(device: &Value, path: &str) -> Vec<FieldError> {
    const FIELDS: [&str; 2] = ["bindingConditions", "bindingFailureConditions"];
    const MAX_CONDITIONS: usize = 4;
    let place = |field: &str| format!("{path}.{field}");
    let name = |name: &Value, path: &str| {
        let name = name.as_str().unwrap_or_default();
        invalid(path, name, &names::qualified(name))
    };
    let [conditions, failures] = FIELDS.map(|field| list(device, field));
    let mut errors = Vec::new();
    for field in FIELDS {
        errors.extend(items(list(device, field), MAX_CONDITIONS, &place(field), name));
    }
    for field in FIELDS {
        let mut seen = BTreeSet::new();
        for (index, condition) in list(device, field).iter().enumerate() {
            let (condition, path) =
                (condition.as_str().unwrap_or_default(), format!("{path}.{field}[{index}]"));
            if !seen.insert(condition) {
                errors.push(duplicate(&*path, condition));
            }
            if field == FIELDS[1] && conditions.iter().any(|other| other == condition) {
                let why = "bindingFailureConditions must not overlap with bindingConditions";
                errors.push(invalid_text(path, condition, why));
            }
        }
    }
    // The scheduler waits for the conditions of one list, and gives up at those of the other. One list without the other is useless.
    for (field, other, is_missing) in [
        (FIELDS[0], FIELDS[1], conditions.is_empty() && !failures.is_empty()),
        (FIELDS[1], FIELDS[0], failures.is_empty() && !conditions.is_empty()),
    ] {
        if is_missing {
            let shown = if device[field].is_null() { "null" } else { "[]" };
            errors.push(FieldError::invalid(
                place(field),
                shown,
                &format!("{field} are required to use {other}"),
            ));
        }
    }
    errors
}

fn validate_constraint(constraint: &Value, path: &str, names: &RequestNames<'_>) -> Vec<FieldError> {
    let mut errors = validate_references(constraint, path, names);
    let attribute = |field: &str| constraint[field].as_str().map(|name| (name, format!("{path}.{field}")));
    match attribute("matchAttribute").or_else(|| attribute("distinctAttribute")) {
        None => {
            // kube-apiserver uses the wrong text: here no field is set.
            let why = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
            errors.push(FieldError::required(path, why));
        }
        Some((name, field)) => {
            errors.extend(qualified_name(name, &field));
            if !name.contains('/') {
                let why = "a fully qualified name must be a domain and a name separated by a slash";
                errors.push(invalid_text(field, name, why));
            }
        }
    }
    errors
}

/// Validates the references to requests in a constraint or a configuration.
pub(super) fn validate_references(object: &Value, path: &str, names: &RequestNames<'_>) -> Vec<FieldError> {
    let reference =
        |name: &Value, path: &str| validate_reference(name.as_str().unwrap_or_default(), path, names);
    let requests = list(object, "requests");
    let path = format!("{path}.requests");
    set(requests, MAX_ITEMS, &path, |name| name.as_str().unwrap_or_default(), reference)
}

/// Validates a reference to a request, `REQUEST`, or to one of its alternatives, `REQUEST/ALTERNATIVE`.
pub(super) fn validate_reference(name: &str, path: &str, names: &RequestNames<'_>) -> Vec<FieldError> {
    const WHY: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    let parts: Vec<&str> = name.splitn(3, '/').collect();
    let is_known = match *parts.as_slice() {
        [request] => names.contains_key(request),
        [request, alternative] => {
            names.get(request).is_some_and(|alternatives| alternatives.contains(alternative))
        }
        _ => return vec![invalid_text(path, name, WHY)],
    };
    let mut errors: Vec<FieldError> =
        parts.iter().flat_map(|part| invalid(path, part, &names::label(part))).collect();
    if !is_known {
        errors.push(invalid_text(path, name, WHY));
    }
    errors
}

/// Validates a configuration for a driver.
pub(super) fn validate_config(config: &Value, path: &str) -> Vec<FieldError> {
    let opaque = &config["opaque"];
    if opaque.is_null() {
        return vec![FieldError::required(format!("{path}.opaque"), "")];
    }
    let mut errors = csi_driver(text(opaque, "driver"), &format!("{path}.opaque.driver"));
    errors.extend(validate_parameters(&opaque["parameters"], &format!("{path}.opaque.parameters")));
    errors
}

/// Validates a JSON object that only the driver interprets.
pub(super) fn validate_parameters(parameters: &Value, field: &str) -> Option<FieldError> {
    if parameters.is_null() {
        Some(FieldError::required(field, ""))
    } else if go::json(parameters).len() > MAX_LENGTH {
        Some(too_long(field, MAX_LENGTH))
    } else if !parameters.is_object() {
        Some(invalid_text(field, "<value omitted>", "must be a valid JSON object"))
    } else {
        None
    }
}

/// Validates the name of an attribute or a capacity, with an optional domain before it.
pub(super) fn qualified_name(name: &str, field: &str) -> Vec<FieldError> {
    match *name.splitn(3, '/').collect::<Vec<_>>().as_slice() {
        [name] => identifier(name, field),
        [domain, name] => {
            let mut errors = match domain {
                "" => vec![invalid_text(field, "", "the domain must not be empty")],
                domain => csi_driver(domain, field),
            };
            errors.extend(match name {
                "" => vec![invalid_text(field, "", "the name must not be empty")],
                name => identifier(name, field),
            });
            errors
        }
        // kube-apiserver does not handle names with more parts, so they are valid.
        _ => Vec::new(),
    }
}

fn identifier(name: &str, field: &str) -> Vec<FieldError> {
    const WHY: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric \
                       characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is \
                       '[A-Za-z_][A-Za-z0-9_]*')";
    let mut errors = Vec::new();
    if name.len() > MAX_ID {
        errors.push(too_long(field, MAX_ID));
    }
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
    if !name.starts_with(is_start) || !name.chars().all(|c| is_start(c) || c.is_ascii_digit()) {
        errors.push(invalid_text(field, name, WHY));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Computed by `CompileCELExpression` of k8s.io/dynamic-resource-allocation v0.36.3.
    const COSTS: &[(u64, &str)] = &[
        (0, "true"),
        (4, "device.driver == 'dra.example.com'"),
        (3, "device.driver.startsWith('dra.')"),
        (5, "device.attributes['dra.example.com'].model == 'a'"),
        (6, "device.attributes['dra.example.com'].version.isGreaterThan(semver('1.0.0'))"),
        (4, "device.attributes['dra.example.com'].shared"),
        (18, "device.attributes['dra.example.com'].name.matches('^a.*b$')"),
        (7, "device.capacity['dra.example.com'].memory.compareTo(quantity('1Gi')) >= 0"),
        (6, "device.capacity['dra.example.com'].memory == quantity('1Gi')"),
        (7, "'dra.example.com' in device.attributes && 'x' in device.attributes['dra.example.com']"),
        (195, "device.attributes.exists(d, d == 'a')"),
        (5_379, "device.attributes.all(d, device.attributes[d].all(n, n == 'a'))"),
        (10_499, "device.attributes.all(d, device.attributes[d].all(n, device.attributes[d][n] == 'a'))"),
        (
            9_707_715,
            "device.attributes.all(d, device.attributes.all(e, device.attributes[d].all(n, device.attributes[e].all(m, n == m))))",
        ),
        (
            409_213_187,
            "device.attributes.all(d, device.attributes[d].all(n, device.attributes.all(e, device.attributes[e].all(m, device.attributes.all(f, f == d)))))",
        ),
        (1_306, "device.attributes['a'].map(s, s.lowerAscii()).map(s, s.lowerAscii()).exists(s, s == 'x')"),
        (1_050, "device.attributes['a'].map(s, s).map(s, s).exists(s, s == 'x')"),
        (18, "device.attributes['a'].s.lowerAscii().contains('abc')"),
        (39, "device.attributes['dra.example.com'].services.lowerAscii().matches('^(.*(a|b|c)+.*)$')"),
        (356, "device.capacity['a'].exists(k, device.capacity['a'][k].isGreaterThan(quantity('1')))"),
        (11_523, "device.capacity.all(d, device.capacity[d].all(n, device.capacity[d][n] == quantity('1')))"),
        (8, "has(device.attributes['a'].b) && device.attributes['a'].b == 5"),
        (5, "device.allowMultipleAllocations == true || device.allowMultipleAllocations"),
        (6, "device.attributes['a'].?b.orValue('x') == 'c'"),
    ];

    #[test]
    fn estimates_are_those_of_kube_apiserver() {
        for (cost, text) in COSTS {
            assert_eq!(estimated_cost(text, &DEVICES, VARIABLE, &SIZES), Some(*cost), "{text}");
        }
    }

    #[test]
    fn expensive_selectors_are_refused() {
        let check = |text: &str| {
            let errors = validate_selector(&json!({"cel": {"expression": text}}), "s");
            errors.into_iter().map(|error| format!("{}: {}", error.field, error.message)).collect::<Vec<_>>()
        };
        let of_all = |inner: &str| format!("device.attributes.all(d, device.attributes[d].all(n, {inner}))");
        assert!(check(&of_all("device.attributes[d][n] == 'a'")).is_empty());
        let expensive = of_all(&of_all("true").replace("d,", "e,").replace("[d]", "[e]"));
        assert_eq!(check(&expensive), ["s.cel.expression: Forbidden: too complex, exceeds cost limit"]);
    }
}
