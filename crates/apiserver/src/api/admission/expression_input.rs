//! Variables of expressions about a request: those of match conditions and of admission policies.

use kube_apimachinery::cel::{AccessQuery, Activation, AuthorizerDecision, Composition, Variables};
use kube_apimachinery::rbac::{Action, ResourceAction};
use serde_json::Value;

use super::{Attributes, request_fields};
use crate::kind::registry::ServedKind;
use crate::user::UserInfo;

static NULL: Value = Value::Null;

/// Answers the queries of an expression to the authorizer.
type Authorize<'a> = dyn Fn(&AccessQuery) -> AuthorizerDecision + 'a;

/// Values of the variables of an expression.
pub(super) struct ExpressionInput<'a> {
    pub(super) attributes: &'a Attributes<'a>,
    pub(super) object: Option<&'a Value>,
    pub(super) old: Option<&'a Value>,
    /// Parameters of a policy.
    pub(super) params: Option<&'a Value>,
    /// Namespace of the object. Match conditions have none.
    pub(super) namespace: Option<&'a Value>,
    /// `AdmissionRequest`, without objects.
    pub(super) request: Value,
}

impl<'a> ExpressionInput<'a> {
    /// Creates the input for objects in the version of `served`, without parameters and namespace.
    pub(super) fn new(
        attributes: &'a Attributes<'a>,
        served: &ServedKind,
        matched: &ServedKind,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
    ) -> Self {
        let mut request = request_fields::of(attributes, served, matched, object);
        request["options"] = attributes.options().unwrap_or_default();
        Self { attributes, object, old, params: None, namespace: None, request }
    }

    /// Returns the values for a group of expressions, which share the values of their variables.
    pub(super) fn activation<'b>(
        &'b self,
        variables: Option<&'b Variables>,
        authorizer: Option<&'b Authorize<'b>>,
    ) -> Activation<'b> {
        let text = |field: &str| self.request[field].as_str().unwrap_or_default().to_owned();
        let resource = &self.attributes.served.resource;
        Activation {
            variables: vec![
                ("object", self.object.unwrap_or(&NULL)),
                ("oldObject", self.old.unwrap_or(&NULL)),
                ("namespaceObject", self.namespace.unwrap_or(&NULL)),
                ("request", &self.request),
                ("params", self.params.unwrap_or(&NULL)),
            ],
            composition: variables.map(Composition::new),
            authorizer,
            request_resource: AccessQuery {
                group: resource.group.clone(),
                resource: resource.plural.clone(),
                subresource: self.attributes.subresource.to_owned(),
                namespace: text("namespace"),
                name: text("name"),
                ..AccessQuery::default()
            },
        }
    }

    /// Asks the authorizer about the user of the request, or about a service account.
    pub(super) fn decide(&self, query: &AccessQuery) -> AuthorizerDecision {
        let account;
        let user = match &query.service_account {
            None => self.attributes.user,
            Some((namespace, name)) => {
                account = UserInfo {
                    name: format!("system:serviceaccount:{namespace}:{name}"),
                    // As in kube-apiserver, the account is not in the group `system:authenticated`.
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
        let decision = self.attributes.permissions.authorizer().decide(user, &action);
        AuthorizerDecision { allowed: decision.is_allowed(), reason: decision.reason() }
    }
}
