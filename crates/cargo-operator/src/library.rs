//! Origin of `controller-runtime` and its companions in a new project.

use std::path::{Path, PathBuf};

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

    /// The origin that fits this program: the checkout that it was built from, as long as that exists, or else the published
    /// version with its own number.
    #[must_use]
    pub fn of_this_program() -> Self {
        let root =
            Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).filter(|root| Self::is_checkout(root));
        match root {
            Some(root) => Self::Checkout { root: root.to_owned() },
            None => Self::Registry { version: env!("CARGO_PKG_VERSION").to_owned() },
        }
    }

    /// Whether a folder holds the packages.
    #[must_use]
    pub fn is_checkout(root: &Path) -> bool {
        Self::PACKAGES.iter().all(|(_, folder)| root.join("crates").join(folder).join("Cargo.toml").is_file())
    }
}
