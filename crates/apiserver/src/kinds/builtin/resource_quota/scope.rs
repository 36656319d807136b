//! Scopes of a quota: conditions that an object must satisfy to be counted.

use serde_json::Value;

/// A condition on objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QuotaScope {
    /// Name such as `BestEffort` or `PriorityClass`.
    pub(crate) name: String,
    operator: Operator,
    /// Values for `In` and `NotIn`.
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    /// The text is not an operator. Validation refuses it, and it matches nothing.
    Invalid,
}

impl QuotaScope {
    /// Returns the scopes in the spec of a quota, from both `scopes` and `scopeSelector`.
    pub(super) fn of(spec: &Value) -> Vec<Self> {
        let elements = |list: &Value| list.as_array().cloned().unwrap_or_default();
        let plain = elements(&spec["scopes"]);
        let plain = plain.iter().filter_map(Value::as_str).map(Self::present);
        let selected = elements(&spec["scopeSelector"]["matchExpressions"]);
        let selected = selected.iter().map(|expression| Self {
            name: expression["scopeName"].as_str().unwrap_or_default().to_owned(),
            operator: match expression["operator"].as_str() {
                Some("In") => Operator::In,
                Some("NotIn") => Operator::NotIn,
                Some("Exists") => Operator::Exists,
                Some("DoesNotExist") => Operator::DoesNotExist,
                _ => Operator::Invalid,
            },
            values: elements(&expression["values"])
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
        });
        plain.chain(selected).collect()
    }

    /// Returns a scope that only requires the property to be present.
    pub(super) fn present(name: &str) -> Self {
        Self { name: name.to_owned(), operator: Operator::Exists, values: Vec::new() }
    }

    /// Whether the scope selects an object with these values. A claim can have several, for example its old and its new class.
    pub(super) fn selects(&self, found: &[&str]) -> bool {
        let listed = |value: &&str| self.values.iter().any(|known| known == value);
        match self.operator {
            Operator::In => found.iter().any(listed),
            // As in label selectors, an object without a value matches.
            Operator::NotIn => found.is_empty() || !found.iter().all(listed),
            Operator::Exists => !found.is_empty(),
            Operator::DoesNotExist => found.is_empty(),
            Operator::Invalid => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_selected_by_operators() {
        for (operator, none, listed, other) in [
            ("In", false, true, false),
            ("NotIn", true, false, true),
            ("Exists", false, true, true),
            ("DoesNotExist", true, false, false),
            ("Like", false, false, false),
        ] {
            let expression = json!({"scopeName": "PriorityClass", "operator": operator, "values": ["high"]});
            let scopes = QuotaScope::of(&json!({"scopeSelector": {"matchExpressions": [expression]}}));
            let selects = |found: &[&str]| scopes[0].selects(found);
            assert_eq!(
                (selects(&[]), selects(&["high"]), selects(&["low"])),
                (none, listed, other),
                "{operator}"
            );
        }
        assert_eq!(QuotaScope::of(&json!({"scopes": ["BestEffort"]})), [QuotaScope::present("BestEffort")]);
    }
}
