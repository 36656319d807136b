//! Cells of Services and Ingresses: their addresses, ports and hosts.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::CellFn;
use super::cell_values::{NONE, array, joined, labels, or, plain};

/// Returns the function that computes a column's cell; `None` for an unknown column.
pub(super) fn cell(kind: &str, name: &str) -> Option<CellFn> {
    Some(match (kind, name) {
        ("Ingress", "Class") => |object, _| or(object, "/spec/ingressClassName", NONE),
        ("Ingress", "Hosts") => hosts,
        ("Ingress", "Address") => |object, _| json!(balancers(object)),
        ("Ingress", "Ports") => {
            // An Ingress does not say on which ports its controller listens. kube-apiserver assumes the ports of HTTP and HTTPS.
            |object, _| json!(if array(&object["spec"]["tls"]).is_empty() { "80" } else { "80, 443" })
        }
        ("Service", "Type") => |object, _| or(object, "/spec/type", ""),
        ("Service", "Cluster-IP") => |object, _| or(object, "/spec/clusterIP", NONE),
        ("Service", "External-IP") => external,
        ("Service", "Port(s)") => ports,
        ("Service", "Selector") => |object, _| labels(&object["spec"]["selector"]),
        _ => return None,
    })
}

/// Lists the external addresses of a service.
fn external(object: &Value, _: Timestamp) -> Value {
    let given = joined(&object["spec"]["externalIPs"], ",", "");
    let given = plain(&given);
    let none = |text: &str, none: &str| json!(if text.is_empty() { none } else { text });
    match object["spec"]["type"].as_str().unwrap_or_default() {
        "ExternalName" => or(object, "/spec/externalName", ""),
        "LoadBalancer" => {
            let balancers = balancers(object);
            let all: Vec<&str> =
                [balancers.as_str(), given].into_iter().filter(|text| !text.is_empty()).collect();
            none(&all.join(","), "<pending>")
        }
        _ => none(given, NONE),
    }
}

/// Formats ports as `80:30080/TCP,53/UDP`.
fn ports(object: &Value, _: Timestamp) -> Value {
    let ports = array(&object["spec"]["ports"]).iter().map(|port| {
        let node = port["nodePort"].as_i64().filter(|port| *port > 0);
        let node = node.map_or(String::new(), |node| format!(":{node}"));
        format!("{}{node}/{}", port["port"], plain(&port["protocol"]))
    });
    let ports: Vec<String> = ports.collect();
    json!(if ports.is_empty() { NONE.to_owned() } else { ports.join(",") })
}

/// Lists the first three hosts, and the number of rules beyond three. Like in kube-apiserver, rules without a host count among these, too.
fn hosts(object: &Value, _: Timestamp) -> Value {
    const SHOWN: usize = 3;
    let rules = array(&object["spec"]["rules"]);
    let mut hosts: Vec<&str> = Vec::new();
    for rule in rules {
        // Three hosts alone do not end the list: only another rule after them adds the count.
        if hosts.len() == SHOWN {
            return json!(format!("{} + {} more...", hosts.join(","), rules.len() - SHOWN));
        }
        hosts.extend(Some(plain(&rule["host"])).filter(|host| !host.is_empty()));
    }
    json!(if hosts.is_empty() { "*".to_owned() } else { hosts.join(",") })
}

/// Lists the distinct addresses of load balancers in order. An IP address takes precedence over a host name.
fn balancers(object: &Value) -> String {
    let places = array(&object["status"]["loadBalancer"]["ingress"]).iter();
    let first =
        |place: &'_ Value| ["ip", "hostname"].into_iter().find(|field| !plain(&place[field]).is_empty());
    let places: BTreeSet<&str> = places.filter_map(|place| Some(plain(&place[first(place)?]))).collect();
    places.into_iter().collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::super::recorded::tests::shown;
    use super::*;

    #[test]
    fn services_show_their_addresses_and_ports() {
        let service =
            |spec: &Value, status: &Value| shown("Service", &json!({"spec": spec, "status": status}));
        assert_eq!(
            service(
                &json!({"type": "ClusterIP", "clusterIP": "None", "ports": [{"port": 80, "protocol": "TCP"}], "selector": {"a": "b"}}),
                &json!({})
            ),
            ["ClusterIP", "None", "<none>", "80/TCP", "a=b"]
        );
        let balanced = json!({"type": "LoadBalancer", "clusterIP": "10.0.0.1", "ports": [
            {"port": 80, "protocol": "TCP", "nodePort": 30_000}, {"port": 53, "protocol": "UDP"},
        ]});
        let places =
            json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}, {"hostname": "lb.example.com"}]}});
        assert_eq!(
            service(&balanced, &places),
            ["LoadBalancer", "10.0.0.1", "1.2.3.4,lb.example.com", "80:30000/TCP,53/UDP", "<none>"]
        );
        assert_eq!(service(&balanced, &json!({}))[2], "<pending>");
        assert_eq!(
            service(&json!({"type": "ExternalName", "externalName": "example.com"}), &json!({})),
            ["ExternalName", "<none>", "example.com", "<none>", "<none>"]
        );
    }

    #[test]
    fn ingresses_show_three_hosts() {
        let rules: Vec<Value> = ["a", "b", "c", "d"].iter().map(|host| json!({"host": host})).collect();
        let ingress = json!({"spec": {"ingressClassName": "nginx", "rules": rules, "tls": [{}]}});
        assert_eq!(shown("Ingress", &ingress), ["nginx", "a,b,c + 1 more...", "", "80, 443"]);
        assert_eq!(shown("Ingress", &json!({"spec": {}})), ["<none>", "*", "", "80"]);
        // Rules without hosts count too.
        for (hosts, expected) in [
            (&["", "a", "", "b"][..], "a,b"),
            (&["", "a", "b", "c"], "a,b,c"),
            (&["", "a", "b", "c", ""], "a,b,c + 2 more..."),
        ] {
            let rules: Vec<Value> = hosts.iter().map(|host| json!({"host": host})).collect();
            assert_eq!(shown("Ingress", &json!({"spec": {"rules": rules}}))[1], expected);
        }
        let places = json!([{"ip": "b"}, {"hostname": "a"}, {"ip": "", "hostname": "c"}, {"ip": "a", "hostname": "d"}, {}]);
        let ingress = json!({"status": {"loadBalancer": {"ingress": places}}});
        assert_eq!(shown("Ingress", &ingress)[2], "a,b,c");
    }
}
