//! `rbac`: the rights of the operator.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{CommandOutput, answer};
use crate::{
    manifests::risks,
    operator::{
        CommandError, Operator,
        arguments::{OutputFormat, RightsArguments, run_flags},
    },
    rights::{Declaration, Declarations, RightScope, Target},
};

/// Prints the declared rights.
pub(super) fn print(operator: &Operator, arguments: &RightsArguments) -> Result<CommandOutput, CommandError> {
    let flags = run_flags(operator, &arguments.run)?;
    let declarations = operator.manager_offline(&flags, operator.name)?.declarations();
    Ok(match arguments.output.format {
        OutputFormat::Text => declarations.to_string().into(),
        OutputFormat::Json => {
            let rights: Vec<Value> = declarations.iter().map(right).collect();
            answer([("rights", json!(rights)), ("risks", json!(risk_list(&declarations)))]).into()
        }
    })
}

fn risk_list(declarations: &Declarations) -> Vec<Value> {
    let risk = risks(declarations).into_iter();
    risk.map(|risk| json!({ "rule": risk.rule, "text": risk.to_string(), "place": place(risk.place) }))
        .collect()
}

fn right(declaration: &Declaration) -> Value {
    let right = &declaration.right;
    let verbs = |verbs: &std::collections::BTreeSet<Cow<'static, str>>| -> Vec<String> {
        verbs.iter().map(ToString::to_string).collect()
    };
    let (scope, namespaces) = match &right.scope {
        RightScope::Cluster => ("cluster", json!([])),
        RightScope::OwnNamespace => ("own-namespace", json!([])),
        RightScope::Namespaces { names, .. } => {
            ("namespaces", names.iter().map(|name| Value::from(&**name)).collect())
        }
    };
    let mut value = json!({
        "verbs": verbs(&right.verbs),
        "scope": scope,
        "namespaces": namespaces,
        "controller": declaration.controller.as_deref(),
        "reason": declaration.reason,
        "place": place(declaration.place),
        "fallback": verbs(&declaration.fallback),
    });
    match &right.target {
        Target::Url(path) => value["url"] = json!(path),
        Target::Objects { group, resource, subresource, names } => {
            value["group"] = json!(group);
            value["resource"] = json!(resource);
            value["subresource"] = json!(subresource);
            value["names"] = json!(names);
        }
    }
    value
}

/// A line of the program.
pub(super) fn place(place: &std::panic::Location<'_>) -> String {
    format!("{}:{}", place.file(), place.line())
}
