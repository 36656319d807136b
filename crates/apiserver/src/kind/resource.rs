//! Description of a kind for the request pipeline.
//!
//! Builtin kinds come from the data files ([`crate::kinds::builtin`]), custom kinds from their definitions. The pipeline treats both
//! equally: a difference between kinds is a value in their [`Resource`], not a condition on a kind's name.

use kube_apimachinery::metadata::{Compared, DerivedName};
use kube_apimachinery::names::NameRule;
use kube_apimachinery::selector::{FieldRefusal, Selectable, SelectableField};
use kube_apimachinery::table::Column;

/// A served (group, version, plural). Versions of one kind share [`storage`](Self::storage).
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    /// API group; empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) namespaced: bool,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    /// Verbs of the main endpoint, in the order of discovery.
    pub(crate) verbs: Vec<String>,
    /// Storage key of the objects.
    pub(crate) storage: StorageKey,
    /// `storageVersionHash` in discovery; empty if there is none.
    pub(crate) storage_version_hash: String,
    /// Whether `/status` exists; if so, the main endpoint ignores `status`.
    pub(crate) status: bool,
    /// Paths of the replicas for `/scale`, if it exists.
    pub(crate) scale: Option<ScalePaths>,
    /// Other subresources (`finalize`, …), sorted by name.
    pub(crate) other_subresources: Vec<Subresource>,
    /// Columns of a table, including `Name`.
    pub(crate) columns: Vec<Column>,
    /// Selectable fields other than `metadata.name` and `metadata.namespace`.
    pub(crate) selectable: Vec<SelectableField>,
    pub(crate) rules: Rules,
    /// Action of a POST to the collection, if it does not store an object.
    pub(crate) action: Option<PostAction>,
    /// Whether objects of a builtin kind are stored in another version, to which the kind's strategy converts them.
    pub(crate) is_converted: bool,
}

impl Resource {
    /// Returns the apiVersion, such as `v1` or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns group and version.
    pub(crate) fn group_version(&self) -> (String, String) {
        (self.group.clone(), self.version.clone())
    }

    /// Returns the fields that selectors support.
    pub(crate) fn selectable(&self) -> Selectable<'_> {
        Selectable {
            fields: &self.selectable,
            namespaced: self.namespaced,
            custom: self.rules.custom,
            refusal: self.rules.field_refusal,
        }
    }

    /// Whether the main endpoint supports `verb` (`get list watch create update patch delete deletecollection`).
    pub(crate) fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|allowed| allowed == verb)
    }
}

/// Key of a table in the store. Resources that share objects share it, such as `v1/events` and `events.k8s.io/v1/events`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StorageKey {
    pub(crate) group: String,
    pub(crate) plural: String,
}

impl StorageKey {
    /// Returns the key of a resource in the core group.
    pub(crate) fn core(plural: &str) -> Self {
        Self { group: String::new(), plural: plural.to_owned() }
    }
}

/// Paths of the fields that `/scale` reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: Vec<String>,
    pub(crate) status_replicas: Vec<String>,
    /// Path of the selector; `None` omits `status.selector`.
    pub(crate) selector: Option<Vec<String>>,
    pub(crate) selector_form: SelectorForm,
}

/// Form of the selector of an object that has a scale. In custom objects it is a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SelectorForm {
    /// A `LabelSelector`, or a text.
    Selector,
    /// Plain labels, all of which must match.
    Labels,
}

/// A subresource as listed in discovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subresource {
    pub(crate) name: String,
    pub(crate) kind: String,
    /// Group and version of `kind`; `None` if they are the parent's.
    pub(crate) group_version: Option<(String, String)>,
    pub(crate) verbs: Vec<String>,
    /// Action of a POST.
    pub(crate) action: Option<PostAction>,
    /// Whether every verb opens a connection, as for `exec`. Then `kind` is the kind of the parameters.
    pub(crate) connects: bool,
}

/// Action of a POST that does not store an object of its own kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PostAction {
    /// Assigns a pod to a node.
    Bind,
    /// Deletes a pod if its disruption budget allows it.
    Evict,
    /// Issues a token of a service account.
    IssueToken,
    /// Returns the user of a token (TokenReview).
    ReviewToken,
    /// Returns the user of the request (SelfSubjectReview).
    ReviewSelf,
    /// Returns whether a user may perform an action (SubjectAccessReview).
    ReviewAccess,
    /// Returns whether the user of the request may perform an action (SelfSubjectAccessReview).
    ReviewOwnAccess,
    /// Returns the rules of the user of the request (SelfSubjectRulesReview).
    ReviewRules,
}

/// Rules in which kinds differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) generation: Generation,
    /// Whether an update may omit `metadata.resourceVersion`.
    pub(crate) unconditional_update: bool,
    /// Whether PUT creates a missing object.
    pub(crate) create_on_update: bool,
    /// Whether an apply to `/status` creates a missing object, even if a PUT does not.
    pub(crate) create_on_status_apply: bool,
    /// Whether DELETE returns the deleted object rather than a `Status`.
    pub(crate) returns_deleted_object: bool,
    pub(crate) name: NameRule,
    /// Whether the rules of the kind validate only the generated name, not its prefix.
    pub(crate) any_prefix: bool,
    /// Kind with names that other fields of the object determine.
    pub(crate) derived_name: Option<DerivedName>,
    /// Whether finalizers of a builtin kind need no domain.
    pub(crate) any_finalizer: bool,
    /// How many times the rules of a builtin kind repeat the validation of the new metadata in an update. Each repetition reports its
    /// errors again, with names checked by the rule of the kind.
    pub(crate) revalidated: usize,
    /// Updates in which the rules of a builtin kind repeat the comparison of the metadata with the old state.
    pub(crate) compared: Compared,
    /// Subresources with updates that repeat the validation too, as `revalidated` says.
    pub(crate) revalidated_in: &'static [&'static str],
    /// Whether kube-apiserver reads objects of the kind from its watch cache.
    pub(crate) cached: bool,
    /// Whether the kind is defined by a CustomResourceDefinition.
    pub(crate) custom: bool,
    /// Message for a field that selectors do not support.
    pub(crate) field_refusal: FieldRefusal,
}

/// Condition under which `metadata.generation` is incremented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    /// The kind has no generation.
    Never,
    /// Never: every object has generation 1.
    Fixed,
    /// `spec` changes.
    Spec,
    /// `spec` changes; new objects have no generation.
    LateSpec,
    /// `spec` or the annotations change (Deployment).
    SpecOrAnnotations,
    /// Anything outside `metadata` changes, except `status` if it is a subresource (custom kinds).
    OutsideMetadata,
    /// The labels, or anything outside `metadata`, change (EndpointSlice).
    LabelsOrContents,
}

impl Generation {
    /// Whether new objects have generation 1.
    pub(crate) fn is_set_on_create(self) -> bool {
        !matches!(self, Self::Never | Self::LateSpec)
    }
}
