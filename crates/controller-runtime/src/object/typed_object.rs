//! Objects to which Kubernetes Events and owner references refer.

use std::fmt;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, core::ApiResource};

use crate::object::{DynamicKind, Object, Scope, StaticObject, name_of, resource_name};

/// An object with a known kind, to which Kubernetes Events and owner references can refer.
///
/// Every [`StaticObject`] is one. An object of a kind known at run time becomes one together with its kind, by
/// [`DynamicKind::object`]. There is nothing to implement by hand.
#[diagnostic::on_unimplemented(
    message = "the kind of `{Self}` is not known",
    note = "pass an object of a kind known at run time together with the kind: `&kind.object(&object)`"
)]
pub trait TypedObject {
    /// Scope of the object's kind.
    type Scope: Scope;

    /// Kind, name, namespace and UID.
    fn reference(&self) -> ObjectReference;

    /// Resource and key for messages: `deployments.apps demo/web`.
    fn title(&self) -> String;
}

impl<K: StaticObject> TypedObject for K {
    type Scope = <K as Resource>::Scope;

    fn reference(&self) -> ObjectReference {
        self.object_ref(&())
    }

    fn title(&self) -> String {
        format!("{} {}", resource_name::<K>(), name_of(self))
    }
}

/// An object together with its kind, which is known at run time.
#[derive(Clone, Copy)]
pub struct TypedRef<'a, K> {
    object: &'a K,
    kind: &'a DynamicKind,
}

impl DynamicKind {
    /// Pairs `object`, which is of this kind, with the kind: for a
    /// [`Recorder`](crate::Recorder) or [`set_controller_reference`](crate::set_controller_reference).
    ///
    /// The `types` of `object` are not read: the API server omits them in lists of builtin kinds.
    ///
    /// ```
    /// use controller_runtime::{DynamicKind, set_controller_reference};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube::core::DynamicObject;
    /// # use controller_runtime::OwnerError;
    ///
    /// # let kind = DynamicKind::namespaced("example.com", "v1", "Widget", "widgets");
    /// fn config_of(kind: &DynamicKind, widget: &DynamicObject) -> Result<ConfigMap, OwnerError> {
    ///     let mut config = ConfigMap::default();
    ///     config.metadata.namespace = widget.metadata.namespace.clone();
    ///     config.metadata.name = widget.metadata.name.clone();
    ///     set_controller_reference(&kind.object(widget), &mut config)?;
    ///     Ok(config)
    /// }
    /// # let mut widget = DynamicObject::new("w", kind.resource());
    /// # widget.metadata.uid = Some("u".to_owned());
    /// # let config = config_of(&kind, &widget)?;
    /// # assert_eq!(config.metadata.owner_references.unwrap()[0].api_version, "example.com/v1");
    /// # Ok::<(), OwnerError>(())
    /// ```
    #[must_use]
    pub fn object<'a, K: Object<DynamicType = ApiResource>>(&'a self, object: &'a K) -> TypedRef<'a, K> {
        TypedRef { object, kind: self }
    }
}

impl<K: Object<DynamicType = ApiResource>> TypedObject for TypedRef<'_, K> {
    type Scope = <K as Resource>::Scope;

    fn reference(&self) -> ObjectReference {
        self.object.object_ref(&self.kind.resource)
    }

    fn title(&self) -> String {
        format!("{} {}", self.kind, name_of(self.object))
    }
}

impl<K: fmt::Debug> fmt::Debug for TypedRef<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedRef").field("kind", &self.kind).field("object", &self.object).finish()
    }
}
