//! Label selectors, as text (`app=web,tier in (a,b)`) and as objects (`matchLabels`, `matchExpressions`).

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::grammar;
use crate::status::ApiError;

/// A conjunction of requirements; an empty selector matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

/// A condition on one label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Requirement {
    pub(super) key: String,
    pub(super) condition: Condition,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Condition {
    Equals(String),
    /// Matches objects without the label too.
    NotEquals(String),
    /// The values are sorted. Those of an object may be repeated, and its text then repeats them too.
    In(Vec<String>),
    /// Matches objects without the label too. The values are like those of `In`.
    NotIn(Vec<String>),
    Exists,
    Absent,
    /// Matches only labels that are integers.
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    /// Parses the query parameter `labelSelector`.
    ///
    /// # Errors
    /// 400 with kube-apiserver's message for a syntax error.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        grammar::requirements(text).map(|requirements| Self { requirements }).map_err(ApiError::bad_request)
    }

    /// Reads a `LabelSelector` object of a builtin kind. Returns `None` if an operator is unknown or has the wrong number of values; such a
    /// selector matches nothing.
    #[must_use]
    pub fn from_object(selector: &Value) -> Option<Self> {
        let mut requirements = Vec::new();
        for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement { key: key.clone(), condition: Condition::Equals(value) });
        }
        for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
            let values = expression["values"].as_array().into_iter().flatten();
            let mut values: Vec<String> =
                values.filter_map(|value| Some(value.as_str()?.to_owned())).collect();
            values.sort_unstable();
            let condition = match (expression["operator"].as_str()?, values.is_empty()) {
                ("In", false) => Condition::In(values),
                ("NotIn", false) => Condition::NotIn(values),
                ("Exists", true) => Condition::Exists,
                ("DoesNotExist", true) => Condition::Absent,
                _ => return None,
            };
            requirements.push(Requirement { key: expression["key"].as_str()?.to_owned(), condition });
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Some(Self { requirements })
    }

    /// Sorts the requirements, and drops repeated ones and repeated values, so that selectors with the same requirements are equal.
    #[must_use]
    pub fn normalized(mut self) -> Self {
        for requirement in &mut self.requirements {
            if let Condition::In(values) | Condition::NotIn(values) = &mut requirement.condition {
                values.dedup();
            }
        }
        self.requirements.sort_unstable();
        self.requirements.dedup();
        self
    }

    /// Returns a normalized selector for objects that both selectors match.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.requirements.extend(other.requirements);
        self.normalized()
    }

    /// Whether the selector matches everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether the selector matches `object`.
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        self.matches_labels(object.pointer("/metadata/labels"))
    }

    /// Whether the selector matches an object with these labels.
    #[must_use]
    pub fn matches_map(&self, labels: &BTreeMap<String, String>) -> bool {
        self.holds(|key| labels.get(key).map(String::as_str))
    }

    /// Whether the selector matches an object with these labels, given as JSON. As Go reads them, null is an empty text, and an object with
    /// a value of another type has no labels.
    #[must_use]
    pub fn matches_labels(&self, labels: Option<&Value>) -> bool {
        let is_text = |value: &Value| value.is_string() || value.is_null();
        let labels = labels.and_then(Value::as_object);
        let labels = labels.filter(|labels| labels.values().all(is_text));
        self.holds(|key| Some(labels?.get(key)?.as_str().unwrap_or_default()))
    }

    /// Whether the selector matches an object for which `label` returns the value of a label.
    #[must_use]
    pub fn holds<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.condition.holds(label(&requirement.key)))
    }
}

impl Condition {
    fn holds(&self, label: Option<&str>) -> bool {
        let integer = || label?.parse::<i64>().ok();
        match self {
            Self::Equals(value) => label == Some(value),
            Self::NotEquals(value) => label != Some(value),
            Self::In(values) => label.is_some_and(|label| is_listed(values, label)),
            Self::NotIn(values) => label.is_none_or(|label| !is_listed(values, label)),
            Self::Exists => label.is_some(),
            Self::Absent => label.is_none(),
            Self::Greater(bound) => integer().is_some_and(|label| label > *bound),
            Self::Less(bound) => integer().is_some_and(|label| label < *bound),
        }
    }
}

fn is_listed(values: &[String], label: &str) -> bool {
    values.binary_search_by(|value| value.as_str().cmp(label)).is_ok()
}

/// Formats a `LabelSelector` object as text, for a scale's `status.selector` and for tables; empty if it matches
/// everything.
#[must_use]
pub fn label_selector_text(selector: &Value) -> String {
    LabelSelector::from_object(selector).map(|selector| selector.to_string()).unwrap_or_default()
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.condition {
            Condition::Equals(value) => write!(f, "{key}={value}"),
            Condition::NotEquals(value) => write!(f, "{key}!={value}"),
            Condition::In(values) => write!(f, "{key} in ({})", values.join(",")),
            Condition::NotIn(values) => write!(f, "{key} notin ({})", values.join(",")),
            Condition::Exists => f.write_str(key),
            Condition::Absent => write!(f, "!{key}"),
            Condition::Greater(bound) => write!(f, "{key}>{bound}"),
            Condition::Less(bound) => write!(f, "{key}<{bound}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_with_a_value_that_is_not_a_text_count_as_absent() {
        let selector = LabelSelector::parse("app").unwrap();
        let matches = |labels: Value| selector.matches(&json!({"metadata": {"labels": labels}}));
        assert!(matches(json!({"app": "web"})) && matches(json!({"app": null})));
        assert!(
            !matches(json!({"app": "web", "n": 1})) && !matches(json!({"n": "1"})) && !matches(json!("app"))
        );
        assert!(
            LabelSelector::parse("!app")
                .unwrap()
                .matches(&json!({"metadata": {"labels": {"app": "web", "n": 1}}}))
        );
    }

    /// Compares the names of those objects out of the four below that a selector matches.
    fn check(selector: &str, expected: &str) {
        let objects = [
            ("a", json!({"app": "web", "tier": "front", "n": "5"})),
            ("b", json!({"app": "web", "tier": "back", "n": "x"})),
            ("c", json!({"app": "db"})),
            ("d", json!({"app": ""})),
        ];
        let parsed = LabelSelector::parse(selector).unwrap();
        let mut selected: Vec<&str> = objects
            .iter()
            .filter(|(_, labels)| parsed.matches_labels(Some(labels)))
            .map(|(name, _)| *name)
            .collect();
        if parsed.matches_labels(None) {
            selected.push("none");
        }
        assert_eq!(selected.join(" "), expected, "{selector}");
    }

    #[test]
    fn requirements_select_by_value_and_presence() {
        check("", "a b c d none");
        check("app=web", "a b");
        check("app==web", "a b");
        check("app!=web", "c d none");
        check("app", "a b c d");
        check("!app", "none");
        check("!tier", "c d none");
        check("app=", "d");
        check("app,tier=", "");
        check("app in (web, db)", "a b c");
        check("app in ()", "d");
        check("app in (,db)", "c d");
        check("app notin (web)", "c d none");
        check("n>4", "a");
        check("n<6,app=web", "a");
        check(" app = web , tier != back ", "a");
        check("in in (in,notin)", "");
    }

    #[test]
    fn selector_objects_select_and_have_a_text() {
        let selector = json!({
            "matchLabels": {"b": "1", "a": "x"},
            "matchExpressions": [
                {"key": "c", "operator": "In", "values": ["z", "y"]},
                {"key": "e", "operator": "DoesNotExist"},
                {"key": "d", "operator": "Exists"},
            ],
        });
        assert_eq!(label_selector_text(&selector), "a=x,b=1,c in (y,z),d,!e");
        let parsed = LabelSelector::from_object(&selector).unwrap();
        assert!(parsed.matches_labels(Some(&json!({"a": "x", "b": "1", "c": "z", "d": ""}))));
        assert!(!parsed.matches_labels(Some(&json!({"a": "x", "b": "1", "c": "z", "d": "", "e": ""}))));
        assert_eq!(label_selector_text(&json!({})), "");
    }

    /// Observed with kube-apiserver v1.36.3: `app in (a,a)` in the status of a scale.
    #[test]
    fn the_text_of_a_selector_object_repeats_its_values() {
        let expression =
            |operator: &str| json!({"key": "app", "operator": operator, "values": ["b", "a", "b"]});
        let selector = json!({"matchExpressions": [expression("In"), expression("NotIn")]});
        assert_eq!(label_selector_text(&selector), "app in (a,b,b),app notin (a,b,b)");
        let once = LabelSelector::parse("app in (a,b),app notin (a,b)").unwrap();
        assert_eq!(LabelSelector::from_object(&selector).unwrap().normalized(), once);
        assert_eq!(LabelSelector::parse("app in (b,a,b)").unwrap().to_string(), "app in (a,b)");
    }

    #[test]
    fn an_invalid_selector_object_selects_nothing() {
        for expression in [
            json!({"key": "a", "operator": "Nope"}),
            json!({"key": "a", "operator": "In", "values": []}),
            json!({"key": "a", "operator": "Exists", "values": ["x"]}),
        ] {
            let selector = json!({"matchExpressions": [expression]});
            assert_eq!(LabelSelector::from_object(&selector), None);
        }
    }

    fn requirement() -> impl Strategy<Value = Requirement> {
        let value = "[a-zA-Z0-9]([a-zA-Z0-9._-]{0,5}[a-z0-9])?";
        let values = prop::collection::btree_set(value, 1..4);
        let condition = prop_oneof![
            value.prop_map(Condition::Equals),
            value.prop_map(Condition::NotEquals),
            values.clone().prop_map(|values| Condition::In(values.into_iter().collect())),
            values.prop_map(|values| Condition::NotIn(values.into_iter().collect())),
            Just(Condition::Exists),
            Just(Condition::Absent),
            any::<i64>().prop_map(Condition::Greater),
            any::<i64>().prop_map(Condition::Less),
        ];
        // A minus sign is not allowed in a label value, so bounds in text are never negative.
        let condition = condition.prop_map(|condition| match condition {
            Condition::Greater(bound) => Condition::Greater(bound.saturating_abs()),
            Condition::Less(bound) => Condition::Less(bound.saturating_abs()),
            other => other,
        });
        ("([a-z]{1,4}\\.io/)?[a-z]{1,8}", condition)
            .prop_map(|(key, condition)| Requirement { key, condition })
    }

    proptest! {
        #[test]
        fn the_text_of_a_selector_parses_to_the_same_selector(requirements in prop::collection::vec(requirement(), 0..5)) {
            let selector = LabelSelector { requirements };
            prop_assert_eq!(LabelSelector::parse(&selector.to_string()).unwrap(), selector);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[a-z!=<>(), \\t./é\\x00-]{0,30}") {
            let _ = LabelSelector::parse(&text);
        }
    }
}
