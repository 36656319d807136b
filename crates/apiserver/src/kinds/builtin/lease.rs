//! Leases.

use serde_json::Value;

use super::builtin_kind::BuiltinKind;
use crate::kind::WriteContext;

/// Fields of coordinated leader election, a feature that kube-apiserver has switched off by default.
const OF_FEATURE: [&str; 2] = ["preferredHolder", "strategy"];

#[derive(Debug)]
pub(super) struct Lease;

impl BuiltinKind for Lease {
    fn prepare_create(&self, _context: &WriteContext<'_>, lease: &mut Value) {
        drop_fields(&Value::Null, lease);
    }

    fn prepare_update(&self, _context: &WriteContext<'_>, old: &Value, lease: &mut Value) {
        drop_fields(old, lease);
    }
}

/// Drops the fields that the lease does not have already.
fn drop_fields(old: &Value, lease: &mut Value) {
    if let Some(spec) = lease.get_mut("spec").and_then(Value::as_object_mut) {
        spec.retain(|field, _| !OF_FEATURE.contains(&field.as_str()) || !old["spec"][field].is_null());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_coordinated_leader_election_are_dropped() {
        let mut lease = json!({"spec": {"holderIdentity": "a", "preferredHolder": "b", "strategy": "c"}});
        let old = json!({"spec": {"strategy": "x"}});
        drop_fields(&old, &mut lease);
        assert_eq!(lease, json!({"spec": {"holderIdentity": "a", "strategy": "c"}}));
        drop_fields(&Value::Null, &mut lease);
        assert_eq!(lease, json!({"spec": {"holderIdentity": "a"}}));
    }
}
