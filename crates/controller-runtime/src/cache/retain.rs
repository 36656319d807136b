/// What a cache keeps of objects in which form.
///
/// Metadata is always at hand ([`Meta`](super::Meta)). This is about the rest.
///
/// | | memory of a 4.5 KB pod | a read |
/// |---|---|---|
/// | `Budget`, read often | as `Decoded` | a lock and a reference count |
/// | `Budget`, otherwise | as `Compact` | is decoded, some twenty µs |
/// | `Decoded` | some 26 KB | a lock and a reference count |
/// | `Compact` | some 1.2 KB | is decoded, some twenty µs |
///
/// What a decoded object takes is what its Rust type takes: nine tenths of those 26 KB are the fields of k8s-openapi's `Pod`,
/// most of them empty. A [`View`](super::View) reads the same objects as a slim type.
///
/// glibc's allocator keeps what was freed for later use. A program whose caches shrink may want another one, such as mimalloc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retain {
    /// All as compressed text; those that are read more than once between two changes are kept decoded, and the sizes of
    /// these, as estimated, add up to no more than so many bytes.
    ///
    /// The second read of a state keeps it, or the first one if the state before it was read more than once. When there is too
    /// much, what was not read lately goes. A list, or what an index finds, is kept when it is read a second time, if there is
    /// room for all of it: to go through many objects drives out none, and of a list that does not fit nothing is kept, since
    /// a part of it would save little.
    ///
    /// The latest texts are compressed when there is nothing else to do, so that neither a reconcile waits for that nor what
    /// changes again soon pays for it. Of each kind 512 KiB stay uncompressed of what is new, and 4 MiB of objects that are read
    /// whenever they have changed; of the others that have changed as much as half of the budget, of which the rest is left to
    /// decoded objects then.
    ///
    /// The estimate is the size of the Rust type and five bytes for each byte of text, up to a fifth too little.
    ///
    /// As the choice for a manager, the bytes are shared by its kinds. As the choice for a kind, they are its own, and
    /// shared by all selections of it.
    Budget(usize),
    /// All decoded, and no text. For kinds of which most objects are read again and again.
    Decoded,
    /// All as compressed text, from the start; each read decodes. For kinds that are read rarely.
    Compact,
}

/// 64 MiB for all kinds of a manager together.
impl Default for Retain {
    fn default() -> Self {
        Self::Budget(64 << 20)
    }
}
