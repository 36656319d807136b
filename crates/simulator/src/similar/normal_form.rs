//! The normal form of a world: symbols in place of the values that differ from run to run.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use serde_json::{Map, Value};

use super::{Learned, ObjectState, World};
use crate::names::ObjectId;

/// A world with symbols in place of the values that differ from run to run: values by name of the object or remote system.
pub(crate) type NormalForm = BTreeMap<String, Value>;

/// One object or remote system on its way to the normal form.
struct Item<'w> {
    /// Root of the paths in it: the resource, or the remote system.
    root: String,
    /// Name without generated parts.
    family: String,
    /// The generated name, if it is one, and its prefix.
    generated: Option<(String, String)>,
    uid: Option<String>,
    value: &'w Value,
}

impl<'w> Item<'w> {
    fn of_object(id: &ObjectId, object: &'w ObjectState, learned: &Learned) -> Self {
        let family = learned.names.family(id, object);
        let generated = (family != *id).then(|| {
            let name = |id: &ObjectId| id.key.rsplit('/').next().unwrap_or_default().to_owned();
            (name(id), name(&family))
        });
        Self {
            root: id.resource.to_string(),
            family: family.to_string(),
            generated,
            uid: Some(object.metadata_text("uid")).filter(|uid| !uid.is_empty()).map(str::to_owned),
            value: &object.compared,
        }
    }

    fn of_remote(name: &str, state: &'w Value) -> Self {
        let name = format!("remote {name}");
        Self { root: name.clone(), family: name, generated: None, uid: None, value: state }
    }
}

/// Brings a world into its normal form.
pub(crate) fn normal_form(world: &World, learned: &Learned) -> NormalForm {
    let mut items: Vec<Item<'_>> =
        world.objects.iter().map(|(id, object)| Item::of_object(id, object, learned)).collect();
    items.extend(world.remotes.iter().map(|(name, state)| Item::of_remote(name, state)));

    // All learned values are collected first, because an object may contain a value of one that is sorted
    // after it.
    let parts = Parts::of(&items, learned);
    // Symbols that hide which object is meant, to sort the objects of a family by their other content.
    let mut neutral = Symbols::new(learned, &parts);
    for item in &items {
        if let Some(uid) = &item.uid {
            neutral.exact.insert(uid.clone(), "<uid>".to_owned());
        }
        if let Some((name, prefix)) = &item.generated {
            neutral.within.insert(name.clone(), prefix.clone());
        }
    }
    neutral.is_neutral = true;
    let mut sorted: Vec<(String, Item<'_>)> =
        items.into_iter().map(|item| (neutral.replace(item.value, &item.root).to_string(), item)).collect();
    sorted.sort_by(|(content, item), (other_content, other)| {
        (&item.family, content).cmp(&(&other.family, other_content))
    });

    let mut symbols = Symbols::new(learned, &parts);
    let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
    let mut named: Vec<(String, Item<'_>)> = Vec::new();
    // All names and uids get their symbols before the first value is replaced, because objects may refer to
    // later ones.
    for (_, item) in sorted {
        let label = match &item.generated {
            Some((name, prefix)) => {
                let number = numbers.entry(item.family.clone()).or_default();
                *number += 1;
                symbols.within.insert(name.clone(), format!("{prefix}#{number}"));
                format!("{}#{number}", item.family)
            }
            None => item.family.clone(),
        };
        if let Some(uid) = &item.uid {
            symbols.exact.insert(uid.clone(), format!("<uid of {label}>"));
        }
        named.push((label, item));
    }
    named
        .into_iter()
        .map(|(label, item)| {
            let value = symbols.replace(item.value, &item.root);
            (label, value)
        })
        .collect()
}

/// Symbols for values that differ from run to run.
struct Symbols<'l> {
    learned: &'l Learned,
    parts: &'l Parts,
    /// Symbols of whole strings.
    exact: BTreeMap<String, String>,
    /// Symbols of strings that may be part of others.
    within: BTreeMap<String, String>,
    /// Number of symbols given to values at learned places.
    given_ids: usize,
    /// Number of symbols given to uids of objects that do not exist.
    given_uids: usize,
    /// Gives the same symbol to all values of one sort.
    is_neutral: bool,
}

impl<'l> Symbols<'l> {
    fn new(learned: &'l Learned, parts: &'l Parts) -> Self {
        let (exact, within) = (BTreeMap::new(), BTreeMap::new());
        Self { learned, parts, exact, within, given_ids: 0, given_uids: 0, is_neutral: false }
    }

    fn replace(&mut self, value: &Value, path: &str) -> Value {
        match value {
            Value::Object(fields) if self.learned.keyed.contains(path) => self.replace_keyed(fields, path),
            Value::Object(fields) => {
                let replace = |(name, field): (&String, &Value)| {
                    let inner = format!("{path}/{name}");
                    (self.text(name), self.replace(field, &inner))
                };
                Value::Object(fields.iter().map(replace).collect())
            }
            Value::Array(items) => {
                let inner = format!("{path}/-");
                Value::Array(items.iter().map(|item| self.replace(item, &inner)).collect())
            }
            scalar if self.learned.leaves.contains(path) => {
                let text = plain(scalar);
                let symbol = match self.learned.opaque.contains(path) {
                    true => self.learned_symbol(&text),
                    false => self.symbol_with_parts(&text),
                };
                Value::String(symbol)
            }
            Value::String(text) => Value::String(self.text(text)),
            scalar => scalar.clone(),
        }
    }

    /// Replaces the keys of a map by symbols. Keys without one get it in the order of their values.
    fn replace_keyed(&mut self, fields: &Map<String, Value>, path: &str) -> Value {
        let inner = format!("{path}/*");
        let mut entries: Vec<(String, &String, &Value)> = fields
            .iter()
            .map(|(key, value)| {
                let mut neutral = Symbols::new(self.learned, self.parts);
                neutral.is_neutral = true;
                // Keys with a known symbol are sorted by it, so that the order does not depend on the
                // generated text.
                let known = self.exact.get(key).cloned().unwrap_or_default();
                (format!("{known} {}", neutral.replace(value, &inner)), key, value)
            })
            .collect();
        entries.sort_by(|(content, key, _), (other, other_key, _)| (content, key).cmp(&(other, other_key)));
        let replace = |(_, key, value): (String, &String, &Value)| {
            (self.learned_symbol(key), self.replace(value, &inner))
        };
        Value::Object(entries.into_iter().map(replace).collect())
    }

    fn learned_symbol(&mut self, text: &str) -> String {
        if self.is_neutral {
            return "<id>".to_owned();
        }
        if let Some(known) = self.exact.get(text) {
            return known.clone();
        }
        self.given_ids += 1;
        let symbol = format!("<id {}>", self.given_ids);
        self.exact.insert(text.to_owned(), symbol.clone());
        symbol
    }

    /// Replaces the learned values and uids in a text, such as the password in a connection string, or all of it if there are none.
    fn symbol_with_parts(&mut self, text: &str) -> String {
        if self.is_neutral || self.exact.contains_key(text) {
            return self.learned_symbol(text);
        }
        let (mut replaced, mut rest) = (String::new(), text);
        while let Some((start, part)) = self.parts.first_in(rest, text.len()) {
            replaced.push_str(&rest[..start]);
            rest = &rest[start + part.len()..];
            replaced.push_str(&self.symbol_with_parts(part));
        }
        // No learned part is in the text, so the whole text is the generated value.
        if replaced.is_empty() {
            return self.learned_symbol(text);
        }
        replaced + rest
    }

    fn text(&mut self, text: &str) -> String {
        if let Some(symbol) = self.exact.get(text) {
            return symbol.clone();
        }
        if is_uuid(text) {
            if self.is_neutral {
                return "<uid>".to_owned();
            }
            self.given_uids += 1;
            // The object does not exist in this world, but two references to it must still be equal.
            let symbol = format!("<uid of something gone {}>", self.given_uids);
            self.exact.insert(text.to_owned(), symbol.clone());
            return symbol;
        }
        let mut text = text.to_owned();
        for (part, symbol) in &self.within {
            if text.contains(part) {
                text = text.replace(part, symbol);
            }
        }
        text
    }
}

/// Symbols of learned values in a part of a normal form, such as `<id 1>`.
pub(crate) fn ids_in(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Object(fields) => fields.values().flat_map(ids_in).collect(),
        Value::Array(items) => items.iter().flat_map(ids_in).collect(),
        Value::String(text) => {
            let starts = text.split("<id ").skip(1);
            let numbers = starts.filter_map(|rest| rest.split_once('>')?.0.parse::<u32>().ok());
            numbers.map(|number| format!("<id {number}>")).collect()
        }
        _ => BTreeSet::new(),
    }
}

/// Values that differ from run to run and that other texts may contain, by their first bytes; the longest first.
struct Parts(BTreeMap<[u8; SHORTEST_PART], Vec<String>>);

/// Minimum number of bytes of a value that is looked for in other texts: a shorter one may be there by accident.
const SHORTEST_PART: usize = 8;

impl Parts {
    /// Collects the values at learned places, and the uids of objects.
    fn of(items: &[Item<'_>], learned: &Learned) -> Self {
        let mut values = BTreeSet::new();
        if !learned.leaves.is_empty() {
            // Without learned places no text is split into parts, so the uids are not needed either.
            values.extend(items.iter().filter_map(|item| item.uid.clone()));
            items.iter().for_each(|item| add_learned(item.value, &item.root, learned, &mut values));
        }
        let mut parts = BTreeMap::<_, Vec<String>>::new();
        for value in values {
            if let Some(first) = value.as_bytes().first_chunk() {
                parts.entry(*first).or_default().push(value);
            }
        }
        parts.values_mut().for_each(|values| values.sort_by_key(|value| Reverse(value.len())));
        Self(parts)
    }

    /// Returns the first part in a text that is shorter than `limit`, and its place.
    fn first_in(&self, text: &str, limit: usize) -> Option<(usize, &str)> {
        (0..text.len()).find_map(|start| {
            let rest = &text.as_bytes()[start..];
            let known = self.0.get(rest.first_chunk()?)?;
            // The limit keeps a text from being a part of itself, which would recurse without end.
            let part = known.iter().find(|part| part.len() < limit && rest.starts_with(part.as_bytes()))?;
            Some((start, &**part))
        })
    }
}

/// Adds the values at learned places.
fn add_learned(value: &Value, path: &str, learned: &Learned, values: &mut BTreeSet<String>) {
    if !learned.reaches_into(path) {
        return;
    }
    match value {
        Value::Object(fields) => {
            let is_keyed = learned.keyed.contains(path);
            for (name, field) in fields {
                if is_keyed {
                    values.insert(name.clone());
                }
                let inner = if is_keyed { "*" } else { name };
                add_learned(field, &format!("{path}/{inner}"), learned, values);
            }
        }
        Value::Array(items) => {
            let inner = format!("{path}/-");
            items.iter().for_each(|item| add_learned(item, &inner, learned, values));
        }
        scalar if learned.leaves.contains(path) => drop(values.insert(plain(scalar))),
        _ => {}
    }
}

/// Text of a scalar, equal for the number and the string of one id.
fn plain(scalar: &Value) -> String {
    scalar.as_str().map_or_else(|| scalar.to_string(), str::to_owned)
}

fn is_uuid(text: &str) -> bool {
    let is_dash = |place: usize| matches!(place, 8 | 13 | 18 | 23);
    let fits =
        |(place, byte): (usize, &u8)| if is_dash(place) { *byte == b'-' } else { byte.is_ascii_hexdigit() };
    text.len() == 36 && text.as_bytes().iter().enumerate().all(fits)
}
