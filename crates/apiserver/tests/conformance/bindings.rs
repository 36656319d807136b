//! What the placeholders of a scenario stand for on the server under test.
//!
//! The first answer that shows a placeholder binds it; from then on answers must agree with the value and requests send
//! it. A match either binds everything it saw or nothing.

use std::collections::BTreeMap;

use crate::template::{Part, Placeholder, fits, parts};

/// Kinds of which one value never stands for two placeholders.
const DISTINCT: [&str; 6] = ["uid", "rv", "name", "ip", "nodePort", "token"];
/// Kinds that accept any value each time and remember the latest for requests.
const LATEST: [&str; 2] = ["time", "microTime"];

#[derive(Debug, Default)]
pub(crate) struct Bindings {
    /// Label to value.
    values: BTreeMap<String, String>,
    /// Kind and value to the label that stands for it, for the kinds in [`DISTINCT`].
    owners: BTreeMap<(String, String), String>,
}

impl Bindings {
    /// Bindings that are known before the first answer.
    pub(crate) fn new(fixed: &[(&str, &str)]) -> Self {
        let values = fixed.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned()));
        Self { values: values.collect(), owners: BTreeMap::new() }
    }

    /// The text with the values of its placeholders; what is not bound stays as it is.
    pub(crate) fn expand(&self, text: &str) -> String {
        self.expand_with(text, str::to_owned)
    }

    /// As [`expand`](Self::expand), each value passed through `encode` for the place where it will stand.
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

    /// Compares an answered text with the recorded one and binds what is new.
    ///
    /// # Errors
    ///
    /// Says why they differ where that is not plain from the two texts, else nothing.
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
                continue; // `{{rv}}`: any value, each time another
            }
            self.values.insert(label.to_owned(), value.to_owned());
            if DISTINCT.contains(&kind) {
                self.owners.insert((kind.to_owned(), value.to_owned()), label.to_owned());
            }
        }
        Ok(())
    }

    /// Finds values for the placeholders so that the parts spell the text; the longest value that fits is taken.
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

    /// Whether a placeholder may take a value, beside those taken earlier in the same text.
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

    /// Neighbours in the recorded order of resource versions whose values fall here.
    pub(crate) fn disorder<'a>(&self, rising: &'a [String]) -> Vec<[(&'a str, u64); 2]> {
        let number = |label: &'a String| Some((label.as_str(), self.values.get(label)?.parse().ok()?));
        let bound: Vec<(&str, u64)> = rising.iter().filter_map(number).collect();
        let falls = |pair: &&[(&str, u64)]| pair[0].1 > pair[1].1;
        bound.windows(2).filter(falls).map(|pair| [pair[0], pair[1]]).collect()
    }
}
