//! Samples: which of them have to be applied, and when they are tried again. Pure, but for [`read`].

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use tokio::time::{Duration, Instant};

use super::sources::is_object_file;
use crate::{failure::Failure, write};

/// Time between two attempts to apply a sample while the operator does not serve its webhooks yet.
const PAUSE: Duration = Duration::from_millis(500);

/// Number of attempts after the operator has started. An operator serves its webhooks within one second, or five on a slow machine.
const ATTEMPTS: u32 = 10;

/// Contents of sample files by path.
pub(super) type SampleTexts = BTreeMap<PathBuf, Vec<u8>>;

/// State of the samples in a session.
#[derive(Debug, Default)]
pub(super) struct Samples {
    /// Contents with which files were applied. Files that have changed since, or that were refused, are missing.
    applied: SampleTexts,
    /// Whether changed samples wait until the next program of the operator runs.
    wait_for_build: bool,
    /// Remaining attempts in which a webhook need not be served yet.
    attempts: u32,
    /// Files that wait for a webhook.
    waiting: BTreeSet<PathBuf>,
    /// Time of the next attempt to apply the files in `waiting`.
    again: Option<Instant>,
}

/// Choice of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// All samples.
    All,
    /// Samples that have changed since they were applied, and those that were refused.
    Due,
    /// Samples that were refused because a webhook was not served yet.
    Waiting,
}

impl Samples {
    /// Notes that files were saved, even if with the same contents: their objects may have been deleted.
    pub(super) fn saved(&mut self, files: &[PathBuf]) {
        for file in files {
            self.applied.remove(file);
        }
    }

    /// Notes that samples wait for the program that is being built: a new field and a sample that has it may be saved together.
    pub(super) fn wait_for_build(&mut self) {
        self.wait_for_build = true;
    }

    /// Notes the end of a build that failed. Returns whether samples have waited for it.
    pub(super) fn build_failed(&mut self) -> bool {
        std::mem::take(&mut self.wait_for_build)
    }

    /// Notes that the operator starts. The API server may call webhooks that the operator does not serve yet.
    pub(super) fn operator_started(&mut self) {
        self.wait_for_build = false;
        self.attempts = ATTEMPTS;
    }

    /// Notes that the operator has ended by itself: its webhooks are not served again.
    pub(super) fn operator_ended(&mut self) {
        self.attempts = 0;
    }

    /// Returns the files to apply, in their order. Files that are gone are forgotten, so that they count as new when they come back.
    pub(super) fn choose(&mut self, choice: Choice, files: &SampleTexts) -> Vec<PathBuf> {
        self.again = None;
        let waiting = std::mem::take(&mut self.waiting);
        // A file that is deleted and written again with the same text must be applied again.
        self.applied.retain(|file, _| files.contains_key(file));
        let is_chosen = |(file, text): &(&PathBuf, &Vec<u8>)| match choice {
            Choice::All => true,
            Choice::Due => self.applied.get(*file) != Some(*text),
            Choice::Waiting => waiting.contains(*file),
        };
        files.iter().filter(is_chosen).map(|(file, _)| file.clone()).collect()
    }

    /// Notes that a file was applied with this text.
    pub(super) fn was_applied(&mut self, file: PathBuf, text: Vec<u8>) {
        self.applied.insert(file, text);
    }

    /// Notes that a file was refused. Returns whether to report the failure. A webhook that is not served yet is not reported.
    pub(super) fn was_refused(&mut self, file: &Path, failure: &Failure, now: Instant) -> bool {
        self.applied.remove(file);
        // An operator that has just started may not serve its webhooks yet. Other refusals do not go away by
        // themselves.
        if self.attempts == 0 || !failure.message.contains("failed calling webhook") {
            return true;
        }
        self.waiting.insert(file.to_owned());
        self.again = Some(now + PAUSE);
        false
    }

    /// Time of the next attempt.
    pub(super) fn next_attempt(&self) -> Option<Instant> {
        self.again
    }

    /// Notes that the time of the next attempt has come.
    pub(super) fn attempt(&mut self) {
        self.again = None;
        self.attempts = self.attempts.saturating_sub(1);
    }
}

/// Reads a file of samples, or the files of a folder. Nothing if the path does not exist.
///
/// # Errors
///
/// A file or the folder cannot be read.
pub(super) fn read(path: &Path) -> Result<SampleTexts, Failure> {
    let unreadable = |path: &Path| {
        let path = path.display().to_string();
        move |error: io::Error| Failure::new(format!("cannot read {path}: {error}"))
    };
    if !path.exists() {
        return Ok(SampleTexts::new());
    }
    let files = if path.is_dir() {
        let entries = fs::read_dir(path).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
        let mut files: Vec<PathBuf> = entries.map_err(unreadable(path))?;
        files.retain(|file| is_object_file(file));
        files
    } else {
        vec![path.to_owned()]
    };
    files.into_iter().map(|file| Ok((file.clone(), fs::read(&file).map_err(unreadable(&file))?))).collect()
}

/// `1 object from samples/photo.yaml`, `3 objects from 2 files of samples`, `3 objects from samples`
pub(super) fn summary(
    objects: usize,
    files: &[PathBuf],
    choice: Choice,
    samples: &Path,
    project: &Path,
) -> String {
    let count = if objects == 1 { "1 object".to_owned() } else { format!("{objects} objects") };
    let folder = write::relative(samples, project);
    match (choice, files) {
        (Choice::All, _) => format!("{count} from {folder}"),
        (_, [file]) => format!("{count} from {}", write::relative(file, project)),
        (_, files) => format!("{count} from {} files of {folder}", files.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(files: &[(&str, &str)]) -> SampleTexts {
        files.iter().map(|(file, text)| (PathBuf::from(file), text.as_bytes().to_vec())).collect()
    }

    /// Applies the files that are due; those in `refused` are refused with this reason. Returns all that were tried.
    fn apply(samples: &mut Samples, files: &[(&str, &str)], refused: &[(&str, &str)]) -> Vec<String> {
        let files = texts(files);
        let tried = samples.choose(Choice::Due, &files);
        for file in &tried {
            match refused.iter().find(|(path, _)| file == Path::new(path)) {
                Some((_, reason)) => {
                    samples.was_refused(file, &Failure::new(*reason), Instant::now());
                }
                None => samples.was_applied(file.clone(), files[file].clone()),
            }
        }
        tried.iter().map(|file| file.display().to_string()).collect()
    }

    #[test]
    fn samples_that_changed_or_were_refused_are_due() {
        let mut samples = Samples::default();
        let unknown = [("b", "the API server does not serve kind Photo")];
        assert_eq!(apply(&mut samples, &[("a", "1"), ("b", "1")], &unknown), ["a", "b"]);
        assert_eq!(apply(&mut samples, &[("a", "1"), ("b", "1")], &unknown), ["b"]);
        assert_eq!(apply(&mut samples, &[("a", "1"), ("b", "1")], &[]), ["b"]);
        assert_eq!(apply(&mut samples, &[("a", "1"), ("b", "1")], &[]), Vec::<String>::new());
        assert_eq!(apply(&mut samples, &[("a", "2"), ("b", "1"), ("c", "1")], &[]), ["a", "c"]);
        samples.saved(&["b".into()]);
        assert_eq!(apply(&mut samples, &[("a", "2"), ("b", "1"), ("c", "1")], &[]), ["b"]);
        // A file that goes and comes back.
        assert_eq!(apply(&mut samples, &[("b", "1")], &[]), Vec::<String>::new());
        assert_eq!(apply(&mut samples, &[("a", "2"), ("b", "1")], &[]), ["a"]);
        let all = samples.choose(Choice::All, &texts(&[("a", "2"), ("b", "1")]));
        assert_eq!(all, [PathBuf::from("a"), "b".into()]);
    }

    #[test]
    fn a_webhook_that_is_not_served_yet_is_waited_for() {
        let mut samples = Samples::default();
        let (file, now) = (Path::new("a"), Instant::now());
        let calling =
            Failure::new("a: Internal error occurred: failed calling webhook \"a.example.com\": refused");
        assert!(samples.was_refused(file, &calling, now), "no operator has started");
        samples.operator_started();
        assert!(samples.was_refused(file, &Failure::new("a: Photo a: spec is required"), now));
        assert_eq!(samples.next_attempt(), None);
        for _ in 0..ATTEMPTS {
            assert!(!samples.was_refused(file, &calling, now));
            assert_eq!(samples.next_attempt(), Some(now + PAUSE));
            samples.attempt();
            assert_eq!(samples.next_attempt(), None);
        }
        assert!(samples.was_refused(file, &calling, now), "it persists");
        samples.operator_started();
        samples.operator_ended();
        assert!(samples.was_refused(file, &calling, now));
    }

    /// Another sample that was refused is not tried with it: its error would be printed with each attempt.
    #[test]
    fn only_samples_that_wait_for_a_webhook_are_tried_again() {
        let mut samples = Samples::default();
        samples.operator_started();
        let files = [("a", "1"), ("b", "1"), ("c", "1")];
        let refused = [("a", "a: failed calling webhook \"a.example.com\""), ("b", "b: unknown field")];
        assert_eq!(apply(&mut samples, &files, &refused), ["a", "b", "c"]);
        assert!(samples.next_attempt().is_some());
        samples.attempt();
        assert_eq!(samples.choose(Choice::Waiting, &texts(&files)), [PathBuf::from("a")]);
        assert_eq!(samples.choose(Choice::Waiting, &texts(&files)), Vec::<PathBuf>::new());
        assert_eq!(samples.choose(Choice::Due, &texts(&files)), [PathBuf::from("a"), "b".into()]);
    }

    #[test]
    fn samples_wait_for_a_build_once() {
        let mut samples = Samples::default();
        assert!(!samples.build_failed());
        samples.wait_for_build();
        assert!(samples.build_failed());
        assert!(!samples.build_failed());
        samples.wait_for_build();
        samples.operator_started();
        assert!(!samples.build_failed());
    }

    #[test]
    fn the_files_are_named() {
        let [samples, project] = [Path::new("/p/samples"), Path::new("/p")];
        let [a, b] = ["/p/samples/a.yaml", "/p/samples/b.yaml"].map(PathBuf::from);
        for (objects, files, choice, expected) in [
            (1, vec![a.clone()], Choice::All, "1 object from samples"),
            (0, vec![], Choice::All, "0 objects from samples"),
            (2, vec![a.clone()], Choice::Due, "2 objects from samples/a.yaml"),
            (2, vec![a, b], Choice::Due, "2 objects from 2 files of samples"),
        ] {
            assert_eq!(summary(objects, &files, choice, samples, project), expected);
        }
    }

    #[test]
    fn files_with_objects_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(read(&folder.path().join("missing")), Ok(SampleTexts::new()));
        for name in ["b.yaml", "a.json", "c.yml", "README.md"] {
            fs::write(folder.path().join(name), name).expect("a file");
        }
        let found: Vec<_> = read(folder.path()).expect("files").into_values().collect();
        assert_eq!(found, [&b"a.json"[..], b"b.yaml", b"c.yml"]);
        let one = read(&folder.path().join("README.md")).expect("a file that is named is read");
        assert_eq!(one.len(), 1);
    }
}
