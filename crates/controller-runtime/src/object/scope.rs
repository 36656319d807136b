//! Scopes of kinds, and the namespace part that they give to keys.

use std::{borrow::Cow, fmt, hash::Hash, sync::Arc};

use kube::core::{ClusterResourceScope, DynamicResourceScope, NamespaceResourceScope};

/// Scope of a kind: namespaced or cluster-scoped.
///
/// The scope determines the namespace part of a key, so that the key of a namespaced object cannot be made without a namespace,
/// and the key of a cluster-scoped object has none.
pub trait Scope: 'static {
    /// The namespace part of a key: `Arc<str>`, `()` for cluster-scoped kinds, or [`DynamicNamespace`].
    type Namespace: Clone + Ord + Hash + fmt::Debug + Send + Sync + 'static;

    /// The namespace part for an object in `namespace`; `None` if the scope requires a namespace and there is none.
    fn namespace(namespace: Option<&Arc<str>>) -> Option<Self::Namespace>;

    /// The namespace's name, if the scope has one.
    fn as_str(namespace: &Self::Namespace) -> Option<&str>;
}

impl Scope for NamespaceResourceScope {
    type Namespace = Arc<str>;

    fn namespace(namespace: Option<&Arc<str>>) -> Option<Arc<str>> {
        namespace.cloned()
    }

    fn as_str(namespace: &Arc<str>) -> Option<&str> {
        Some(namespace)
    }
}

impl Scope for ClusterResourceScope {
    type Namespace = ();

    fn namespace(_: Option<&Arc<str>>) -> Option<()> {
        Some(())
    }

    fn as_str((): &()) -> Option<&str> {
        None
    }
}

impl Scope for DynamicResourceScope {
    type Namespace = DynamicNamespace;

    fn namespace(namespace: Option<&Arc<str>>) -> Option<DynamicNamespace> {
        Some(DynamicNamespace(namespace.cloned()))
    }

    fn as_str(namespace: &DynamicNamespace) -> Option<&str> {
        namespace.0.as_deref()
    }
}

/// The namespace part of a key of an object with a kind, and so a scope, known at run time.
///
/// Made from a name or, for cluster-scoped kinds, from `()`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DynamicNamespace(Option<Arc<str>>);

impl From<&str> for DynamicNamespace {
    fn from(name: &str) -> Self {
        Self(Some(name.into()))
    }
}

impl From<Arc<str>> for DynamicNamespace {
    fn from(name: Arc<str>) -> Self {
        Self(Some(name))
    }
}

impl From<()> for DynamicNamespace {
    fn from((): ()) -> Self {
        Self(None)
    }
}

impl From<Option<&str>> for DynamicNamespace {
    fn from(name: Option<&str>) -> Self {
        Self(name.map(Arc::from))
    }
}

/// Values for the namespace of an object of scope `S`, for [`ObjectKey::new`](super::ObjectKey::new): a text for namespaced kinds, `()` for
/// cluster-scoped ones, either for kinds known at run time.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a namespace for an object of `{S}`",
    label = "not a namespace for `{S}`",
    note = "an object of a cluster-scoped kind has no namespace: `ObjectKey::<Node>::new((), \"worker-1\")`",
    note = "an object of a namespaced kind needs one: `ObjectKey::<Pod>::new(\"default\", \"web\")`"
)]
pub trait NamespaceOf<S: Scope> {
    /// Converts the value to the namespace part of a key.
    fn into_namespace(self) -> S::Namespace;
}

impl NamespaceOf<ClusterResourceScope> for () {
    fn into_namespace(self) {}
}

// Implemented type by type: with a blanket implementation the compiler would report the missing `Into` instead of the message
// above.
macro_rules! namespaces {
    ($($text:ty),*) => {$(
        impl NamespaceOf<NamespaceResourceScope> for $text {
            fn into_namespace(self) -> Arc<str> {
                Arc::from(self)
            }
        }

        impl NamespaceOf<DynamicResourceScope> for $text {
            fn into_namespace(self) -> DynamicNamespace {
                DynamicNamespace(Some(Arc::from(self)))
            }
        }
    )*};
}

namespaces!(&str, &mut str, String, Box<str>, Arc<str>, Cow<'_, str>);

impl NamespaceOf<NamespaceResourceScope> for &String {
    fn into_namespace(self) -> Arc<str> {
        Arc::from(self.as_str())
    }
}

impl NamespaceOf<DynamicResourceScope> for &String {
    fn into_namespace(self) -> DynamicNamespace {
        DynamicNamespace::from(self.as_str())
    }
}

impl NamespaceOf<DynamicResourceScope> for () {
    fn into_namespace(self) -> DynamicNamespace {
        DynamicNamespace::from(self)
    }
}

impl NamespaceOf<DynamicResourceScope> for Option<&str> {
    fn into_namespace(self) -> DynamicNamespace {
        DynamicNamespace::from(self)
    }
}

impl NamespaceOf<DynamicResourceScope> for DynamicNamespace {
    fn into_namespace(self) -> DynamicNamespace {
        self
    }
}

/// Scopes of objects that may be owned by objects of scope `Owner`.
///
/// An owner must be in its dependent's namespace or cluster-scoped: the garbage collector treats any other owner as
/// absent and deletes the dependent.
#[diagnostic::on_unimplemented(
    message = "a namespaced object cannot own a cluster-scoped one",
    note = "the garbage collector would not find the owner, and delete the dependent"
)]
pub trait OwnableBy<Owner: Scope>: Scope {
    /// The namespace part of the owner's key, given the dependent's. `None` if there can be no such owner, which only a
    /// scope known at run time leaves open.
    fn owner_namespace(own: &Self::Namespace) -> Option<Owner::Namespace>;
}

impl OwnableBy<NamespaceResourceScope> for NamespaceResourceScope {
    fn owner_namespace(own: &Arc<str>) -> Option<Arc<str>> {
        Some(Arc::clone(own))
    }
}

impl OwnableBy<NamespaceResourceScope> for DynamicResourceScope {
    fn owner_namespace(own: &DynamicNamespace) -> Option<Arc<str>> {
        own.0.clone()
    }
}

impl<S: Scope> OwnableBy<ClusterResourceScope> for S {
    fn owner_namespace(_: &S::Namespace) -> Option<()> {
        Some(())
    }
}

/// An owner with a scope known at run time is looked up in the dependent's namespace; a caller that knows it to be
/// cluster-scoped leaves the namespace out.
impl<S: Scope> OwnableBy<DynamicResourceScope> for S {
    fn owner_namespace(own: &S::Namespace) -> Option<DynamicNamespace> {
        Some(DynamicNamespace::from(S::as_str(own)))
    }
}
