//! Sources: the origins of a controller's requests.
//!
//! [`Kind`] delivers the changes of cached objects, of this cluster or of another one. [`Events`] and [`Requests`] read a
//! stream or a channel. For any other source, implement the trait [`Source`], or pass a closure to [`from_fn`].

mod attachment;
mod delivery;
mod delivery_retries;
pub(crate) mod dyn_source;
mod event_rules;
mod fn_source;
pub(crate) mod kind;
pub(crate) mod owns;
mod sink;
mod stream;

pub(crate) use self::{
    attachment::{Attachment, OwnerKind},
    dyn_source::{DynSource, Source},
    kind::Kind,
    owns::Owns,
};
pub use self::{
    fn_source::{FnSource, from_fn},
    owns::{MetadataOnly, Whole},
    sink::Sink,
    stream::{Events, Requests},
};
