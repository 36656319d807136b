//! Caches: all objects of a kind, listed once, then kept up to date by a watch.
//!
//! A manager opens one list and watch per resource and selection (namespaces, labels and fields), regardless of how many
//! controllers read the objects, and as which Rust types. Most objects are stored compressed, and decoded when they are read.
//! Decoded objects are shared as [`Arc`](std::sync::Arc)s: a read copies no object, and no reader can change an object that
//! another reader holds. Events and metadata-only reads return [`Lazy`] states, whose [`Meta`] is decoded, and which decode the
//! object itself on demand.
//!
//! Types, in reading order: [`Cached`] (reads), [`Caches`] (declares caches), [`Index`], [`Selection`] and [`LabelSelector`]
//! (find objects).
//!
//! Folders of the source; each imports only from those before it:
//!
//! 1. `objects`: states of objects. Several types of one kind share the text of each object (`incoming_object`).
//! 2. `query`: which objects a cache holds: resource, namespaces, selectors, options.
//! 3. `watch`: `list_watch` decides which request to send next (pure), `reflector` sends it, and `shared_watch` passes the
//!    answers to all informers that share the watch. `sync_status` records why an informer is not synced (pure).
//! 4. `state`: an `informer` holds the objects as one Rust type. `store` combines the watched state with own writes (pure).
//!    `registry` decides which informers share a watch, and `sync` whether a manager waits for it.
//! 5. `read`: the handles of users.
//!
//! # Limitations
//!
//! - A resync interval cannot be set for a single namespace.
//! - [`CacheOptions`] cannot be set for a single kind that is known only at run time: options for `DynamicObject` apply to all
//!   such kinds.
//! - Cached lists have a [limit](Selection::limit), but no continue token.
//! - Watches always request bookmarks, which every API server supports; there is no option to turn them off.

pub(crate) mod objects;
mod query;
pub(crate) mod read;
pub(crate) mod state;
mod watch;

#[cfg(test)]
pub(crate) use self::watch::subscriber::WatchFailure;
pub(crate) use self::{
    objects::{
        decode_error::{DecodeError, Misfit},
        event::{Event, MetaEvent},
        lazy::Lazy,
        stats::ResourceStats,
    },
    query::{Query, other_cluster::OtherCluster},
    read::cached::Cached,
    state::{
        mailbox::Delivered,
        read_error::ReadError,
        registry::Cache,
        sync::{NotSynced, WatchState},
        tombstones::DeletionReplay,
        troubled_objects::{Trouble, TroubledObject},
    },
    watch::{subscriber::ChangeObserver, sync_status::FailuresInARow},
};
pub use self::{
    objects::{retain::Retain, stats::Stats},
    query::{
        Namespaces,
        in_namespace::InNamespace,
        options::CacheOptions,
        resync::Resync,
        selector::{FieldSelector, LabelSelector, SelectorError},
    },
    read::{
        caches::{BuildError, CacheBuilder, Caches, NotDeclaredError},
        event_stream::EventStream,
        index::Index,
        selection::Selection,
        until::UntilError,
        view::View,
    },
    watch::missing_right::{ForbiddenError, MissingRight},
};
pub use crate::object::meta::{Labels, Meta, OwnerRef, ResourceVersion, Uid};
