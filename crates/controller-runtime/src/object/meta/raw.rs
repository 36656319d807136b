//! Metadata as found in an object's JSON or in a decoded object, before conversion into [`Meta`](super::Meta).

use std::{
    borrow::Cow,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
};

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
    jiff::Timestamp,
};
use serde::Deserialize;

use super::ResourceVersion;
use crate::json::scan::Reader;

/// Metadata that the cache stores. Fields that are missing or have another type are empty.
#[derive(Debug, Clone, Default)]
pub(crate) struct RawMeta<'a> {
    pub(crate) namespace: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
    pub(crate) uid: Cow<'a, str>,
    pub(crate) resource_version: Cow<'a, str>,
    pub(crate) generation: i64,
    pub(crate) deletion_timestamp: Option<Timestamp>,
    /// In the order of their keys.
    pub(crate) labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    pub(crate) annotations: Fingerprint,
    pub(crate) owner_references: Vec<RawOwner<'a>>,
    pub(crate) finalizers: Vec<Cow<'a, str>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawOwner<'a> {
    #[serde(borrow)]
    pub(crate) api_version: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) uid: Cow<'a, str>,
    pub(crate) controller: Option<bool>,
}

impl<'a> RawMeta<'a> {
    /// Returns the namespace, empty for cluster-scoped objects.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the name, empty if the text is not an object.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the metadata of a decoded object.
    pub(crate) fn of(meta: &'a ObjectMeta) -> Self {
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

    pub(crate) fn version(&self) -> Option<ResourceVersion> {
        Some(&*self.resource_version).filter(|version| !version.is_empty()).map(ResourceVersion::from)
    }

    /// Sets a field from its JSON. A value of another type counts as missing: decoding the object reports it.
    pub(crate) fn set(&mut self, field: &str, json: &'a [u8]) {
        match field {
            "namespace" => self.namespace = string(json),
            "name" => self.name = string(json),
            "uid" => self.uid = string(json),
            "resourceVersion" => self.resource_version = string(json),
            "generation" => self.generation = read(json).unwrap_or_default(),
            "deletionTimestamp" => self.deletion_timestamp = string(json).parse().ok(),
            "labels" => {
                // Equal label sets are compared and shared as packed text, so they need the same order.
                self.labels = pairs(json);
                self.labels.sort_unstable();
            }
            "annotations" => {
                let (mut annotations, mut reader) = (Fingerprint::default(), Reader::new(json));
                let read = reader.object(|key, reader| {
                    annotations.add((key, reader.string()?));
                    Ok(())
                });
                self.annotations = read.map_or_else(|_| Fingerprint::default(), |()| annotations);
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

/// Namespace and name, as in `default/web`.
impl fmt::Display for RawMeta<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

/// Decodes a value; `None` if it has another type.
fn read<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Option<T> {
    serde_json::from_slice::<Option<T>>(json).ok().flatten()
}

fn string(json: &[u8]) -> Cow<'_, str> {
    Reader::new(json).string().unwrap_or_default()
}

/// Returns the entries of an object whose values are strings; none if any value is not.
fn pairs(json: &[u8]) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
    let mut pairs = Vec::with_capacity(8);
    let read = Reader::new(json).object(|key, reader| {
        pairs.push((key, reader.string()?));
        Ok(())
    });
    if read.is_ok() { pairs } else { Vec::new() }
}

/// A string that is borrowed if possible. In a `Vec`, serde never borrows a plain `Cow`.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Hash of a set of pairs. It depends neither on their order nor on the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    fn add(&mut self, item: impl Hash) {
        let mut hasher = DefaultHasher::new();
        item.hash(&mut hasher);
        self.0 = self.0.wrapping_add(hasher.finish());
    }
}

impl<T: Hash> FromIterator<T> for Fingerprint {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        items.into_iter().fold(Self::default(), |mut all, item| {
            all.add(item);
            all
        })
    }
}
