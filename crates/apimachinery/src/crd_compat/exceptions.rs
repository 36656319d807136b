//! Exceptions: changes that a project allows, with the reason.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use super::{Change, Level, Rule};

/// A change that is allowed, with the reason.
///
/// ```
/// use kube_apimachinery::crd_compat::Exceptions;
/// use serde_json::json;
///
/// let allow = json!([
///     {"at": "guestbooks/v1 .spec.theme", "rule": "field-removed", "reason": "never released", "until": "0.4"},
/// ]);
/// let exceptions = Exceptions::parse(&allow)?;
/// # Ok::<(), kube_apimachinery::crd_compat::ExceptionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Exception {
    /// Definition, version and path of the change, such as `guestbooks/v1 .spec.theme`. The definition is named by its plural or its full
    /// name. A change of the whole definition has no version: `guestbooks spec.scope`.
    pub at: String,
    /// Name of the rule, such as `field-removed`.
    pub rule: String,
    /// Reason why no object and no client breaks.
    pub reason: String,
    /// First version of the program for which the change is an error again. Default: never.
    #[serde(default)]
    pub until: Option<String>,
}

/// Allowed changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exceptions(Vec<Exception>);

/// Changes, divided by [`Exceptions::judge`] into allowed and others.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Judgement {
    /// Changes that no exception allows, and those of which the exception has ended.
    pub changes: Vec<Change>,
    /// Changes that are allowed, each with the reason.
    pub allowed: Vec<(Change, String)>,
    /// Exceptions that allow no change, and can be removed.
    pub unused: Vec<Exception>,
}

/// Error of [`Exceptions::parse`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExceptionError(String);

impl fmt::Display for ExceptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ExceptionError {}

impl Exceptions {
    /// Reads a list of exceptions.
    ///
    /// # Errors
    ///
    /// Names the exception, if the value is not such a list, a rule is not known, or a reason is missing.
    pub fn parse(list: &Value) -> Result<Self, ExceptionError> {
        let exceptions: Vec<Exception> = Vec::deserialize(list).map_err(|error| {
            ExceptionError(format!("the list of allowed changes cannot be read: {error}"))
        })?;
        for Exception { at, rule, reason, until } in &exceptions {
            let refuse = |reason: String| Err(ExceptionError(format!("the exception at {at:?}: {reason}")));
            if let Err(unknown) = rule.parse::<Rule>() {
                return refuse(unknown);
            }
            if reason.trim().is_empty() {
                return refuse("give a reason".to_owned());
            }
            if at.split_once(' ').is_none() {
                return refuse("give definition and path, such as guestbooks/v1 .spec.theme".to_owned());
            }
            if until.as_deref().is_some_and(|until| numbers(until).is_none()) {
                return refuse("until is a version of the program, such as 0.4".to_owned());
            }
        }
        Ok(Self(exceptions))
    }

    /// Divides the changes of the program's version `version`, such as `0.3.1`, into allowed and others. If an exception has ended, its
    /// change counts as an error again, and its advice names the end and the reason.
    #[must_use]
    pub fn judge(&self, changes: Vec<Change>, version: &str) -> Judgement {
        let mut used = vec![false; self.0.len()];
        let (mut remaining, mut allowed) = (Vec::new(), Vec::new());
        for mut change in changes {
            let Some(index) = self.0.iter().position(|exception| exception.is_about(&change)) else {
                remaining.push(change);
                continue;
            };
            used[index] = true;
            let Exception { reason, until, .. } = &self.0[index];
            match until {
                Some(until) if change.level == Level::Error && has_come(until, version) => {
                    change.advice = format!("{}. It was allowed until {until} ({reason})", change.advice);
                    remaining.push(change);
                }
                _ => allowed.push((change, reason.clone())),
            }
        }
        let unused =
            self.0.iter().zip(used).filter(|(_, used)| !used).map(|(exception, _)| exception.clone());
        Judgement { changes: remaining, allowed, unused: unused.collect() }
    }
}

impl Exception {
    fn is_about(&self, change: &Change) -> bool {
        let Some((place, path)) = self.at.split_once(' ') else { return false };
        let (definition, version) = match place.split_once('/') {
            Some((definition, version)) => (definition, Some(version)),
            None => (place, None),
        };
        let plural = change.definition.split('.').next().unwrap_or_default();
        self.rule == change.rule.as_str()
            && path.trim() == change.path
            && (definition == change.definition || definition == plural)
            && version == change.version.as_deref()
    }
}

/// Whether `version` is at least `until`. A version that cannot be parsed counts as older.
fn has_come(until: &str, version: &str) -> bool {
    numbers(version) >= numbers(until) && numbers(version).is_some()
}

/// Parses the numbers of a version; a suffix such as `-rc.1` is ignored.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let release = version.trim_start_matches('v').split(['-', '+']).next()?;
    let mut numbers = [0; 3];
    let mut parts = release.split('.');
    for number in &mut numbers {
        match parts.next() {
            Some(part) => *number = part.parse().ok()?,
            None => break,
        }
    }
    parts.next().is_none().then_some(numbers)
}
