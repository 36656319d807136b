//! Label and field selectors of a list or watch.

use kube_apimachinery::selector::{FieldSelector, LabelSelector, field_values};
use kube_apimachinery::status::ApiError;

use crate::kind::registry::ServedKind;
use crate::request::query::ListOptions;
use crate::store::{EventSide, Key, StoreEvent, Stored, Traits};

/// Both selectors of a request.
#[derive(Debug)]
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    /// The only name that can match. It comes from the path of a deprecated watch of a single object.
    name: Option<String>,
}

impl Selection {
    /// Parses the selectors of the options; `name` is the one in the path, empty for a collection.
    ///
    /// # Errors
    /// 400 for a syntax error, or a field that the kind does not support.
    pub(crate) fn parse(served: &ServedKind, name: &str, options: &ListOptions) -> Result<Self, ApiError> {
        let labels = LabelSelector::parse(&options.label_selector)?;
        let fields = FieldSelector::parse(&options.field_selector, served.resource.selectable())?;
        let name = (!name.is_empty()).then(|| name.to_owned());
        Ok(Self { labels, fields, name })
    }

    /// Whether all objects match.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.name.is_none()
    }

    /// Whether an object of a list matches.
    pub(crate) fn matches(&self, served: &ServedKind, key: &Key, stored: &Stored) -> bool {
        self.matches_key(key) && (self.is_about_key() || self.matches_traits(&self.traits(served, stored)))
    }

    /// Whether the object matches in its state before or after an event; `stored` is this state in the version of `served`. The selector
    /// values of an event are computed once for all watches.
    pub(crate) fn matches_event(
        &self,
        served: &ServedKind,
        event: &StoreEvent,
        state: EventSide,
        stored: &Stored,
    ) -> bool {
        self.matches_key(&event.key)
            && (self.is_about_key()
                || event.with_traits(
                    state,
                    served.id,
                    || traits(served, stored),
                    |traits| self.matches_traits(traits),
                ))
    }

    /// Whether the conditions on name and namespace match. A client that watches a single object has only these.
    pub(crate) fn matches_key(&self, key: &Key) -> bool {
        self.name.as_deref().is_none_or(|name| name == key.name())
            && self.fields.matches_key(key.namespace(), key.name())
    }

    /// Whether only the name and the namespace of an object decide.
    pub(crate) fn is_about_key(&self) -> bool {
        self.labels.is_empty() && self.fields.is_about_key()
    }

    /// Returns the value that a field must equal, if a field selector says so.
    pub(crate) fn required(&self, field: &str) -> Option<&str> {
        self.fields.required(field)
    }

    fn matches_traits(&self, traits: &Traits) -> bool {
        self.labels.matches_map(&traits.labels) && self.fields.matches_values(&traits.fields)
    }

    /// Computes only the values that this selection needs. Most selections need only labels, which are read without parsing the object.
    fn traits(&self, served: &ServedKind, stored: &Stored) -> Traits {
        if self.fields.is_about_key() {
            Traits::new(stored.document.labels(), Vec::new())
        } else {
            traits(served, stored)
        }
    }
}

/// Computes all values that selectors may need.
fn traits(served: &ServedKind, stored: &Stored) -> Traits {
    let resource = &served.resource;
    let fields = if resource.selectable.is_empty() {
        Vec::new()
    } else {
        field_values(&resource.selectable, &served.value(stored))
    };
    Traits::new(stored.document.labels(), fields)
}
