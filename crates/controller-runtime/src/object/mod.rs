//! Objects of Kubernetes kinds, their scopes, and their keys.

mod dynamic_kind;
pub(crate) mod meta;
mod object_key;
mod scope;
mod typed_object;

use std::{fmt, hash::Hash};

use kube::{Resource, core::ApiResource};
use serde::{Serialize, de::DeserializeOwned};

pub use self::{
    dynamic_kind::{DynamicKind, MetadataOf, RuntimeKind},
    object_key::ObjectKey,
    scope::{DynamicNamespace, NamespaceOf, OwnableBy, Scope},
    typed_object::{TypedObject, TypedRef},
};

/// An object of a Kubernetes kind.
///
/// Implemented for every type that derives `kube::CustomResource`, and for every type of `k8s-openapi` that can be
/// read as a whole object: their kind is known at compile time, as [`StaticObject`] requires. Also implemented
/// for `kube::core::DynamicObject`, with a kind that is a value known at run time. There is nothing to implement by
/// hand.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a Kubernetes kind",
    note = "a kind is a type of `k8s-openapi` or one that derives `kube::CustomResource`, with its derives of serde"
)]
pub trait Object:
    Resource<DynamicType: KindInfo, Scope: Scope>
    + Clone
    + fmt::Debug
    + DeserializeOwned
    + Serialize
    + Send
    + Sync
    + 'static
{
}

impl<K> Object for K where
    K: Resource<DynamicType: KindInfo, Scope: Scope>
        + Clone
        + fmt::Debug
        + DeserializeOwned
        + Serialize
        + Send
        + Sync
        + 'static
{
}

/// An object of a kind known at compile time: every [`Object`] except `kube::core::DynamicObject` and its metadata.
#[diagnostic::on_unimplemented(
    message = "the kind of `{Self}` is not known at compile time",
    note = "a type of `k8s-openapi`, or one that derives `kube::CustomResource`, has a kind known at compile time"
)]
pub trait StaticObject: Object<DynamicType = ()> {}

impl<K: Object<DynamicType = ()>> StaticObject for K {}

/// Run-time information about the kind of a type of objects; `()` if the type determines the kind.
pub trait KindInfo: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static {
    /// The only value, if the kind is known at compile time.
    fn of_type() -> Option<Self>;
}

impl KindInfo for () {
    fn of_type() -> Option<Self> {
        Some(())
    }
}

impl KindInfo for ApiResource {
    fn of_type() -> Option<Self> {
        None
    }
}

/// Name of a resource in messages: `deployments.apps`, or `configmaps` for the core group.
pub(crate) fn resource_name<K: StaticObject>() -> String {
    resource_name_of::<K>(&())
}

/// Like [`resource_name`], for the kind described by `info`.
pub(crate) fn resource_name_of<K: Object>(info: &K::DynamicType) -> String {
    let (plural, group) = (K::plural(info), K::group(info));
    if group.is_empty() { plural.into_owned() } else { format!("{plural}.{group}") }
}

/// Namespace and name of an object for messages, as far as they are set.
pub(crate) fn name_of<K: Object>(object: &K) -> String {
    let meta = object.meta();
    let name = meta.name.as_deref().or(meta.generate_name.as_deref()).unwrap_or("(without a name)");
    match &meta.namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}
