//! Lists of resource amounts, such as the requests of a container: Go's `ResourceList`.

use std::collections::BTreeMap;
use std::fmt;

use kube_apimachinery::quantity::Quantity;
use kube_apimachinery::status::FieldError;
use serde_json::{Map, Value};

use super::field_checks::invalid_text;
use super::resource_names;

/// Amounts by resource name, in the order of names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Amounts(BTreeMap<String, Quantity>);

impl Amounts {
    /// Reads a JSON object of quantities. Other values are skipped; decoding refuses them anyway.
    pub(crate) fn read(list: &Value) -> Self {
        let entries = list.as_object().into_iter().flatten();
        Self(
            entries
                .filter_map(|(name, amount)| Some((name.clone(), Quantity::read(amount.as_str()?)?)))
                .collect(),
        )
    }

    /// Returns the list as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let entries = self.0.iter().map(|(name, amount)| (name.clone(), amount.to_string().into()));
        Value::Object(entries.collect::<Map<_, _>>())
    }

    pub(crate) fn get(&self, name: &str) -> Option<Quantity> {
        self.0.get(name).copied()
    }

    pub(crate) fn set(&mut self, name: impl Into<String>, amount: Quantity) {
        self.0.insert(name.into(), amount);
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the amounts of another list.
    pub(crate) fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let sum = self.0.get(name).map_or(*amount, |own| own.plus(*amount));
            self.0.insert(name.clone(), sum);
        }
    }

    /// Raises each amount that is lower than in another list, or absent, to the amount there.
    pub(crate) fn raise(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            if self.0.get(name).is_none_or(|own| amount > own) {
                self.0.insert(name.clone(), *amount);
            }
        }
    }

    /// Returns the amounts by which this list exceeds another one, but at least zero. The result has the names of both lists.
    pub(crate) fn beyond(&self, other: &Self) -> Self {
        let mut rest: BTreeMap<_, _> = other.0.keys().map(|name| (name.clone(), Quantity::ZERO)).collect();
        for (name, amount) in &self.0 {
            let left = other.0.get(name).map_or(*amount, |other| amount.minus(*other));
            rest.insert(name.clone(), left.max(Quantity::ZERO));
        }
        Self(rest)
    }

    /// Returns the amounts that satisfy a condition on name and value.
    pub(crate) fn only(&self, condition: impl Fn(&str, Quantity) -> bool) -> Self {
        let entries = self.iter().filter(|(name, amount)| condition(name, *amount));
        Self(entries.map(|(name, amount)| (name.to_owned(), amount)).collect())
    }
}

/// Checks that an amount is not negative, and that it is an integer if the resource has no fractions.
pub(in crate::kinds::builtin) fn validate_amount(
    name: &str,
    amount: Quantity,
    path: &str,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let shown = amount.to_string();
    if amount < Quantity::ZERO {
        errors.push(invalid_text(path, &shown, "must be greater than or equal to 0"));
    }
    if resource_names::is_whole(name) && amount.millis() % 1000 != 0 {
        errors.push(invalid_text(path, &shown, "must be an integer"));
    }
    errors
}

/// Rounds the amounts of a list to thousandths, away from zero, as kube-apiserver's defaulting of resource lists does.
pub(in crate::kinds::builtin) fn round(list: &mut Value) {
    for amount in list.as_object_mut().into_iter().flat_map(Map::values_mut) {
        // Only amounts with one of these characters can have a smaller part; `-` is for negative exponents.
        let Some(text) = amount.as_str().filter(|text| text.contains(['.', 'u', 'n', '-'])) else { continue };
        let Some(exact) = Quantity::read(text) else { continue };
        let rounded = exact.in_thousandths();
        if rounded != exact {
            *amount = rounded.to_string().into();
        }
    }
}

/// Rounds the requests and limits in a `resources` field.
pub(in crate::kinds::builtin) fn round_resources(resources: &mut Value) {
    for field in ["limits", "requests"] {
        if let Some(list) = resources.get_mut(field) {
            round(list);
        }
    }
}

/// Rounds the lists in these fields of an object.
pub(in crate::kinds::builtin) fn round_fields(object: &mut Value, fields: &[&str]) {
    for field in fields {
        if let Some(list) = object.get_mut(field) {
            round(list);
        }
    }
}

/// Formats amounts as `cpu=1,memory=2Gi`.
impl fmt::Display for Amounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, amount)) in self.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            write!(f, "{separator}{name}={amount}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(list: &Value) -> Amounts {
        Amounts::read(list)
    }

    #[test]
    fn amounts_are_rounded_to_thousandths() {
        let mut list = json!({
            "a": "100u", "b": "1500u", "c": "1n", "d": "-1u", "e": "1", "f": "1.5Gi", "g": "1500m", "h": "1e-6", "i": "0.0015", "j": 5,
        });
        round(&mut list);
        assert_eq!(
            list,
            json!({
                "a": "1m", "b": "2m", "c": "1m", "d": "-1m", "e": "1", "f": "1.5Gi", "g": "1500m", "h": "1e-3", "i": "2m", "j": 5,
            })
        );
    }

    #[test]
    fn lists_are_added_raised_and_subtracted_by_name() {
        let mut list = read(&json!({"cpu": "1", "memory": "1Gi"}));
        list.add(&read(&json!({"cpu": "500m", "pods": "1"})));
        assert_eq!(list.to_string(), "cpu=1500m,memory=1Gi,pods=1");
        list.raise(&read(&json!({"cpu": "1", "memory": "2Gi", "storage": "5"})));
        assert_eq!(list.to_string(), "cpu=1500m,memory=2Gi,pods=1,storage=5");
        let rest = list.beyond(&read(&json!({"cpu": "2", "memory": "1Gi", "gone": "1"})));
        assert_eq!(rest.to_string(), "cpu=0,gone=0,memory=1Gi,pods=1,storage=5");
        assert_eq!(rest.only(|_, amount| !amount.is_zero()).to_string(), "memory=1Gi,pods=1,storage=5");
        assert_eq!(read(&json!({"cpu": "x", "pods": 5})), Amounts::default());
        assert_eq!(read(&json!({"memory": "1024Mi"})).to_json(), json!({"memory": "1Gi"}));
    }
}
