//! Changes of the files from which the operator is built, and of samples.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::{
    sync::mpsc::{self, UnboundedReceiver},
    time::{Duration, timeout},
};

use crate::failure::Failure;

/// Time without a change after which a group of changes is complete: editors write and rename several files.
const QUIET: Duration = Duration::from_millis(50);

/// A group of changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Changed {
    /// The operator must be built again.
    pub(super) code: bool,
    /// Samples must be applied again.
    pub(super) samples: bool,
    /// The first file.
    pub(super) first: String,
}

/// Watches files. Folders are watched, because editors replace files.
pub(super) struct Sources {
    watcher: RecommendedWatcher,
    events: UnboundedReceiver<PathBuf>,
    watched: BTreeSet<PathBuf>,
    files: WatchedFiles,
    /// Changes of the group that is not complete yet.
    group: Vec<PathBuf>,
}

/// Files that are watched for changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct WatchedFiles {
    project: PathBuf,
    code: BTreeSet<PathBuf>,
    /// File or folder of samples; `None` if none are applied.
    samples: Option<PathBuf>,
}

impl Sources {
    pub(super) fn new() -> Result<Self, Failure> {
        let (sender, events) = mpsc::unbounded_channel();
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let Ok(event) = event else { return };
            if matches!(event.kind, EventKind::Access(_)) {
                return;
            }
            for path in event.paths {
                // The send fails if the session ends before the watcher.
                let _ = sender.send(path);
            }
        });
        let watcher = watcher.map_err(|error| Failure::new(format!("cannot watch files: {error}")))?;
        Ok(Self {
            watcher,
            events,
            watched: BTreeSet::new(),
            files: WatchedFiles::default(),
            group: Vec::new(),
        })
    }

    /// Watches the files from which cargo built `program`, the manifest in `project`, and `samples`.
    pub(super) fn follow(
        &mut self,
        project: &Path,
        program: &Path,
        samples: Option<&Path>,
    ) -> Result<(), Failure> {
        let list = program.with_extension("d");
        let text = fs::read_to_string(&list)
            .map_err(|error| Failure::new(format!("cannot read {}: {error}", list.display())))?;
        let mut code = dependencies(&text);
        code.insert(project.join("Cargo.toml"));
        let mut folders: BTreeSet<PathBuf> =
            code.iter().filter_map(|file| file.parent()).map(Path::to_owned).collect();
        folders.extend(samples.and_then(|samples| match samples.is_dir() {
            true => Some(samples.to_owned()),
            false => samples.parent().filter(|_| samples.exists()).map(Path::to_owned),
        }));
        for gone in self.watched.difference(&folders) {
            // Fails only if the folder is not watched.
            let _ = self.watcher.unwatch(gone);
        }
        for folder in folders.difference(&self.watched) {
            self.watcher
                .watch(folder, RecursiveMode::NonRecursive)
                .map_err(|error| Failure::new(format!("cannot watch {}: {error}", folder.display())))?;
        }
        self.watched = folders;
        self.files = WatchedFiles { project: project.to_owned(), code, samples: samples.map(Path::to_owned) };
        Ok(())
    }

    /// Waits for the next group of changes.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses no change.
    pub(super) async fn changed(&mut self) -> Changed {
        loop {
            if self.group.is_empty() {
                let Some(first) = self.events.recv().await else { return std::future::pending().await };
                self.group.push(first);
            }
            while let Ok(Some(path)) = timeout(QUIET, self.events.recv()).await {
                self.group.push(path);
            }
            if let Some(changed) = self.files.judge(&std::mem::take(&mut self.group)) {
                return changed;
            }
        }
    }
}

impl WatchedFiles {
    /// Returns the consequence of changed files; `None` if none of them is watched.
    fn judge(&self, paths: &[PathBuf]) -> Option<Changed> {
        let is_sample = |path: &&PathBuf| {
            let is_object = path.extension().is_some_and(|it| it == "yaml" || it == "yml" || it == "json");
            is_object && self.samples.as_ref().is_some_and(|samples| path.starts_with(samples))
        };
        let is_code = |path: &&PathBuf| self.code.contains(*path);
        let first = paths.iter().find(|path| is_code(path) || is_sample(path))?;
        Some(Changed {
            code: paths.iter().any(|path| is_code(&path)),
            samples: paths.iter().any(|path| is_sample(&path)),
            first: first.strip_prefix(&self.project).unwrap_or(first).display().to_string(),
        })
    }
}

/// Files in one of cargo's lists: `program: file file`, with escaped spaces.
fn dependencies(list: &str) -> BTreeSet<PathBuf> {
    let files = list.lines().next().and_then(|line| line.split_once(": ")).map_or("", |(_, files)| files);
    let marked = files.replace("\\ ", "\0");
    marked.split(' ').filter(|file| !file.is_empty()).map(|file| file.replace('\0', " ").into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_list_may_have_spaces() {
        let found = dependencies("/t/a: /p/src/lib.rs /p/my\\ src/main.rs\n\nother: x\n");
        assert_eq!(found, ["/p/src/lib.rs".into(), "/p/my src/main.rs".into()].into());
        assert_eq!(dependencies(""), BTreeSet::new());
    }

    #[test]
    fn only_files_of_the_operator_matter() {
        let files = WatchedFiles {
            project: "/p".into(),
            code: ["/p/src/lib.rs".into(), "/p/Cargo.toml".into()].into(),
            samples: Some("/p/samples".into()),
        };
        let judge = |paths: &[&str]| {
            let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            files.judge(&paths).map(|changed| (changed.code, changed.samples, changed.first))
        };
        assert_eq!(judge(&["/p/src/.lib.rs.swp", "/p/README.md"]), None);
        assert_eq!(judge(&["/p/src/4913", "/p/src/lib.rs"]), Some((true, false, "src/lib.rs".to_owned())));
        let both = judge(&["/p/samples/a.yaml", "/p/Cargo.toml"]);
        assert_eq!(both, Some((true, true, "samples/a.yaml".to_owned())));
        assert_eq!(judge(&["/p/samples/a.txt"]), None);
    }
}
