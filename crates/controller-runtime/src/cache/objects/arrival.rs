//! Received objects, shared by all informers of a feed.

use std::{cell::OnceCell, ops::Deref, sync::Arc};

use super::{split::Split, transform::Transform};
use crate::object::meta::Meta;

/// A received object, and the state that the first informer created from it.
///
/// Several Rust types may be read of one kind. The text is stored once: the first informer that stores it leaves its
/// state here, and the states of other informers refer to it.
pub(crate) struct Arrival<'a> {
    pub(in crate::cache) split: Split<'a>,
    taken: OnceCell<Arc<dyn Source>>,
}

/// A state that stores the whole text of an object.
pub(in crate::cache) trait Source: Send + Sync {
    /// Returns the metadata in the text.
    fn meta(&self) -> &Meta;

    /// Returns the text.
    ///
    /// # Errors
    ///
    /// The text is damaged.
    fn text(&self) -> Result<Text, &'static str>;

    /// Returns the length of the text in bytes.
    fn text_len(&self) -> usize;

    /// Whether the text is what an informer with this intake would store.
    fn is_of(&self, intake: &Intake) -> bool;
}

/// Text of a state, usable without the state's lock, because decoders are user code.
pub(in crate::cache) enum Text {
    Shared(Arc<[u8]>),
    Expanded(Vec<u8>),
}

impl Deref for Text {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Shared(text) => text,
            Self::Expanded(text) => text,
        }
    }
}

/// Changes of an object before it is stored. Informers with equal ones share the text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Intake {
    /// Whether `metadata.managedFields` is stored.
    pub(crate) managed_fields: bool,
    pub(crate) transform: Option<Transform>,
}

impl<'a> Arrival<'a> {
    /// Splits a text. If it is not an object, the result has no metadata, and no informer stores it.
    pub(crate) fn new(json: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        let json = json.as_ref();
        Self::from(Split::whole(json).unwrap_or_else(|_| Split::nothing(json)))
    }

    /// Returns the state that stores the text for informers with this intake.
    pub(in crate::cache) fn taken_by(&self, intake: &Intake) -> Option<&Arc<dyn Source>> {
        self.taken.get().filter(|source| source.is_of(intake))
    }

    /// Lets other informers refer to this state.
    pub(in crate::cache) fn leave(&self, source: Option<Arc<dyn Source>>) {
        if let Some(source) = source {
            let _ = self.taken.set(source); // the first one is kept
        }
    }
}

impl<'a> From<Split<'a>> for Arrival<'a> {
    fn from(split: Split<'a>) -> Self {
        Self { split, taken: OnceCell::new() }
    }
}
