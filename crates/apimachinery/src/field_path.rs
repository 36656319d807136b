//! Paths of fields in messages, e.g. `spec.ports[0].name`, built without allocating until one is printed.

use std::fmt;

/// A path as a chain of borrowed steps, innermost first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldPath<'a> {
    parent: Option<&'a FieldPath<'a>>,
    step: PathStep<'a>,
}

#[derive(Debug, Clone, Copy)]
enum PathStep<'a> {
    Root,
    Field(&'a str),
    Entry(&'a str),
    Key(&'a str),
    Index(usize),
}

impl<'a> FieldPath<'a> {
    /// The object itself.
    pub(crate) fn root() -> Self {
        Self { parent: None, step: PathStep::Root }
    }

    /// Appends a field: `path.name`.
    pub(crate) fn field(&'a self, name: &'a str) -> Self {
        self.with(PathStep::Field(name))
    }

    /// Appends an entry of a map: `path[key]`, as messages about schemas write it.
    pub(crate) fn key(&'a self, key: &'a str) -> Self {
        self.with(PathStep::Key(key))
    }

    /// Appends an entry of a map of values: like a field, but with a dot at the start of a path.
    pub(crate) fn entry(&'a self, name: &'a str) -> Self {
        self.with(PathStep::Entry(name))
    }

    /// Appends an item of a list: `path[0]`.
    pub(crate) fn index(&'a self, index: usize) -> Self {
        self.with(PathStep::Index(index))
    }

    /// Whether the path is a field of the object itself.
    pub(crate) fn is_top_level(&self) -> bool {
        self.parent.is_some_and(FieldPath::is_root)
    }

    /// Whether the path is the object itself.
    pub(crate) fn is_root(&self) -> bool {
        matches!(self.step, PathStep::Root)
    }

    fn with(&'a self, step: PathStep<'a>) -> Self {
        Self { parent: Some(self), step }
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            PathStep::Root => Ok(()),
            PathStep::Field(name) if self.is_top_level() => f.write_str(name),
            PathStep::Field(name) | PathStep::Entry(name) => write!(f, ".{name}"),
            PathStep::Key(key) => write!(f, "[{key}]"),
            PathStep::Index(index) => write!(f, "[{index}]"),
        }
    }
}
