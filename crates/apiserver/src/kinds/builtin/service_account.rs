//! ServiceAccounts.

use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use crate::kind::WriteContext;
use crate::kind::resource::Resource;

const MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

#[derive(Debug)]
pub(super) struct ServiceAccount;

impl BuiltinKind for ServiceAccount {
    fn warnings(&self, _resource: &Resource, account: &Value, old: Option<&Value>) -> Vec<String> {
        let has = |account: &Value| account["metadata"]["annotations"].get(MOUNTABLE_SECRETS).is_some();
        let is_new = has(account) && !old.is_some_and(has);
        let why = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets";
        is_new.then(|| format!("metadata.annotations[{MOUNTABLE_SECRETS}]: {why}")).into_iter().collect()
    }

    fn prepare_create(&self, _context: &WriteContext<'_>, account: &mut Value) {
        keep_names(account);
    }

    fn prepare_update(&self, _context: &WriteContext<'_>, _old: &Value, account: &mut Value) {
        keep_names(account);
    }
}

/// Reduces references to secrets to their names, the only field that counts.
fn keep_names(account: &mut Value) {
    let secrets = account.get_mut("secrets").and_then(Value::as_array_mut);
    for secret in secrets.into_iter().flatten() {
        *secret = match secret.get("name").filter(|name| *name != "") {
            Some(name) => json!({"name": name}),
            None => json!({}),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_to_secrets_are_names() {
        let mut account =
            json!({"secrets": [{"kind": "Secret", "name": "a", "namespace": "b"}, {"uid": "u"}]});
        keep_names(&mut account);
        assert_eq!(account, json!({"secrets": [{"name": "a"}, {}]}));
    }
}
