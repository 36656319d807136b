//! Registered webhooks: their checks, names and lookup. Pure.

use std::{collections::BTreeMap, sync::Arc};

use futures::future::BoxFuture;
use serde_json::Value;

use super::{
    admission::Admission,
    authentication::AuthenticateFn,
    conversion::AnyConverter,
    rejection::Rejection,
    rule::{AdmissionPhase, Rule},
};

/// A handler; returns the changed object, if it changed.
pub(super) type AdmitFn =
    Box<dyn Fn(Admission) -> BoxFuture<'static, Result<Option<Value>, Rejection>> + Send + Sync>;

/// Path of conversion webhooks, as in Go.
pub(super) const CONVERT: &str = "/convert";

/// Reason why a webhook cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// A path has characters other than letters, digits, `-`, `_` and `/`, or an empty part.
    #[error(
        "webhook path {path:?} is invalid: use letters, digits, - and _ between slashes, as in /check-pods"
    )]
    InvalidPath {
        /// The path.
        path: String,
    },
    /// A path is used by a webhook of another type, resource or rule.
    #[error("webhook path {path} is already used for {by}: choose another path, or use the same rule")]
    PathTaken {
        /// The path.
        path: String,
        /// The resource or webhook that uses the path.
        by: String,
    },
    /// A kind has a defaulter, validator or converter already.
    #[error("{kind} has a {role} already: register it once, with one of its controllers")]
    Duplicate {
        /// The kind, such as `guestbooks.example.com`.
        kind: String,
        /// `defaulter`, `validator` or `converter`.
        role: &'static str,
    },
    /// A rule has no operations, so the webhook would never be called.
    #[error("the webhook at {path} has no operations: name at least one")]
    NoOperations {
        /// The path.
        path: String,
    },
    /// Two versions of a converted kind are not versions of one kind, or are the same version.
    #[error(
        "{spoke} cannot be converted to {hub}: the versions of a kind share group and kind and differ in the version"
    )]
    NotVersions {
        /// The version to be converted.
        spoke: String,
        /// The hub.
        hub: String,
    },
}

/// A webhook to register.
pub(crate) enum Registration {
    Admission(Arc<Hook>),
    Conversion(AnyConverter),
    Authentication { path: String, authenticate: AuthenticateFn },
}

/// Reviews that a path answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReviewKind {
    Admission,
    Conversion,
    Token,
}

/// An admission webhook.
pub(crate) struct Hook {
    pub(super) phase: AdmissionPhase,
    pub(super) rule: Rule,
    /// `defaulter` or `validator`, if the kind may have only one.
    pub(super) role: Option<&'static str>,
    pub(super) admit: AdmitFn,
}

/// Hooks that share a path.
pub(super) struct AdmissionPath {
    pub(super) phase: AdmissionPhase,
    /// In order of registration, each with the number of its registration. Never empty.
    pub(super) hooks: Vec<(u64, Arc<Hook>)>,
}

impl AdmissionPath {
    /// The hooks, for use without the lock around the registrations.
    pub(super) fn hooks(&self) -> Vec<Arc<Hook>> {
        self.hooks.iter().map(|(_, hook)| Arc::clone(hook)).collect()
    }
}

/// All registered webhooks.
#[derive(Default)]
pub(super) struct WebhookRegistrations {
    /// Number of the next registration.
    next: u64,
    /// Hooks of admission webhooks.
    pub(super) paths: BTreeMap<String, AdmissionPath>,
    /// By group and kind, each with the number of its registration.
    pub(super) converters: BTreeMap<(String, String), (u64, Arc<AnyConverter>)>,
    /// By path, each with the number of its registration.
    authenticators: BTreeMap<String, (u64, AuthenticateFn)>,
}

impl WebhookRegistrations {
    /// Registers all webhooks, or none if one is refused. Returns the number with which [`unregister`](Self::unregister) removes
    /// them.
    pub(super) fn register(&mut self, all: Vec<Registration>) -> Result<u64, RegisterError> {
        let id = self.next;
        self.next += 1;
        for registration in all {
            let added = match registration {
                Registration::Admission(hook) => self.add_hook(id, hook),
                Registration::Conversion(converter) => self.add_converter(id, converter),
                Registration::Authentication { path, authenticate } => {
                    self.add_authenticator(id, path, authenticate)
                }
            };
            added.inspect_err(|_| self.unregister(id))?;
        }
        Ok(id)
    }

    /// Removes the webhooks of a successful `register`.
    pub(super) fn unregister(&mut self, id: u64) {
        self.converters.retain(|_, (registered, _)| *registered != id);
        self.authenticators.retain(|_, (registered, _)| *registered != id);
        for path in self.paths.values_mut() {
            path.hooks.retain(|(registered, _)| *registered != id);
        }
        self.paths.retain(|_, path| !path.hooks.is_empty());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.converters.is_empty() && self.authenticators.is_empty()
    }

    /// Paths of admission and authentication.
    pub(super) fn served_paths(&self) -> impl Iterator<Item = &String> {
        self.paths.keys().chain(self.authenticators.keys())
    }

    /// Reviews that `path` answers; `None` if there is no webhook at it.
    pub(super) fn review_at(&self, path: &str) -> Option<ReviewKind> {
        match path {
            CONVERT => (!self.converters.is_empty()).then_some(ReviewKind::Conversion),
            path if self.paths.contains_key(path) => Some(ReviewKind::Admission),
            path => self.authenticators.contains_key(path).then_some(ReviewKind::Token),
        }
    }

    pub(super) fn authenticator(&self, path: &str) -> Option<AuthenticateFn> {
        self.authenticators.get(path).map(|(_, authenticate)| Arc::clone(authenticate))
    }

    /// Checks that a path is valid, and not used by conversions or authentication.
    fn check_path(&self, path: &str) -> Result<(), RegisterError> {
        if !is_valid(path) {
            return Err(RegisterError::InvalidPath { path: path.to_owned() });
        }
        let by = match path {
            CONVERT => "conversions",
            path if self.authenticators.contains_key(path) => "authentication",
            _ => return Ok(()),
        };
        Err(RegisterError::PathTaken { path: path.to_owned(), by: by.to_owned() })
    }

    fn add_hook(&mut self, id: u64, hook: Arc<Hook>) -> Result<(), RegisterError> {
        let path = hook.phase.path(&hook.rule);
        self.check_path(&path)?;
        if hook.rule.operations.is_empty() {
            return Err(RegisterError::NoOperations { path });
        }
        let kind = &hook.rule.kind;
        // A kind has at most one defaulter and one validator, even at different paths.
        let all = || self.paths.values().flat_map(|path| &path.hooks);
        let is_same_role =
            |other: &Hook| hook.role.is_some() && other.role == hook.role && other.rule.kind == *kind;
        if let (Some(role), true) = (hook.role, all().any(|(_, other)| is_same_role(other))) {
            return Err(RegisterError::Duplicate { kind: kind.to_string(), role });
        }
        if let Some(taken) = self.paths.get(&path) {
            // All hooks of a path have the same rule, up to their operations.
            let other = &taken.hooks[0].1.rule;
            if taken.phase != hook.phase || !other.can_share_path_with(&hook.rule) {
                return Err(RegisterError::PathTaken { path, by: other.kind.to_string() });
            }
        }
        let phase = hook.phase;
        let place = self.paths.entry(path).or_insert_with(|| AdmissionPath { phase, hooks: Vec::new() });
        place.hooks.push((id, hook));
        Ok(())
    }

    fn add_authenticator(
        &mut self,
        id: u64,
        path: String,
        authenticate: AuthenticateFn,
    ) -> Result<(), RegisterError> {
        self.check_path(&path)?;
        if let Some(taken) = self.paths.get(&path) {
            let by = taken.hooks[0].1.rule.kind.to_string();
            return Err(RegisterError::PathTaken { path, by });
        }
        self.authenticators.insert(path, (id, authenticate));
        Ok(())
    }

    fn add_converter(&mut self, id: u64, converter: AnyConverter) -> Result<(), RegisterError> {
        converter.check()?;
        let key = converter.group_kind();
        if self.converters.contains_key(&key) {
            let kind = converter.hub().to_string();
            return Err(RegisterError::Duplicate { kind, role: "converter" });
        }
        self.converters.insert(key, (id, Arc::new(converter)));
        Ok(())
    }
}

/// Returns whether a path can be that of a webhook. controller-runtime checks it with `^((/[a-zA-Z0-9-_]+)+|/)$`.
fn is_valid(path: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    path == "/" || path.strip_prefix('/').is_some_and(|parts| parts.split('/').all(is_part))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};

    use super::*;
    use crate::webhook::Operation;

    fn hook(phase: AdmissionPhase, rule: Rule, role: Option<&'static str>) -> Registration {
        Registration::Admission(Arc::new(Hook {
            phase,
            rule,
            role,
            admit: Box::new(|_| Box::pin(async { Ok(None) })),
        }))
    }

    #[test]
    fn paths_are_those_of_go() {
        let widgets =
            crate::DynamicKind::namespaced("apps.example.com", "v1beta1", "WidgetSet", "widgetsets");
        assert_eq!(
            AdmissionPhase::Mutating.path(&Rule::of_dynamic(&widgets)),
            "/mutate-apps-example-com-v1beta1-widgetset"
        );
        assert_eq!(AdmissionPhase::Validating.path(&Rule::of::<Pod>()), "/validate--v1-pod");
        assert_eq!(
            AdmissionPhase::Validating.path(&Rule::of::<Pod>().subresource("status")),
            "/validate--v1-pod-status"
        );
        for (path, valid) in [
            ("/", true),
            ("/a/b-c_D9", true),
            ("", false),
            ("a", false),
            ("/a/", false),
            ("//a", false),
            ("/ä", false),
            ("/a?b", false),
        ] {
            assert_eq!(is_valid(path), valid, "{path:?}");
        }
    }

    #[test]
    fn conflicting_registrations_are_refused_and_leave_nothing_behind() {
        use AdmissionPhase::{Mutating, Validating};
        let mut all = WebhookRegistrations::default();
        let mut register = |hooks: Vec<Registration>| all.register(hooks).map_err(|error| error.to_string());
        let at = |rule: Rule| rule.path("/x");
        register(vec![hook(Validating, at(Rule::of::<Pod>()), None)]).expect("it is the first");
        register(vec![hook(Validating, at(Rule::of::<Pod>()), None)]).expect("the same rule joins");
        let taken = "webhook path /x is already used for pods: choose another path, or use the same rule";
        assert_eq!(register(vec![hook(Mutating, at(Rule::of::<Pod>()), None)]), Err(taken.to_owned()));
        assert_eq!(
            register(vec![hook(Validating, at(Rule::of::<ConfigMap>()), None)]),
            Err(taken.to_owned())
        );
        let good = || hook(Validating, Rule::of::<ConfigMap>(), Some("validator"));
        let none = Rule::of::<ConfigMap>().operations(&[]);
        register(vec![good(), hook(Mutating, none, None)]).expect_err("no operations");
        register(vec![good()]).expect("the refused registration left nothing behind");
        let error = register(vec![good()]).expect_err("a second validator");
        assert_eq!(
            error,
            "configmaps has a validator already: register it once, with one of its controllers"
        );
        let convert = Rule::of::<Pod>().path("/convert").operations(&[Operation::Create]);
        register(vec![hook(Mutating, convert, None)]).expect_err("a reserved path");
        register(vec![hook(Mutating, Rule::of::<Pod>().path("/a b"), None)]).expect_err("an invalid path");
        assert_eq!(all.paths.keys().collect::<Vec<_>>(), ["/validate--v1-configmap", "/x"]);
    }
}
