use std::{
    any::TypeId,
    collections::{BTreeMap, BTreeSet},
};

use super::arrival::Intake;
use crate::object::Object;

/// What a cache keeps of objects in which form.
///
/// Metadata is always at hand ([`Meta`](super::Meta)). This is about the rest.
///
/// | | memory of a 4.5 KB pod | a read |
/// |---|---|---|
/// | `Budget`, read lately | as `Decoded` | a lock and a reference count |
/// | `Budget`, otherwise | as `Compact` | is decoded, some ten µs |
/// | `Decoded` | some 26 KB | a lock and a reference count |
/// | `Compact` | some 1.2 KB | is decoded, some ten µs |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retain {
    /// All as compressed text; decoded are those read lately, whose sizes, as estimated, add up to no more than so many bytes.
    ///
    /// As the choice for a manager, the bytes are shared by its kinds. As the choice for a kind, they are its own.
    Budget(usize),
    /// All decoded, and no text. For kinds of which most objects are read again and again.
    Decoded,
    /// All as compressed text, each read decodes. For kinds that are read rarely.
    Compact,
}

/// 64 MiB for all kinds of a manager together.
impl Default for Retain {
    fn default() -> Self {
        Self::Budget(64 << 20)
    }
}

/// How a manager's caches hold objects.
///
/// ```
/// use controller_runtime::{cache, cache::Retain, manager};
/// use k8s_openapi::api::core::v1::{Node, Pod};
///
/// let cache = cache::Options::default()
///     .retain(Retain::Budget(128 << 20))
///     .retain_kind::<Pod>(Retain::Compact)
///     .retain_kind::<Node>(Retain::Decoded);
/// let options = manager::Options::new("scheduler").cache(cache);
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Options {
    retain: Retain,
    by_kind: BTreeMap<TypeId, Retain>,
    managed_fields: BTreeSet<TypeId>,
}

impl Options {
    /// What is kept decoded, unless [`Options::retain_kind`] says otherwise. Default: 64 MiB of what was read lately.
    pub fn retain(mut self, retain: Retain) -> Self {
        self.retain = retain;
        self
    }

    /// What is kept decoded of the objects read as type `K`.
    pub fn retain_kind<K: Object>(mut self, retain: Retain) -> Self {
        self.by_kind.insert(TypeId::of::<K>(), retain);
        self
    }

    /// Keeps `metadata.managedFields` of the objects read as type `K`. Default: they are dropped where they arrive, as
    /// controller-runtime's `TransformStripManagedFields` does when asked.
    pub fn keep_managed_fields<K: Object>(mut self) -> Self {
        self.managed_fields.insert(TypeId::of::<K>());
        self
    }

    pub(crate) fn default_retain(&self) -> Retain {
        self.retain
    }

    /// The choice for a kind, if it has its own.
    pub(crate) fn retain_of<K: Object>(&self) -> Option<Retain> {
        self.by_kind.get(&TypeId::of::<K>()).copied()
    }

    /// What is done to objects of a kind before they are held.
    pub(crate) fn intake_of<K: Object>(&self) -> Intake {
        Intake { managed_fields: self.managed_fields.contains(&TypeId::of::<K>()) }
    }
}
