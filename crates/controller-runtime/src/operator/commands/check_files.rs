//! `manifests --check`: differences between the program and its files, and changes of definitions that break objects or clients.

use std::{
    fmt::Write,
    io::{self, Read},
    path::{Path, PathBuf},
};

use kube_apimachinery::crd_compat::{self, Change, Judgement, Level};
use serde_json::{Value, json};

use super::{CommandOutput, answer, files, folder, program, rbac_command::place};
use crate::{
    manifests::{Difference, FileChange, Files, Layout, Program, differences, objects_of, risks},
    operator::{
        CommandError, Operator,
        arguments::{ManifestArguments, OutputFormat},
    },
    rights::{Declarations, Target},
};

/// Folder of the files that are compared, if the command line names none.
const FOLDER: &str = "deploy";

/// A file that differs from the one that the program renders.
struct FileDifference {
    path: PathBuf,
    /// Differences of objects; empty if the file is not a list of objects.
    differences: Vec<Difference>,
    is_missing: bool,
}

/// Compares the program with its files and with the definitions of the last release.
pub(super) fn check(
    operator: &Operator,
    arguments: &ManifestArguments,
) -> Result<CommandOutput, CommandError> {
    let folder = arguments.out.clone().unwrap_or_else(|| FOLDER.into());
    let program = program(operator, arguments, None)?;
    let rendered = program.render(&arguments.parameters())?.only(arguments.parts());
    let files = files(operator, arguments)?;
    let different = different_files(&folder, &files, arguments.layout)?;

    let baseline = match &arguments.baseline {
        Some(file) => objects(file, &read_baseline(file)?)?,
        None => objects_in(&folder, &files)?,
    };
    let definitions: Vec<Value> = rendered.objects().iter().map(|object| object.value().clone()).collect();
    let mut changes = crd_compat::compare_all(&baseline, &definitions);
    changes.retain(|change| change.level != Level::Style || arguments.lint);
    let exceptions = arguments.allow.clone().unwrap_or_default();
    let judgement = exceptions.judge(changes, operator.version);

    let report = Report { operator, program: &program, folder: &folder, different, judgement };
    let differs = report.differs();
    let text = match arguments.output.format {
        OutputFormat::Text => report.text(),
        OutputFormat::Json => report.json(),
    };
    Ok(CommandOutput { text, differs })
}

/// Files of the program on disk that differ from the rendered ones.
fn different_files(
    folder: &Path,
    files: &Files,
    layout: Layout,
) -> Result<Vec<FileDifference>, CommandError> {
    let mut different = Vec::new();
    for (name, file) in &files.files {
        let path = folder.join(name);
        let existing = folder::read(&path)?;
        let Some(text) = &existing else {
            different.push(FileDifference { path, differences: Vec::new(), is_missing: true });
            continue;
        };
        // Rendering would not change the file, either because it is equal or because it belongs to the user.
        if file.over(Some(text)) == *text {
            continue;
        }
        // Templates are not YAML, so their objects cannot be compared.
        if layout == Layout::Helm {
            different.push(FileDifference { path, differences: Vec::new(), is_missing: false });
            continue;
        }
        // Comments and the order of fields do not count as differences.
        let differences = differences(&objects(&path, &file.text)?, &objects(&path, text)?);
        if !differences.is_empty() {
            different.push(FileDifference { path, differences, is_missing: false });
        }
    }
    for path in folder::stale(folder, files)? {
        different.push(FileDifference { path, differences: Vec::new(), is_missing: false });
    }
    Ok(different)
}

fn read_baseline(file: &Path) -> Result<String, CommandError> {
    if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map_err(|error| CommandError::file("read", file, &error))?;
        return Ok(text);
    }
    folder::read(file)?
        .ok_or_else(|| CommandError::failed(format!("the baseline {} does not exist", file.display())))
}

fn objects(file: &Path, text: &str) -> Result<Vec<Value>, CommandError> {
    objects_of(text).map_err(|error| CommandError::failed(format!("{}: {error}", file.display())))
}

/// Objects of the program's files on disk. Templates of a chart are not YAML.
fn objects_in(folder: &Path, files: &Files) -> Result<Vec<Value>, CommandError> {
    let mut all = Vec::new();
    for name in files.files.keys().filter(|_| files.generated.is_none()) {
        let path = folder.join(name);
        if let Some(text) = folder::read(&path)? {
            all.extend(objects(&path, &text)?);
        }
    }
    Ok(all)
}

/// Result of a check.
struct Report<'r> {
    operator: &'r Operator,
    program: &'r Program,
    folder: &'r Path,
    different: Vec<FileDifference>,
    judgement: Judgement,
}

impl Report<'_> {
    fn differs(&self) -> bool {
        !self.different.is_empty() || self.judgement.changes.iter().any(|change| change.level == Level::Error)
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for FileDifference { path, differences, is_missing } in &self.different {
            let path = path.display();
            let fact = if *is_missing { "does not exist" } else { "differs from the output of the program" };
            line(&mut text, format_args!("error: {path} {fact}"));
            for difference in differences {
                let places = self.places(difference);
                let registered = if places.is_empty() {
                    String::new()
                } else {
                    format!("   registered at {}", places.join(", "))
                };
                line(&mut text, format_args!("  {difference}{registered}"));
            }
        }
        for change in &self.judgement.changes {
            match change.level {
                Level::Error => {
                    let where_to = "or allow it in Cargo.toml with a reason";
                    line(&mut text, format_args!("error: {change}, {where_to}{}", self.place_of(change)));
                }
                Level::Warning => line(&mut text, format_args!("warning: {change}{}", self.place_of(change))),
                Level::Style => line(&mut text, format_args!("note: {change}{}", self.place_of(change))),
            }
        }
        for (change, reason) in &self.judgement.allowed {
            line(
                &mut text,
                format_args!("allowed: {} {} ({}): {reason}", change.path, change.fact, change.rule),
            );
        }
        for exception in &self.judgement.unused {
            line(
                &mut text,
                format_args!("warning: the exception at {:?} matches no change: remove it", exception.at),
            );
        }
        for risk in risks(self.program.declarations()) {
            line(&mut text, format_args!("warning: {risk}"));
        }
        if !self.different.is_empty() {
            line(
                &mut text,
                format_args!(
                    "hint: the same command with --out {} instead of --check writes the files",
                    self.folder.display()
                ),
            );
        }
        text
    }

    fn json(&self) -> String {
        let files = self.different.iter().map(|FileDifference { path, differences, is_missing }| {
            let differences = differences.iter().map(|difference| {
                json!({
                    "kind": difference.kind, "name": difference.name, "path": difference.path,
                    "text": difference.to_string(), "places": self.places(difference),
                })
            });
            json!({
                "file": path, "missing": is_missing, "differences": differences.collect::<Vec<_>>(),
            })
        });
        let change = |change: &Change| {
            json!({
                "level": match change.level {
                    Level::Error => "error",
                    Level::Warning => "warning",
                    Level::Style => "style",
                },
                "rule": change.rule.as_str(), "definition": change.definition, "version": change.version,
                "path": change.path, "text": change.to_string(),
            })
        };
        let allowed = self.judgement.allowed.iter().map(|(allowed, reason)| {
            let mut value = change(allowed);
            value["reason"] = json!(reason);
            value
        });
        let unused: Vec<&str> = self.judgement.unused.iter().map(|exception| &*exception.at).collect();
        let risks = risks(self.program.declarations());
        answer([
            ("files", files.collect()),
            ("changes", self.judgement.changes.iter().map(change).collect()),
            ("allowed", allowed.collect()),
            ("unused", json!(unused)),
            ("risks", risks.iter().map(|risk| Value::from(risk.to_string())).collect()),
        ])
    }

    /// Lines of the program from which a part of the manifests follows.
    fn places(&self, difference: &Difference) -> Vec<String> {
        match (&*difference.kind, &difference.change) {
            ("CustomResourceDefinition", _) => self.definition_places(&difference.name),
            ("ClusterRole" | "Role", FileChange::Lacks(rule)) => {
                rule_places(self.program.declarations(), rule)
            }
            _ => Vec::new(),
        }
    }

    fn definition_places(&self, name: &str) -> Vec<String> {
        let definitions = self.operator.definitions.iter().zip(&self.operator.definition_places);
        let of_name = definitions.filter(|(definition, _)| definition.metadata.name.as_deref() == Some(name));
        of_name.map(|(_, added)| place(added)).collect()
    }

    fn place_of(&self, change: &Change) -> String {
        let places = self.definition_places(&change.definition);
        if places.is_empty() { String::new() } else { format!("   registered at {}", places.join(", ")) }
    }
}

/// Lines that need a rule of one resource or URL.
fn rule_places(declarations: &Declarations, rule: &Value) -> Vec<String> {
    let needs = |target: &Target| match target {
        Target::Url(path) => rule["nonResourceURLs"][0] == **path,
        Target::Objects { group, resource, subresource, .. } => {
            let slash = if subresource.is_empty() { "" } else { "/" };
            rule["apiGroups"][0] == **group
                && rule["resources"][0] == *format!("{resource}{slash}{subresource}")
        }
    };
    let has_verb =
        |verb: &str| rule["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|has| has == verb));
    let mut places: Vec<String> = Vec::new();
    for declaration in declarations {
        let right = &declaration.right;
        if needs(&right.target) && right.verbs.iter().any(|verb| has_verb(verb)) {
            let place = place(declaration.place);
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }
    places
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing into a String cannot fail.
    let _ = writeln!(text, "{arguments}");
}
