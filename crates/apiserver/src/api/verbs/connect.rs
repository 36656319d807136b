//! Connections to nodes, pods and services: `exec`, `attach`, `portforward` and `proxy`.
//!
//! Admission plugins review the parameters of a connection. Then the request is answered as by a kube-apiserver that can reach neither
//! kubelets nor pods: with kube-apiserver's error if there is no target, otherwise with 501.

use kube_apimachinery::go::quote;
use kube_apimachinery::status::ApiError;
use serde_json::{Map, Value, json};

use super::reply::Reply;
use super::{Call, kubelet};
use crate::api::admission::{Attributes, ObjectKind, OperationOptions};
use crate::request::query::parse_uint;
use crate::store::Key;

/// Reviews the connection of the request.
///
/// # Errors
/// Always: the error of a plugin, or the reason why there is no connection.
pub(crate) async fn run(call: &Call, kind: &str) -> Result<Reply, ApiError> {
    if call.query.get("dryRun").is_some() {
        return Err(ApiError::bad_request("dryRun is not supported"));
    }
    let mut parameters = parameters(call, kind)?;
    let of_resource = ObjectKind::of(&call.served);
    let attributes = Attributes {
        kind: ObjectKind { kind, ..of_resource },
        ..call.attributes(OperationOptions::Connect, None)
    };
    // As in kube-apiserver, plugins run before the target is looked up.
    let admission = &call.context.admission;
    admission.mutate(&attributes, Some(&mut parameters)).await?;
    admission.validate(&attributes, Some(&parameters)).await?;
    if call.path.subresource != "proxy" {
        call.authorize_stream()?;
    }
    Err(match (call.served.resource.plural.as_str(), call.path.subresource.as_str()) {
        ("pods", "proxy") => proxy_to_pod(call),
        ("pods", _) => stream(call, &parameters),
        ("services", _) => proxy_to_service(call),
        _ => match ProxyTarget::parse(&call.path.name) {
            Some(target) => kubelet::unreachable(call, target.name),
            None => ApiError::bad_request(format!("invalid node request {}", quote(&call.path.name))),
        },
    })
}

/// Returns the parameters in the query, and the path below `proxy`, as an object of this kind. As in Go, parameters with the zero of their
/// type are omitted.
fn parameters(call: &Call, kind: &str) -> Result<Value, ApiError> {
    let query = &call.query;
    let mut fields = Map::new();
    let text = |fields: &mut Map<String, Value>, name: &str, value: &str| {
        if !value.is_empty() {
            fields.insert(name.to_owned(), json!(value));
        }
    };
    match call.path.subresource.as_str() {
        "proxy" => text(&mut fields, "path", &call.path.below),
        "portforward" => {
            let mut ports = Vec::new();
            for port in query.all("ports").iter().flat_map(|ports| ports.split(',')) {
                let number = parse_uint(port).and_then(|number| {
                    u16::try_from(number).map_err(|_| {
                        format!("strconv.ParseUint: parsing {}: value out of range", quote(port))
                    })
                });
                ports.push(
                    number
                        .map_err(|why| ApiError::bad_request(format!("cannot convert to []int32: {why}")))?,
                );
            }
            if !ports.is_empty() {
                fields.insert("ports".to_owned(), json!(ports));
            }
        }
        subresource => {
            for name in ["stdin", "stdout", "stderr", "tty"] {
                if query.flag(name) == Some(true) {
                    fields.insert(name.to_owned(), json!(true));
                }
            }
            text(&mut fields, "container", query.text("container"));
            let command = query.all("command");
            if subresource == "exec" && !command.is_empty() {
                fields.insert("command".to_owned(), json!(command));
            }
        }
    }
    fields.insert("kind".to_owned(), json!(kind));
    fields.insert("apiVersion".to_owned(), json!(call.served.kind.api_version));
    Ok(Value::Object(fields))
}

/// Returns the reason why there is no stream to a pod (`exec`, `attach` and `portforward`).
fn stream(call: &Call, parameters: &Value) -> ApiError {
    let stored = call.cluster.read(|store| store.get(call.served.storage(), &call.key()).cloned());
    let Some(stored) = stored else {
        return call.not_found();
    };
    let pod = call.served.value(&stored);
    if call.path.subresource != "portforward" {
        let container = parameters["container"].as_str().unwrap_or_default();
        if let Err(error) = kubelet::check_container(call, &pod, container) {
            return error;
        }
    }
    match pod["spec"]["nodeName"].as_str().unwrap_or_default() {
        "" => ApiError::bad_request(format!("pod {} does not have a host assigned", call.path.name)),
        node => kubelet::unreachable(call, node),
    }
}

/// Target of a proxy: `name`, `name:port` or `scheme:name:port`.
struct ProxyTarget<'a> {
    name: &'a str,
    port: &'a str,
}

impl<'a> ProxyTarget<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match parts.as_slice() {
            [name] => ("", *name, ""),
            [name, port] => ("", *name, *port),
            [scheme, name, port] => (*scheme, *name, *port),
            _ => return None,
        };
        (!name.is_empty() && ["", "http", "https"].contains(&scheme)).then_some(Self { name, port })
    }
}

fn proxy_to_pod(call: &Call) -> ApiError {
    let asked = &call.path.name;
    let Some(target) = ProxyTarget::parse(asked) else {
        return ApiError::bad_request(format!("invalid pod request {}", quote(asked)));
    };
    let key = Key::new(&call.path.namespace, target.name);
    let Some(stored) = call.cluster.read(|store| store.get(call.served.storage(), &key).cloned()) else {
        return ApiError::not_found("", "pods", target.name);
    };
    let pod = call.served.value(&stored);
    let address = pod["status"]["podIPs"][0]["ip"].as_str().unwrap_or_default();
    if !is_global_unicast(address) {
        return ApiError::bad_request("address not allowed");
    }
    no_network(call, "pod", target.name)
}

fn proxy_to_service(call: &Call) -> ApiError {
    let asked = &call.path.name;
    let Some(target) = ProxyTarget::parse(asked) else {
        return ApiError::bad_request(format!("invalid service request {}", quote(asked)));
    };
    let unavailable = |why: String| ApiError::new(503, "ServiceUnavailable", why);
    let key = Key::new(&call.path.namespace, target.name);
    let mut port = target.port.to_owned();
    // A port may be given by its number instead of its name.
    if let Ok(number) = target.port.parse::<i64>() {
        let Some(stored) = call.cluster.read(|store| store.get(call.served.storage(), &key).cloned()) else {
            return ApiError::not_found("", "services", target.name);
        };
        let service = call.served.value(&stored);
        let ports = service["spec"]["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
        let Some(found) = ports.iter().find(|port| port["port"].as_i64() == Some(number)) else {
            return unavailable(format!("no service port {number} found for service {}", quote(target.name)));
        };
        found["name"].as_str().unwrap_or_default().clone_into(&mut port);
    }
    let endpoints = call.cluster.registry().get("", "v1", "endpoints").cloned();
    let endpoints = endpoints.and_then(|endpoints| {
        let stored = call.cluster.read(|store| store.get(endpoints.storage(), &key).cloned())?;
        Some(endpoints.value(&stored))
    });
    let Some(endpoints) = endpoints else {
        // kube-apiserver's message names the resource of the request.
        return ApiError::not_found("", "services", target.name);
    };
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let subsets = items(&endpoints["subsets"]);
    if subsets.is_empty() {
        return unavailable(format!("no endpoints available for service {}", quote(target.name)));
    }
    let is_ready = subsets.iter().any(|subset| {
        !items(&subset["addresses"]).is_empty()
            && items(&subset["ports"]).iter().any(|known| known["name"].as_str().unwrap_or_default() == port)
    });
    if is_ready {
        no_network(call, "service", target.name)
    } else {
        unavailable(format!("no endpoints available for service {}", quote(asked)))
    }
}

/// Whether a text is an address to which kube-apiserver proxies.
fn is_global_unicast(address: &str) -> bool {
    use std::net::IpAddr;
    address.parse().is_ok_and(|address| match address {
        IpAddr::V4(v4) => {
            !(v4.is_unspecified()
                || v4.is_loopback()
                || v4.is_multicast()
                || v4.is_link_local()
                || v4.is_broadcast())
        }
        IpAddr::V6(v6) => {
            !(v6.is_unspecified() || v6.is_loopback() || v6.is_multicast() || v6.is_unicast_link_local())
        }
    })
}

fn no_network(call: &Call, what: &str, name: &str) -> ApiError {
    let plural = &call.served.resource.plural;
    let why = format!("{plural}/proxy: {what} {} has no network that this server could reach", quote(name));
    ApiError::new(501, "NotImplemented", why)
}
