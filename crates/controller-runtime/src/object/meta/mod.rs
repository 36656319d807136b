//! Metadata that the cache stores decoded for every object.
//!
//! A [`Meta`] is compact, because there is one for each cached object: uids and versions take 16 and 8 bytes instead
//! of their text, and values that many objects share (namespaces, whole label sets, owner references) are stored once
//! per informer.

mod ids;
mod intern;
mod packed;
mod raw;

use std::{fmt, num::NonZeroI64, sync::Arc};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

pub use self::ids::{ResourceVersion, Uid};
pub(crate) use self::{intern::Interner, raw::RawMeta};
use self::{packed::Packed, raw::Fingerprint};

/// Metadata of an object, for predicates, handlers and indexes. Reading them does not decode the object.
///
/// Annotations are not included, because they are often large and rarely read. Decode the object to read them.
#[derive(Clone)]
pub struct Meta {
    namespace: Option<Arc<str>>,
    name: Arc<str>,
    uid: Option<Uid>,
    resource_version: Option<ResourceVersion>,
    /// Zero if there is none, as in Go.
    generation: i64,
    /// In seconds since 1970.
    deletion_timestamp: Option<NonZeroI64>,
    labels: Labels,
    annotations: Fingerprint,
    owner_references: Option<Arc<[OwnerRef]>>,
    finalizers: Packed,
}

impl Meta {
    /// Returns `None` if there is no name.
    pub(crate) fn new(raw: &RawMeta<'_>, interner: &mut Interner) -> Option<Self> {
        let owner = |owner: &raw::RawOwner<'_>, interner: &mut Interner| OwnerRef {
            api_version: interner.text(&owner.api_version),
            kind: interner.text(&owner.kind),
            name: Arc::from(&*owner.name),
            uid: Uid::from(&*owner.uid),
            controller: owner.controller == Some(true),
        };
        let owners: Vec<_> = raw.owner_references.iter().map(|raw| owner(raw, interner)).collect();
        let labels = raw.labels.iter().flat_map(|(key, value)| [&**key, &**value]);
        Some(Self {
            namespace: present(&raw.namespace).map(|namespace| interner.text(namespace)),
            name: present(&raw.name)?.into(),
            uid: present(&raw.uid).map(Uid::from),
            resource_version: present(&raw.resource_version).map(ResourceVersion::from),
            generation: raw.generation,
            deletion_timestamp: raw.deletion_timestamp.and_then(|time| NonZeroI64::new(time.as_second())),
            labels: Labels(Packed::new(labels, |text| interner.text(text))),
            annotations: raw.annotations,
            owner_references: (!owners.is_empty()).then(|| interner.owners(owners)),
            finalizers: Packed::new(raw.finalizers.iter().map(|name| &**name), |text| interner.text(text)),
        })
    }

    /// Returns the namespace; `None` for cluster-scoped objects.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(crate) fn shared_namespace(&self) -> Option<&Arc<str>> {
        self.namespace.as_ref()
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns the uid. Objects of an API server always have one.
    #[must_use]
    pub fn uid(&self) -> Option<&Uid> {
        self.uid.as_ref()
    }

    /// Returns the version of this state. Objects of an API server always have one.
    #[must_use]
    pub fn resource_version(&self) -> Option<&ResourceVersion> {
        self.resource_version.as_ref()
    }

    /// Returns the generation, which counts changes of the spec; `None` for kinds without it.
    #[must_use]
    pub fn generation(&self) -> Option<i64> {
        Some(self.generation).filter(|generation| *generation != 0)
    }

    /// Whether the object was deleted but still exists, because of finalizers or its grace period.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Returns the time until which the object may exist, finalizers aside; `None` if it was not deleted.
    #[must_use]
    pub fn deletion_timestamp(&self) -> Option<Time> {
        let seconds = self.deletion_timestamp?.get();
        Timestamp::from_second(seconds).ok().map(Time)
    }

    /// Returns the labels.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Returns the owner references.
    #[must_use]
    pub fn owner_references(&self) -> &[OwnerRef] {
        self.owner_references.as_deref().unwrap_or_default()
    }

    /// Returns the owner reference of the controller.
    #[must_use]
    #[doc(alias = "GetControllerOf")]
    pub fn controller(&self) -> Option<&OwnerRef> {
        self.owner_references().iter().find(|owner| owner.is_controller())
    }

    /// Returns the finalizers, which must be removed before a deleted object disappears.
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.finalizers.iter()
    }

    /// Whether `other` has the same annotations. Compares hashes, so the answer is wrong with a probability of 2⁻⁶⁴.
    #[must_use]
    pub fn same_annotations(&self, other: &Self) -> bool {
        self.annotations == other.annotations
    }

    /// Whether `other` is the same version of the same object.
    #[must_use]
    pub fn same_version(&self, other: &Self) -> bool {
        self.uid == other.uid && self.resource_version == other.resource_version
    }
}

/// Namespace and name, as in `default/web`.
impl fmt::Display for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace() {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl fmt::Debug for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        match &self.resource_version {
            Some(version) => write!(f, "@{version}"),
            None => Ok(()),
        }
    }
}

/// The labels of an object, in the order of their keys.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Labels(Packed);

impl Labels {
    /// Returns the value of the label `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find_map(|(known, value)| (known == key).then_some(value))
    }

    /// Returns keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut texts = self.0.iter();
        std::iter::from_fn(move || Some((texts.next()?, texts.next()?)))
    }

    /// Whether there are no labels.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// A reference to an owner of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OwnerRef {
    api_version: Arc<str>,
    kind: Arc<str>,
    name: Arc<str>,
    uid: Uid,
    controller: bool,
}

impl OwnerRef {
    /// Returns the owner's `apiVersion`, e.g. `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// Returns the owner's API group, empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// Returns the owner's kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the owner's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the owner's uid.
    #[must_use]
    pub fn uid(&self) -> &Uid {
        &self.uid
    }

    /// Whether the owner is the controller of the object. At most one is.
    #[must_use]
    pub fn is_controller(&self) -> bool {
        self.controller
    }
}

/// Returns the text, or `None` if it is empty, which stands for a missing field.
fn present(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
