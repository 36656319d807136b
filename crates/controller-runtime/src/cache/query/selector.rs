//! Selectors in the syntax of `kubectl --selector` and `--field-selector`, evaluated by the cache.
//!
//! The API server applies the selectors of a list or watch. The cache evaluates them for reads by label, and to decide
//! whether an object that this process wrote belongs to the cache.

use std::{collections::BTreeSet, fmt};

use kube_apimachinery::selector::{self, FieldTerm, field_terms};
use serde_json::Value;

use crate::object::meta::Labels;

/// Error of a text that is not a selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a valid selector: {reason}")]
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
pub struct LabelSelector(selector::LabelSelector);

impl LabelSelector {
    /// Whether objects with these labels are selected.
    #[must_use]
    pub fn selects(&self, labels: &Labels) -> bool {
        self.0.holds(|key| labels.get(key))
    }

    /// Whether all objects are selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a selector of the objects that both select.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0.and(other.0))
    }
}

/// Selectors with the same conditions are equal.
impl std::str::FromStr for LabelSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        match selector::LabelSelector::parse(text) {
            Ok(selector) => Ok(Self(selector.normalized())),
            Err(error) => Err(SelectorError { text: text.to_owned(), reason: error.message().to_owned() }),
        }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Conditions on the fields of an object: `spec.nodeName=n,status.phase!=Failed`.
///
/// Each kind supports few fields, see `kubectl get --field-selector`; the API server rejects others.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldSelector {
    terms: BTreeSet<FieldTerm>,
}

impl FieldSelector {
    /// Whether the object is selected; `None` if its JSON does not decide that.
    ///
    /// A missing string counts as empty. A missing number or boolean is undecided, because the server compares fields
    /// of builtin kinds with `0` and `false` (`spec.unschedulable` of a node, `spec.hostNetwork` of a pod) and reads
    /// some of them from other fields (`status.successful` of a job). Arrays and objects are undecided as well, because
    /// the server derives such fields by special rules.
    pub(crate) fn selects(&self, object: &Value) -> Option<bool> {
        let mut all = Some(true);
        for FieldTerm { label, value, equal } in &self.terms {
            let found = label.split('.').try_fold(object, |object, name| object.get(name));
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
        self.terms.is_empty()
    }

    /// Returns the name that the selector requires of an object.
    pub(in crate::cache) fn required_name(&self) -> Option<&str> {
        let named = self.terms.iter().find(|term| term.equal && term.label == "metadata.name");
        named.map(|term| term.value.as_str())
    }

    /// Adds the condition that the object is not in a namespace.
    pub(in crate::cache) fn outside_of(mut self, namespace: &str) -> Self {
        let (label, value) = ("metadata.namespace".to_owned(), namespace.to_owned());
        self.terms.insert(FieldTerm { label, value, equal: false });
        self
    }
}

impl std::str::FromStr for FieldSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let terms = field_terms(text).collect::<Result<_, _>>();
        terms.map(|terms| Self { terms }).map_err(|reason| SelectorError { text: text.to_owned(), reason })
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in self.terms.iter().enumerate() {
            write!(f, "{}{term}", if i == 0 { "" } else { "," })?;
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
    fn an_invalid_label_selector_is_an_error_with_its_reason() {
        for (text, reason) in [
            (",", "found ',', expected: !, identifier, or 'end of string'"),
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("a ~ b", "unable to parse requirement: found '~', expected: in, notin, =, ==, !=, gt, lt"),
            ("=1", "found '=', expected: !, identifier, or 'end of string'"),
        ] {
            let error = text.parse::<LabelSelector>().expect_err(text);
            assert_eq!(error.reason, reason, "{text}");
        }
        assert_eq!(
            "a b".parse::<LabelSelector>().expect_err("no operator").to_string(),
            r#""a b" is not a valid selector: unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"#
        );
    }

    #[test]
    fn field_selectors_compare_the_json_of_an_object() {
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
