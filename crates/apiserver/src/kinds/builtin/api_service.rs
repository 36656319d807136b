//! APIServices.

use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{set, within};

#[derive(Debug)]
pub(super) struct APIService;

impl BuiltinKind for APIService {
    fn default(&self, object: &mut Value) {
        within(object, "spec", |spec| {
            within(spec, "service", |service| set(service, "port", json!(443)));
        });
    }
}
