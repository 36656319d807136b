//! Conversion between the versions of a kind, through one version, the hub.
//!
//! The versions implement [`From`] or [`TryFrom`] for each other: each spoke to and from the hub. Name, UID and all other metadata
//! except labels and annotations are copied from the given object, so that a conversion cannot change them. It does not see
//! `metadata.managedFields`. Fields that the Rust type of a version does not know are copied to the same path, unless they are
//! empty, so that an operator that is older than the CRD does not delete them.

mod carry_over;
mod conversion_review;
mod generate;
mod object_text;
mod round_trip;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

pub(super) use self::conversion_review::{ConversionRequest, convert, plain, read};
use self::object_text::{FieldText, ObjectText, begin_field, is_type_or_metadata, write_text};
pub use self::round_trip::{RoundTripError, check_generated_round_trips, check_round_trip};
use super::registration::RegisterError;
use crate::{
    error::BoxError,
    object::{DynamicKind, StaticObject},
};

/// A version of a kind that converts to and from the hub. Implemented for every kind with the conversions
/// `TryFrom<Hub> for Self` and `TryFrom<Self> for Hub` (or `From`), whose errors are errors.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be converted to and from `{Hub}`",
    note = "implement `From<{Self}> for {Hub}` and `From<{Hub}> for {Self}`, or `TryFrom`"
)]
#[doc(alias = "Convertible")]
pub trait Spoke<Hub: StaticObject>:
    StaticObject + TryInto<Hub, Error: Into<BoxError>> + TryFrom<Hub, Error: Into<BoxError>>
{
}

impl<Hub, S> Spoke<Hub> for S
where
    Hub: StaticObject,
    S: StaticObject + TryInto<Hub, Error: Into<BoxError>> + TryFrom<Hub, Error: Into<BoxError>>,
{
}

/// Versions of a kind that convert to and from the hub: a tuple of one to six [`Spoke`]s.
pub trait Spokes<Hub: StaticObject>: 'static {
    /// Converters of all versions.
    #[doc(hidden)]
    fn add_to(versions: &mut Versions<Hub>);
}

macro_rules! spokes {
    ($($spoke:ident)+) => {
        impl<Hub: StaticObject, $($spoke: Spoke<Hub>),+> Spokes<Hub> for ($($spoke,)+) {
            fn add_to(versions: &mut Versions<Hub>) {
                $(versions.add::<$spoke>();)+
            }
        }
    };
}

spokes!(A);
spokes!(A B);
spokes!(A B C);
spokes!(A B C D);
spokes!(A B C D E);
spokes!(A B C D E F);

/// Labels and annotations, which a conversion may change.
#[derive(Debug, Clone, PartialEq)]
struct Entries {
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

impl Entries {
    fn of(metadata: &ObjectMeta) -> Self {
        Self { labels: metadata.labels.clone(), annotations: metadata.annotations.clone() }
    }
}

/// A decoded object, as `T`, and what must be known of its text after the conversion.
#[derive(Debug)]
struct DecodedVersion<T> {
    object: T,
    entries: Entries,
    /// The object as its type encodes it, without metadata.
    known: Value,
}

/// A converted object.
#[derive(Debug)]
struct EncodedVersion {
    entries: Entries,
    /// JSON of the object without metadata.
    text: String,
}

/// Decodes an object, and converts it to the hub's version.
type ToHub<Hub> = fn(&str) -> Result<DecodedVersion<Hub>, BoxError>;
/// Converts an object of the hub's version, and encodes it.
type FromHub<Hub> = fn(Hub) -> Result<EncodedVersion, BoxError>;

/// Decodes an object.
fn decode<K: StaticObject>(text: &str) -> Result<DecodedVersion<K>, BoxError> {
    let mut object: K = match serde_json::from_str(text) {
        Ok(object) => object,
        // Decoding the value again gives an error without a position, which the caller could not find in its own object.
        Err(_) => K::deserialize(&serde_json::from_str::<Value>(text)?)?,
    };
    let metadata = std::mem::take(object.meta_mut());
    let (entries, known) = (Entries::of(&metadata), serde_json::to_value(&object)?);
    *object.meta_mut() = metadata;
    Ok(DecodedVersion { object, entries, known })
}

/// Encodes an object without its metadata, which are copied as text, except for labels and annotations.
fn encode<K: StaticObject>(mut object: K) -> Result<EncodedVersion, BoxError> {
    let ObjectMeta { labels, annotations, .. } = std::mem::take(object.meta_mut());
    Ok(EncodedVersion { entries: Entries { labels, annotations }, text: serde_json::to_string(&object)? })
}

/// Conversions of the versions of a kind.
#[doc(hidden)]
#[derive(Debug)]
pub struct Versions<Hub> {
    spokes: Vec<DynamicKind>,
    conversions: BTreeMap<String, (ToHub<Hub>, FromHub<Hub>)>,
}

impl<Hub: StaticObject> Versions<Hub> {
    fn new() -> Self {
        let version = Hub::version(&()).into_owned();
        let own: (ToHub<Hub>, FromHub<Hub>) = (decode::<Hub>, encode::<Hub>);
        Self { spokes: Vec::new(), conversions: BTreeMap::from([(version, own)]) }
    }

    fn add<S: Spoke<Hub>>(&mut self) {
        let to_hub = |text: &str| {
            let DecodedVersion { object, entries, known } = decode::<S>(text)?;
            Ok(DecodedVersion { object: object.try_into().map_err(Into::into)?, entries, known })
        };
        let from_hub = |hub: Hub| encode(S::try_from(hub).map_err(Into::into)?);
        self.spokes.push(DynamicKind::of::<S>());
        self.conversions.insert(S::version(&()).into_owned(), (to_hub, from_hub));
    }

    fn convert(
        &self,
        text: &str,
        from: &str,
        to: &str,
    ) -> Result<(DecodedVersion<()>, EncodedVersion), BoxError> {
        let (to_hub, _) =
            self.conversions.get(from).ok_or_else(|| format!("version {from} is not registered"))?;
        let (_, from_hub) =
            self.conversions.get(to).ok_or_else(|| format!("version {to} is not registered"))?;
        let DecodedVersion { object, entries, known } = to_hub(text)?;
        Ok((DecodedVersion { object: (), entries, known }, from_hub(object)?))
    }
}

/// Converts the text of an object from one version to another. Also returns the entries and known fields of the given object, but
/// not the object: its type depends on the version.
type ConvertFn =
    Box<dyn Fn(&str, &str, &str) -> Result<(DecodedVersion<()>, EncodedVersion), BoxError> + Send + Sync>;

/// Converter of the versions of one kind.
pub(crate) struct AnyConverter {
    hub: DynamicKind,
    spokes: Vec<DynamicKind>,
    convert: ConvertFn,
}

impl AnyConverter {
    pub(super) fn new<Hub: StaticObject, S: Spokes<Hub>>() -> Self {
        let mut versions = Versions::<Hub>::new();
        S::add_to(&mut versions);
        let (hub, spokes) = (DynamicKind::of::<Hub>(), versions.spokes.clone());
        Self { hub, spokes, convert: Box::new(move |raw, from, to| versions.convert(raw, from, to)) }
    }

    pub(super) fn hub(&self) -> &DynamicKind {
        &self.hub
    }

    pub(super) fn group_kind(&self) -> (String, String) {
        let resource = self.hub.resource();
        (resource.group.clone(), resource.kind.clone())
    }

    /// Checks that the types are different versions of one kind.
    pub(super) fn check(&self) -> Result<(), RegisterError> {
        let mut versions = vec![&self.hub];
        for spoke in &self.spokes {
            let (own, hub) = (spoke.resource(), self.hub.resource());
            let is_same_kind = (&own.group, &own.kind) == (&hub.group, &hub.kind);
            if !is_same_kind || versions.iter().any(|known| known.resource().version == own.version) {
                let name = |kind: &DynamicKind| {
                    format!("{}, kind {}", kind.resource().api_version, kind.resource().kind)
                };
                return Err(RegisterError::NotVersions { spoke: name(spoke), hub: name(&self.hub) });
            }
            versions.push(spoke);
        }
        Ok(())
    }

    /// Converts an object of version `from` to version `to` of its group, and appends its text.
    ///
    /// # Errors
    ///
    /// The object cannot be decoded, converted or encoded. `out` may then end with a part of it.
    fn convert(
        &self,
        object: &ObjectText<'_>,
        from: &str,
        to: &str,
        out: &mut String,
    ) -> Result<(), BoxError> {
        if from == to {
            object.write(out);
            return Ok(());
        }
        let (decoded, converted) = (self.convert)(&object.without_managed_fields(), from, to)?;
        let resource = self.hub.resource();
        out.push_str("{\"apiVersion\":\"");
        out.push_str(&resource.group);
        out.push('/');
        out.push_str(to);
        out.push_str("\",\"kind\":");
        write_text(out, &resource.kind);
        out.push_str(",\"metadata\":");
        write_metadata(object, &decoded.entries, &converted.entries, out)?;
        // No field is the first one: the type and the metadata precede them.
        let mut is_first = false;
        // Usually the type knows all fields, so that the encoded text can be copied without building a `Value`.
        if decoded.known.as_object().is_some_and(|known| carry_over::is_complete(object.content(), known)) {
            let fields = object_text::fields_of(&converted.text)?;
            for FieldText { key, value } in fields.iter().filter(|field| !is_type_or_metadata(&field.key)) {
                begin_field(out, &mut is_first, key);
                out.push_str(value);
            }
        } else {
            for (key, value) in with_unknown_fields(object, &decoded.known, &converted.text)? {
                begin_field(out, &mut is_first, &key);
                out.push_str(&serde_json::to_string(&value)?);
            }
        }
        out.push('}');
        Ok(())
    }
}

/// The fields of a converted object other than type and metadata, with those that the type of the given object does not know.
fn with_unknown_fields(
    object: &ObjectText<'_>,
    known: &Value,
    converted: &str,
) -> Result<Map<String, Value>, serde_json::Error> {
    let fields = object.content();
    let raw =
        fields.map(|FieldText { key, value }| Ok((key.clone().into_owned(), serde_json::from_str(value)?)));
    let raw: Map<String, Value> = raw.collect::<Result<_, serde_json::Error>>()?;
    let mut converted = Value::Object(serde_json::from_str(converted)?);
    carry_over::carry_over(Value::Object(raw), known, &mut converted);
    let Value::Object(mut fields) = converted else { return Ok(Map::new()) };
    fields.retain(|key, _| !is_type_or_metadata(key));
    Ok(fields)
}

/// Appends the metadata of the given object, with labels and annotations of the converted one: the API server accepts no other
/// change.
fn write_metadata(
    object: &ObjectText<'_>,
    given: &Entries,
    converted: &Entries,
    out: &mut String,
) -> Result<(), serde_json::Error> {
    if given == converted {
        object.write_metadata(out, &[]);
        return Ok(());
    }
    let encode =
        |entries: &Option<BTreeMap<String, String>>| entries.as_ref().map(serde_json::to_string).transpose();
    let (labels, annotations) = (encode(&converted.labels)?, encode(&converted.annotations)?);
    object.write_metadata(out, &[("labels", labels.as_deref()), ("annotations", annotations.as_deref())]);
    Ok(())
}
