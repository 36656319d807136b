//! ComponentStatuses.

use super::builtin_kind::BuiltinKind;

#[derive(Debug)]
pub(super) struct ComponentStatus;

impl BuiltinKind for ComponentStatus {
    fn deprecation(&self) -> Option<&'static str> {
        Some("v1 ComponentStatus is deprecated in v1.19+")
    }
}
