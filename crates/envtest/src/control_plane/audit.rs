//! The audit log of a kube-apiserver: its files, and the actions in it.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
};

use kube_apimachinery::rbac::OwnedAction;
use serde::Deserialize;

/// Prefix of the flags with which a test can configure the audit.
const FLAGS: &str = "--audit-";

/// Annotation of an event with the decision of the authorizer.
const DECISION: &str = "authorization.k8s.io/decision";

/// Policy that records requests without bodies when they end, and watches also when they begin. It leaves out the server's own
/// requests.
const POLICY: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
  "rules": [{"level": "None", "users": ["system:apiserver"]}, {"level": "Metadata"}]}"#;

/// Files of an audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuditFiles {
    pub(crate) policy: PathBuf,
    /// The log, to which the server appends. After each 100 MiB it begins a new one.
    pub(crate) log: PathBuf,
}

/// Actions of one request, each of which was authorized separately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuditedRequest {
    pub(crate) user: String,
    pub(crate) actions: Vec<AuditedAction>,
}

/// An action, and whether the authorizer refused it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuditedAction {
    pub(crate) action: OwnedAction,
    pub(crate) is_refused: bool,
}

impl AuditFiles {
    /// Writes the policy; `None` if flags of the test concern the audit.
    pub(crate) fn write(folder: &Path, flags: &[String]) -> io::Result<Option<Self>> {
        // The test has an audit configuration of its own, and the API server writes only one log.
        if flags.iter().any(|flag| flag.starts_with(FLAGS)) {
            return Ok(None);
        }
        let files = Self { policy: folder.join("audit-policy.json"), log: folder.join("audit.log") };
        fs::write(&files.policy, POLICY)?;
        Ok(Some(files))
    }

    /// Reads the requests of a user. A line that the server has not written completely is left out.
    pub(crate) fn requests_of(&self, user: &str) -> io::Result<Vec<AuditedRequest>> {
        let log = match fs::File::open(&self.log) {
            // Nothing was recorded yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            log => log?,
        };
        let mut requests = Vec::new();
        // Split bytes, not text, because an incomplete line can end within a character.
        for line in BufReader::new(log).split(b'\n') {
            let event: Option<Event> = serde_json::from_slice(&line?).ok();
            requests.extend(event.map(Event::into_request).filter(|request| request.user == user));
        }
        Ok(requests)
    }
}

/// An event of the log, as far as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    verb: String,
    #[serde(rename = "requestURI")]
    uri: String,
    user: AuditedUser,
    impersonated_user: Option<AuditedUser>,
    object_ref: Option<AuditedObject>,
    #[serde(default)]
    response_status: ResponseStatus,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct AuditedUser {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
struct AuditedObject {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize, Default)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
    #[serde(default)]
    message: String,
}

impl Event {
    fn into_request(self) -> AuditedRequest {
        let Self { verb, uri, user, impersonated_user, object_ref, response_status, annotations } = self;
        // The rights of the impersonated user decide, and the administrator only lends the connection.
        let user = impersonated_user.unwrap_or(user).username;
        let is_refused = response_status.code == 403
            && annotations.get(DECISION).is_some_and(|decision| decision == "forbid");
        let Some(object) = object_ref else {
            // Rules about paths apply without the query.
            let path = uri.split('?').next().unwrap_or_default().to_owned();
            let action = AuditedAction { action: OwnedAction::Path { verb, path }, is_refused };
            return AuditedRequest { user, actions: vec![action] };
        };
        // The name of an object that a POST creates is known only after it was authorized.
        let name = if verb == "create" && object.subresource.is_empty() { "" } else { &object.name };
        let mut actions = vec![AuditedAction { action: object.action(&verb, name), is_refused }];
        // The event has only the decision about the verb of the request. A patch or update that creates its object was also
        // authorized as `create`, which only the response code shows.
        let is_created = verb != "create" && response_status.code == 201;
        let lacks_create = !is_refused && response_status.lacks_create(&user);
        if is_created || lacks_create {
            actions.push(AuditedAction {
                action: object.action("create", &object.name),
                is_refused: lacks_create,
            });
        }
        AuditedRequest { user, actions }
    }
}

impl ResponseStatus {
    /// Whether the authorizer refused to `create` the object. Its message names the user; those of admission plugins differ.
    fn lacks_create(&self, user: &str) -> bool {
        let refusal = format!("is forbidden: User {user:?} cannot create resource ");
        self.code == 403 && self.message.contains(&refusal)
    }
}

impl AuditedObject {
    fn action(&self, verb: &str, name: &str) -> OwnedAction {
        OwnedAction::Resource {
            verb: verb.to_owned(),
            group: self.api_group.clone(),
            resource: self.resource.clone(),
            subresource: self.subresource.clone(),
            namespace: self.namespace.clone(),
            name: name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines in the form of kube-apiserver 1.36.
    const LOG: &str = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/shop/configmaps/a?fieldManager=x","verb":"patch","user":{"username":"admin","groups":["system:masters"]},"impersonatedUser":{"username":"jane"},"objectRef":{"resource":"configmaps","namespace":"shop","name":"a","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":201},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"stage":"ResponseStarted","requestURI":"/apis/example.com/v1/widgets?watch=true","verb":"watch","user":{"username":"jane"},"objectRef":{"resource":"widgets","apiGroup":"example.com","apiVersion":"v1"},"responseStatus":{"code":200}}
{"stage":"ResponseComplete","requestURI":"/api/v1/namespaces/shop/secrets/s","verb":"get","user":{"username":"jane"},"objectRef":{"resource":"secrets","namespace":"shop","name":"s","apiVersion":"v1"},"responseStatus":{"status":"Failure","reason":"Forbidden","code":403},"annotations":{"authorization.k8s.io/decision":"forbid"}}
{"stage":"ResponseComplete","requestURI":"/api/v1/namespaces/shop/pods","verb":"create","user":{"username":"jane"},"objectRef":{"resource":"pods","namespace":"shop","name":"p"},"responseStatus":{"reason":"Forbidden","code":403},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"stage":"ResponseComplete","requestURI":"/api/v1/namespaces/shop/configmaps/b?fieldManager=x","verb":"patch","user":{"username":"jane"},"objectRef":{"resource":"configmaps","namespace":"shop","name":"b"},"responseStatus":{"status":"Failure","message":"configmaps \"b\" is forbidden: User \"jane\" cannot create resource \"configmaps\" in API group \"\" in the namespace \"shop\": RBAC: role.rbac.authorization.k8s.io \"gone\" not found","reason":"Forbidden","code":403},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"stage":"ResponseComplete","requestURI":"/api/v1/namespaces/t/secrets/s?fieldManager=x","verb":"patch","user":{"username":"jane"},"objectRef":{"resource":"secrets","namespace":"t","name":"s"},"responseStatus":{"status":"Failure","message":"secrets \"s\" is forbidden: unable to create new content in namespace t because it is being terminated","reason":"Forbidden","code":403},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"stage":"ResponseComplete","requestURI":"/apis/coordination.k8s.io/v1/namespaces/shop/leases/l","verb":"update","user":{"username":"jane"},"objectRef":{"resource":"leases","apiGroup":"coordination.k8s.io","namespace":"shop","name":"l"},"responseStatus":{"code":201},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"stage":"ResponseComplete","requestURI":"/metrics?x=1","verb":"get","user":{"username":"jane"},"responseStatus":{"code":200}}
{"stage":"ResponseComplete","requestURI":"/api/v1/nodes","verb":"list","user":{"username":"john"},"objectRef":{"resource":"nodes"},"responseStatus":{"code":200}}
{"stage":"Respon"#;

    #[test]
    fn actions_of_a_user_are_read_with_those_that_the_log_does_not_name() {
        let folder = tempfile::tempdir().unwrap();
        let files = AuditFiles::write(folder.path(), &["--v=2".to_owned()]).unwrap().unwrap();
        assert_eq!(files.requests_of("jane").unwrap(), []);
        // The last line ends inside of a character.
        fs::write(&files.log, [LOG.as_bytes(), b"\xc3"].concat()).unwrap();
        let shown: Vec<String> = files
            .requests_of("jane")
            .unwrap()
            .iter()
            .map(|request| request.actions.iter().map(shown).collect::<Vec<_>>().join(", "))
            .collect();
        assert_eq!(
            shown,
            [
                "patch /configmaps/ shop/a, create /configmaps/ shop/a",
                "watch example.com/widgets/ /",
                "refused get /secrets/ shop/s",
                // Admission refused it: no right is missing.
                "create /pods/ shop/",
                "patch /configmaps/ shop/b, refused create /configmaps/ shop/b",
                "patch /secrets/ t/s",
                "update coordination.k8s.io/leases/ shop/l, create coordination.k8s.io/leases/ shop/l",
                "get /metrics",
            ]
        );
        let own = ["--audit-log-path=-".to_owned()];
        assert_eq!(AuditFiles::write(folder.path(), &own).unwrap(), None);
    }

    fn shown(AuditedAction { action, is_refused }: &AuditedAction) -> String {
        let refused = if *is_refused { "refused " } else { "" };
        match action {
            OwnedAction::Path { verb, path } => format!("{refused}{verb} {path}"),
            OwnedAction::Resource { verb, group, resource, subresource, namespace, name } => {
                format!("{refused}{verb} {group}/{resource}/{subresource} {namespace}/{name}")
            }
        }
    }
}
