//! Received objects, shared by all informers of a shared watch.

use std::{cell::OnceCell, ops::Deref, sync::Arc};

use super::{
    split::{ManagedFields, Split},
    transform::Transform,
};
use crate::object::meta::Meta;

/// A received object, and the state that the first informer created from it.
///
/// Several informers may read one kind, each as another Rust type. The text is stored once: the first informer that stores
/// it leaves its state here, and the states of other informers refer to it.
pub(crate) struct IncomingObject<'a> {
    pub(in crate::cache) split: Split<'a>,
    source: OnceCell<Arc<dyn TextSource>>,
}

/// A state that stores the whole text of an object.
pub(in crate::cache) trait TextSource: Send + Sync {
    /// Returns the metadata in the text.
    fn meta(&self) -> &Meta;

    /// Returns the text.
    ///
    /// # Errors
    ///
    /// The text is damaged.
    fn text(&self) -> Result<PlainText, &'static str>;

    /// Returns the length of the text in bytes.
    fn text_len(&self) -> usize;

    /// Whether an informer with these options would store the same text.
    fn is_text_for(&self, ingest_options: &IngestOptions) -> bool;
}

/// Text of a state, usable without the state's lock, because decoders are user code.
pub(in crate::cache) enum PlainText {
    Shared(Arc<[u8]>),
    Expanded(Vec<u8>),
}

impl Deref for PlainText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Shared(text) => text,
            Self::Expanded(text) => text,
        }
    }
}

/// Changes of an object before it is stored. Informers with equal options share the text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct IngestOptions {
    pub(crate) managed_fields: ManagedFields,
    pub(crate) transform: Option<Transform>,
}

impl<'a> IncomingObject<'a> {
    /// Splits a text. If it is not an object, the result has no metadata, and no informer stores it.
    pub(crate) fn new(json: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        let json = json.as_ref();
        Self::from(Split::whole(json).unwrap_or_else(|_| Split::nothing(json)))
    }

    /// Returns the state that stores the text for informers with these options.
    pub(in crate::cache) fn text_for(&self, ingest_options: &IngestOptions) -> Option<&Arc<dyn TextSource>> {
        self.source.get().filter(|source| source.is_text_for(ingest_options))
    }

    /// Lets other informers refer to this state.
    pub(in crate::cache) fn offer_text(&self, source: Option<Arc<dyn TextSource>>) {
        if let Some(source) = source {
            let _ = self.source.set(source); // the first one is kept
        }
    }
}

impl<'a> From<Split<'a>> for IncomingObject<'a> {
    fn from(split: Split<'a>) -> Self {
        Self { split, source: OnceCell::new() }
    }
}
