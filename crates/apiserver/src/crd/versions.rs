//! The order of API versions, as Kubernetes prefers them.

use std::cmp::{Ordering, Reverse};

/// Orders versions as discovery lists them: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, then what is no version, by name.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => Reverse(a).cmp(&Reverse(b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Stability (alpha 0, beta 1, stable 2), major and minor number.
fn parse(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(digits);
    let number = |text: &str| (!text.starts_with('0')).then(|| text.parse().ok()).flatten();
    let major = number(major)?;
    if rest.is_empty() {
        return Some((2, major, 0));
    }
    let (stability, minor) = match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
        (Some(minor), _) => (1, minor),
        (_, Some(minor)) => (0, minor),
        _ => return None,
    };
    Some((stability, major, number(minor)?))
}

#[cfg(test)]
mod tests {
    #[test]
    fn stable_versions_come_first_and_newer_ones_before_older() {
        let mut versions = ["foo1", "v1alpha1", "v2", "v1", "v1beta2", "v10", "v1beta1", "bar"];
        versions.sort_by(|a, b| super::compare(a, b));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "bar", "foo1"]
        );
    }
}
