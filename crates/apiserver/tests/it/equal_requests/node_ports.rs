//! Node ports that Services name.

use super::check;

const SERVICES: &str = "/api/v1/namespaces/default/services";

/// Returns a Service with these ports, each a number and a node port.
fn service(name: &str, ports: &[(i32, i32)]) -> String {
    let ports: Vec<String> = ports
        .iter()
        .enumerate()
        .map(|(at, (port, node_port))| format!(r#"{{"name":"p{at}","port":{port},"nodePort":{node_port}}}"#))
        .collect();
    format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"type":"NodePort","ports":[{}]}}}}"#,
        ports.join(",")
    )
}

/// The first entry of a `port` takes the node port that any entry of it names, so that its error names the first one.
#[tokio::test]
async fn entries_of_one_port_share_the_first_node_port_that_one_of_them_names() {
    let outside = |at: usize, number: i32| {
        format!(
            "spec.ports[{at}].nodePort: Invalid value: {number}: provided port is not in the valid range. The range of valid ports is \
             30000-32767"
        )
    };
    let taken = "spec.ports[1].nodePort: Invalid value: 30123: provided port is already allocated";
    let twice = "[spec.ports[1].nodePort: Duplicate value: 30123, spec.ports[1]: Duplicate value: {";
    check(&[
        ("POST", SERVICES, &service("a", &[(80, 0), (80, -5)]), 422, &[&outside(0, -5)]),
        ("POST", SERVICES, &service("a", &[(80, 70_000), (81, 0)]), 422, &[&outside(0, 70_000)]),
        ("POST", SERVICES, &service("a", &[(80, 30_123), (81, 30_123)]), 422, &[taken]),
        ("POST", SERVICES, &service("a", &[(80, 30_123), (80, 30_123)]), 422, &[twice]),
    ])
    .await;
}

#[tokio::test]
async fn a_dry_run_shows_any_node_port() {
    let path = &format!("{SERVICES}?dryRun=All");
    let taken = "spec.ports[1].nodePort: Invalid value: -5: provided port is already allocated";
    check(&[
        (
            "POST",
            path,
            &service("a", &[(80, 0), (80, -5)]),
            422,
            &["spec.ports[1].nodePort: Duplicate value: -5"],
        ),
        ("POST", path, &service("a", &[(80, -5), (81, -5)]), 422, &[taken]),
        ("POST", path, &service("a", &[(80, -5), (81, 0)]), 201, &["\"nodePort\":-5", "\"nodePort\":1,"]),
        (
            "POST",
            path,
            &service("a", &[(80, 70_000), (81, 0)]),
            201,
            &["\"nodePort\":70000", "\"nodePort\":70001,"],
        ),
    ])
    .await;
}
