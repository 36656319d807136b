//! Cells of Endpoints and EndpointSlices.

use std::net::{IpAddr, SocketAddr};

use serde_json::{Value, json};

use super::{CellFn, text};

/// Maximum number of list items in a cell.
const SHOWN: usize = 3;

pub(super) fn cell(kind: &str, name: &str) -> Option<CellFn> {
    Some(match (kind, name) {
        ("Endpoints", "Endpoints") => |object, _| {
            let subsets = array(&object["subsets"]);
            // Only an object without subsets shows `<none>`. Subsets without addresses show an empty text.
            if subsets.len() == 0 {
                json!("<none>")
            } else {
                json!(shown(&subsets.flat_map(addresses_with_ports).collect::<Vec<_>>()))
            }
        },
        ("EndpointSlice", "AddressType") => |object, _| text(object, "/addressType"),
        ("EndpointSlice", "Ports") => |object, _| {
            let port = |port: &Value| match (&port["port"], &port["name"]) {
                (Value::Number(number), _) => number.to_string(),
                (_, Value::String(name)) => name.clone(),
                _ => "*".to_owned(),
            };
            or_unset(&array(&object["ports"]).map(port).collect::<Vec<_>>())
        },
        ("EndpointSlice", "Endpoints") => |object, _| {
            let addresses = array(&object["endpoints"]).flat_map(|endpoint| array(&endpoint["addresses"]));
            or_unset(&addresses.filter_map(|address| Some(address.as_str()?.to_owned())).collect::<Vec<_>>())
        },
        _ => return None,
    })
}

/// Returns each address of a subset with each of its ports. The ports are the outer loop.
fn addresses_with_ports(subset: &Value) -> Vec<String> {
    let addresses: Vec<&str> =
        array(&subset["addresses"]).filter_map(|address| address["ip"].as_str()).collect();
    let ports: Vec<u16> =
        array(&subset["ports"]).filter_map(|port| u16::try_from(port["port"].as_i64()?).ok()).collect();
    if ports.is_empty() {
        // The Service has no ports. It may be headless.
        return addresses.into_iter().map(str::to_owned).collect();
    }
    let place = |address: &str, port: u16| match address.parse::<IpAddr>() {
        // An IPv6 address needs brackets before its port.
        Ok(ip) => SocketAddr::new(ip, port).to_string(),
        Err(_) => format!("{address}:{port}"),
    };
    ports.iter().flat_map(|port| addresses.iter().map(move |address| place(address, *port))).collect()
}

fn or_unset(items: &[String]) -> Value {
    // A single port with an empty name makes an empty text, which counts as unset, too.
    let text = if items.is_empty() { String::new() } else { shown(items) };
    json!(if text.is_empty() { "<unset>".to_owned() } else { text })
}

/// Lists the first items and the number of the others.
fn shown(items: &[String]) -> String {
    match items.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{} + {more} more...", items[..SHOWN].join(",")),
        _ => items.join(","),
    }
}

fn array(value: &Value) -> std::slice::Iter<'_, Value> {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter()
}
