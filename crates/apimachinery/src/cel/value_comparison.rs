//! Equality and order of values.

use std::cmp::Ordering;

use super::cost::Cost;
use super::evaluation_error::{EvaluationError, failed, no_overload};
use super::value::{RcCow, Val};
use super::value_schema::{SchemaList, ValueSchema};

impl Val<'_> {
    /// Compares values of any types, numbers by their value. Each compared pair of values is paid for.
    ///
    /// Recurses at most as deep as the values are nested: those of documents as deep as the decoder allows, others as deep as the parser
    /// allows.
    pub(super) fn equals(&self, other: &Val<'_>, cost: &mut Cost) -> Result<bool, EvaluationError> {
        cost.spend(1)?;
        match (self, other) {
            (Self::Null, Val::Null) => Ok(true),
            (Self::Bool(one), Val::Bool(two)) => Ok(one == two),
            (Self::String(one), Val::String(two)) => {
                cost.text(one.len().min(two.len()))?;
                Ok(**one == **two)
            }
            (Self::Bytes(one), Val::Bytes(two)) => {
                cost.text(one.len().min(two.len()))?;
                Ok(**one == **two)
            }
            (Self::Type(one), Val::Type(two)) => Ok(one == two),
            (Self::Message(one), Val::Message(two)) => one.equals(two, cost),
            (Self::Timestamp(one), Val::Timestamp(two)) => Ok(one.at == two.at),
            (Self::Duration(one), Val::Duration(two)) => Ok(one == two),
            (Self::Optional(one), Val::Optional(two)) => match (one, two) {
                (Some(one), Some(two)) => one.equals(two, cost),
                (one, two) => Ok(one.is_none() && two.is_none()),
            },
            (Self::Quantity(one), Val::Quantity(two)) => Ok(one.amount == two.amount),
            (Self::Url(one), Val::Url(two)) => Ok(one == two),
            (Self::Ip(one), Val::Ip(two)) => Ok(one == two),
            (Self::Cidr(one), Val::Cidr(two)) => Ok(one == two),
            (Self::Semver(one), Val::Semver(two)) => Ok(one.compare(two).is_eq()),
            (Self::Format(one), Val::Format(two)) => Ok(one.name == two.name),
            (Self::Preserved(one), Val::Preserved(two)) => {
                cost.json(one)?;
                Ok(one == two)
            }
            (Self::Unusable(why), _) | (_, Val::Unusable(why)) => Err(failed(&**why)),
            // The library's types refuse other types instead of being unequal to them.
            (one, _) if one.is_opaque() => Err(no_overload()),
            (one, two) if one.is_map() && two.is_map() => one.equals_map(two, cost),
            (one, two) if one.is_list() && two.is_list() => one.equals_list(two, cost),
            (one, two) => Ok(one.compare_numbers(two) == Some(Ordering::Equal)),
        }
    }

    fn equals_map(&self, other: &Val<'_>, cost: &mut Cost) -> Result<bool, EvaluationError> {
        if self.count() != other.count() {
            return Ok(false);
        }
        if let (Self::TypedMap(one, schema), Val::TypedMap(two, _)) = (self, other) {
            // Fields without a schema are compared as JSON, if both objects have them.
            for (key, value) in one.iter().filter(|(key, _)| !schema.declares(key)) {
                cost.json(value)?;
                if two.get(key).is_some_and(|other| other != value) {
                    return Ok(false);
                }
            }
        }
        for key in self.range().into_iter().flatten() {
            let equal = match (self.get(&key, cost)?, other.get(&key, cost)?) {
                (Some(one), Some(two)) => one.equals(&two, cost)?,
                // A field that is null counts as absent.
                (None, None) => true,
                _ => false,
            };
            if !equal {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn equals_list(&self, other: &Val<'_>, cost: &mut Cost) -> Result<bool, EvaluationError> {
        if self.count() != other.count() {
            return Ok(false);
        }
        // As in kube-apiserver, the first operand decides whether the order counts.
        if let Some(schema) = self.unordered() {
            return self.equals_unordered(other, schema, cost);
        }
        for (one, two) in self.range().into_iter().flatten().zip(other.range().into_iter().flatten()) {
            if !one.equals(&two, cost)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Compares a set or a keyed list with a list of the same length.
    fn equals_unordered(
        &self,
        other: &Val<'_>,
        schema: &ValueSchema,
        cost: &mut Cost,
    ) -> Result<bool, EvaluationError> {
        for wanted in other.range().into_iter().flatten() {
            let mut is_known = false;
            for known in self.range().into_iter().flatten() {
                if known.same_identity(&wanted, schema, cost)? {
                    is_known = matches!(schema.list, SchemaList::Set) || known.equals(&wanted, cost)?;
                    break;
                }
            }
            if !is_known {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether two elements are the same one of a set, or have the same keys in a keyed list.
    pub(super) fn same_identity(
        &self,
        other: &Val<'_>,
        schema: &ValueSchema,
        cost: &mut Cost,
    ) -> Result<bool, EvaluationError> {
        let SchemaList::Keyed(keys) = &schema.list else { return self.equals(other, cost) };
        for key in keys {
            let key = Val::String(RcCow::Borrowed(&key.identifier));
            let equal = match (self.get(&key, cost)?, other.get(&key, cost)?) {
                (Some(one), Some(two)) => one.equals(&two, cost)?,
                (one, two) => one.is_none() && two.is_none(),
            };
            if !equal {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Compares values of an ordered type.
    pub(super) fn compare(
        &self,
        other: &Val<'_>,
        cost: &mut Cost,
    ) -> Result<Option<Ordering>, EvaluationError> {
        cost.spend(1)?;
        Ok(match (self, other) {
            (Self::Bool(one), Val::Bool(two)) => Some(one.cmp(two)),
            (Self::String(one), Val::String(two)) => {
                cost.text(one.len().min(two.len()))?;
                Some((**one).cmp(&**two))
            }
            (Self::Bytes(one), Val::Bytes(two)) => {
                cost.text(one.len().min(two.len()))?;
                Some((**one).cmp(&**two))
            }
            (Self::Timestamp(one), Val::Timestamp(two)) => Some(one.at.cmp(&two.at)),
            (Self::Duration(one), Val::Duration(two)) => Some(one.cmp(two)),
            (one, two) => one.compare_numbers(two),
        })
    }

    fn compare_numbers(&self, other: &Val<'_>) -> Option<Ordering> {
        let double = |value: &Val<'_>| match value {
            Val::Int(value) => Some(*value as f64),
            Val::Uint(value) => Some(*value as f64),
            Val::Double(value) => Some(*value),
            _ => None,
        };
        match (self, other) {
            (Self::Int(one), Val::Int(two)) => Some(one.cmp(two)),
            (Self::Uint(one), Val::Uint(two)) => Some(one.cmp(two)),
            (Self::Int(one), Val::Uint(two)) => Some(i128::from(*one).cmp(&i128::from(*two))),
            (Self::Uint(one), Val::Int(two)) => Some(i128::from(*one).cmp(&i128::from(*two))),
            // With a float on one side both are compared as floats; a NaN has no order.
            (one, two) => double(one)?.partial_cmp(&double(two)?),
        }
    }

    /// Whether this is a value of Kubernetes' libraries.
    fn is_opaque(&self) -> bool {
        matches!(
            self,
            Self::Quantity(_)
                | Self::Url(_)
                | Self::Ip(_)
                | Self::Cidr(_)
                | Self::Semver(_)
                | Self::Format(_)
                | Self::Query(_)
                | Self::Decision(_)
        )
    }
}
