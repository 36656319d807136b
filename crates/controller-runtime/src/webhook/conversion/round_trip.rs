//! A check of conversions for the tests of an operator.

use fastrand::Rng;
use kube::CustomResourceExt;
use serde_json::Value;

use super::{Spoke, generate};
use crate::{error::BoxError, object::StaticObject};

/// Reason why a conversion is not lossless.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RoundTripError {
    /// A conversion failed.
    #[error("the conversion to {version} failed")]
    Conversion {
        /// The version.
        version: String,
        /// The cause.
        source: BoxError,
    },
    /// An object cannot be encoded.
    #[error("the object cannot be encoded as JSON")]
    Encode(#[from] serde_json::Error),
    /// The object that came back differs.
    #[error("{path} is {before} before and {after} after the conversion to {version} and back")]
    Differs {
        /// Version that the object was converted to.
        version: String,
        /// JSON pointer of the first difference.
        path: String,
        /// Value before the conversion; `nothing` if there was none.
        before: String,
        /// Value after it; `nothing` if there is none.
        after: String,
    },
    /// A generated object does not survive.
    #[error("object {number} of seed {seed} does not survive the conversions: {object}")]
    Generated {
        /// Seed of the run.
        seed: u64,
        /// Number of the object within the run, from 0.
        number: u32,
        /// The object as JSON.
        object: String,
        /// The cause.
        source: Box<RoundTripError>,
    },
    /// No generated object could be decoded.
    #[error(
        "the Rust type of {kind} in version {version} can decode none of the objects generated from its schema: check objects \
         of your own with check_round_trip"
    )]
    NoObjects {
        /// The kind.
        kind: String,
        /// The version.
        version: String,
        /// Reason for the last object.
        source: serde_json::Error,
    },
}

/// Checks that a spoke survives the conversion to the hub and back, as the API server requires. Call it in a property test with
/// arbitrary objects of each version.
///
/// ```
/// # use kube::CustomResource;
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// # mod v1 {
/// #     use kube::CustomResource;
/// #     use schemars::JsonSchema;
/// #     use serde::{Deserialize, Serialize};
/// #     #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
/// #     #[kube(group = "example.com", version = "v1", kind = "Cart", namespaced)]
/// #     pub struct CartSpec { pub item: String }
/// # }
/// # #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
/// # #[kube(group = "example.com", version = "v2", kind = "Cart", namespaced)]
/// # struct CartSpec { items: Vec<String> }
/// use controller_runtime::webhook::check_round_trip;
///
/// impl From<v1::Cart> for Cart {
///     fn from(v1: v1::Cart) -> Self {
///         Cart { metadata: v1.metadata, spec: CartSpec { items: vec![v1.spec.item] } }
///     }
/// }
///
/// impl From<Cart> for v1::Cart {
///     fn from(hub: Cart) -> Self {
///         let item = hub.spec.items.into_iter().next().unwrap_or_default();
///         v1::Cart { metadata: hub.metadata, spec: v1::CartSpec { item } }
///     }
/// }
///
/// check_round_trip::<v1::Cart, Cart>(&v1::Cart::new("a", v1::CartSpec { item: "tea".into() }))?;
/// let several = Cart::new("a", CartSpec { items: vec!["tea".into(), "milk".into()] });
/// let error = check_round_trip::<Cart, v1::Cart>(&several).expect_err("a cart of v1 has one item");
/// assert_eq!(error.to_string(), r#"/spec/items/1 is "milk" before and nothing after the conversion to v1 and back"#);
/// # Ok::<(), controller_runtime::webhook::RoundTripError>(())
/// ```
///
/// # Errors
///
/// A conversion failed, or the object that came back differs.
pub fn check_round_trip<A: Spoke<B>, B: StaticObject>(object: &A) -> Result<(), RoundTripError> {
    let failed = |version: &str| {
        let version = version.to_owned();
        |source| RoundTripError::Conversion { version, source }
    };
    let (own, other) = (A::version(&()), B::version(&()));
    let there: B = object.clone().try_into().map_err(Into::into).map_err(failed(&other))?;
    let back = A::try_from(there).map_err(Into::into).map_err(failed(&own))?;
    let (before, after) = (serde_json::to_value(object)?, serde_json::to_value(back)?);
    match first_difference(Some(&before), Some(&after), String::new()) {
        None => Ok(()),
        Some((path, before, after)) => {
            Err(RoundTripError::Differs { version: other.into_owned(), path, before, after })
        }
    }
}

/// Checks that `objects` generated objects of version `A` survive the conversion to `B` and back. They are made from the schema of
/// `A`'s definition: optional fields are sometimes missing, numbers are often bounds or zero. Objects that the type cannot decode are
/// left out. The same seed generates the same objects in every run.
///
/// Patterns and CEL rules of the schema are not followed. For kinds that depend on them, call [`check_round_trip`] with objects of your
/// own.
///
/// ```
/// # use kube::CustomResource;
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// # mod v1 {
/// #     use kube::CustomResource;
/// #     use schemars::JsonSchema;
/// #     use serde::{Deserialize, Serialize};
/// #     #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
/// #     #[kube(group = "example.com", version = "v1", kind = "Cart", namespaced)]
/// #     pub struct CartSpec { pub item: String }
/// # }
/// # #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
/// # #[kube(group = "example.com", version = "v2", kind = "Cart", namespaced)]
/// # struct CartSpec { items: Vec<String> }
/// # impl From<v1::Cart> for Cart {
/// #     fn from(v1: v1::Cart) -> Self {
/// #         Cart { metadata: v1.metadata, spec: CartSpec { items: vec![v1.spec.item] } }
/// #     }
/// # }
/// # impl From<Cart> for v1::Cart {
/// #     fn from(hub: Cart) -> Self {
/// #         let item = hub.spec.items.into_iter().next().unwrap_or_default();
/// #         v1::Cart { metadata: hub.metadata, spec: v1::CartSpec { item } }
/// #     }
/// # }
/// use controller_runtime::webhook::check_generated_round_trips;
///
/// check_generated_round_trips::<v1::Cart, Cart>(1, 100)?;
/// let error = check_generated_round_trips::<Cart, v1::Cart>(1, 100).expect_err("a cart of v1 has one item");
/// assert!(error.to_string().contains("of seed 1 does not survive the conversions"));
/// # Ok::<(), controller_runtime::webhook::RoundTripError>(())
/// ```
///
/// # Errors
///
/// A conversion of an object failed or lost something, or no generated object can be decoded.
pub fn check_generated_round_trips<A, B>(seed: u64, objects: u32) -> Result<(), RoundTripError>
where
    A: Spoke<B> + CustomResourceExt,
    B: StaticObject,
{
    let (kind, version, api_version) = (A::kind(&()), A::version(&()), A::api_version(&()));
    let definition = serde_json::to_value(A::crd())?;
    let versions = definition["spec"]["versions"].as_array();
    let own = versions.into_iter().flatten().find(|known| known["name"] == *version);
    let schema = own.map_or(&Value::Null, |own| &own["schema"]["openAPIV3Schema"]);
    let (mut rng, mut checked, mut undecodable) = (Rng::with_seed(seed), 0, None);
    for number in 0..objects {
        let object = generate::object(schema, &api_version, &kind, &mut rng);
        match A::deserialize(&object) {
            Ok(decoded) => {
                checked += 1;
                check_round_trip::<A, B>(&decoded).map_err(|source| {
                    let (object, source) = (object.to_string(), Box::new(source));
                    RoundTripError::Generated { seed, number, object, source }
                })?;
            }
            Err(error) => undecodable = Some(error),
        }
    }
    match undecodable {
        Some(source) if checked == 0 => {
            Err(RoundTripError::NoObjects { kind: kind.into_owned(), version: version.into_owned(), source })
        }
        _ => Ok(()),
    }
}

fn first_difference(
    before: Option<&Value>,
    after: Option<&Value>,
    path: String,
) -> Option<(String, String, String)> {
    match (before, after) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let keys = old.keys().chain(new.keys().filter(|key| !old.contains_key(*key)));
            keys.into_iter().find_map(|key| {
                let escaped = key.replace('~', "~0").replace('/', "~1");
                first_difference(old.get(key), new.get(key), format!("{path}/{escaped}"))
            })
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => (0..old.len().max(new.len()))
            .find_map(|index| first_difference(old.get(index), new.get(index), format!("{path}/{index}"))),
        _ if before == after => None,
        _ => {
            let text = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
            Some((path, text(before), text(after)))
        }
    }
}
