//! Paths from a variable to a value: `self`, `list`, `@items`.
//!
//! In cel-go a path is a slice, and a longer path is appended to a shorter one. Two paths that are appended to one path can share its memory: the
//! second overwrites the last name of the first, which then leads to the size of another value. Rules such as
//! `self.list.all(x, x.texts[x.index] == x.names[x.index])` depend on this.

use std::cell::RefCell;
use std::rc::Rc;

/// The path of a value. An empty path belongs to a value that is not part of a variable.
#[derive(Debug, Clone, Default)]
pub(super) struct ValuePath<'t> {
    shared: Option<Rc<PathMemory<'t>>>,
    length: usize,
}

/// Memory of a Go slice.
#[derive(Debug)]
struct PathMemory<'t> {
    names: RefCell<Vec<&'t str>>,
    capacity: usize,
}

impl<'t> ValuePath<'t> {
    /// Returns the path with one more name, which overwrites memory as `append` does in Go.
    pub(super) fn with(&self, name: &'t str) -> Self {
        let length = self.length + 1;
        if let Some(shared) = self.shared.as_ref().filter(|shared| length <= shared.capacity) {
            let mut names = shared.names.borrow_mut();
            match names.get_mut(self.length) {
                Some(old) => *old = name,
                None => names.push(name),
            }
            return Self { shared: Some(Rc::clone(shared)), length };
        }
        let mut names = self.names();
        names.push(name);
        // Go doubles the capacity of a slice that is full.
        let memory = PathMemory { names: RefCell::new(names), capacity: length.next_power_of_two() };
        Self { shared: Some(Rc::new(memory)), length }
    }

    /// Returns the names that the path has now.
    pub(super) fn names(&self) -> Vec<&'t str> {
        self.shared.as_ref().map_or_else(Vec::new, |shared| shared.names.borrow()[..self.length].to_vec())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(names: &[&'static str]) -> ValuePath<'static> {
        names.iter().fold(ValuePath::default(), |path, name| path.with(name))
    }

    #[test]
    fn paths_share_memory_until_it_is_full() {
        let three = path(&["self", "list", "@items"]);
        let (a, b) = (three.with("a"), three.with("b"));
        assert_eq!(a.names(), ["self", "list", "@items", "b"]);
        assert_eq!(b.names(), a.names());
        let four = path(&["self", "spec", "list", "@items"]);
        let (a, b) = (four.with("a"), four.with("b"));
        assert_eq!((a.names()[4], b.names()[4]), ("a", "b"));
        let (longer, other) = (a.with("c"), a.with("d").with("e"));
        assert_eq!(longer.names()[5..], ["d"]);
        assert_eq!(other.names()[5..], ["d", "e"]);
    }

    #[test]
    fn a_path_begins_empty() {
        assert!(path(&[]).is_empty() && path(&[]).names().is_empty());
        assert_eq!(path(&["self"]).with("a").names(), ["self", "a"]);
    }
}
