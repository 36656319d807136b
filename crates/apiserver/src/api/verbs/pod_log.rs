//! GET of `/log`. No containers run here: the log of a pod without a node is empty, and for other pods the kubelet of the node cannot be
//! reached.

use kube_apimachinery::status::ApiError;

use super::reply::Reply;
use super::{Call, kubelet};

/// Responds with 204 for a pod without a node.
///
/// # Errors
/// 400 for a missing or unknown container name, 404 if the node of the pod does not exist, 500 if it has no address, 501
/// otherwise.
pub(crate) fn get(call: &Call) -> Result<Reply, ApiError> {
    let stored = call.cluster.read(|store| store.get(call.served.storage(), &call.key()).cloned());
    let stored = stored.ok_or_else(|| call.not_found())?;
    let pod = call.served.value(&stored);
    kubelet::check_container(call, &pod, call.query.text("container"))?;
    match pod["spec"]["nodeName"].as_str().unwrap_or_default() {
        "" => Ok(Reply::nothing()),
        node => Err(kubelet::unreachable(call, node)),
    }
}
