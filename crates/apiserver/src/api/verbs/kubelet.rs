//! Kubelets of nodes, which this server cannot reach: pods have no processes here.

use kube_apimachinery::go::quote;
use kube_apimachinery::status::ApiError;
use serde_json::Value;

use super::Call;
use crate::store::Key;

/// Types of addresses by which kube-apiserver reaches a kubelet.
const ADDRESS_TYPES: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];

/// Returns the error for a request that needs the kubelet of a node. If the node is missing, kube-apiserver's message names the resource of
/// the request.
pub(super) fn unreachable(call: &Call, node: &str) -> ApiError {
    let resource = &call.served.resource;
    let nodes = call.cluster.registry().get("", "v1", "nodes").cloned();
    let stored = nodes.and_then(|nodes| {
        let stored = call.cluster.read(|store| store.get(nodes.storage(), &Key::new("", node)).cloned())?;
        Some(nodes.value(&stored))
    });
    let Some(object) = stored else {
        return ApiError::not_found(&resource.group, &resource.plural, node);
    };
    let addresses = object["status"]["addresses"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |address: &Value, field: &str| address[field].as_str().unwrap_or_default().to_owned();
    if !addresses.iter().any(|address| ADDRESS_TYPES.contains(&&*text(address, "type"))) {
        let known = addresses
            .iter()
            .map(|address| format!("{{{} {}}}", text(address, "type"), text(address, "address")));
        let known = known.collect::<Vec<_>>().join(" ");
        return ApiError::internal(format!("no preferred addresses found; known addresses: [{known}]"));
    }
    let subresource = &call.path.subresource;
    let why = format!(
        "{}/{subresource}: node {} has no kubelet that this server can reach",
        resource.plural,
        quote(node)
    );
    ApiError::new(501, "NotImplemented", why)
}

/// Checks the name of a container. Requests to a pod with one container may omit it.
///
/// # Errors
/// 400 if the pod has no such container, or if the pod has several and none is named.
pub(super) fn check_container(call: &Call, pod: &Value, wanted: &str) -> Result<(), ApiError> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let names = |list: &str| {
        let containers = pod["spec"][list].as_array().into_iter().flatten();
        containers.filter_map(|container| container["name"].as_str())
    };
    let name = &call.path.name;
    if !wanted.is_empty() {
        let is_known = lists.into_iter().flat_map(names).any(|known| known == wanted);
        let why = format!("container {wanted} is not valid for pod {name}");
        return if is_known { Ok(()) } else { Err(ApiError::bad_request(why)) };
    }
    if names("containers").count() <= 1 {
        return Ok(());
    }
    let all: Vec<&str> = lists.into_iter().flat_map(names).collect();
    let all = all.join(" ");
    Err(ApiError::bad_request(format!(
        "a container name must be specified for pod {name}, choose one of: [{all}]"
    )))
}
