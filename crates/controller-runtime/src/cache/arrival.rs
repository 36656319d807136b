//! An object on its way from the API server to those who read its kind.

use std::{cell::OnceCell, ops::Deref, sync::Arc};

use super::{meta::Meta, split::Split, transform::Transform};

/// An object as it came over the wire, and what the first who took it made of it.
///
/// Several Rust types may be read of one kind. Its text is held once: the first that holds it as text leaves it here, and
/// the states of the others refer to that one.
pub(crate) struct Arrival<'a> {
    pub(super) split: Split<'a>,
    taken: OnceCell<Arc<dyn Source>>,
}

/// A state that holds the whole text of an object.
pub(super) trait Source: Send + Sync {
    /// The metadata in it.
    fn meta(&self) -> &Meta;

    /// Returns the text.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    fn text(&self) -> Result<Text, &'static str>;

    /// How long the text is.
    fn text_len(&self) -> usize;

    /// Whether it holds of an object what somebody with this intake would.
    fn is_of(&self, intake: &Intake) -> bool;
}

/// A text of a state, apart from the state's lock: decoders are user code.
pub(super) enum Text {
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

/// What is done to an object before it is held. Those who do the same can share what comes of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Intake {
    /// `metadata.managedFields` is kept.
    pub(crate) managed_fields: bool,
    pub(crate) transform: Option<Transform>,
}

impl<'a> Arrival<'a> {
    /// A text that is no object is taken for one without metadata, which nobody holds.
    pub(crate) fn new(json: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        let json = json.as_ref();
        Self::from(Split::whole(json).unwrap_or_else(|_| Split::nothing(json)))
    }

    /// The state that holds the text for those with this intake.
    pub(super) fn taken_by(&self, intake: &Intake) -> Option<&Arc<dyn Source>> {
        self.taken.get().filter(|source| source.is_of(intake))
    }

    /// Lets others refer to this state.
    pub(super) fn leave(&self, source: Option<Arc<dyn Source>>) {
        if let Some(source) = source {
            let _ = self.taken.set(source); // the first one stays
        }
    }
}

impl<'a> From<Split<'a>> for Arrival<'a> {
    fn from(split: Split<'a>) -> Self {
        Self { split, taken: OnceCell::new() }
    }
}
