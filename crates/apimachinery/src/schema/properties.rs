//! The declared properties of a schema, for lookups by name.

/// Schemas of properties by name.
///
/// Requests look names up dozens of times. Most names of a schema differ in their first eight bytes, so a search compares numbers and reads
/// one name at its end.
#[derive(Debug)]
pub(super) struct Properties<S> {
    /// Sorted by name.
    entries: Vec<Property<S>>,
}

#[derive(Debug)]
struct Property<S> {
    /// [`beginning`] of the name.
    beginning: u64,
    name: String,
    schema: S,
}

impl<S> Default for Properties<S> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

/// The first eight bytes of a name as a number. Numbers of names have the order of the names; names with equal beginnings have equal numbers.
fn beginning(name: &str) -> u64 {
    let mut bytes = [0; size_of::<u64>()];
    bytes.iter_mut().zip(name.bytes()).for_each(|(place, byte)| *place = byte);
    u64::from_be_bytes(bytes)
}

impl<S> Properties<S> {
    /// Returns the place of the property, or the place at which it belongs.
    fn place(&self, name: &str) -> Result<usize, usize> {
        let wanted = beginning(name);
        self.entries.binary_search_by(|entry| {
            entry.beginning.cmp(&wanted).then_with(|| entry.name.as_str().cmp(name))
        })
    }

    pub(super) fn get(&self, name: &str) -> Option<&S> {
        self.place(name).ok().map(|place| &self.entries[place].schema)
    }

    /// Declares a property, and returns its previous schema.
    pub(super) fn insert(&mut self, name: &str, schema: S) -> Option<S> {
        match self.place(name) {
            Ok(place) => Some(std::mem::replace(&mut self.entries[place].schema, schema)),
            Err(place) => {
                let property = Property { beginning: beginning(name), name: name.to_owned(), schema };
                self.entries.insert(place, property);
                None
            }
        }
    }

    /// Iterates over the properties, sorted by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &S)> {
        self.entries.iter().map(|entry| (entry.name.as_str(), &entry.schema))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The names have common beginnings, zero bytes, and all lengths around eight bytes.
        #[test]
        fn properties_are_found_and_sorted_like_those_of_a_map(
            names in prop::collection::vec("[ab\u{0}é]{0,10}", 0..40),
            others in prop::collection::vec("[ab\u{0}é]{0,10}", 0..20),
        ) {
            let (mut properties, mut expected) = (Properties::default(), BTreeMap::new());
            for (number, name) in names.iter().enumerate() {
                prop_assert_eq!(properties.insert(name, number), expected.insert(name.as_str(), number));
            }
            let listed: Vec<(&str, &usize)> = properties.iter().collect();
            let all: Vec<(&str, &usize)> = expected.iter().map(|(name, number)| (*name, number)).collect();
            prop_assert_eq!(listed, all);
            for name in names.iter().chain(&others) {
                prop_assert_eq!(properties.get(name), expected.get(name.as_str()));
            }
        }
    }
}
