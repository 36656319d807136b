//! Allocation of the node ports of a Service.

use std::collections::BTreeMap;

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::service_spec::{allocates_all, node_port, node_ports, ports};
use crate::kind::{Allocator, Unallocated};
use crate::kinds::builtin::shared::fields::elements;

/// Reason why an allocation failed.
pub(super) enum Unmet {
    /// An address or port that a field names is not available.
    Field(FieldError),
    /// The range is full.
    Full(String),
    /// Two entries of an update have the same node port for one protocol.
    Duplicate(String),
}

/// Allocates the node ports of a new Service. Entries with the same `port`, such as those for TCP and UDP, share a node port.
pub(super) fn allocate(allocator: &mut dyn Allocator, spec: &mut Value) -> Result<(), Unmet> {
    let all = allocates_all(spec);
    let number_of = |port: &Value| port["port"].as_i64().unwrap_or_default();
    let mut requested: BTreeMap<i64, i64> = BTreeMap::new();
    for port in ports(spec) {
        if let Some(node_port) = node_port(port) {
            // All entries of one port share the node port that the first of them names, even if that entry comes later.
            requested.entry(number_of(port)).or_insert(node_port);
        }
    }
    let mut shared: BTreeMap<i64, i64> = BTreeMap::new();
    for (at, port) in elements(spec, "ports").enumerate() {
        let (wanted, number) = (node_port(port), number_of(port));
        if wanted.is_none() && !all {
            continue;
        }
        let chosen = match shared.get(&number) {
            Some(chosen) if wanted.is_none_or(|wanted| wanted == *chosen) => *chosen,
            // This entry names another node port than the shared one.
            Some(_) => take_port(allocator, at, wanted)?,
            None => {
                let chosen = take_port(allocator, at, requested.get(&number).copied())?;
                shared.insert(number, chosen);
                chosen
            }
        };
        port["nodePort"] = json!(chosen);
    }
    Ok(())
}

/// Allocates the node ports of a Service that its former state did not have.
pub(super) fn allocate_more(
    allocator: &mut dyn Allocator,
    old: &Value,
    spec: &mut Value,
) -> Result<(), Unmet> {
    let all = allocates_all(spec);
    let mut taken = node_ports(old);
    let mut seen: Vec<(String, i64)> = Vec::new();
    for (at, port) in elements(spec, "ports").enumerate() {
        let wanted = node_port(port);
        if wanted.is_none() && !all {
            continue;
        }
        let chosen = match wanted.filter(|wanted| taken.contains(wanted)) {
            Some(own) => own,
            None => take_port(allocator, at, wanted)?,
        };
        // An entry for another protocol may name this node port again without a second reservation.
        taken.push(chosen);
        port["nodePort"] = json!(chosen);
        let place = (port["protocol"].as_str().unwrap_or_default().to_owned(), chosen);
        if seen.contains(&place) {
            return Err(Unmet::Duplicate(format!("duplicate nodePort: {{{} {chosen}}}", place.0)));
        }
        seen.push(place);
    }
    Ok(())
}

fn take_port(allocator: &mut dyn Allocator, at: usize, wanted: Option<i64>) -> Result<i64, Unmet> {
    allocator.port(wanted).map_err(|Unallocated(why)| match wanted {
        Some(port) => {
            Unmet::Field(FieldError::invalid(format!("spec.ports[{at}].nodePort"), &port.to_string(), &why))
        }
        None => Unmet::Full(why),
    })
}

#[cfg(test)]
mod tests {
    use super::super::addresses::tests::{merged, pool, write};
    use super::*;

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn an_update_names_each_node_port_once_per_protocol() {
        let updated = |second: Value| {
            let mut pool = pool();
            let one = json!({"type": "NodePort", "ports": [{"name": "a", "port": 80}]});
            let first = write(&mut pool, None, &one);
            let mut second = second;
            second["name"] = json!("b");
            let ports =
                json!({"ports": [{"name": "a", "port": 80, "protocol": "TCP", "nodePort": 30_123}, second]});
            write(&mut pool, Some(&first), &merged(&first, &ports))
        };
        let twice = updated(json!({"port": 81, "protocol": "TCP", "nodePort": 30_123}));
        assert_eq!(twice, "duplicate nodePort: {TCP 30123}");
        let both = updated(json!({"port": 80, "protocol": "UDP", "nodePort": 30_123}));
        assert_eq!(node_ports(&both), [30_123, 30_123]);
    }
}
