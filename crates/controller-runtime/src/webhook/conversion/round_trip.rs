//! A check of conversions for the tests of an operator.

use serde_json::Value;

use super::Spoke;
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
