//! Metadata as it stands in an object's JSON, or in its decoded form, before it is made small.

use std::{
    borrow::Cow,
    hash::{DefaultHasher, Hash, Hasher},
};

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
    jiff::Timestamp,
};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// What the cache keeps at hand of an object's metadata. What is missing, or not of its type, is empty.
#[derive(Debug, Default)]
pub(in crate::cache) struct RawMeta<'a> {
    pub(super) namespace: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    pub(super) uid: Cow<'a, str>,
    pub(super) resource_version: Cow<'a, str>,
    pub(super) generation: i64,
    pub(super) deletion_timestamp: Option<Timestamp>,
    /// In the order of their keys.
    pub(super) labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    pub(super) annotations: Fingerprint,
    pub(super) owner_references: Vec<RawOwner<'a>>,
    pub(super) finalizers: Vec<Cow<'a, str>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RawOwner<'a> {
    #[serde(borrow)]
    pub(super) api_version: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) uid: Cow<'a, str>,
    pub(super) controller: Option<bool>,
}

impl<'a> RawMeta<'a> {
    /// Reads the metadata of an object from the JSON of the whole object.
    ///
    /// # Errors
    ///
    /// It is no JSON object. Any other surprise counts as missing: whoever decodes the object learns of it.
    pub(in crate::cache) fn read(json: &'a RawValue) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Whole<'a> {
            #[serde(borrow)]
            metadata: Option<&'a RawValue>,
        }
        let whole: Whole<'a> = serde_json::from_str(json.get())?;
        Ok(whole.metadata.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default())
    }

    /// The metadata of a decoded object.
    pub(in crate::cache) fn of(meta: &'a ObjectMeta) -> Self {
        let text = |text: &'a Option<String>| Cow::Borrowed(text.as_deref().unwrap_or_default());
        let pair = |(key, value): (&'a String, &'a String)| (Cow::from(&**key), Cow::from(&**value));
        Self {
            namespace: text(&meta.namespace),
            name: text(&meta.name),
            uid: text(&meta.uid),
            resource_version: text(&meta.resource_version),
            generation: meta.generation.unwrap_or_default(),
            deletion_timestamp: meta.deletion_timestamp.as_ref().map(|time| time.0),
            labels: meta.labels.iter().flatten().map(pair).collect(),
            annotations: meta.annotations.iter().flatten().map(pair).collect(),
            owner_references: meta.owner_references.iter().flatten().map(RawOwner::of).collect(),
            finalizers: meta.finalizers.iter().flatten().map(|name| Cow::from(&**name)).collect(),
        }
    }

    pub(in crate::cache) fn into_version(self) -> Option<String> {
        Some(self.resource_version.into_owned()).filter(|version| !version.is_empty())
    }

    pub(in crate::cache) fn set(&mut self, field: &str, json: &'a RawValue) {
        match field {
            "namespace" => self.namespace = string(json),
            "name" => self.name = string(json),
            "uid" => self.uid = string(json),
            "resourceVersion" => self.resource_version = string(json),
            "generation" => self.generation = read(json).unwrap_or_default(),
            "deletionTimestamp" => self.deletion_timestamp = string(json).parse().ok(),
            "labels" => {
                self.labels = read(json).map_or_else(Vec::new, |Pairs(pairs)| pairs);
                self.labels.sort();
            }
            "annotations" => {
                self.annotations = read(json).map(|Pairs(pairs)| pairs).into_iter().flatten().collect();
            }
            "ownerReferences" => self.owner_references = read(json).unwrap_or_default(),
            "finalizers" => {
                self.finalizers =
                    read::<Vec<Text<'a>>>(json).into_iter().flatten().map(|Text(name)| name).collect();
            }
            _ => {}
        }
    }
}

impl<'a> RawOwner<'a> {
    fn of(reference: &'a OwnerReference) -> Self {
        Self {
            api_version: Cow::from(&*reference.api_version),
            kind: Cow::from(&*reference.kind),
            name: Cow::from(&*reference.name),
            uid: Cow::from(&*reference.uid),
            controller: reference.controller,
        }
    }
}

impl<'de> Deserialize<'de> for RawMeta<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = RawMeta<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the metadata of an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut meta = RawMeta::default();
                while let Some(Text(field)) = map.next_key()? {
                    if field == "managedFields" {
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        meta.set(&field, map.next_value()?);
                    }
                }
                Ok(meta)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

/// The value, if it is of the type.
fn read<'a, T: Deserialize<'a>>(json: &'a RawValue) -> Option<T> {
    serde_json::from_str::<Option<T>>(json.get()).ok().flatten()
}

fn string(json: &RawValue) -> Cow<'_, str> {
    read::<Text<'_>>(json).unwrap_or_default().0
}

/// A string that is borrowed if it can be: as an element, a bare `Cow` never is.
#[derive(Default, Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The entries of an object whose values are strings.
struct Pairs<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some((Text(key), Text(value))) = map.next_entry()? {
                    pairs.push((key, value));
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

/// Differs, all but certainly, when a set of pairs differs. Neither order nor process matter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::cache) struct Fingerprint(u64);

impl<T: Hash> FromIterator<T> for Fingerprint {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let hash = |item: T| {
            let mut hasher = DefaultHasher::new();
            item.hash(&mut hasher);
            hasher.finish()
        };
        Self(items.into_iter().map(hash).fold(0, u64::wrapping_add))
    }
}
