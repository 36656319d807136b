//! Objects that have the same value in an index.

use std::{ops::Bound, sync::Arc};

use imbl::OrdMap;

use crate::{
    cache::objects::lazy::Lazy,
    object::{Object, ObjectKey},
};

/// Objects in the order of their keys. Copies are cheap and do not change.
///
/// Most values, such as names, addresses and owners, have one or a few objects. A node of an [`OrdMap`] is too large
/// for them: it has room for 16 entries and takes about 670 bytes.
#[derive(Clone)]
pub(in crate::cache) enum Objects<K: Object> {
    /// At least one object.
    Few(Arc<[KeyedObject<K>]>),
    /// Any number of objects, also none.
    Many(Map<K>),
}

type KeyedObject<K> = (ObjectKey<K>, Lazy<K>);

type Map<K> = OrdMap<ObjectKey<K>, Lazy<K>>;

/// Maximum length of `Few`: each change copies the slice.
const FEW: usize = 8;

impl<K: Object> Default for Objects<K> {
    fn default() -> Self {
        Self::Many(OrdMap::new())
    }
}

impl<K: Object> Objects<K> {
    pub(in crate::cache) fn len(&self) -> usize {
        match self {
            Self::Few(few) => few.len(),
            Self::Many(many) => many.len(),
        }
    }

    pub(in crate::cache) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(in crate::cache) fn contains(&self, key: &ObjectKey<K>) -> bool {
        match self {
            Self::Few(few) => place(few, key).is_ok(),
            Self::Many(many) => many.contains_key(key),
        }
    }

    pub(in crate::cache) fn insert(&mut self, key: ObjectKey<K>, object: Lazy<K>) {
        match self {
            Self::Many(many) if many.is_empty() => *self = Self::Few(Arc::new([(key, object)])),
            Self::Many(many) => drop(many.insert(key, object)),
            Self::Few(few) => match place(few, &key) {
                Ok(place) => Arc::make_mut(few)[place].1 = object,
                Err(place) => {
                    let mut all = few.to_vec();
                    all.insert(place, (key, object));
                    *self = match all.len() > FEW {
                        true => Self::Many(all.into_iter().collect()),
                        false => Self::Few(all.into()),
                    };
                }
            },
        }
    }

    pub(in crate::cache) fn remove(&mut self, key: &ObjectKey<K>) {
        match self {
            Self::Few(few) => {
                if let Ok(place) = place(few, key) {
                    let mut left = few.to_vec();
                    left.remove(place);
                    *self = if left.is_empty() { Self::default() } else { Self::Few(left.into()) };
                }
            }
            Self::Many(many) => {
                many.remove(key);
                // Below half of the limit, so that alternating changes do not convert it each time.
                if (1..=FEW / 2).contains(&many.len()) {
                    *self =
                        Self::Few(many.iter().map(|(key, object)| (key.clone(), object.clone())).collect());
                }
            }
        }
    }

    pub(in crate::cache) fn iter(&self) -> impl Iterator<Item = (&ObjectKey<K>, &Lazy<K>)> {
        let (few, many) = self.parts();
        few.iter().map(|(key, object)| (key, object)).chain(many.into_iter().flatten())
    }

    /// Returns the states of the objects.
    pub(in crate::cache) fn states(&self) -> impl Iterator<Item = &Lazy<K>> {
        self.iter().map(|(_, object)| object)
    }

    /// Returns the objects from this key on.
    pub(in crate::cache) fn from<'o>(
        &'o self,
        first: &ObjectKey<K>,
    ) -> impl Iterator<Item = (&'o ObjectKey<K>, &'o Lazy<K>)> + use<'o, K> {
        let (few, many) = self.parts();
        let few = &few[few.partition_point(|(key, _)| key < first)..];
        let onwards = (Bound::Included(first), Bound::Unbounded);
        let many = many.map(|many| many.range::<_, ObjectKey<K>>(onwards));
        few.iter().map(|(key, object)| (key, object)).chain(many.into_iter().flatten())
    }

    /// Returns both forms, one of which is empty.
    fn parts(&self) -> (&[KeyedObject<K>], Option<&Map<K>>) {
        match self {
            Self::Few(few) => (few, None),
            Self::Many(many) => (&[], Some(many)),
        }
    }
}

/// Returns the index of the key, or the index at which to insert it.
fn place<K: Object>(few: &[KeyedObject<K>], key: &ObjectKey<K>) -> Result<usize, usize> {
    few.binary_search_by(|(known, _)| known.cmp(key))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::ConfigMap;
    use proptest::prelude::*;

    use super::*;

    /// Returns an object with this number and version.
    fn object(number: u8, version: usize) -> Lazy<ConfigMap> {
        let mut object = ConfigMap::default();
        object.metadata.namespace = Some("ns".to_owned());
        object.metadata.name = Some(format!("n{number:02}"));
        object.metadata.resource_version = Some(version.to_string());
        Lazy::of(object).expect("it has a key")
    }

    fn shown<'a>(
        objects: impl Iterator<Item = (&'a ObjectKey<ConfigMap>, &'a Lazy<ConfigMap>)>,
    ) -> Vec<String> {
        objects.map(|(key, object)| format!("{key}: {object:?}")).collect()
    }

    proptest! {
        /// Behaves like a map for few and many objects, and copies do not change.
        #[test]
        fn objects_equal_those_of_a_plain_map(
            history in prop::collection::vec((any::<bool>(), 0..14u8), 1..80),
        ) {
            let (mut objects, mut expected) = (Objects::default(), BTreeMap::new());
            for (version, (put, number)) in history.into_iter().enumerate() {
                let (copy, before) = (objects.clone(), expected.clone());
                let object = object(number, version);
                let key = object.key();
                match put {
                    true => {
                        objects.insert(key.clone(), object.clone());
                        expected.insert(key.clone(), object);
                    }
                    false => {
                        objects.remove(&key);
                        expected.remove(&key);
                    }
                }
                prop_assert_eq!((objects.contains(&key), objects.len()), (put, expected.len()));
                prop_assert_eq!(objects.is_empty(), expected.is_empty());
                prop_assert_eq!(shown(objects.iter()), shown(expected.iter()));
                prop_assert_eq!(shown(objects.from(&key)), shown(expected.range(&key..)));
                prop_assert_eq!(shown(copy.iter()), shown(before.iter()));
                prop_assert!(matches!(objects, Objects::Many(_)) || (1..=FEW).contains(&objects.len()));
            }
        }
    }
}
