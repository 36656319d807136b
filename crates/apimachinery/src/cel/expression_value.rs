//! Results of expressions.

use serde_json::{Map, Value};

use super::EXPRESSION_LIMIT;
use super::cost::Cost;
use super::message;
use super::value::Val;

/// Result of an expression.
#[derive(Debug, Clone)]
pub struct ExpressionValue<'a>(pub(super) Val<'a>);

impl ExpressionValue<'_> {
    /// Whether the value is `true`.
    #[must_use]
    pub fn is_true(&self) -> bool {
        matches!(self.0, Val::Bool(true))
    }

    /// Whether the value is `false`.
    #[must_use]
    pub fn is_false(&self) -> bool {
        matches!(self.0, Val::Bool(false))
    }

    /// Whether the value is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self.0, Val::Null)
    }

    /// Returns the text of a string.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.0 {
            Val::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the name of the type.
    #[must_use]
    pub fn type_name(&self) -> &str {
        self.0.type_name()
    }

    /// Returns the fields of a constructed `Object`: the configuration to apply.
    ///
    /// # Errors
    /// kube-apiserver's text if the value is not an `Object`, or the names of its types do not match the paths of its fields.
    pub fn configuration(&self) -> Result<Value, String> {
        let Val::Message(message) = &self.0 else {
            return Err(format!(
                "unsupported return type from ApplyConfiguration expression: {}",
                self.type_name()
            ));
        };
        message.check_types()?;
        message::to_configuration(&self.0, "", &mut Cost::new(EXPRESSION_LIMIT))
    }

    /// Returns the operations of a JSON patch.
    ///
    /// # Errors
    /// kube-apiserver's text if the value is not a list of `JSONPatch`, or a value of an operation has no JSON form.
    pub fn patch_operations(&self) -> Result<Value, String> {
        let mut cost = Cost::new(EXPRESSION_LIMIT);
        let Some(elements) = self.0.range().filter(|_| self.0.is_list()) else {
            return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
        };
        let operation = |element: Val<'_>| {
            let Val::Message(message) = &element else { return Err(not_an_operation(&element)) };
            if !message.is_patch_operation() {
                return Err(not_an_operation(&element));
            }
            let mut operation = Map::new();
            // As in kube-apiserver, an operation without a kind or a path has an empty one.
            for field in ["op", "path", "from"] {
                let text = match message.field(field) {
                    Some(Val::String(text)) => text,
                    _ => "",
                };
                if field != "from" || !text.is_empty() {
                    operation.insert(field.to_owned(), text.into());
                }
            }
            if let Some(value) = message.field("value") {
                if let Val::Message(message) = value {
                    message.check_types()?;
                }
                let json = message::to_json(value, &mut cost).map_err(|why| {
                    format!(
                        "JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}"
                    )
                })?;
                operation.insert("value".to_owned(), json);
            }
            Ok(Value::Object(operation))
        };
        elements.map(operation).collect()
    }
}

fn not_an_operation(element: &Val<'_>) -> String {
    format!(
        "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch: unsupported native conversion from {}",
        element.type_name()
    )
}
