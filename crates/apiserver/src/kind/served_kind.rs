//! A served resource with data derived from it, and its objects in storage and in its version.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use kube_apimachinery::cel::ObjectRules;
use kube_apimachinery::decode;
use kube_apimachinery::go;
use kube_apimachinery::go_struct::{self, Message};
use kube_apimachinery::managed_fields::Schemas;
use kube_apimachinery::metadata::{self, MetadataRules};
use kube_apimachinery::schema::{self, Schema};
use kube_apimachinery::table;
use serde_json::Value;

use super::Strategy;
use super::builtin_versions::BuiltinVersions;
use super::resource::{Resource, StorageKey};
use super::storage_version::version_number;
use super::webhook_conversion::{EqualVersions, WebhookConversion};
use crate::store::{Document, Stored, TypeMeta};

/// A resource with data derived from it.
#[derive(Debug)]
pub(crate) struct ServedKind {
    pub(crate) resource: Arc<Resource>,
    pub(crate) schema: Arc<Schema>,
    pub(crate) kind: TypeMeta,
    /// Go type of a builtin kind.
    pub(crate) message: Option<&'static Message>,
    /// Unique among all values of this type in the process.
    pub(crate) id: u64,
    /// Rules of the kind.
    pub(crate) strategy: &'static dyn Strategy,
    /// Data of custom resources.
    pub(crate) custom: Option<CustomKind>,
    /// CEL rules of custom resources.
    pub(crate) rules: Option<ObjectRules>,
    /// Schema of the storage version; `None` if this is the storage version, or if a webhook converts the objects.
    stored_as: Option<Arc<Schema>>,
    /// Conversion of custom resources by a webhook.
    pub(crate) webhook: Option<Arc<WebhookConversion>>,
    /// Versions of the definition that differ in their schemas, without conversion by a webhook: objects are equal in all of them.
    equal_versions: Option<Arc<EqualVersions>>,
    /// Versions of a builtin kind with other fields.
    builtin_versions: Option<Arc<BuiltinVersions>>,
}

/// Parts of a definition that the pipeline needs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CustomKind {
    /// Name of the definition.
    pub(crate) definition: String,
    pub(crate) uid: String,
    /// Generation of the definition, which is incremented when its `spec` changes.
    pub(crate) generation: i64,
    /// Version in which objects are stored. The next update of an object that is stored in another version rewrites it in this one.
    pub(crate) storage_version: String,
    /// All versions of the definition, such as `example.com/v1`.
    pub(crate) versions: Vec<String>,
    /// Accepted names.
    pub(crate) accepted: Value,
    /// Warning in every response of a deprecated version.
    pub(crate) warning: Option<String>,
    /// `openAPIV3Schema` of the version, for publishing.
    pub(crate) schema: Value,
}

impl ServedKind {
    pub(crate) fn new(
        resource: Arc<Resource>,
        schema: Arc<Schema>,
        strategy: &'static dyn Strategy,
        custom: Option<CustomKind>,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let kind = TypeMeta::new(&resource.api_version(), &resource.kind);
        Self {
            message: go_struct::message_of_kind(&kind.api_version, &kind.kind),
            kind,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            resource,
            schema,
            strategy,
            rules: custom.as_ref().and_then(|custom| ObjectRules::read(&custom.schema)),
            custom,
            stored_as: None,
            webhook: None,
            equal_versions: None,
            builtin_versions: None,
        }
    }

    /// Sets the schema of the storage version, for a version that is not the storage version.
    pub(crate) fn stored_as(self, storage: Arc<Schema>) -> Self {
        Self { stored_as: Some(storage), ..self }
    }

    /// Sets the other versions of a definition without a conversion webhook.
    pub(crate) fn with_equal_versions(self, versions: Option<Arc<EqualVersions>>) -> Self {
        Self { equal_versions: versions, ..self }
    }

    /// Sets the versions of a builtin kind, if they have different fields.
    pub(crate) fn with_builtin_versions(self, versions: Option<Arc<BuiltinVersions>>) -> Self {
        Self { builtin_versions: versions, ..self }
    }

    /// Returns the schemas of all versions of a kind without a webhook. Builtin kinds with the same fields in all versions have none.
    pub(crate) fn version_schemas(&self) -> Option<Schemas<'_>> {
        let own = &self.schema;
        if let Some(versions) = &self.equal_versions {
            return Some(versions.schemas(own));
        }
        if let Some(custom) = &self.custom {
            return Some(Schemas { own, others: None, versions: &custom.versions });
        }
        Some(Schemas { own, others: Some(&**self.builtin_versions.as_ref()?), versions: &[] })
    }

    /// Sets the conversion by a webhook.
    pub(crate) fn converted_by(self, webhook: Arc<WebhookConversion>) -> Self {
        Self { webhook: Some(webhook), ..self }
    }

    pub(crate) fn storage(&self) -> &StorageKey {
        &self.resource.storage
    }

    pub(crate) fn is_custom(&self) -> bool {
        self.custom.is_some()
    }

    /// Whether a webhook has to convert the object before it is read in this version.
    pub(crate) fn awaits_conversion(&self, stored: &Stored) -> bool {
        self.webhook.is_some() && stored.document.stored_in() != version_number(&self.resource.version)
    }

    /// Whether objects of this version are stored in another version of the same definition, without a webhook.
    pub(crate) fn is_stored_in_another_version(&self) -> bool {
        self.stored_as.is_some()
    }

    /// Whether a webhook has to convert objects of this version before they are stored.
    pub(crate) fn converts_writes(&self) -> bool {
        self.webhook.as_ref().is_some_and(|webhook| webhook.storage != self.resource.version)
    }

    /// Returns the object in this version. A custom object may have been stored under another schema: it gets the defaults of the storage
    /// version, and loses fields that this version does not declare. An object that [awaits conversion](Self::awaits_conversion) keeps the
    /// fields of its stored version; only its metadata is equal in all versions.
    pub(crate) fn value(&self, stored: &Stored) -> Value {
        let mut object = stored.document.to_value(&self.kind, stored.revision);
        if self.is_custom() {
            // Whole numbers beyond the range of Go's integers are floats, also in the text of the storage.
            decode::normalize_numbers(&mut object);
        }
        if self.reads_as_stored(stored) || self.awaits_conversion(stored) {
            return object;
        }
        if let Some(storage) = &self.stored_as {
            storage.default(&mut object);
            self.schema.prune(&mut object);
            self.coerce_metadata(&mut object);
            return object;
        }
        self.strategy.convert_from_storage(self, &mut object);
        self.conform(&mut object);
        self.coerce_metadata(&mut object);
        object
    }

    /// Computes the cells of a table's row from the stored form of the object, if they differ from those of this version.
    pub(crate) fn print_stored(&self, row: &mut Value, stored: &Stored, now: Timestamp) {
        if let Some(api_version) = self.strategy.printed_version(self) {
            let kind = TypeMeta::new(api_version, &self.resource.kind);
            let object = stored.document.to_value(&kind, stored.revision);
            row["cells"] = table::cells(&self.resource.columns, &object, now).into();
        }
    }

    /// Drops empty labels and the like from the metadata of a custom object, as decoding does.
    pub(crate) fn coerce_metadata(&self, object: &mut Value) {
        if self.is_custom() {
            schema::coerce_stored_metadata(&self.schema, object);
        }
    }

    /// Returns the ID of the resource whose readers can copy the text of an object; 0 if every reader has to parse it, because its
    /// metadata do not have the form of ObjectMeta. Applies and webhooks can write such metadata.
    fn reader_of(&self, object: &Value) -> u64 {
        let is_plain = || {
            let metadata = serde_json::json!({"metadata": object["metadata"]});
            let mut coerced = metadata.clone();
            self.coerce_metadata(&mut coerced);
            coerced == metadata
        };
        if !self.is_custom() || is_plain() { self.id } else { 0 }
    }

    /// Like [`value`](Self::value), as JSON text with this revision. Most objects are copied without being parsed.
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

    /// Whether the stored text is also that of this version, decided without parsing it.
    pub(crate) fn reads_as_stored(&self, stored: &Stored) -> bool {
        if self.is_custom() { stored.document.written_as() == self.id } else { !self.resource.is_converted }
    }

    /// Whether an object that this resource has stored is read as the value that was written, up to the forms of its numbers.
    pub(crate) fn reads_what_it_writes(&self, stored: &Stored) -> bool {
        self.webhook.is_none() && self.stored_as.is_none() && self.reads_as_stored(stored)
    }

    /// Returns the stored form of an object of this resource. Fields that the storage version does not declare are lost. If a webhook
    /// [converts writes](Self::converts_writes), the form is that of this version, in which objects may be stored as well.
    pub(crate) fn document(&self, object: &Value) -> Document {
        if self.webhook.is_some() {
            return Document::new(object, self.reader_of(object), version_number(&self.resource.version));
        }
        if let Some(storage) = &self.stored_as {
            let mut object = object.clone();
            storage.prune(&mut object);
            // The conversion decodes and encodes the metadata.
            schema::coerce_stored_metadata(storage, &mut object);
            // Every version sets its defaults when it reads the object.
            return Document::new(&object, 0, self.storage_version());
        }
        if self.is_custom() || !self.resource.is_converted {
            return Document::new(object, self.reader_of(object), self.storage_version());
        }
        let mut object = object.clone();
        self.strategy.convert_to_storage(self, &mut object);
        Document::new(&object, self.id, self.storage_version())
    }

    /// Returns the stored form of `object`, which differs from `stored` (unchanged or converted) only in its metadata. An object that
    /// awaits conversion stays in its stored version and keeps its labels and annotations, which a webhook may change.
    pub(crate) fn document_with_metadata(&self, stored: &Stored, object: &Value) -> Document {
        if !self.awaits_conversion(stored) {
            return self.document(object);
        }
        let mut changed = stored.document.to_value(&self.kind, stored.revision);
        let before = changed["metadata"].take();
        let mut metadata = object["metadata"].as_object().cloned().unwrap_or_default();
        for field in ["labels", "annotations"] {
            match before.get(field) {
                Some(entries) => metadata.insert(field.to_owned(), entries.clone()),
                None => metadata.remove(field),
            };
        }
        changed["metadata"] = Value::Object(metadata);
        let document = &stored.document;
        Document::new(&changed, document.written_as(), document.stored_in())
    }

    /// Whether an update without changes can be skipped, because the object is already stored in the current storage version.
    pub(crate) fn is_stored_as_wanted(&self, stored: &Stored) -> bool {
        stored.document.stored_in() == self.storage_version()
    }

    /// Identifies the storage version, which never changes for builtin kinds.
    fn storage_version(&self) -> u64 {
        version_number(self.custom.as_ref().map_or("", |custom| custom.storage_version.as_str()))
    }

    /// Converts the numbers of an object to the types that Go uses: for builtin kinds integers must be written as integers; for custom
    /// kinds `3.0` is 3, except for the number of replicas, which their validation refuses. Returns the decoder's message if `object` cannot
    /// be a value of this kind; it quotes numbers from the body `sent`.
    pub(crate) fn decode_errors(&self, object: &mut Value, sent: &[u8]) -> Result<(), String> {
        if !self.is_custom()
            && let Some(why) = self.schema.decode_error(object, sent)
        {
            return Err(why);
        }
        if !self.is_custom() {
            decode::normalize_numbers(object);
            return Ok(());
        }
        if object.get("apiVersion").is_some_and(Value::is_null) {
            return Err(".apiVersion accessor error: <nil> is of the type <nil>, expected string".to_owned());
        }
        let floats = self.floats_of_scale(object);
        decode::normalize_numbers(object);
        for (path, float) in floats {
            let place = path.iter().try_fold(&mut *object, |value, name| value.get_mut(name));
            if let Some(place) = place {
                *place = float;
            }
        }
        schema::coerce_metadata(&self.schema, object)
    }

    /// Returns the floats at the paths of the scale subresource of a custom kind. Go reads a number with a fraction or an exponent as a
    /// float, and a stored one, which has neither, as an integer.
    pub(crate) fn floats_of_scale(&self, object: &Value) -> Vec<(Vec<String>, Value)> {
        let Some(scale) = self.resource.scale.as_ref().filter(|_| self.is_custom()) else {
            return Vec::new();
        };
        let float = |path: &Vec<String>| {
            let value = path.iter().try_fold(object, |value, name| value.get(name))?;
            value.is_f64().then(|| (path.clone(), value.clone()))
        };
        [&scale.spec_replicas, &scale.status_replicas].into_iter().filter_map(float).collect()
    }

    /// Returns the first error in the order of an object's JSON text, of those that [`decode_errors`](Self::decode_errors) can find, and of
    /// repeated fields. It quotes numbers from the body `sent`. `None` for custom kinds, and if `text` is no JSON.
    pub(crate) fn text_decode_error(&self, text: &[u8], sent: &[u8]) -> Option<String> {
        if self.is_custom() { None } else { self.schema.text_decode_error(text, sent) }
    }

    /// Whether an object has the type of this kind; objects of builtin kinds always have.
    pub(crate) fn is_of_kind(&self, object: &Value) -> bool {
        let text = |field: &str| object.get(field).and_then(Value::as_str);
        !self.is_custom()
            || (text("kind") == Some(&*self.kind.kind) && text("apiVersion") == Some(&*self.kind.api_version))
    }

    /// Returns the paths of undeclared fields. The schema of a custom kind does not describe an object of another kind, apart from its
    /// metadata.
    pub(crate) fn unknown_fields(&self, object: &Value) -> Vec<String> {
        let mut unknown = self.schema.unknown_fields(object);
        if !self.is_of_kind(object) {
            unknown.retain(|path| path.starts_with("metadata."));
        }
        unknown
    }

    /// Completes a decoded object: removes unknown fields and sets defaults.
    pub(crate) fn conform(&self, object: &mut Value) {
        self.schema.prune(object);
        self.schema.default(object);
        self.strategy.default(self, object);
    }

    /// Like [`conform`](Self::conform), for the result of an apply: nulls of custom kinds are kept, and validation refuses them.
    pub(crate) fn conform_applied(&self, object: &mut Value) {
        if self.is_custom() {
            self.schema.prune(object);
            decode::normalize_numbers(object);
            // Metadata stay as they are applied. Readers see them with the types of ObjectMeta.
            self.schema.default_applied(object);
        } else {
            self.conform(object);
        }
    }

    /// Returns the rules for the metadata of objects.
    pub(crate) fn metadata_rules(&self) -> MetadataRules {
        let (rules, custom) = (self.resource.rules, self.is_custom());
        MetadataRules {
            name: rules.name,
            any_prefix: rules.any_prefix,
            derived_name: rules.derived_name,
            custom,
            qualified_finalizers: !custom && !rules.any_finalizer,
            revalidated: rules.revalidated,
            compared: rules.compared,
            revalidated_in: rules.revalidated_in,
        }
    }

    /// Whether annotations stand for fields of Go's internal type.
    pub(crate) fn has_version_annotations(&self) -> bool {
        !self.strategy.version_annotations(self).is_empty()
    }

    /// Removes the annotations that stand for fields of Go's internal type, and that are not in `given`.
    pub(crate) fn retain_version_annotations(&self, given: &Value, object: &mut Value) {
        let own = self.strategy.version_annotations(self);
        if own.is_empty() {
            return;
        }
        let metadata = metadata::of(object);
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.retain(|name, _| !own.contains(&name.as_str()) || given.get(name).is_some());
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }

    /// Removes the annotations that stand for fields of Go's internal type.
    pub(crate) fn hide_version_annotations(&self, object: &mut Value) {
        let hidden = self.strategy.version_annotations(self);
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else {
            return;
        };
        annotations.retain(|name, _| !hidden.contains(&name.as_str()));
        if annotations.is_empty() && !hidden.is_empty() {
            metadata.remove("annotations");
        }
    }

    /// Returns the top-level fields that an endpoint does not write.
    pub(crate) fn reset_fields(&self, subresource: &str) -> &'static [&'static str] {
        if let Some(fields) = self.strategy.resets(self, subresource) {
            return fields;
        }
        match subresource {
            // Without `/status`, the main endpoint writes the status too.
            "" if self.resource.status => &["status"],
            "status" => &["spec"],
            "finalize" => &["status"],
            _ => &[],
        }
    }
}
