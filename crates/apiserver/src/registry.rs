//! The resources that are served at one moment: builtin kinds and the established custom ones.
//!
//! A registry never changes. When definitions change, a new one takes its place, sharing what stayed the same, so that a
//! watch can tell by identity whether its resource is still served as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use crate::resource::{Resource, StorageKey};
use crate::schema::{self, Schema};
use crate::server::Server;
use crate::status::{ApiError, FieldError};
use crate::store::{Document, Stored, TypeMeta};
use crate::verbs::Call;
use crate::{builtin, crd, go, namespaces};

/// A resource with everything derived from it once.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) resource: Arc<Resource>,
    pub(crate) schema: Arc<Schema>,
    pub(crate) kind: TypeMeta,
    /// Different for every `Served` that ever existed in this process.
    pub(crate) id: u64,
    /// What only custom resources have.
    pub(crate) custom: Option<Custom>,
}

/// The part of a definition that the pipeline needs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Custom {
    /// Name of the definition.
    pub(crate) definition: String,
    pub(crate) uid: String,
    /// The definition's, which goes up whenever its `spec` changes.
    pub(crate) generation: i64,
    /// The version in which objects are stored: an object stored in another one is written anew by its next update.
    pub(crate) storage_version: String,
    /// The names that were accepted.
    pub(crate) accepted: Value,
    /// The definition is being deleted: nothing can be created any more.
    pub(crate) terminating: bool,
    /// Sent with every answer of a deprecated version.
    pub(crate) warning: Option<String>,
    /// `openAPIV3Schema` of the version, to be published.
    pub(crate) schema: Value,
}

impl Served {
    pub(crate) fn new(resource: Arc<Resource>, schema: Arc<Schema>, custom: Option<Custom>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            kind: TypeMeta::new(&resource.api_version(), &resource.kind),
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            resource,
            schema,
            custom,
        }
    }

    pub(crate) fn storage(&self) -> &StorageKey {
        &self.resource.storage
    }

    pub(crate) fn is_custom(&self) -> bool {
        self.custom.is_some()
    }

    /// Whether objects of this resource are CustomResourceDefinitions.
    fn defines(&self) -> bool {
        crd::is_table(self.storage())
    }

    /// The object as this version shows it. A custom object may have been stored under another schema.
    pub(crate) fn value(&self, stored: &Stored) -> Value {
        let mut object = stored.document.to_value(&self.kind, stored.revision);
        if !self.reads_as_stored(stored) {
            if !self.is_custom() {
                builtin::from_storage(&self.resource, &mut object);
            }
            self.conform(&mut object);
        }
        object
    }

    /// The same as JSON text, as of the commit `revision`; of most objects no tree is made.
    pub(crate) fn text(&self, stored: &Stored, revision: u64) -> Vec<u8> {
        if !self.reads_as_stored(stored) {
            let mut object = self.value(stored);
            object["metadata"]["resourceVersion"] = revision.to_string().into();
            return go::json(&object).into_bytes();
        }
        let mut text = Vec::with_capacity(stored.document.len() + 128);
        stored.document.write(&mut text, Some(&self.kind), revision);
        text
    }

    /// Whether the stored text is what this version shows, without reading it.
    pub(crate) fn reads_as_stored(&self, stored: &Stored) -> bool {
        if self.is_custom() {
            stored.document.written_as() == self.id
        } else {
            !builtin::converts(&self.resource)
        }
    }

    /// The stored form of an object of this resource.
    pub(crate) fn document(&self, object: &Value) -> Document {
        if self.is_custom() || !builtin::converts(&self.resource) {
            return Document::new(object, self.id, self.storage_version());
        }
        let mut object = object.clone();
        builtin::to_storage(&self.resource, &mut object);
        Document::new(&object, self.id, self.storage_version())
    }

    /// Whether an update that changes nothing has nothing to do.
    pub(crate) fn is_stored_as_wanted(&self, stored: &Stored) -> bool {
        stored.document.stored_in() == self.storage_version()
    }

    /// Identifies the storage version; all builtin kinds have one for good.
    fn storage_version(&self) -> u64 {
        let name = self.custom.as_ref().map_or("", |custom| custom.storage_version.as_str());
        // FNV-1a: any function that tells names apart will do.
        name.bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    /// Why `object` is not a value of this kind at all, in the decoder's words, which quote numbers as they are in `sent`.
    /// Numbers become what Go holds: integers of builtin kinds have to be written as such, in others `3.0` is 3.
    pub(crate) fn decode_errors(&self, object: &mut Value, sent: &[u8]) -> Result<(), String> {
        if !self.is_custom()
            && let Some(why) = self.schema.decode_error(object, sent)
        {
            return Err(why);
        }
        schema::normalize_numbers(object);
        if self.is_custom() { schema::coerce_metadata(&self.schema, object) } else { Ok(()) }
    }

    /// Makes a decoded object what this version stores: without unknown fields, with defaults.
    pub(crate) fn conform(&self, object: &mut Value) {
        self.schema.prune(object);
        self.schema.default(object);
        if !self.is_custom() {
            builtin::conform(&self.resource, object);
        }
        if self.defines() {
            crd::object::default(object);
        }
        if namespaces::is_table(self.storage()) {
            namespaces::default(object);
        }
    }

    /// The same for what an apply made of an object: nulls of custom kinds are not dropped but refused.
    pub(crate) fn conform_applied(&self, object: &mut Value) {
        if self.is_custom() {
            self.schema.prune(object);
            self.schema.default_applied(object);
        } else {
            self.conform(object);
        }
    }

    /// Fields of the top level that an endpoint does not write.
    pub(crate) fn reset_fields(&self, subresource: &str) -> &'static [&'static str] {
        match subresource {
            "" if self.resource.status => &["status"],
            "status" if self.defines() => &["spec"],
            "status" => &["metadata", "spec", "data"],
            "finalize" => &["metadata", "status"],
            _ => &[],
        }
    }

    /// What the kind does with an object before it is created.
    pub(crate) fn prepare_create(&self, call: &Call, object: &mut Value) -> Result<(), ApiError> {
        if !self.is_custom() {
            builtin::prepare_create(&self.resource, object);
            if self.resource.kind == "CertificateSigningRequest" {
                builtin::certificates::identify(&call.user, object);
            }
        }
        if self.defines() {
            crd::object::prepare_create(object);
        }
        if namespaces::is_table(self.storage()) {
            namespaces::prepare_create(object);
        }
        Ok(())
    }

    /// What the kind does with an object before it is updated.
    pub(crate) fn prepare_update(
        &self,
        call: &Call,
        old: &Value,
        new: &mut Value,
        subresource: &str,
    ) -> Result<(), ApiError> {
        if !self.is_custom() {
            let now = call.server.clock.now_seconds();
            builtin::prepare_update(&self.resource, subresource, &now, old, new);
        }
        if self.defines() {
            crd::object::prepare_update(new, subresource);
        }
        if namespaces::is_table(self.storage()) {
            namespaces::prepare_update(old, new, subresource);
        }
        Ok(())
    }

    /// What is wrong with a new object, its metadata apart.
    pub(crate) fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        if self.is_custom() {
            self.schema.validate(object)
        } else if self.defines() {
            crd::validate::create(object)
        } else {
            builtin::validate_create(&self.resource, object)
        }
    }

    /// What is wrong with the new state of an object, its metadata apart.
    pub(crate) fn validate_update(&self, old: &Value, new: &Value, subresource: &str) -> Vec<FieldError> {
        if self.is_custom() && subresource == "status" {
            self.schema.validate_status_update(old, new)
        } else if self.is_custom() {
            self.schema.validate_update(old, new)
        } else if self.defines() {
            if subresource.is_empty() { crd::validate::update(old, new) } else { Vec::new() }
        } else {
            builtin::validate_update(&self.resource, subresource, old, new)
        }
    }

    /// What clients are told about an object that is accepted.
    pub(crate) fn warnings(&self, object: &Value) -> Vec<String> {
        if self.is_custom() { Vec::new() } else { builtin::warnings(&self.resource, object) }
    }

    /// Whether an object whose finalizers are gone may go itself.
    pub(crate) fn deletable(&self, object: &Value) -> bool {
        !namespaces::is_table(self.storage()) || namespaces::is_finalized(object)
    }

    /// Refuses to delete what must stay.
    pub(crate) fn admit_delete(&self, name: &str) -> Result<(), ApiError> {
        if namespaces::is_table(self.storage()) { namespaces::admit_delete(name) } else { Ok(()) }
    }

    /// Whether something other than finalizers keeps a deleted object for now.
    pub(crate) fn held(&self, object: &Value) -> bool {
        self.defines() || (namespaces::is_table(self.storage()) && namespaces::stays(object))
    }

    /// Whether the kind writes all of what marks an object as being deleted.
    pub(crate) fn marks_itself(&self) -> bool {
        self.defines()
    }

    /// What the kind writes into an object whose deletion begins.
    pub(crate) fn mark_deleted(&self, server: &Server, object: &mut Value, first: bool) {
        if namespaces::is_table(self.storage()) {
            namespaces::mark_deleted(object);
        }
        if self.defines() {
            crd::object::mark_deleted(server, object, first);
        }
    }

    /// Whether dependents stay without their owner unless a client asks otherwise.
    pub(crate) fn orphans_by_default(&self) -> bool {
        let storage = self.storage();
        matches!(
            (storage.group.as_str(), storage.plural.as_str()),
            ("", "replicationcontrollers") | ("batch", "jobs")
        )
    }
}

type Name = (String, String, String);

/// All served resources by group, version and plural.
#[derive(Debug, Default, Clone)]
pub(crate) struct Registry {
    served: BTreeMap<Name, Arc<Served>>,
    builtin_groups: BTreeSet<String>,
    /// Kinds that were served once, the oldest first.
    retired: Vec<Retired>,
}

/// A kind that was served, and where its objects were.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Retired {
    kind: String,
    storage: StorageKey,
    namespaced: bool,
}

/// Kinds beyond this number are forgotten once they are not served any more.
const RETIRED: usize = 1000;

impl Registry {
    /// The builtin resources alone.
    pub(crate) fn builtin(resources: Vec<Served>) -> Self {
        let mut registry = Self::default();
        for served in resources {
            registry.builtin_groups.insert(served.resource.group.clone());
            registry.add(Arc::new(served));
        }
        registry
    }

    pub(crate) fn add(&mut self, served: Arc<Served>) {
        let resource = &served.resource;
        let name = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
        self.served.insert(name, served);
    }

    /// The builtin resources, and of the others none.
    pub(crate) fn without_custom(&self) -> Self {
        let served = self.served.iter().filter(|(_, served)| !served.is_custom());
        Self {
            served: served.map(|(name, served)| (name.clone(), Arc::clone(served))).collect(),
            builtin_groups: self.builtin_groups.clone(),
            retired: self.retired.clone(),
        }
    }

    /// Remembers what `old` served and this does not.
    pub(crate) fn retire(&mut self, old: &Self) {
        let Self { served, retired, .. } = self;
        let is_served = |kind: &Retired| {
            let same = |now: &Arc<Served>| *now.storage() == kind.storage && now.resource.kind == kind.kind;
            served.values().any(same)
        };
        for resource in old.all().map(|served| &served.resource) {
            let kind = Retired {
                kind: resource.kind.clone(),
                storage: resource.storage.clone(),
                namespaced: resource.namespaced,
            };
            if !is_served(&kind) {
                retired.retain(|known| known.kind != kind.kind || known.storage.group != kind.storage.group);
                retired.push(kind);
            }
        }
        retired.retain(|kind| !is_served(kind));
        retired.drain(..retired.len().saturating_sub(RETIRED));
    }

    /// Where objects of a kind were that is not served any more, and whether they had namespaces.
    pub(crate) fn retired(&self, group: &str, kind: &str) -> Option<(StorageKey, bool)> {
        let retired =
            self.retired.iter().find(|retired| retired.kind == kind && retired.storage.group == group)?;
        Some((retired.storage.clone(), retired.namespaced))
    }

    pub(crate) fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Served>> {
        self.served.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// The resource with this kind. A definition may use the name of a builtin kind, which is meant then.
    pub(crate) fn by_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Served>> {
        let mut found = None;
        for served in self.all() {
            let resource = &served.resource;
            if resource.group == group && resource.version == version && resource.kind == kind {
                if !served.is_custom() {
                    return Some(served);
                }
                found = found.or(Some(served));
            }
        }
        found
    }

    /// Whether the name is that of a builtin resource or of a table of one. A definition of that name is accepted, and serves
    /// nothing: requests are answered by the builtin resource, and the objects are not the definition's.
    pub(crate) fn is_builtin(&self, group: &str, plural: &str) -> bool {
        self.is_builtin_group(group)
            && self.all().any(|served| {
                let (resource, table) = (&served.resource, served.storage());
                let named = |known: &str, name: &str| known == group && name == plural;
                !served.is_custom()
                    && (named(&resource.group, &resource.plural) || named(&table.group, &table.plural))
            })
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.served.values()
    }

    /// One resource per table, that with the first version.
    pub(crate) fn one_per_table(&self) -> Vec<Arc<Served>> {
        let mut seen = BTreeSet::new();
        self.all().filter(|served| seen.insert(served.storage().clone())).cloned().collect()
    }

    pub(crate) fn tables(&self) -> BTreeSet<&StorageKey> {
        self.all().map(|served| served.storage()).collect()
    }

    /// Whether builtin kinds live in this group: its unknown paths are told otherwise than others.
    pub(crate) fn is_builtin_group(&self, group: &str) -> bool {
        self.builtin_groups.contains(group)
    }

    /// Whether `served` is still what its name stands for.
    pub(crate) fn serves(&self, served: &Arc<Served>) -> bool {
        let resource = &served.resource;
        self.get(&resource.group, &resource.version, &resource.plural)
            .is_some_and(|now| Arc::ptr_eq(now, served))
    }
}
