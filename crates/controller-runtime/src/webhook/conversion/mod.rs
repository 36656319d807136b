//! Conversion between the versions of a kind, through one version, the hub.
//!
//! The versions implement [`From`] or [`TryFrom`] for each other: each spoke to and from the hub. Name, UID and all other metadata
//! except labels and annotations are copied from the given object, so that a conversion cannot change them. It does not see
//! `metadata.managedFields`. Fields that the Rust type of a version does not know are copied to the same path, unless they are
//! empty, so that an operator that is older than the CRD does not delete them.

mod carry_over;
mod conversion_review;
mod generate;
mod round_trip;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

pub(super) use self::conversion_review::{convert, plain, read};
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

/// Decodes an object, and converts it to the hub. Also returns the decoded object as JSON.
type ToHub<Hub> = fn(&Value) -> Result<(Hub, Value), BoxError>;
type FromHub<Hub> = fn(Hub) -> Result<Value, BoxError>;

/// Conversions of the versions of a kind.
#[doc(hidden)]
#[derive(Debug)]
pub struct Versions<Hub> {
    spokes: Vec<DynamicKind>,
    conversions: BTreeMap<String, (ToHub<Hub>, FromHub<Hub>)>,
}

impl<Hub: StaticObject> Versions<Hub> {
    fn new() -> Self {
        let to_hub = |raw: &Value| {
            let object = Hub::deserialize(raw)?;
            let known = serde_json::to_value(&object)?;
            Ok((object, known))
        };
        let version = Hub::version(&()).into_owned();
        let own: (ToHub<Hub>, FromHub<Hub>) = (to_hub, |hub| Ok(serde_json::to_value(hub)?));
        Self { spokes: Vec::new(), conversions: BTreeMap::from([(version, own)]) }
    }

    fn add<S: Spoke<Hub>>(&mut self) {
        let to_hub = |raw: &Value| {
            let object = S::deserialize(raw)?;
            let known = serde_json::to_value(&object)?;
            Ok((object.try_into().map_err(Into::into)?, known))
        };
        let from_hub = |hub: Hub| Ok(serde_json::to_value(S::try_from(hub).map_err(Into::into)?)?);
        self.spokes.push(DynamicKind::of::<S>());
        self.conversions.insert(S::version(&()).into_owned(), (to_hub, from_hub));
    }

    fn convert(&self, raw: &Value, from: &str, to: &str) -> Result<(Value, Value), BoxError> {
        let (to_hub, _) =
            self.conversions.get(from).ok_or_else(|| format!("version {from} is not registered"))?;
        let (_, from_hub) =
            self.conversions.get(to).ok_or_else(|| format!("version {to} is not registered"))?;
        let (hub, known) = to_hub(raw)?;
        Ok((known, from_hub(hub)?))
    }
}

const MANAGED_FIELDS: &str = "managedFields";

/// Converts an object from one version to another. Returns its JSON as its type knows it, and the converted object.
type ConvertFn = Box<dyn Fn(&Value, &str, &str) -> Result<(Value, Value), BoxError> + Send + Sync>;

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

    /// Converts an object of version `from` to version `to` of its group.
    fn convert(&self, mut raw: Value, from: &str, to: &str) -> Result<Value, BoxError> {
        if from == to {
            return Ok(raw);
        }
        // They are copied like all metadata, and decoding and encoding them would take half of the time of a conversion.
        let managed_fields = raw.get_mut("metadata").and_then(|metadata| take(metadata, MANAGED_FIELDS));
        let (mut known, mut converted) = (self.convert)(&raw, from, to)?;
        let object = converted.as_object_mut().ok_or("the converted object is not a JSON object")?;
        let (group, kind) = self.group_kind();
        object.insert("apiVersion".to_owned(), Value::String(format!("{group}/{to}")));
        object.insert("kind".to_owned(), Value::String(kind));
        let mut metadata = metadata(take(&mut raw, "metadata"), object.remove("metadata"));
        metadata.extend(managed_fields.map(|fields| (MANAGED_FIELDS.to_owned(), fields)));
        take(&mut known, "metadata");
        carry_over::carry_over(raw, &known, &mut converted);
        converted["metadata"] = Value::Object(metadata);
        Ok(converted)
    }
}

/// Removes a field of an object.
fn take(object: &mut Value, field: &str) -> Option<Value> {
    object.as_object_mut().and_then(|object| object.remove(field))
}

/// The metadata of the given object, with labels and annotations of the converted one: the API server accepts no other change.
fn metadata(given: Option<Value>, mut converted: Option<Value>) -> Map<String, Value> {
    let mut metadata = match given {
        Some(Value::Object(given)) => given,
        _ => Map::new(),
    };
    for field in ["labels", "annotations"] {
        match converted.as_mut().and_then(|converted| take(converted, field)) {
            Some(value) => metadata.insert(field.to_owned(), value),
            None => metadata.remove(field),
        };
    }
    metadata
}
