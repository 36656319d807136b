//! [`Retain`], the form in which objects are stored.

/// Form in which a cache stores objects.
///
/// Metadata are always decoded ([`Meta`](crate::cache::Meta)). `Retain` is about the rest of the object.
///
/// | | memory of a 4.5 KB pod | a read |
/// |---|---|---|
/// | `Budget`, read often | like `Decoded` | a lock and a reference count |
/// | `Budget`, otherwise | like `Compact` | decodes, about 20 µs |
/// | `Decoded` | about 26 KB | a lock and a reference count |
/// | `Compact` | about 1.2 KB | decodes, about 20 µs |
///
/// The size of a decoded object is that of its Rust type: nine tenths of the 26 KB are fields of k8s-openapi's `Pod`,
/// most of them empty. A [`View`](crate::cache::View) reads the same objects as a slimmer type.
///
/// glibc's allocator keeps freed memory for later use. A program with caches that shrink may prefer another allocator, such
/// as mimalloc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retain {
    /// Stores all objects as compressed text, and additionally keeps objects decoded that are read more than once
    /// between two changes. The estimated sizes of decoded objects add up to at most this number of bytes.
    ///
    /// The second read of a state keeps it decoded. If the previous state of the object was read more than once, the
    /// first read does. When the budget is exceeded, objects that were not read recently are dropped. The objects of a
    /// list, or found by an index, are kept at their second read if the budget has room for all of them. So iterating
    /// over many objects drops no other objects, and no object of a list that does not fit is kept.
    ///
    /// New texts are compressed when no events are pending, so that no reconcile waits for compression, and objects
    /// that change again soon are not compressed in vain. For each kind, up to 512 KiB of new objects and 4 MiB of
    /// objects that are read after each change stay uncompressed. Other changed objects may use up to half of the
    /// budget uncompressed; decoded objects can then use the rest.
    ///
    /// The estimate is the size of the Rust type plus five bytes for each byte of text, and is up to a fifth too low.
    ///
    /// Set for a manager, the budget is shared by its kinds. Set for a kind, it is shared by all caches of the kind.
    Budget(usize),
    /// Stores all objects decoded, without text. For kinds of which most objects are read often.
    Decoded,
    /// Stores all objects as compressed text immediately; each read decodes. For kinds that are read rarely.
    Compact,
}

/// Default: 64 MiB for all kinds of a manager together.
impl Default for Retain {
    fn default() -> Self {
        Self::Budget(64 << 20)
    }
}
