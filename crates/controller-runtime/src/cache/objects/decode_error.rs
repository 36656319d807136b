//! [`DecodeError`], the error of an object that does not match its Rust type.

use std::{error::Error as StdError, fmt, sync::Arc};

use crate::object::meta::Meta;

/// An object that cannot be decoded as its Rust type.
///
/// Names the object and the field; the [`source`](StdError::source) is the decoder's error. Other objects of the kind
/// are not affected, and the next version of this object may be valid. Cheap to clone.
#[derive(Clone)]
pub struct DecodeError(Arc<DecodeErrorInner>);

struct DecodeErrorInner {
    resource: String,
    object: String,
    path: String,
    source: Misfit,
}

/// Cause of a [`DecodeError`]. `anyhow` hides the type of an error that it wraps, but not those of the causes: a `Misfit`
/// among them shows that the error is a decode error.
#[derive(Debug)]
pub(crate) struct Misfit(Box<dyn StdError + Send + Sync>);

impl DecodeError {
    pub(in crate::cache) fn new(
        resource: &str,
        meta: &Meta,
        path: String,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        let object = match meta.resource_version() {
            Some(version) => format!("{meta} (version {version})"),
            None => meta.to_string(),
        };
        Self(Arc::new(DecodeErrorInner {
            resource: resource.to_owned(),
            object,
            path,
            source: Misfit(source.into()),
        }))
    }

    /// Returns the path of the field, e.g. `spec.containers[0].image`, or `.` for the object as a whole.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0.path
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DecodeErrorInner { resource, object, path, .. } = &*self.0;
        let place = if path == "." { "as a whole" } else { path };
        write!(
            f,
            "{resource} {object} does not fit its Rust type at {place}: correct the object, or widen the type"
        )
    }
}

impl fmt::Debug for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}: {}", self.0.source)
    }
}

impl StdError for DecodeError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0.source)
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl StdError for Misfit {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}
