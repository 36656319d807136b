//! Actions on which access control decides.

use std::fmt;

use crate::go::quote;
use crate::status::ApiError;

/// An action that a user attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action<'a> {
    /// An action on objects.
    Resource(ResourceAction<'a>),
    /// A request to a path that belongs to no resource, such as `/metrics`.
    Path {
        /// HTTP method in lower case, such as `get`.
        verb: &'a str,
        /// Path of the URL.
        path: &'a str,
    },
}

/// An action on objects of one resource. Formatted as `get resource "pods/log" in API group "" in the namespace "a"`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResourceAction<'a> {
    /// API verb such as `list`, or a verb without a request of its own, such as `escalate`.
    pub verb: &'a str,
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Plural name of the resource.
    pub resource: &'a str,
    /// Subresource such as `status`; empty for the object itself.
    pub subresource: &'a str,
    /// Namespace; empty for cluster-scoped objects and actions in all namespaces.
    pub namespace: &'a str,
    /// Name of the object; empty if the action has none, such as a create.
    pub name: &'a str,
}

impl<'a> Action<'a> {
    /// Returns the verb.
    #[must_use]
    pub fn verb(&self) -> &'a str {
        match self {
            Self::Resource(action) => action.verb,
            Self::Path { verb, .. } => verb,
        }
    }

    /// Returns the namespace; empty for paths and for actions at the cluster scope.
    #[must_use]
    pub fn namespace(&self) -> &'a str {
        match self {
            Self::Resource(action) => action.namespace,
            Self::Path { .. } => "",
        }
    }

    /// Returns the same action with another verb.
    #[must_use]
    pub fn with_verb<'b>(self, verb: &'b str) -> Action<'b>
    where
        'a: 'b,
    {
        match self {
            Self::Resource(action) => Action::Resource(ResourceAction { verb, ..action }),
            Self::Path { path, .. } => Action::Path { verb, path },
        }
    }

    /// Builds the 403 for a user without permission for the action. An empty `reason` is omitted.
    #[must_use]
    pub fn forbidden(&self, user: &str, reason: &str) -> ApiError {
        // Go escapes these characters, so that a browser never takes the message for HTML.
        let attempt = format!("User {} cannot {self}", quote(user));
        let mut why = attempt.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        if !reason.is_empty() {
            why = format!("{why}: {reason}");
        }
        match self {
            Self::Path { .. } => {
                ApiError::new(403, "Forbidden", format!("forbidden: {why}")).with_details("", "", "")
            }
            Self::Resource(action) => ApiError::forbidden(action.group, action.resource, action.name, &why),
        }
    }
}

/// An [`Action`] that owns its texts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnedAction {
    /// An action on objects; the fields are those of [`ResourceAction`].
    Resource {
        /// API verb.
        verb: String,
        /// API group; empty for the core group.
        group: String,
        /// Plural name of the resource.
        resource: String,
        /// Subresource; empty for the object itself.
        subresource: String,
        /// Namespace; empty for cluster-scoped objects and actions in all namespaces.
        namespace: String,
        /// Name of the object; empty if the action has none.
        name: String,
    },
    /// A request to a path that belongs to no resource.
    Path {
        /// HTTP method in lower case.
        verb: String,
        /// Path of the URL.
        path: String,
    },
}

impl OwnedAction {
    /// Returns the action with borrowed texts, for decisions.
    #[must_use]
    pub fn as_action(&self) -> Action<'_> {
        match self {
            Self::Resource { verb, group, resource, subresource, namespace, name } => {
                Action::Resource(ResourceAction { verb, group, resource, subresource, namespace, name })
            }
            Self::Path { verb, path } => Action::Path { verb, path },
        }
    }
}

impl From<&Action<'_>> for OwnedAction {
    fn from(action: &Action<'_>) -> Self {
        match *action {
            Action::Resource(ResourceAction { verb, group, resource, subresource, namespace, name }) => {
                Self::Resource {
                    verb: verb.to_owned(),
                    group: group.to_owned(),
                    resource: resource.to_owned(),
                    subresource: subresource.to_owned(),
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                }
            }
            Action::Path { verb, path } => Self::Path { verb: verb.to_owned(), path: path.to_owned() },
        }
    }
}

impl fmt::Display for OwnedAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_action().fmt(f)
    }
}

impl fmt::Display for Action<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resource(action) => action.fmt(f),
            Self::Path { verb, path } => write!(f, "{verb} path {}", quote(path)),
        }
    }
}

impl fmt::Display for ResourceAction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        let resource = quote(&format!("{}{slash}{}", self.resource, self.subresource));
        write!(f, "{} resource {resource} in API group {} ", self.verb, quote(self.group))?;
        if self.namespace.is_empty() {
            f.write_str("at the cluster scope")
        } else {
            write!(f, "in the namespace {}", quote(self.namespace))
        }
    }
}
