//! Rights that follow from registrations.

use std::{collections::BTreeSet, panic::Location};

use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        authentication::v1::TokenReview,
        authorization::v1::SubjectAccessReview,
        coordination::v1::Lease,
        core::v1::Secret,
        events::v1::Event,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::core::ApiResource;

use super::{declaration::Declaration, right::Right, rights_log::ScopeOf, verb::Verb};

/// Line of the program with a registration.
pub(crate) type CodeLine = &'static Location<'static>;

/// API groups that Kubernetes itself defines. The status of their kinds belongs to its own controllers.
const BUILTIN_GROUPS: [&str; 23] = [
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// Objects of a cache that one rule covers.
#[derive(Clone)]
pub(crate) struct Selected {
    pub(crate) scope: ScopeOf,
    /// Names that the selection requires; empty for all.
    pub(crate) names: BTreeSet<String>,
}

/// A right on objects of a resource, in all namespaces.
fn on(resource: &ApiResource, verbs: impl IntoIterator<Item = Verb>) -> Right {
    Right::of_resource(&resource.group, &resource.plural, verbs)
}

/// Returns whether the kind is a custom one. Its status then belongs to the operator.
pub(crate) fn is_custom(resource: &ApiResource) -> bool {
    !BUILTIN_GROUPS.contains(&&*resource.group)
}

/// Right to fill a cache. The cache lists only if the API server does not stream the initial objects of a watch.
pub(crate) fn cached(
    resource: &ApiResource,
    selected: &Selected,
    reason: &'static str,
    place: CodeLine,
) -> Declaration {
    let right = on(resource, [Verb::List, Verb::Watch]).named(selected.names.iter().cloned());
    Declaration::new(right, reason, place).fallback(["list"])
}

/// Right to write the status of the reconciled kind.
pub(crate) fn own_status(resource: &ApiResource, place: CodeLine) -> Declaration {
    let right = on(resource, [Verb::Patch]).subresource("status");
    Declaration::new(right, "its type has a status", place)
}

/// Right to add and remove a finalizer of the reconciled kind.
pub(crate) fn finalizer(resource: &ApiResource, name: &str, place: CodeLine) -> Declaration {
    Declaration::new(on(resource, [Verb::Patch]), format!("finalizer {name}"), place)
}

/// Right to write owned objects. An apply is authorized as a patch, and as a create if the object is new.
pub(crate) fn owned(resource: &ApiResource, place: CodeLine) -> Declaration {
    Declaration::new(on(resource, [Verb::Apply]), "owns", place)
}

/// Right to refer to the reconciled kind with `blockOwnerDeletion`, which the admission plugin `OwnerReferencesPermissionEnforcement`
/// requires. OpenShift turns the plugin on.
pub(crate) fn owner(resource: &ApiResource, place: CodeLine) -> Declaration {
    let right = on(resource, [Verb::Update]).subresource("finalizers");
    Declaration::new(right, "it owns others (blockOwnerDeletion)", place).fallback(["update"])
}

/// Right to write Kubernetes Events of a controller. Only a repeated event is patched.
pub(crate) fn events(reason: &'static str, place: CodeLine) -> Declaration {
    Declaration::new(Right::on::<Event>([Verb::Create, Verb::Patch]), reason, place).fallback(["patch"])
}

/// Rights on the lease of an election. A create cannot be restricted to a name, so it is a right of its own.
pub(crate) fn election(lease: &str, place: CodeLine) -> [Declaration; 2] {
    let known = Right::on::<Lease>([Verb::Get, Verb::Watch, Verb::Update]).named([lease]);
    let new = Right::on::<Lease>([Verb::Create]);
    [known, new].map(|right| Declaration::new(right, "leader election", place))
}

/// Rights to review clients of the metrics server.
pub(crate) fn reviews(place: CodeLine) -> [Declaration; 2] {
    let [tokens, access] =
        [Right::on::<TokenReview>([Verb::Create]), Right::on::<SubjectAccessReview>([Verb::Create])];
    [tokens, access].map(|right| Declaration::new(right, "metrics for authorized clients", place))
}

/// Rights on the Secret with self-managed certificates of webhooks. A create cannot be restricted to a name, so it is a right of
/// its own.
pub(crate) fn certificates(secret: &str, place: CodeLine) -> [Declaration; 2] {
    let known = Right::on::<Secret>([Verb::Get, Verb::Watch, Verb::Update]).named([secret]);
    [known, Right::on::<Secret>([Verb::Create])]
        .map(|right| Declaration::new(right, "webhook certificates", place))
}

/// Rights on webhook configurations, and on definitions with a converter. `configuration` is the name of the
/// configurations that the operator applies itself; without it, the operator searches for all configurations that name
/// its Service. An apply that creates an object is authorized by the object's name.
pub(crate) fn webhook_configurations(
    configuration: Option<&str>,
    definitions: &[String],
    place: CodeLine,
) -> Vec<Declaration> {
    let read = [Verb::Get, Verb::Watch];
    let [mutating, validating] = match configuration {
        Some(name) => {
            let verbs = || read.into_iter().chain([Verb::Apply]);
            [
                Right::on::<MutatingWebhookConfiguration>(verbs()).named([name]),
                Right::on::<ValidatingWebhookConfiguration>(verbs()).named([name]),
            ]
        }
        None => {
            let verbs = || [Verb::List, Verb::Watch, Verb::Patch];
            [
                Right::on::<MutatingWebhookConfiguration>(verbs()),
                Right::on::<ValidatingWebhookConfiguration>(verbs()),
            ]
        }
    };
    let definitions = (!definitions.is_empty()).then(|| {
        let verbs = read.into_iter().chain([Verb::Patch]);
        Right::on::<CustomResourceDefinition>(verbs).named(definitions.iter().cloned())
    });
    let all = [mutating, validating].into_iter().chain(definitions);
    all.map(|right| Declaration::new(right, "webhook configurations", place)).collect()
}
