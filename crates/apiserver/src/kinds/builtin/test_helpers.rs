//! Helpers for the tests of builtin kinds.

use std::cell::RefCell;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kind::WriteContext;
use crate::kind::registry::ServedKind;
use crate::user::UserInfo;

/// Returns a builtin kind by name. If two versions have it, the first in discovery order counts.
pub(super) fn served_kind(kind: &str) -> Arc<ServedKind> {
    let registry = super::registry();
    let found = registry.all().find(|served| served.resource.kind == kind);
    Arc::clone(found.unwrap_or_else(|| panic!("{kind} is not a builtin kind")))
}

/// Checks the errors of a new object, or of the new state of `old`.
pub(super) fn check(kind: &str, new: &Value, old: Option<&Value>, expected: &[&str]) {
    let served = served_kind(kind);
    let errors = match old {
        None => served.strategy.validate_create(&served, new),
        Some(old) => served.strategy.validate_update(&served, old, new, ""),
    };
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors, expected, "{kind}: {old:?} to {new}");
}

/// Checks the errors of a write of `/status`.
pub(super) fn check_status(kind: &str, old: &Value, new: &Value, expected: &[&str]) {
    let served = served_kind(kind);
    let errors = served.strategy.validate_update(&served, old, new, "status");
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors, expected, "{kind}: {old} to {new}");
}

/// Checks the errors of an update, and that an update without changes has none.
pub(super) fn check_update(kind: &str, old: &Value, new: &Value, expected: &[&str]) {
    check(kind, new, Some(old), expected);
    check(kind, old, Some(old), &[]);
    check(kind, new, Some(new), &[]);
}

/// Sets all defaults of a kind, and checks that setting them again changes nothing.
pub(super) fn default(kind: &str, object: &mut Value) {
    let served = served_kind(kind);
    served.strategy.default(&served, object);
    let once = object.clone();
    served.strategy.default(&served, object);
    assert_eq!(*object, once, "defaults change nothing that they set");
}

/// Checks the defaults of a workload's spec, without its template.
pub(super) fn workload_defaults(kind: &str, spec: &Value, expected: &Value) {
    let mut object = json!({ "metadata": {"name": "x"}, "spec": spec });
    default(kind, &mut object);
    let mut got = object["spec"].take();
    got.as_object_mut().unwrap().remove("template");
    assert_eq!(got, *expected);
}

/// Sets defaults and server-set fields in a new object.
pub(super) fn prepare_create(kind: &str, object: &mut Value) {
    let served = served_kind(kind);
    served.strategy.default(&served, object);
    served.strategy.prepare_create(&served, &context(&UserInfo::new("jane", "", ["devs"])), object);
}

/// Sets server-set fields in the new state of an object.
pub(super) fn prepare_update(kind: &str, old: &Value, new: &mut Value) {
    let served = served_kind(kind);
    served.strategy.prepare_update(&served, &context(&UserInfo::new("jane", "", ["devs"])), old, new, "");
}

fn context(user: &UserInfo) -> WriteContext<'_> {
    WriteContext { user, now: Timestamp::UNIX_EPOCH, warnings: RefCell::default() }
}
