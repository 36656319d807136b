//! Rights that follow from registrations, compared with the audit log of a kube-apiserver, in real time. Skipped unless
//! `KUBEBUILDER_ASSETS` is set.
//!
//! Each operator runs with its declared rights and no others. Then none may be missing, and each must have been used, except for verbs
//! that the declarations call fallbacks. Two servers show that these are needed, too: one streams the initial objects of a watch, the
//! other does not.
#![expect(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use std::{collections::BTreeSet, time::Duration};

use audited_operators::Audited;
use controller_runtime::{
    Manager, ManagerOptions, leader_election::LeaderElectionOptions, rights::Declarations,
    webhook::WebhookOptions,
};
use kube_envtest::{Assets, Cluster, Environment, RightsReport, eventually};
use serde_json::Value;

/// Time limit of a step, which usually takes milliseconds.
const SOON: Duration = Duration::from_secs(30);

/// Permissions that no audit log shows, in no situation of these operators: an admission plugin asks for `update` of `finalizers`, and
/// only a repeated event is patched.
fn is_invisible(permission: &str) -> bool {
    permission.starts_with("update ") && permission.contains("/finalizers")
        || permission.starts_with("patch events.events.k8s.io")
}

#[tokio::test]
async fn declared_rights_are_those_that_a_kube_apiserver_asks_for() {
    if !Assets::are_configured() {
        eprintln!("skipped: KUBEBUILDER_ASSETS is not set");
        return;
    }
    let operators = audited_operators::all();
    let mut unused: Vec<BTreeSet<String>> = Vec::new();
    for flags in [&[][..], &["--feature-gates=WatchList=false"]] {
        let assets =
            flags.iter().fold(Assets::from_env().unwrap(), |assets, flag| assets.api_server_flag(*flag));
        let definitions = operators.iter().flat_map(|operator| operator.definitions.clone());
        let builder = Environment::builder().cluster(Cluster::Binaries(assets)).crds(definitions);
        let env = builder.start().await.unwrap();
        let mut found = Vec::new();
        for operator in &operators {
            found.push(superfluous(&env, operator).await);
        }
        if unused.is_empty() {
            unused = found;
        } else {
            for (before, now) in unused.iter_mut().zip(found) {
                before.retain(|permission| now.contains(permission));
            }
        }
        env.stop().await.unwrap();
    }
    let mut wrong = Vec::new();
    for (operator, unused) in operators.iter().zip(unused) {
        wrong.extend(
            unused.iter().filter(|one| !is_invisible(one)).map(|one| format!("{}: {one}", operator.name)),
        );
    }
    assert_eq!(wrong, Vec::<String>::new(), "declared rights that no request needs");
}

/// Runs an operator with its declared rights, and returns those that it did not use, all of which are fallbacks.
async fn superfluous(env: &Environment, operator: &Audited) -> BTreeSet<String> {
    let name = operator.name;
    let user = User(env.client());
    user.play("apply", &format!("/api/v1/namespaces/{name} {{}}")).await;
    let manager = |client| {
        let election = LeaderElectionOptions::new("lease").namespace(name);
        let options =
            ManagerOptions::new(name).leader_election(election).webhooks(WebhookOptions::local(None));
        let manager = Manager::new(client, options);
        (operator.add)(&manager).unwrap();
        manager
    };
    let declared = manager(env.client()).declarations();
    let manifests = declared.roles(name, name).manifest(name, name);
    let account = env.service_account(name, name).with_manifest_text(manifests).await.unwrap();
    let manager = manager(account.client());
    let play = async {
        for line in operator.steps.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (verb, rest) = line.split_once(' ').unwrap();
            user.play(verb, rest).await;
        }
    };
    if let Err(error) = manager.run(play).await {
        panic!("{name}: {error}\n{}", account.rights().unwrap());
    }
    let report = account.rights().unwrap();
    assert_eq!(report.missing, [], "{report}");
    assert!(!report.used.is_empty(), "{name}: the audit log is empty");
    let fallbacks = fallbacks(&declared, name);
    let superfluous: BTreeSet<String> = report.superfluous.iter().map(ToString::to_string).collect();
    let needless: Vec<_> = superfluous.difference(&fallbacks).collect();
    assert!(needless.is_empty(), "{needless:?} are no fallbacks: {}", shown(&report));
    superfluous
}

fn shown(report: &RightsReport) -> String {
    let used: Vec<String> = report.used.iter().map(ToString::to_string).collect();
    format!("{report}\n  used         {}", used.join("\n  used         "))
}

/// Permissions that only some servers or situations need, as a report formats them.
fn fallbacks(declared: &Declarations, namespace: &str) -> BTreeSet<String> {
    use controller_runtime::rights::{RightScope, Target};
    let mut all = BTreeSet::new();
    for one in declared {
        let Target::Objects { group, resource, subresource, names } = &one.right.target else { continue };
        let group = if group.is_empty() { String::new() } else { format!(".{group}") };
        let below = if subresource.is_empty() { String::new() } else { format!("/{subresource}") };
        let names: Vec<String> = match names.is_empty() {
            true => vec![String::new()],
            false => names.iter().map(|name| format!(" {name:?}")).collect(),
        };
        let scopes: Vec<String> = match &one.right.scope {
            RightScope::Namespaces { names, .. } => names.iter().map(|name| format!(" in {name}")).collect(),
            RightScope::OwnNamespace => vec![format!(" in {namespace}")],
            _ => vec![String::new()],
        };
        for verb in &one.fallback {
            for name in &names {
                all.extend(
                    scopes.iter().map(|scope| format!("{verb} {resource}{group}{below}{name}{scope}")),
                );
            }
        }
    }
    all
}

/// The user of an operator: the administrator.
struct User(kube::Client);

impl User {
    /// Carries out a step.
    async fn play(&self, verb: &str, rest: &str) {
        let (path, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        match verb {
            "apply" => self.apply(path, rest).await,
            "delete" => drop(self.send("DELETE", path, Vec::new()).await.unwrap()),
            "until" => {
                let (pointer, expected) = rest.split_once(' ').unwrap();
                self.wait(path, |object| match object.and_then(|object| object.pointer(pointer)) {
                    Some(Value::String(found)) => found == expected,
                    Some(found) => serde_json::to_string(found).unwrap() == expected,
                    None => false,
                })
                .await;
            }
            "exists" => self.wait(path, |object| object.is_some()).await,
            "gone" => self.wait(path, |object| object.is_none()).await,
            "any" => {
                let is_filled =
                    |list: &Value| list["items"].as_array().is_some_and(|items| !items.is_empty());
                self.wait(path, |list| list.is_some_and(is_filled)).await;
            }
            _ => panic!("no such step: {verb}"),
        }
    }

    /// Applies an object. Its version, kind and name follow from the path.
    async fn apply(&self, path: &str, text: &str) {
        let mut object: Value = serde_saphyr::from_str(text).unwrap();
        let parts: Vec<&str> = path.split('/').skip(2).collect();
        let (version, parts) = match parts[..] {
            ["v1", ..] => ("v1".to_owned(), &parts[1..]),
            _ => (format!("{}/{}", parts[0], parts[1]), &parts[2..]),
        };
        let plural = parts[parts.len() - 2];
        let kind = match plural {
            "configmaps" => "ConfigMap".to_owned(),
            _ => plural[..1].to_uppercase() + plural[1..].strip_suffix('s').unwrap(),
        };
        object["apiVersion"] = version.into();
        object["kind"] = kind.into();
        object["metadata"]["name"] = parts[parts.len() - 1].into();
        let path = format!("{path}?fieldManager=user&force=true");
        self.send("PATCH", &path, object.to_string().into_bytes()).await.unwrap();
    }

    async fn send(&self, method: &str, path: &str, body: Vec<u8>) -> Result<Value, kube::Error> {
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/apply-patch+yaml").body(body).unwrap();
        self.0.request(request).await
    }

    async fn wait(&self, path: &str, is_so: impl Fn(Option<&Value>) -> bool) {
        let reached = eventually(SOON, async || {
            let found = match self.send("GET", path, Vec::new()).await {
                Ok(found) => Some(found),
                Err(kube::Error::Api(status)) if status.code == 404 => None,
                Err(error) => return Err(error.to_string()),
            };
            if is_so(found.as_ref()) { Ok(()) } else { Err(format!("{path}: {found:?}")) }
        });
        reached.await.unwrap();
    }
}
