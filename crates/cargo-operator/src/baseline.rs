//! The manifests of an earlier release, from git: `manifests --check --baseline v1.1.0`.

use std::{
    ffi::OsString,
    path::Path,
    process::{Command, Output},
};

use crate::failure::Failure;

const OPTION: &str = "--baseline";

/// If `--baseline` is a git revision, not a file, replaces it by `-` (standard input) and returns the CustomResourceDefinitions that
/// the revision has in the folder of `--out`.
pub(crate) fn take(words: &mut [OsString], folder: &Path) -> Result<Option<String>, Failure> {
    let Some((index, name)) = value_of(words, OPTION) else { return Ok(None) };
    // The operator's program reads the file or its input itself.
    if name == "-" || folder.join(&name).exists() {
        return Ok(None);
    }
    let out = value_of(words, "--out").map_or_else(|| "deploy".to_owned(), |(_, out)| out);
    let files =
        git(folder, &["grep", "--full-name", "-l", "kind: CustomResourceDefinition", &name, "--", &out])?;
    let names = String::from_utf8_lossy(&files.stdout).into_owned();
    if !files.status.success() || names.is_empty() {
        let errors = String::from_utf8_lossy(&files.stderr);
        let reason = match errors.trim().lines().next() {
            Some(line) => line.trim_start_matches("fatal: ").to_owned(),
            None => format!("the folder {out} of that revision contains no CustomResourceDefinition"),
        };
        return Err(Failure::usage(format!(
            "--baseline {name} is neither a file nor a git revision with manifests: {reason}"
        ))
        .hint("name a file, or a tag or commit with the manifests of the last release"));
    }
    let mut text = String::new();
    // Each line is `revision:path`.
    for file in names.lines() {
        let shown = git(folder, &["show", file])?;
        text.push_str("---\n");
        text.push_str(&String::from_utf8_lossy(&shown.stdout));
        text.push('\n');
    }
    words[index] =
        if words[index].to_string_lossy().contains('=') { format!("{OPTION}=-").into() } else { "-".into() };
    Ok(Some(text))
}

/// The value of an option, and the index of the argument that contains it.
fn value_of(words: &[OsString], option: &str) -> Option<(usize, String)> {
    words.iter().enumerate().find_map(|(index, word)| {
        let rest = word.to_str()?.strip_prefix(option)?;
        match rest.strip_prefix('=') {
            Some(value) => Some((index, value.to_owned())),
            None if rest.is_empty() => Some((index + 1, words.get(index + 1)?.to_str()?.to_owned())),
            None => None,
        }
    })
}

fn git(folder: &Path, words: &[&str]) -> Result<Output, Failure> {
    let output = Command::new("git").args(words).current_dir(folder).output();
    output.map_err(|error| Failure::new(format!("cannot run git: {error}")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn run(folder: &Path, words: &str) {
        let mut all = vec!["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
        all.extend(words.split(' '));
        let output = git(folder, &all).expect("git runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    #[test]
    fn a_revision_is_replaced_by_its_definitions() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        run(path, "init --quiet");
        fs::create_dir(path.join("deploy")).expect("a folder");
        fs::write(path.join("deploy/a.yaml"), "kind: CustomResourceDefinition\nname: a\n").expect("a file");
        fs::write(path.join("deploy/b.yaml"), "kind: Service\n").expect("a file");
        run(path, "add .");
        run(path, "commit --quiet -m one");
        run(path, "tag v1");
        fs::write(path.join("deploy/a.yaml"), "kind: CustomResourceDefinition\nname: changed\n")
            .expect("a file");
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();

        for (given, replaced) in [
            ("--check --baseline v1 --out deploy", "--check --baseline - --out deploy"),
            ("--baseline=v1", "--baseline=-"),
        ] {
            let mut given = words(given);
            let text = take(&mut given, path).expect("a baseline");
            assert_eq!(text.as_deref(), Some("---\nkind: CustomResourceDefinition\nname: a\n\n"));
            assert_eq!(given, words(replaced));
        }
        for given in ["--check", "--baseline -", "--baseline deploy/a.yaml", "--baseline"] {
            let mut same = words(given);
            assert_eq!((take(&mut same, path), same), (Ok(None), words(given)), "{given}");
        }
        for (given, reason) in [
            ("--baseline v2", "--baseline v2 is neither a file nor a git revision with manifests: "),
            (
                "--baseline v1 --out other",
                "the folder other of that revision contains no CustomResourceDefinition",
            ),
        ] {
            let failure = take(&mut words(given), path).expect_err("no baseline");
            assert!(failure.message.contains(reason), "{}", failure.message);
        }
    }
}
