//! The reads of a story: gets, lists and watches.

use http::Method;

use super::super::request::{PROTOBUF, Request};
use super::Story;
use super::verbs::{FIELDS, LABELS, METADATA, TABLE};

const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

impl Story<'_> {
    pub(super) fn get(&mut self) -> Request {
        let name = self.name();
        let mut request = self.request(Method::GET, self.item(&name), "get");
        request.accept = self.dice.pick(&[
            "application/json",
            "application/json",
            TABLE,
            METADATA,
            "application/yaml",
            PROTOBUF,
        ]);
        if self.dice.percent(15) {
            request.query(self.dice.pick(&[
                "resourceVersion=0",
                "resourceVersion=x",
                "pretty=1",
                "resourceVersion=99999999",
                "includeObject=Object",
                "fieldSelector=x",
            ]));
        }
        request
    }

    pub(super) fn list(&mut self) -> Request {
        let mut path = format!("{}?{}", self.resource.collection(), self.scope());
        let mut is_narrow = self.resource.is_namespaced;
        let is_of_all_namespaces = is_narrow && self.dice.percent(8);
        if is_of_all_namespaces {
            path = format!("{}labelSelector=story%3D{{{{ns}}}}", path.replace("/namespaces/{{ns}}", ""));
            is_narrow = false;
        }
        let mut request = self.request(Method::GET, path, "list");
        request.accept =
            self.dice.pick(&["application/json", "application/json", TABLE, METADATA_LIST, PROTOBUF]);
        if self.dice.percent(30) {
            request.query(self.dice.pick(&FIELDS));
        }
        if self.dice.percent(40) {
            let option = self.dice.pick(&[
                "limit=1",
                "limit=1&continue={{continue}}",
                "limit=x",
                "limit=-1",
                "limit=2",
                "limit=500&resourceVersion=0",
                "timeoutSeconds=x",
                "resourceVersion=0",
                "resourceVersion=0&resourceVersionMatch=Exact",
                "resourceVersionMatch=NotOlderThan",
                "resourceVersion=x",
                "continue=x",
                "includeObject=None",
                "includeObject=x",
            ]);
            // Whether a page of all namespaces has a next page depends on the objects of other stories.
            if !(is_of_all_namespaces && option.starts_with("limit=")) {
                request.query(option);
            }
        }
        if is_narrow && self.dice.percent(30) {
            request.query(self.dice.pick(&LABELS));
        }
        request
    }

    pub(super) fn watch(&mut self) -> Request {
        let path = format!("{}?{}&watch=true&timeoutSeconds=1", self.resource.collection(), self.scope());
        let name = self.name();
        let mut request = self.request(Method::GET, path, "watch");
        // The embedded server creates the objects that every server has before its history begins.
        let from = if self.resource.fixtures().is_empty() { 0 } else { 3 };
        request.query(&match from + self.dice.below(5 - from) {
            0..3 => format!("resourceVersion={{{{first:{}/{name}}}}}", self.resource.kind),
            3 => "sendInitialEvents=true".into(),
            _ => "resourceVersion=x".into(),
        });
        request.accept = self.dice.pick(&["application/json", "application/json", TABLE, METADATA]);
        if self.dice.percent(30) {
            request.query(self.dice.pick(&FIELDS));
        }
        if self.resource.is_namespaced && self.dice.percent(30) {
            request.query(self.dice.pick(&LABELS));
        }
        request
    }
}
