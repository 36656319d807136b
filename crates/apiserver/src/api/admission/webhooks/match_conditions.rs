//! Match conditions of a webhook.

use kube_apimachinery::cel::{
    AccessQuery, Activation, AuthorizerDecision, EvaluationError, MATCH_CONDITIONS_BUDGET, Program,
};
use kube_apimachinery::go;
use kube_apimachinery::rbac::{Action, ResourceAction};
use kube_apimachinery::status::ApiError;
use serde_json::Value;

use super::admission_review;
use super::webhook::Webhook;
use crate::api::admission::Attributes;
use crate::kind::match_condition;
use crate::kind::registry::ServedKind;
use crate::user::UserInfo;

/// A match condition.
#[derive(Debug)]
pub(super) struct Condition {
    expression: String,
    /// The compiled expression. Validation refuses expressions that do not compile, but a data file may contain one.
    program: Result<Program, String>,
}

impl Condition {
    pub(super) fn read(condition: &Value) -> Self {
        let expression = condition["expression"].as_str().unwrap_or_default();
        // As in validation, surrounding whitespace is not compiled; messages show the expression unchanged.
        Self { expression: expression.to_owned(), program: match_condition::compile(expression.trim()) }
    }
}

/// Whether all conditions of a webhook hold. One condition that is false decides, even if others fail.
///
/// `served` is the resource as which the webhook receives the request; `object` and `old` are in its version.
///
/// # Errors
/// 403 if a condition cannot be evaluated, unless the failure policy is `Ignore`; then the webhook is not called.
pub(super) fn hold(
    webhook: &Webhook,
    attributes: &Attributes<'_>,
    served: &ServedKind,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<bool, ApiError> {
    if webhook.conditions.is_empty() {
        return Ok(true);
    }
    let mut request = admission_review::fields(attributes, served, object);
    request["options"] = attributes.options().unwrap_or_default();
    let null = Value::Null;
    let (name, namespace) = (request["name"].as_str(), request["namespace"].as_str());
    let authorizer = |query: &AccessQuery| decide(attributes, query);
    let activation = Activation {
        request_resource: AccessQuery {
            group: served.resource.group.clone(),
            resource: served.resource.plural.clone(),
            subresource: attributes.subresource.to_owned(),
            namespace: namespace.unwrap_or_default().to_owned(),
            name: name.unwrap_or_default().to_owned(),
            ..AccessQuery::default()
        },
        variables: vec![
            ("object", object.unwrap_or(&null)),
            ("oldObject", old.unwrap_or(&null)),
            ("namespaceObject", &null),
            ("request", &request),
        ],
        authorizer: &authorizer,
    };
    let mut budget = MATCH_CONDITIONS_BUDGET;
    let mut errors: Vec<String> = Vec::new();
    let mut all_true = true;
    // As in kube-apiserver, conditions behind a false one are evaluated too: the budget may not suffice for them.
    for condition in &webhook.conditions {
        let value = match &condition.program {
            Ok(program) => program.holds(&activation, &mut budget),
            Err(why) => {
                errors.push(format!("compilation error: {why}"));
                continue;
            }
        };
        match value {
            Ok(value) => all_true &= value,
            Err(EvaluationError::OutOfBudget) => {
                // No other condition decides.
                (errors, all_true) = (vec![EvaluationError::OutOfBudget.to_string()], true);
                break;
            }
            Err(why) => {
                errors.push(format!("expression '{}' resulted in error: {why}", condition.expression));
            }
        }
    }
    if !all_true || errors.is_empty() {
        return Ok(all_true);
    }
    if webhook.ignores_failure {
        return Ok(false);
    }
    let why = go::join_errors(&errors);
    let resource = &attributes.served.resource;
    let name = request["name"].as_str().unwrap_or_default();
    Err(ApiError::forbidden(&resource.group, &resource.plural, name, &why))
}

/// Asks the authorizer about the user of the request, or about a service account.
fn decide(attributes: &Attributes<'_>, query: &AccessQuery) -> AuthorizerDecision {
    let account;
    let user = match &query.service_account {
        None => attributes.user,
        Some((namespace, name)) => {
            account = UserInfo {
                name: format!("system:serviceaccount:{namespace}:{name}"),
                groups: vec![
                    "system:serviceaccounts".to_owned(),
                    format!("system:serviceaccounts:{namespace}"),
                ],
                ..UserInfo::default()
            };
            &account
        }
    };
    let action = match &query.path {
        Some(path) => Action::Path { verb: &query.verb, path },
        None => Action::Resource(ResourceAction {
            verb: &query.verb,
            group: &query.group,
            resource: &query.resource,
            subresource: &query.subresource,
            namespace: &query.namespace,
            name: &query.name,
        }),
    };
    let decision = attributes.permissions.authorizer().decide(user, &action);
    AuthorizerDecision { allowed: decision.is_allowed(), reason: decision.reason() }
}
