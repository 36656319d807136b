//! Owner references between objects.

use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::OwnerReference};

use crate::object::{KindInfo, Object, OwnableBy, Scope, TypedObject, name_of, resource_name_of};

/// Error of setting an owner reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// The object has another controller, and can have only one.
    #[error("{object} is already controlled by {controller}")]
    AlreadyOwned {
        /// Resource and key of the object.
        object: String,
        /// Kind and name of its controller.
        controller: String,
    },
    /// The owner is in another namespace. The garbage collector would not find it there, and would delete the object.
    #[error("{object} cannot be owned by {owner}, which is in another namespace")]
    OtherNamespace {
        /// Resource and key of the object.
        object: String,
        /// Resource and key of the owner.
        owner: String,
    },
    /// The owner is namespaced and the object is cluster-scoped: the garbage collector would not find the owner, and would
    /// delete the object. For kinds known at compile time this does not compile.
    #[error("{object} is cluster-scoped and cannot be owned by {owner}, which is namespaced")]
    ClusterScoped {
        /// Resource and key of the object.
        object: String,
        /// Resource and key of the owner.
        owner: String,
    },
    /// The owner has no name or no UID, so it was not read from an API server.
    #[error("{owner} has no uid: only an object read from the API server can own another one")]
    NotStored {
        /// Resource and key of the owner.
        owner: String,
    },
}

/// Makes `owner` the controller of `object`: `object` is garbage-collected with it, and its events reconcile `owner`.
///
/// The reference is matched by UID: an owner that was deleted and created again under the same name is another owner. Does nothing
/// if `owner` already controls `object`.
///
/// ```
/// use controller_runtime::set_controller_reference;
/// use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
/// # let mut owner = Deployment::default();
/// # owner.metadata.name = Some("web".to_owned());
/// # owner.metadata.uid = Some("u1".to_owned());
/// let mut config = ConfigMap::default();
/// set_controller_reference(&owner, &mut config)?;
/// assert_eq!(config.metadata.owner_references.unwrap()[0].controller, Some(true));
/// # Ok::<(), controller_runtime::OwnerError>(())
/// ```
///
/// A namespaced owner of a cluster-scoped object does not compile:
///
/// ```compile_fail,E0277
/// # use controller_runtime::set_controller_reference;
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::Node};
/// set_controller_reference(&Deployment::default(), &mut Node::default());
/// ```
///
/// An owner of a kind known at run time is passed together with its kind, by
/// [`DynamicKind::object`](crate::DynamicKind::object).
///
/// # Errors
///
/// Another object controls `object`; `owner` is in another namespace, or is namespaced while `object` is cluster-scoped; or
/// `owner` was not read from an API server.
#[doc(alias = "SetControllerReference")]
pub fn set_controller_reference<O: TypedObject, K: Object>(
    owner: &O,
    object: &mut K,
) -> Result<(), OwnerError>
where
    K::Scope: OwnableBy<O::Scope>,
{
    set_controller_reference_with(owner, object, BlockOwnerDeletion::Yes)
}

/// Whether foreground deletion of an owner waits until the object is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockOwnerDeletion {
    /// The deletion of the owner waits. Clusters that check this require the permission to update the owner's finalizers.
    Yes,
    /// The deletion of the owner does not wait.
    No,
}

/// Like [`set_controller_reference`], which uses [`BlockOwnerDeletion::Yes`], but with a given [`BlockOwnerDeletion`].
///
/// If `owner` already controls `object`, the existing reference is updated.
///
/// # Errors
///
/// See [`set_controller_reference`].
#[doc(alias = "WithBlockOwnerDeletion")]
pub fn set_controller_reference_with<O: TypedObject, K: Object>(
    owner: &O,
    object: &mut K,
    block: BlockOwnerDeletion,
) -> Result<(), OwnerError>
where
    K::Scope: OwnableBy<O::Scope>,
{
    let mut reference = reference_to(owner, object)?;
    reference.controller = Some(true);
    reference.block_owner_deletion = Some(block == BlockOwnerDeletion::Yes);
    // Another UID under the same name is another owner, so only UIDs are compared.
    let other = object.meta().owner_references.iter().flatten();
    if let Some(other) =
        other.filter(|known| known.controller == Some(true)).find(|known| known.uid != reference.uid)
    {
        let controller = format!("{} {}", other.kind, other.name);
        return Err(OwnerError::AlreadyOwned { object: named(object), controller });
    }
    put(object, reference);
    Ok(())
}

/// Makes `owner` an owner of `object` without controlling it: `object` is garbage-collected after the last of its owners.
///
/// Matched by UID. Does nothing if `owner` owns `object` already, as controller or not.
///
/// # Errors
///
/// `owner` is in another namespace, or is namespaced while `object` is cluster-scoped, or was not read from an API server.
#[doc(alias = "SetOwnerReference")]
pub fn set_owner_reference<O: TypedObject, K: Object>(owner: &O, object: &mut K) -> Result<(), OwnerError>
where
    K::Scope: OwnableBy<O::Scope>,
{
    let reference = reference_to(owner, object)?;
    let mut known = object.meta().owner_references.iter().flatten();
    if !known.any(|known| known.uid == reference.uid) {
        put(object, reference);
    }
    Ok(())
}

/// Removes the reference to `owner`, matched by UID, whether it is the controller or not. Returns whether there was one.
#[doc(alias = "RemoveOwnerReference")]
pub fn remove_owner_reference<O: Object, K: Object>(owner: &O, object: &mut K) -> bool {
    let (uid, references) = (&owner.meta().uid, &mut object.meta_mut().owner_references);
    let before = references.as_ref().map_or(0, Vec::len);
    references.iter_mut().for_each(|known| known.retain(|reference| uid.as_ref() != Some(&reference.uid)));
    let after = references.as_ref().map_or(0, Vec::len);
    // The API server omits an empty list; keep the object equal to its stored form.
    if after == 0 {
        *references = None;
    }
    after < before
}

/// Like [`remove_owner_reference`], but only if `owner` controls `object`.
#[doc(alias = "RemoveControllerReference")]
pub fn remove_controller_reference<O: Object, K: Object>(owner: &O, object: &mut K) -> bool {
    is_controlled_by(object, owner) && remove_owner_reference(owner, object)
}

/// Returns whether `object` has a reference to `owner`, matched by UID.
#[must_use]
#[doc(alias = "HasOwnerReference")]
pub fn has_owner_reference<K: Object, O: Object>(object: &K, owner: &O) -> bool {
    let mut references = object.meta().owner_references.iter().flatten();
    references.any(|reference| owner.meta().uid.as_ref() == Some(&reference.uid))
}

/// A reference to `owner` without controller fields, if `owner` may own `object`.
fn reference_to<O: TypedObject, K: Object>(owner: &O, object: &K) -> Result<OwnerReference, OwnerError> {
    let ObjectReference { api_version, kind, namespace, name, uid, .. } = owner.reference();
    let owner = owner.title();
    let (Some(name), Some(uid)) = (name, uid) else {
        return Err(OwnerError::NotStored { owner });
    };
    // A cluster-scoped owner may own objects in every namespace.
    if let Some(home) = namespace {
        match &object.meta().namespace {
            Some(namespace) if *namespace != home => {
                return Err(OwnerError::OtherNamespace { object: named(object), owner });
            }
            // Only for cluster-scoped kinds: an object of a namespaced kind may not have its namespace yet.
            None if K::Scope::namespace(None).is_some() => {
                return Err(OwnerError::ClusterScoped { object: named(object), owner });
            }
            _ => {}
        }
    }
    let (api_version, kind) = (api_version.unwrap_or_default(), kind.unwrap_or_default());
    Ok(OwnerReference { api_version, kind, name, uid, ..OwnerReference::default() })
}

/// Replaces the reference to the same owner, or appends the reference.
fn put<K: Object>(object: &mut K, reference: OwnerReference) {
    let references = object.meta_mut().owner_references.get_or_insert_default();
    match references.iter_mut().find(|known| known.uid == reference.uid) {
        Some(known) => *known = reference,
        None => references.push(reference),
    }
}

fn named<K: Object>(object: &K) -> String {
    // The type of an object of a dynamic kind does not name the kind.
    let resource = K::DynamicType::of_type().map_or("object".to_owned(), |info| resource_name_of::<K>(&info));
    format!("{resource} {}", name_of(object))
}

/// Returns whether `owner` is the controller of `object`, matched by UID.
#[must_use]
#[doc(alias = "IsControlledBy")]
pub fn is_controlled_by<K: Object, O: Object>(object: &K, owner: &O) -> bool {
    let references = object.meta().owner_references.iter().flatten();
    let mut controllers = references.filter(|reference| reference.controller == Some(true));
    controllers.any(|reference| owner.meta().uid.as_ref() == Some(&reference.uid))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
    use kube::{
        Resource,
        core::{DynamicObject, ObjectMeta},
    };

    use super::*;
    use crate::object::DynamicKind;

    fn owner(name: &str, uid: &str) -> Secret {
        let mut owner = Secret::default();
        owner.metadata.name = Some(name.to_owned());
        owner.metadata.uid = Some(uid.to_owned());
        owner
    }

    #[test]
    fn an_object_has_one_controller() {
        let mut object = ConfigMap::default();
        object.metadata.name = Some("c".to_owned());
        object.metadata.namespace = Some("ns".to_owned());
        set_controller_reference(&owner("a", "1"), &mut object).expect("it has none yet");
        set_controller_reference(&owner("a", "1"), &mut object).expect("the same again");
        assert_eq!(object.metadata.owner_references.as_ref().map(Vec::len), Some(1));

        let error = set_controller_reference(&owner("a", "2"), &mut object).expect_err("another uid");
        assert_eq!(error.to_string(), "configmaps ns/c is already controlled by Secret a");
    }

    #[test]
    fn a_plain_owner_becomes_the_controller_without_a_second_entry() {
        let mut object = ConfigMap::default();
        object.metadata.owner_references = owner("a", "1").owner_ref(&()).map(|reference| vec![reference]);
        set_controller_reference(&owner("a", "1"), &mut object).expect("it has no controller");
        let references = object.metadata.owner_references.expect("references");
        assert_eq!(references.len(), 1);
        assert_eq!(references[0].controller, Some(true));
    }

    #[test]
    fn owner_references_are_added_and_removed_by_uid() {
        let mut object = ConfigMap::default();
        let (first, second) = (owner("a", "1"), owner("b", "2"));
        set_controller_reference_with(&first, &mut object, BlockOwnerDeletion::No).expect("the only one");
        set_owner_reference(&second, &mut object).expect("a further one");
        set_owner_reference(&first, &mut object).expect("it stays the controller");
        assert!(is_controlled_by(&object, &first) && has_owner_reference(&object, &second));
        let references = object.metadata.owner_references.clone().expect("two");
        assert_eq!((references.len(), references[0].block_owner_deletion), (2, Some(false)));

        assert!(!remove_owner_reference(&owner("a", "another uid"), &mut object));
        assert!(!remove_controller_reference(&second, &mut object), "it is not the controller");
        assert!(remove_controller_reference(&first, &mut object));
        assert!(remove_owner_reference(&second, &mut object));
        assert_eq!(object.metadata.owner_references, None);
    }

    #[test]
    fn an_owner_must_be_stored_and_in_the_same_namespace() {
        let mut object = ConfigMap::default();
        object.metadata.namespace = Some("ns".to_owned());
        object.metadata.name = Some("c".to_owned());
        let error = set_controller_reference(&Secret::default(), &mut object).expect_err("it has no uid");
        assert!(matches!(error, OwnerError::NotStored { .. }), "{error}");
        let mut stranger = owner("a", "1");
        stranger.metadata.namespace = Some("other".to_owned());
        let error = set_controller_reference(&stranger, &mut object).expect_err("another namespace");
        let message = "configmaps ns/c cannot be owned by secrets other/a, which is in another namespace";
        assert_eq!(error.to_string(), message);
        assert!(!is_controlled_by(&object, &stranger));
    }

    #[test]
    fn an_owner_of_a_kind_known_at_run_time_is_given_with_its_kind() {
        let kind = DynamicKind::namespaced("example.com", "v1", "Widget", "widgets");
        let mut widget = DynamicObject::new("w", kind.resource()).within("ns");
        widget.metadata.uid = Some("1".to_owned());
        widget.types = None; // as in a list of a builtin kind
        let mut object = ConfigMap::default();
        object.metadata.namespace = Some("ns".to_owned());
        object.metadata.name = Some("c".to_owned());
        set_controller_reference(&kind.object(&widget), &mut object).expect("it has none yet");
        set_owner_reference(&kind.object(&widget), &mut object).expect("the same again");
        let references = object.metadata.owner_references.clone().expect("one");
        let [reference] = &references[..] else { panic!("one: {references:?}") };
        assert_eq!((&*reference.api_version, &*reference.kind), ("example.com/v1", "Widget"));
        assert!(is_controlled_by(&object, &widget) && remove_controller_reference(&widget, &mut object));

        widget.metadata.namespace = Some("other".to_owned());
        let error = set_controller_reference(&kind.object(&widget), &mut object).expect_err("elsewhere");
        let message =
            "configmaps ns/c cannot be owned by widgets.example.com other/w, which is in another namespace";
        assert_eq!(error.to_string(), message);
    }

    #[test]
    fn a_cluster_scoped_object_cannot_have_a_namespaced_owner() {
        let kind = DynamicKind::namespaced("example.com", "v1", "Widget", "widgets");
        let mut widget = DynamicObject::new("w", kind.resource()).within("ns");
        widget.metadata.uid = Some("1".to_owned());
        let named = |name: &str| ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let mut node = Node { metadata: named("n"), ..Node::default() };
        let error = set_owner_reference(&kind.object(&widget), &mut node).expect_err("a Node is nowhere");
        let message =
            "nodes n is cluster-scoped and cannot be owned by widgets.example.com ns/w, which is namespaced";
        assert_eq!(error.to_string(), message);

        let mut part = DynamicObject { types: None, metadata: named("p"), data: ().into() };
        let error = set_controller_reference(&kind.object(&widget), &mut part).expect_err("nowhere, too");
        assert!(
            matches!(&error, OwnerError::ClusterScoped { object, .. } if object == "object p"),
            "{error}"
        );
        part.metadata.namespace = Some("ns".to_owned());
        set_controller_reference(&kind.object(&widget), &mut part).expect("now it is beside its owner");
        set_owner_reference(&owner("a", "2"), &mut part).expect("of a kind known at compile time");
        assert_eq!(part.metadata.owner_references.map(|known| known.len()), Some(2));
    }
}
