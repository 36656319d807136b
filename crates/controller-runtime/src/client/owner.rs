use super::name_of;
use crate::object::{Object, OwnableBy, StaticObject, resource_name};

/// Why one object cannot become the controller of another.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// The object has a controller already, and may have only one.
    #[error("{object} is already controlled by {controller}")]
    AlreadyOwned {
        /// Resource and key of the object.
        object: String,
        /// Kind and name of its controller.
        controller: String,
    },
    /// The owner is in another namespace: the garbage collector would take it for absent and delete the object.
    #[error("{object} cannot be owned by {owner}, which is in another namespace")]
    OtherNamespace {
        /// Resource and key of the object.
        object: String,
        /// Resource and key of the owner.
        owner: String,
    },
    /// The owner has no name or no uid: it does not come from an API server.
    #[error("{owner} has no uid: only an object read from the API server can own another one")]
    NotStored {
        /// Resource and key of the owner.
        owner: String,
    },
}

/// Makes `owner` the controller of `object`: `object` is deleted after it, and its events reconcile it.
///
/// The reference is matched by uid, so an owner made anew under the same name is another owner. Does nothing to an
/// object that `owner` controls already.
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
/// # Errors
///
/// Another object controls `object`; `owner` is in another namespace, or is not stored anywhere.
#[doc(alias = "SetControllerReference")]
pub fn set_controller_reference<O: StaticObject, K: StaticObject>(
    owner: &O,
    object: &mut K,
) -> Result<(), OwnerError>
where
    K::Scope: OwnableBy<O::Scope>,
{
    let named = |resource: String, name: String| format!("{resource} {name}");
    let (owner_named, object_named) =
        (|| named(resource_name::<O>(), name_of(owner)), named(resource_name::<K>(), name_of(object)));
    let Some(reference) = owner.controller_owner_ref(&()) else {
        return Err(OwnerError::NotStored { owner: owner_named() });
    };
    // An owner without a namespace may own objects in every one.
    let namespaces = (&owner.meta().namespace, &object.meta().namespace);
    if matches!(namespaces, (Some(owner), Some(object)) if owner != object) {
        return Err(OwnerError::OtherNamespace { object: object_named, owner: owner_named() });
    }
    let references = object.meta_mut().owner_references.get_or_insert_default();
    match references.iter_mut().find(|known| known.controller == Some(true)) {
        Some(known) if known.uid == reference.uid => {}
        Some(known) => {
            let controller = format!("{} {}", known.kind, known.name);
            return Err(OwnerError::AlreadyOwned { object: object_named, controller });
        }
        None => {
            references.retain(|known| known.uid != reference.uid);
            references.push(reference);
        }
    }
    Ok(())
}

/// Whether `owner`, by its uid, is the controller of `object`.
#[must_use]
#[doc(alias = "IsControlledBy")]
pub fn is_controlled_by<K: Object, O: Object>(object: &K, owner: &O) -> bool {
    let references = object.meta().owner_references.iter().flatten();
    let mut controllers = references.filter(|reference| reference.controller == Some(true));
    controllers.any(|reference| owner.meta().uid.as_ref() == Some(&reference.uid))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use kube::Resource;

    use super::*;

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
    fn an_owner_must_be_stored_and_in_the_same_namespace() {
        let mut object = ConfigMap::default();
        object.metadata.namespace = Some("ns".to_owned());
        object.metadata.name = Some("c".to_owned());
        let error = set_controller_reference(&Secret::default(), &mut object).expect_err("it has no uid");
        assert!(matches!(error, OwnerError::NotStored { .. }), "{error}");
        let mut stranger = owner("a", "1");
        stranger.metadata.namespace = Some("other".to_owned());
        let error = set_controller_reference(&stranger, &mut object).expect_err("another namespace");
        let told = "configmaps ns/c cannot be owned by secrets other/a, which is in another namespace";
        assert_eq!(error.to_string(), told);
        assert!(!is_controlled_by(&object, &stranger));
    }
}
