//! Which objects a list or a watch is about: label and field selectors.

use crate::request::query::ListOptions;
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::ApiError;
use crate::store::{Key, Stored};
use crate::verbs::Call;

/// Both selectors of a request.
#[derive(Debug)]
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    /// The only name that can match, from the URL of a deprecated watch.
    name: Option<String>,
}

impl Selection {
    /// Parses the selectors of the options.
    ///
    /// # Errors
    /// 400 for a syntax error, or a field that the kind does not offer.
    pub(crate) fn parse(call: &Call, options: &ListOptions) -> Result<Self, ApiError> {
        let labels = LabelSelector::parse(&options.label_selector)?;
        let fields = FieldSelector::parse(&options.field_selector, &call.served.resource)?;
        let name = (!call.path.name.is_empty()).then(|| call.path.name.clone());
        Ok(Self { labels, fields, name })
    }

    /// Whether no object is left out.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.name.is_none()
    }

    pub(crate) fn matches(&self, call: &Call, key: &Key, stored: &Stored) -> bool {
        if self.name.as_deref().is_some_and(|name| name != key.name()) {
            return false;
        }
        // Told by the key alone, as when one object is watched among many.
        if self.fields.name().is_some_and(|name| name != key.name())
            || self.fields.namespace().is_some_and(|namespace| namespace != key.namespace())
        {
            return false;
        }
        if self.labels.is_empty() && self.fields.is_empty() {
            return true;
        }
        let object = call.served.value(stored);
        self.labels.matches(&object) && self.fields.matches(&object)
    }
}
