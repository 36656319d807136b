//! The operator's package and program: found by `cargo metadata`, built by cargo.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use clap::Args;
use clap_cargo::{Features, Manifest};

use crate::{
    cargo_json::{self, Metadata, Package},
    failure::Failure,
    settings::{Settings, TABLE},
    shell::Shell,
};

/// Name of the program with an API server of its own.
const DEV: &str = "dev";

/// Option of cargo with which the program of an image is built.
const NO_DEFAULT_FEATURES: &str = "--no-default-features";

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
    /// Same as --locked and --offline together
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
    /// Features without which the program `dev` is not built; `None` without this program.
    dev_features: Option<Vec<String>>,
    /// Whether default features enable those that the program `dev` requires.
    defaults_enable_dev: bool,
    /// Whether default features enable more than the program `dev` requires. Such features are not part of an image.
    defaults_differ_from_image: bool,
}

impl Project {
    /// Checks that the package has the program that runs the API server of a session.
    ///
    /// # Errors
    ///
    /// It has no program `dev`.
    pub fn check_session(&self) -> Result<(), Failure> {
        if self.dev_features.is_some() {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "package {} has no program {DEV}, which runs the API server of the session",
            self.package
        ))
        .hint(
            "add src/bin/dev.rs, whose main returns kube_envtest::dev::run(…).await, as in a new project; \
             or run the operator on a cluster: --on CONTEXT",
        ))
    }
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
        Some(Self { name: target.name.clone(), file: target.src_path.clone() })
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
        Ok((package.folder().to_owned(), package.name.clone()))
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
            None => metadata.packages.iter().collect(),
        };
        let packages = packages.into_iter().map(|package| WorkspacePackage {
            name: package.name.clone(),
            manifest: package.manifest_path.clone(),
            library: CrateRoot::of(package),
        });
        Ok((packages.collect(), metadata.workspace_root.join("Cargo.toml")))
    }

    fn metadata(&self, here: &Path) -> Result<Metadata, Failure> {
        let mut command = Command::new(cargo());
        command.args(["metadata", "--format-version", "1", "--no-deps"]).current_dir(here);
        if let Some(manifest) = &self.manifest.manifest_path {
            command.arg("--manifest-path").arg(manifest);
        }
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| Failure::new(format!("cannot run cargo metadata: {error}")))?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            let failure = Failure::new(errors.trim().trim_start_matches("error: "));
            return Err(if failure.message.contains("could not find `Cargo.toml`") {
                failure.hint("cargo operator new NAME makes a project; run this in its folder")
            } else {
                failure
            });
        }
        Metadata::parse(&output.stdout)
            .map_err(|error| Failure::new(format!("cargo metadata answered in an unknown form: {error}")))
    }

    fn package<'m>(&self, metadata: &'m Metadata, here: &Path) -> Result<&'m Package, Failure> {
        let members = &metadata.packages;
        if let Some(name) = &self.package {
            let found = members.iter().find(|package| package.name == *name);
            return found.ok_or_else(|| Failure::usage(format!("the workspace has no package {name}")));
        }
        let start = match &self.manifest.manifest_path {
            Some(manifest) => here.join(manifest).parent().map(Path::to_owned).unwrap_or_default(),
            None => here.to_owned(),
        };
        let of_folder = members.iter().filter(|package| start.starts_with(package.folder()));
        if let Some(package) = of_folder.max_by_key(|package| package.manifest_path.as_os_str().len()) {
            return Ok(package);
        }
        let marked: Vec<_> = members.iter().filter(|package| package.metadata.get(TABLE).is_some()).collect();
        match (&*marked, &**members) {
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
        let dev = package.targets.iter().find(|target| target.is_bin() && target.name == DEV);
        let dev_features = dev.map(|dev| dev.required_features.clone());
        Ok(Project {
            folder: package.folder().to_owned(),
            package: package.name.clone(),
            version: package.version.clone(),
            bin,
            settings: Settings::of(&package.name, &package.metadata)?,
            library: CrateRoot::of(package),
            manifest: package.manifest_path.clone(),
            defaults_enable_dev: package.defaults_enable(dev_features.as_deref().unwrap_or_default()),
            defaults_differ_from_image: package
                .defaults_enable_more_than(dev_features.as_deref().unwrap_or_default()),
            dev_features,
        })
    }

    /// Builds the program, with cargo's own messages on standard error, and returns its path.
    ///
    /// # Errors
    ///
    /// The code does not compile, or cargo does not run.
    pub fn build(&self, project: &Project, shell: &Shell) -> Result<PathBuf, Failure> {
        self.build_with(project, &project.bin, self.build_options(), shell)
    }

    /// Builds the program so that it prints the registrations of the image's program, and returns its path. Default features are disabled,
    /// as in an image. If they enable only the requirements of the program `dev`, they stay enabled, because the libraries are then
    /// compiled already.
    ///
    /// # Errors
    ///
    /// Like [`build`](Self::build).
    pub fn build_to_render(&self, project: &Project, shell: &Shell) -> Result<PathBuf, Failure> {
        let mut options = self.build_options();
        if project.defaults_differ_from_image && self.keeps_default_features() {
            options.push(NO_DEFAULT_FEATURES.into());
        }
        self.build_with(project, &project.bin, options, shell)
    }

    /// Builds the program, and the program `dev`, which runs the API server of a session, and returns their paths. One run of cargo builds
    /// both if they have the same features.
    ///
    /// # Errors
    ///
    /// Like [`build`](Self::build); also if there is no program `dev`.
    pub fn build_with_session(
        &self,
        project: &Project,
        shell: &Shell,
    ) -> Result<(PathBuf, PathBuf), Failure> {
        project.check_session()?;
        let options = self.build_options();
        let features = project.dev_features.as_deref().unwrap_or_default();
        let has_features = self.features.all_features || features.is_empty();
        if has_features || (project.defaults_enable_dev && self.keeps_default_features()) {
            let [program, session] = self.build_bins(project, [&*project.bin, DEV], options, shell)?;
            return Ok((program, session));
        }
        let program = self.build(project, shell)?;
        let mut options = options;
        options.extend(["--features".into(), features.join(",").into()]);
        Ok((program, self.build_with(project, DEV, options, shell)?))
    }

    /// Builds the program for an image: without default features and shared libraries, for `target`, in release mode unless a
    /// profile was selected.
    ///
    /// # Errors
    ///
    /// Like [`build`](Self::build).
    pub fn build_static(&self, project: &Project, target: &str, shell: &Shell) -> Result<PathBuf, Failure> {
        let mut options = self.build_options();
        options.extend(["--target".into(), target.into()]);
        if self.profile.is_none() {
            options.push("--release".into());
        }
        if self.keeps_default_features() {
            options.push(NO_DEFAULT_FEATURES.into());
        }
        // Targets with musl are static anyway. The key is quoted because names of targets can have dots.
        let flags = format!("target.\"{target}\".rustflags=[\"-C\", \"target-feature=+crt-static\"]");
        options.extend(["--config".into(), flags.into()]);
        self.build_with(project, &project.bin, options, shell)
    }

    fn build_with(
        &self,
        project: &Project,
        bin: &str,
        options: Vec<OsString>,
        shell: &Shell,
    ) -> Result<PathBuf, Failure> {
        let [program] = self.build_bins(project, [bin], options, shell)?;
        Ok(program)
    }

    /// Builds programs in one run of cargo.
    fn build_bins<const N: usize>(
        &self,
        project: &Project,
        bins: [&str; N],
        options: Vec<OsString>,
        shell: &Shell,
    ) -> Result<[PathBuf; N], Failure> {
        let mut command = Command::new(cargo());
        command
            .args(["build", "--message-format=json-render-diagnostics", "--manifest-path"])
            .arg(&project.manifest);
        command.args(["--package", &project.package]).args(bins.iter().flat_map(|bin| ["--bin", *bin]));
        command.args(options);
        if shell.is_quiet() {
            command.arg("--quiet");
        }
        shell.running(display(&command));
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| Failure::new(format!("cannot run cargo: {error}")))?;
        if !output.status.success() {
            return Err(Failure::new(format!("{} does not compile", project.package)));
        }
        let mut programs = bins.map(|bin| (bin, cargo_json::program(&output.stdout, bin)));
        match programs.iter().find(|(_, program)| program.is_none()) {
            Some((bin, _)) => Err(Failure::new(format!("cargo built no program {bin}"))),
            None => Ok(programs.each_mut().map(|(_, program)| program.take().unwrap_or_default())),
        }
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
        match bins.iter().filter(|bin| **bin != DEV).collect::<Vec<_>>()[..] {
            [bin] => Ok((*bin).to_owned()),
            [] => Err(Failure::usage(format!("package {name} has no program other than {DEV}"))),
            _ => Err(Failure::usage(format!("package {name} has the programs {}", listed(&bins)))
                .hint("select one with --bin NAME")),
        }
    }

    /// Whether the user's options leave default features as they are.
    fn keeps_default_features(&self) -> bool {
        !self.features.no_default_features && !self.features.all_features
    }

    /// Options of `cargo build` that the user has given.
    fn build_options(&self) -> Vec<OsString> {
        let mut options: Vec<OsString> = Vec::new();
        if self.features.all_features {
            options.push("--all-features".into());
        }
        if self.features.no_default_features {
            options.push(NO_DEFAULT_FEATURES.into());
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
