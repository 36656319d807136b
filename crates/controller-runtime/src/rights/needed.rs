//! A right that a program declares by hand.

use super::{declaration::Declaration, implied::CodeLine, right::Right, verb::Verb};
use crate::object::DynamicKind;

/// A right that a program declares by hand, because no registration implies it.
pub(crate) struct Needed {
    right: Right,
    /// Kind whose default cache determines the namespaces of the right; `None` if the right has namespaces of its own.
    kind: Option<DynamicKind>,
    place: CodeLine,
}

impl Needed {
    /// Verbs on objects of a kind, in the namespaces of its default cache.
    pub(crate) fn of_kind(kind: DynamicKind, verbs: impl IntoIterator<Item = Verb>, place: CodeLine) -> Self {
        Self { right: Right::of_kind(&kind, verbs), kind: Some(kind), place }
    }

    /// Exactly this right.
    pub(crate) fn of_right(right: Right, place: CodeLine) -> Self {
        Self { right, kind: None, place }
    }

    pub(crate) fn on_subresource(mut self, name: &str) -> Self {
        self.right = self.right.subresource(name);
        self
    }

    /// Returns the declaration, and the kind that decides on its namespaces.
    pub(crate) fn into_parts(self) -> (Declaration, Option<DynamicKind>) {
        (Declaration::new(self.right, "needs", self.place), self.kind)
    }
}
