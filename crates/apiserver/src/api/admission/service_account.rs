//! Plugin `ServiceAccount`: the identity of new pods.
//!
//! - A pod without a service account gets the account `default` of its namespace. The account must exist. A controller creates `default` in
//!   new namespaces, so the plugin waits up to a second for it.
//! - In every container, a volume with a token of the account is mounted at [`MOUNT_PATH`], unless the container mounts another volume
//!   there. The pod, or else the account, can turn this off.
//! - A pod without image pull secrets gets those of its account.
//! - If an annotation of the account limits the secrets of its pods, a pod can only refer to secrets that the account lists.
//! - Mirror pods, which show the static pods of a node, refer neither to accounts nor to secrets.
//!
//! The plugin is on in profile `dev`, where a controller creates the accounts. It is off in profile `envtest`, as in controller-runtime's
//! envtest.

use std::collections::BTreeSet;

use futures::FutureExt;
use futures::future::ready;
use kube_apimachinery::metadata;
use kube_apimachinery::status::ApiError;
use serde_json::{Value, json};
use tokio::time::{Duration, timeout};

use super::{Attributes, MutatingPlugin, Operation, ValidatingPlugin, Verdict};
use crate::store::Key;

/// Account of pods that name none.
const DEFAULT: &str = "default";
/// Path at which containers find the token.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Prefix of the name of the token's volume.
const VOLUME: &str = "kube-api-access-";
/// Lifetime of the token in seconds: an hour and seven seconds, as in kube-apiserver.
const TOKEN_SECONDS: i64 = 3607;
/// Annotation of mirror pods.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Annotation of accounts that limit their pods to listed secrets.
const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";
/// Time that a pod waits for the account `default`.
const ACCOUNT_WAIT: Duration = Duration::from_secs(1);

pub(super) struct ServiceAccountAdmission;

impl MutatingPlugin for ServiceAccountAdmission {
    fn mutate<'a>(&'a self, attributes: &'a Attributes<'a>, object: Option<&'a mut Value>) -> Verdict<'a> {
        match object {
            Some(pod) if attributes.operation == Operation::Create && attributes.is_of("", "pods") => {
                async move { complete(attributes, pod).await }.boxed()
            }
            _ => ready(Ok(())).boxed(),
        }
    }
}

impl ValidatingPlugin for ServiceAccountAdmission {
    fn validate<'a>(&'a self, attributes: &'a Attributes<'a>, object: Option<&'a Value>) -> Verdict<'a> {
        let outcome = match (attributes.operation, attributes.subresource, object) {
            (Operation::Create, "", Some(pod)) if attributes.is_below("", "pods") => check(attributes, pod),
            (Operation::Update, "ephemeralcontainers", Some(pod)) if attributes.is_below("", "pods") => {
                check_ephemeral(attributes, pod)
            }
            _ => Ok(()),
        };
        ready(outcome).boxed()
    }
}

/// Sets the account, the token and the pull secrets of a new pod.
async fn complete(attributes: &Attributes<'_>, pod: &mut Value) -> Result<(), ApiError> {
    // A kubelet deletes a mirror pod whose spec differs from its static pod, so the plugin only checks it.
    if is_mirror(pod) || !pod["spec"].is_object() {
        return check(attributes, pod);
    }
    if account_name(pod).is_empty() {
        pod["spec"]["serviceAccountName"] = json!(DEFAULT);
        // `serviceAccount` is the older name of the field.
        pod["spec"]["serviceAccount"] = json!(DEFAULT);
    }
    let name = account_name(pod).to_owned();
    let account = find(attributes, &name).await.ok_or_else(|| missing(attributes, pod))?;
    let wanted =
        [&pod["spec"], &account].into_iter().find_map(|one| one["automountServiceAccountToken"].as_bool());
    if wanted.unwrap_or(true) {
        mount_token(pod, || format!("{VOLUME}{}", attributes.cluster.name_suffix()));
    }
    let has_no_secrets = elements(&pod["spec"]["imagePullSecrets"]).next().is_none();
    let own: Vec<Value> =
        elements(&account["imagePullSecrets"]).map(|secret| json!({"name": secret["name"]})).collect();
    if has_no_secrets && !own.is_empty() {
        pod["spec"]["imagePullSecrets"] = Value::Array(own);
    }
    Ok(())
}

/// Returns an account; waits up to [`ACCOUNT_WAIT`] for the default one.
async fn find(attributes: &Attributes<'_>, name: &str) -> Option<Value> {
    let get = || account(attributes, name);
    if name != DEFAULT {
        return get();
    }
    let mut commits = attributes.cluster.commits();
    let found = async {
        loop {
            // Before the read, so that a commit after it ends the wait.
            commits.see();
            if let Some(account) = get() {
                return account;
            }
            commits.changed().await;
        }
    };
    timeout(ACCOUNT_WAIT, found).await.ok()
}

fn account(attributes: &Attributes<'_>, name: &str) -> Option<Value> {
    attributes.get("", "serviceaccounts", &Key::new(attributes.namespace, name))
}

fn missing(attributes: &Attributes<'_>, pod: &Value) -> ApiError {
    let (namespace, name) = (attributes.namespace, account_name(pod));
    let why =
        format!("error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found");
    attributes.forbidden(pod, &why)
}

/// Adds the volume with the token, and mounts it in the containers that mount no other volume at its path.
fn mount_token(pod: &mut Value, new_name: impl FnOnce() -> String) {
    // The plugin runs again after webhooks have changed the pod. It then finds the volume of its first run.
    let existing = elements(&pod["spec"]["volumes"])
        .filter_map(|volume| volume["name"].as_str())
        .find(|name| name.starts_with(VOLUME))
        .map(str::to_owned);
    let is_new = existing.is_none();
    let volume = existing.unwrap_or_else(new_name);
    let mut is_mounted = false;
    for list in ["initContainers", "containers"] {
        let containers =
            pod.get_mut("spec").and_then(|spec| spec.get_mut(list)).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if elements(&container["volumeMounts"]).any(|mount| mount["mountPath"] == MOUNT_PATH) {
                continue;
            }
            if !container["volumeMounts"].is_array() {
                container["volumeMounts"] = json!([]);
            }
            if let Some(mounts) = container["volumeMounts"].as_array_mut() {
                mounts.push(json!({"name": volume, "readOnly": true, "mountPath": MOUNT_PATH}));
                is_mounted = true;
            }
        }
    }
    // No volume is needed if every container mounts another one at the path.
    if !is_new || !is_mounted {
        return;
    }
    if !pod["spec"]["volumes"].is_array() {
        pod["spec"]["volumes"] = json!([]);
    }
    if let Some(volumes) = pod["spec"]["volumes"].as_array_mut() {
        // 420 is 0644; JSON has no octal numbers.
        volumes.push(json!({"name": volume, "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [
                {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
            ]}},
        ]}}));
    }
}

/// Checks a new pod.
fn check(attributes: &Attributes<'_>, pod: &Value) -> Result<(), ApiError> {
    let refuse = |why: &str| Err(attributes.forbidden(pod, why));
    let name = account_name(pod);
    if is_mirror(pod) {
        let sources =
            elements(&pod["spec"]["volumes"]).flat_map(|volume| elements(&volume["projected"]["sources"]));
        let has_token = sources.into_iter().any(|source| source["serviceAccountToken"].is_object());
        return if !name.is_empty() {
            refuse("a mirror pod may not reference service accounts")
        } else if refers_to_secrets(&pod["spec"]) {
            refuse("a mirror pod may not reference secrets")
        } else if has_token {
            refuse("a mirror pod may not use ServiceAccountToken volume projections")
        } else {
            Ok(())
        };
    }
    if name.is_empty() {
        let pod_name = metadata::text(pod, "name");
        return refuse(&format!("no service account specified for pod {}/{pod_name}", attributes.namespace));
    }
    let Some(account) = account(attributes, name) else {
        return Err(missing(attributes, pod));
    };
    match unlisted_secret(&account, pod) {
        Some(why) if is_enforced(&account) => refuse(&why),
        _ => Ok(()),
    }
}

/// Checks the secrets of new ephemeral containers.
fn check_ephemeral(attributes: &Attributes<'_>, pod: &Value) -> Result<(), ApiError> {
    let name = account_name(pod);
    if name.is_empty() {
        let pod_name = metadata::text(pod, "name");
        let why = format!("no service account specified for pod {}/{pod_name}", attributes.namespace);
        return Err(attributes.forbidden(pod, &why));
    }
    let Some(account) = account(attributes, name) else {
        return Err(missing(attributes, pod));
    };
    let containers = elements(&pod["spec"]["ephemeralContainers"]);
    let listed = listed(&account, "secrets");
    let why = containers
        .into_iter()
        .find_map(|one| unlisted_in_container("ephemeral container", one, &listed, name));
    match why {
        // kube-apiserver answers with 500 here, not with 403.
        Some(why) if is_enforced(&account) => Err(ApiError::internal(why)),
        _ => Ok(()),
    }
}

fn is_enforced(account: &Value) -> bool {
    let value = account["metadata"]["annotations"][ENFORCE].as_str().unwrap_or_default();
    // The list contains all spellings of true for Go's `ParseBool`.
    ["1", "t", "T", "true", "TRUE", "True"].contains(&value)
}

fn listed<'a>(account: &'a Value, field: &str) -> BTreeSet<&'a str> {
    elements(&account[field]).filter_map(|secret| secret["name"].as_str()).collect()
}

/// Returns the refusal of the first secret that the account does not list; `None` if it lists all.
fn unlisted_secret(account: &Value, pod: &Value) -> Option<String> {
    let name = metadata::text(account, "name");
    let (secrets, spec) = (listed(account, "secrets"), &pod["spec"]);
    let volume = elements(&spec["volumes"])
        .filter_map(|volume| volume["secret"]["secretName"].as_str())
        .find(|secret| !secrets.contains(secret))
        .map(|secret| {
            format!(
                "volume with secret.secretName=\"{secret}\" is not allowed because service account {name} does not \
                 reference that secret"
            )
        });
    let in_containers = |list: &str, what: &str| {
        elements(&spec[list]).find_map(|container| unlisted_in_container(what, container, &secrets, name))
    };
    let pull_secrets = listed(account, "imagePullSecrets");
    volume
        .or_else(|| in_containers("initContainers", "init container"))
        .or_else(|| in_containers("containers", "container"))
        .or_else(|| {
            let own = elements(&spec["imagePullSecrets"]).map(|secret| secret["name"].as_str().unwrap_or_default());
            let (index, secret) = own.enumerate().find(|(_, secret)| !pull_secrets.contains(secret))?;
            Some(format!(
                "imagePullSecrets[{index}].name=\"{secret}\" is not allowed because service account {name} does not \
                 reference that imagePullSecret"
            ))
        })
}

fn unlisted_in_container(
    what: &str,
    container: &Value,
    listed: &BTreeSet<&str>,
    account: &str,
) -> Option<String> {
    let name = container["name"].as_str().unwrap_or_default();
    let refused = |with: &str, secret: &str| {
        format!(
            "{what} {name} with {with} referencing secret.secretName=\"{secret}\" is not allowed because service account \
             {account} does not reference that secret"
        )
    };
    let is_unlisted = |secret: &&str| !listed.contains(secret);
    elements(&container["env"])
        .find_map(|variable| {
            let secret = variable["valueFrom"]["secretKeyRef"]["name"].as_str().filter(is_unlisted)?;
            Some(refused(&format!("envVar {}", variable["name"].as_str().unwrap_or_default()), secret))
        })
        .or_else(|| {
            let sources =
                elements(&container["envFrom"]).filter_map(|source| source["secretRef"]["name"].as_str());
            sources.into_iter().find(is_unlisted).map(|secret| refused("envFrom", secret))
        })
}

/// Whether a pod refers to a secret: in its volumes, in the variables of containers, or to pull images.
fn refers_to_secrets(spec: &Value) -> bool {
    let has_reference = |value: &Value| {
        // Fields of volumes and containers that name a secret.
        const FIELDS: [&str; 4] = ["secret", "secretRef", "secretKeyRef", "nodePublishSecretRef"];
        let mut rest = vec![value];
        while let Some(value) = rest.pop() {
            match value {
                Value::Object(fields) => {
                    if FIELDS.iter().any(|field| fields.get(*field).is_some_and(Value::is_object)) {
                        return true;
                    }
                    rest.extend(fields.values());
                }
                Value::Array(list) => rest.extend(list),
                _ => {}
            }
        }
        false
    };
    let lists = ["volumes", "initContainers", "containers", "ephemeralContainers"];
    elements(&spec["imagePullSecrets"]).next().is_some()
        || lists.iter().any(|list| has_reference(&spec[*list]))
}

fn is_mirror(pod: &Value) -> bool {
    pod["metadata"]["annotations"].get(MIRROR).is_some()
}

fn account_name(pod: &Value) -> &str {
    pod["spec"]["serviceAccountName"].as_str().unwrap_or_default()
}

fn elements(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_mount_the_token_unless_they_mount_something_there() {
        let mut pod = json!({"spec": {
            "initContainers": [{"name": "i"}],
            "containers": [{"name": "a", "volumeMounts": [{"name": "own", "mountPath": MOUNT_PATH}]}],
        }});
        mount_token(&mut pod, || format!("{VOLUME}abcde"));
        assert_eq!(
            pod["spec"]["initContainers"][0]["volumeMounts"],
            json!([{"name": "kube-api-access-abcde", "readOnly": true, "mountPath": MOUNT_PATH}])
        );
        assert_eq!(pod["spec"]["containers"][0]["volumeMounts"].as_array().unwrap().len(), 1);
        assert_eq!(pod["spec"]["volumes"][0]["name"], "kube-api-access-abcde");
        let again = pod.clone();
        mount_token(&mut pod, || unreachable!("the volume exists"));
        assert_eq!(pod, again);
        let mut covered = json!({"spec": {"containers": [{"volumeMounts": [{"mountPath": MOUNT_PATH}]}]}});
        let before = covered.clone();
        mount_token(&mut covered, || "unused".to_owned());
        assert_eq!(covered, before);
    }

    #[test]
    fn secrets_that_the_account_does_not_list_are_refused() {
        let account = json!({
            "metadata": {"name": "sa"}, "secrets": [{"name": "known"}], "imagePullSecrets": [{"name": "pull"}],
        });
        for (spec, why) in [
            (
                json!({"volumes": [{"secret": {"secretName": "known"}}], "imagePullSecrets": [{"name": "pull"}]}),
                None,
            ),
            (
                json!({"volumes": [{"secret": {"secretName": "x"}}]}),
                Some(
                    "volume with secret.secretName=\"x\" is not allowed because service account sa does not reference that \
                     secret",
                ),
            ),
            (
                json!({"containers": [{"name": "c", "env": [{"name": "V", "valueFrom": {"secretKeyRef": {"name": "x"}}}]}]}),
                Some(
                    "container c with envVar V referencing secret.secretName=\"x\" is not allowed because service account \
                     sa does not reference that secret",
                ),
            ),
            (
                json!({"initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "x"}}]}]}),
                Some(
                    "init container i with envFrom referencing secret.secretName=\"x\" is not allowed because service \
                     account sa does not reference that secret",
                ),
            ),
            (
                json!({"imagePullSecrets": [{"name": "known"}]}),
                Some(
                    "imagePullSecrets[0].name=\"known\" is not allowed because service account sa does not reference that \
                     imagePullSecret",
                ),
            ),
        ] {
            assert_eq!(unlisted_secret(&account, &json!({ "spec": spec })).as_deref(), why);
        }
    }

    #[test]
    fn references_to_secrets_are_found_in_volumes_variables_and_pull_secrets() {
        for (spec, refers) in [
            (json!({"containers": [{"env": [{"valueFrom": {"configMapKeyRef": {"name": "x"}}}]}]}), false),
            (json!({"containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "x"}}}]}]}), true),
            (json!({"volumes": [{"projected": {"sources": [{"secret": {"name": "x"}}]}}]}), true),
            (json!({"volumes": [{"cephfs": {"secretRef": {"name": "x"}}}]}), true),
            (json!({"imagePullSecrets": [{"name": "x"}]}), true),
        ] {
            assert_eq!(refers_to_secrets(&spec), refers, "{spec}");
        }
    }
}
