//! PersistentVolumeClaims.

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{put, set, set_pointer, text, within};
use super::shared::{amounts, pod_spec};
use crate::kind::WriteContext;
use crate::kind::resource::Resource;

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
        // kube-apiserver resets the status here, and sets the phase when it reads the stored claim. Validating webhooks therefore see a
        // claim without a phase.
        claim["status"] = json!({});
        prepare_sources(&Value::Null, claim);
    }

    fn default_stored(&self, claim: &mut Value) -> bool {
        within(claim, "status", |status| set(status, "phase", json!("Pending")));
        true
    }

    fn prepare_update(&self, _context: &WriteContext<'_>, old: &Value, new: &mut Value) {
        prepare_sources(&old["spec"], new);
    }

    fn warnings(&self, _resource: &Resource, claim: &Value, _old: Option<&Value>) -> Vec<String> {
        const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
        let mut warnings = Vec::new();
        if claim["metadata"]["annotations"].get(CLASS).is_some() {
            let why = "deprecated since v1.8; use \"storageClassName\" attribute instead";
            warnings.push(format!("metadata.annotations[{CLASS}]: {why}"));
        }
        warnings.extend(pod_spec::claim_fractions(&claim["spec"], "spec"));
        warnings
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        old.and_then(|old| validate_update(old, new)).into_iter().collect()
    }
}

/// Prepares the source of the contents: `dataSource` and its successor `dataSourceRef` are made equal. Sources that older servers did not
/// know are dropped from `dataSource`, and sources in other namespaces, which need a disabled feature, from `dataSourceRef`.
fn prepare_sources(old: &Value, claim: &mut Value) {
    let Some(spec) = claim.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    let is_elsewhere = |source: &Value| !text(source, "namespace").is_empty();
    if old["dataSourceRef"].is_null() && is_elsewhere(&spec["dataSourceRef"]) {
        put(spec, "dataSourceRef", Value::Null);
    }
    // A claim that has a source keeps it, even if an older client omits `dataSourceRef` from an update.
    let is_known = match (text(&spec["dataSource"], "kind"), text(&spec["dataSource"], "apiGroup")) {
        ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io") => true,
        _ => !old["dataSource"].is_null() || !old["dataSourceRef"].is_null(),
    };
    // A client that sets `dataSourceRef` does not expect that unknown sources are dropped.
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

/// Checks changes of the spec. Once the claim is bound, only the storage request and the attributes class may change.
fn validate_update(old: &Value, new: &Value) -> Option<FieldError> {
    let (mut before, mut after) = (old["spec"].clone(), new["spec"].clone());
    // A claim is bound by setting its volume name.
    if text(&before, "volumeName").is_empty() {
        put(&mut before, "volumeName", after["volumeName"].clone());
    }
    if old["status"]["phase"] == "Bound" {
        put(&mut after, "volumeAttributesClassName", before["volumeAttributesClassName"].clone());
        // As in Go, the new request counts as the old one, which is zero if there is none.
        if let Some(requests) =
            after.pointer_mut("/resources/requests").filter(|requests| requests.is_object())
        {
            requests["storage"] = match &before["resources"]["requests"]["storage"] {
                Value::Null => json!("0"),
                request => request.clone(),
            };
        }
    }
    // A null counts as an absent field.
    for spec in [&mut before, &mut after] {
        for field in ["volumeName", "volumeAttributesClassName"] {
            let value = spec[field].take();
            put(spec, field, value);
        }
    }
    (before != after).then(|| {
        let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        FieldError::forbidden("spec", why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin::test_helpers::check_update;

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
                "spec": {"resources": {"requests": {"storage": size}}, "volumeName": volume},
                "status": {"phase": phase},
            })
        };
        let why = "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName \
                   for bound claims";
        let check = |old: Value, new: Value, expected: &[&str]| {
            check_update("PersistentVolumeClaim", &old, &new, expected);
        };
        check(claim("Pending", "1Gi", None), claim("Pending", "2Gi", None), &[why]);
        check(claim("Bound", "1Gi", Some("v")), claim("Bound", "2Gi", Some("v")), &[]);
        check(claim("Pending", "1Gi", None), claim("Pending", "1Gi", Some("v")), &[]);
        check(claim("Bound", "1Gi", Some("v")), claim("Bound", "1Gi", Some("w")), &[why]);
    }

    /// Clients cannot create such claims, but a data file may contain them.
    #[test]
    fn a_bound_claim_without_requests_gets_none() {
        let claim =
            |resources: Value| json!({"spec": {"resources": resources}, "status": {"phase": "Bound"}});
        let all = [Value::Null, json!({}), json!({"requests": {}}), json!({"requests": {"storage": "1Gi"}})];
        let accepted =
            |old: &Value, new: &Value| validate_update(&claim(old.clone()), &claim(new.clone())).is_none();
        for (index, resources) in all.iter().enumerate() {
            assert_eq!(accepted(resources, resources), index != 2, "{resources}");
            assert_eq!(accepted(resources, &all[3]), index == 3, "{resources}");
        }
    }
}
