//! VolumeAttachments, whose status is reported by drivers.

use serde_json::Value;

use super::builtin_kind::BuiltinKind;
use super::shared::fields::within;
use super::shared::pod_spec;
use crate::kind::STATUS_METADATA;

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

    fn status_keeps(&self) -> &'static [&'static str] {
        &STATUS_METADATA
    }

    fn resets(&self, subresource: &str) -> Option<&'static [&'static str]> {
        (subresource == "status").then_some(&["metadata", "spec"])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
