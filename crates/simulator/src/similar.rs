//! Comparison of two worlds up to renaming.
//!
//! Two runs of one operator rarely end in equal objects: uids, generated names, times and ids of remote systems differ. These values
//! may differ, but equalities between them count: an owner reference must hold the uid of the owner, wherever it was
//! created. So a world is brought into a normal form in which such values are replaced by symbols, which are numbered in an order
//! that does not depend on the values. Which other values differ from run to run is [learned](Learned) from two runs without
//! faults.
//!
//! Not compared: versions, `managedFields`, generations (but `observedGeneration` relative to them), times, Events, leases.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::names::ObjectId;

/// Objects at one moment: those that were created or changed since the start of the run, and exist.
pub(crate) type Objects = BTreeMap<ObjectId, Arc<Value>>;

/// Objects and states of remote systems at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    pub(crate) objects: Objects,
    /// States by name of the remote system.
    pub(crate) remotes: BTreeMap<Arc<str>, Value>,
    /// Objects that are not compared, such as leases, for checks.
    pub(crate) uncompared: Objects,
}

/// Fields that are not compared, by resource: paths of names, such as `["status", "lastProbe"]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Masks(BTreeMap<String, Vec<Vec<String>>>);

impl Masks {
    /// Adds the field that a JSON pointer names.
    ///
    /// # Errors
    ///
    /// `pointer` is not a JSON pointer to a field.
    pub(crate) fn add(&mut self, resource: String, pointer: &str) -> Result<(), String> {
        let names = pointer.strip_prefix('/').filter(|names| !names.is_empty());
        let names = names.ok_or_else(|| {
            format!(
                "{pointer:?} is not a JSON pointer to a field, which is, for example, \"/status/lastProbe\""
            )
        })?;
        let plain = |name: &str| name.replace("~1", "/").replace("~0", "~");
        self.0.entry(resource).or_default().push(names.split('/').map(plain).collect());
        Ok(())
    }

    /// Fields as text, for reports.
    pub(crate) fn texts(&self) -> impl Iterator<Item = String> {
        let texts = |(resource, fields): (&String, &Vec<Vec<String>>)| {
            let resource = resource.clone();
            let text = move |names: &Vec<String>| format!("{resource} /{}", names.join("/"));
            fields.iter().map(text).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(texts)
    }

    fn remove_from(&self, resource: &str, object: &mut Value) {
        for names in self.0.get(resource).into_iter().flatten() {
            let Some((last, before)) = names.split_last() else { continue };
            let parent = before.iter().try_fold(&mut *object, |value, name| value.get_mut(name));
            if let Some(fields) = parent.and_then(Value::as_object_mut) {
                fields.remove(last);
            }
        }
    }
}

/// Places with values that differ from run to run, as patterns of paths such as `buckets.example.com/status/id`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Learned {
    /// Fields that are not compared at all.
    masks: Masks,
    /// Scalars.
    leaves: BTreeSet<String>,
    /// Maps with keys that differ.
    keyed: BTreeSet<String>,
}

/// A world with symbols in place of the values that differ from run to run: values by name of the object or remote system.
pub(crate) type NormalForm = BTreeMap<String, Value>;

/// A difference between two worlds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Difference {
    /// Only the world without faults has it.
    Missing(String),
    /// Only the world with faults has it.
    Extra(String),
    /// A value differs.
    Value { name: String, path: String, expected: Option<Value>, found: Option<Value> },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "{name} is missing"),
            Self::Extra(name) => write!(f, "{name} is left over"),
            Self::Value { name, path, expected, found } => {
                write!(f, "{name} has {path} = {}, ", short(found.as_ref()))?;
                write!(f, "the run without faults has {}", short(expected.as_ref()))
            }
        }
    }
}

/// Text of a value in a message.
fn short(value: Option<&Value>) -> String {
    let text = value.map_or_else(|| "nothing".to_owned(), ToString::to_string);
    if text.chars().count() <= 60 { text } else { text.chars().take(57).chain("...".chars()).collect() }
}

/// Returns an object without the fields that change with every write and those that are masked, and with times replaced by a symbol.
pub(crate) fn without_volatile_fields(resource: &str, object: &Value, masks: &Masks) -> Value {
    let mut object = object.clone();
    masks.remove_from(resource, &mut object);
    let generation = object["metadata"]["generation"].clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["resourceVersion", "managedFields", "generation", "creationTimestamp", "selfLink"] {
            metadata.remove(field);
        }
    }
    mask(&mut object, &generation);
    object
}

/// Replaces times, and `observedGeneration` by its relation to the generation.
fn mask(value: &mut Value, generation: &Value) {
    match value {
        Value::String(text) if is_time(text) => *value = json!("<time>"),
        Value::Array(items) => items.iter_mut().for_each(|item| mask(item, generation)),
        Value::Object(fields) => {
            for (name, field) in fields {
                if name == "observedGeneration" && field == generation {
                    *field = json!("<current>");
                } else if name == "observedGeneration" {
                    *field = json!("<outdated>");
                } else {
                    mask(field, generation);
                }
            }
        }
        _ => {}
    }
}

fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 20 && bytes[4] == b'-' && bytes[10] == b'T' && text.parse::<Timestamp>().is_ok()
}

fn is_uuid(text: &str) -> bool {
    let is_dash = |place: usize| matches!(place, 8 | 13 | 18 | 23);
    let fits =
        |(place, byte): (usize, &u8)| if is_dash(place) { *byte == b'-' } else { byte.is_ascii_hexdigit() };
    text.len() == 36 && text.as_bytes().iter().enumerate().all(fits)
}

/// One object or remote system on its way to the normal form.
struct Item {
    /// Root of the paths in it: the resource, or the remote system.
    root: String,
    /// Name without generated parts.
    family: String,
    /// The generated name, if it is one, and its prefix.
    generated: Option<(String, String)>,
    uid: Option<String>,
    value: Value,
}

impl Item {
    fn of_object(id: &ObjectId, object: &Value, masks: &Masks) -> Self {
        let family = id.family(object);
        let generated = (family != *id).then(|| {
            let name = |id: &ObjectId| id.key.rsplit('/').next().unwrap_or_default().to_owned();
            (name(id), name(&family))
        });
        Self {
            root: id.resource.clone(),
            family: family.to_string(),
            generated,
            uid: object["metadata"]["uid"].as_str().map(str::to_owned),
            value: without_volatile_fields(&id.resource, object, masks),
        }
    }

    fn of_remote(name: &str, state: &Value) -> Self {
        let name = format!("remote {name}");
        Self { root: name.clone(), family: name, generated: None, uid: None, value: state.clone() }
    }
}

/// Brings a world into its normal form.
pub(crate) fn normal_form(world: &World, learned: &Learned) -> NormalForm {
    let of_object = |(id, object): (&ObjectId, &Arc<Value>)| Item::of_object(id, object, &learned.masks);
    let mut items: Vec<Item> = world.objects.iter().map(of_object).collect();
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
    let mut sorted: Vec<(String, Item)> =
        items.into_iter().map(|item| (neutral.replace(&item.value, &item.root).to_string(), item)).collect();
    sorted.sort_by(|(content, item), (other_content, other)| {
        (&item.family, content).cmp(&(&other.family, other_content))
    });

    let mut symbols = Symbols::new(learned);
    let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
    let mut named: Vec<(String, Item)> = Vec::new();
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
            let value = symbols.replace(&item.value, &item.root);
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

/// Maximum number of passes of [`learn`]: each one finds places that the one before made comparable.
const PASSES: usize = 4;

/// Finds the places at which two runs without faults differ.
///
/// # Errors
///
/// The differences that are not of single values.
pub(crate) fn learn(first: &World, second: &World, masks: &Masks) -> Result<Learned, Vec<Difference>> {
    let mut learned = Learned::masking(masks);
    for _ in 0..PASSES {
        let (one, other) = (normal_form(first, &learned), normal_form(second, &learned));
        if one == other {
            return Ok(learned);
        }
        let before = learned.clone();
        for (label, value) in &one {
            let root = label.split(' ').next().filter(|root| *root != "remote").unwrap_or(label);
            if let Some(other) = other.get(label) {
                learned.add(value, other, root);
            }
        }
        if learned == before {
            break;
        }
    }
    let differences = compare(&normal_form(first, &learned), &normal_form(second, &learned));
    if differences.is_empty() { Ok(learned) } else { Err(differences) }
}

impl Learned {
    /// Nothing learned yet.
    pub(crate) fn masking(masks: &Masks) -> Self {
        Self { masks: masks.clone(), ..Self::default() }
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.leaves.extend(other.leaves);
        self.keyed.extend(other.keyed);
    }

    fn add(&mut self, one: &Value, other: &Value, path: &str) {
        match (one, other) {
            (Value::Object(fields), Value::Object(others)) => {
                if fields.len() == others.len() && fields.keys().ne(others.keys()) {
                    self.keyed.insert(path.to_owned());
                    return;
                }
                for (name, field) in fields {
                    if let Some(other) = others.get(name) {
                        let inner = if self.keyed.contains(path) { "*" } else { name };
                        self.add(field, other, &format!("{path}/{inner}"));
                    }
                }
            }
            (Value::Array(items), Value::Array(others)) => {
                let inner = format!("{path}/-");
                items.iter().zip(others).for_each(|(item, other)| self.add(item, other, &inner));
            }
            (Value::Null, _) | (_, Value::Null) => {}
            (one, other) if one != other && !is_container(one) && !is_container(other) => {
                self.leaves.insert(path.to_owned());
            }
            _ => {}
        }
    }
}

fn is_container(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

/// Returns the differences of a world from the one without faults.
pub(crate) fn compare(expected: &NormalForm, found: &NormalForm) -> Vec<Difference> {
    let mut differences = Vec::new();
    for (name, value) in expected {
        match found.get(name) {
            None => differences.push(Difference::Missing(name.clone())),
            Some(other) => compare_values(name, "", value, other, &mut differences),
        }
    }
    let extra = found.keys().filter(|name| !expected.contains_key(*name));
    differences.extend(extra.map(|name| Difference::Extra(name.clone())));
    differences
}

fn compare_values(name: &str, path: &str, expected: &Value, found: &Value, all: &mut Vec<Difference>) {
    let differs = |path: &str, expected: Option<&Value>, found: Option<&Value>| Difference::Value {
        name: name.to_owned(),
        path: path.to_owned(),
        expected: expected.cloned(),
        found: found.cloned(),
    };
    if expected == found {
        return;
    }
    let (Value::Object(fields), Value::Object(others)) = (expected, found) else {
        return all.push(differs(path, Some(expected), Some(found)));
    };
    let keys: BTreeSet<&String> = fields.keys().chain(others.keys()).collect();
    for key in keys {
        let path = format!("{path}.{key}");
        match (fields.get(key), others.get(key)) {
            (Some(field), Some(other)) => compare_values(name, &path, field, other, all),
            (field, other) => all.push(differs(&path, field, other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "`json!` returns values")]
    fn object(name: &str, uid: u64, rest: Value) -> (ObjectId, Arc<Value>) {
        let uid = format!("00000000-0000-0000-0000-{uid:012}");
        let mut object =
            json!({"metadata": {"name": name, "namespace": "a", "uid": uid, "resourceVersion": "7"}});
        for (field, value) in rest.as_object().unwrap() {
            match (object.get_mut(field).and_then(Value::as_object_mut), value) {
                (Some(known), Value::Object(more)) => known.extend(more.clone()),
                _ => object[field] = value.clone(),
            }
        }
        (ObjectId::new("", "configmaps", "a", name), Arc::new(object))
    }

    fn world(objects: impl IntoIterator<Item = (ObjectId, Arc<Value>)>) -> World {
        World { objects: objects.into_iter().collect(), ..World::default() }
    }

    fn owned_by(uid: u64) -> Value {
        let uid = format!("00000000-0000-0000-0000-{uid:012}");
        json!({"metadata": {"ownerReferences": [{"uid": uid}]}})
    }

    #[expect(clippy::needless_pass_by_value, reason = "`expect!` returns values")]
    fn check(expected: World, found: World, differences: Expect) {
        let learned = Learned::default();
        let found = compare(&normal_form(&expected, &learned), &normal_form(&found, &learned));
        let text: Vec<String> = found.iter().map(ToString::to_string).collect();
        differences.assert_eq(&text.join("\n"));
    }

    #[test]
    fn uids_may_differ_but_references_must_lead_to_the_same_object() {
        let with = |parent, child, owner| {
            world([object("p", parent, json!({})), object("c", child, owned_by(owner))])
        };
        check(with(1, 2, 1), with(8, 9, 8), expect![""]);
        check(
            with(1, 2, 1),
            with(1, 2, 7),
            expect![[
                r#"configmaps a/c has .metadata.ownerReferences = [{"uid":"<uid of something gone 1>"}], the run without faults has [{"uid":"<uid of configmaps a/p>"}]"#
            ]],
        );
    }

    #[test]
    fn generated_names_may_differ_but_their_number_and_content_must_not() {
        let page = |name: &str, uid, text: &str| {
            let rest = json!({"metadata": {"generateName": "page-"}, "data": {"text": text}});
            object(&format!("page-{name}"), uid, rest)
        };
        let names = |name: &str| object("site", 9, json!({"data": {"page": format!("a/page-{name}")}}));
        let expected = || world([page("x", 1, "one"), page("y", 2, "two"), names("y")]);
        check(expected(), world([page("b", 1, "two"), page("c", 2, "one"), names("b")]), expect![""]);
        check(
            expected(),
            world([page("b", 1, "two"), page("c", 2, "one"), names("c")]),
            expect![[
                r#"configmaps a/site has .data.page = "a/page-*#1", the run without faults has "a/page-*#2""#
            ]],
        );
        check(
            expected(),
            world([page("b", 1, "two"), page("c", 2, "one"), page("d", 3, "two"), names("b")]),
            expect!["configmaps a/page-*#3 is left over"],
        );
    }

    #[test]
    fn times_and_versions_are_not_compared_and_the_observed_generation_is_by_its_relation() {
        let site = |generation: i64, observed: i64, at: &str| {
            let rest = json!({
                "metadata": {"generation": generation, "creationTimestamp": at},
                "status": {"observedGeneration": observed, "at": at},
            });
            world([object("site", 1, rest)])
        };
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00.5Z");
        check(site(1, 1, early), site(3, 3, late), expect![""]);
        check(
            site(2, 2, early),
            site(2, 1, late),
            expect![[
                r#"configmaps a/site has .status.observedGeneration = "<outdated>", the run without faults has "<current>""#
            ]],
        );
    }

    #[test]
    fn ids_of_remote_systems_are_learned_and_must_be_the_same_in_both_places() {
        let bucket = |status: u64, remote: &[u64]| World {
            objects: BTreeMap::from([object("b", 1, json!({"status": {"id": status}}))]),
            remotes: BTreeMap::from([(
                Arc::from("cloud"),
                json!({"buckets": remote.iter().map(|id| (id.to_string(), json!("b"))).collect::<Map<_, _>>()}),
            )]),
            ..World::default()
        };
        let learned = learn(&bucket(11, &[11]), &bucket(22, &[22]), &Masks::default()).unwrap();
        let compared = |world: World| {
            let found = compare(&normal_form(&bucket(11, &[11]), &learned), &normal_form(&world, &learned));
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(compared(bucket(33, &[33])), [""; 0]);
        assert_eq!(
            compared(bucket(33, &[44])),
            [
                r#"remote cloud has .buckets.<id 1> = nothing, the run without faults has "b""#,
                r#"remote cloud has .buckets.<id 2> = "b", the run without faults has nothing"#
            ]
        );
        assert_eq!(
            compared(bucket(33, &[33, 44])),
            [r#"remote cloud has .buckets.<id 2> = "b", the run without faults has nothing"#]
        );
    }

    #[test]
    fn a_field_without_a_value_is_not_an_absent_one() {
        let with = |data: Value| world([object("x", 1, json!({"data": data}))]);
        check(
            with(json!({})),
            with(json!({"a": null})),
            expect!["configmaps a/x has .data.a = null, the run without faults has nothing"],
        );
    }

    #[test]
    fn masked_fields_are_not_compared() {
        let mut masks = Masks::default();
        masks.add("configmaps".to_owned(), "/data/last~1probe").unwrap();
        let of = |probe: &str, text: &str| {
            world([object("x", 1, json!({"data": {"last/probe": probe, "text": text}}))])
        };
        let learned = Learned::masking(&masks);
        let differences = |one: &World, other: &World| {
            compare(&normal_form(one, &learned), &normal_form(other, &learned)).len()
        };
        assert_eq!(differences(&of("1", "a"), &of("2", "a")), 0);
        assert_eq!(differences(&of("1", "a"), &of("1", "b")), 1);
        assert_eq!(masks.texts().collect::<Vec<_>>(), ["configmaps /data/last/probe"]);
        for wrong in ["", "/", "data", ".data"] {
            assert!(
                masks.add(String::new(), wrong).unwrap_err().contains("is not a JSON pointer"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn worlds_with_other_objects_cannot_be_learned() {
        let differences =
            learn(&world([object("x", 1, json!({}))]), &world([]), &Masks::default()).unwrap_err();
        assert_eq!(differences, [Difference::Missing("configmaps a/x".to_owned())]);
    }

    proptest! {
        #[test]
        fn a_renamed_world_is_equal(
            texts in prop::collection::vec("[a-c]{1,2}", 1..6),
            shift in 0_u64..1000,
            names in prop::collection::btree_set("[d-z]{5}", 6),
        ) {
            let names: Vec<String> = names.into_iter().collect();
            let of = |shift: u64, name: &dyn Fn(usize) -> String| {
                world(texts.iter().enumerate().map(|(place, text)| {
                    let mut rest = owned_by(shift + 10 + (place as u64 + 1) % texts.len() as u64);
                    rest["metadata"]["generateName"] = json!("page-");
                    rest["data"] = json!({"text": text});
                    object(&format!("page-{}", name(place)), shift + 10 + place as u64, rest)
                }))
            };
            // References form a ring, so the order is fixed by contents only if these differ.
            let distinct = texts.iter().collect::<BTreeSet<_>>().len() == texts.len();
            prop_assume!(distinct);
            let first = normal_form(&of(0, &|place| names[place].clone()), &Learned::default());
            let last = names.len() - 1;
            let second = normal_form(&of(shift, &|place| names[last - place].clone()), &Learned::default());
            prop_assert!(compare(&first, &second).is_empty(), "{first:?} {second:?}");
        }
    }
}
