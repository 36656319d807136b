//! Estimated costs of expressions, compared with those of kube-apiserver.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::super::*;
use crate::cel::cost_estimate::SchemaValues;
use crate::cel::value_schema::ValueSchema;

/// Schemas and expressions with the costs that kube-apiserver estimates. Its first lines describe its form.
const TABLE: &str = include_str!("cost_estimates.txt");

/// A schema of the table.
struct Subject {
    environment: Environment,
    sizes: SizeSchema,
}

impl Subject {
    fn read(schema: &str, values: SchemaValues) -> Self {
        let schema = serde_json::from_str(schema).unwrap_or_else(|why| panic!("{schema}: {why}"));
        let mut seen = ValueSchema::read(&schema);
        if values == SchemaValues::KubernetesObjects {
            seen = seen.with_object_fields(&schema);
        }
        let of = seen.declared_type("selfType1").expect("a schema with a type");
        Self {
            environment: Environment::new(vec![("self", of.clone()), ("oldSelf", of)]),
            sizes: SizeSchema::read(&schema, values).expect("a schema with sizes"),
        }
    }

    fn cost(&self, text: &str, of: &Type) -> Result<u64, String> {
        Program::typed(text, &self.environment, &self.sizes, of, "another type").map(|(_, cost)| cost)
    }
}

#[test]
fn estimates_are_those_of_kube_apiserver() {
    let mut subject = Subject::read(r#"{"type": "string"}"#, SchemaValues::Parts);
    let (mut count, mut wrong) = (0, Vec::new());
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let (word, rest) = line.split_once(' ').expect("a line with a word and a value");
        let of = match word {
            "root" => {
                subject = Subject::read(rest, SchemaValues::KubernetesObjects);
                continue;
            }
            "part" => {
                subject = Subject::read(rest, SchemaValues::Parts);
                continue;
            }
            "cardinality" => {
                assert_eq!(subject.sizes.count_in_request().to_string(), rest);
                continue;
            }
            "rule" => Type::Bool,
            "message" => Type::String,
            other => panic!("an unknown word: {other}"),
        };
        let (expected, text) = rest.split_once(' ').expect("a line with a cost and an expression");
        count += 1;
        let cost = subject.cost(text, &of).map_or_else(|why| why, |cost| cost.to_string());
        if cost != expected {
            wrong.push(format!("{text}: {cost} instead of {expected}"));
        }
    }
    assert!(count > 400, "{count} expressions");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_expression_that_does_not_compile_has_no_estimate() {
    let environment = Environment::new(vec![("self", Type::String)]);
    let cost = |text: &str| estimated_cost(text, &environment, "self", &SizeSchema::value(20));
    assert_eq!(cost("self == 'abcdefghijklmnopqrstuvwxyz'"), Some(3));
    assert_eq!(cost("self =="), None);
    assert_eq!(cost("self == 1"), None);
}

#[test]
fn only_one_variable_has_known_sizes() {
    let environment = Environment::new(vec![("a", Type::String), ("b", Type::String)]);
    let cost = |text: &str| estimated_cost(text, &environment, "a", &SizeSchema::value(50));
    assert_eq!(cost("a == a"), Some(7));
    assert_eq!(cost("a == b"), Some(7));
    assert_eq!(cost("b == b"), Some(1_844_674_407_370_955_266));
}

/// As deep as expressions can be nested: the estimate must fit into the stack of a thread.
#[test]
fn deep_expressions_have_an_estimate() {
    let environment = Environment::new(vec![("self", Type::Dyn)]);
    let nested = |open: &str, inner: &str, close: &str, levels: usize| {
        format!("{}{inner}{}", open.repeat(levels), close.repeat(levels))
    };
    for text in [
        nested("[1].map(x, ", "1", ")", 45) + " == []",
        nested("[", "1", "]", 90) + " == []",
        nested("!(", "self", ")", 91),
    ] {
        let cost = estimated_cost(&text, &environment, "self", &SizeSchema::value(1));
        assert!(cost.is_some(), "{text}: {:?}", Program::condition(&text, &environment).err());
    }
}

#[test]
fn chains_that_double_the_nodes_end() {
    let environment = Environment::new(vec![("self", Type::String)]);
    let chain = |calls: usize| {
        let text = format!("optional.of(self){}.hasValue()", ".optMap(x, x)".repeat(calls));
        estimated_cost(&text, &environment, "self", &SizeSchema::value(1))
    };
    // Each call evaluates the calls before it twice: to look for a value, and to get it. The first numbers are those of kube-apiserver.
    assert_eq!([chain(1), chain(2), chain(5)], [Some(19), Some(51), Some(499)]);
    assert_eq!(chain(60), Some(u64::MAX));
}

const NESTED: &str = "self.all(x, self.exists(y, x == y))";
const ADVICE: &str = " (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are \
                      declared)";

/// Checks the errors of a definition with these properties of `spec`. `…` in an error stands for a longer text.
fn check(spec: &Value, expected: &Expect) {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}});
    let errors = ObjectRules::check(&schema, "schema", &[]);
    let place = "schema.properties[spec].properties";
    let shown: Vec<String> = errors
        .iter()
        .map(|error| {
            error.to_string().replace(ADVICE, "").replace(place, "").replace("x-kubernetes-validations", "…")
        })
        .collect();
    expected.assert_eq(&shown.join("\n"));
}

/// Returns the schema of a list of texts with rules.
fn texts(max_items: Option<u64>, rules: &Value) -> Value {
    let mut list = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": rules});
    if let Some(max_items) = max_items {
        list["items"]["maxLength"] = json!(10);
        list["maxItems"] = json!(max_items);
    }
    list
}

/// Errors recorded from kube-apiserver v1.36.3.
#[test]
fn expensive_rules_are_refused() {
    check(
        &json!({"l": texts(None, &json!([{"rule": NESTED}, {"rule": "self.x == 1"}]))}),
        &expect![[r#"
            [l].…[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x
            [l].…[1].rule: Invalid value: {"Rule":"self.x == 1","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:5: type 'list(string)' does not support field selection
             | self.x == 1
             | ....^
            [l].…[0].rule: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema
            schema: Forbidden: … estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x"#]],
    );
    let costly = json!([{"rule": NESTED, "messageExpression": "self.map(x, x + x).join(',')"}]);
    check(
        &json!({"l": texts(None, &costly)}),
        &expect![[r#"
            [l].…[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x
            [l].…[0].messageExpression: Forbidden: estimated messageExpression cost exceeds budget by factor of more than 100x
            [l].…[0].messageExpression: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema
            [l].…[0].rule: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema
            schema: Forbidden: … estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x"#]],
    );
    let rules: Value =
        (0..60).map(|n| json!({"rule": NESTED.replace("y)", &format!("y || {n} == 1)"))})).collect();
    check(
        &json!({"l": texts(Some(400), &rules)}),
        &expect![[r#"
            [l].…[0].rule: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema
            [l].…[1].rule: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema
            [l].…[2].rule: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema
            [l].…[3].rule: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema
            schema: Forbidden: … estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of 1.057201x"#]],
    );
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn rules_below_lists_count_for_each_element() {
    let nested = |count: u64| {
        let object =
            json!({"type": "object", "properties": {"m": texts(Some(100), &json!([{"rule": NESTED}]))}});
        json!({"l": {"type": "array", "maxItems": count, "items": object}})
    };
    check(
        &nested(130),
        &expect![
            "[l].items.properties[m].…[0].rule: Forbidden: estimated rule cost exceeds budget by factor of 1.306526x"
        ],
    );
    check(&nested(99), &expect![""]);
    // Without limits, as many values as fit into a request count.
    let endless = json!({"l": {"type": "array", "items": {
        "type": "string", "maxLength": 20, "x-kubernetes-validations": [{"rule": "self.matches('^[a-z]+$')"}],
    }}});
    check(
        &endless,
        &expect!["[l].items.…[0].rule: Forbidden: estimated rule cost exceeds budget by factor of 2.0x"],
    );
}

/// As in kube-apiserver v1.36.3, rules at the root see the name of the object without the limits that the schema has for it.
#[test]
fn rules_at_the_root_see_names_of_any_length() {
    let schema = json!({
        "type": "object",
        "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}}}},
        "x-kubernetes-validations": [{"rule": "self.metadata.name.contains(self.metadata.name)"}],
    });
    let errors = ObjectRules::check(&schema, "schema", &[]);
    let error = errors.first().map(ToString::to_string).unwrap_or_default();
    let expected = "schema.x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x";
    assert_eq!(error, format!("{expected}{ADVICE}"));
}
