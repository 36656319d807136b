//! Suggestions for misspelt requests. Pure.

/// Number of suggestions.
const PROPOSED: usize = 3;
/// Largest number of requests compared, so that a long queue does not occupy the thread.
pub(crate) const COMPARED: usize = 4096;

/// Requests of `known` that resemble `wanted`, the most similar first.
///
/// A request is named by its `Debug` form, without the kind in front if there is one. It resembles `wanted` if it has the same
/// name in another namespace, if one of the two names begins with the other, or if a few letters differ.
pub(crate) fn near(wanted: &str, known: impl Iterator<Item = String>) -> Vec<String> {
    // Compares names only: the kind in front of a request is the same for all of them.
    let wanted = wanted.rsplit(' ').next().unwrap_or(wanted);
    let mut best: Vec<(usize, String)> = Vec::new();
    for request in known.take(COMPARED) {
        let short = request.rsplit(' ').next().unwrap_or(&request);
        let Some(distance) = distance(wanted, short) else { continue };
        let candidate = (distance, short.to_owned());
        // Sorted insertion keeps the best few; an equal candidate is a duplicate.
        if let Err(index) = best.binary_search(&candidate) {
            best.insert(index, candidate);
            best.truncate(PROPOSED);
        }
    }
    best.into_iter().map(|(_, request)| request).collect()
}

/// Distance between two requests in edited letters, with 0 for equal names; `None` if they do not resemble each other.
fn distance(wanted: &str, known: &str) -> Option<usize> {
    let (wanted, known) = (wanted.to_lowercase(), known.to_lowercase());
    let name_of = |text: &str| text.rsplit('/').next().unwrap_or_default().to_owned();
    let (wanted_name, known_name) = (name_of(&wanted), name_of(&known));
    if wanted_name.is_empty() || known_name.is_empty() {
        return None;
    }
    // The right name in another namespace is the most likely mistake.
    if wanted_name == known_name {
        return Some(0);
    }
    let letters = edits(&wanted, &known);
    // One letter for short names, and one more for every four letters.
    if letters <= 1 + wanted_name.chars().count() / 4 {
        return Some(letters);
    }
    let begins = known_name.starts_with(&wanted_name) || wanted_name.starts_with(&known_name);
    begins.then_some(letters)
}

/// Number of letters to insert, delete or replace to turn one text into the other (Levenshtein distance).
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    // One row of the distance matrix at a time; `diagonal` is the value up and to the left.
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, known) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *known);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(wanted: &str, known: &[&str], expected: &[&str]) {
        let known = known.iter().map(|request| (*request).to_owned());
        assert_eq!(near(wanted, known), expected, "{wanted}");
    }

    #[test]
    fn requests_that_resemble_the_wanted_one_are_proposed_nearest_first() {
        let known = ["Widget default/web", "Widget shop/web", "Widget default/wbe", "Widget default/other"];
        check("default/wep", &known, &["default/web"]);
        check("web", &known, &["default/web", "shop/web"]);
        check("test/web", &known, &["default/web", "shop/web"]);
        check("Widget default/Web", &known, &["default/web", "shop/web"]);
        check("default/nothing-like-it", &known, &[]);
        check("default/", &known, &[]);
        check("default/api", &["Pod default/api-7f9c", "Pod default/db-1"], &["default/api-7f9c"]);
    }

    #[test]
    fn three_are_proposed_whatever_the_order() {
        let known = ["d/web", "b/web", "a/web", "c/web"];
        check("web", &known, &["a/web", "b/web", "c/web"]);
        let mut reversed = known;
        reversed.reverse();
        check("web", &reversed, &["a/web", "b/web", "c/web"]);
    }

    proptest! {
        #[test]
        fn edits_are_a_distance(one in "[a-c]{0,6}", other in "[a-c]{0,6}", third in "[a-c]{0,6}") {
            prop_assert_eq!(edits(&one, &other) == 0, one == other);
            prop_assert_eq!(edits(&one, &other), edits(&other, &one));
            prop_assert!(edits(&one, &third) <= edits(&one, &other) + edits(&other, &third));
        }
    }
}
