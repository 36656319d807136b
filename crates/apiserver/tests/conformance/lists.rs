//! Lists of the scenarios that must pass, and of deferred ones with the feature that they need.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The two lists in this folder. Each scenario is in one of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Lists {
    /// `passing.txt`: one name per line. It only grows.
    pub(crate) passing: BTreeSet<String>,
    /// `deferred.txt`: one `name: missing feature` per line.
    pub(crate) deferred: BTreeMap<String, String>,
}

/// Expected result of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expectation<'a> {
    Passes,
    /// Deferred: it needs a feature that the server lacks.
    Deferred(&'a str),
    /// In neither list, which is an error: its result would go unnoticed.
    Unlisted,
}

impl Lists {
    /// Reads both lists.
    ///
    /// # Errors
    ///
    /// The list that cannot be read, or the line with an unknown scenario, one of the other list, or no reason.
    pub(crate) fn load(folder: &Path, is_scenario: impl Fn(&str) -> bool) -> Result<Self, String> {
        let read = |name: &str| {
            let file = folder.join(name);
            std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))
        };
        Self::parse(&read("passing.txt")?, &read("deferred.txt")?, is_scenario)
    }

    /// Like [`load`](Self::load), from the texts of the lists.
    pub(crate) fn parse(
        passing: &str,
        deferred: &str,
        is_scenario: impl Fn(&str) -> bool,
    ) -> Result<Self, String> {
        let mut lists = Self::default();
        for line in lines(deferred) {
            let named = line.split_once(": ").filter(|(_, reason)| !reason.trim().is_empty());
            let Some((name, reason)) = named else {
                return Err(format!("deferred.txt: `{line}` gives no reason"));
            };
            lists.deferred.insert(name.to_owned(), reason.to_owned());
        }
        for name in lines(passing) {
            if lists.deferred.contains_key(name) {
                return Err(format!("passing.txt: {name} is in deferred.txt too"));
            }
            lists.passing.insert(name.to_owned());
        }
        match lists.passing.iter().chain(lists.deferred.keys()).find(|name| !is_scenario(name)) {
            Some(name) => Err(format!("passing.txt or deferred.txt: there is no scenario {name}")),
            None => Ok(lists),
        }
    }

    pub(crate) fn expectation(&self, name: &str) -> Expectation<'_> {
        match self.deferred.get(name) {
            Some(reason) => Expectation::Deferred(reason),
            None if self.passing.contains(name) => Expectation::Passes,
            None => Expectation::Unlisted,
        }
    }

    /// Adds scenarios to `passing.txt` and removes them from the other list.
    ///
    /// # Errors
    ///
    /// The list that cannot be written.
    pub(crate) fn require(mut self, names: Vec<String>, folder: &Path) -> Result<(), String> {
        for name in names {
            self.deferred.remove(&name);
            self.passing.insert(name);
        }
        let write = |name: &str, head: &str, lines: Vec<String>| {
            let file = folder.join(name);
            let text = [vec![head.to_owned()], lines].concat().join("\n") + "\n";
            std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
        };
        write(
            "passing.txt",
            "# Scenarios that must pass. Only lines are added: UPDATE_PASSING=1 adds those that have come to pass.",
            self.passing.into_iter().collect(),
        )?;
        write(
            "deferred.txt",
            "# Scenarios that wait for a later issue, and what they need.",
            self.deferred.into_iter().map(|(name, reason)| format!("{name}: {reason}")).collect(),
        )
    }
}

/// Iterates over lines, without comments and empty lines.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}
