//! Advice on a right that RBAC refuses, from the rights that the program declares.

use super::{call::Call, declaration_check::NOT_SENT, rbac::RefusedRight};
use crate::rights::{Declaration, Declarations, RightScope, Target};

/// Returns why the right of a refusal with this message is missing, and the next step: the line to add to the program if no
/// registration declares the right. `None` if the refusal has another cause.
pub(super) fn advice(call: &Call, message: &str, declarations: &Declarations) -> Option<String> {
    let refused = RefusedRight::of(message)?;
    // Where the program itself refused the request, a role in the cluster is no remedy.
    let or_rule =
        if message.ends_with(NOT_SENT) { String::new() } else { format!(", or {}", refused.rule(call.verb)) };
    let about: Vec<&Declaration> =
        declarations.iter().filter(|declaration| is_about(declaration, &refused)).collect();
    if let Some(found) = about.iter().find(|declaration| permits(declaration, call, &refused)) {
        let (reason, file, line) = (&found.reason, found.place.file(), found.place.line());
        let of = found.controller.as_ref().map_or_else(String::new, |name| format!(" of controller {name}"));
        return Some(format!(
            "the right is declared by {reason}{of} at {file}:{line}, but the applied roles lack it: \
             render and apply the manifests of this program again{or_rule}"
        ));
    }
    let declared = if about.is_empty() { DeclaredFor::NoObject } else { DeclaredFor::OtherObjects };
    let line = match line_to_add(call, &refused, declared) {
        Some(line) => format!("add {line} to the controller's builder and render the manifests again"),
        None => "declare it with needs_right in the controller's builder and render the manifests again"
            .to_owned(),
    };
    let problem = match declared {
        DeclaredFor::NoObject => "no registration declares this right",
        DeclaredFor::OtherObjects => "registrations declare this right for other namespaces or names only",
    };
    Some(with_place(Some(call), format!("{problem}: {line}{or_rule}")))
}

/// Adds the line of the program that made the call to the advice, if it is known.
pub(super) fn with_place(call: Option<&Call>, advice: String) -> String {
    match call.and_then(Call::place) {
        Some(place) => format!("{advice} (called at {}:{})", place.file(), place.line()),
        None => advice,
    }
}

/// Whether a declaration is about the verb and the resource, in whatever namespace.
fn is_about(declaration: &Declaration, refused: &RefusedRight<'_>) -> bool {
    let Target::Objects { group, resource, subresource, .. } = &declaration.right.target else {
        return false;
    };
    let (plural, sub) = refused.resource.split_once('/').unwrap_or((refused.resource, ""));
    let same_verb = declaration.right.verbs.iter().any(|verb| verb == refused.verb);
    same_verb && (&**group, &**resource, &**subresource) == (refused.group, plural, sub)
}

/// Whether the right of a declaration about the resource covers the object of the call.
fn permits(declaration: &Declaration, call: &Call, refused: &RefusedRight<'_>) -> bool {
    let in_scope = match (&declaration.right.scope, refused.namespace) {
        (RightScope::Cluster, _) => true,
        (RightScope::Namespaces { names, .. }, Some(namespace)) => names.contains(namespace),
        (RightScope::Namespaces { .. }, None) => false,
        // The name of this namespace is known where the roles are rendered.
        (RightScope::OwnNamespace, namespace) => namespace.is_some(),
    };
    let Target::Objects { names, .. } = &declaration.right.target else { return false };
    let is_named = names.is_empty() || call.name().is_some_and(|name| names.contains(name));
    in_scope && is_named
}

/// Objects for which registrations declare a right that was refused.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DeclaredFor {
    NoObject,
    /// Objects in other namespaces or with other names.
    OtherObjects,
}

/// The method call that declares the right. `None` if the request needs a right on another resource than its own.
fn line_to_add(call: &Call, refused: &RefusedRight<'_>, declared: DeclaredFor) -> Option<String> {
    let resource = call.kind().resource();
    let (plural, sub) = refused.resource.split_once('/').unwrap_or((refused.resource, ""));
    if (&*resource.plural, &*resource.group) != (plural, refused.group) {
        return None;
    }
    let kind = &resource.kind;
    let verb = call.verb();
    if declared == DeclaredFor::NoObject {
        return Some(match sub {
            "" => format!(".needs::<{kind}>([Verb::{verb:?}])"),
            sub => format!(".needs_subresource::<{kind}>({sub:?}, [Verb::{verb:?}])"),
        });
    }
    let subresource = if sub.is_empty() { String::new() } else { format!(".subresource({sub:?})") };
    let scope = refused.namespace.map_or_else(String::new, |name| format!(".in_namespaces([{name:?}])"));
    Some(format!(".needs_right(Right::on::<{kind}>([Verb::{verb:?}]){subresource}{scope})"))
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::rights::{Right, Verb};

    const RULE: &str = "or give the operator's ServiceAccount a Role in namespace shop with the rule";

    #[track_caller]
    fn check(verb: Verb, asked: &str, declared: Option<Right>, expected: &str) {
        let call = Call::about_object::<ConfigMap>(verb, "shop", "a");
        let message = format!(
            "configmaps \"a\" is forbidden: User \"x\" cannot {asked} in API group \"\" in the namespace \"shop\""
        );
        let place = Location::caller();
        let declared = declared.map(|right| Declaration::new(right, "needs", place).of("web"));
        let text = advice(&call, &message, &declared.into_iter().collect()).expect("a right is missing");
        assert!(text.contains(RULE), "{text}");
        let advice = text.split(", or give ").next().unwrap_or_default();
        assert_eq!(advice, expected.replace("LINE", &place.line().to_string()));
    }

    #[test]
    fn an_undeclared_right_has_the_line_to_add() {
        let problem = "no registration declares this right: add";
        let end = "to the controller's builder and render the manifests again";
        let delete = "delete resource \"configmaps\"";
        check(Verb::Delete, delete, None, &format!("{problem} .needs::<ConfigMap>([Verb::Delete]) {end}"));
        let other = Right::on::<ConfigMap>([Verb::Get]);
        check(
            Verb::Delete,
            delete,
            Some(other),
            &format!("{problem} .needs::<ConfigMap>([Verb::Delete]) {end}"),
        );
        let patch = "patch resource \"configmaps\"";
        check(Verb::Apply, patch, None, &format!("{problem} .needs::<ConfigMap>([Verb::Apply]) {end}"));
        let scale = "update resource \"configmaps/scale\"";
        let line = ".needs_subresource::<ConfigMap>(\"scale\", [Verb::Update])";
        check(Verb::Update, scale, None, &format!("{problem} {line} {end}"));
    }

    #[test]
    fn a_right_for_other_objects_has_the_line_for_these() {
        let delete = "delete resource \"configmaps\"";
        let expected = "registrations declare this right for other namespaces or names only: \
                        add .needs_right(Right::on::<ConfigMap>([Verb::Delete]).in_namespaces([\"shop\"])) to the controller's \
                        builder and render the manifests again";
        let right = || Right::on::<ConfigMap>([Verb::Delete]);
        check(Verb::Delete, delete, Some(right().in_namespaces(["blog"])), expected);
        check(Verb::Delete, delete, Some(right().named(["b"])), expected);
    }

    #[test]
    fn a_declared_right_has_its_place() {
        let expected = "the right is declared by needs of controller web at \
                        crates/controller-runtime/src/client/transport/declared_rights.rs:LINE, but the applied roles lack it: render and \
                        apply the manifests of this program again";
        let delete = "delete resource \"configmaps\"";
        let right = || Right::on::<ConfigMap>([Verb::Delete]);
        check(Verb::Delete, delete, Some(right()), expected);
        check(Verb::Delete, delete, Some(right().in_namespaces(["shop"])), expected);
        check(Verb::Delete, delete, Some(right().in_own_namespace()), expected);
        check(Verb::Delete, delete, Some(right().named(["a"])), expected);
    }

    #[test]
    fn other_refusals_have_no_advice() {
        let call = Call::about_object::<ConfigMap>(Verb::Create, "shop", "a");
        assert_eq!(advice(&call, "exceeded quota: small", &Declarations::default()), None);
    }
}
