//! Installing CustomResourceDefinitions.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde::Deserialize;
use serde_json::Value;

use crate::eventually::eventually;

/// How long a definition may take to be served: the limit of Go's envtest.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(10);

/// Why CustomResourceDefinitions were not installed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CrdError {
    /// A file or folder cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file holds something else.
    #[error("{} does not hold CustomResourceDefinitions: {reason}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The API server refused a definition.
    #[error("cannot install the CustomResourceDefinition {name}: {reason}")]
    Refused {
        /// Its name.
        name: String,
        /// The server's words.
        reason: String,
    },
    /// A definition was accepted, but its kind is not served.
    #[error("the CustomResourceDefinition {name} is not established after {} s: {reason}", ESTABLISHED_WITHIN.as_secs())]
    NotEstablished {
        /// Its name.
        name: String,
        /// Its conditions, or how the last attempt to read it ended.
        reason: String,
    },
}

/// Reads the CustomResourceDefinitions in a YAML or JSON file, or in all such files of a folder, by name.
///
/// A file may hold several documents. Documents of other kinds are passed over, so that a folder of manifests will do;
/// a file named by itself must hold at least one definition.
///
/// # Errors
///
/// A file or folder cannot be read, or does not hold what it should.
pub fn read_crds(path: &Path) -> Result<Vec<CustomResourceDefinition>, CrdError> {
    if !path.is_dir() {
        let crds = read_file(path)?;
        if crds.is_empty() {
            return Err(CrdError::Parse { path: path.to_owned(), reason: "there is none in it".to_owned() });
        }
        return Ok(crds);
    }
    let entries = fs::read_dir(path).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut files: Vec<PathBuf> = entries.map_err(unreadable(path))?;
    files.retain(|file| file.extension().is_some_and(|ext| ext == "yaml" || ext == "yml" || ext == "json"));
    files.sort();
    let mut crds = Vec::new();
    for file in files {
        crds.extend(read_file(&file)?);
    }
    Ok(crds)
}

fn read_file(path: &Path) -> Result<Vec<CustomResourceDefinition>, CrdError> {
    let text = fs::read_to_string(path).map_err(unreadable(path))?;
    let problem = |reason: String| CrdError::Parse { path: path.to_owned(), reason };
    let documents: Vec<Value> =
        // The first line says what and where, the others quote the file.
        serde_saphyr::from_multiple(&text)
            .map_err(|error| problem(error.to_string().lines().next().unwrap_or_default().to_owned()))?;
    documents
        .into_iter()
        .filter(|document| document["kind"] == "CustomResourceDefinition")
        .map(|document| {
            CustomResourceDefinition::deserialize(document).map_err(|error| problem(error.to_string()))
        })
        .collect()
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> CrdError {
    |source| CrdError::Read { path: path.to_owned(), source }
}

/// Installs definitions, or brings them up to date, and waits until their kinds are served.
///
/// Works on any cluster. Definitions are applied server-side, in the name `kube-envtest`.
///
/// # Errors
///
/// The API server refuses a definition, or does not serve its kind within 10 seconds.
pub async fn install_crds(client: &kube::Client, crds: &[CustomResourceDefinition]) -> Result<(), CrdError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("kube-envtest").force();
    for crd in crds {
        let name = crd.name_any();
        let applied = api.patch(&name, &params, &Patch::Apply(crd)).await;
        applied.map_err(|error| CrdError::Refused { name, reason: text_of(&error) })?;
    }
    for crd in crds {
        let name = crd.name_any();
        let established = eventually(ESTABLISHED_WITHIN, async || established(&api, &name).await).await;
        established.map_err(|unmet| CrdError::NotEstablished { name, reason: unmet.last })?;
    }
    Ok(())
}

async fn established(api: &Api<CustomResourceDefinition>, name: &str) -> Result<(), String> {
    let crd = api.get(name).await.map_err(|error| text_of(&error))?;
    let conditions = crd.status.and_then(|status| status.conditions).unwrap_or_default();
    if conditions.iter().any(|condition| condition.type_ == "Established" && condition.status == "True") {
        return Ok(());
    }
    let conditions: Vec<String> = conditions
        .iter()
        .map(|c| format!("{}={} ({})", c.type_, c.status, c.message.as_deref().unwrap_or_default()))
        .collect();
    Err(if conditions.is_empty() { "it has no conditions yet".to_owned() } else { conditions.join(", ") })
}

/// The server's words, or the error's.
fn text_of(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.trim().to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        fs::write(folder.join(name), text).expect("a file in the temporary folder");
    }

    const CRD: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.example.com}\nspec: {group: example.com, names: {kind: A, plural: as}, scope: Cluster, versions: []}\n";

    #[test]
    fn a_folder_is_read_in_the_order_of_its_file_names_and_other_kinds_are_passed_over() {
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
    fn what_is_wrong_with_a_file_is_said_with_its_name() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        write(folder.path(), "bad.yaml", "kind: [");
        write(folder.path(), "other.yaml", "kind: Namespace\n");
        for (file, what) in
            [("bad.yaml", "does not hold"), ("other.yaml", "there is none in it"), ("no.yaml", "cannot read")]
        {
            let error = read_crds(&folder.path().join(file)).expect_err(file).to_string();
            assert!(error.contains(file) && error.contains(what), "{error}");
        }
    }
}
