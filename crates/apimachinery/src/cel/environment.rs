//! Variables that expressions can use.

use std::sync::Arc;

use super::types::Type;

/// Variable with the variables of a policy as its fields.
const VARIABLES: &str = "variables";

/// Variables of an expression and their types.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: Vec<(&'static str, Type)>,
    /// Whether expressions can construct an `Object` or a `JSONPatch`.
    pub(super) constructs_patches: bool,
    /// Whether expressions have the functions of the namespace `cel`, such as `cel.bind`.
    pub(super) has_bindings: bool,
}

impl Environment {
    /// Creates an environment with these variables.
    #[must_use]
    pub fn new(variables: Vec<(&'static str, Type)>) -> Self {
        Self { variables, constructs_patches: false, has_bindings: false }
    }

    /// Lets expressions construct an `Object` or a `JSONPatch`, as those of mutations do.
    #[must_use]
    pub fn with_patches(mut self) -> Self {
        self.constructs_patches = true;
        self
    }

    /// Lets expressions use the functions of the namespace `cel`, as those that select devices do.
    #[must_use]
    pub fn with_bindings(mut self) -> Self {
        self.has_bindings = true;
        self
    }

    /// Adds a variable.
    #[must_use]
    pub fn with(mut self, name: &'static str, of: Type) -> Self {
        self.variables.push((name, of));
        self
    }

    /// Adds the variable `variables`. Its fields are the variables of a policy; it has none yet.
    #[must_use]
    pub fn with_variables(self) -> Self {
        self.with(VARIABLES, Type::Composed("kubernetes.variables".into(), Arc::default()))
    }

    /// Adds a variable of the policy: a field of the variable `variables`.
    pub fn add_policy_variable(&mut self, name: &str, of: Type) {
        let variables = self.variables.iter_mut().find(|(known, _)| *known == VARIABLES);
        if let Some((_, Type::Composed(_, fields))) = variables {
            Arc::make_mut(fields).insert(name.to_owned(), field_type(of));
        }
    }

    /// Returns the type of a variable; `None` if there is no such variable.
    pub(super) fn type_of(&self, name: &str) -> Option<&Type> {
        self.variables.iter().find(|(known, _)| *known == name).map(|(_, of)| of)
    }
}

/// Returns the declared type of a policy variable whose expression has the type `of`. As in kube-apiserver, objects and optional values are
/// declared `dyn`.
fn field_type(of: Type) -> Type {
    match of {
        Type::Object(_) | Type::Composed(..) | Type::Optional(_) | Type::Type => Type::Dyn,
        Type::List(element) => Type::List(Box::new(field_type(*element))),
        Type::Map(key, value) => Type::Map(Box::new(field_type(*key)), Box::new(field_type(*value))),
        other => other,
    }
}
