//! The operator: its kinds and their controllers.

pub mod widget;

use controller_runtime::operator::Operator;
pub use widget::Widget;

/// The operator. Each kind has a definition and a setup function here.
pub fn operator() -> Operator {
    Operator::new("widget-operator", "widget-operator.example.com")
        .version(env!("CARGO_PKG_VERSION"))
        .crd::<Widget>()
        .setup(widget::add_to)
}
