//! Paths of fields in messages, e.g. `spec.ports[0].name`, built without allocating until one is printed.

use std::fmt;

/// A path as a chain of borrowed steps, innermost first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Entry(&'a str),
    Key(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    /// The object itself.
    pub(crate) fn root() -> Self {
        Self { parent: None, step: Step::Root }
    }

    /// Appends a field: `path.name`.
    pub(crate) fn field(&'a self, name: &'a str) -> Self {
        self.with(Step::Field(name))
    }

    /// Appends an entry of a map: `path[key]`, as messages about schemas write it.
    pub(crate) fn key(&'a self, key: &'a str) -> Self {
        self.with(Step::Key(key))
    }

    /// Appends an entry of a map of values: like a field, but with a dot at the start of a path.
    pub(crate) fn entry(&'a self, name: &'a str) -> Self {
        self.with(Step::Entry(name))
    }

    /// Appends an item of a list: `path[0]`.
    pub(crate) fn index(&'a self, index: usize) -> Self {
        self.with(Step::Index(index))
    }

    /// Whether the path is a field of the object itself.
    pub(crate) fn is_top_level(&self) -> bool {
        self.parent.is_some_and(Path::is_root)
    }

    /// Whether the path is the object itself.
    pub(crate) fn is_root(&self) -> bool {
        matches!(self.step, Step::Root)
    }

    fn with(&'a self, step: Step<'a>) -> Self {
        Self { parent: Some(self), step }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Field(name) if self.is_top_level() => f.write_str(name),
            Step::Field(name) | Step::Entry(name) => write!(f, ".{name}"),
            Step::Key(key) => write!(f, "[{key}]"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}
