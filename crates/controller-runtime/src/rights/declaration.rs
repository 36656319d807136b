//! A right with the registration that needs it.

use std::{borrow::Cow, collections::BTreeSet, panic::Location, sync::Arc};

use super::right::Right;

/// A right that an operator needs, and the registration that needs it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Declaration {
    /// The right.
    pub right: Right,
    /// Name of the controller; `None` for the manager itself, its caches and servers.
    pub controller: Option<Arc<str>>,
    /// Registration that needs the right, such as `owns` or `finalizer example.com/archive`.
    pub reason: Cow<'static, str>,
    /// Line of the program with the registration.
    pub place: &'static Location<'static>,
    /// Verbs of the right that only some API servers or situations need, so that a test may leave them unused: `list` where
    /// the API server streams the initial objects of a watch, for example.
    pub fallback: BTreeSet<Cow<'static, str>>,
}

impl Declaration {
    /// A right that follows from the registration at `place`.
    pub(crate) fn new(
        right: Right,
        reason: impl Into<Cow<'static, str>>,
        place: &'static Location<'static>,
    ) -> Self {
        Self { right, controller: None, reason: reason.into(), place, fallback: BTreeSet::new() }
    }

    /// Sets the controller that needs the right.
    pub(crate) fn of(mut self, controller: &str) -> Self {
        self.controller = Some(controller.into());
        self
    }

    /// Marks verbs that only some API servers or situations need.
    pub(crate) fn fallback(mut self, verbs: impl IntoIterator<Item = &'static str>) -> Self {
        self.fallback.extend(verbs.into_iter().map(Cow::Borrowed));
        self
    }
}
