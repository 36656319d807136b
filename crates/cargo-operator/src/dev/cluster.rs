//! An existing cluster, on which `dev --on` runs the operator: only if its context is one of kind or listed in Cargo.toml, or the
//! user confirms it.

use std::{
    fs,
    io::{self, BufRead, IsTerminal, Write},
    path::{Path, PathBuf},
};

use super::rendered::Rendered;
use crate::{failure::Failure, kubectl, project::Project, shell::Shell, write};

/// Prefix of the contexts that kind creates for clusters on this host.
const LOCAL: &str = "kind-";

/// A cluster, reached with the user's credentials.
#[derive(Debug)]
pub(super) struct Cluster {
    context: String,
    kubeconfig: PathBuf,
    shell: Shell,
}

/// A cluster that is for development, or that the user has confirmed.
#[derive(Debug)]
pub(super) struct ChosenCluster {
    context: String,
    server: String,
    /// Kubeconfig with the context alone.
    config: String,
    shell: Shell,
}

impl ChosenCluster {
    /// Finds the cluster of a context. Unless the context is known to be for development, the user has to type its name.
    pub(super) async fn choose(context: &str, project: &Project, shell: Shell) -> Result<Self, Failure> {
        let words = ["config", "view", "--minify", "--flatten", "--raw", "-o", "json"];
        let config = kubectl::answer(context, &words, None, &shell).await;
        let config = config.map_err(|failure| match failure.hint {
            Some(_) => failure,
            None => failure.hint("kubectl config get-contexts lists the contexts of your kubeconfig"),
        })?;
        let server = server_of(&config)
            .ok_or_else(|| Failure::new(format!("the kubeconfig names no server for context {context}")))?;
        // Asked before anything is built or written: the operator will act with the rights of the user.
        if !is_allowed(context, &project.settings.dev.contexts) {
            confirm(context, &server)?;
        }
        Ok(Self { context: context.to_owned(), server, config, shell })
    }

    /// Checks that the operator does not run in the cluster already. Writes the kubeconfig.
    pub(super) async fn connect(self, rendered: &Rendered, folder: &Path) -> Result<Cluster, Failure> {
        let Self { context, server, config, shell } = self;
        if let Some((namespace, name)) = rendered.account() {
            let words = [
                "get",
                "deployment",
                &name,
                "-n",
                &namespace,
                "--ignore-not-found",
                "-o",
                "jsonpath={.status.replicas}",
            ];
            let replicas = kubectl::answer(&context, &words, None, &shell).await?;
            // Two operators without a common lease would write the same objects against each other.
            if !matches!(replicas.trim(), "" | "0") {
                return Err(Failure::new(format!(
                    "Deployment {namespace}/{name} runs the operator on context {context} already, with {} replicas",
                    replicas.trim()
                ))
                .hint(format!("kubectl --context {context} scale deployment {name} -n {namespace} --replicas=0 stops it")));
            }
        }
        let kubeconfig = folder.join("cluster.kubeconfig");
        write::secret(&kubeconfig, &config)?;
        shell.status("Cluster", format_args!("{server} (context {context}); the operator has your rights"));
        Ok(Cluster { context, kubeconfig, shell })
    }
}

impl Cluster {
    /// Flags with which the operator runs, followed by the user's flags `more`. They turn off probes and explanations: only the server of a
    /// session issues the token that explanations need.
    pub(super) fn flags(more: &[String]) -> Vec<String> {
        let probes = "--health-probe-bind-address";
        let are_given = more.iter().any(|word| word.split('=').next() == Some(probes));
        let mut flags = if are_given { Vec::new() } else { vec![format!("{probes}=0")] };
        flags.extend(more.iter().cloned());
        // Last, so that it also applies if the user gives the flag. A session on a cluster has no page of
        // explanations.
        flags.push("--metrics-bind-address=0".to_owned());
        flags
    }

    /// Kubeconfig of the operator.
    pub(super) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Installs or changes definitions.
    pub(super) async fn define(&self, rendered: &Rendered) -> Result<(), Failure> {
        let list = serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": rendered.definitions })
            .to_string();
        self.apply("-", Some(&list)).await.map(drop)
    }

    /// Applies the objects of a file or folder, and returns their number.
    pub(super) async fn apply_samples(&self, path: &Path) -> Result<usize, Failure> {
        Ok(self.apply(&path.display().to_string(), None).await?.lines().count())
    }

    /// Removes the kubeconfig, which has the user's credentials.
    pub(super) fn end(&self) {
        match fs::remove_file(&self.kubeconfig) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                self.shell.warn(format_args!("cannot remove {}: {error}", self.kubeconfig.display()));
            }
            _ => self.shell.note("Note", format_args!("the definitions stay in context {}", self.context)),
        }
    }

    async fn apply(&self, file: &str, input: Option<&str>) -> Result<String, Failure> {
        let words = ["apply", "--server-side", "--field-manager=cargo-operator", "-f", file];
        kubectl::answer(&self.context, &words, input, &self.shell).await
    }
}

/// Whether a context is for development: the settings list it, or the program kind has created it.
fn is_allowed(context: &str, contexts: &[String]) -> bool {
    context.starts_with(LOCAL) || contexts.iter().any(|allowed| allowed == context)
}

/// Address of the only cluster in a kubeconfig.
fn server_of(config: &str) -> Option<String> {
    let config: serde_json::Value = serde_json::from_str(config).ok()?;
    config["clusters"][0]["cluster"]["server"].as_str().map(str::to_owned)
}

/// Asks the user to type the name of the context.
fn confirm(context: &str, server: &str) -> Result<(), Failure> {
    let refused = |reason: &str| {
        Failure::usage(format!("context {context} ({server}) is not known to be for development{reason}"))
            .hint(format!(
                "dev.contexts = [{context:?}] below [package.metadata.operator] in Cargo.toml allows this context"
            ))
    };
    // A script cannot confirm that the cluster is the right one.
    if !io::stdin().is_terminal() {
        return Err(refused(""));
    }
    // If the question cannot be written, no answer follows, and the cluster is refused.
    let _ = write!(io::stderr(), "Run the operator on {server}? Type the name of the context: ");
    let mut typed = String::new();
    match io::stdin().lock().read_line(&mut typed) {
        Ok(_) if typed.trim() == context => Ok(()),
        _ => Err(refused("; the typed name does not match")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_of_kind_and_named_ones_are_allowed() {
        let named = ["staging".to_owned()];
        for (context, allowed) in
            [("kind-guestbook", true), ("staging", true), ("production", false), ("my-kind-x", false)]
        {
            assert_eq!(is_allowed(context, &named), allowed, "{context}");
        }
    }

    #[test]
    fn there_are_no_probes_unless_the_user_wants_them() {
        for (more, expected) in [
            ("", "--health-probe-bind-address=0 --metrics-bind-address=0"),
            ("--a=b", "--health-probe-bind-address=0 --a=b --metrics-bind-address=0"),
            ("--health-probe-bind-address=:1", "--health-probe-bind-address=:1 --metrics-bind-address=0"),
            ("--health-probe-bind-address :1", "--health-probe-bind-address :1 --metrics-bind-address=0"),
        ] {
            let more: Vec<_> = more.split_whitespace().map(str::to_owned).collect();
            assert_eq!(Cluster::flags(&more).join(" "), expected);
        }
    }

    #[test]
    fn the_server_is_named() {
        let config = r#"{"clusters":[{"name":"a","cluster":{"server":"https://a:6443"}}]}"#;
        assert_eq!(server_of(config).as_deref(), Some("https://a:6443"));
        assert_eq!(server_of("{}"), None);
    }
}
