//! [`StoredText`], the text of a state in the form in which it is stored.

use std::sync::Arc;

use super::{
    dictionary::CompressedText,
    incoming_object::{PlainText, TextSource},
    object_codec::CodecContext,
};

/// Text of a state. `Plain` becomes `Compressed` when the compression backlog is processed. `Shared` becomes
/// `Plain` or `Compressed` when [`Lazy::replace_text`](super::lazy::Lazy::replace_text) gives the state its own text.
pub(super) enum StoredText {
    /// No text: the object is always decoded.
    None,
    /// The uncompressed text.
    Plain(Arc<[u8]>),
    Compressed(CompressedText),
    /// The text of another Rust type's state.
    Shared(Arc<dyn TextSource>),
}

impl StoredText {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::None | Self::Shared(_) => 0,
            Self::Plain(text) => text.len(),
            Self::Compressed(compressed) => compressed.len(),
        }
    }

    pub(super) fn text_len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Plain(text) => text.len(),
            Self::Compressed(compressed) => compressed.text_len().unwrap_or_default(),
            Self::Shared(source) => source.text_len(),
        }
    }

    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    /// Returns the text, to be read after the lock is released.
    pub(super) fn read(&self, context: &CodecContext) -> Result<PlainText, &'static str> {
        match self {
            Self::None => Err("it has no text"),
            Self::Plain(text) => Ok(PlainText::Shared(Arc::clone(text))),
            Self::Compressed(compressed) => context.expander.expand(compressed).map(PlainText::Expanded),
            Self::Shared(source) => source.text(),
        }
    }
}
