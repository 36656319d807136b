//! Kinds to write, with samples and schemas.

use std::collections::BTreeMap;

use http::Method;
use serde_json::{Value, json};

use super::Result;
use super::request::{Bindings, Request};
use super::schema::Schemas;
use super::server::Server;

/// Valid objects, one or more of each kind. `{{ns}}` stands for the namespace of a story.
const SAMPLES: &str = include_str!("samples.yaml");
/// Definitions of the custom kinds.
const DEFINITIONS: &str = include_str!("definitions.yaml");

/// Users that stories impersonate, with a role in all namespaces. Another user of stories has no role.
const USERS: [(&str, &str); 3] = [("viewer", "view"), ("editor", "edit"), ("keeper", "admin")];

/// A resource that stories write.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) is_namespaced: bool,
    pub(crate) verbs: Vec<String>,
    /// Names of subresources, such as `status`.
    pub(crate) subresources: Vec<String>,
    pub(crate) samples: Vec<Value>,
}

impl Resource {
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Whether a definition serves it.
    pub(crate) fn is_custom(&self) -> bool {
        self.group.ends_with("example.com")
    }

    /// Whether a stored object would change the responses to other stories, or is changed by controllers of kube-apiserver, so that all
    /// writes are dry runs.
    pub(crate) fn affects_others(&self) -> bool {
        let is_of_group = matches!(
            &*self.group,
            "apiextensions.k8s.io" | "apiregistration.k8s.io" | "flowcontrol.apiserver.k8s.io"
        );
        is_of_group || matches!(&*self.plural, "ipaddresses" | "servicecidrs")
    }

    /// Returns names of objects that exist on both servers. Dry runs can update them.
    pub(crate) fn fixtures(&self) -> &'static [&'static str] {
        match &*self.plural {
            // Not the one with a conversion webhook, because the URLs differ.
            "customresourcedefinitions" => &[
                "widgets.differential.example.com",
                "gadgets.differential.example.com",
                "gizmos.differential.example.com",
            ],
            "apiservices" => &["v1.", "v1.apps"],
            "flowschemas" => &["catch-all", "probes", "exempt", "system-leader-election"],
            "prioritylevelconfigurations" => &["catch-all", "exempt", "workload-low"],
            "servicecidrs" => &["kubernetes"],
            _ => &[],
        }
    }

    /// Returns the path of the collection.
    pub(crate) fn collection(&self) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let namespace = if self.is_namespaced { "/namespaces/{{ns}}" } else { "" };
        format!("{root}/{}{namespace}/{}", self.api_version(), self.plural)
    }
}

/// Resources and the schemas of their objects.
#[derive(Debug)]
pub(crate) struct Catalog {
    pub(crate) resources: Vec<Resource>,
    pub(crate) schemas: Schemas,
}

impl Catalog {
    /// Defines the custom kinds on both servers and reads the schemas of the genuine one.
    pub(crate) async fn load(genuine: &Server, ours: &Server) -> Result<Self> {
        for definition in documents(DEFINITIONS)? {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            let create = Request::new(Method::POST, path, "definitions").body(definition);
            for server in [genuine, ours] {
                let answer = server.send(&create, &server.bindings("none")).await?;
                if answer.status != 201 {
                    return Err(format!("a definition is refused: {}", answer.body).into());
                }
            }
        }
        for (user, role) in USERS {
            let binding = json!({
                "metadata": {"name": format!("of-{user}")},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
            });
            let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
            let create = Request::new(Method::POST, path, "users").body(binding);
            for server in [genuine, ours] {
                let answer = server.send(&create, &server.bindings("none")).await?;
                if answer.status != 201 {
                    return Err(format!("a binding is refused: {}", answer.body).into());
                }
            }
        }
        let mut samples: BTreeMap<(String, String), Vec<Value>> = BTreeMap::new();
        for sample in documents(SAMPLES)? {
            let text = |field: &str| sample[field].as_str().unwrap_or_default().to_owned();
            samples.entry((text("apiVersion"), text("kind"))).or_default().push(sample);
        }
        wait_for_kinds(genuine).await?;
        let versions: std::collections::BTreeSet<String> =
            samples.keys().map(|(version, _)| version.clone()).collect();
        let (mut resources, mut schemas) = (Vec::new(), Schemas::default());
        for version in versions {
            let root =
                if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
            let discovery = wait_for(genuine, &root).await?;
            schemas.add(wait_for(genuine, &format!("/openapi/v3{root}")).await?);
            add_resources(&version, &discovery, &mut samples, &mut resources);
            // The embedded server publishes the schemas of a definition at once.
            wait_for(ours, &root).await?;
        }
        match samples.keys().next() {
            Some((version, kind)) => Err(format!("no resource for the samples of {version} {kind}").into()),
            None => Ok(Self { resources, schemas }),
        }
    }
}

/// Adds the resources of a group version that have samples, and takes these.
fn add_resources(
    api_version: &str,
    discovery: &Value,
    samples: &mut BTreeMap<(String, String), Vec<Value>>,
    resources: &mut Vec<Resource>,
) {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let mut listed = discovery["resources"].as_array().cloned().unwrap_or_default();
    // kube-apiserver lists custom kinds in the order in which it has established them, but a seed always stands for the same stories.
    listed.sort_by_cached_key(|entry| entry["name"].to_string());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for entry in &listed {
        let (plural, kind) = (text(&entry["name"]), text(&entry["kind"]));
        if plural.contains('/') {
            continue;
        }
        let Some(samples) = samples.remove(&(api_version.to_owned(), kind.clone())) else { continue };
        let start = format!("{plural}/");
        let subresources = listed.iter().filter_map(|entry| entry["name"].as_str()?.strip_prefix(&start));
        resources.push(Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            kind,
            is_namespaced: entry["namespaced"] == true,
            verbs: entry["verbs"].as_array().into_iter().flatten().map(text).collect(),
            subresources: subresources.map(str::to_owned).collect(),
            plural,
            samples,
        });
    }
}

/// Waits until the genuine server serves the custom kinds of the stories.
async fn wait_for_kinds(genuine: &Server) -> Result<()> {
    const ROOT: &str = "/apis/differential.example.com/v1";
    const KINDS: [&str; 4] = ["Widget", "Gadget", "Sprocket", "Gizmo"];
    for _ in 0..100 {
        let (discovery, schemas) = (wait_for(genuine, ROOT).await?, format!("/openapi/v3{ROOT}"));
        let schemas = wait_for(genuine, &schemas).await?.to_string();
        let is_served = |kind: &&str| {
            let mut resources = discovery["resources"].as_array().into_iter().flatten();
            resources.any(|resource| resource["kind"] == *kind) && schemas.contains(&format!(".{kind}\""))
        };
        if KINDS.iter().all(is_served) {
            return Ok(());
        }
        tokio::time::sleep(tokio::time::Duration::from_millis(200)).await;
    }
    Err("the custom kinds are not served".into())
}

/// Reads a document, which the genuine server publishes some time after a definition.
async fn wait_for(server: &Server, path: &str) -> Result<Value> {
    for _ in 0..100 {
        let answer = server.send(&Request::new(Method::GET, path, ""), &Bindings::new("none")).await?;
        if answer.status == 200 {
            return Ok(answer.body);
        }
        tokio::time::sleep(tokio::time::Duration::from_millis(200)).await;
    }
    Err(format!("{path} is not served").into())
}

fn documents(text: &str) -> Result<Vec<Value>> {
    text.split("\n---\n").map(|part| serde_saphyr::from_str(part).map_err(Into::into)).collect()
}
