//! Limits of the estimated costs of a definition's rules.

use serde_json::Value;

use super::SizeSchema;
use crate::status::FieldError;

/// Maximum estimated cost of an expression, for all values that an object can have.
const EXPRESSION: u64 = 10_000_000;
/// Maximum estimated cost of all expressions of a schema.
const DEFINITION: u64 = 100_000_000;
/// Number of expressions that the error about a schema names.
const NAMED: usize = 4;

/// Number of values that an object can have for a part of its schema; `None` if a list or map around them has no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cardinality(Option<u64>);

impl Cardinality {
    /// Cardinality of the whole object.
    pub(crate) const ROOT: Self = Self(Some(1));

    /// Returns the number of values for a part that is directly below a schema with this cardinality.
    pub(crate) fn below(self, schema: &Value) -> Self {
        let limit = |name: &str| schema[name].as_i64().map(|limit| limit.max(0).unsigned_abs());
        let factor = match schema["type"].as_str() {
            Some("object") if !schema["additionalProperties"].is_null() => limit("maxProperties"),
            Some("array") => limit("maxItems"),
            _ => Some(1),
        };
        Self(self.0.zip(factor).map(|(count, factor)| count.saturating_mul(factor)))
    }

    /// Returns the cost of an expression for all values. If their number has no limit, as many as fit into a request count.
    fn total(self, cost: u64, sizes: &SizeSchema) -> u64 {
        cost.saturating_mul(self.0.unwrap_or_else(|| sizes.count_in_request()))
    }
}

/// Estimated costs of the expressions of a schema.
#[derive(Debug, Default)]
pub(crate) struct DefinitionCosts {
    total: u64,
    /// Fields and costs of the most expensive expressions, in decreasing order. Each costs at least one percent of the limit.
    expensive: Vec<(String, u64)>,
}

impl DefinitionCosts {
    /// Counts the rule at `field`; the result is an error if it is too expensive. `cost` is that of one evaluation.
    pub(crate) fn add_rule(
        &mut self,
        field: String,
        cost: u64,
        cardinality: Cardinality,
        sizes: &SizeSchema,
    ) -> Option<FieldError> {
        self.add(field, cardinality.total(cost, sizes), "estimated rule cost")
    }

    /// Like [`add_rule`](Self::add_rule), but counts the expression of a message, for one value only.
    pub(crate) fn add_message(&mut self, field: String, cost: u64) -> Option<FieldError> {
        self.add(field, cost, "estimated messageExpression cost")
    }

    fn add(&mut self, field: String, cost: u64, name: &str) -> Option<FieldError> {
        self.total = self.total.saturating_add(cost);
        let error = (cost > EXPRESSION)
            .then(|| FieldError::forbidden(field.clone(), &exceeded(name, cost, EXPRESSION)));
        if cost >= DEFINITION / 100 {
            self.expensive.push((field, cost));
            self.expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.expensive.truncate(NAMED);
        }
        error
    }

    /// Returns the errors about all expressions together. `place` is the field of the schema.
    pub(crate) fn errors(self, place: &str) -> Vec<FieldError> {
        if self.total <= DEFINITION {
            return Vec::new();
        }
        let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        let expensive = self.expensive.into_iter();
        let mut errors: Vec<_> = expensive.map(|(field, _)| FieldError::forbidden(field, why)).collect();
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(place, &exceeded(name, self.total, DEFINITION)));
        errors
    }
}

/// Returns kube-apiserver's text for a cost above a limit.
fn exceeded(name: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ADVICE: &str = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and \
                          strings are declared)";

    #[test]
    fn lists_and_maps_multiply() {
        let list = json!({"type": "array", "maxItems": 5, "items": {}});
        let map = json!({"type": "object", "maxProperties": 7, "additionalProperties": {"type": "string"}});
        let object = json!({"type": "object", "maxProperties": 9, "properties": {"a": {}}});
        let endless = json!({"type": "array", "items": {}});
        let root = Cardinality::ROOT;
        assert_eq!(root.below(&list).below(&object).below(&map), Cardinality(Some(35)));
        assert_eq!(root.below(&endless).below(&list), Cardinality(None));
        let negative = json!({"type": "array", "maxItems": -1, "items": {}});
        assert_eq!(root.below(&negative), Cardinality(Some(0)));
    }

    #[test]
    fn factors_have_as_many_digits_as_they_need() {
        for (cost, factor) in [
            (10_000_001, "1.000000x"),
            (14_999_999, "1.500000x"),
            (15_000_000, "1.5x"),
            (990_400_000, "99.0x"),
            (1_000_000_000, "100.0x"),
            (1_000_000_001, "more than 100x"),
        ] {
            let error =
                DefinitionCosts::default().add_message("f".to_owned(), cost).map(|error| error.message);
            let expected = format!(
                "Forbidden: estimated messageExpression cost exceeds budget by factor of {factor} {ADVICE}"
            );
            assert_eq!(error, Some(expected));
        }
        assert_eq!(DefinitionCosts::default().add_message("f".to_owned(), 10_000_000), None);
    }

    #[test]
    fn the_most_expensive_expressions_of_a_schema_are_named() {
        let mut costs = DefinitionCosts::default();
        for (field, cost) in [("a", 999_999), ("b", 9_000_000), ("c", 10_000_000), ("d", 9_500_000)] {
            assert_eq!(costs.add_message(field.to_owned(), cost), None);
        }
        assert_eq!(
            costs.expensive.iter().map(|(field, _)| field.as_str()).collect::<Vec<_>>(),
            ["c", "d", "b"]
        );
        for field in ["e", "f", "g", "h", "i", "j", "k", "l"] {
            assert_eq!(costs.add_message(field.to_owned(), 10_000_000), None);
        }
        let fields: Vec<String> = costs.errors("s").into_iter().map(|error| error.field).collect();
        assert_eq!(fields, ["c", "e", "f", "g", "s"]);
        let mut below = DefinitionCosts::default();
        assert!((0..10).all(|_| below.add_message("a".to_owned(), 10_000_000).is_none()));
        assert!(below.errors("s").is_empty());
    }
}
