//! Execution of requests: one module per verb, and shared code.
//!
//! Each verb is a function of a [`Call`]. Reads are synchronous, unless a webhook converts the objects. Writes wait only for admission
//! plugins ([`admission`](crate::api::admission), which lists the order of all stages) and conversions. Waiting for a body, for a future
//! revision or for events of a watch takes place in the module `execution` of [`http`](crate::http) and in [`watch`]. Writes compute their result
//! outside the store's lock, and start again if the object changed meanwhile.

pub(crate) mod actions;
pub(crate) mod components;
pub(crate) mod connect;
mod context;
pub(crate) mod create;
pub(crate) mod delete;
mod empty_parts;
mod object_conversion;

pub(crate) mod body_type;
mod items;
mod kubelet;
mod list_reply;
mod object_meta;
pub(crate) mod patch;
mod permission;
pub(crate) mod pod_log;
pub(crate) mod read;
pub(crate) mod reply;
pub(crate) mod scale;
pub(crate) mod update;
pub(crate) mod watch;

pub(crate) use context::Context;
use kube_apimachinery::decode;
use kube_apimachinery::go::quote;
use kube_apimachinery::go_struct;
use kube_apimachinery::names::{self, NameRule};
use kube_apimachinery::protobuf;
use kube_apimachinery::schema::Schema;
use kube_apimachinery::status;
use kube_apimachinery::status::ApiError;
use kube_apimachinery::yaml;

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::api::admission::{Attributes, ObjectKind, OperationOptions, is_namespace};
use crate::api::authorization::Permissions;
use crate::api::conversion::Memo;
use crate::faults::Stale;
use crate::kind::WriteContext;
use crate::kind::registry::ServedKind;
use crate::kind::resource::{Resource, Rules, StorageKey};
use crate::kinds::builtin;
use crate::request::accept::Accept;
use crate::request::path::ResourcePath;
use crate::request::query::{FieldValidation, Query, WriteKind, WriteOptions};
use crate::request::request_body::{self, Format};
use crate::response::Warnings;
use crate::state::ClusterState;
use crate::store::{Key, Past, Store};
use crate::user::UserInfo;

use empty_parts::EmptyParts;

/// Maximum number of attempts of a write that conflicts with other writes. Each conflict means that another write succeeded.
pub(crate) const RETRIES: usize = 64;

/// Maximum length of a field manager in bytes.
const MAX_MANAGER: usize = 128;

/// A request for a served resource.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) context: Arc<Context>,
    pub(crate) cluster: Arc<ClusterState>,
    pub(crate) served: Arc<ServedKind>,
    pub(crate) path: ResourcePath,
    pub(crate) query: Query,
    pub(crate) accept: Accept,
    pub(crate) content_type: Option<String>,
    pub(crate) user_agent: String,
    /// User that sends the request.
    pub(crate) user: Arc<UserInfo>,
    /// Answers whether the user may perform actions other than the request.
    pub(crate) permissions: Permissions,
    /// Warnings for the client, which all stages of the request share.
    pub(crate) warnings: Warnings,
    /// Old state for reads that accept any state; set by a fault.
    pub(crate) stale: Option<Stale>,
    /// Conversions that the request has needed so far.
    pub(crate) conversions: Arc<Memo>,
}

impl Call {
    pub(crate) fn key(&self) -> Key {
        Key::new(&self.path.namespace, &self.path.name)
    }

    /// Returns the state of the collection for a read that accepts any state: the current state, or an old one if a fault requires it.
    pub(crate) fn any_state(&self, store: &Store<StorageKey>) -> Past {
        let storage = self.served.storage();
        let past = self.stale.map(|stale| {
            let now = Instant::now();
            let revision = store.revision().saturating_sub(stale.behind).max(store.oldest(storage, now));
            store.past(storage, revision, now)
        });
        past.and_then(Result::ok).unwrap_or_else(|| store.snapshot(storage).into())
    }

    /// Reads the options of a POST. Only a POST checks the type of its body before its options.
    ///
    /// # Errors
    /// 415 for a type that no decoder reads, 400 or 422 for bad options.
    pub(crate) fn create_options(&self) -> Result<WriteOptions, ApiError> {
        Format::of(self.content_type.as_deref())?;
        WriteOptions::read(&self.query, WriteKind::Create)
    }

    pub(crate) fn warn(&self, text: impl Into<String>) {
        self.warnings.add(text.into());
    }

    /// Returns the error for a missing object.
    pub(crate) fn not_found(&self) -> ApiError {
        // A name that no object can have is refused as invalid.
        if !self.path.name.is_empty()
            && let Err(refusal) = require_name(&self.path.name)
        {
            return refusal;
        }
        let resource = &self.served.resource;
        ApiError::not_found(&resource.group, &resource.plural, &self.path.name)
    }

    /// Returns the field manager of this request.
    pub(crate) fn manager(&self, options: &WriteOptions) -> String {
        if !options.field_manager.is_empty() {
            return options.field_manager.clone();
        }
        // The name has no version, so that a client keeps its fields when it is upgraded.
        let product = self.user_agent.split('/').next().unwrap_or_default();
        let name: String = product.chars().filter(|c| !c.is_control()).collect();
        match &name[..name.floor_char_boundary(MAX_MANAGER)] {
            "" => "unknown".to_owned(),
            kept => kept.to_owned(),
        }
    }

    /// Returns the context of this write for the strategy of its kind.
    pub(crate) fn write_context(&self) -> WriteContext<'_> {
        WriteContext { user: &self.user, now: self.cluster.clock.now(), warnings: RefCell::default() }
    }

    /// Returns the attributes of this request, for admission.
    pub(crate) fn attributes<'a>(
        &'a self,
        options: OperationOptions<'a>,
        old: Option<&'a Value>,
    ) -> Attributes<'a> {
        let path = &self.path;
        Attributes {
            cluster: &self.cluster,
            operation: options.operation(),
            served: &self.served,
            subresource: &path.subresource,
            kind: ObjectKind::of(&self.served),
            namespace: if is_namespace(&self.served) { &path.name } else { &path.namespace },
            name: &path.name,
            user: &self.user,
            dry_run: options.dry_run(),
            operation_options: options,
            old,
            permissions: &self.permissions,
            warnings: &self.warnings,
        }
    }

    /// Returns this request as if its path belonged to another builtin kind, as the bodies of some subresources do.
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str, schema: Arc<Schema>) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            rules: Rules { name: NameRule::Subdomain, ..self.served.resource.rules },
            ..Resource::clone(&self.served.resource)
        };
        let served = Arc::new(ServedKind::new(Arc::new(resource), schema, &builtin::Plain, None));
        Self { served, ..self.clone() }
    }

    /// Decodes the object in the body of a create or an update: checks it against the endpoint, removes unknown fields and
    /// sets defaults.
    pub(crate) fn decode(&self, bytes: &Bytes, validation: FieldValidation) -> Result<Value, ApiError> {
        self.decode_tracked(bytes, validation).map(|(object, _)| object)
    }

    /// Like [`decode`](Self::decode), but also returns the empty lists and maps of the body.
    pub(crate) fn decode_tracked(
        &self,
        bytes: &Bytes,
        validation: FieldValidation,
    ) -> Result<(Value, EmptyParts), ApiError> {
        let kind = &self.served.resource.kind;
        let unrecognized = |why: String| {
            let shown = decode::excerpt(bytes);
            ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
            ))
        };
        let format = Format::of(self.content_type.as_deref())?;
        let decoded = match format {
            Format::Json => self.decode_json(bytes).map_err(|refusal| match refusal {
                JsonRefusal::Unreadable(why) => {
                    unrecognized(format!("couldn't get version/kind; json parse error: {why}"))
                }
                JsonRefusal::Error(error) => error,
            })?,
            Format::Yaml => yaml::read(bytes).map_err(|why| {
                // The decoder of objects converts YAML itself, and adds no context.
                unrecognized(why.strip_prefix(yaml::CONVERSION).unwrap_or(&why).to_owned())
            })?,
            Format::Protobuf if self.served.is_custom() => {
                return Err(self.no_protobuf(bytes, validation, unrecognized));
            }
            Format::Protobuf => {
                protobuf::check_prefix(bytes).map_err(unrecognized)?;
                decode::Decoded { value: protobuf::decode(bytes)?, strict: Vec::new() }
            }
        };
        let mut object = decoded.value;
        body_type::check_type(&self.served, &object).map_err(|refusal| match refusal {
            body_type::TypeMismatch::Unrecognized(why) => unrecognized(why),
            body_type::TypeMismatch::NoKind => {
                let why = |sent: &str| format!("Object 'Kind' is missing in '{sent}'");
                let sent = String::from_utf8_lossy(bytes);
                // The lenient decoder falls back to the endpoint's kind in its message, and shows YAML converted to JSON.
                match (validation, format) {
                    (FieldValidation::Ignore, Format::Yaml) => {
                        self.cannot_be_handled(&object, &why(&object.to_string()))
                    }
                    (FieldValidation::Ignore, _) => self.cannot_be_handled(&object, &why(&sent)),
                    (FieldValidation::Warn | FieldValidation::Strict, _) => unrecognized(why(&sent)),
                }
            }
            body_type::TypeMismatch::Error(error) => error,
        })?;
        body_type::complete_type(&self.served, &mut object);
        // The decoder of objects reads the JSON to which YAML is converted. Its fields are sorted, and its numbers have one form.
        let text: &[u8] = if format == Format::Json { bytes } else { &[] };
        let empty = self.conform(&mut object, text, decoded.strict, validation)?;
        body_type::check_custom_version(&self.served, &object)?;
        Ok((object, empty))
    }

    /// Builds the error for a protobuf body of a custom object, which has no protobuf message. Only a lenient decoder of protobuf exists:
    /// with any other validation kube-apiserver ends the connection.
    fn no_protobuf(
        &self,
        bytes: &Bytes,
        validation: FieldValidation,
        unrecognized: impl Fn(String) -> ApiError,
    ) -> ApiError {
        if validation != FieldValidation::Ignore {
            return request_body::unsupported(&["application/json", "application/yaml"]);
        }
        match protobuf::check_prefix(bytes).and_then(|()| protobuf::type_of(bytes)) {
            Ok([api_version, kind]) => {
                let api_version =
                    if body_type::check_version(api_version).is_ok() { api_version } else { "" };
                let named = json!({"apiVersion": api_version, "kind": kind});
                self.cannot_be_handled(&named, "Object 'Kind' is missing in 'object has no kind field '")
            }
            Err(why) => unrecognized(why),
        }
    }

    /// Parses JSON. Go decodes a builtin object field by field, so that repeated fields are merged, and parses a custom object as a whole, so
    /// that a number beyond the range of floats is an error of its kind.
    fn decode_json(&self, bytes: &Bytes) -> Result<decode::Decoded, JsonRefusal> {
        let message = || go_struct::message_of_kind(&self.served.kind.api_version, &self.served.kind.kind);
        match decode::json(bytes) {
            Ok(mut decoded) if !decoded.strict.is_empty() && !self.served.is_custom() => {
                if let Some(merged) = message().and_then(|kind| go_struct::merge_repeated(bytes, kind)) {
                    decoded.value = merged;
                }
                Ok(decoded)
            }
            Ok(decoded) => Ok(decoded),
            Err(why) => {
                let number =
                    why.strip_prefix("json: cannot unmarshal number ").filter(|_| self.served.is_custom());
                let number = number.and_then(|rest| rest.split(' ').next());
                let typed = number.and_then(|number| {
                    let text = String::from_utf8_lossy(bytes).replace(number, "0");
                    decode::json(text.as_bytes()).ok()
                });
                Err(match typed {
                    Some(typed) => JsonRefusal::Error(self.cannot_be_handled(&typed.value, &why)),
                    None => JsonRefusal::Unreadable(why),
                })
            }
        }
    }

    /// Returns the paths of undeclared fields. A custom object in another version of its group is described by the schema of that version;
    /// without one, all of its fields are undeclared.
    pub(super) fn unknown_fields(&self, object: &Value) -> Vec<String> {
        let mut unknown = self.served.unknown_fields(object);
        let resource = &self.served.resource;
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = text("apiVersion").split_once('/').unwrap_or_default();
        let is_other_version = self.served.is_custom()
            && (group, text("kind")) == (&*resource.group, &*resource.kind)
            && version != resource.version;
        if is_other_version {
            match self.cluster.registry().get(group, version, &resource.plural) {
                Some(served) => unknown = served.schema.unknown_fields(object),
                None => unknown.extend(
                    object
                        .as_object()
                        .into_iter()
                        .flat_map(Map::keys)
                        .filter(|field| !matches!(field.as_str(), "apiVersion" | "kind" | "metadata"))
                        .cloned(),
                ),
            }
        }
        unknown
    }

    /// Removes unknown fields and sets defaults; reports them as `validation` requests. `bytes` is the JSON text of the object, or empty.
    fn conform(
        &self,
        object: &mut Value,
        bytes: &[u8],
        mut strict: Vec<String>,
        validation: FieldValidation,
    ) -> Result<EmptyParts, ApiError> {
        let served = Arc::clone(&self.served);
        // Searched first, because decoding drops nulls from the metadata of custom objects.
        let is_of_kind = served.is_of_kind(object);
        let unknown = match validation {
            FieldValidation::Ignore => Vec::new(),
            _ => self.unknown_fields(object),
        };
        let mut refusal = served.decode_errors(object, bytes).err();
        // The decoded object has neither the order of the text nor the values that a repeated field had before.
        if refusal.is_some() || !strict.is_empty() {
            refusal = served.text_decode_error(bytes, bytes).or(refusal);
        }
        if let Some(why) = refusal {
            return Err(self.cannot_be_handled(object, &why));
        }
        if let Some(why) = served.strategy.conversion_error(object) {
            return Err(self.cannot_be_handled(object, &why));
        }
        if validation != FieldValidation::Ignore {
            if served.is_custom() {
                // The decoder finds duplicate fields, then the schema unknown ones.
                strict.extend(unknown.into_iter().map(|path| format!("unknown field \"{path}\"")));
            } else {
                strict = decode::complaints(bytes, strict, unknown);
                strict.truncate(decode::COMPLAINTS);
            }
            if validation == FieldValidation::Strict && !strict.is_empty() {
                let why = yaml::strict_error(&strict);
                // kube-apiserver has decoded a custom object into a map by then, which has the kind of the body.
                let into = object["kind"].as_str().filter(|kind| served.is_custom() && !kind.is_empty());
                let into = into.unwrap_or(&served.resource.kind);
                return Err(self.not_decoded_into(into, object, &format!("strict decoding error: {why}")));
            }
            for text in strict {
                self.warn(text);
            }
        }
        let empty = EmptyParts::of(&served, object);
        if is_of_kind {
            served.conform(object);
        }
        Ok(empty)
    }

    /// Builds the 400 for a body that does not decode. It names the type of the body. A builtin kind is that of the endpoint if the body
    /// has none; a custom kind has no version then.
    pub(crate) fn cannot_be_handled(&self, object: &Value, why: &str) -> ApiError {
        self.not_decoded_into(&self.served.resource.kind, object, why)
    }

    /// Like [`cannot_be_handled`](Self::cannot_be_handled), for a decoder that was given an object of kind `into`.
    fn not_decoded_into(&self, into: &str, object: &Value, why: &str) -> ApiError {
        let resource = &self.served.resource;
        let given = |field: &str| object[field].as_str().filter(|text| !text.is_empty());
        let kind = given("kind").unwrap_or(&resource.kind);
        let absent = if self.served.is_custom() && given("kind").is_some() { "" } else { &*resource.version };
        let version = given("apiVersion")
            .map_or(absent, |version| version.split_once('/').map_or(version, |(_, version)| version));
        ApiError::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {into}: {why}"))
    }

    /// Builds the 422 for the object of this request.
    pub(crate) fn invalid(&self, name: &str, errors: Vec<status::FieldError>) -> ApiError {
        let resource = &self.served.resource;
        // The group is that of Go's internal type, which versions in several groups share.
        ApiError::invalid(&resource.storage.group, &resource.kind, name, errors)
    }

    /// Like [`invalid`](Self::invalid), but a custom object may have the type of another kind, which the error names.
    pub(crate) fn invalid_object(
        &self,
        object: &Value,
        name: &str,
        errors: Vec<status::FieldError>,
    ) -> ApiError {
        if !self.served.is_custom() {
            return self.invalid(name, errors);
        }
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
        ApiError::invalid(group, text("kind"), name, errors)
    }

    /// Builds the 405, with the message for builtin or for custom resources.
    pub(crate) fn not_allowed(&self, verb: &str) -> ApiError {
        method_not_allowed(&self.served, verb)
    }
}

/// Reason why a JSON body is refused before its type is checked.
enum JsonRefusal {
    /// It is no JSON; the response shows this message with the start of the body.
    Unreadable(String),
    Error(ApiError),
}

/// Checks a name with which an object is looked up.
pub(crate) fn require_name(name: &str) -> Result<(), ApiError> {
    if name.is_empty() {
        return Err(ApiError::bad_request("Name parameter required."));
    }
    let wrong = names::name(NameRule::PathSegment, name);
    if wrong.is_empty() {
        return Ok(());
    }
    let why = format!("Name parameter invalid: {}: {}", quote(name), wrong.join(";"));
    Err(ApiError::bad_request(why))
}

/// Builds the 405, with the message for builtin or for custom resources.
pub(crate) fn method_not_allowed(served: &ServedKind, verb: &str) -> ApiError {
    let resource = &served.resource;
    if served.is_custom() {
        let message = format!(
            "{verb} is not supported on resources of kind \"{}.{}\"",
            resource.plural, resource.group
        );
        ApiError::new(405, "MethodNotAllowed", message).with_details("", &resource.group, &resource.plural)
    } else {
        ApiError::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .with_details("", "", "")
    }
}
