//! What the request pipeline knows about a kind.
//!
//! Builtin kinds come from the data files ([`crate::builtin`]), custom kinds from their definitions. The pipeline treats
//! both alike: where Kubernetes answers differently, a [`Resource`] says so by value, never by the name of the kind.

use jiff::Timestamp;
use serde_json::Value;

use crate::table::JsonPath;

/// One served (group, version, plural). Versions of one kind share [`storage`](Self::storage).
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    /// Empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) namespaced: bool,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    /// Verbs of the main endpoint, in the order in which discovery lists them.
    pub(crate) verbs: Vec<String>,
    /// The table of the store that holds the objects.
    pub(crate) storage: StorageKey,
    /// What discovery shows as `storageVersionHash`; empty where there is none.
    pub(crate) storage_version_hash: String,
    /// Whether `/status` exists; if so, the main endpoint ignores `status`.
    pub(crate) status: bool,
    /// Whether `/scale` exists, and where it finds its numbers.
    pub(crate) scale: Option<ScalePaths>,
    /// Further subresources (`finalize`, …), sorted by name.
    pub(crate) other_subresources: Vec<Subresource>,
    /// Columns of a Table, `Name` included.
    pub(crate) columns: Vec<Column>,
    /// What a field selector may name besides `metadata.name` and `metadata.namespace`.
    pub(crate) selectable: Vec<SelectableField>,
    pub(crate) rules: Rules,
    /// What a POST to the collection does instead of storing an object.
    pub(crate) act: Option<Act>,
    /// How objects of this version differ from those that are stored; `None` if they do not.
    pub(crate) conversion: Option<Conversion>,
}

impl Resource {
    /// `v1`, `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Its group and version.
    pub(crate) fn group_version(&self) -> (String, String) {
        (self.group.clone(), self.version.clone())
    }

    /// Whether the main endpoint answers `verb` (`get list watch create update patch delete deletecollection`).
    pub(crate) fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|allowed| allowed == verb)
    }
}

/// Names a table of the store: `v1/events` and `events.k8s.io/v1/events` share one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StorageKey {
    pub(crate) group: String,
    pub(crate) plural: String,
}

/// Where `/scale` finds its numbers, as paths of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: Vec<String>,
    pub(crate) status_replicas: Vec<String>,
    /// A `LabelSelector` object (builtin kinds), plain labels (ReplicationControllers) or a text (custom kinds); `None` leaves
    /// `status.selector` out.
    pub(crate) selector: Option<Vec<String>>,
}

/// A subresource as discovery lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subresource {
    pub(crate) name: String,
    pub(crate) kind: String,
    /// Group and version of `kind`; `None` where they are the parent's.
    pub(crate) group_version: Option<(String, String)>,
    pub(crate) verbs: Vec<String>,
    /// What a POST to it does.
    pub(crate) act: Option<Act>,
}

/// What a POST does that stores no object of its own kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Gives a pod to a node.
    Bind,
    /// Deletes a pod as far as its disruption budget allows.
    Evict,
    /// Makes a token of a service account.
    IssueToken,
    /// Says whose token it is.
    ReviewToken,
    /// Says who asks.
    ReviewSelf,
    /// Says what somebody may do.
    ReviewAccess,
    /// Says what the one who asks may do.
    ReviewOwnAccess,
    /// Says all that the one who asks may do.
    ReviewRules,
}

/// Builtin kinds that are served in another version than they are stored in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// Events of `events.k8s.io`, stored as those of the core group.
    Event,
    /// Autoscalers of `autoscaling/v1`, stored as those of `v2`.
    Autoscaler,
}

/// One column of a Table.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub(crate) kind: String,
    /// `name` for the object's name; usually empty.
    pub(crate) format: String,
    pub(crate) description: String,
    /// 0 is shown always, more only by `kubectl get -o wide`.
    pub(crate) priority: i64,
    pub(crate) cell: Cell,
}

/// How the value of a column is found.
#[derive(Debug, Clone)]
pub(crate) enum Cell {
    /// By a function of the object and the present.
    Builtin(fn(&Value, Timestamp) -> Value),
    /// By a path, and the type of the column.
    Path(JsonPath),
}

/// A field that selectors may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SelectableField {
    /// As the selector writes it: `involvedObject.kind`.
    pub(crate) label: String,
    /// Where the value is; the first path that leads to something other than the empty string counts.
    pub(crate) paths: Vec<Vec<String>>,
    /// The value if no path leads anywhere: `""`, or Go's zero (`0`, `false`) for typed numbers.
    pub(crate) absent: &'static str,
}

/// What differs between kinds in the life of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) generation: Generation,
    /// Whether an update may leave `metadata.resourceVersion` out.
    pub(crate) unconditional_update: bool,
    /// Whether PUT to a missing object creates it.
    pub(crate) create_on_update: bool,
    /// Whether DELETE answers the deleted object rather than a `Status`.
    pub(crate) returns_deleted_object: bool,
    pub(crate) name: NameRule,
    /// Whether the kind is defined by a CustomResourceDefinition.
    pub(crate) custom: bool,
}

/// When `metadata.generation` goes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    /// The kind has none.
    Never,
    /// When `spec` changes.
    Spec,
    /// When `spec` or the annotations change (Deployment).
    SpecOrAnnotations,
    /// When anything outside `metadata` changes, `status` excepted if it is a subresource (custom kinds).
    OutsideMetadata,
}

/// What a name must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// RFC 1123 subdomain, up to 253 characters.
    Subdomain,
    /// RFC 1123 label, up to 63 characters.
    Label,
    /// RFC 1035 label (starts with a letter).
    Label1035,
    /// Anything that can be a segment of a URL path.
    PathSegment,
}
