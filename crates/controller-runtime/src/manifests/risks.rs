//! Declared rights that let an operator, and any attacker that takes it over, do much more than its task.

use std::{fmt, panic::Location};

use crate::rights::{Declaration, Declarations, RightScope, Target};

/// A declared right that lets an operator do much more than its task.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Risk {
    /// Name of the rule, such as `cluster-secrets`.
    pub rule: &'static str,
    /// The risk.
    pub text: &'static str,
    /// A smaller right.
    pub advice: &'static str,
    /// Line of the program that needs the right.
    pub place: &'static Location<'static>,
}

/// Formats as `secrets are read in all namespaces (cluster-secrets): select namespaces at src/main.rs:14`.
impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, text, advice, place } = self;
        write!(f, "{text} ({rule}): {advice} at {}:{}", place.file(), place.line())
    }
}

/// A rule: its name, whether a declaration violates it, the risk, and a smaller right.
type RiskRule = (&'static str, fn(&Declaration) -> bool, &'static str, &'static str);

const RULES: [RiskRule; 7] = [
    (
        "cluster-secrets",
        |declared| {
            let reads = ["get", "list", "watch", "*"].iter().any(|verb| has_verb(declared, verb));
            reads && declared.right.scope == RightScope::Cluster && is_whole_resource(declared, "", "secrets")
        },
        "secrets are read in all namespaces",
        "select namespaces",
    ),
    (
        "wildcard",
        |declared| {
            let any_target = match &declared.right.target {
                Target::Objects { group, resource, .. } => group == "*" || resource == "*",
                Target::Url(path) => path == "*" || path == "/*",
            };
            any_target || has_verb(declared, "*")
        },
        "a right covers all resources, all paths or all verbs",
        "name the resource and the verbs",
    ),
    (
        "escalate",
        |declared| has_verb(declared, "escalate"),
        "roles with more rights than the operator has can be written",
        "leave out the verb",
    ),
    (
        "bind",
        |declared| has_verb(declared, "bind"),
        "roles with more rights than the operator has can be bound",
        "name the roles",
    ),
    (
        "impersonate",
        |declared| has_verb(declared, "impersonate"),
        "requests can be sent as other users",
        "name the users",
    ),
    (
        "pods-exec",
        |declared| {
            ["exec", "attach", "portforward"].iter().any(|name| is_resource(declared, "", "pods", name))
        },
        "commands can be run in pods",
        "select namespaces, or use a Job",
    ),
    (
        "nodes-proxy",
        |declared| is_resource(declared, "", "nodes", "proxy"),
        "every pod can be reached through its kubelet",
        "read metrics through the API server instead",
    ),
];

/// Risky rights, in the order of the declarations.
#[must_use]
pub fn risks(declarations: &Declarations) -> Vec<Risk> {
    let mut found = Vec::new();
    for declared in declarations {
        for (rule, applies, text, advice) in RULES {
            if applies(declared) {
                found.push(Risk { rule, text, advice, place: declared.place });
            }
        }
    }
    found
}

fn has_verb(declared: &Declaration, verb: &str) -> bool {
    declared.right.verbs.iter().any(|has| has == verb)
}

/// Returns whether the right is on objects of a resource, either all or those with some names.
fn is_resource(declared: &Declaration, group: &str, resource: &str, subresource: &str) -> bool {
    match &declared.right.target {
        Target::Objects { group: g, resource: r, subresource: s, .. } => {
            g == group && r == resource && s == subresource
        }
        Target::Url(_) => false,
    }
}

/// Returns whether the right is on all objects of a resource, without its subresources.
fn is_whole_resource(declared: &Declaration, group: &str, resource: &str) -> bool {
    let is_any_name = matches!(&declared.right.target, Target::Objects { names, .. } if names.is_empty());
    is_any_name && is_resource(declared, group, resource, "")
}
