//! The tutorial of the book, as a reader follows it.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    support::{errors, repository},
    workspace::{Projects, for_projects},
};

/// Plays all pages in order: commands are run, patches are applied, and the tests that a patch adds pass at the next `cargo test`.
#[test]
fn each_step_of_the_tutorial_applies_and_its_tests_pass() {
    let projects = Projects::new(&["guestbook"]);
    // A reader's folder is not below one with the format of this repository.
    fs::write(projects.path().join("rustfmt.toml"), "edition = \"2024\"\n").expect("a file is written");
    let mut reader = Reader { folder: projects.path().to_owned(), projects, new_tests: Vec::new() };
    let pages = pages();
    assert_eq!(pages.len(), 9, "an introduction and eight steps");
    for page in &pages {
        let text = fs::read_to_string(page).expect("the page is text");
        let mut pieces = text.split("```");
        while let (Some(_), Some(block)) = (pieces.next(), pieces.next()) {
            let (language, body) = block.split_once('\n').expect("a fence ends its line");
            match language {
                "diff" => reader.applies(page, body),
                "sh" => body.lines().for_each(|line| reader.runs(page, line)),
                other => panic!("{}: a block of {other:?}, which this test does not play", page.display()),
            }
        }
        assert_eq!(reader.new_tests, Vec::<String>::new(), "{}: no cargo test", page.display());
    }
    reader.succeeds("cargo fmt --check");
}

/// Pages of the tutorial in the order of the book.
fn pages() -> Vec<PathBuf> {
    let source = repository().join("docs/book/src");
    let summary = fs::read_to_string(source.join("SUMMARY.md")).expect("the summary of the book");
    let targets = summary.lines().filter_map(|line| line.split_once("](")?.1.strip_suffix(')'));
    targets.filter(|target| target.starts_with("tutorial/")).map(|target| source.join(target)).collect()
}

/// A reader that follows the pages step by step.
struct Reader {
    projects: Projects,
    folder: PathBuf,
    /// Tests of applied patches that have not run yet.
    new_tests: Vec<String>,
}

impl Reader {
    fn applies(&mut self, page: &Path, patch: &str) {
        let mut git = Command::new("git");
        // The folder is below that of a repository, which is not meant.
        git.args(["apply", "-"]).env("GIT_CEILING_DIRECTORIES", self.projects.path());
        git.current_dir(&self.folder).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut git = git.spawn().expect("git is installed");
        git.stdin.take().expect("a pipe").write_all(patch.as_bytes()).expect("git reads the patch");
        let output = git.wait_with_output().expect("git ends");
        assert!(output.status.success(), "{}: {}\n{patch}", page.display(), errors(&output));
        let added = patch.lines().filter_map(|line| line.strip_prefix("+async fn "));
        let tests = patch.lines().zip(patch.lines().skip(1));
        let is_test = |name: &str| {
            tests
                .clone()
                .any(|(line, next)| line.starts_with("+#[tokio::test") && next.contains(&format!(" {name}(")))
        };
        let names = added.filter_map(|line| line.split('(').next()).filter(|name| is_test(name));
        self.new_tests.extend(names.map(str::to_owned));
    }

    fn runs(&mut self, page: &Path, line: &str) {
        match line {
            _ if line.starts_with("kubectl ") || line.starts_with("cargo build --release") => {}
            "cd guestbook" => self.folder.push("guestbook"),
            "cargo test" => {
                let output = self.succeeds("cargo test");
                for test in self.new_tests.drain(..) {
                    assert!(
                        output.contains(&format!("test {test} ... ok")),
                        "{}: {test}: {output}",
                        page.display()
                    );
                }
            }
            _ if line.starts_with("cargo operator ") => drop(self.succeeds(line)),
            _ => panic!("{}: {line:?}, which this test does not run", page.display()),
        }
    }

    /// Runs a command of cargo, which succeeds, and returns its output.
    #[track_caller]
    fn succeeds(&self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let mut command = match words.first() {
            Some(&"operator") => Command::new(env!("CARGO_BIN_EXE_cargo-operator")),
            _ => Command::new(env!("CARGO")),
        };
        // Libraries are shared with this repository. The programs are not, because an example has the same name.
        command.env("CARGO_BUILD_BUILD_DIR", Projects::target());
        command.env("CARGO_TARGET_DIR", self.projects.path().join("target"));
        for_projects(&mut command);
        let output = command.args(words).current_dir(&self.folder).output().expect("the program runs");
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), errors(&output));
        assert!(output.status.success(), "{line}:\n{text}");
        text
    }
}
