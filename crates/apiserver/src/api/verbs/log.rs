//! GET of `/log`. No kubelet runs the containers: the log of a pod without a node is empty, and for other pods the kubelet of the
//! node cannot be reached.

use kube_apimachinery::status::ApiError;
use serde_json::Value;

use super::Call;
use super::reply::Reply;
use crate::kind::resource::StorageKey;
use crate::store::Key;

/// Responds with 204 for a pod without a node.
///
/// # Errors
/// 400 for a missing or unknown container name, 404 if the node of the pod does not exist, 501 if it does.
pub(crate) fn get(call: &Call) -> Result<Reply, ApiError> {
    let stored = call.cluster.read(|store| store.get(call.served.storage(), &call.key()).cloned());
    let stored = stored.ok_or_else(|| call.not_found())?;
    let pod = call.served.value(&stored);
    check_container(call, &pod)?;
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if node.is_empty() {
        return Ok(Reply::nothing());
    }
    let nodes = StorageKey { group: String::new(), plural: "nodes".to_owned() };
    if call.cluster.read(|store| store.get(&nodes, &Key::new("", node)).is_none()) {
        return Err(ApiError::not_found("", "pods", node));
    }
    let why = format!("pods/log: node {node:?} has no kubelet that this server could ask");
    Err(ApiError::new(501, "NotImplemented", why))
}

/// Checks the parameter `container`, which pods with one container do not need.
fn check_container(call: &Call, pod: &Value) -> Result<(), ApiError> {
    let names = |list: &str| -> Vec<String> {
        let containers = pod["spec"][list].as_array().into_iter().flatten();
        containers.filter_map(|container| container["name"].as_str()).map(str::to_owned).collect()
    };
    let (containers, inits) = (names("containers"), names("initContainers"));
    let (name, wanted) = (&call.path.name, call.query.text("container"));
    if !wanted.is_empty() {
        let all =
            containers.iter().chain(&inits).chain(&names("ephemeralContainers")).any(|one| one == wanted);
        let why = format!("container {wanted} is not valid for pod {name}");
        return if all { Ok(()) } else { Err(ApiError::bad_request(why)) };
    }
    if containers.len() <= 1 {
        return Ok(());
    }
    let mut why = format!(
        "a container name must be specified for pod {name}, choose one of: [{}]",
        containers.join(" ")
    );
    if !inits.is_empty() {
        why.push_str(&format!(" or one of the init containers: [{}]", inits.join(" ")));
    }
    Err(ApiError::bad_request(why))
}
