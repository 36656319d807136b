//! Layouts: from objects to the files of a folder.

mod helm;
mod kustomize;

use std::{collections::BTreeMap, fmt, str::FromStr};

pub use self::helm::RELEASE_NAMESPACE;
use super::{Manifests, Parameters, Part, Program, RenderError};

/// Form of the rendered files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Layout {
    /// One file `operator.yaml` for `kubectl apply`.
    #[default]
    Yaml,
    /// A `kustomization.yaml` and one file for each [`Part`], as a base of overlays.
    Kustomize,
    /// A Helm chart. Its values are image, replicas, resources, and patches of any field.
    Helm,
}

/// Files of a layout, by path relative to their folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Files {
    /// The files.
    pub files: BTreeMap<String, RenderedFile>,
    /// Subfolder that contains only rendered files. Files in it that are not in `files` are obsolete and must be
    /// removed.
    pub generated: Option<&'static str>,
}

/// A file of a layout.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RenderedFile {
    /// Text of the file.
    pub text: String,
    /// Owner of the file.
    pub owner: Owner,
}

/// Owner of a rendered file: the program rewrites its own files and leaves those of the user alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The program writes it each time.
    Program,
    /// The program writes it once; from then on it is edited by hand.
    User,
    /// Like [`Owner::User`], but rendering adds top-level keys of the YAML text that the edited file lacks.
    UserKeys,
}

impl Layout {
    /// Name of the layout on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Yaml => "yaml",
            Self::Kustomize => "kustomize",
            Self::Helm => "helm",
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Parses `yaml`, `kustomize` and `helm`.
impl FromStr for Layout {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = [Self::Yaml, Self::Kustomize, Self::Helm];
        all.into_iter().find(|layout| layout.as_str() == text).ok_or("give yaml, kustomize or helm")
    }
}

impl Program {
    /// Renders the files of a layout, with the objects of these parts. A chart can be installed in any namespace. A
    /// program with a Service for webhooks must therefore have been set up for [`RELEASE_NAMESPACE`].
    ///
    /// # Errors
    ///
    /// Same as [`Program::render`].
    pub fn files(
        &self,
        parameters: &Parameters,
        layout: Layout,
        parts: &[Part],
    ) -> Result<Files, RenderError> {
        match layout {
            Layout::Yaml => Ok(single(&self.render(parameters)?.only(parts))),
            Layout::Kustomize => Ok(kustomize::files(&self.render(parameters)?.only(parts))),
            Layout::Helm => helm::files(self, parameters, parts),
        }
    }
}

/// One file with all objects.
fn single(manifests: &Manifests) -> Files {
    let mut files = Files::default();
    files.add("operator.yaml", manifests.to_yaml(), Owner::Program);
    files
}

impl Files {
    fn add(&mut self, path: impl Into<String>, text: String, owner: Owner) {
        self.files.insert(path.into(), RenderedFile { text, owner });
    }
}

impl RenderedFile {
    /// Returns the text to write over `existing`, the text of the file on disk. Keeps edits of files that belong to the
    /// user.
    #[must_use]
    pub fn over(&self, existing: Option<&str>) -> String {
        match (self.owner, existing) {
            (Owner::Program, _) | (_, None) => self.text.clone(),
            (Owner::User, Some(existing)) => existing.to_owned(),
            (Owner::UserKeys, Some(existing)) => with_missing_keys(existing, &self.text),
        }
    }
}

/// Adds to a YAML text the top-level keys of another one that it lacks, with the comments before them.
fn with_missing_keys(existing: &str, wanted: &str) -> String {
    // A top-level key stands at the beginning of a line that is no comment, item or flow mapping.
    let key_of = |line: &str| -> Option<String> {
        let key = line.split_once(':')?.0;
        let is_key = !key.is_empty() && !key.starts_with([' ', '#', '-', '{']);
        is_key.then(|| key.trim_matches(['"', '\'']).to_owned())
    };
    let has: Vec<String> = existing.lines().filter_map(key_of).collect();
    let mut text = existing.to_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let (mut before, mut is_missing) = (String::new(), false);
    for line in wanted.lines() {
        if line.is_empty() || line.starts_with('#') {
            is_missing = false;
            // A blank line ends the heading of the file.
            if line.is_empty() {
                before.clear();
            } else {
                before.push_str(line);
                before.push('\n');
            }
            continue;
        }
        if let Some(key) = key_of(line) {
            is_missing = !has.contains(&key);
            if is_missing {
                text.push_str(&before);
            }
            before.clear();
        }
        if is_missing {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_edited_by_hand_get_missing_keys_alone() {
        let wanted = "# Heading.\n\n# Image.\nimage: a\n# Number\n# of replicas.\nreplicas: 1\nresources:\n  requests:\n    cpu: 1\npatches: {}\n";
        let file = RenderedFile { text: wanted.to_owned(), owner: Owner::UserKeys };
        assert_eq!(file.over(None), wanted);
        assert_eq!(file.over(Some(wanted)), wanted);
        let edited = "image: b # mine\nextra: {replicas: 3}\n# resources: none\npatches: {Deployment: {}}";
        let expected =
            format!("{edited}\n# Number\n# of replicas.\nreplicas: 1\nresources:\n  requests:\n    cpu: 1\n");
        assert_eq!(file.over(Some(edited)), expected);
        assert_eq!(file.over(Some(&expected)), expected, "a second time changes nothing");
    }
}
