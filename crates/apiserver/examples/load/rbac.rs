//! Access control: a decision among 10,000 bindings, and requests of a user with one of them.

use std::ffi::OsStr;
use std::fs;

use bytes::Bytes;
use http::{HeaderValue, Method};
use kube_apimachinery::rbac::{Action, Binding, Identity, Policy, ResourceAction, Role};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Result;
use super::objects::Form;
use super::process::Program;
use super::report::{Goal, Report};
use super::requests::{Client, Way, creates, gets, rates};
use super::wire::Protocol;

const BINDINGS: usize = 10_000;
/// Users of the server. Members of `system:masters` may do everything.
const TOKENS: &str = "admin-token,admin,1,system:masters\nuser-token,u42,2\n";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS_PATH: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";

/// Measures decisions in this process, then requests of the user `u42` to a server with access control.
pub(crate) async fn measure(program: &Program, quick: bool, report: &mut Report) -> Result<()> {
    decisions(report)?;
    let count = if quick { 4_000 } else { 40_000 };
    for way in [
        Way { form: Form::Json, protocol: Protocol::Http1 },
        Way { form: Form::Protobuf, protocol: Protocol::Http2 },
    ] {
        let folder = tempfile::tempdir()?;
        let tokens = folder.path().join("tokens.csv");
        fs::write(&tokens, TOKENS)?;
        let mut server = program.start_with(&[OsStr::new("--token-auth-file"), tokens.as_os_str()])?;
        server.authorization = Some(HeaderValue::from_static("Bearer admin-token"));
        let json = Way { form: Form::Json, protocol: Protocol::Http1 };
        rates(&server, json, Client::StaysAwake, 2 * BINDINGS, |number| {
            let (path, object) = match number % 2 {
                0 => (ROLES, role(number / 2)),
                _ => (BINDINGS_PATH, binding(number / 2)),
            };
            (Method::POST, path.to_owned(), Bytes::from(object.to_string()))
        })
        .await?;
        server.authorization = Some(HeaderValue::from_static("Bearer user-token"));
        let how = format!("{}, RBAC with {BINDINGS} bindings", way.name());
        let created = creates(&server, way, Client::StaysAwake, 0, count).await?;
        let goal = Goal::AtLeast(8_000.0);
        report.add(format!("creates per CPU second, {how}"), created.per_cpu_second, "/s", goal);
        let got = gets(&server, way, 0..count, 2 * count).await?;
        let goal = Goal::AtLeast(25_000.0);
        report.add(format!("gets per CPU second, {how}"), got.per_cpu_second, "/s", goal);
    }
    Ok(())
}

fn decisions(report: &mut Report) -> Result<()> {
    let mut policy = Policy::default();
    for number in 0..BINDINGS {
        policy.put_role(Role::from_object(&role(number)));
        policy.put_binding(Binding::from_object(&binding(number)));
    }
    let groups = ["g4243".to_owned(), "system:authenticated".to_owned()];
    let user = Identity { name: "u42", groups: &groups };
    let get = ResourceAction {
        verb: "get",
        resource: "configmaps",
        namespace: "default",
        name: "a",
        ..ResourceAction::default()
    };
    let delete = ResourceAction { verb: "delete", ..get };
    let (count, mut right) = (100_000, 0);
    let started = Instant::now();
    for _ in 0..count / 2 {
        right += u32::from(policy.decide(user, &Action::Resource(get)).is_allowed());
        right += u32::from(!policy.decide(user, &Action::Resource(delete)).is_allowed());
    }
    let each = started.elapsed().as_secs_f64() * 1e6 / f64::from(count);
    if right != count {
        return Err(format!("{right} of {count} decisions were right").into());
    }
    report.add(format!("decision among {BINDINGS} bindings"), each, "us", Goal::AtMost(20.0));
    Ok(())
}

fn role(number: usize) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": format!("x{number}"), "namespace": "default"},
        "rules": [
            {"verbs": ["list"], "apiGroups": ["apps"], "resources": ["deployments"]},
            {"verbs": ["get", "create"], "apiGroups": [""], "resources": ["configmaps"]},
        ],
    })
}

/// Binds the role with this number to a user and a group of their own.
fn binding(number: usize) -> Value {
    const GROUP: &str = "rbac.authorization.k8s.io";
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": format!("x{number}"), "namespace": "default"},
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": format!("x{number}")},
        "subjects": [
            {"apiGroup": GROUP, "kind": "User", "name": format!("u{number}")},
            {"apiGroup": GROUP, "kind": "Group", "name": format!("g{number}")},
        ],
    })
}
