//! Semantic versions, with the messages of the Go package `blang/semver`.

use std::cmp::Ordering;
use std::rc::Rc;

use semver::{BuildMetadata, Prerelease, Version};

use super::evaluation_error::failed;
use super::functions::{Evaluated, no_overload_of};
use super::value::Val;
use crate::go;

/// A semantic version.
#[derive(Debug, Clone)]
pub(super) struct SemanticVersion(Version);

impl SemanticVersion {
    /// Compares versions; build metadata do not count.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        self.0.cmp_precedence(&other.0)
    }

    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (major, minor) = (number(major, "Major")?, number(minor, "Minor")?);
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (rest, None),
        };
        let (patch, prerelease) = match rest.split_once('-') {
            Some((patch, prerelease)) => (patch, Some(prerelease)),
            None => (rest, None),
        };
        let patch = number(patch, "Patch")?;
        for part in prerelease.into_iter().flat_map(|prerelease| prerelease.split('.')) {
            check_prerelease(part)?;
        }
        for part in build.into_iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !is_identifier(part) {
                return Err(format!("Invalid character(s) found in build meta data {}", go::quote(part)));
            }
        }
        let invalid = |error: semver::Error| error.to_string();
        Ok(Self(Version {
            major,
            minor,
            patch,
            pre: Prerelease::new(prerelease.unwrap_or_default()).map_err(invalid)?,
            build: BuildMetadata::new(build.unwrap_or_default()).map_err(invalid)?,
        }))
    }

    /// Parses a version after adding missing numbers and removing a leading `v` and leading zeros.
    fn parse_normalized(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err("short version cannot contain PreRelease/Build meta data".to_owned());
        }
        parts.resize(3, "0".to_owned());
        Self::parse(&parts.join("."))
    }
}

/// Removes the zeros before a number. At least one digit stays.
fn without_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let trimmed = part.trim_start_matches('0');
    if trimmed.starts_with(|first: char| first.is_ascii_digit()) {
        trimmed.to_owned()
    } else {
        format!("0{trimmed}")
    }
}

fn number(text: &str, name: &str) -> Result<u64, String> {
    let quoted = go::quote(text);
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {} number {quoted}", name.to_lowercase()));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{name} number must not contain leading zeroes {quoted}"));
    }
    text.parse().map_err(|_| out_of_range(text))
}

/// Builds Go's error for digits that are not a 64-bit number.
fn out_of_range(text: &str) -> String {
    let why = if text.is_empty() { "invalid syntax" } else { "value out of range" };
    format!("strconv.ParseUint: parsing {}: {why}", go::quote(text))
}

fn is_identifier(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn check_prerelease(part: &str) -> Result<(), String> {
    if part.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    let quoted = go::quote(part);
    if part.bytes().all(|byte| byte.is_ascii_digit()) {
        if part.len() > 1 && part.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {quoted}"));
        }
        return part.parse::<u64>().map(|_| ()).map_err(|_| out_of_range(part));
    }
    if is_identifier(part) {
        return Ok(());
    }
    Err(format!("Invalid character(s) found in prerelease {quoted}"))
}

/// Calls a function without a target; `None` if it is not a function of versions.
pub(super) fn global<'a>(function: &str, arguments: &[Val<'a>]) -> Option<Evaluated<'a>> {
    if !matches!(function, "semver" | "isSemver") {
        return None;
    }
    let parsed = match arguments {
        [Val::String(text)] | [Val::String(text), Val::Bool(false)] => SemanticVersion::parse(text),
        [Val::String(text), Val::Bool(true)] => SemanticVersion::parse_normalized(text),
        other => return Some(Err(no_overload_of(function, other))),
    };
    if function == "isSemver" {
        return Some(Ok(Val::Bool(parsed.is_ok())));
    }
    Some(parsed.map(|version| Val::Semver(Rc::new(version))).map_err(failed))
}

/// Calls a function of a version; `None` if there is no such function for the arguments.
pub(super) fn member<'a>(
    function: &str,
    target: &SemanticVersion,
    arguments: &[Val<'a>],
) -> Option<Evaluated<'a>> {
    // Go converts the unsigned numbers without a check.
    let part = |number: u64| Val::Int(number.cast_signed());
    Some(Ok(match (function, arguments) {
        ("major", []) => part(target.0.major),
        ("minor", []) => part(target.0.minor),
        ("patch", []) => part(target.0.patch),
        ("isGreaterThan", [Val::Semver(other)]) => Val::Bool(target.compare(other).is_gt()),
        ("isLessThan", [Val::Semver(other)]) => Val::Bool(target.compare(other).is_lt()),
        ("compareTo", [Val::Semver(other)]) => Val::Int(target.compare(other) as i64),
        _ => return None,
    }))
}
