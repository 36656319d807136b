//! Names that an operator generates itself: with the time, such as `db-1767249030`, or at random, such as `db-x7k2p`.

use std::{collections::BTreeSet, sync::Arc};

use super::{ObjectState, World};
use crate::names::ObjectId;

/// Patterns of names that differ between two runs without faults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LearnedNames {
    patterns: BTreeSet<NamePattern>,
    /// Objects that fit a pattern, but have one name in both runs.
    fixed: BTreeSet<ObjectId>,
}

/// Names of objects of one resource in one namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct NamePattern {
    resource: Arc<str>,
    /// The namespace with a slash; empty for resources without namespaces.
    prefix: String,
    tokens: Vec<Token>,
}

/// Part of a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Token {
    /// This text in each run.
    Same(String),
    /// A number.
    Digits,
    /// Letters and digits, this many.
    Text(usize),
}

impl LearnedNames {
    /// Finds the patterns of the names that only one of two worlds has.
    pub(super) fn learn(first: &World, second: &World) -> Self {
        let mut learned = Self::default();
        let others = only_in(second, first);
        for id in only_in(first, second) {
            let patterns = others.iter().filter_map(|other| NamePattern::of(id, other));
            // A name may fit several of the other run. The pattern with the most fixed tokens hides the
            // least.
            learned.patterns.extend(patterns.max_by_key(NamePattern::same));
        }
        let both = first.objects.keys().filter(|id| second.objects.contains_key(*id));
        let fits = |id: &&ObjectId| learned.patterns.iter().any(|pattern| pattern.fits(id));
        learned.fixed = both.filter(fits).cloned().collect();
        learned
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.patterns.extend(other.patterns);
        self.fixed.extend(other.fixed);
    }

    /// The id with `*` in place of the generated parts of the name, by `generateName` or by a pattern.
    pub(super) fn family(&self, id: &ObjectId, object: &ObjectState) -> ObjectId {
        let family = id.family(object.metadata_text("generateName"));
        // The server's prefix is certain, and a pattern is only learned, so the prefix comes first.
        if family == *id { self.family_by_name(id) } else { family }
    }

    /// The id with `*` in place of the generated parts of the name, if it fits a pattern.
    pub(crate) fn family_by_name(&self, id: &ObjectId) -> ObjectId {
        if self.fixed.contains(id) {
            return id.clone();
        }
        self.patterns.iter().find(|pattern| pattern.fits(id)).map_or_else(|| id.clone(), NamePattern::family)
    }
}

/// Objects of one world that another one lacks, without those that the server has named.
fn only_in<'w>(world: &'w World, other: &World) -> Vec<&'w ObjectId> {
    let is_own = |(id, object): &(&ObjectId, &Arc<ObjectState>)| {
        !other.objects.contains_key(*id) && object.metadata_text("generateName").is_empty()
    };
    world.objects.iter().filter(is_own).map(|(id, _)| id).collect()
}

impl NamePattern {
    /// Pattern that both names fit; `None` if they are of different resources, namespaces or forms.
    fn of(one: &ObjectId, other: &ObjectId) -> Option<Self> {
        let ((prefix, name), (other_prefix, other_name)) = (parts(one), parts(other));
        let (tokens, others) = (tokens(name), tokens(other_name));
        if one.resource != other.resource || prefix != other_prefix || tokens.len() != others.len() {
            return None;
        }
        let both = tokens.iter().zip(others).map(|(token, other)| Token::of(token, other));
        let tokens = both.collect::<Option<Vec<Token>>>()?;
        Some(Self { resource: Arc::clone(&one.resource), prefix: prefix.to_owned(), tokens })
    }

    /// Number of tokens that do not differ.
    fn same(&self) -> usize {
        self.tokens.iter().filter(|token| matches!(token, Token::Same(_))).count()
    }

    fn fits(&self, id: &ObjectId) -> bool {
        let (prefix, name) = parts(id);
        let tokens = tokens(name);
        id.resource == self.resource
            && prefix == self.prefix
            && tokens.len() == self.tokens.len()
            && self.tokens.iter().zip(tokens).all(|(token, text)| token.fits(text))
    }

    fn family(&self) -> ObjectId {
        let text = |token: &Token| match token {
            Token::Same(text) => text.clone(),
            Token::Digits | Token::Text(_) => "*".to_owned(),
        };
        let name: String = self.tokens.iter().map(text).collect();
        ObjectId { resource: Arc::clone(&self.resource), key: format!("{}{name}", self.prefix).into() }
    }
}

impl Token {
    fn of(one: &str, other: &str) -> Option<Self> {
        // From the narrowest to the widest: numbers may have different lengths, random texts have one length.
        let found = [Self::Same(one.to_owned()), Self::Digits, Self::Text(one.len())];
        found.into_iter().find(|token| token.fits(one) && token.fits(other))
    }

    fn fits(&self, text: &str) -> bool {
        match self {
            Self::Same(same) => same == text,
            Self::Digits => text.bytes().all(|byte| byte.is_ascii_digit()),
            Self::Text(length) => {
                text.len() == *length && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
            }
        }
    }
}

/// The namespace of an object with a slash, and its name.
fn parts(id: &ObjectId) -> (&str, &str) {
    id.key.split_at(id.key.rfind('/').map_or(0, |slash| slash + 1))
}

/// Words of a name, and the characters between them.
fn tokens(name: &str) -> Vec<&str> {
    let (mut tokens, mut rest) = (Vec::new(), name);
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (token, after) = rest.split_at(word.max(if word == 0 { first.len_utf8() } else { 0 }));
        tokens.push(token);
        rest = after;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::similar::Masks;

    fn world(names: &[&str]) -> World {
        let object = |name: &&str| {
            let state = ObjectState::new("maps", json!({"metadata": {"name": name}}), &Masks::default());
            (ObjectId::new("", "maps", "a", name), Arc::new(state))
        };
        World { objects: names.iter().map(object).collect(), ..World::default() }
    }

    fn families(first: &[&str], second: &[&str], names: &[&str]) -> Vec<String> {
        let learned = LearnedNames::learn(&world(first), &world(second));
        let family =
            |name: &&str| learned.family_by_name(&ObjectId::new("", "maps", "a", name)).key.to_string();
        names.iter().map(family).collect()
    }

    #[test]
    fn names_with_a_time_form_a_family() {
        let (first, second) = (["db-1767249030", "db-config"], ["db-1767335430", "db-config"]);
        let found = families(&first, &second, &["db-1767249030", "db-99", "db-config", "db-1-2", "web-1"]);
        assert_eq!(found, ["a/db-*", "a/db-*", "a/db-config", "a/db-1-2", "a/web-1"]);
    }

    #[test]
    fn random_names_form_a_family_of_one_length() {
        let (first, second) = (["db-x7k2p", "db-extra"], ["db-9fgh3", "db-extra"]);
        let found = families(&first, &second, &["db-77777", "db-extra", "db-config"]);
        assert_eq!(found, ["a/db-*", "a/db-extra", "a/db-config"]);
    }

    #[test]
    fn a_name_is_compared_with_the_most_similar_one() {
        let (first, second) = (["a-red-1", "a-blue-1"], ["a-red-2", "a-blue-2"]);
        assert_eq!(families(&first, &second, &["a-red-7", "a-blue-8"]), ["a/a-red-*", "a/a-blue-*"]);
        assert_eq!(families(&["x"], &["y.z"], &["x"]), ["a/x"], "names of different forms");
    }

    #[test]
    fn names_have_words_and_the_characters_between_them() {
        assert_eq!(tokens("db-1.a"), ["db", "-", "1", ".", "a"]);
        assert_eq!(tokens("a--b-"), ["a", "-", "-", "b", "-"]);
        assert_eq!(tokens(""), [""; 0]);
    }
}
