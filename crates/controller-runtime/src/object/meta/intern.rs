//! Shared storage of values that many objects of a kind have in common.

use std::sync::Arc;

use hashbrown::HashSet;

use super::OwnerRef;

/// Stores one copy of equal values.
///
/// Bound: unused values are removed whenever the number of entries has doubled since the last removal. So there are at
/// most twice as many entries as are in use, plus [`Interner::FEW`].
#[derive(Debug, Default)]
pub(crate) struct Interner {
    texts: SharedValues<str>,
    owners: SharedValues<[OwnerRef]>,
}

impl Interner {
    const FEW: usize = 64;

    pub(crate) fn text(&mut self, text: &str) -> Arc<str> {
        match self.texts.known.get(text) {
            Some(known) => Arc::clone(known),
            None => self.texts.add(text.into()),
        }
    }

    pub(crate) fn owners(&mut self, owners: Vec<OwnerRef>) -> Arc<[OwnerRef]> {
        match self.owners.known.get(&*owners) {
            Some(known) => Arc::clone(known),
            None => self.owners.add(owners.into()),
        }
    }
}

#[derive(Debug)]
struct SharedValues<T: ?Sized> {
    known: HashSet<Arc<T>>,
    /// Number of entries after the last removal.
    in_use: usize,
}

impl<T: ?Sized> Default for SharedValues<T> {
    fn default() -> Self {
        Self { known: HashSet::new(), in_use: 0 }
    }
}

impl<T: ?Sized + Eq + std::hash::Hash> SharedValues<T> {
    fn add(&mut self, new: Arc<T>) -> Arc<T> {
        if self.known.len() >= 2 * self.in_use + Interner::FEW {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.in_use = self.known.len();
            self.known.shrink_to(2 * self.in_use + Interner::FEW);
        }
        self.known.insert(Arc::clone(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_stored_once() {
        let mut interner = Interner::default();
        assert!(Arc::ptr_eq(&interner.text("default"), &interner.text("default")));
    }

    #[test]
    fn unused_texts_are_removed() {
        let mut interner = Interner::default();
        let held: Vec<_> = (0..100).map(|i| interner.text(&format!("held {i}"))).collect();
        for i in 0..100_000 {
            interner.text(&format!("passing {i}"));
        }
        assert!(interner.texts.known.len() <= 2 * held.len() + Interner::FEW);
        assert!(Arc::ptr_eq(&held[0], &interner.text("held 0")));
    }
}
