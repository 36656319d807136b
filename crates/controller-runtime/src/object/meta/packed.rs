//! Several strings in one allocation, so that equal lists can share it.

use std::sync::Arc;

/// A list of strings, each stored as its length in decimal, a colon, and the text. `None` for an empty list.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Packed(Option<Arc<str>>);

impl Packed {
    /// Packs `texts`. `share` returns the stored copy of equal lists.
    pub(crate) fn new<'a>(
        texts: impl IntoIterator<Item = &'a str>,
        share: impl FnOnce(&str) -> Arc<str>,
    ) -> Self {
        let mut packed = String::new();
        for text in texts {
            if packed.is_empty() {
                packed.reserve(256); // enough for most label sets, so that it need not grow
            }
            push_decimal(&mut packed, text.len());
            packed.push(':');
            packed.push_str(text);
        }
        Self((!packed.is_empty()).then(|| share(&packed)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn iter(&self) -> Unpacked<'_> {
        Unpacked { rest: self.0.as_deref().unwrap_or_default() }
    }
}

/// Appends a number. `write!` would take longer than all the rest of packing.
fn push_decimal(to: &mut String, number: usize) {
    if number >= 10 {
        push_decimal(to, number / 10);
    }
    to.push(char::from(b'0' + (number % 10) as u8));
}

/// The strings of a [`Packed`] list.
#[derive(Debug, Clone)]
pub(crate) struct Unpacked<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Unpacked<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let (length, rest) = self.rest.split_once(':')?;
        let (text, rest) = rest.split_at_checked(length.parse().ok()?)?;
        self.rest = rest;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packed_strings_unpack_to_themselves(texts in prop::collection::vec(any::<String>(), 0..5)) {
            let packed = Packed::new(texts.iter().map(String::as_str), |text| text.into());
            prop_assert_eq!(packed.is_empty(), texts.is_empty());
            prop_assert_eq!(packed.iter().collect::<Vec<_>>(), texts);
        }
    }
}
