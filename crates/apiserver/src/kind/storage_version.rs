//! Hash and number of the storage version, and order of API versions: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, then all others by name.

use std::cmp::{Ordering, Reverse};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest, Sha256};

/// Returns the hash by which clients notice that the storage version changed.
pub(crate) fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    let digest = Sha256::digest(format!("{group}/{version}/{kind}"));
    BASE64.encode(&digest[..8])
}

/// Identifies the version of a stored object by a number.
pub(crate) fn version_number(name: &str) -> u64 {
    // FNV-1a; any function that distinguishes names is sufficient.
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Compares versions by preference: the preferred one is less.
pub(crate) fn version_order(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => Reverse(a).cmp(&Reverse(b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stability {
    Alpha,
    Beta,
    Stable,
}

/// Parses stability, major and minor number of `v1beta2`. A number with leading zeros is not a version.
fn parse(version: &str) -> Option<(Stability, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    for (name, stability) in [("alpha", Stability::Alpha), ("beta", Stability::Beta)] {
        if let Some((major, minor)) = rest.split_once(name) {
            return Some((stability, number(major)?, number(minor)?));
        }
    }
    Some((Stability::Stable, number(rest)?, 0))
}

fn number(text: &str) -> Option<u64> {
    let plain = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_and_new_versions_come_first() {
        let mut versions = [
            "v1alpha1",
            "foo10",
            "v11beta2",
            "v1",
            "v3beta1",
            "v12alpha1",
            "foo1",
            "v2",
            "v10",
            "v01",
            "v11alpha2",
        ];
        versions.sort_by(|a, b| version_order(a, b));
        assert_eq!(
            versions,
            [
                "v10",
                "v2",
                "v1",
                "v11beta2",
                "v3beta1",
                "v12alpha1",
                "v11alpha2",
                "v1alpha1",
                "foo1",
                "foo10",
                "v01",
            ]
        );
    }
}
