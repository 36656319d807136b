//! Caches: all objects of a kind, listed once, then kept up to date by a watch.
//!
//! A manager opens one list and watch per resource and selection, regardless of how many controllers read it and as
//! which Rust types. Objects are shared as [`Arc`](std::sync::Arc)s, so a read copies nothing and no reader can change
//! the objects of another. Events and metadata-only reads return [`Lazy`] states: their [`Meta`] is decoded, the object
//! itself is decoded on demand.
//!
//! In reading order: [`Cached`] (reads), [`Caches`] (declares caches), [`Index`], [`Selection`] and [`LabelSelector`]
//! (find objects). Internally, `list_watch` decides which request to send next (pure), `reflector` sends it, and `feed`
//! passes the answers to all informers that share the watch. An `informer` holds the objects as one Rust type; several
//! types of one kind share the text of each object (`arrival`). `store` combines the watched state with own writes
//! (pure). `registry` decides which informers share a watch, `status` records why an informer is not synced (pure), and
//! `sync` decides whether a manager waits for it. `other_cluster` names a cluster other than the manager's own.
//!
//! # Limitations
//!
//! - A resync interval cannot be set for a single namespace.
//! - [`Options`] cannot be set for a single kind that is known only at run time: those for `DynamicObject` apply to all
//!   such kinds.
//! - Cached lists have a [limit](Selection::limit), but no continue token.
//! - Watches always ask for bookmarks, which every API server sends on request.

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
mod other_cluster;
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
pub(crate) use self::{
    decode_error::Misfit, mailbox::Delivered, other_cluster::OtherCluster, registry::Cache, sync::NotSynced,
};
