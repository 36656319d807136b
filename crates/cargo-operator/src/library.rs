//! Origin of `controller-runtime` and its companions in a new project.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Origin of the libraries that a new project depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Library {
    /// A published version.
    Registry {
        /// Version requirement: `0.1.0`.
        version: String,
    },
    /// A checkout of the repository.
    Checkout {
        /// Folder of the repository.
        root: PathBuf,
    },
}

impl Library {
    /// Packages of the repository that a project uses, and their folders in `crates`.
    pub const PACKAGES: [(&str, &str); 2] =
        [("controller-runtime", "controller-runtime"), ("kube-envtest", "envtest")];

    /// The origin that matches this program: the checkout from which it was built, or the published version with the same
    /// number.
    ///
    /// # Errors
    ///
    /// The checkout does not exist any more.
    pub fn of_this_program() -> Result<Self, Failure> {
        Self::of_sources(Path::new(env!("CARGO_MANIFEST_DIR")))
    }

    /// The origin that matches a program whose sources are in this folder.
    fn of_sources(sources: &Path) -> Result<Self, Failure> {
        // Cargo unpacks published packages to `registry/src/<registry>/<package>`.
        let parent = |generation: usize| sources.ancestors().nth(generation).and_then(Path::file_name);
        if parent(2).is_some_and(|name| name == "src") && parent(3).is_some_and(|name| name == "registry") {
            return Ok(Self::Registry { version: env!("CARGO_PKG_VERSION").to_owned() });
        }
        let root = sources.ancestors().nth(2).unwrap_or(sources);
        if Self::is_checkout(root) {
            return Ok(Self::Checkout { root: root.to_owned() });
        }
        Err(Failure::new(format!(
            "the checkout of controller-runtime in {}, from which cargo-operator was built, no longer exists",
            root.display()
        ))
        .hint("install cargo-operator again: run cargo install --path crates/cargo-operator in a checkout"))
    }

    /// Whether a folder holds the packages.
    #[must_use]
    pub fn is_checkout(root: &Path) -> bool {
        Self::PACKAGES.iter().all(|(_, folder)| root.join("crates").join(folder).join("Cargo.toml").is_file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projects_depend_on_the_sources_of_this_program() {
        let this = Library::of_this_program().expect("the checkout of this test");
        assert!(matches!(this, Library::Checkout { root } if Library::is_checkout(&root)));
        let published = "/cargo/registry/src/index.crates.io-1949cf8c/cargo-operator-0.1.0";
        let version = env!("CARGO_PKG_VERSION").to_owned();
        assert_eq!(Library::of_sources(Path::new(published)), Ok(Library::Registry { version }));
        let gone = Library::of_sources(Path::new("/gone/controller-runtime/crates/cargo-operator"));
        let message = "the checkout of controller-runtime in /gone/controller-runtime, from which cargo-operator was built, no longer exists";
        assert_eq!(gone.map_err(|failure| failure.message), Err(message.to_owned()));
    }
}
