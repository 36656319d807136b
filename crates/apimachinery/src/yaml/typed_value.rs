//! The value of a YAML document as JSON. Texts without quotes have the types of YAML 1.1, and keys of other types become texts.

use std::collections::BTreeSet;

use base64::engine::{Engine, GeneralPurpose, general_purpose};
use serde_json::{Map, Number, Value};

use super::node_parser::{MAX_DEPTH, NodeContent, NodeId, YAML_TAG, YamlDocument};
use super::plain_type::{self, PlainValue};
use crate::decode::COMPLAINTS;
use crate::go;

/// Maximum size of the texts that aliases repeat, in bytes.
const MAX_ALIASED_BYTES: usize = 16 << 20;
/// Up to [`FEW_NODES`] nodes, 99 percent of them may come from aliases; from [`MANY_NODES`] on, 10 percent; between them, the share decreases
/// linearly. These limits are Go's.
const FEW_NODES: f64 = 400_000.0;
const MANY_NODES: f64 = 4_000_000.0;

/// Base64 with padding; bits that stand for nothing are ignored, as in Go.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    general_purpose::GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Converts a document. Returns its value, and a complaint about each repeated key: `line 7: key "size" already set in map`.
///
/// # Errors
/// Go's message.
pub(super) fn convert(document: &YamlDocument) -> Result<(Value, Vec<String>), String> {
    let mut conversion = Conversion {
        document,
        repeated: Vec::new(),
        refusal: None,
        unsupported: None,
        open_aliases: Vec::new(),
        depth: 0,
        nodes: 0.0,
        aliased_nodes: 0.0,
        aliased_bytes: 0,
    };
    let value = conversion.value(document.root).map_err(|why| format!("yaml: {why}"))?;
    match conversion.refusal.or(conversion.unsupported) {
        Some(why) => Err(why),
        None => Ok((value, conversion.repeated)),
    }
}

/// A key of a map. Keys of different types are different, even if JSON cannot distinguish them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum YamlKey {
    Null,
    Bool(bool),
    Integer(i128),
    /// Bits of a float.
    Float(u64),
    Text(String),
}

struct Conversion<'a> {
    document: &'a YamlDocument,
    repeated: Vec<String>,
    /// The first key that JSON cannot hold. Go converts to JSON after it has read the whole document.
    refusal: Option<String>,
    /// The first number that JSON cannot hold.
    unsupported: Option<String>,
    open_aliases: Vec<NodeId>,
    depth: usize,
    nodes: f64,
    aliased_nodes: f64,
    aliased_bytes: usize,
}

/// Fields of a map while they are read.
#[derive(Default)]
struct MapFields {
    fields: Map<String, Value>,
    keys: BTreeSet<YamlKey>,
}

impl Conversion<'_> {
    fn value(&mut self, id: NodeId) -> Result<Value, String> {
        self.count()?;
        let document = self.document;
        match &document.nodes[id].content {
            NodeContent::Scalar { tag, text, is_implicit } => {
                let value = self.scalar(tag, text, *is_implicit)?;
                Ok(self.json(value))
            }
            NodeContent::List(items) => self.nested(|conversion| {
                items.iter().map(|item| conversion.value(*item)).collect::<Result<_, _>>().map(Value::Array)
            }),
            NodeContent::Map(fields) => {
                let mut map = MapFields::default();
                self.nested(|conversion| conversion.fields(fields, &mut map))?;
                Ok(Value::Object(map.fields))
            }
            NodeContent::Alias { name, target } => {
                self.aliased(name, id, |conversion| conversion.value(*target))
            }
        }
    }

    /// Counts a node, and refuses documents in which aliases repeat too much.
    fn count(&mut self) -> Result<(), String> {
        self.nodes += 1.0;
        if !self.open_aliases.is_empty() {
            self.aliased_nodes += 1.0;
        }
        let position = ((self.nodes - FEW_NODES) / (MANY_NODES - FEW_NODES)).clamp(0.0, 1.0);
        let allowed = 0.99 - 0.89 * position;
        let is_checked = self.aliased_nodes > 100.0 && self.nodes > 1000.0;
        if (is_checked && self.aliased_nodes / self.nodes > allowed) || self.aliased_bytes > MAX_ALIASED_BYTES
        {
            return Err("document contains excessive aliasing".to_owned());
        }
        Ok(())
    }

    fn nested<T>(&mut self, convert: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        if self.depth == MAX_DEPTH {
            return Err(format!("exceeded max depth of {MAX_DEPTH}"));
        }
        self.depth += 1;
        let converted = convert(self);
        self.depth -= 1;
        converted
    }

    fn aliased<T>(
        &mut self,
        name: &str,
        id: NodeId,
        convert: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        // An alias that is reached again during its own conversion lies inside of its anchor.
        if self.open_aliases.contains(&id) {
            return Err(format!("anchor '{name}' value contains itself"));
        }
        self.open_aliases.push(id);
        let converted = convert(self);
        self.open_aliases.pop();
        converted
    }

    fn scalar(&mut self, tag: &str, text: &str, is_implicit: bool) -> Result<PlainValue, String> {
        if !self.open_aliases.is_empty() {
            self.aliased_bytes += text.len();
        }
        if tag.is_empty() && !is_implicit {
            return Ok(PlainValue::Text(text.to_owned()));
        }
        resolve(tag, text)
    }

    fn json(&mut self, value: PlainValue) -> Value {
        match value {
            PlainValue::Null => Value::Null,
            PlainValue::Bool(value) => Value::Bool(value),
            PlainValue::Integer(value) => match (i64::try_from(value), u64::try_from(value)) {
                (Ok(value), _) => Value::from(value),
                (_, Ok(value)) => Value::from(value),
                _ => Value::Null,
            },
            PlainValue::Float(value) => Number::from_f64(value).map_or_else(
                || {
                    let why = format!("json: unsupported value: {}", go::float(value));
                    self.unsupported.get_or_insert(why);
                    Value::Null
                },
                Value::Number,
            ),
            PlainValue::Text(text) => Value::String(text),
        }
    }

    fn fields(&mut self, fields: &[(NodeId, NodeId)], map: &mut MapFields) -> Result<(), String> {
        for (key, value) in fields {
            if self.is_merge(*key) {
                self.merge(*value, map)?;
                continue;
            }
            let key = self.key(*key)?;
            let line = self.document.nodes[*value].line + 1;
            let value = self.value(*value)?;
            if !map.keys.insert(key.clone()) && self.repeated.len() < COMPLAINTS {
                self.repeated.push(format!("line {line}: key {} already set in map", shown_key(&key)));
            }
            match key_text(&key) {
                Some(name) => {
                    map.fields.insert(name, value);
                }
                None => {
                    self.refusal.get_or_insert_with(|| unsupported_key(&key, &value));
                }
            }
        }
        Ok(())
    }

    /// Whether a key is `<<`. Its value is a map, or a list of maps, with further fields.
    fn is_merge(&self, key: NodeId) -> bool {
        match &self.document.nodes[key].content {
            NodeContent::Scalar { tag, text, is_implicit } => {
                text == "<<" && (*is_implicit || tag.strip_prefix(YAML_TAG) == Some("merge"))
            }
            _ => false,
        }
    }

    fn merge(&mut self, id: NodeId, map: &mut MapFields) -> Result<(), String> {
        let document = self.document;
        match &document.nodes[id].content {
            NodeContent::Map(_) | NodeContent::Alias { .. } => self.merge_one(id, map),
            // Earlier maps take precedence.
            NodeContent::List(items) => items.iter().rev().try_for_each(|item| self.merge_one(*item, map)),
            NodeContent::Scalar { .. } => Err(NO_MAP.to_owned()),
        }
    }

    fn merge_one(&mut self, id: NodeId, map: &mut MapFields) -> Result<(), String> {
        self.count()?;
        let document = self.document;
        match &document.nodes[id].content {
            NodeContent::Map(fields) => self.nested(|conversion| conversion.fields(fields, map)),
            NodeContent::Alias { name, target } => {
                let NodeContent::Map(fields) = &document.nodes[*target].content else {
                    return Err(NO_MAP.to_owned());
                };
                self.aliased(name, id, |conversion| {
                    conversion.nested(|conversion| conversion.fields(fields, map))
                })
            }
            _ => Err(NO_MAP.to_owned()),
        }
    }

    fn key(&mut self, id: NodeId) -> Result<YamlKey, String> {
        self.count()?;
        let document = self.document;
        match &document.nodes[id].content {
            NodeContent::Scalar { tag, text, is_implicit } => {
                Ok(match self.scalar(tag, text, *is_implicit)? {
                    PlainValue::Null => YamlKey::Null,
                    PlainValue::Bool(value) => YamlKey::Bool(value),
                    PlainValue::Integer(value) => YamlKey::Integer(value),
                    PlainValue::Float(value) => YamlKey::Float(value.to_bits()),
                    PlainValue::Text(text) => YamlKey::Text(text),
                })
            }
            NodeContent::Alias { name, target } => {
                self.aliased(name, id, |conversion| conversion.key(*target))
            }
            NodeContent::List(_) | NodeContent::Map(_) => {
                Err(format!("invalid map key: {}", shown_value(&self.value(id)?)))
            }
        }
    }
}

const NO_MAP: &str = "map merge requires map or sequence of maps as the value";

/// Interprets the text of a scalar without quotes, or with a tag.
fn resolve(tag: &str, text: &str) -> Result<PlainValue, String> {
    let name = tag.strip_prefix(YAML_TAG);
    let plain = match (tag, name) {
        ("", _) => return Ok(plain_type::value(text)),
        (_, Some("str")) => return Ok(PlainValue::Text(text.to_owned())),
        (_, Some("bool" | "int" | "float" | "null")) => plain_type::value(text),
        (_, Some("timestamp")) if plain_type::is_timestamp(text) => {
            return Ok(PlainValue::Text(text.to_owned()));
        }
        (_, Some("timestamp")) => plain_type::value(text),
        (_, Some("binary")) => {
            let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
            let bytes = BASE64.decode(text).map_err(|_| "!!binary value contains invalid base64 data")?;
            return Ok(PlainValue::Text(String::from_utf8_lossy(&bytes).into_owned()));
        }
        _ => return Ok(PlainValue::Text(text.to_owned())),
    };
    let name = name.unwrap_or_default();
    match plain {
        #[expect(clippy::cast_precision_loss, reason = "Go converts it likewise")]
        PlainValue::Integer(value) if name == "float" && i64::try_from(value).is_ok() => {
            Ok(PlainValue::Float(value as f64))
        }
        plain if plain.tag() == name => Ok(plain),
        plain => Err(format!("cannot decode !!{} `{text}` as a !!{name}", plain.tag())),
    }
}

/// Returns the name of a field in JSON; `None` for keys that it cannot have.
fn key_text(key: &YamlKey) -> Option<String> {
    match key {
        YamlKey::Null => None,
        YamlKey::Bool(value) => Some(value.to_string()),
        YamlKey::Integer(value) => i64::try_from(*value).ok().map(|value| value.to_string()),
        YamlKey::Float(bits) => Some(float_key(f64::from_bits(*bits))),
        YamlKey::Text(text) => Some(text.clone()),
    }
}

/// Formats a float with the precision of 32 bits, as Go does in keys.
fn float_key(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "the precision of 32 bits is Go's")]
    let value = value as f32;
    if value.is_nan() {
        return ".nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    go::short_float(value)
}

fn shown_key(key: &YamlKey) -> String {
    match key {
        YamlKey::Null => "<nil>".to_owned(),
        YamlKey::Bool(value) => value.to_string(),
        YamlKey::Integer(value) if i64::try_from(*value).is_ok() => value.to_string(),
        YamlKey::Integer(value) => format!("{value:#x}"),
        YamlKey::Float(bits) => go::float(f64::from_bits(*bits)),
        YamlKey::Text(text) => go::quote(text),
    }
}

fn unsupported_key(key: &YamlKey, value: &Value) -> String {
    // Go formats the type of the key with `%s`. Null has no type.
    let kind = if *key == YamlKey::Null { "%!s(<nil>)" } else { "uint64" };
    let (key, value) = (shown_key(key), shown_value(value));
    format!("unsupported map key of type: {kind}, key: {key}, value: {value}")
}

/// Formats a value as Go's `%#v`. Maps have the type that the YAML library gives them, not that of the JSON decoder.
fn shown_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        value => go::syntax(value).replace("map[string]interface {}{", "map[interface {}]interface {}{"),
    }
}
