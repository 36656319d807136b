//! Caches: all objects of a kind, listed once, then kept up to date by a watch.
//!
//! A manager has one list and watch per resource and selection, however many controllers read it and as whatever Rust
//! types. Objects are shared as [`Arc`](std::sync::Arc)s: a read copies nothing, and nobody can change what another one
//! reads. Events and metadata-only reads hand out [`Lazy`] states: their [`Meta`] is at hand, the object itself is decoded
//! when asked for.
//!
//! In reading order: [`Cached`] (what is read), [`Caches`] (what is cached), [`Index`] and [`LabelSelector`] (finding
//! objects). Within: `list_watch` decides what to ask next (pure), `reflector` asks, `feed` shares what is answered,
//! `informer` holds it as one Rust type (several types of one kind share the text of each object: `arrival`), `store` knows what the watch told and what we wrote since (pure), `registry` says
//! who shares what.
//!
//! # What is not here
//!
//! Resyncs, which repeat events although nothing happened; transforms of what is held ([`View`]s transform what is read).

mod access;
mod arrival;
mod backoff;
mod budget;
mod cached;
mod caches;
mod decode_error;
mod definition;
mod events;
mod feed;
mod hot;
mod index;
mod informer;
mod lazy;
mod list_watch;
mod meta;
mod pack;
mod query;
mod reflector;
mod registry;
mod retain;
mod selector;
mod shelf;
mod split;
mod stats;
mod store;
mod until;
mod view;
mod wire;
mod writes;

pub use self::{
    cached::{Cached, Selection},
    caches::{BuildError, CacheBuilder, Caches},
    decode_error::DecodeError,
    events::Events,
    index::Index,
    lazy::Lazy,
    meta::{Labels, Meta, OwnerRef, ResourceVersion, Uid},
    query::Namespaces,
    retain::{Options, Retain},
    selector::{FieldSelector, InvalidSelector, LabelSelector},
    stats::Stats,
    until::UntilError,
    view::View,
};
pub(crate) use self::{
    informer::Subscription,
    registry::{Cache, NotSynced},
};
