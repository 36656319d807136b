//! Pod security policy of a namespace, which its labels define: the level of each mode.

use std::fmt;

use kube_apimachinery::go;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

const PREFIX: &str = "pod-security.kubernetes.io/";

/// Level of a pod security standard. A later one is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// Version of the standards: that of a minor release of Kubernetes 1, or the latest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StandardVersion {
    Minor(u64),
    Latest,
}

/// A standard that pods must meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standard {
    pub(super) level: Level,
    pub(super) version: StandardVersion,
}

/// Standards of a namespace by mode. Violations of `audit` would only be recorded in an audit log, which has no field for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PodSecurityPolicy {
    pub(super) enforce: Standard,
    pub(super) audit: Standard,
    pub(super) warn: Standard,
}

impl PodSecurityPolicy {
    /// Policy of a namespace without labels.
    const DEFAULT: Self =
        Self { enforce: Standard::PRIVILEGED, audit: Standard::PRIVILEGED, warn: Standard::PRIVILEGED };

    /// Reads the policy from the labels of a namespace. Labels with invalid values are also returned as errors; their level is the
    /// strictest for `enforce`, and none for the other modes.
    pub(super) fn of(namespace: &Value) -> (Self, Vec<FieldError>) {
        let labels = Labels(&namespace["metadata"]["labels"]);
        let mut policy = Self::DEFAULT;
        let mut errors = Vec::new();
        let enforced = labels.level("enforce", &mut errors);
        if let Some(level) = enforced {
            policy.enforce.level = level.unwrap_or(Level::Restricted);
        }
        policy.enforce.version =
            labels.version("enforce-version", &mut errors).unwrap_or(StandardVersion::Latest);
        if let Some(level) = labels.level("audit", &mut errors) {
            policy.audit.level = level.unwrap_or(Level::Privileged);
        }
        policy.audit.version =
            labels.version("audit-version", &mut errors).unwrap_or(StandardVersion::Latest);
        let warned = labels.level("warn", &mut errors);
        if let Some(level) = warned {
            policy.warn.level = level.unwrap_or(Level::Privileged);
        }
        let warn_version = labels.version("warn-version", &mut errors);
        policy.warn.version = warn_version.unwrap_or(StandardVersion::Latest);
        // An enforced standard also warns, for workloads, unless the namespace has a level for warnings.
        if let (None, Some(Some(level))) = (warned, enforced)
            && level > policy.warn.level
        {
            policy.warn.level = level;
            if warn_version.is_none() {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, errors)
    }
}

impl Standard {
    const PRIVILEGED: Self = Self { level: Level::Privileged, version: StandardVersion::Latest };
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        })
    }
}

impl fmt::Display for StandardVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Minor(minor) => write!(f, "v1.{minor}"),
            Self::Latest => f.write_str("latest"),
        }
    }
}

/// Formats a standard, such as `restricted:latest`.
impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level, self.version)
    }
}

/// Labels of a namespace.
struct Labels<'a>(&'a Value);

impl Labels<'_> {
    /// Returns the level of a label, `Some(None)` if it is invalid.
    fn level(&self, name: &str, errors: &mut Vec<FieldError>) -> Option<Option<Level>> {
        self.read(name, errors, "must be one of privileged, baseline, restricted", |text| {
            [Level::Privileged, Level::Baseline, Level::Restricted]
                .into_iter()
                .find(|level| level.to_string() == text)
        })
    }

    /// Returns the version of a label; an invalid one counts as the latest.
    fn version(&self, name: &str, errors: &mut Vec<FieldError>) -> Option<StandardVersion> {
        let version = self.read(name, errors, "must be \"latest\" or \"v1.x\"", version);
        version.map(|version| version.unwrap_or(StandardVersion::Latest))
    }

    fn read<T>(
        &self,
        name: &str,
        errors: &mut Vec<FieldError>,
        why: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<Option<T>> {
        let label = format!("{PREFIX}{name}");
        let text = self.0[&label].as_str()?;
        let value = parse(text);
        if value.is_none() {
            errors.push(FieldError::invalid(format!("metadata.labels[{label}]"), &go::quote(text), why));
        }
        Some(value)
    }
}

fn version(text: &str) -> Option<StandardVersion> {
    if text == "latest" {
        return Some(StandardVersion::Latest);
    }
    let minor = text.strip_prefix("v1.")?;
    let is_number =
        minor.bytes().all(|byte| byte.is_ascii_digit()) && (minor.len() == 1 || !minor.starts_with('0'));
    // Go parses the version as an `int`, so larger numbers are invalid.
    let minor: i64 = minor.parse().ok().filter(|_| is_number)?;
    u64::try_from(minor).ok().map(StandardVersion::Minor)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Policy of a namespace with these labels, by mode, and its errors.
    fn read(labels: &[(&str, &str)]) -> (String, Vec<String>) {
        let labels: Value =
            labels.iter().map(|(name, value)| (format!("{PREFIX}{name}"), Value::from(*value))).collect();
        let (policy, errors) = PodSecurityPolicy::of(&json!({"metadata": {"labels": labels}}));
        let shown = format!("{} {} {}", policy.enforce, policy.audit, policy.warn);
        (shown, errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn labels_set_the_level_of_each_mode() {
        for (labels, expected) in [
            (&[][..], "privileged:latest privileged:latest privileged:latest"),
            (&[("enforce", "baseline")], "baseline:latest privileged:latest baseline:latest"),
            (
                &[("enforce", "restricted"), ("enforce-version", "v1.24")],
                "restricted:v1.24 privileged:latest restricted:v1.24",
            ),
            (
                &[("enforce", "restricted"), ("enforce-version", "v1.24"), ("warn-version", "v1.30")],
                "restricted:v1.24 privileged:latest restricted:v1.30",
            ),
            (
                &[("enforce", "restricted"), ("warn", "baseline"), ("audit", "restricted")],
                "restricted:latest restricted:latest baseline:latest",
            ),
            (&[("warn", "restricted")], "privileged:latest privileged:latest restricted:latest"),
            (&[("enforce-version", "v1.3")], "privileged:v1.3 privileged:latest privileged:latest"),
        ] {
            assert_eq!(read(labels), (expected.to_owned(), vec![]), "{labels:?}");
        }
    }

    /// Messages of kube-apiserver v1.36.3.
    #[test]
    fn invalid_labels_are_errors() {
        let (policy, errors) = read(&[
            ("enforce", "bad"),
            ("enforce-version", "v1.99x"),
            ("audit", ""),
            ("audit-version", "v1.05"),
            ("warn", "Baseline"),
            ("warn-version", "v2.0"),
        ]);
        assert_eq!(policy, "restricted:latest privileged:latest privileged:latest");
        let level = "must be one of privileged, baseline, restricted";
        let version = "must be \"latest\" or \"v1.x\"";
        assert_eq!(
            errors,
            [
                format!("metadata.labels[{PREFIX}enforce]: Invalid value: \"bad\": {level}"),
                format!("metadata.labels[{PREFIX}enforce-version]: Invalid value: \"v1.99x\": {version}"),
                format!("metadata.labels[{PREFIX}audit]: Invalid value: \"\": {level}"),
                format!("metadata.labels[{PREFIX}audit-version]: Invalid value: \"v1.05\": {version}"),
                format!("metadata.labels[{PREFIX}warn]: Invalid value: \"Baseline\": {level}"),
                format!("metadata.labels[{PREFIX}warn-version]: Invalid value: \"v2.0\": {version}"),
            ]
        );
    }
}
