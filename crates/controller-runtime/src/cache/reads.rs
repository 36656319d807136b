//! How often a state of an object is read, which tells whether it is worth keeping decoded.

/// Who reads an object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Readers {
    /// Who wants this one.
    OfOne,
    /// Who goes through all or many. That drives nothing out of the budget: what is read again and again would go for
    /// what is not, and be scattered over all the memory that the others took.
    OfMany,
}

/// How often a state was read by itself.
///
/// What is read once between two changes, as by the one reconcile that a change leads to, is not kept decoded: it would be
/// found in no cache of the CPU when it is freed at the next change, and fill the budget meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reads {
    Never,
    /// Never, but the state before it more than once.
    NotYet,
    Once,
    Often,
}

impl Reads {
    /// What is known of a new state, when this is known of the one that it replaces.
    pub(super) fn of_next(self) -> Self {
        if matches!(self, Self::Often) { Self::NotYet } else { Self::Never }
    }

    /// Whether a read is likely to be followed by another one of the same state.
    pub(super) fn promise_more(self) -> bool {
        !matches!(self, Self::Never)
    }

    /// Whether there was a read.
    pub(super) fn were_any(self) -> bool {
        matches!(self, Self::Once | Self::Often)
    }

    /// Counts a read, and says what there was before it.
    pub(super) fn count(&mut self, readers: Readers) -> Self {
        let before = *self;
        if let Readers::OfOne = readers {
            *self = if before.were_any() { Self::Often } else { Self::Once };
        }
        before
    }
}
