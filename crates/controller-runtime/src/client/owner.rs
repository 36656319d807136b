use crate::object::{Object, ObjectKey, OwnableBy, resource_name};

/// The object has a controller already, and may have only one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{object} is already controlled by {controller}")]
#[non_exhaustive]
pub struct AlreadyOwned {
    /// Resource and key of the object.
    pub object: String,
    /// Kind and name of its controller.
    pub controller: String,
}

/// Makes `owner` the controller of `object`: `object` is deleted after it, and its events reconcile it.
///
/// The reference is matched by uid, so an owner made anew under the same name is another owner. Does nothing to an
/// object that `owner` controls already, and nothing for an owner without name or uid, which is not stored anywhere.
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
/// # Ok::<(), controller_runtime::AlreadyOwned>(())
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
/// Another object controls `object`.
#[doc(alias = "SetControllerReference")]
pub fn set_controller_reference<O: Object, K: Object>(owner: &O, object: &mut K) -> Result<(), AlreadyOwned>
where
    K::Scope: OwnableBy<O::Scope>,
{
    let Some(reference) = owner.controller_owner_ref(&()) else {
        return Ok(());
    };
    let name = ObjectKey::of(object).map_or_else(String::new, |key| key.to_string());
    let references = object.meta_mut().owner_references.get_or_insert_default();
    match references.iter_mut().find(|known| known.controller == Some(true)) {
        Some(known) if known.uid == reference.uid => {}
        Some(known) => {
            return Err(AlreadyOwned {
                object: format!("{} {name}", resource_name::<K>()),
                controller: format!("{} {}", known.kind, known.name),
            });
        }
        None => {
            references.retain(|known| known.uid != reference.uid);
            references.push(reference);
        }
    }
    Ok(())
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
        assert_eq!(
            error.to_string(),
            "configmaps ns/c is already controlled by Secret a"
        );
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
}
