//! Values of a scenario's placeholders on the server under test.
//!
//! The first response that contains a placeholder binds it. From then on responses must have its value, and requests
//! send it. A match binds either all placeholders in it or none.

use std::collections::BTreeMap;

use crate::template::{Part, Placeholder, fits, parts};

/// Kinds of placeholders that never share a value.
const DISTINCT: [&str; 6] = ["uid", "rv", "name", "ip", "nodePort", "token"];
/// Kinds that accept any value each time; requests send the latest one.
const LATEST: [&str; 2] = ["time", "microTime"];

#[derive(Debug, Default)]
pub(crate) struct Bindings {
    /// Values by label.
    values: BTreeMap<String, String>,
    /// Labels by kind and value, for the kinds in [`DISTINCT`].
    owners: BTreeMap<(String, String), String>,
}

impl Bindings {
    /// Creates bindings that are known before the first response.
    pub(crate) fn new(fixed: &[(&str, &str)]) -> Self {
        let values = fixed.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned()));
        Self { values: values.collect(), owners: BTreeMap::new() }
    }

    /// Binds a placeholder to a value that no response shows first.
    pub(crate) fn bind(&mut self, label: &str, value: &str) {
        self.values.insert(label.to_owned(), value.to_owned());
    }

    /// Replaces the placeholders in a text by their values; unbound ones stay.
    pub(crate) fn expand(&self, text: &str) -> String {
        self.expand_with(text, str::to_owned)
    }

    /// Like [`expand`](Self::expand), with each value encoded for its place by `encode`.
    pub(crate) fn expand_with(&self, text: &str, encode: impl Fn(&str) -> String) -> String {
        parts(text)
            .into_iter()
            .map(|part| match part {
                Part::Literal(literal) => literal.to_owned(),
                Part::Placeholder(Placeholder { label, .. }) => match self.values.get(label) {
                    Some(value) => encode(value),
                    None => format!("{{{{{label}}}}}"),
                },
            })
            .collect()
    }

    /// Compares a text in a response with the recorded one, and binds new placeholders.
    ///
    /// # Errors
    ///
    /// The reason for a difference, if the two texts do not show it; otherwise an empty text.
    pub(crate) fn agree(&mut self, expected: &str, actual: &str) -> Result<(), String> {
        let mut captured = Vec::new();
        if !self.solve(&parts(expected), actual, &mut captured) {
            return Err(String::new());
        }
        for (index, (placeholder, value)) in captured.iter().enumerate() {
            self.check(*placeholder, value, &captured[..index])?;
        }
        for (Placeholder { kind, label }, value) in captured {
            if label == kind {
                continue; // `{{rv}}` without an id accepts a new value each time
            }
            self.values.insert(label.to_owned(), value.to_owned());
            if DISTINCT.contains(&kind) {
                self.owners.insert((kind.to_owned(), value.to_owned()), label.to_owned());
            }
        }
        Ok(())
    }

    /// Finds values for the placeholders so that the parts spell the text, preferring long values.
    fn solve<'a>(
        &self,
        parts: &[Part<'a>],
        text: &'a str,
        captured: &mut Vec<(Placeholder<'a>, &'a str)>,
    ) -> bool {
        let Some((first, rest)) = parts.split_first() else {
            return text.is_empty();
        };
        let placeholder = match first {
            Part::Literal(literal) => {
                return text.strip_prefix(literal).is_some_and(|text| self.solve(rest, text, captured));
            }
            Part::Placeholder(placeholder) => *placeholder,
        };
        if let Some(value) = self.values.get(placeholder.label)
            && !LATEST.contains(&placeholder.kind)
        {
            return text.strip_prefix(value.as_str()).is_some_and(|text| self.solve(rest, text, captured));
        }
        let ends = text.char_indices().map(|(at, _)| at).skip(1).chain([text.len()]);
        for end in ends.collect::<Vec<_>>().into_iter().rev() {
            if fits(placeholder.kind, &text[..end]) == Some(true) {
                captured.push((placeholder, &text[..end]));
                if self.solve(rest, &text[end..], captured) {
                    return true;
                }
                captured.pop();
            }
        }
        false
    }

    /// Whether a placeholder may take a value, given the values taken earlier in the text.
    fn check(
        &self,
        Placeholder { kind, label }: Placeholder<'_>,
        value: &str,
        earlier: &[(Placeholder<'_>, &str)],
    ) -> Result<(), String> {
        if label == kind {
            return Ok(());
        }
        for (other, taken) in earlier {
            if other.label == label && *taken != value && !LATEST.contains(&kind) {
                return Err(format!("{{{{{label}}}}} twice in one text, as {taken} and {value}"));
            }
            if other.kind == kind && other.label != label && *taken == value && DISTINCT.contains(&kind) {
                return Err(format!("this value is already {{{{{}}}}}", other.label));
            }
        }
        match self.owners.get(&(kind.to_owned(), value.to_owned())) {
            Some(owner) if owner != label => Err(format!("this value is already {{{{{owner}}}}}")),
            _ => Ok(()),
        }
    }

    /// Returns neighbours in the recorded order of resource versions with values that decrease here.
    pub(crate) fn disorder<'a>(&self, rising: &'a [String]) -> Vec<[(&'a str, u64); 2]> {
        let number = |label: &'a String| Some((label.as_str(), self.values.get(label)?.parse().ok()?));
        let bound: Vec<(&str, u64)> = rising.iter().filter_map(number).collect();
        let falls = |pair: &&[(&str, u64)]| pair[0].1 > pair[1].1;
        bound.windows(2).filter(falls).map(|pair| [pair[0], pair[1]]).collect()
    }
}
