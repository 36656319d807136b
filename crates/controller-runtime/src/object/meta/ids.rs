//! Uids and versions in compact form.

use std::{cmp::Ordering, fmt};

use uuid::Uuid;

/// Unique identifier of an object. Another object with the same name has another uid.
///
/// ```
/// use controller_runtime::cache::Uid;
///
/// let uid = Uid::from("5c2d1f0a-3f5e-4d8e-9d7c-2b1f0a9e8d7c");
/// assert!(uid == *"5c2d1f0a-3f5e-4d8e-9d7c-2b1f0a9e8d7c");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(UidForm);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum UidForm {
    /// The form that API servers create: a UUID in lower case with hyphens.
    Uuid(Uuid),
    Text(Box<str>),
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        let uuid = Uuid::try_parse(text)
            .ok()
            .filter(|uuid| uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == text);
        Self(uuid.map_or_else(|| UidForm::Text(text.into()), UidForm::Uuid))
    }
}

impl PartialEq<str> for Uid {
    fn eq(&self, other: &str) -> bool {
        match &self.0 {
            UidForm::Uuid(uuid) => uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == other,
            UidForm::Text(text) => **text == *other,
        }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            UidForm::Uuid(uuid) => fmt::Display::fmt(&uuid.hyphenated(), f),
            UidForm::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Version of an object's state.
///
/// Versions that are numbers are ordered within one resource: Kubernetes guarantees that since 1.35
/// ([KEP-5504](https://github.com/kubernetes/enhancements/issues/5504)), and etcd has always created them so. Others
/// can only be compared for equality.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ResourceVersion(VersionForm);

#[derive(Clone, PartialEq, Eq, Hash)]
enum VersionForm {
    /// A decimal number without leading zeros.
    Number(u64),
    Text(Box<str>),
}

impl ResourceVersion {
    /// The version as a number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        match self.0 {
            VersionForm::Number(number) => Some(number),
            VersionForm::Text(_) => None,
        }
    }
}

impl From<&str> for ResourceVersion {
    fn from(text: &str) -> Self {
        let canonical = !text.starts_with(['0', '+']) || text == "0";
        let number = text.parse().ok().filter(|_| canonical);
        Self(number.map_or_else(|| VersionForm::Text(text.into()), VersionForm::Number))
    }
}

impl PartialOrd for ResourceVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self.number(), other.number()) {
            (Some(one), Some(other)) => Some(one.cmp(&other)),
            _ => (self == other).then_some(Ordering::Equal),
        }
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            VersionForm::Number(number) => fmt::Display::fmt(number, f),
            VersionForm::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UUID: &str = "5c2d1f0a-3f5e-4d8e-9d7c-2b1f0a9e8d7c";

    #[test]
    fn uids_are_equal_if_their_texts_are() {
        let upper = UUID.to_uppercase();
        for text in [UUID, &upper, &UUID.replace('-', ""), "", "web"] {
            let uid = Uid::from(text);
            assert_eq!(uid.to_string(), text);
            assert!(uid == *text);
            assert_eq!(uid == *UUID, text == UUID);
        }
        assert_ne!(Uid::from(UUID), Uid::from(&*upper));
    }

    #[test]
    fn versions_that_are_numbers_are_ordered() {
        let version = |text: &str| ResourceVersion::from(text);
        assert!(version("9") < version("10"));
        assert!(version("0") < version("1"));
        assert_eq!(version("9").partial_cmp(&version("x")), None);
        assert_eq!(version("x").partial_cmp(&version("x")), Some(Ordering::Equal));
        assert_ne!(version("07"), version("7"));
    }

    proptest! {
        #[test]
        fn a_uid_or_version_keeps_its_text(text in "[0-9+a-f-]{0,40}") {
            prop_assert_eq!(Uid::from(&*text).to_string(), text.clone());
            prop_assert_eq!(ResourceVersion::from(&*text).to_string(), text);
        }
    }
}
