//! The normal form of a world: symbols in place of the values that differ from run to run.

use std::collections::BTreeMap;

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
    fn of_object(id: &ObjectId, object: &'w ObjectState) -> Self {
        let family = id.family(object.metadata_text("generateName"));
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
        world.objects.iter().map(|(id, object)| Item::of_object(id, object)).collect();
    items.extend(world.remotes.iter().map(|(name, state)| Item::of_remote(name, state)));

    // Symbols that hide which object is meant, to sort the objects of a family by their other content.
    let mut neutral = Symbols::new(learned);
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

    let mut symbols = Symbols::new(learned);
    let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
    let mut named: Vec<(String, Item<'_>)> = Vec::new();
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
    /// Symbols of whole strings.
    exact: BTreeMap<String, String>,
    /// Symbols of strings that may be part of others.
    within: BTreeMap<String, String>,
    /// Number of symbols given to learned places, and to uids of objects that do not exist.
    given: (usize, usize),
    /// Gives the same symbol to all values of one sort.
    is_neutral: bool,
}

impl<'l> Symbols<'l> {
    fn new(learned: &'l Learned) -> Self {
        Self { learned, exact: BTreeMap::new(), within: BTreeMap::new(), given: (0, 0), is_neutral: false }
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
                Value::String(self.learned_symbol(&plain(scalar)))
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
                let mut neutral = Symbols::new(self.learned);
                neutral.is_neutral = true;
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
        self.given.0 += 1;
        let symbol = format!("<id {}>", self.given.0);
        self.exact.insert(text.to_owned(), symbol.clone());
        symbol
    }

    fn text(&mut self, text: &str) -> String {
        if let Some(symbol) = self.exact.get(text) {
            return symbol.clone();
        }
        if is_uuid(text) {
            if self.is_neutral {
                return "<uid>".to_owned();
            }
            self.given.1 += 1;
            let symbol = format!("<uid of something gone {}>", self.given.1);
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
