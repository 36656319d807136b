//! `FieldsV1`: the JSON encoding of field sets.
//!
//! Steps are named `f:name`, `k:{"port":80}`, `v:"a"` and `i:0`. A `.` marks a place that is a member and also has
//! members below it. A place with nothing below it is a member.

use serde_json::{Map, Value};

use super::set::{FieldSet, PathElement, SetNode};

/// Maximum depth. Deeper sets are refused, like request bodies that are nested deeper.
const MAX_DEPTH: usize = 128;

/// Encodes a set as JSON.
pub(super) fn encode(set: &FieldSet) -> Value {
    Value::Object(encode_below(set))
}

/// Encodes the places of a set. Inserted one by one, because most sets have few places, and `collect` would first copy them into a list.
fn encode_below(set: &FieldSet) -> Map<String, Value> {
    let mut fields = Map::new();
    for (element, node) in set.iter() {
        let mut below = encode_below(&node.below);
        // Without the dot a node with members below it is only a step of their paths.
        if node.member && !below.is_empty() {
            below.insert(".".to_owned(), Value::Object(Map::new()));
        }
        fields.insert(name(element), Value::Object(below));
    }
    fields
}

/// Decodes a set; `None` if `json` is not `FieldsV1`.
pub(super) fn decode(json: &Value) -> Option<FieldSet> {
    let SetNode { below, .. } = decode_node(json, 0)?;
    Some(below)
}

fn decode_node(json: &Value, depth: usize) -> Option<SetNode> {
    let fields = json.as_object().filter(|_| depth < MAX_DEPTH)?;
    let mut node =
        // An empty object is a leaf, and only members are leaves. `.` is needed only beside other steps.
        SetNode { member: fields.is_empty() || fields.contains_key("."), below: FieldSet::default() };
    for (name, below) in fields {
        if name != "." {
            node.below.insert(element(name)?, decode_node(below, depth + 1)?);
        }
    }
    Some(node)
}

fn name(element: &PathElement) -> String {
    match element {
        PathElement::Field(name) => ["f:", name].concat(),
        PathElement::Key(keys) => {
            let keys: Map<String, Value> = keys.iter().cloned().collect();
            format!("k:{}", Value::Object(keys))
        }
        PathElement::Value(value) => format!("v:{value}"),
        PathElement::Index(index) => format!("i:{index}"),
    }
}

fn element(name: &str) -> Option<PathElement> {
    let (kind, rest) = name.split_once(':')?;
    Some(match kind {
        "f" => PathElement::Field(rest.to_owned()),
        // The key fields end up sorted by name, as the comparison of path elements requires.
        "k" => match serde_json::from_str(rest).ok()? {
            Value::Object(keys) => PathElement::Key(keys.into_iter().collect()),
            _ => return None,
        },
        "v" => PathElement::Value(serde_json::from_str(rest).ok()?),
        "i" => PathElement::Index(rest.parse().ok()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_set_is_written_as_the_server_writes_it() {
        let fields = json!({
            "f:metadata": {"f:finalizers": {".": {}, "v:\"example.com/a\"": {}}},
            "f:spec": {
                "f:ports": {".": {}, "k:{\"port\":80,\"proto\":\"TCP\"}": {".": {}, "f:port": {}}},
                "f:size": {}, "f:third": {"i:2": {}},
            },
        });
        let set = decode(&fields).unwrap();
        assert_eq!(encode(&set), fields);
        assert_eq!(
            set.paths(),
            [
                ".metadata.finalizers",
                ".metadata.finalizers[=\"example.com/a\"]",
                ".spec.ports",
                ".spec.size",
                ".spec.ports[port=80,proto=\"TCP\"]",
                ".spec.ports[port=80,proto=\"TCP\"].port",
                ".spec.third[2]",
            ]
        );
    }

    #[test]
    fn json_that_is_not_a_set_is_refused() {
        for fields in
            [json!({"bogus": {}}), json!({"f:a": 1}), json!([]), json!({"k:1": {}}), json!({"i:x": {}})]
        {
            assert_eq!(decode(&fields), None, "{fields}");
        }
        let mut deep = json!({});
        for _ in 0..1000 {
            deep = json!({ "f:a": deep });
        }
        assert_eq!(decode(&deep), None);
    }

    #[test]
    fn numbers_are_sorted_as_numbers() {
        let set = decode(&json!({"v:10": {}, "v:9": {}, "v:\"a\"": {}})).unwrap();
        assert_eq!(set.paths(), ["[=9]", "[=10]", "[=\"a\"]"]);
    }

    fn element() -> impl Strategy<Value = PathElement> {
        let value = prop_oneof![(0i64..12).prop_map(Value::from), "[ab\"]{0,2}".prop_map(Value::from)];
        prop_oneof![
            "[ab.:]{0,2}".prop_map(PathElement::Field),
            value.clone().prop_map(PathElement::Value),
            prop::collection::btree_map("[ab]", value, 1..3)
                .prop_map(|keys| PathElement::Key(keys.into_iter().collect())),
            (0i64..3).prop_map(PathElement::Index),
        ]
    }

    pub(super) fn set() -> impl Strategy<Value = FieldSet> {
        let leaf = Just(FieldSet::default()).boxed();
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop::collection::vec((element(), any::<bool>(), inner), 0..4).prop_map(|entries| {
                let mut set = FieldSet::default();
                for (element, member, below) in entries {
                    set.insert(element, SetNode { member, below });
                }
                set
            })
        })
    }

    proptest! {
        #[test]
        fn encoding_and_decoding_is_the_identity(set in set()) {
            prop_assert_eq!(decode(&encode(&set)), Some(set));
        }

        #[test]
        fn a_set_is_its_intersection_and_its_difference(a in set(), b in set()) {
            let mut rest = a.clone();
            rest.subtract(&b);
            let mut whole = a.intersection(&b);
            prop_assert!(whole.intersection(&rest).is_empty());
            whole.merge(rest);
            prop_assert_eq!(whole, a);
        }
    }
}
