//! VolumeAttachments, whose status is reported by drivers.

use super::builtin_kind::BuiltinKind;
use crate::kind::STATUS_METADATA;

#[derive(Debug)]
pub(super) struct VolumeAttachment;

impl BuiltinKind for VolumeAttachment {
    fn status_keeps(&self) -> &'static [&'static str] {
        &STATUS_METADATA
    }

    fn resets(&self, subresource: &str) -> Option<&'static [&'static str]> {
        (subresource == "status").then_some(&["metadata", "spec"])
    }
}
