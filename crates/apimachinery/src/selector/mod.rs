//! Label and field selectors, which choose the objects of a list, a watch or a controller.
//!
//! Grammars and messages are those of `k8s.io/apimachinery/pkg/{labels,fields}`.

mod fields;
mod grammar;
mod labels;

pub use fields::{
    FieldRefusal, FieldSelector, FieldTerm, Selectable, SelectableField, field_terms, values as field_values,
};
pub use labels::{LabelSelector, label_selector_text};
