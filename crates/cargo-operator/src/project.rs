//! The operator's package and program: found by `cargo metadata`, built by cargo.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use cargo_metadata::{Message, Metadata, MetadataCommand, Package};
use clap::Args;
use clap_cargo::{Features, Manifest};

use crate::{
    failure::Failure,
    settings::{Settings, TABLE},
    shell::Shell,
};

/// Options that select the operator's package, named as those of cargo.
#[derive(Debug, Clone, Args)]
pub struct PackageSelection {
    #[command(flatten)]
    manifest: Manifest,
    /// Package of the operator; by default that of the current folder, or the one with [package.metadata.operator]
    #[arg(short, long, value_name = "SPEC", help_heading = "Package and build")]
    package: Option<String>,
}

/// Options that select and build the operator's program, named as those of cargo.
#[derive(Debug, Clone, Args)]
pub struct Selection {
    #[command(flatten)]
    package: PackageSelection,
    /// Program of the package; by default the only one that is not `dev`
    #[arg(long, value_name = "NAME", help_heading = "Package and build")]
    bin: Option<String>,
    #[command(flatten)]
    features: Features,
    /// Build with this profile
    #[arg(long, value_name = "NAME", help_heading = "Package and build")]
    profile: Option<String>,
    /// Keep Cargo.lock as it is
    #[arg(long, help_heading = "Package and build")]
    locked: bool,
    /// Build without network
    #[arg(long, help_heading = "Package and build")]
    offline: bool,
    /// Like --locked and --offline together
    #[arg(long, help_heading = "Package and build")]
    frozen: bool,
}

/// An operator's package.
#[derive(Debug, Clone)]
pub struct Project {
    /// Folder of the package.
    pub folder: PathBuf,
    /// Name of the package.
    pub package: String,
    /// Version of the package.
    pub version: String,
    /// Name of the program.
    pub bin: String,
    /// Settings in its Cargo.toml.
    pub settings: Settings,
    /// The package's library, which holds the kinds.
    pub library: Option<CrateRoot>,
    manifest: PathBuf,
}

/// A crate in Rust code.
#[derive(Debug, Clone)]
pub struct CrateRoot {
    /// Name in code, such as `photo_album`.
    pub name: String,
    /// First file, such as `src/lib.rs`.
    pub file: PathBuf,
}

/// A package of a workspace.
#[derive(Debug, Clone)]
pub struct WorkspacePackage {
    /// Name of the package.
    pub name: String,
    /// Path of its Cargo.toml.
    pub manifest: PathBuf,
    /// The package's library.
    pub library: Option<CrateRoot>,
}

impl WorkspacePackage {
    /// Folder of the package.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.manifest.parent().unwrap_or(Path::new(""))
    }
}

impl CrateRoot {
    /// The library of a package.
    fn of(package: &Package) -> Option<Self> {
        let target = package.targets.iter().find(|target| target.is_lib())?;
        Some(Self { name: target.name.clone(), file: target.src_path.clone().into_std_path_buf() })
    }
}

impl PackageSelection {
    /// Finds the package: its folder and its name.
    ///
    /// # Errors
    ///
    /// There is no Cargo.toml, cargo cannot read it, or several packages could be meant.
    pub fn folder(&self, here: &Path) -> Result<(PathBuf, String), Failure> {
        let metadata = self.metadata(here)?;
        let package = self.package(&metadata, here)?;
        let manifest = package.manifest_path.clone().into_std_path_buf();
        Ok((manifest.parent().unwrap_or(here).to_owned(), package.name.to_string()))
    }

    /// Returns all packages of the workspace, or the selected one alone, and the manifest of the workspace.
    ///
    /// # Errors
    ///
    /// There is no Cargo.toml, cargo cannot read it, or no package has the selected name.
    pub fn packages(&self, here: &Path) -> Result<(Vec<WorkspacePackage>, PathBuf), Failure> {
        let metadata = self.metadata(here)?;
        let packages = match self.package {
            Some(_) => vec![self.package(&metadata, here)?],
            None => metadata.workspace_packages(),
        };
        let packages = packages.into_iter().map(|package| WorkspacePackage {
            name: package.name.to_string(),
            manifest: package.manifest_path.clone().into_std_path_buf(),
            library: CrateRoot::of(package),
        });
        Ok((packages.collect(), metadata.workspace_root.join("Cargo.toml").into_std_path_buf()))
    }

    fn metadata(&self, here: &Path) -> Result<Metadata, Failure> {
        let mut command = MetadataCommand::new();
        command.cargo_path(cargo()).current_dir(here).no_deps();
        if let Some(manifest) = &self.manifest.manifest_path {
            command.manifest_path(manifest);
        }
        command.exec().map_err(|error| match error {
            cargo_metadata::Error::CargoMetadata { stderr } => {
                let text = stderr.trim().trim_start_matches("error: ").to_owned();
                let failure = Failure::new(text.clone());
                if text.contains("could not find `Cargo.toml`") {
                    failure.hint("cargo operator new NAME makes a project; run this in its folder")
                } else {
                    failure
                }
            }
            other => Failure::new(format!("cargo metadata failed: {other}")),
        })
    }

    fn package<'m>(&self, metadata: &'m Metadata, here: &Path) -> Result<&'m Package, Failure> {
        let members = metadata.workspace_packages();
        if let Some(name) = &self.package {
            let found = members.iter().find(|package| package.name.as_str() == name);
            return found
                .copied()
                .ok_or_else(|| Failure::usage(format!("the workspace has no package {name}")));
        }
        let start = match &self.manifest.manifest_path {
            Some(manifest) => here.join(manifest).parent().map(Path::to_owned).unwrap_or_default(),
            None => here.to_owned(),
        };
        let of_folder = members
            .iter()
            .filter(|package| package.manifest_path.parent().is_some_and(|folder| start.starts_with(folder)));
        if let Some(package) = of_folder.max_by_key(|package| package.manifest_path.as_str().len()) {
            return Ok(package);
        }
        let marked: Vec<_> = members.iter().filter(|package| package.metadata.get(TABLE).is_some()).collect();
        match (&*marked, &*members) {
            ([package], _) => Ok(package),
            ([], [package]) => Ok(package),
            ([], _) => Err(Failure::usage("no package of the workspace has [package.metadata.operator]")
                .hint("select one with --package NAME, or run this in its folder")),
            (several, _) => {
                let names: Vec<_> = several.iter().map(|package| package.name.as_str()).collect();
                Err(Failure::usage(format!("several packages are operators: {}", names.join(", ")))
                    .hint("select one with --package NAME, or run this in its folder"))
            }
        }
    }
}

impl Selection {
    /// Finds the package and its program.
    ///
    /// # Errors
    ///
    /// There is no Cargo.toml, cargo cannot read it, or several packages or programs could be meant.
    pub fn project(&self, here: &Path) -> Result<Project, Failure> {
        let metadata = self.package.metadata(here)?;
        let package = self.package.package(&metadata, here)?;
        let bin = self.bin(package)?;
        let manifest = package.manifest_path.clone().into_std_path_buf();
        let folder = manifest.parent().unwrap_or(here).to_owned();
        let library = CrateRoot::of(package);
        let settings = Settings::of(&package.name, &package.metadata)?;
        let (package, version) = (package.name.to_string(), package.version.to_string());
        Ok(Project { folder, package, version, bin, settings, library, manifest })
    }

    /// Builds the program, with cargo's own messages on standard error, and returns its path.
    ///
    /// # Errors
    ///
    /// The code does not compile, or cargo does not run.
    pub fn build(&self, project: &Project, shell: &Shell) -> Result<PathBuf, Failure> {
        self.build_with(project, self.build_options(), shell)
    }

    /// Builds the program for an image: without default features and shared libraries, for `target`, in release mode unless a
    /// profile was selected.
    ///
    /// # Errors
    ///
    /// Like [`build`](Self::build); also if the target is not installed.
    pub fn build_static(&self, project: &Project, target: &str, shell: &Shell) -> Result<PathBuf, Failure> {
        let mut options = self.build_options();
        options.extend(["--target".into(), target.into()]);
        if self.profile.is_none() {
            options.push("--release".into());
        }
        if !self.features.no_default_features && !self.features.all_features {
            options.push("--no-default-features".into());
        }
        // Targets with musl are static anyway. The key is quoted because names of targets can have dots.
        let flags = format!("target.\"{target}\".rustflags=[\"-C\", \"target-feature=+crt-static\"]");
        options.extend(["--config".into(), flags.into()]);
        let built = self.build_with(project, options, shell);
        built.map_err(|failure| {
            failure.hint(format!("if the target is not installed: rustup target add {target}"))
        })
    }

    fn build_with(
        &self,
        project: &Project,
        options: Vec<OsString>,
        shell: &Shell,
    ) -> Result<PathBuf, Failure> {
        let mut command = Command::new(cargo());
        command
            .args(["build", "--message-format=json-render-diagnostics", "--manifest-path"])
            .arg(&project.manifest);
        command.args(["--package", &project.package, "--bin", &project.bin]).args(options);
        if shell.is_quiet() {
            command.arg("--quiet");
        }
        shell.running(display(&command));
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| Failure::new(format!("cannot run cargo: {error}")))?;
        if !output.status.success() {
            return Err(Failure::new(format!("{} does not compile", project.package)));
        }
        let messages = Message::parse_stream(&*output.stdout).filter_map(Result::ok);
        let programs = messages.filter_map(|message| match message {
            Message::CompilerArtifact(artifact) if artifact.target.name == project.bin => artifact.executable,
            _ => None,
        });
        programs
            .last()
            .map(cargo_metadata::camino::Utf8PathBuf::into_std_path_buf)
            .ok_or_else(|| Failure::new(format!("cargo built no program {}", project.bin)))
    }

    fn bin(&self, package: &Package) -> Result<String, Failure> {
        let bins: Vec<&str> = package
            .targets
            .iter()
            .filter(|target| target.is_bin())
            .map(|target| target.name.as_str())
            .collect();
        let name = &package.name;
        if let Some(bin) = &self.bin {
            let found = bins.iter().find(|found| **found == bin.as_str());
            return found.map(|bin| (*bin).to_owned()).ok_or_else(|| {
                Failure::usage(format!("package {name} has no program {bin}; it has {}", listed(&bins)))
            });
        }
        match bins.iter().filter(|bin| **bin != "dev").collect::<Vec<_>>()[..] {
            [bin] => Ok((*bin).to_owned()),
            [] => Err(Failure::usage(format!("package {name} has no program other than dev"))),
            _ => Err(Failure::usage(format!("package {name} has the programs {}", listed(&bins)))
                .hint("select one with --bin NAME")),
        }
    }

    /// Options of `cargo build` that the user has given.
    fn build_options(&self) -> Vec<OsString> {
        let mut options: Vec<OsString> = Vec::new();
        if self.features.all_features {
            options.push("--all-features".into());
        }
        if self.features.no_default_features {
            options.push("--no-default-features".into());
        }
        if !self.features.features.is_empty() {
            options.extend(["--features".into(), self.features.features.join(",").into()]);
        }
        if let Some(profile) = &self.profile {
            options.extend(["--profile".into(), profile.into()]);
        }
        for (flag, set) in [("--locked", self.locked), ("--offline", self.offline), ("--frozen", self.frozen)]
        {
            if set {
                options.push(flag.into());
            }
        }
        options
    }
}

/// Cargo, as the user called it.
pub(crate) fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// A command as text.
pub(crate) fn display(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
