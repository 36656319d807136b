//! Changes of the schema of a version.

use std::{collections::BTreeSet, sync::LazyLock};

use serde_json::{Map, Value};

use super::{
    Level, Report, Rule, bounds,
    definition::{list, text},
};

/// Schema of a field that the other definition lacks.
static EMPTY: Value = Value::Null;

/// Compares the schemas of one version in two definitions.
pub(super) fn compare(report: &mut Report, old: &Value, new: &Value) {
    Walk { report }.node(old, new, "", EnclosingKeywords::default());
}

/// Walk over two schemas.
struct Walk<'r> {
    report: &'r mut Report,
}

/// Keywords of the schemas above a field that a new default in it may violate.
#[derive(Debug, Clone, Copy, Default)]
struct EnclosingKeywords {
    /// An enum, a set or a composition compares whole values, so a new field makes a value differ.
    compares_values: bool,
    /// The number of fields is limited, so a new field may exceed the limit.
    counts_fields: bool,
}

impl EnclosingKeywords {
    fn is_strict(self) -> bool {
        self.compares_values || self.counts_fields
    }
}

impl Walk<'_> {
    /// Compares the old and the new schema of the field at `path`.
    fn node(&mut self, old: &Value, new: &Value, path: &str, above: EnclosingKeywords) {
        if old == new {
            return;
        }
        if type_of(old) != type_of(new) {
            // All other differences follow from the other type.
            if type_of(new) != "any value" {
                let fact = format!("is {} instead of {}", type_of(new), type_of(old));
                let advice =
                    "stored objects with it are refused, and clients cannot decode it. Add another field";
                self.report.add(Rule::TypeChanged, path, fact, advice);
                return;
            }
            let fact = format!("is {} instead of {}", type_of(new), type_of(old));
            self.report.add(Rule::TypeChanged, path, fact, "clients cannot decode it. Add another field");
        }
        self.values(old, new, path);
        bounds::compare(self.report, path, old, new);
        self.default(old, new, path, above);
        // A limit on the number of fields only counts the fields of this object, but a comparison of values also those further inside.
        let compares_values = above.compares_values || compares_values(new);
        let above = EnclosingKeywords { compares_values, counts_fields: new.get("maxProperties").is_some() };
        self.compositions(old, new, path);
        self.rules(old, new, path);
        self.merging(old, new, path);
        self.fields(old, new, path, above);
        if let Some(new_items) = new.get("items") {
            let is_set = new["x-kubernetes-list-type"] == "set";
            let compares_values = above.compares_values || is_set;
            let above = EnclosingKeywords { compares_values, counts_fields: false };
            self.node(old.get("items").unwrap_or(&EMPTY), new_items, &format!("{path}[*]"), above);
        }
    }

    /// Allowed values: enum, pattern, format, null.
    fn values(&mut self, old: &Value, new: &Value, path: &str) {
        let (was, is) = (old.get("enum").map(list), new.get("enum").map(list));
        match (was, is) {
            (None, Some(is)) => {
                let fact = format!("allows only {}", texts(is));
                self.report.add(Rule::EnumAdded, path, fact, "other values are refused. Remove the enum");
            }
            (Some(_), None) => {
                let advice = "clients that expect one of the old values may meet others";
                self.report.add(Rule::EnumRemoved, path, "allows every value", advice);
            }
            (Some(was), Some(is)) => {
                let only = |left: &[Value], right: &[Value]| -> Vec<Value> {
                    left.iter().filter(|value| !right.contains(value)).cloned().collect()
                };
                let (gone, added) = (only(was, is), only(is, was));
                if !gone.is_empty() {
                    let advice = "objects with it are refused. Keep it";
                    let fact = format!("does not allow {}", texts(&gone));
                    self.report.add(Rule::EnumValueRemoved, path, fact, advice);
                }
                if !added.is_empty() {
                    let advice = "clients that know the old values alone may fail";
                    let fact = format!("allows {}", texts(&added));
                    self.report.add(Rule::EnumValueAdded, path, fact, advice);
                }
            }
            (None, None) => {}
        }
        match (word(old, "pattern"), word(new, "pattern")) {
            (was, is) if was == is => {}
            (None, Some(is)) => {
                let advice = "other values are refused. Remove the pattern";
                self.report.add(Rule::PatternAdded, path, format!("must match {is}"), advice);
            }
            (Some(was), Some(is)) => {
                let advice = "values that match the old pattern alone are refused. Keep it";
                let fact = format!("must match {is} instead of {was}");
                self.report.add(Rule::PatternChanged, path, fact, advice);
            }
            (was, None) => {
                let fact = format!("need not match {}", was.unwrap_or_default());
                self.report.add(Rule::PatternRemoved, path, fact, "clients may meet other values");
            }
        }
        let (was, is) = (word(old, "format"), word(new, "format"));
        if let Some(is) = is
            && was != Some(is)
            && !matches!((was, is), (Some("int32"), "int64") | (Some("float"), "double"))
        {
            let fact = match was {
                Some(was) => format!("has format {is} instead of {was}"),
                None => format!("has format {is}"),
            };
            self.report.add(
                Rule::FormatChanged,
                path,
                fact,
                "values in another format are refused. Remove the format",
            );
        }
        match (old["nullable"] == true, new["nullable"] == true) {
            (true, false) => {
                let advice = "objects with null are refused. Keep nullable: true";
                self.report.add(Rule::NullableRemoved, path, "does not allow null", advice);
            }
            (false, true) => {
                let advice = "clients that do not expect null may fail";
                self.report.add(Rule::NullableAdded, path, "allows null", advice);
            }
            _ => {}
        }
    }

    fn default(&mut self, old: &Value, new: &Value, path: &str, above: EnclosingKeywords) {
        match (old.get("default"), new.get("default")) {
            (Some(was), Some(is)) if was != is => {
                let fact = format!("has default {} instead of {}", text(is), text(was));
                let advice = "objects without it change their meaning. Keep the default";
                self.report.add(Rule::DefaultChanged, path, fact, advice);
            }
            (Some(was), None) => {
                let fact = format!("has no default; it was {}", text(was));
                self.report.add(Rule::DefaultRemoved, path, fact, "objects may lack it. Keep the default");
            }
            (None, Some(is)) => self.default_added(path, is, above),
            _ => {}
        }
    }

    /// Reports a new default. It adds a field to stored objects, which another keyword may forbid.
    fn default_added(&mut self, path: &str, default: &Value, above: EnclosingKeywords) {
        let fact = format!("has default {}", text(default));
        if above.is_strict() {
            let advice = "stored objects get it, and an enum, a set, a composition or maxProperties above it may refuse them. Remove the default";
            self.report.add_with(Level::Error, Rule::DefaultAdded, path, fact, advice);
        } else {
            let advice = "objects without it, which meant something else before, have it from now on";
            self.report.add(Rule::DefaultAdded, path, fact, advice);
        }
    }

    fn compositions(&mut self, old: &Value, new: &Value, path: &str) {
        let lacks = |all: &[Value], some: &[Value]| some.iter().any(|branch| !all.contains(branch));
        let branches = |schema: &'static str| (list(&old[schema]), list(&new[schema]));
        let (was_all, is_all) = branches("allOf");
        let (was_any, is_any) = branches("anyOf");
        let (was_one, is_one) = branches("oneOf");
        let (was_not, is_not) = (old.get("not"), new.get("not"));
        for (keyword, is_tighter) in [
            ("allOf", lacks(was_all, is_all)),
            ("anyOf", !is_any.is_empty() && (was_any.is_empty() || lacks(is_any, was_any))),
            ("oneOf", !is_one.is_empty() && (lacks(was_one, is_one) || lacks(is_one, was_one))),
            ("not", is_not.is_some() && was_not != is_not),
        ] {
            if is_tighter {
                let fact = format!("has another {keyword}");
                let advice = "objects that satisfy the old one alone are refused. Keep it";
                self.report.add(Rule::CompositionChanged, path, fact, advice);
            }
        }
    }

    /// Compares CEL rules.
    fn rules(&mut self, old: &Value, new: &Value, path: &str) {
        let key = |rule: &Value| (rule["rule"].clone(), rule["optionalOldSelf"] == true);
        let was: Vec<_> = list(&old["x-kubernetes-validations"]).iter().map(key).collect();
        for rule in list(&new["x-kubernetes-validations"]) {
            if was.contains(&key(rule)) {
                continue;
            }
            let source = text(&rule["rule"]);
            let advice = if source.contains("oldSelf") {
                "updates that it refuses fail, also of objects that were stored before"
            } else {
                "new objects and changed values must satisfy it; unchanged values of stored objects need not"
            };
            self.report.add(Rule::CelAdded, path, format!("has the rule {source}"), advice);
        }
    }

    /// Compares how lists and maps are merged.
    fn merging(&mut self, old: &Value, new: &Value, path: &str) {
        let keys = |schema: &Value| -> BTreeSet<String> {
            list(&schema["x-kubernetes-list-map-keys"]).iter().map(text).collect()
        };
        for (keyword, default) in
            [("x-kubernetes-list-type", "atomic"), ("x-kubernetes-map-type", "granular")]
        {
            let (was, is) = (word(old, keyword).unwrap_or(default), word(new, keyword).unwrap_or(default));
            let is_map = keyword == "x-kubernetes-list-type" && is == "map" && was == "map";
            if was != is {
                let fact = format!("has {keyword} {is} instead of {was}");
                let advice = "appliers merge it in another way, and duplicates may be refused. Keep it";
                self.report.add(Rule::ListTypeChanged, path, fact, advice);
            } else if is_map && keys(old) != keys(new) {
                let fact = format!("has {keyword} map by {:?} instead of {:?}", keys(new), keys(old));
                let advice = "appliers merge it in another way, and duplicates may be refused. Keep the keys";
                self.report.add(Rule::ListTypeChanged, path, fact, advice);
            }
        }
    }

    /// Compares the fields of an object and the values of a map.
    fn fields(&mut self, old: &Value, new: &Value, path: &str, above: EnclosingKeywords) {
        let (was_open, is_open) = (keeps_unknown(old), keeps_unknown(new));
        let (was_map, is_map) = (additional(old), additional(new));
        let (was, is) = (properties(old), properties(new));
        if was_open && !is_open {
            let advice =
                "unknown fields of stored objects are lost. Keep x-kubernetes-preserve-unknown-fields";
            self.report.add(Rule::FieldRemoved, path, "drops unknown fields", advice);
        }
        for (name, old) in was {
            let path = field(path, name);
            // A field that is not declared any more may be an entry of a map.
            match is.get(name).or(is_map) {
                Some(new) => self.node(old, new, &path, above),
                None if is_open => {}
                None => {
                    self.report.add(Rule::FieldRemoved, &path, "is gone", "stored objects lose it. Keep it");
                }
            }
        }
        if let Some(was) = was_map {
            let path = format!("{path}.*");
            match is_map {
                Some(is) => self.node(was, is, &path, above),
                None if is_open => {}
                None => {
                    let advice = "stored objects lose other fields. Keep additionalProperties";
                    self.report.add(Rule::FieldRemoved, &path, "is gone", advice);
                }
            }
        } else if let Some(is) = is_map
            && was_open
            && restricts(is)
        {
            self.restricted(&format!("{path}.*"));
        }
        for (name, new_field) in is.iter().filter(|(name, _)| !was.contains_key(*name)) {
            let path = field(path, name);
            // A new field may have been an entry of a map.
            match was_map {
                Some(was) => self.node(was, new_field, &path, above),
                None if was_open && restricts(new_field) => self.restricted(&path),
                None => {}
            }
            // The default of a new field may violate a keyword above it. Without such a keyword it affects no client: clients do not know
            // the field yet.
            if was_map.is_none()
                && above.is_strict()
                && let Some(default) = new_field.get("default")
            {
                self.default_added(&path, default, above);
            }
        }
        self.required(old, new, path);
    }

    fn restricted(&mut self, path: &str) {
        let advice = "values of another form, which unknown fields could have, are refused. Allow any value";
        self.report.add(Rule::OpenFieldRestricted, path, "has a schema", advice);
    }

    fn required(&mut self, old: &Value, new: &Value, path: &str) {
        for name in list(&new["required"]).iter().filter(|name| !list(&old["required"]).contains(name)) {
            let name = name.as_str().unwrap_or_default();
            // The API server sets defaults before it looks for required fields.
            let has_default =
                |schema: &Value| schema.get("default").is_some_and(|default| !default.is_null());
            if !properties(new).get(name).is_some_and(has_default) {
                let advice = "objects without it are refused. Make it optional, or give it a default";
                self.report.add(Rule::RequiredAdded, &field(path, name), "is required", advice);
            }
        }
    }
}

/// Returns the type of a field as a noun phrase.
pub(super) fn type_of(schema: &Value) -> &str {
    if schema["x-kubernetes-int-or-string"] == true {
        return "an integer or a string";
    }
    let is_embedded = schema["x-kubernetes-embedded-resource"] == true;
    match schema["type"].as_str() {
        Some("object") if is_embedded => "an embedded object",
        Some("object") => "an object",
        Some("array") => "a list",
        Some("string") => "a string",
        Some("integer") => "an integer",
        Some("number") => "a number",
        Some("boolean") => "a boolean",
        _ => "any value",
    }
}

/// Returns the fields of an object.
pub(super) fn properties(schema: &Value) -> &Map<String, Value> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    schema["properties"].as_object().unwrap_or(&NONE)
}

/// Returns the schema of the values of a map.
pub(super) fn additional(schema: &Value) -> Option<&Value> {
    match schema.get("additionalProperties") {
        Some(Value::Bool(true)) => Some(&EMPTY),
        Some(Value::Object(_)) => schema.get("additionalProperties"),
        _ => None,
    }
}

/// Appends the name of a field to a path.
pub(super) fn field(path: &str, name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.chars().all(is_plain) && !name.is_empty() {
        format!("{path}.{name}")
    } else {
        format!("{path}[{name:?}]")
    }
}

fn keeps_unknown(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

/// Whether a schema refuses or drops anything.
fn restricts(schema: &Value) -> bool {
    let harmless = [
        "description",
        "title",
        "example",
        "externalDocs",
        "nullable",
        "x-kubernetes-preserve-unknown-fields",
    ];
    !keeps_unknown(schema)
        || schema
            .as_object()
            .is_some_and(|keywords| keywords.keys().any(|keyword| !harmless.contains(&&**keyword)))
        || schema["nullable"] != true
}

/// Whether a schema compares whole values, or has alternatives.
fn compares_values(schema: &Value) -> bool {
    ["enum", "allOf", "anyOf", "oneOf", "not"].iter().any(|keyword| schema.get(keyword).is_some())
}

/// Returns the text of a keyword.
fn word<'s>(schema: &'s Value, keyword: &str) -> Option<&'s str> {
    schema[keyword].as_str().filter(|text| !text.is_empty())
}

fn texts(values: &[Value]) -> String {
    values.iter().map(text).collect::<Vec<_>>().join(", ")
}
