//! Builds the peers and the API server.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context as _;
use tokio::process::Command;

use crate::protocol::Unsupported;

/// Language and variant of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Ours,
    Go,
    KubeRs,
    /// This repository's peer with a counting allocator.
    OursCounting,
}

/// Paths of the programs of a run.
#[derive(Debug)]
pub(crate) struct Programs {
    ours: PathBuf,
    ours_counting: PathBuf,
    kube_rs: PathBuf,
    /// `Err` is the reason why the Go peer is not measured.
    go: Result<PathBuf, String>,
    pub(crate) cluster: PathBuf,
    pub(crate) server: PathBuf,
    /// Load program of the API server.
    pub(crate) load: PathBuf,
}

impl Programs {
    /// Paths of programs that do not exist, for tests that start none.
    #[cfg(test)]
    pub(crate) fn absent(go: &str) -> Self {
        let [ours, ours_counting, kube_rs, cluster, server, load] = std::array::from_fn(|_| PathBuf::new());
        Self { ours, ours_counting, kube_rs, go: Err(go.to_owned()), cluster, server, load }
    }

    /// Returns the paths to which a build with this profile writes the programs.
    pub(crate) fn find(profile: &str) -> Self {
        let target = target();
        let built = target.join(match profile {
            "dev" => "debug",
            "bench" => "release",
            other => other,
        });
        Self {
            ours: built.join("bench-peer-ours"),
            ours_counting: built.join("bench-peer-ours-heap"),
            kube_rs: built.join("bench-peer-kube-rs"),
            go: Ok(target.join("bench-peer-go")),
            cluster: built.join("bench-cluster"),
            server: built.join("kube-apiserver-embedded"),
            load: built.join("examples/load"),
        }
    }

    /// Builds all programs with a profile. The default is `bench`, an optimised release build.
    pub(crate) async fn build(mut self, profile: &str) -> anyhow::Result<Self> {
        let root = root();
        // Go first: a missing peer is only reported, and shows before the long builds begin.
        if let Ok(program) = &self.go {
            self.go = build_go(&root, program).await.map(|()| program.clone());
        }
        if let Err(reason) = &self.go {
            eprintln!("controller-runtime for Go is not measured: {reason}");
        }
        // Built one by one: a common build would unify features and give the peers those of the cluster.
        cargo(&root, profile, &["-p", "bench-peer-ours"]).await?;
        cargo(&root, profile, &["-p", "bench-cluster"]).await?;
        let server =
            ["-p", "kube-apiserver-embedded", "--bin", "kube-apiserver-embedded", "--example", "load"];
        cargo(&root, profile, &server).await?;
        cargo(&root.join("bench/peers/kube-rs"), profile, &[]).await?;
        Ok(self)
    }

    pub(crate) fn operator(&self, language: Language) -> anyhow::Result<PathBuf> {
        self.peer(language).map(operator)
    }

    pub(crate) fn peer(&self, language: Language) -> anyhow::Result<&Path> {
        match language {
            Language::Ours => Ok(&self.ours),
            Language::OursCounting => Ok(&self.ours_counting),
            Language::KubeRs => Ok(&self.kube_rs),
            Language::Go => match &self.go {
                Ok(path) => Ok(path),
                Err(reason) => Err(Unsupported(reason.clone()).into()),
            },
        }
    }
}

/// Root folder of the repository.
pub(crate) fn root() -> PathBuf {
    let driver = Path::new(env!("CARGO_MANIFEST_DIR"));
    driver.parent().unwrap_or(driver).to_owned()
}

/// Target folder of cargo.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |path| root().join(path))
}

async fn cargo(folder: &Path, profile: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(["build", "--locked", "--profile", profile, "--target-dir"]).arg(target()).args(arguments);
    run(command.current_dir(folder)).await
}

/// Builds the Go peer, or returns the reason why not.
async fn build_go(root: &Path, program: &Path) -> Result<(), String> {
    let probe = Command::new("go").arg("version").stdout(Stdio::null()).kill_on_drop(true).status().await;
    if !probe.is_ok_and(|status| status.success()) {
        return Err("Go is not installed: not measured".to_owned());
    }
    let folder = root.join("bench/peers/go");
    for (tags, program) in [("", program.to_owned()), ("operator", operator(program))] {
        let mut command = Command::new("go");
        command.args(["build", "-trimpath", "-tags", tags, "-o"]).arg(program).arg(".");
        let built = run(command.current_dir(&folder)).await;
        built.map_err(|error| format!("the peer in Go was not built: {error:#}"))?;
    }
    Ok(())
}

/// Path of the program that contains only a peer's guestbook operator.
fn operator(peer: &Path) -> PathBuf {
    let mut name = peer.as_os_str().to_owned();
    name.push("-operator");
    PathBuf::from(name)
}

async fn run(command: &mut Command) -> anyhow::Result<()> {
    let shown = format!("{:?}", command.as_std());
    let status = command.stdin(Stdio::null()).kill_on_drop(true).status().await;
    let status = status.with_context(|| format!("{shown}: does not start"))?;
    anyhow::ensure!(status.success(), "{shown}: {status}");
    Ok(())
}
