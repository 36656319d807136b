use std::{error::Error as StdError, fmt, sync::Arc};

use super::meta::Meta;

/// An object that does not fit its Rust type.
///
/// Says which object and which field; the [`source`](StdError::source) says what is wrong with it. Other objects of the kind
/// are not affected, and the next version of this one may be fine. Cheap to clone.
#[derive(Clone)]
pub struct DecodeError(Arc<Inner>);

struct Inner {
    resource: String,
    object: String,
    path: String,
    source: Box<dyn StdError + Send + Sync>,
}

impl DecodeError {
    pub(super) fn new(
        resource: &str,
        meta: &Meta,
        path: String,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        let object = match meta.resource_version() {
            Some(version) => format!("{meta} (version {version})"),
            None => meta.to_string(),
        };
        Self(Arc::new(Inner { resource: resource.to_owned(), object, path, source: source.into() }))
    }

    /// The path of the field, e.g. `spec.containers[0].image`, or `.` where it is the object as a whole.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0.path
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { resource, object, path, .. } = &*self.0;
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
        Some(&*self.0.source)
    }
}
