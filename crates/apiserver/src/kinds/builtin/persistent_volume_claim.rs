//! PersistentVolumeClaims.

use kube_apimachinery::go;
use kube_apimachinery::go_struct::internal_diff;
use kube_apimachinery::names;
use kube_apimachinery::quantity::Quantity;
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::persistent_volume::access_modes;
use super::shared::amounts::Amounts;
use super::shared::field_checks::{invalid_text, required, supported};
use super::shared::fields::{list, put, set, set_pointer, text, within};
use super::shared::immutable_fields::{IMMUTABLE, immutable};
use super::shared::label_selector::{self, invalid};
use super::shared::{amounts, pod_spec};
use crate::kind::WriteContext;
use crate::kind::resource::Resource;

/// Annotation that named the storage class before the field `storageClassName` existed.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Finalizer that protects claims in use.
pub(crate) const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";

#[derive(Debug)]
pub(super) struct PersistentVolumeClaim;

impl BuiltinKind for PersistentVolumeClaim {
    fn default(&self, claim: &mut Value) {
        within(claim, "spec", |spec| {
            set_pointer(spec, "volumeMode", json!("Filesystem"));
            within(spec, "resources", amounts::round_resources);
        });
        within(claim, "status", |status| {
            set(status, "phase", json!("Pending"));
            amounts::round_fields(status, &["capacity", "allocatedResources"]);
        });
    }

    fn prepare_create(&self, _context: &WriteContext<'_>, claim: &mut Value) {
        // kube-apiserver resets the status here, and sets the phase only when it reads the stored claim. Validating webhooks therefore
        // receive a claim without a phase.
        claim["status"] = json!({});
        prepare_sources(&Value::Null, claim);
    }

    /// Always true: `prepare_create` has reset the status, so every new claim lacks the phase.
    fn default_stored(&self, claim: &mut Value) -> bool {
        within(claim, "status", |status| set(status, "phase", json!("Pending")));
        true
    }

    fn prepare_update(&self, _context: &WriteContext<'_>, old: &Value, new: &mut Value) {
        prepare_sources(&old["spec"], new);
    }

    fn warnings(&self, _resource: &Resource, claim: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if claim["metadata"]["annotations"].get(CLASS).is_some() {
            let why = "deprecated since v1.8; use \"storageClassName\" attribute instead";
            warnings.push(format!("metadata.annotations[{CLASS}]: {why}"));
        }
        warnings.extend(pod_spec::claim_fractions(&claim["spec"], "spec"));
        warnings
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = validate_spec(&new["spec"], old.map_or(&Value::Null, |old| &old["spec"]));
        errors.extend(old.into_iter().flat_map(|old| validate_update(old, new)));
        errors
    }

    fn validate_subresource(&self, subresource: &str, _old: &Value, new: &Value) -> Vec<FieldError> {
        if subresource == "status" { validate_status(&new["status"]) } else { Vec::new() }
    }
}

/// Validates the status of a claim.
fn validate_status(status: &Value) -> Vec<FieldError> {
    const STATES: [&str; 5] = [
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
        "NodeResizePending",
    ];
    const RESIZES: &str = "status.allocatedResourceStatuses";
    let mut errors = Vec::new();
    let negative = |amount: Quantity, field: &str| {
        let number = amount.rounded_up().to_string();
        (amount < Quantity::ZERO)
            .then(|| FieldError::invalid(field, &number, "must be a valid resource quantity"))
    };
    for (name, amount) in Amounts::read(&status["capacity"]).iter() {
        errors.extend(negative(amount, &format!("status.capacity[{name}]")));
    }
    for (name, state) in status["allocatedResourceStatuses"].as_object().into_iter().flatten() {
        errors.extend(resource_name(name, RESIZES));
        if !STATES.contains(&state.as_str().unwrap_or_default()) {
            // kube-apiserver shows the name instead of the state.
            errors.push(FieldError::not_supported(RESIZES, name, &STATES));
        }
    }
    for (name, amount) in Amounts::read(&status["allocatedResources"]).iter() {
        let of_name = resource_name(name, "status.allocatedResources");
        if of_name.is_empty() {
            let field = format!("status.allocatedResources[{name}]");
            errors.extend(negative(amount, &field));
        }
        errors.extend(of_name);
    }
    errors
}

/// Validates the name of a resource of a claim: `storage`, or a name outside of Kubernetes' own domains.
fn resource_name(name: &str, field: &str) -> Vec<FieldError> {
    let wrong = names::qualified(name);
    if !wrong.is_empty() {
        return invalid(field, name, &wrong);
    }
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    if is_native && name != "storage" {
        return vec![FieldError::not_supported(field, name, &["storage"])];
    }
    Vec::new()
}

/// Makes `dataSource` and its successor `dataSourceRef` agree on the source of the contents. Before that, sources of kinds that older
/// servers did not support are dropped from `dataSource`, and sources in other namespaces, whose feature gate is off, from `dataSourceRef`.
fn prepare_sources(old: &Value, claim: &mut Value) {
    let Some(spec) = claim.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    let is_elsewhere = |source: &Value| !text(source, "namespace").is_empty();
    // The feature gate is `CrossNamespaceVolumeDataSource`.
    if old["dataSourceRef"].is_null() && is_elsewhere(&spec["dataSourceRef"]) {
        put(spec, "dataSourceRef", Value::Null);
    }
    // A claim whose old state has a source keeps its source, even if an older client omits `dataSourceRef` from the update.
    let is_known = match (text(&spec["dataSource"], "kind"), text(&spec["dataSource"], "apiGroup")) {
        ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io") => true,
        _ => !old["dataSource"].is_null() || !old["dataSourceRef"].is_null(),
    };
    // A client that sets `dataSourceRef` uses the newer rules, by which unsupported kinds are not dropped.
    if spec["dataSourceRef"].is_null() && !is_known {
        put(spec, "dataSource", Value::Null);
    }
    let (source, reference) = (spec["dataSource"].clone(), spec["dataSourceRef"].clone());
    if reference.is_null() && source.is_object() {
        put(spec, "dataSourceRef", source);
    } else if source.is_null() && reference.is_object() && !is_elsewhere(&reference) {
        let mut source = reference;
        put(&mut source, "namespace", Value::Null);
        put(spec, "dataSource", source);
    }
}

/// Validates the spec of a claim; `old` is the spec before an update, or null. If a source of the old spec has a group, groups are not
/// validated again.
pub(super) fn validate_spec(spec: &Value, old: &Value) -> Vec<FieldError> {
    // kube-apiserver's path lacks `requests`.
    const STORAGE: &str = "spec.resources[storage]";
    let mut errors = Vec::new();
    if list(spec, "accessModes").is_empty() {
        errors.push(FieldError::required("spec.accessModes", "at least 1 access mode is required"));
    }
    errors.extend(label_selector::validate(&spec["selector"], "spec.selector"));
    errors.extend(access_modes(spec, "spec"));
    match spec["resources"]["requests"]["storage"].as_str().and_then(Quantity::read) {
        None => errors.push(FieldError::required(STORAGE, "")),
        Some(amount) if amount <= Quantity::ZERO => {
            errors.push(invalid_text(STORAGE, &amount.to_string(), "must be greater than zero"));
        }
        Some(_) => {}
    }
    errors.extend(class(spec, "storageClassName"));
    errors.extend(supported(spec, "volumeMode", "spec", &["Block", "Filesystem"]));
    const SOURCES: [&str; 2] = ["dataSource", "dataSourceRef"];
    let accepts_any_group = SOURCES.iter().any(|field| !old[*field]["apiGroup"].is_null());
    for field in SOURCES.into_iter().filter(|field| !spec[*field].is_null()) {
        errors.extend(data_source(&spec[field], &format!("spec.{field}"), accepts_any_group));
    }
    let (source, reference) = (&spec["dataSource"], &spec["dataSourceRef"]);
    let is_same = |field: &str| source[field] == reference[field];
    if source.is_object() && reference.is_object() {
        // kube-apiserver passes the path where the value belongs. A path has no exported fields, so the message shows `{}`.
        let refuse = |why: &str| FieldError::invalid("spec", "{}", why);
        if !text(reference, "namespace").is_empty() {
            errors.push(refuse("may not be specified when dataSourceRef.namespace is specified"));
        } else if !["apiGroup", "kind", "name"].into_iter().all(is_same) {
            errors.push(refuse("must match dataSourceRef"));
        }
    }
    errors.extend(class(spec, "volumeAttributesClassName"));
    errors
}

/// Validates the name of a class, if it is not empty.
fn class(spec: &Value, field: &str) -> Vec<FieldError> {
    match text(spec, field) {
        "" => Vec::new(),
        name => invalid(&format!("spec.{field}"), name, &names::subdomain(name)),
    }
}

/// Validates the reference to the object from which a volume gets its contents.
fn data_source(source: &Value, path: &str, accepts_any_group: bool) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> =
        ["name", "kind"].iter().filter_map(|field| required(source, field, path)).collect();
    let (group, kind) = (text(source, "apiGroup"), text(source, "kind"));
    if group.is_empty() {
        if kind != "PersistentVolumeClaim" {
            let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            errors.push(invalid_text(path, kind, why));
        }
    } else if !accepts_any_group {
        errors.extend(invalid(&format!("{path}.apiGroup"), group, &names::subdomain(group)));
    }
    let namespace = text(source, "namespace");
    if !namespace.is_empty() {
        errors.extend(invalid(&format!("{path}.namespace"), namespace, &names::label(namespace)));
    }
    errors
}

/// Checks changes of the class and the spec. The class may move from the annotation to the field, or be set once. Of a bound claim, only
/// the storage request and the attributes class may change, and of an unbound claim only the volume name.
fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let (mut before, mut after) = (old["spec"].clone(), new["spec"].clone());
    let mut errors = Vec::new();
    let annotated = |claim: &Value| claim["metadata"]["annotations"][CLASS].as_str().map(str::to_owned);
    let (annotation, annotation_now) = (annotated(old), annotated(new));
    let class = after["storageClassName"].as_str().filter(|_| before["storageClassName"].is_null());
    let is_kept = annotation_now.is_none() || annotation_now == annotation;
    let is_moved = annotation.is_some() && class == annotation.as_deref() && is_kept;
    if !is_moved && annotation != annotation_now {
        let shown = go::quote(&annotation_now.unwrap_or_default());
        errors.push(FieldError::invalid(format!("metadata.annotations.{CLASS}"), &shown, IMMUTABLE));
    }
    if class.is_some() && (annotation.is_none() || class == annotation.as_deref()) {
        put(&mut after, "storageClassName", Value::Null);
    }
    // Setting the volume name binds the claim.
    if text(&before, "volumeName").is_empty() {
        put(&mut before, "volumeName", after["volumeName"].clone());
    }
    if old["status"]["phase"] == "Bound" {
        put(&mut after, "volumeAttributesClassName", before["volumeAttributesClassName"].clone());
        // As in Go, the comparison replaces the new request with the old one. Without an old request, Go's map yields zero.
        if let Some(requests) =
            after.pointer_mut("/resources/requests").filter(|requests| requests.is_object())
        {
            requests["storage"] = match &before["resources"]["requests"]["storage"] {
                Value::Null => json!("0"),
                request => request.clone(),
            };
        }
    }
    // Null and an absent field are equal for Go: `put` removes the field if the value is null.
    for spec in [&mut before, &mut after] {
        for field in ["volumeName", "volumeAttributesClassName", "storageClassName"] {
            let value = spec[field].take();
            put(spec, field, value);
        }
    }
    if before != after {
        let diff = internal_diff("core.PersistentVolumeClaimSpec", &before, &after);
        let why = format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{diff}"
        );
        errors.push(FieldError::forbidden("spec", &why));
    }
    errors.extend(smaller_request(old, new));
    // kube-apiserver's path lacks `spec`.
    errors.extend(immutable("", &old["spec"], &new["spec"], &["volumeMode"]));
    errors.extend(removed_class(old, new));
    errors
}

/// Checks that a reduced request still exceeds the volume's capacity. This allows a client to take back an expansion that failed.
fn smaller_request(old: &Value, new: &Value) -> Option<FieldError> {
    let amount =
        |amounts: &Value| amounts["storage"].as_str().and_then(Quantity::read).unwrap_or(Quantity::ZERO);
    let requested = |claim: &Value| amount(&claim["spec"]["resources"]["requests"]);
    let is_refused = requested(new) < requested(old) && requested(new) <= amount(&old["status"]["capacity"]);
    is_refused.then(|| {
        let why = "field can not be less than status.capacity";
        FieldError::forbidden("spec.resources.requests.storage", why)
    })
}

/// Checks that the attributes class of a claim is not removed while the volume has one.
fn removed_class(old: &Value, new: &Value) -> Option<FieldError> {
    const FIELD: &str = "volumeAttributesClassName";
    let class = &new["spec"][FIELD];
    if old["spec"][FIELD] == *class || old["status"]["currentVolumeAttributesClassName"].is_null() {
        return None;
    }
    let removed = match class.as_str() {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return None,
    };
    let why =
        format!("update to {removed} is forbidden when status.currentVolumeAttributesClassName is not nil");
    Some(FieldError::forbidden(format!("spec.{FIELD}"), &why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin::test_helpers::{check_status, check_update};

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn a_status_is_validated() {
        let claim = |status: Value| json!({"spec": {"accessModes": ["ReadWriteOnce"]}, "status": status});
        let check = |status: Value, error: &str| {
            check_status("PersistentVolumeClaim", &claim(json!({})), &claim(status), &[error]);
        };
        check(
            json!({"capacity": {"storage": "-1"}}),
            "status.capacity[storage]: Invalid value: -1: must be a valid resource quantity",
        );
        check(
            json!({"allocatedResources": {"x": "1"}}),
            "status.allocatedResources: Unsupported value: \"x\": supported values: \"storage\"",
        );
        check(
            json!({"allocatedResourceStatuses": {"storage": "a b"}}),
            "status.allocatedResourceStatuses: Unsupported value: \"storage\": supported values: \"ControllerResizeInProgress\", \
             \"ControllerResizeInfeasible\", \"NodeResizeInProgress\", \"NodeResizeInfeasible\", \"NodeResizePending\"",
        );
    }

    #[test]
    fn both_fields_name_the_same_source() {
        let prepared = |spec: Value| {
            let mut claim = json!({ "spec": spec });
            prepare_sources(&Value::Null, &mut claim);
            claim["spec"].take()
        };
        let claim = json!({"kind": "PersistentVolumeClaim", "name": "a"});
        assert_eq!(
            prepared(json!({"dataSource": claim})),
            json!({"dataSource": claim, "dataSourceRef": claim})
        );
        assert_eq!(
            prepared(json!({"dataSourceRef": claim})),
            json!({"dataSource": claim, "dataSourceRef": claim})
        );
        let other = json!({"apiGroup": "example.com", "kind": "Backup", "name": "a"});
        assert_eq!(prepared(json!({"dataSource": other})), json!({}));
        assert_eq!(
            prepared(json!({"dataSourceRef": other})),
            json!({"dataSource": other, "dataSourceRef": other})
        );
        let elsewhere = json!({"kind": "PersistentVolumeClaim", "name": "a", "namespace": "b"});
        assert_eq!(prepared(json!({"dataSourceRef": elsewhere})), json!({}));
    }

    #[test]
    fn a_bound_claim_may_grow() {
        let claim = |phase: &str, size: &str, volume: Option<&str>| {
            json!({
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, "volumeName": volume},
                "status": {"phase": phase},
            })
        };
        let why = |diff: &str| {
            format!(
                "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for \
                 bound claims\n{diff}"
            )
        };
        // Recorded from kube-apiserver v1.36.3.
        let grown = why(
            "@@ -6,7 +6,7 @@\n  \"Resources\": {\n   \"Limits\": null,\n   \"Requests\": {\n-   \"storage\": \"1Gi\"\n+   \
             \"storage\": \"2Gi\"\n   }\n  },\n  \"VolumeName\": \"\",\n",
        );
        let moved = why(
            "@@ -9,7 +9,7 @@\n    \"storage\": \"1Gi\"\n   }\n  },\n- \"VolumeName\": \"v\",\n+ \"VolumeName\": \"w\",\n  \
             \"StorageClassName\": null,\n  \"VolumeMode\": null,\n  \"DataSource\": null,\n",
        );
        let check = |old: Value, new: Value, expected: &[&str]| {
            check_update("PersistentVolumeClaim", &old, &new, expected);
        };
        check(claim("Pending", "1Gi", None), claim("Pending", "2Gi", None), &[&*grown]);
        check(claim("Bound", "1Gi", Some("v")), claim("Bound", "2Gi", Some("v")), &[]);
        check(claim("Pending", "1Gi", None), claim("Pending", "1Gi", Some("v")), &[]);
        check(claim("Bound", "1Gi", Some("v")), claim("Bound", "1Gi", Some("w")), &[&*moved]);
        check_update(
            "PersistentVolumeClaim",
            &json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}, "status": {
                "phase": "Bound", "capacity": {"storage": "2Gi"},
            }}),
            &json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}, "status": {
                "phase": "Bound", "capacity": {"storage": "2Gi"},
            }}),
            &["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"],
        );
    }

    /// Texts of kube-apiserver v1.36.3, observed or read in its source.
    #[test]
    fn a_claim_has_access_modes_and_a_size() {
        let check = |spec: Value, expected: &[&str]| {
            crate::kinds::builtin::test_helpers::check(
                "PersistentVolumeClaim",
                &json!({ "spec": spec }),
                None,
                expected,
            );
        };
        check(
            json!({}),
            &[
                "spec.accessModes: Required value: at least 1 access mode is required",
                "spec.resources[storage]: Required value",
            ],
        );
        check(
            json!({
                "accessModes": ["ReadWriteOncePod", "ReadWriteOnce"], "resources": {"requests": {"storage": "0"}},
                "volumeMode": "X", "dataSource": {"kind": "K"}, "dataSourceRef": {"kind": "K"},
            }),
            &[
                "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
                "spec.resources[storage]: Invalid value: \"0\": must be greater than zero",
                "spec.volumeMode: Unsupported value: \"X\": supported values: \"Block\", \"Filesystem\"",
                "spec.dataSource.name: Required value",
                "spec.dataSource: Invalid value: \"K\": must be 'PersistentVolumeClaim' when referencing the default apiGroup",
                "spec.dataSourceRef.name: Required value",
                "spec.dataSourceRef: Invalid value: \"K\": must be 'PersistentVolumeClaim' when referencing the default apiGroup",
            ],
        );
    }

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn the_group_of_a_source_is_validated_until_one_is_stored() {
        let claim = |group: &str| {
            json!({
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
                "dataSourceRef": {"apiGroup": group, "kind": "K", "name": "a"},
            })
        };
        let errors = |old: &Value| validate_spec(&claim("-a"), old).len();
        assert_eq!(errors(&Value::Null), 1);
        assert_eq!(errors(&json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "a"}})), 1);
        assert_eq!(errors(&claim("example.com")), 0);
    }

    /// Clients cannot create such claims, but a data file may contain them.
    #[test]
    fn a_bound_claim_without_requests_gets_none() {
        let claim =
            |resources: Value| json!({"spec": {"resources": resources}, "status": {"phase": "Bound"}});
        let all = [Value::Null, json!({}), json!({"requests": {}}), json!({"requests": {"storage": "1Gi"}})];
        let accepted =
            |old: &Value, new: &Value| validate_update(&claim(old.clone()), &claim(new.clone())).is_empty();
        for (index, resources) in all.iter().enumerate() {
            assert_eq!(accepted(resources, resources), index != 2, "{resources}");
            assert_eq!(accepted(resources, &all[3]), index == 3, "{resources}");
        }
    }
}
