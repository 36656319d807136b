//! ServiceCIDRs.

use super::builtin_kind::BuiltinKind;
use crate::kind::STATUS_METADATA;

#[derive(Debug)]
pub(super) struct ServiceCIDR;

impl BuiltinKind for ServiceCIDR {
    fn status_keeps(&self) -> &'static [&'static str] {
        &STATUS_METADATA
    }

    fn resets(&self, subresource: &str) -> Option<&'static [&'static str]> {
        (subresource == "status").then_some(&["metadata", "spec"])
    }
}
