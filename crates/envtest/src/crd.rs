//! Reads, installs and removes CustomResourceDefinitions.

use std::{
    fmt,
    future::{Future, IntoFuture},
    io,
    path::{Path, PathBuf},
    pin::Pin,
    time::Duration,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde::Deserialize;

use crate::{
    documents::{DocumentError, documents_of, files_of},
    eventually::poll,
};

/// Time limit for a definition to be served, as in Go's envtest.
pub(crate) const ESTABLISHED_WITHIN: Duration = Duration::from_secs(10);

/// Time limit for the removal of a definition, which waits for the deletion of its objects.
const GONE_WITHIN: Duration = Duration::from_secs(60);

/// Failure to read, install or remove CustomResourceDefinitions.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CrdError {
    /// A file or folder could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Path of the file or folder.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A file contains something else.
    #[error("{} does not contain CustomResourceDefinitions: {reason}", path.display())]
    Parse {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        reason: String,
    },
    /// The API server rejected a definition.
    #[error("the API server rejected the CustomResourceDefinition {name}: {reason}")]
    Refused {
        /// Name of the definition.
        name: String,
        /// Message of the API server.
        reason: String,
    },
    /// A definition was accepted, but its kind was not served in time.
    #[error("the CustomResourceDefinition {name} is not served after {within:?}: {reason}")]
    NotEstablished {
        /// Name of the definition.
        name: String,
        /// Time limit.
        within: Duration,
        /// Conditions of the definition, or the error of the last attempt to read it.
        reason: String,
    },
    /// A definition was deleted, but still exists.
    #[error("the CustomResourceDefinition {name} still exists after its deletion: {reason}")]
    Remains {
        /// Name of the definition.
        name: String,
        /// Conditions of the definition, or the error of the last attempt to read it.
        reason: String,
    },
}

/// Reads the CustomResourceDefinitions in a YAML or JSON file, or in all such files of a folder, by name.
///
/// A file can hold several documents. Documents of other kinds are skipped, so that `path` can be a folder of manifests;
/// a single file must contain at least one definition.
///
/// # Errors
///
/// A file or folder cannot be read, or its contents are invalid.
pub fn read_crds(path: &Path) -> Result<Vec<CustomResourceDefinition>, CrdError> {
    if !path.is_dir() {
        let crds = read_file(path)?;
        // A file that is named alone must contain a definition, while a folder may contain other manifests.
        if crds.is_empty() {
            return Err(CrdError::Parse { path: path.to_owned(), reason: "it contains none".to_owned() });
        }
        return Ok(crds);
    }
    let mut crds = Vec::new();
    for file in files_of(path)? {
        crds.extend(read_file(&file)?);
    }
    Ok(crds)
}

fn read_file(path: &Path) -> Result<Vec<CustomResourceDefinition>, CrdError> {
    let problem = |reason: String| CrdError::Parse { path: path.to_owned(), reason };
    documents_of(path)?
        .into_iter()
        .filter(|document| document["kind"] == "CustomResourceDefinition")
        .map(|document| {
            CustomResourceDefinition::deserialize(document).map_err(|error| problem(error.to_string()))
        })
        .collect()
}

impl From<DocumentError> for CrdError {
    fn from(error: DocumentError) -> Self {
        match error {
            DocumentError::Read { path, source } => Self::Read { path, source },
            DocumentError::Parse { path, reason } => Self::Parse { path, reason },
        }
    }
}

/// Installs or updates definitions, and waits until their kinds are served.
///
/// Works on any cluster. Definitions are applied server-side with the field manager `kube-envtest`.
///
/// ```no_run
/// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::{path::Path, time::Duration};
/// use kube_envtest::{install_crds, read_crds};
///
/// let crds = read_crds(Path::new("config/crd"))?;
/// install_crds(&client, &crds).within(Duration::from_secs(60)).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The API server rejects a definition, or does not serve its kind within 10 seconds ([`InstallCrds::within`]).
pub fn install_crds<'a>(client: &'a kube::Client, crds: &'a [CustomResourceDefinition]) -> InstallCrds<'a> {
    InstallCrds { client, crds, within: ESTABLISHED_WITHIN }
}

/// An installation, which starts when it is awaited: see [`install_crds`].
#[must_use = "nothing is installed unless it is awaited"]
#[doc(alias = "CRDInstallOptions")]
pub struct InstallCrds<'a> {
    client: &'a kube::Client,
    crds: &'a [CustomResourceDefinition],
    within: Duration,
}

impl InstallCrds<'_> {
    /// Sets the time limit for each definition to be served. Default: 10 s.
    #[doc(alias = "MaxTime")]
    pub fn within(mut self, time: Duration) -> Self {
        self.within = time;
        self
    }

    async fn install(self) -> Result<(), CrdError> {
        let Self { client, crds, within } = self;
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let params = PatchParams::apply("kube-envtest").force();
        // Apply all definitions before waiting for the first, so that the API server establishes them concurrently.
        for crd in crds {
            let name = crd.name_any();
            let applied = api.patch(&name, &params, &Patch::Apply(crd)).await;
            applied.map_err(|error| CrdError::Refused { name, reason: text_of(&error) })?;
        }
        for crd in crds {
            let name = crd.name_any();
            let established = poll(within, || established(&api, &name)).await;
            established.map_err(|unmet| CrdError::NotEstablished { name, within, reason: unmet.last })?;
        }
        Ok(())
    }
}

impl<'a> IntoFuture for InstallCrds<'a> {
    type Output = Result<(), CrdError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.install())
    }
}

impl fmt::Debug for InstallCrds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.crds.iter().map(ResourceExt::name_any).collect();
        f.debug_struct("InstallCrds")
            .field("crds", &names)
            .field("within", &self.within)
            .finish_non_exhaustive()
    }
}

/// Removes definitions with all objects of their kinds, and waits until they are gone. Definitions that do not exist are ignored.
///
/// # Errors
///
/// The API server rejects a deletion, or a definition still exists after a minute because its objects have finalizers. The other
/// definitions are deleted nevertheless; the error is the first one.
pub async fn uninstall_crds(
    client: &kube::Client,
    crds: &[CustomResourceDefinition],
) -> Result<(), CrdError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let (mut deleted, mut refused) = (Vec::new(), None);
    for crd in crds {
        let name = crd.name_any();
        match api.delete(&name, &DeleteParams::default()).await {
            Ok(_) => deleted.push(name),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => {
                refused.get_or_insert(CrdError::Refused { name, reason: text_of(&error) });
            }
        }
    }
    for name in deleted {
        let removed = poll(GONE_WITHIN, || gone(&api, &name)).await;
        if let Err(unmet) = removed {
            // A minute for each of several definitions that remain would be too long.
            return Err(refused.unwrap_or(CrdError::Remains { name, reason: unmet.last }));
        }
    }
    refused.map_or(Ok(()), Err)
}

async fn established(api: &Api<CustomResourceDefinition>, name: &str) -> Result<(), String> {
    let crd = api.get(name).await.map_err(|error| text_of(&error))?;
    let mut conditions = crd.status.iter().flat_map(|status| status.conditions.iter().flatten());
    if conditions.any(|condition| condition.type_ == "Established" && condition.status == "True") {
        // The condition is set before every API server serves the kind, so the requests of a test could still
        // fail with 404.
        return served(api, &crd).await;
    }
    Err(conditions_text(&crd))
}

async fn gone(api: &Api<CustomResourceDefinition>, name: &str) -> Result<(), String> {
    match api.get_opt(name).await.map_err(|error| text_of(&error))? {
        None => Ok(()),
        Some(crd) => Err(conditions_text(&crd)),
    }
}

/// The conditions of a definition as text, for the message of a wait that ran out of time.
fn conditions_text(crd: &CustomResourceDefinition) -> String {
    let conditions = crd.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let conditions: Vec<String> = conditions
        .map(|c| format!("{}={} ({})", c.type_, c.status, c.message.as_deref().unwrap_or_default()))
        .collect();
    if conditions.is_empty() { "it has no conditions".to_owned() } else { conditions.join(", ") }
}

/// Checks that the kind can be listed: an API server sets the condition `Established` shortly before it serves the kind.
async fn served(api: &Api<CustomResourceDefinition>, crd: &CustomResourceDefinition) -> Result<(), String> {
    for version in crd.spec.versions.iter().filter(|version| version.served) {
        let path = format!("/apis/{}/{}/{}?limit=1", crd.spec.group, version.name, crd.spec.names.plural);
        let request = http::Request::get(&path).body(Vec::new()).map_err(|error| error.to_string())?;
        let answer = api.clone().into_client().request_text(request).await;
        answer.map_err(|error| format!("{path} is not served: {}", text_of(&error)))?;
    }
    Ok(())
}

/// Message of the API server, or of the error.
pub(crate) fn text_of(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.trim().to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        fs::write(folder.join(name), text).expect("a file in the temporary folder");
    }

    const CRD: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.example.com}\nspec: {group: example.com, names: {kind: A, plural: as}, scope: Cluster, versions: []}\n";

    #[test]
    fn a_folder_is_read_in_the_order_of_its_file_names_and_other_kinds_are_skipped() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        write(folder.path(), "2.yaml", &CRD.replace("as.", "second."));
        write(folder.path(), "1.yml", &format!("kind: Namespace\n---\n{}", CRD.replace("as.", "first.")));
        write(folder.path(), "notes.txt", "not: [yaml");
        let crds = read_crds(folder.path()).expect("a readable folder");
        assert_eq!(
            crds.iter().map(ResourceExt::name_any).collect::<Vec<_>>(),
            ["first.example.com", "second.example.com"]
        );
    }

    #[test]
    fn an_invalid_file_is_named_with_the_problem() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        write(folder.path(), "bad.yaml", "kind: [");
        write(folder.path(), "other.yaml", "kind: Namespace\n");
        for (file, what) in
            [("bad.yaml", "does not contain"), ("other.yaml", "it contains none"), ("no.yaml", "cannot read")]
        {
            let error = read_crds(&folder.path().join(file)).expect_err(file).to_string();
            assert!(error.contains(file) && error.contains(what), "{error}");
        }
    }
}
