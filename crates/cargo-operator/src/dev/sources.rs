//! Changes of the files from which the operator is built, and of samples.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::{
    sync::mpsc::{self, UnboundedReceiver},
    time::{Duration, Instant, timeout_at},
};

use crate::{failure::Failure, write};

/// Time without a change after which a group of changes is complete: editors write and rename several files.
const QUIET: Duration = Duration::from_millis(50);

/// Longest time from the first change of a group to its end, for files that a program changes without a pause.
const LONGEST_GROUP: Duration = Duration::from_secs(1);

/// A group of changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Changed {
    /// The operator must be built again.
    pub(super) code: bool,
    /// Samples that must be applied again.
    pub(super) samples: Vec<PathBuf>,
    /// The files, for users: `src/lib.rs and 2 more`.
    pub(super) files: String,
}

/// Watches files. Folders are watched, because editors replace files.
pub(super) struct Sources {
    watcher: RecommendedWatcher,
    /// Changed files in the watched folders. The queue has no bound. The watcher must not block, because calls that add a folder wait for
    /// the watcher, and it must not drop a change, which might require a build. The session empties the queue as soon as its current
    /// action has ended.
    events: UnboundedReceiver<PathBuf>,
    watched: BTreeSet<PathBuf>,
    files: WatchedFiles,
    group: ChangeGroup,
}

/// Changes that are not complete yet.
#[derive(Debug, Default)]
struct ChangeGroup {
    /// Files in the order of their first change.
    paths: Vec<PathBuf>,
    /// Times of the first and the latest change; `None` without changes.
    times: Option<(Instant, Instant)>,
}

/// Files that are watched for changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct WatchedFiles {
    project: PathBuf,
    code: BTreeSet<PathBuf>,
    /// File or folder of samples; `None` if none are applied.
    samples: Option<PathBuf>,
    /// Whether the last build failed. Then the list of files is that of an earlier build, and lacks new ones.
    are_outdated: bool,
}

impl Sources {
    pub(super) fn new() -> Result<Self, Failure> {
        let (sender, events) = mpsc::unbounded_channel();
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let Ok(event) = event else { return };
            // The compiler reads the files, which is no change.
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
            group: ChangeGroup::default(),
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
        // The compiler's list contains no manifest.
        code.insert(project.join("Cargo.toml"));
        let mut folders = folders_of(&code);
        folders.extend(samples.and_then(|samples| match samples.is_dir() {
            true => Some(samples.to_owned()),
            false => samples.parent().filter(|_| samples.exists()).map(Path::to_owned),
        }));
        self.watch(folders)?;
        let (project, samples) = (project.to_owned(), samples.map(Path::to_owned));
        self.files = WatchedFiles { project, code, samples, are_outdated: false };
        Ok(())
    }

    /// Also watches all other Rust files below `src` of the project, until [`follow`](Self::follow) is called after a build that succeeds:
    /// a build that fails may have read new files, and does not list them.
    pub(super) fn follow_failed_build(&mut self) -> Result<(), Failure> {
        // A failed build writes no list, so a new module is not in the known one.
        self.files.are_outdated = true;
        let mut folders = self.watched.clone();
        add_folders(&self.files.project.join("src"), &mut folders);
        self.watch(folders)
    }

    /// Returns a file of the project's code that was saved after `time`: while the first build ran, no file was watched.
    pub(super) fn saved_since(&self, time: SystemTime) -> Option<String> {
        let WatchedFiles { project, code, .. } = &self.files;
        let manifest = project.join("Cargo.toml");
        // A build may write code elsewhere.
        let mut own = code.iter().filter(|file| is_source_of(project, file) || **file == manifest);
        let saved = own.find(|file| modified(file).is_some_and(|modified| modified > time))?;
        Some(write::relative(saved, project))
    }

    /// Watches these folders, and no others.
    fn watch(&mut self, folders: BTreeSet<PathBuf>) -> Result<(), Failure> {
        for gone in self.watched.difference(&folders) {
            // Fails only if the folder is not watched.
            let _ = self.watcher.unwatch(gone);
        }
        for folder in folders.difference(&self.watched) {
            self.watcher
                // Folders and not files, because editors replace a file when they save it. Not recursive, so
                // that `target` is not watched.
                .watch(folder, RecursiveMode::NonRecursive)
                .map_err(|error| Failure::new(format!("cannot watch {}: {error}", folder.display())))?;
        }
        self.watched = folders;
        Ok(())
    }

    /// Waits for the next group of changes.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses no change.
    pub(super) async fn changed(&mut self) -> Changed {
        loop {
            let received = match self.group.end() {
                None => Ok(self.events.recv().await),
                // A deadline, not a duration, because every other event of the session drops this future and creates it again.
                Some(end) => timeout_at(end, self.events.recv()).await,
            };
            match received {
                Ok(Some(path)) => self.take(path, Instant::now()),
                Ok(None) => return std::future::pending().await,
                Err(_) => {
                    if let Some(changed) = self.files.judge(&std::mem::take(&mut self.group).paths) {
                        return changed;
                    }
                }
            }
        }
    }

    /// Adds a changed file to the group. Other files of the watched folders, such as a log that is written without a pause, must not
    /// prolong it.
    fn take(&mut self, path: PathBuf, now: Instant) {
        if self.files.contain(&path) {
            self.group.add(path, now);
        }
    }
}

impl ChangeGroup {
    fn add(&mut self, path: PathBuf, now: Instant) {
        if !self.paths.contains(&path) {
            self.paths.push(path);
        }
        let first = self.times.map_or(now, |(first, _)| first);
        self.times = Some((first, now));
    }

    /// Time at which the group is complete if nothing follows; `None` without changes.
    fn end(&self) -> Option<Instant> {
        self.times.map(|(first, latest)| (latest + QUIET).min(first + LONGEST_GROUP))
    }
}

/// Time on the clock of file systems.
#[expect(clippy::disallowed_methods, reason = "it is compared with times of files, which no test can pause")]
pub(super) fn file_time() -> SystemTime {
    SystemTime::now()
}

/// Time at which a file was saved; `None` if the file system does not say it.
fn modified(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).and_then(|metadata| metadata.modified()).ok()
}

/// Folders that contain these files.
fn folders_of(files: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    files.iter().filter_map(|file| file.parent()).map(Path::to_owned).collect()
}

/// Adds a folder and those below it. Folders that cannot be read are left out.
fn add_folders(folder: &Path, folders: &mut BTreeSet<PathBuf>) {
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        // Links are not followed, because they can form a cycle.
        let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        waiting.extend(entries.flatten().filter(is_folder).map(|entry| entry.path()));
        folders.insert(folder);
    }
}

impl WatchedFiles {
    /// Whether a change of this file requires an action.
    fn contain(&self, path: &Path) -> bool {
        self.is_code(path) || self.is_sample(path)
    }

    fn is_code(&self, path: &Path) -> bool {
        self.code.contains(path) || (self.are_outdated && is_source_of(&self.project, path))
    }

    fn is_sample(&self, path: &Path) -> bool {
        is_object_file(path) && self.samples.as_ref().is_some_and(|samples| path.starts_with(samples))
    }

    /// Returns the actions that changed files require; `None` if none of the files is watched.
    fn judge(&self, paths: &[PathBuf]) -> Option<Changed> {
        let watched: Vec<_> = paths.iter().filter(|path| self.contain(path)).collect();
        let first = write::relative(watched.first()?, &self.project);
        Some(Changed {
            code: paths.iter().any(|path| self.is_code(path)),
            samples: paths.iter().filter(|path| self.is_sample(path)).cloned().collect(),
            files: match watched.len() - 1 {
                0 => first,
                more => format!("{first} and {more} more"),
            },
        })
    }
}

/// Whether a file can contain samples.
pub(super) fn is_object_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml" || extension == "json")
}

/// Whether a file is a Rust file below `src` of the project. Temporary files of editors, whose names begin with `.` or `#`, do not count.
fn is_source_of(project: &Path, path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.starts_with(project.join("src")) && name.ends_with(".rs") && !name.starts_with(['.', '#'])
}

/// Files in one of cargo's lists: `program: file file`, with escaped spaces.
fn dependencies(list: &str) -> BTreeSet<PathBuf> {
    let files = list.lines().next().and_then(|line| line.split_once(": ")).map_or("", |(_, files)| files);
    // Cargo escapes spaces in paths with a backslash. No path contains a NUL.
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
            are_outdated: false,
        };
        let judge = |files: &WatchedFiles, paths: &[&str]| {
            let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            files.judge(&paths).map(|Changed { code, samples, files }| (code, samples, files))
        };
        let sample = || vec![PathBuf::from("/p/samples/a.yaml")];
        for (paths, expected) in [
            (&["/p/src/.lib.rs.swp", "/p/README.md"][..], None),
            (&["/p/src/4913", "/p/src/lib.rs"], Some((true, Vec::new(), "src/lib.rs".to_owned()))),
            (&["/p/samples/a.yaml"], Some((false, sample(), "samples/a.yaml".to_owned()))),
            (
                &["/p/samples/a.yaml", "/p/Cargo.toml", "/p/x"],
                Some((true, sample(), "samples/a.yaml and 1 more".to_owned())),
            ),
            (&["/p/samples/a.txt"], None),
            (&["/p/src/new.rs"], None),
        ] {
            assert_eq!(judge(&files, paths), expected, "{paths:?}");
        }
        // After a build that failed, a new file may be the one to mend.
        let outdated = WatchedFiles { are_outdated: true, ..files };
        for (path, is_source) in [
            ("/p/src/photo/new.rs", true),
            ("/p/src/.#new.rs", false),
            ("/p/src/new.rs.orig", false),
            ("/p/tests/new.rs", false),
        ] {
            assert_eq!(judge(&outdated, &[path]).is_some(), is_source, "{path}");
        }
    }

    #[test]
    fn files_that_are_saved_during_the_first_build_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let save = |name: &str, seconds: i64| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            let file = fs::File::create(&path).expect("a file");
            let age = Duration::from_secs(seconds.unsigned_abs());
            file.set_modified(if seconds < 0 { time - age } else { time + age }).expect("a time");
            path
        };
        let mut sources = Sources::new().expect("a watcher");
        sources.files.project = folder.path().to_owned();
        sources.files.code =
            [save("src/lib.rs", -9), save("Cargo.toml", -9), save("target/out/code.rs", 9)].into();
        assert_eq!(sources.saved_since(time), None);
        save("src/lib.rs", 9);
        assert_eq!(sources.saved_since(time).as_deref(), Some("src/lib.rs"));
        save("Cargo.toml", 9);
        assert_eq!(sources.saved_since(time).as_deref(), Some("Cargo.toml"));
    }

    /// Other events of a session interrupt the wait for the end of a group, and do not prolong it.
    #[test]
    fn a_group_ends_after_its_latest_change() {
        let now = Instant::now();
        let later = now + Duration::from_millis(30);
        let mut group = ChangeGroup::default();
        assert_eq!(group.end(), None);
        group.add("a".into(), now);
        assert_eq!(group.end(), Some(now + QUIET));
        group.add("b".into(), later);
        group.add("a".into(), later);
        assert_eq!((group.end(), group.paths), (Some(later + QUIET), vec!["a".into(), "b".into()]));
    }

    /// Otherwise a program that writes a watched file again and again would keep the operator from being built.
    #[test]
    fn changes_without_a_pause_end_their_group_after_a_second() {
        let now = Instant::now();
        let mut group = ChangeGroup::default();
        for tick in 0..100 {
            group.add("a".into(), now + Duration::from_millis(40) * tick);
        }
        assert_eq!(group.end(), Some(now + LONGEST_GROUP));
    }

    /// The folder of the manifest is watched, and programs may write other files there without a pause.
    #[test]
    fn files_that_do_not_matter_do_not_prolong_a_group() {
        let mut sources = Sources::new().expect("a watcher");
        sources.files.project = "/p".into();
        sources.files.code = ["/p/Cargo.toml".into()].into();
        let now = Instant::now();
        sources.take("/p/Cargo.toml".into(), now);
        sources.take("/p/log.txt".into(), now + Duration::from_millis(30));
        assert_eq!(sources.group.end(), Some(now + QUIET));
        assert_eq!(sources.group.paths, [PathBuf::from("/p/Cargo.toml")]);
    }

    #[test]
    fn folders_below_a_folder_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("src/photo");
        fs::create_dir_all(&inner).expect("folders");
        fs::write(inner.join("controller.rs"), "").expect("a file");
        let mut folders = BTreeSet::new();
        add_folders(&folder.path().join("src"), &mut folders);
        assert_eq!(folders, [folder.path().join("src"), inner].into());
        add_folders(&folder.path().join("missing"), &mut folders);
        assert_eq!(folders.len(), 2);
    }
}
