//! Selectors in the syntax of `kubectl --selector` and `--field-selector`, evaluated by the cache.
//!
//! The API server applies the selectors of a list or watch. The cache evaluates them for reads by label, and to decide
//! whether an object that was just written belongs to it.

use std::{collections::BTreeSet, fmt};

use serde_json::Value;

use crate::object::meta::Labels;

/// Error of a text that is not a selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no selector: {reason}")]
#[non_exhaustive]
pub struct SelectorError {
    /// The text.
    pub text: String,
    /// The reason.
    pub reason: String,
}

/// Conditions on the labels of an object: `app=web,tier in (a,b),!legacy`.
///
/// The grammar is that of `kubectl get --selector`: `k=v`, `k==v`, `k!=v`, `k in (a,b)`, `k notin (a,b)`, `k`, `!k`,
/// `k>1` and `k<1`, separated by commas. All conditions must hold. `k!=v` and `notin` also select objects without the
/// label.
///
/// ```
/// use controller_runtime::cache::LabelSelector;
///
/// let selector: LabelSelector = "app = web, tier in (b,a)".parse()?;
/// assert_eq!(selector.to_string(), "app=web,tier in (a,b)");
/// # Ok::<(), controller_runtime::cache::SelectorError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelSelector {
    /// Sorted, so that selectors with the same conditions are equal.
    requirements: BTreeSet<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Requirement {
    key: String,
    holds: Holds,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Holds {
    Is(String),
    IsNot(String),
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    Absent,
    Above(i64),
    Below(i64),
}

impl LabelSelector {
    /// Whether objects with these labels are selected.
    #[must_use]
    pub fn selects(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|requirement| requirement.holds.of(labels.get(&requirement.key)))
    }

    /// Whether all objects are selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns a selector of the objects that both select.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.requirements.extend(other.requirements);
        self
    }
}

impl Holds {
    fn of(&self, label: Option<&str>) -> bool {
        let number = || label.and_then(|label| label.parse::<i64>().ok());
        match self {
            Self::Is(value) => label == Some(value),
            Self::IsNot(value) => label != Some(value),
            Self::In(values) => label.is_some_and(|label| values.contains(label)),
            Self::NotIn(values) => label.is_none_or(|label| !values.contains(label)),
            Self::Exists => label.is_some(),
            Self::Absent => label.is_none(),
            Self::Above(limit) => number().is_some_and(|number| number > *limit),
            Self::Below(limit) => number().is_some_and(|number| number < *limit),
        }
    }
}

impl std::str::FromStr for LabelSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let parts = split_outside_parentheses(text);
        let requirements = parts.map(Requirement::parse).collect::<Result<_, _>>();
        let requirements = requirements.map_err(|reason| SelectorError { text: text.to_owned(), reason })?;
        Ok(Self { requirements })
    }
}

impl Requirement {
    fn parse(text: &str) -> Result<Self, String> {
        let (key, holds) = match text.strip_prefix('!') {
            Some(key) => (key, Holds::Absent),
            None => match text.find(|c: char| c.is_whitespace() || "=!<>(".contains(c)) {
                None => (text, Holds::Exists),
                Some(end) => (&text[..end], Self::parse_condition(text[end..].trim())?),
            },
        };
        let key = key.trim();
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        if key.is_empty() || !key.chars().all(is_name) {
            return Err(format!("{text:?} does not begin with the name of a label"));
        }
        Ok(Self { key: key.to_owned(), holds })
    }

    fn parse_condition(text: &str) -> Result<Holds, String> {
        let value = |rest: &str| {
            let value = rest.trim();
            let is_value = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if value.chars().all(is_value) {
                Ok(value.to_owned())
            } else {
                Err(format!("{value:?} is no value"))
            }
        };
        let number = |rest: &str| rest.trim().parse().map_err(|_| format!("{:?} is no integer", rest.trim()));
        let set = |rest: &str| {
            let inner = rest.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
            let inner = inner.ok_or_else(|| format!("{:?} is no list in parentheses", rest.trim()))?;
            inner.split(',').map(value).collect::<Result<_, _>>()
        };
        let after = |operator| text.strip_prefix(operator);
        if let Some(rest) = after("==").or_else(|| after("=")) {
            value(rest).map(Holds::Is)
        } else if let Some(rest) = after("!=") {
            value(rest).map(Holds::IsNot)
        } else if let Some(rest) = after("notin") {
            set(rest).map(Holds::NotIn)
        } else if let Some(rest) = after("in") {
            set(rest).map(Holds::In)
        } else if let Some(rest) = after(">") {
            number(rest).map(Holds::Above)
        } else if let Some(rest) = after("<") {
            number(rest).map(Holds::Below)
        } else {
            Err(format!("{text:?} is none of =, ==, !=, in, notin, < and >"))
        }
    }
}

/// Splits a text at commas outside of parentheses. An empty text has no parts.
fn split_outside_parentheses(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    let parts = text.split(move |c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(move |_| !text.trim().is_empty())
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Requirement { key, holds }) in self.requirements.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { "," })?;
            let joined =
                |values: &BTreeSet<String>| values.iter().map(|v| &**v).collect::<Vec<_>>().join(",");
            match holds {
                Holds::Is(value) => write!(f, "{key}={value}"),
                Holds::IsNot(value) => write!(f, "{key}!={value}"),
                Holds::In(values) => write!(f, "{key} in ({})", joined(values)),
                Holds::NotIn(values) => write!(f, "{key} notin ({})", joined(values)),
                Holds::Exists => f.write_str(key),
                Holds::Absent => write!(f, "!{key}"),
                Holds::Above(limit) => write!(f, "{key}>{limit}"),
                Holds::Below(limit) => write!(f, "{key}<{limit}"),
            }?;
        }
        Ok(())
    }
}

/// Conditions on the fields of an object: `spec.nodeName=n,status.phase!=Failed`.
///
/// Each kind supports few fields, see `kubectl get --field-selector`; the API server rejects others.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldSelector {
    /// Path, whether the field must be equal, and the value.
    requirements: BTreeSet<(String, bool, String)>,
}

impl FieldSelector {
    /// Whether the object is selected; `None` if its JSON does not decide that.
    ///
    /// A missing string counts as empty. A missing number or boolean is undecided, because the server compares fields
    /// of builtin kinds with `0` and `false` (`spec.unschedulable` of a node, `spec.hostNetwork` of a pod) and finds
    /// some under other names (`status.successful` of a job). Arrays and objects are undecided as well, because the
    /// server derives such fields by special rules.
    pub(crate) fn selects(&self, object: &Value) -> Option<bool> {
        let mut all = Some(true);
        for (path, equal, value) in &self.requirements {
            let found = path.split('.').try_fold(object, |object, name| object.get(name));
            let is_text = value.parse::<i64>().is_err() && value.parse::<bool>().is_err();
            let holds = match found {
                None | Some(Value::Null) => is_text.then_some(value.is_empty()),
                Some(Value::String(found)) => Some(found == value),
                Some(Value::Number(found)) => Some(found.to_string() == *value),
                Some(Value::Bool(found)) => Some(found.to_string() == *value),
                Some(_) => None,
            };
            match holds {
                Some(holds) if holds == *equal => {}
                Some(_) => return Some(false), // all conditions must hold
                None => all = None,
            }
        }
        all
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Adds the condition that the object is not in a namespace.
    pub(in crate::cache) fn outside_of(mut self, namespace: &str) -> Self {
        self.requirements.insert(("metadata.namespace".to_owned(), false, namespace.to_owned()));
        self
    }
}

impl std::str::FromStr for FieldSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let parse = |part: &str| {
            let (path, value, equal) = if let Some((path, value)) = part.split_once("!=") {
                (path, value, false)
            } else {
                let (path, value) = part.split_once('=')?;
                (path, value.strip_prefix('=').unwrap_or(value), true)
            };
            let path = path.trim();
            (!path.is_empty()).then(|| (path.to_owned(), equal, value.trim().to_owned()))
        };
        let parts = text.split(',').filter(|_| !text.trim().is_empty());
        let requirements = parts
            .map(|part| parse(part).ok_or_else(|| format!("{part:?} is none of path=value and path!=value")))
            .collect::<Result<_, _>>();
        let requirements = requirements.map_err(|reason| SelectorError { text: text.to_owned(), reason })?;
        Ok(Self { requirements })
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (path, equal, value)) in self.requirements.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{path}{}{value}", if *equal { "=" } else { "!=" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use crate::cache::Lazy;

    /// Whether `selector` selects an object with labels written as `a=1,b=2`.
    fn selects(selector: &str, labels: &str) -> bool {
        let labels = labels.split(',').filter_map(|label| label.split_once('='));
        let mut object = ConfigMap::default();
        object.metadata.name = Some("x".to_owned());
        object.metadata.namespace = Some("x".to_owned());
        object.metadata.labels = Some(labels.map(|(k, v)| (k.to_owned(), v.to_owned())).collect());
        let selector: LabelSelector = selector.parse().expect("a selector");
        let again: LabelSelector = selector.to_string().parse().expect("its own text");
        assert_eq!(again, selector);
        selector.selects(Lazy::of(object).expect("it has a key").meta().labels())
    }

    #[test]
    fn label_selectors_select_as_the_api_server_does() {
        for (selector, yes, no) in [
            ("", "a=1", "-"),
            ("a=1", "a=1,b=2", "a=2"),
            ("a==1", "a=1", ""),
            ("a = 1 , b = 2", "a=1,b=2", "a=1"),
            ("a!=1", "b=1", "a=1"),
            ("a in (1,2)", "a=2", "b=1"),
            ("a in(1)", "a=1", "a="),
            ("a in ()", "a=", "a=1"),
            ("a notin (1, 2)", "", "a=2"),
            ("a", "a=", "b=a"),
            ("!a", "b=1", "a=1"),
            ("a=", "a=", "a=1"),
            ("a>5", "a=6", "a=5"),
            ("a<5", "a=4", "a=x"),
            ("example.com/in", "example.com/in=1", "a=1"),
        ] {
            assert!(selects(selector, yes), "{selector:?} selects {yes:?}");
            assert!(no == "-" || !selects(selector, no), "{selector:?} does not select {no:?}");
        }
    }

    #[test]
    fn what_is_no_label_selector_says_why() {
        for (text, reason) in [
            (",", "\"\" does not begin with the name of a label"),
            ("a=b=c", "\"b=c\" is no value"),
            ("a in b", "\"b\" is no list in parentheses"),
            ("a > b", "\"b\" is no integer"),
            ("a ~ b", "\"~ b\" is none of =, ==, !=, in, notin, < and >"),
            ("=1", "\"=1\" does not begin with the name of a label"),
        ] {
            let error = text.parse::<LabelSelector>().expect_err(text);
            assert_eq!(error.reason, reason, "{text}");
        }
        assert_eq!(
            "a b".parse::<LabelSelector>().expect_err("no operator").to_string(),
            r#""a b" is no selector: "b" is none of =, ==, !=, in, notin, < and >"#
        );
    }

    #[test]
    fn field_selectors_select_what_the_json_of_an_object_says() {
        let pod = json!({ "spec": { "nodeName": "n", "hostNetwork": true }, "status": { "podIPs": [] } });
        let selects = |text: &str| text.parse::<FieldSelector>().expect("a selector").selects(&pod);
        assert_eq!(selects("spec.nodeName=n"), Some(true));
        assert_eq!(selects("spec.nodeName==n,spec.hostNetwork=true"), Some(true));
        assert_eq!(selects("spec.nodeName!=n"), Some(false));
        assert_eq!(selects("status.phase="), Some(true));
        assert_eq!(selects("status.phase=Running"), Some(false));
        assert_eq!(selects("status.podIPs=1"), None);
        assert_eq!(selects("spec.nodeName=n,spec.unschedulable=false"), None);
        assert_eq!(selects("status.successful!=0"), None);
        assert_eq!(selects("spec.unschedulable=false,spec.nodeName!=n"), Some(false), "whatever it is");
        assert_eq!("b=1,a!=2".parse::<FieldSelector>().expect("a selector").to_string(), "a!=2,b=1");
        assert!("a".parse::<FieldSelector>().is_err());
    }
}
