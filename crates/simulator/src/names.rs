//! Names of processes, objects and calls, as they stand in plans and traces.

use std::{fmt, sync::Arc};

use http::{Method, Request, header};
use serde::Deserialize;

/// Process, or another origin of calls and commits. Each life of a process has an actor of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Actor {
    /// Steps of the simulation.
    User,
    /// Controllers of the API server.
    Server,
    /// A process in its n-th life, counted from 0.
    Process { process: ProcessName, life: u32 },
}

/// Name of the operator under test in traces.
pub(crate) const OPERATOR: &str = "operator";

/// One replica of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProcessName {
    /// `operator`, or the name of another program.
    pub(crate) program: &'static str,
    /// Counted from 0.
    pub(crate) replica: u8,
    /// Whether faults happen to it, and its writes are judged.
    pub(crate) is_tested: bool,
}

impl ProcessName {
    /// Returns the end of the name of a watch of this process, such as ` to operator-2`; empty for the first operator.
    fn suffix(self) -> String {
        if self.program == OPERATOR && self.replica == 0 { String::new() } else { format!(" to {self}") }
    }
}

/// Formats as `operator`, `operator-2`, `page-police`.
impl fmt::Display for ProcessName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program)?;
        if self.replica > 0 { write!(f, "-{}", self.replica + 1) } else { Ok(()) }
    }
}

impl Actor {
    /// Whether it is a process under test.
    pub(crate) fn is_operator(self) -> bool {
        self.process().is_some_and(|process| process.is_tested)
    }

    /// The process; `None` for the user and the server.
    pub(crate) fn process(self) -> Option<ProcessName> {
        match self {
            Self::Process { process, .. } => Some(process),
            Self::User | Self::Server => None,
        }
    }

    /// Returns the name of the watches of a resource by this actor, such as `pods` or `pods to operator-2`.
    pub(crate) fn stream(self, resource: &str) -> String {
        format!("{resource}{}", self.process().map(ProcessName::suffix).unwrap_or_default())
    }
}

/// Formats as `user`, `server`, `operator`, and the lives after a crash as `operator′` and `operator″3`.
impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User => f.pad("user"),
            Self::Server => f.pad("server"),
            Self::Process { process, life } => match life {
                0 => f.pad(&process.to_string()),
                1 => f.pad(&format!("{process}′")),
                life => f.pad(&format!("{process}″{}", life + 1)),
            },
        }
    }
}

/// Returns the name of the stream of a line: its resource, and its process unless that is the first operator. The name of a stream stays as
/// it is.
pub(crate) fn stream_of(line: &str) -> String {
    let resource = line.split(' ').next().unwrap_or_default();
    match line.rsplit_once(" to ") {
        Some((_, process)) => format!("{resource} to {process}"),
        None => resource.to_owned(),
    }
}

/// Returns the process in the name of a line or stream, which is empty for the first operator.
pub(crate) fn process_of(line: &str) -> &str {
    line.rsplit_once(" to ").map_or("", |(_, process)| process)
}

/// Whether the name of a process is that of a second or later replica of the operator, such as `operator-2`.
pub(crate) fn is_replica(process: &str) -> bool {
    let number = process.strip_prefix(OPERATOR).and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| number.parse::<u8>().is_ok())
}

/// Identity of an object: its resource, without the version, and its key. Clones share the text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectId {
    /// Plural name and group, such as `deployments.apps`.
    pub(crate) resource: Arc<str>,
    /// Namespace and name, such as `default/web`.
    pub(crate) key: Arc<str>,
}

impl ObjectId {
    pub(crate) fn new(group: &str, resource: &str, namespace: &str, name: &str) -> Self {
        Self { resource: with_group(resource, group).into(), key: key(namespace, name).into() }
    }

    /// The id with a generated name replaced by `prefix*`. An empty prefix stands for none.
    pub(crate) fn family(&self, prefix: &str) -> Self {
        let (namespace, name) = self.key.rsplit_once('/').map_or(("", &*self.key), |parts| parts);
        if prefix.is_empty() || !name.starts_with(prefix) {
            return self.clone();
        }
        Self { resource: Arc::clone(&self.resource), key: key(namespace, &format!("{prefix}*")).into() }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.resource, self.key)
    }
}

fn with_group(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// Name of a request or of a remote effect: the request without values that differ from run to run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallName {
    pub(crate) verb: String,
    /// Resource with group and subresource, such as `guestbooks.example.com/status`; the remote system of an effect.
    pub(crate) target: String,
    /// Namespace and name; empty for collections of all namespaces.
    pub(crate) key: String,
}

impl CallName {
    /// Names a request. Creates are named by the object in `body`.
    pub(crate) fn of_request<B>(request: &Request<B>, body: &[u8]) -> Self {
        let path = request.uri().path();
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, rest) = match parts.as_slice() {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => ("", &[][..]),
        };
        let (namespace, rest) = match rest {
            // `/namespaces/<name>`, and its own subresources, are requests about the namespace, not about
            // objects in it.
            ["namespaces", namespace, rest @ ..] if rest.len() > usize::from(is_namespace_part(rest)) => {
                (*namespace, rest)
            }
            rest => ("", rest),
        };
        let (resource, name, subresource) = match rest {
            // A path that is no resource, such as `/version`, stands for itself.
            [] => return Self { verb: "get".to_owned(), target: path.to_owned(), key: String::new() },
            [resource] => (*resource, "", ""),
            [resource, name] => (*resource, *name, ""),
            [resource, name, subresource, ..] => (*resource, *name, *subresource),
        };
        let verb = verb(request, !name.is_empty());
        let name = match (verb, name) {
            // The path of a create lacks the name. A plan needs it, to tell creations of one step apart.
            ("create", "") => name_in(body),
            _ => name.to_owned(),
        };
        let resource = with_group(resource, group);
        let target = if subresource.is_empty() { resource } else { format!("{resource}/{subresource}") };
        Self { verb: verb.to_owned(), target, key: key(namespace, &name) }
    }

    /// Names an effect on a remote system.
    pub(crate) fn of_effect(remote: &str, effect: &str, detail: &str) -> Self {
        Self { verb: effect.to_owned(), target: format!("at {remote}"), key: detail.to_owned() }
    }

    /// Whether the call changes something that a simulation compares: Events and leases do not count, and each effect does, because
    /// its name does not tell whether it only reads.
    pub(crate) fn is_write(&self) -> bool {
        let is_read = ["get", "list", "watch"].contains(&&*self.verb);
        self.is_effect() || (!is_read && !is_masked_resource(&self.target))
    }

    /// Whether it reads objects of the API server once, unlike a watch.
    pub(crate) fn is_read(&self) -> bool {
        // A path that is no resource stands for itself, such as `/version`.
        let is_of_objects = !self.target.starts_with('/') && !is_masked_resource(&self.target);
        matches!(&*self.verb, "get" | "list") && is_of_objects && !self.is_effect()
    }

    /// Whether it is an effect on a remote system.
    pub(crate) fn is_effect(&self) -> bool {
        self.target.starts_with("at ")
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.verb == "watch" && !self.is_effect()
    }
}

/// Formats as `create configmaps default/page-*`.
impl fmt::Display for CallName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.target)?;
        if self.key.is_empty() { Ok(()) } else { write!(f, " {}", self.key) }
    }
}

/// Whether the part after `namespaces/<name>` belongs to the namespace itself, such as `finalize`.
fn is_namespace_part(rest: &[&str]) -> bool {
    matches!(rest, ["finalize" | "status"])
}

/// Resources that a simulation does not compare.
pub(crate) fn is_masked_resource(resource: &str) -> bool {
    matches!(resource, "events" | "events.events.k8s.io" | "leases.coordination.k8s.io")
        || resource.ends_with(".authentication.k8s.io")
        || resource.ends_with(".authorization.k8s.io")
}

fn verb<B>(request: &Request<B>, has_name: bool) -> &'static str {
    let query = request.uri().query().unwrap_or_default();
    let is_watch = query.split('&').any(|part| matches!(part, "watch=true" | "watch=1" | "watch"));
    let is_apply = request
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.to_str().is_ok_and(|value| value.starts_with("application/apply-patch")));
    match *request.method() {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH if is_apply => "apply",
        Method::PATCH => "patch",
        Method::DELETE if has_name => "delete",
        Method::DELETE => "deletecollection",
        _ if is_watch => "watch",
        _ if has_name => "get",
        _ => "list",
    }
}

/// Name of the object in the body of a create; `prefix*` if the server generates it.
fn name_in(body: &[u8]) -> String {
    #[derive(Deserialize, Default)]
    struct Object {
        #[serde(default)]
        metadata: Names,
    }
    #[derive(Deserialize, Default)]
    #[serde(default, rename_all = "camelCase")]
    struct Names {
        name: Option<String>,
        generate_name: Option<String>,
    }
    let Names { name, generate_name } = serde_json::from_slice::<Object>(body).unwrap_or_default().metadata;
    match (name, generate_name) {
        (Some(name), _) => name,
        (None, Some(prefix)) => format!("{prefix}*"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &str, uri: &str, body: &str, expected: &str) {
        let request = Request::builder().method(method).uri(uri).body(()).unwrap();
        assert_eq!(CallName::of_request(&request, body.as_bytes()).to_string(), expected, "{method} {uri}");
    }

    #[test]
    fn requests_are_named_by_verb_resource_and_object() {
        check("GET", "/api/v1/configmaps?watch=true&x=y", "", "watch configmaps");
        check("GET", "/api/v1/namespaces/a/configmaps", "", "list configmaps a/");
        check("GET", "/api/v1/namespaces/a/configmaps/x", "", "get configmaps a/x");
        check("GET", "/api/v1/namespaces/a", "", "get namespaces a");
        check("PUT", "/api/v1/namespaces/a/finalize", "", "update namespaces/finalize a");
        check("GET", "/version", "", "get /version");
        let uri = "/apis/apps/v1/namespaces/a/deployments/web/status";
        check("PATCH", uri, "", "patch deployments.apps/status a/web");
        check("DELETE", "/apis/apps/v1/namespaces/a/deployments", "", "deletecollection deployments.apps a/");
        let uri = "/api/v1/namespaces/a/configmaps";
        check("POST", uri, r#"{"metadata":{"name":"x"}}"#, "create configmaps a/x");
        check("POST", uri, r#"{"metadata":{"generateName":"x-"}}"#, "create configmaps a/x-*");
        check("POST", uri, "not JSON", "create configmaps a/");
    }

    #[test]
    fn an_effect_may_change_something_whatever_its_name() {
        for verb in ["get", "list", "watch", "create"] {
            let effect = CallName::of_effect("dns", verb, "x");
            assert!(effect.is_write() && !effect.is_read() && !effect.is_watch(), "{effect}");
        }
        let request = |verb: &str, target: &str| {
            let (verb, target, key) = (verb.to_owned(), target.to_owned(), String::new());
            CallName { verb, target, key }
        };
        assert!(request("list", "configmaps").is_read() && request("get", "pods/log").is_read());
        assert!(!request("get", "/version").is_read() && !request("watch", "configmaps").is_read());
        assert!(!request("get", "leases.coordination.k8s.io").is_read());
    }

    #[test]
    fn an_apply_is_recognised_by_its_content_type() {
        let request = Request::patch("/api/v1/namespaces/a/configmaps/x")
            .header(header::CONTENT_TYPE, "application/apply-patch+yaml")
            .body(())
            .unwrap();
        assert_eq!(CallName::of_request(&request, b"").to_string(), "apply configmaps a/x");
    }

    #[test]
    fn a_replica_is_the_operator_with_a_number() {
        let replica = ProcessName { program: OPERATOR, replica: 1, is_tested: true };
        assert!(is_replica(&replica.to_string()));
        assert!(["operator", "operator-x", "operator-", "operators-2"].iter().all(|name| !is_replica(name)));
    }

    #[test]
    fn generated_names_form_a_family() {
        let id = ObjectId::new("", "configmaps", "a", "page-x7k2p");
        assert_eq!(id.family("page-").to_string(), "configmaps a/page-*");
        assert_eq!(id.family("").to_string(), "configmaps a/page-x7k2p");
    }
}
