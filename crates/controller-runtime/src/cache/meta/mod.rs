//! What the cache keeps at hand of every object's metadata, whether the object itself is decoded or not.
//!
//! Small, because there is one for each object of a cluster: uids and versions take 16 and 8 bytes rather than their text, and
//! what is alike in many objects (namespaces, whole sets of labels, owner references) is there once per informer.

mod ids;
mod intern;
mod packed;
mod raw;

use std::{fmt, num::NonZeroI64, sync::Arc};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

pub use self::ids::{ResourceVersion, Uid};
pub(super) use self::{intern::Interner, raw::RawMeta};
use self::{packed::Packed, raw::Fingerprint};

/// The metadata of an object that predicates, handlers and indexes work on. It is at hand without decoding the object.
///
/// Annotations are not in it: they are often large, and read rarely. Decode the object to read them.
#[derive(Clone)]
pub struct Meta {
    namespace: Option<Arc<str>>,
    name: Arc<str>,
    uid: Option<Uid>,
    resource_version: Option<ResourceVersion>,
    /// Zero for none, as in Go.
    generation: i64,
    /// In seconds since 1970.
    deletion_timestamp: Option<NonZeroI64>,
    labels: Labels,
    annotations: Fingerprint,
    owner_references: Option<Arc<[OwnerRef]>>,
    finalizers: Packed,
}

impl Meta {
    /// `None` without a name.
    pub(super) fn new(raw: &RawMeta<'_>, interner: &mut Interner) -> Option<Self> {
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

    /// The namespace; `None` for cluster-scoped objects.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(crate) fn shared_namespace(&self) -> Option<&Arc<str>> {
        self.namespace.as_ref()
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    /// The uid. Objects of an API server have one.
    #[must_use]
    pub fn uid(&self) -> Option<&Uid> {
        self.uid.as_ref()
    }

    /// The version of this state. Objects of an API server have one.
    #[must_use]
    pub fn resource_version(&self) -> Option<&ResourceVersion> {
        self.resource_version.as_ref()
    }

    /// The number of changes of the spec, for kinds that count them.
    #[must_use]
    pub fn generation(&self) -> Option<i64> {
        Some(self.generation).filter(|generation| *generation != 0)
    }

    /// Whether the object has been deleted and waits for its finalizers, or for its grace period to end.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// When the object is, or was, to be gone at the latest, finalizers aside; `None` unless it has been deleted.
    #[must_use]
    pub fn deletion_timestamp(&self) -> Option<Time> {
        let seconds = self.deletion_timestamp?.get();
        Timestamp::from_second(seconds).ok().map(Time)
    }

    /// The labels.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// The owners.
    #[must_use]
    pub fn owner_references(&self) -> &[OwnerRef] {
        self.owner_references.as_deref().unwrap_or_default()
    }

    /// The owner that controls the object.
    #[must_use]
    #[doc(alias = "GetControllerOf")]
    pub fn controller(&self) -> Option<&OwnerRef> {
        self.owner_references().iter().find(|owner| owner.is_controller())
    }

    /// The finalizers, which are to be removed before a deleted object goes.
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.finalizers.iter()
    }

    /// Whether the annotations are those of `other`, but for a chance of one in 2⁶⁴.
    #[must_use]
    pub fn same_annotations(&self, other: &Self) -> bool {
        self.annotations == other.annotations
    }

    /// Whether this is the same state of the same object as `other`.
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
    /// The value of the label `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find_map(|(known, value)| (known == key).then_some(value))
    }

    /// Keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut texts = self.0.iter();
        std::iter::from_fn(move || Some((texts.next()?, texts.next()?)))
    }

    /// Whether there are none.
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

/// An owner of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OwnerRef {
    api_version: Arc<str>,
    kind: Arc<str>,
    name: Arc<str>,
    uid: Uid,
    controller: bool,
}

impl OwnerRef {
    /// The owner's `apiVersion`, e.g. `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// The owner's API group, empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// The owner's kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The owner's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The owner's uid.
    #[must_use]
    pub fn uid(&self) -> &Uid {
        &self.uid
    }

    /// Whether the owner controls the object: one owner at most does.
    #[must_use]
    pub fn is_controller(&self) -> bool {
        self.controller
    }
}

fn present(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
