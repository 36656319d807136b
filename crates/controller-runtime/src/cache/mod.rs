//! Caches: all objects of a kind, listed once, then kept up to date by a watch.
//!
//! A manager has one list and watch per resource and selection, however many controllers read it and as whatever Rust
//! types. Objects are shared as [`Arc`](std::sync::Arc)s: a read copies nothing, and nobody can change what another one
//! reads. Events and metadata-only reads hand out [`Lazy`] states: their [`Meta`] is at hand, the object itself is decoded
//! when asked for.
//!
//! In reading order: [`Cached`] (what is read), [`Caches`] (what is cached), [`Index`], [`Selection`] and [`LabelSelector`]
//! (finding objects). Within: `list_watch` decides what to ask next (pure), `reflector` asks, `feed` shares what is answered,
//! `informer` holds it as one Rust type (several types of one kind share the text of each object: `arrival`), `store` knows what the watch told and what we wrote since (pure), `registry` says
//! who shares what, `status` what keeps an informer from the present (pure), and `sync` whether a manager has to wait for that.
//!
//! # What is not here
//!
//! A rhythm of resyncs for one namespace alone. [`Options`] for one kind known at run time: those for `DynamicObject` are for
//! all of them. Pages: a cached list has a [limit](Selection::limit), and nothing to continue from. Watches without bookmarks, which every API server sends when asked.

mod access;
mod arrival;
mod backoff;
mod budget;
mod cached;
mod caches;
mod changed;
mod decode_error;
mod definition;
mod events;
mod feed;
mod hot;
mod in_namespace;
mod index;
mod informer;
mod inlet;
mod items;
mod lazy;
mod list_watch;
mod mailbox;
mod many;
mod meta;
mod objects;
mod options;
mod pack;
mod pieces;
mod query;
mod read_error;
mod reads;
mod recent;
mod reflector;
mod registry;
mod resync;
mod retain;
mod scan;
mod selection;
mod selector;
mod shelf;
mod split;
mod stats;
mod status;
mod store;
mod sync;
mod tombstones;
mod transform;
mod until;
mod view;
mod wire;
mod writes;

pub use self::{
    access::MissingRight,
    cached::Cached,
    caches::{BuildError, CacheBuilder, Caches, NotDeclared},
    decode_error::DecodeError,
    events::Events,
    in_namespace::InNamespace,
    index::Index,
    lazy::Lazy,
    meta::{Labels, Meta, OwnerRef, ResourceVersion, Uid},
    options::Options,
    query::Namespaces,
    read_error::ReadError,
    resync::Resync,
    retain::Retain,
    selection::Selection,
    selector::{FieldSelector, InvalidSelector, LabelSelector},
    stats::Stats,
    until::UntilError,
    view::View,
};
pub(crate) use self::{mailbox::Delivered, registry::Cache, sync::NotSynced};
