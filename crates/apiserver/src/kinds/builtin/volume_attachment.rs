//! VolumeAttachments. CSI drivers report whether the volume is attached in the status.

use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::builtin_kind::BuiltinKind;
use super::persistent_volume::{VolumeUse, validate_spec};
use super::shared::field_checks::{csi_driver, too_long};
use super::shared::fields::{text, within};
use super::shared::immutable_fields::immutable_struct;
use super::shared::label_selector::invalid;
use super::shared::pod_spec;
use crate::kind::STATUS_METADATA;
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct VolumeAttachment;

impl BuiltinKind for VolumeAttachment {
    fn default(&self, attachment: &mut Value) {
        within(attachment, "spec", |spec| {
            within(spec, "source", |source| {
                within(source, "inlineVolumeSpec", pod_spec::default_volume_sources);
            });
        });
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        const WHY: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
        const SOURCE: &str = "spec.source";
        let spec = &new["spec"];
        let mut errors = csi_driver(text(spec, "attacher"), "spec.attacher");
        let source = &spec["source"];
        let volume = source["persistentVolumeName"].as_str();
        match (volume, source["inlineVolumeSpec"].is_null()) {
            (None, true) => errors.push(FieldError::required(SOURCE, WHY)),
            (Some(_), false) => errors.push(FieldError::forbidden(SOURCE, WHY)),
            (Some(""), true) => {
                let why = "must specify non empty persistentVolumeName";
                errors.push(FieldError::required(format!("{SOURCE}.persistentVolumeName"), why));
            }
            (None, false) => {
                let path = format!("{SOURCE}.inlineVolumeSpec");
                errors.extend(validate_spec(&source["inlineVolumeSpec"], &path, VolumeUse::Inline));
            }
            _ => {}
        }
        let node = text(spec, "nodeName");
        errors.extend(invalid("spec.nodeName", node, &names::subdomain(node)));
        errors.extend(validate_status(&new["status"]));
        if let Some(volume) = volume {
            errors.extend(invalid("spec.source.persistentVolumeName", volume, &names::subdomain(volume)));
        }
        errors.extend(
            old.and_then(|old| immutable_struct("spec", "storage.VolumeAttachmentSpec", &old["spec"], spec)),
        );
        errors
    }

    fn validate_subresource(&self, subresource: &str, _old: &Value, new: &Value) -> Vec<FieldError> {
        if subresource == "status" { validate_status(&new["status"]) } else { Vec::new() }
    }

    fn status_keeps(&self) -> &'static [&'static str] {
        &STATUS_METADATA
    }

    fn resets(&self, subresource: &str) -> Option<&'static [&'static str]> {
        (subresource == "status").then_some(&["metadata", "spec"])
    }
}

/// Validates the status that a driver reports.
fn validate_status(status: &Value) -> Vec<FieldError> {
    const MAX_METADATA: usize = 256 << 10;
    const MAX_MESSAGE: usize = 1024;
    const METADATA: &str = "status.attachmentMetadata";
    let mut errors = Vec::new();
    let metadata = status["attachmentMetadata"].as_object().into_iter().flatten();
    let size: usize = metadata.map(|(key, value)| key.len() + value.as_str().unwrap_or_default().len()).sum();
    if size > MAX_METADATA {
        errors.push(too_long(METADATA, MAX_METADATA));
    }
    for field in ["attachError", "detachError"] {
        let (error, path) = (&status[field], format!("status.{field}"));
        if text(error, "message").len() > MAX_MESSAGE {
            // kube-apiserver's error names the limit of the metadata, not that of the message.
            errors.push(too_long(format!("{path}.message"), MAX_METADATA));
        }
        if let Some(code) = error["errorCode"].as_i64().filter(|code| *code < 0) {
            let why = "must be between 0 and 2147483647, inclusive";
            errors.push(FieldError::invalid(format!("{path}.errorCode"), &code.to_string(), why));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::builtin::test_helpers::check;

    /// Texts of kube-apiserver v1.36.3, observed or read in its source.
    #[test]
    fn an_attachment_has_one_source_and_stays() {
        check(
            "VolumeAttachment",
            &json!({"spec": {"nodeName": "n", "source": {}}}),
            None,
            &[
                "spec.attacher: Required value",
                "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName",
            ],
        );
        let attachment = |node: &str| json!({"spec": {"attacher": "a", "nodeName": node, "source": {"persistentVolumeName": "p"}}});
        check(
            "VolumeAttachment",
            &attachment("m"),
            Some(&attachment("n")),
            &[
                "spec: Invalid value: {\"Attacher\":\"a\",\"Source\":{\"PersistentVolumeName\":\"p\",\"InlineVolumeSpec\":null},\"NodeName\":\"m\"}: field is immutable",
            ],
        );
    }

    #[test]
    fn the_source_of_an_inline_volume_has_defaults() {
        let mut attachment =
            json!({"spec": {"source": {"inlineVolumeSpec": {"hostPath": {}, "rbd": {"pool": ""}}}}});
        VolumeAttachment.default(&mut attachment);
        assert_eq!(
            attachment["spec"]["source"]["inlineVolumeSpec"],
            json!({
                "hostPath": {"type": ""},
                "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
            })
        );
    }
}
