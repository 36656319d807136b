//! The order of merged lists.
//!
//! What the patch gives stands in the patch's order; what only the server has keeps its place relative to those
//! elements that both know.

use serde_json::Value;

use super::{DIRECTIVE, no_merge_key};
use crate::go;
use crate::status::ApiError;

/// How elements are recognized: by a field, or by themselves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keyed<'a>(pub(super) Option<&'a str>);

impl Keyed<'_> {
    fn identity<'v>(&self, item: &'v Value) -> Option<&'v Value> {
        match self.0 {
            None => Some(item),
            Some(key) => item.get(key),
        }
    }

    fn index(&self, list: &[Value], item: &Value) -> Option<usize> {
        let identity = self.identity(item)?;
        list.iter().position(|other| self.identity(other) == Some(identity))
    }

    /// Arranges `merged`: elements of `order` in that order, others where `live` had them.
    pub(super) fn arrange(
        &self,
        merged: Vec<Value>,
        order: &[Value],
        live: &[Value],
    ) -> Result<Vec<Value>, ApiError> {
        for item in merged.iter().chain(order) {
            if let (Some(key), Value::Object(fields)) = (self.0, item)
                && !fields.contains_key(key)
            {
                return Err(no_merge_key(fields, key));
            }
        }
        let (mut given, mut others): (Vec<Value>, Vec<Value>) =
            merged.into_iter().partition(|item| self.index(order, item).is_some());
        given.sort_by_key(|item| self.index(order, item));
        others.sort_by_key(|item| self.index(live, item));
        let mut arranged = Vec::with_capacity(given.len() + others.len());
        let mut given = given.into_iter().peekable();
        for other in others {
            let place = self.index(live, &other);
            while let Some(next) = given.peek() {
                let comes_before = match (place, self.index(live, next)) {
                    (Some(place), Some(next)) => next <= place,
                    _ => true,
                };
                if !comes_before {
                    break;
                }
                arranged.extend(given.next());
            }
            arranged.push(other);
        }
        arranged.extend(given);
        Ok(arranged)
    }

    /// The elements of a patch must stand in the order that the patch itself demands.
    pub(super) fn check_order(&self, patch: &[Value], order: &[Value]) -> Result<(), ApiError> {
        if patch.is_empty() || order.is_empty() {
            return Ok(());
        }
        let deletes = |item: &Value| self.0.is_some() && item.get(DIRECTIVE).is_some_and(|it| it == "delete");
        let mut given = patch.iter().filter(|item| !deletes(item)).peekable();
        for item in order {
            if given.peek().is_some_and(|next| self.identity(next) == self.identity(item)) {
                given.next();
            }
        }
        if given.peek().is_none() {
            return Ok(());
        }
        Err(ApiError::internal(format!(
            "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
            go::value(&Value::from(patch)),
            go::value(&Value::from(order))
        )))
    }
}
