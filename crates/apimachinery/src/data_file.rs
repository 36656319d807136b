//! Generated data files: one entry per line, `name SPACE value`. Lines that begin with `#` are comments.
//!
//! Splitting a file into lines takes well below a millisecond, parsing all its values many times longer. Therefore an entry is looked up by
//! its name, and its value is parsed on demand.

/// Entries of a file with lines sorted by name.
#[derive(Debug)]
pub struct Table(Vec<(&'static str, &'static str)>);

impl Table {
    /// Splits a file into its entries.
    #[must_use]
    pub fn new(text: &'static str) -> Self {
        Self(entries(text).collect())
    }

    /// Returns the value of the entry `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'static str> {
        let found = self.0.binary_search_by(|(entry, _)| entry.cmp(&name)).ok()?;
        Some(self.0[found].1)
    }

    /// Returns all entries as (name, value), sorted by name.
    #[must_use]
    pub fn entries(&self) -> &[(&'static str, &'static str)] {
        &self.0
    }
}

/// Iterates over the entries of a file as (name, value), in the order of the file.
pub fn entries(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' '))
}
