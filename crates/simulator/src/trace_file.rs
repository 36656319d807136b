//! Trace files: the plan and the log of a run that violates a rule, as text.
//!
//! ```text
//! kube-simulator trace, format 1
//! test: guestbooks_survive_crashes
//! simulation: guestbook-operator
//! violates: same objects: at the end, configmaps default/page-*#2 is left over
//! plan: crash after create configmaps default/page-* #1
//! log:
//!      0.000 operator   starts
//! hash: 3f7c1b2a90d4e655
//! ```
//!
//! A replay plays the plan, and compares the log to say whether the run is still the same one.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use crate::{explore::Finding, plan::Plan};

/// First line of a trace file.
const MAGIC: &str = "kube-simulator trace, format ";

/// Format that this version writes and reads.
const FORMAT: u32 = 1;

/// Name of a thread that is not of a test.
const NO_TEST: &str = "main";

/// Contents of a trace file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TraceFile {
    /// Name of the test that found the run.
    pub(crate) test: String,
    pub(crate) simulation: String,
    pub(crate) violates: String,
    pub(crate) plan: Plan,
    /// Number of lines of the log, and their hash; `None` in a file of which only the plan was kept.
    pub(crate) log: Option<(usize, String)>,
    lines: Vec<String>,
}

/// A trace file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TraceFileError(String);

impl fmt::Display for TraceFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TraceFileError {}

impl TraceFile {
    pub(crate) fn of(finding: &Finding, test: &str, simulation: &str) -> Self {
        let lines = finding.trace();
        Self {
            test: test.to_owned(),
            simulation: simulation.to_owned(),
            violates: format!("{}: {}", finding.oracle(), finding.title()),
            plan: finding.plan().clone(),
            log: Some((lines.len(), hash(&lines))),
            lines,
        }
    }

    /// Reads the text of a trace file.
    pub(crate) fn parse(text: &str) -> Result<Self, TraceFileError> {
        let error = |text: String| TraceFileError(text);
        let mut rest = text.lines();
        let first = rest.next().unwrap_or_default();
        let format = first.strip_prefix(MAGIC).ok_or_else(|| {
            error(format!(
                "is not a trace of kube-simulator: its first line is {first:?}, not \"{MAGIC}{FORMAT}\""
            ))
        })?;
        // Checked before any other line, since the lines of another format may have another meaning.
        if format.trim() != FORMAT.to_string() {
            return Err(error(format!(
                "has format {format}, which another version of kube-simulator wrote; this one reads format {FORMAT}: \
                 run the test without the file to find the bug again"
            )));
        }
        let mut file = Self {
            test: String::new(),
            simulation: String::new(),
            violates: String::new(),
            plan: Plan::default(),
            log: None,
            lines: Vec::new(),
        };
        let (mut is_log, mut known) = (false, None);
        for line in rest {
            let (name, value) = line.split_once(": ").unwrap_or((line, ""));
            match name {
                "hash" => known = Some(value.to_owned()),
                // Lines of the log may contain a colon, so no other name is looked for in them. The hash ends
                // the log.
                _ if is_log => file.lines.push(line.to_owned()),
                "test" => value.clone_into(&mut file.test),
                "simulation" => value.clone_into(&mut file.simulation),
                "violates" => value.clone_into(&mut file.violates),
                "plan" => {
                    let more: Plan = value.parse().map_err(|problem| error(format!("{problem}")))?;
                    file.plan.deviations.extend(more.deviations);
                }
                "log:" => is_log = true,
                "" => {}
                _ => return Err(error(format!("has a line that does not belong to a trace file: {line:?}"))),
            }
        }
        if let Some(known) = known {
            // A file with only the plan has no hash and is valid: people shorten files that they keep.
            if known != hash(&file.lines) {
                return Err(error("is damaged: its hash is not that of its log".to_owned()));
            }
            file.log = Some((file.lines.len(), known));
        }
        if file.simulation.is_empty() {
            return Err(error("does not name its simulation".to_owned()));
        }
        Ok(file)
    }

    /// Reads a trace file. A path that is not found is also looked for from the folders above, because tests run in the folder of
    /// their package and the command is entered in that of the workspace.
    pub(crate) fn read(path: &Path) -> Result<Self, TraceFileError> {
        let here = std::env::current_dir().unwrap_or_default();
        let found = here.ancestors().map(|folder| folder.join(path)).find(|path| path.is_file());
        let path = found.unwrap_or_else(|| path.to_owned());
        let text = std::fs::read_to_string(&path)
            .map_err(|error| TraceFileError(format!("{} cannot be read: {error}", path.display())))?;
        Self::parse(&text).map_err(|error| TraceFileError(format!("{} {error}", path.display())))
    }

    /// Whether the file is of a test and simulation. A test in the main thread has no name, so any matches.
    pub(crate) fn is_of(&self, test: &str, simulation: &str) -> bool {
        let is_unnamed = |name: &str| name.is_empty() || name == NO_TEST;
        self.simulation == simulation && (self.test == test || is_unnamed(&self.test) || is_unnamed(test))
    }

    /// Says whether a finding has the log of the file.
    pub(crate) fn compare(&self, finding: &Finding) -> &'static str {
        let lines = finding.trace();
        match &self.log {
            Some((_, known)) if *known == hash(&lines) => "the run equals that in the file",
            Some(_) => {
                "the operator or the simulator has changed since the file was written: the run differs from it"
            }
            None => "the file has no log",
        }
    }

    /// Name of the file.
    pub(crate) fn file_name(&self) -> String {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
        let name = if self.test == NO_TEST { &self.simulation } else { &self.test };
        let plain: String = name
            .replace("::", "-")
            .chars()
            .map(|letter| if is_plain(letter) { letter } else { '-' })
            .collect();
        format!("{plain}-{}.trace", &hash(&[self.plan.to_string()])[..4])
    }

    /// Writes the file into a folder, and returns its path.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<PathBuf> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join(self.file_name());
        std::fs::write(&path, self.to_string())?;
        Ok(path)
    }
}

impl fmt::Display for TraceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{MAGIC}{FORMAT}")?;
        writeln!(f, "test: {}\nsimulation: {}\nviolates: {}", self.test, self.simulation, self.violates)?;
        for deviation in &self.plan.deviations {
            writeln!(f, "plan: {deviation}")?;
        }
        let Some((_, hash)) = &self.log else { return Ok(()) };
        writeln!(f, "log:")?;
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "hash: {hash}")
    }
}

/// FNV-1a of lines, which no version of Rust changes.
fn hash(lines: &[String]) -> String {
    let bytes = lines.iter().flat_map(|line| line.bytes().chain([b'\n']));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Name of the test that runs in this thread.
pub(crate) fn test_name() -> String {
    std::thread::current().name().unwrap_or(NO_TEST).to_owned()
}

/// Folder for trace files of this build, `target/simulation`; `None` outside of a build.
pub(crate) fn folder() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    // Test programs are in `deps`. Doc tests run elsewhere, and write no file.
    let dependencies = program.ancestors().find(|folder| folder.ends_with("deps"))?;
    Some(dependencies.parent()?.parent()?.join("simulation"))
}

/// Plans in the trace files under `tests/simulation` of the package that belong to a test and simulation, by file.
///
/// # Panics
///
/// A file there is no trace file.
pub(crate) fn saved(test: &str, simulation: &str) -> Vec<(String, Plan)> {
    let Some(package) = std::env::var_os("CARGO_MANIFEST_DIR") else { return Vec::new() };
    let folder = Path::new(&package).join("tests/simulation");
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "trace")).collect();
    // The order of a folder differs between file systems, and the first plan that fails is the one that is
    // reported.
    paths.sort();
    let file = |path: PathBuf| {
        let file = TraceFile::read(&path).unwrap_or_else(|error| panic!("saved simulation: {error}"));
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        file.is_of(test, simulation).then_some((name, file.plan))
    };
    paths.into_iter().filter_map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> TraceFile {
        let lines = vec!["     0.000 operator   starts".to_owned(), "     0.001 hash tables".to_owned()];
        TraceFile {
            test: "pages::are_single".to_owned(),
            simulation: "pages".to_owned(),
            violates: "same objects: x is missing".to_owned(),
            plan:
                "crash after create configmaps default/x #1\nrefuse with 409 update configmaps default/x #1"
                    .parse()
                    .unwrap(),
            log: Some((2, hash(&lines))),
            lines,
        }
    }

    #[test]
    fn a_trace_file_parses_back_from_its_text() {
        assert_eq!(TraceFile::parse(&file().to_string()), Ok(file()));
        assert!(file().file_name().starts_with("pages-are_single-"), "{}", file().file_name());
    }

    #[test]
    fn an_invalid_trace_file_is_named_with_the_reason() {
        let check = |text: &str, expected: &str| {
            let error = TraceFile::parse(text).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        };
        check("hello", "is not a trace of kube-simulator");
        check("kube-simulator trace, format 7\n", "has format 7, which another version");
        check(&file().to_string().replace("starts", "begins"), "is damaged");
        check("kube-simulator trace, format 1\nplan: explode x #1\n", "not a deviation");
        check("kube-simulator trace, format 1\ntest: x\n", "does not name its simulation");
        check("kube-simulator trace, format 1\nnonsense\n", "does not belong to a trace file");
    }

    #[test]
    fn a_file_belongs_to_its_test_and_simulation() {
        let file = file();
        assert!(file.is_of("pages::are_single", "pages") && file.is_of("main", "pages"));
        assert!(!file.is_of("pages::others", "pages") && !file.is_of("pages::are_single", "sites"));
    }
}
