//! Differences between the rules of roles: by resource and verb, because equal rights can be written in several ways.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::FileChange;

/// A resource or URL of a rule: group, resource and name, or the URL alone.
type Subject = (Option<String>, String, Option<String>);

/// Collects the verbs that one of the lists of rules lacks.
pub(super) fn compare(found: &mut Vec<(String, FileChange)>, file: &Value, rendered: &Value) {
    let (was, is) = (verbs(file), verbs(rendered));
    let mut add = |left: &BTreeMap<Subject, BTreeSet<String>>,
                   right: &BTreeMap<Subject, BTreeSet<String>>,
                   change: fn(Value) -> FileChange| {
        for (subject, verbs) in left {
            let others = right.get(subject);
            let missing: Vec<&String> =
                verbs.iter().filter(|verb| others.is_none_or(|others| !others.contains(*verb))).collect();
            if !missing.is_empty() {
                found.push((".rules[]".to_owned(), change(rule(subject, &missing))));
            }
        }
    };
    add(&is, &was, FileChange::Lacks);
    add(&was, &is, FileChange::Has);
}

/// Verbs by subject.
fn verbs(rules: &Value) -> BTreeMap<Subject, BTreeSet<String>> {
    let texts = |list: &Value| -> Vec<String> {
        let items = list.as_array().map_or(&[][..], Vec::as_slice);
        items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
    };
    let mut all: BTreeMap<Subject, BTreeSet<String>> = BTreeMap::new();
    for rule in rules.as_array().map_or(&[][..], Vec::as_slice) {
        let verbs = texts(&rule["verbs"]);
        let mut add = |subject: Subject| all.entry(subject).or_default().extend(verbs.iter().cloned());
        for url in texts(&rule["nonResourceURLs"]) {
            add((None, url, None));
        }
        let names: Vec<Option<String>> = match texts(&rule["resourceNames"]) {
            names if names.is_empty() => vec![None],
            names => names.into_iter().map(Some).collect(),
        };
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for name in &names {
                    add((Some(group.clone()), resource.clone(), name.clone()));
                }
            }
        }
    }
    all
}

/// A rule with these verbs.
fn rule((group, target, name): &Subject, verbs: &[&String]) -> Value {
    match (group, name) {
        (None, _) => json!({ "nonResourceURLs": [target], "verbs": verbs }),
        (Some(group), None) => json!({ "apiGroups": [group], "resources": [target], "verbs": verbs }),
        (Some(group), Some(name)) => {
            json!({ "apiGroups": [group], "resources": [target], "resourceNames": [name], "verbs": verbs })
        }
    }
}
