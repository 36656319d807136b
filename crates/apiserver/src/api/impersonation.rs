//! Impersonation: requests with which a user acts as another user, by the headers `Impersonate-User`, `-Group`, `-Uid` and `-Extra-…`.
//!
//! There are five modes, tried in order. The four constrained modes need two permissions: to impersonate the user (the verb
//! `impersonate:<mode>` on users, groups, uids, userextras, serviceaccounts or nodes of `authentication.k8s.io`), and to do so for this
//! kind of request (`impersonate-on:<mode>:<verb>`). The legacy mode needs only the verb `impersonate`. If no mode permits the request, the
//! response is the refusal of the first mode that applies. Rules, order and messages follow the constrained impersonation of Kubernetes
//! 1.36 (KEP 5284).

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;
use kube_apimachinery::go::quote;
use kube_apimachinery::names;
use kube_apimachinery::rbac::{Action, ResourceAction};
use kube_apimachinery::status::ApiError;
use parking_lot::Mutex;

use crate::api::authorization::Permissions;
use crate::user::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, UserInfo};

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";
/// With at least this many groups or extra values, the permission for all of them (`*`) is checked first.
const CHECK_ALL_FROM: usize = 4;
/// Maximum number of users with a remembered last mode.
const MAX_REMEMBERED: usize = 10_000;

/// Mode of an impersonation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A service account impersonates the node to which its token is bound.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Legacy,
}

impl Mode {
    const ALL: [Self; 5] =
        [Self::AssociatedNode, Self::ArbitraryNode, Self::ServiceAccount, Self::UserInfo, Self::Legacy];

    /// Returns the name of a constrained mode, as part of its verbs.
    fn constraint(self) -> Option<&'static str> {
        match self {
            Self::AssociatedNode => Some("associated-node"),
            Self::ArbitraryNode => Some("arbitrary-node"),
            Self::ServiceAccount => Some("serviceaccount"),
            Self::UserInfo => Some("user-info"),
            Self::Legacy => None,
        }
    }

    /// Whether the mode can impersonate `wanted`. Modes for nodes and service accounts derive the groups from the name.
    fn applies(self, wanted: &UserInfo, requestor: &UserInfo) -> bool {
        let name_only = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let (node, account) = (node(&wanted.name), account(&wanted.name));
        match self {
            Self::AssociatedNode => {
                let own = requestor.extra.get("authentication.kubernetes.io/node-name");
                let own = own
                    .and_then(|names| if let [name] = names.as_slice() { Some(name.as_str()) } else { None });
                name_only && node.is_some() && own == node && self::account(&requestor.name).is_some()
            }
            Self::ArbitraryNode => name_only && node.is_some(),
            Self::ServiceAccount => name_only && account.is_some(),
            Self::UserInfo => node.is_none() && account.is_none(),
            Self::Legacy => true,
        }
    }
}

/// Resolves impersonation headers.
#[derive(Debug, Default)]
pub(crate) struct Impersonation {
    /// Mode that last permitted an impersonation. It is tried first. If no mode permits the request, the response contains the refusal of
    /// this mode.
    last: Mutex<LastModes>,
}

/// Last modes by requestor. When it is full, the requestor that was seen least recently is dropped, as in kube-apiserver.
#[derive(Debug, Default)]
struct LastModes {
    /// Modes with the numbers of their last uses.
    modes: BTreeMap<String, (Mode, u64)>,
    /// Requestors in the order of their last uses.
    requestors: BTreeMap<u64, String>,
    /// Number of uses so far.
    uses: u64,
}

impl LastModes {
    /// Returns the mode of a requestor, which counts as a use.
    fn get(&mut self, requestor: &str) -> Option<Mode> {
        let (mode, used) = self.modes.get_mut(requestor)?;
        self.uses += 1;
        if let Some(requestor) = self.requestors.remove(used) {
            self.requestors.insert(self.uses, requestor);
        }
        *used = self.uses;
        Some(*mode)
    }

    fn set(&mut self, requestor: &str, mode: Mode) {
        self.uses += 1;
        match self.modes.insert(requestor.to_owned(), (mode, self.uses)) {
            Some((_, used)) => {
                self.requestors.remove(&used);
            }
            None if self.modes.len() > MAX_REMEMBERED => {
                if let Some((_, oldest)) = self.requestors.pop_first() {
                    self.modes.remove(&oldest);
                }
            }
            None => {}
        }
        self.requestors.insert(self.uses, requestor.to_owned());
    }
}

impl Impersonation {
    /// Returns the user that the headers of a request name; `None` for a request without such headers.
    ///
    /// # Errors
    /// 400 for headers without a user name, and 403 if `requestor` may not impersonate the user for this action.
    pub(crate) fn user_of(
        &self,
        permissions: &Permissions,
        requestor: &UserInfo,
        action: &Action<'_>,
        headers: &HeaderMap,
    ) -> Result<Option<Arc<UserInfo>>, ApiError> {
        let Some(wanted) = wanted(headers)? else { return Ok(None) };
        let last = self.last.lock().get(&requestor.name);
        let others = Mode::ALL.into_iter().filter(|mode| Some(*mode) != last);
        let mut refusal = None;
        for mode in last.into_iter().chain(others).filter(|mode| mode.applies(&wanted, requestor)) {
            match (ModeCheck { permissions, requestor, mode, wanted: &wanted }).user(action) {
                Ok(user) => {
                    if last != Some(mode) {
                        self.last.lock().set(&requestor.name, mode);
                    }
                    return Ok(Some(Arc::new(user)));
                }
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        // A mode was tried, because the legacy mode always applies.
        Err(refusal.unwrap_or_else(|| ApiError::internal("all impersonation modes failed")))
    }
}

/// Removes the headers of impersonation after they were evaluated.
pub(crate) fn remove_headers(headers: &mut HeaderMap) {
    let names: Vec<_> = headers
        .keys()
        .filter(|name| [USER, UID, GROUP].contains(&name.as_str()) || name.as_str().starts_with(EXTRA))
        .cloned()
        .collect();
    for name in names {
        headers.remove(name);
    }
}

/// Reads the user from the headers. Groups and extra attributes are those of the request, without the groups that the server adds.
fn wanted(headers: &HeaderMap) -> Result<Option<UserInfo>, ApiError> {
    if !headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
        return Ok(None);
    }
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name| headers.get(name).map(text).unwrap_or_default();
    let groups: Vec<String> = headers.get_all(GROUP).iter().map(text).collect();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            // A key that is not valid percent-encoding is used unchanged.
            let decoded = percent_encoding::percent_decode_str(key).decode_utf8();
            let key = decoded.map_or_else(|_| key.to_owned(), std::borrow::Cow::into_owned);
            extra.entry(key).or_default().push(text(value));
        }
    }
    let wanted = UserInfo { name: first(USER), uid: first(UID), groups, extra };
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    if wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty() {
        return Ok(None);
    }
    let message = format!("requested {} without impersonating a user name", in_go(&wanted));
    Err(ApiError::bad_request(message))
}

/// Formats a user like Go's `%#v`.
fn in_go(user: &UserInfo) -> String {
    let list = |texts: &[String]| {
        if texts.is_empty() {
            return "[]string(nil)".to_owned();
        }
        let texts: Vec<String> = texts.iter().map(|text| quote(text)).collect();
        format!("[]string{{{}}}", texts.join(", "))
    };
    let extra = if user.extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let entries: Vec<String> =
            user.extra.iter().map(|(key, values)| format!("{}:{}", quote(key), list(values))).collect();
        format!("map[string][]string{{{}}}", entries.join(", "))
    };
    format!(
        "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{}, Extra:{extra}}}",
        quote(&user.name),
        quote(&user.uid),
        list(&user.groups)
    )
}

/// Returns the node of the user name `system:node:<name>`.
fn node(user: &str) -> Option<&str> {
    user.strip_prefix("system:node:").filter(|name| names::subdomain(name).is_empty())
}

/// Returns namespace and name of the user name of a service account.
fn account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let valid = names::label(namespace).is_empty() && names::subdomain(name).is_empty();
    valid.then_some((namespace, name))
}

/// The check of one mode.
struct ModeCheck<'a> {
    permissions: &'a Permissions,
    requestor: &'a UserInfo,
    mode: Mode,
    wanted: &'a UserInfo,
}

impl ModeCheck<'_> {
    /// Returns the impersonated user with all its groups.
    fn user(&self, action: &Action<'_>) -> Result<UserInfo, ApiError> {
        let mut verb = "impersonate".to_owned();
        // A constrained mode needs two permissions: for the action, and for the user.
        if let Some(constraint) = self.mode.constraint() {
            let on = format!("impersonate-on:{constraint}:{}", action.verb());
            self.permissions.authorize(self.requestor, &action.with_verb(&on))?;
            verb = format!("impersonate:{constraint}");
        }
        let mut user = self.wanted.clone();
        self.check_name(&verb, &mut user)?;
        if !user.uid.is_empty() {
            let uid = ResourceAction { resource: "uids", name: &user.uid, ..self.subject(&verb) };
            self.authorize(ResourceAction { group: AUTHENTICATION, ..uid })?;
        }
        self.check_groups(&verb)?;
        self.check_extra(&verb)?;
        let has = |group: &str| user.groups.iter().any(|other| other == group);
        // Every user is in one of these two groups.
        let added = match user.name.as_str() {
            ANONYMOUS => UNAUTHENTICATED,
            _ if has(UNAUTHENTICATED) => return Ok(user),
            _ => AUTHENTICATED,
        };
        if !has(added) {
            user.groups.push(added.to_owned());
        }
        Ok(user)
    }

    fn is_constrained(&self) -> bool {
        self.mode.constraint().is_some()
    }

    /// Returns the action on a user or group. The caller adds resource and name.
    fn subject<'a>(&self, verb: &'a str) -> ResourceAction<'a> {
        let group = if self.is_constrained() { AUTHENTICATION } else { "" };
        ResourceAction { verb, group, ..ResourceAction::default() }
    }

    fn authorize(&self, action: ResourceAction<'_>) -> Result<(), ApiError> {
        self.permissions.authorize(self.requestor, &Action::Resource(action))
    }

    fn refuse(&self, action: ResourceAction<'_>, why: &str) -> Result<(), ApiError> {
        Err(Action::Resource(action).forbidden(&self.requestor.name, why))
    }

    /// Checks the permission for the user name, and sets the groups that follow from the name.
    fn check_name(&self, verb: &str, user: &mut UserInfo) -> Result<(), ApiError> {
        let subject = self.subject(verb);
        if let Some(node) = node(&self.wanted.name).filter(|_| self.is_constrained()) {
            user.groups = vec!["system:nodes".to_owned()];
            // The permission is for the service account's own node, so it does not depend on the name.
            let name = if self.mode == Mode::AssociatedNode { "*" } else { node };
            return self.authorize(ResourceAction { resource: "nodes", name, ..subject });
        }
        if let Some((namespace, name)) = account(&self.wanted.name) {
            if self.wanted.groups.is_empty() {
                user.groups =
                    vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
            }
            return self.authorize(ResourceAction {
                resource: "serviceaccounts",
                namespace,
                name,
                ..subject
            });
        }
        self.authorize(ResourceAction { resource: "users", name: &self.wanted.name, ..subject })
    }

    fn check_groups(&self, verb: &str) -> Result<(), ApiError> {
        let groups = &self.wanted.groups;
        let action = ResourceAction { resource: "groups", ..self.subject(verb) };
        if self.is_constrained() {
            if groups.iter().any(String::is_empty) {
                return self.refuse(action, "impersonating the empty string group is not allowed");
            }
            if groups.iter().any(|group| group == MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                return self.refuse(ResourceAction { name: MASTERS, ..action }, why);
            }
            if groups.len() >= CHECK_ALL_FROM
                && self.authorize(ResourceAction { name: "*", ..action }).is_ok()
            {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|group| self.authorize(ResourceAction { name: group, ..action }))
    }

    fn check_extra(&self, verb: &str) -> Result<(), ApiError> {
        let extra = &self.wanted.extra;
        let action = ResourceAction { group: AUTHENTICATION, resource: "userextras", ..self.subject(verb) };
        if self.is_constrained() {
            if let Some(why) = extra.iter().find_map(|(key, values)| invalid_extra(key, values)) {
                return self.refuse(action, &why);
            }
            let all = ResourceAction { subresource: "*", name: "*", ..action };
            if extra.values().map(Vec::len).sum::<usize>() >= CHECK_ALL_FROM && self.authorize(all).is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            for value in values {
                self.authorize(ResourceAction { subresource: key, name: value, ..action })?;
            }
        }
        Ok(())
    }
}

/// Returns the reason why an extra attribute cannot be impersonated in a constrained mode; `None` if it can.
fn invalid_extra(key: &str, values: &[String]) -> Option<String> {
    const PATH: &str = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+";
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    let invalid = |value: &str, why: &str| {
        let error = format!("extra.key: Invalid value: {}: {why}", quote(value));
        Some(format!("impersonating an invalid key in extra is not allowed: {error}"))
    };
    let Some((host, path)) = key.split_once('/').filter(|(host, path)| !host.is_empty() && !path.is_empty())
    else {
        return invalid(key, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    };
    if let Some(why) = names::subdomain(host).first() {
        return invalid(host, why);
    }
    if !path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte)) {
        return invalid(path, &format!("Invalid path (regex used for validation is '{PATH}')"));
    }
    if key.chars().any(char::is_uppercase) {
        return Some(format!("impersonating a non-lowercase key in extra is not allowed: {}", quote(key)));
    }
    let has_empty = values.iter().any(String::is_empty);
    has_empty.then(|| "impersonating the empty string value in extra is not allowed".to_owned())
}

#[cfg(test)]
mod tests;
