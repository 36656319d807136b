//! Requests of a story to subresources.

use http::Method;
use serde_json::json;

use super::super::request::{Body, Request};
use super::Story;

impl Story<'_> {
    pub(super) fn subresource(&mut self) -> Request {
        let name = self.name();
        let subresource = self.dice.one(&self.resource.subresources).cloned().unwrap_or_default();
        let path = format!("{}/{subresource}", self.item(&name));
        let methods = [Method::GET, Method::PUT, Method::PUT, Method::PATCH, Method::PATCH, Method::POST];
        let method = self.dice.one(&methods).cloned().unwrap_or_default();
        let is_connect = matches!(&*subresource, "exec" | "attach" | "portforward" | "proxy" | "log");
        let is_created = matches!(&*subresource, "eviction" | "binding" | "token");
        let method = match (is_connect, is_created, &*subresource) {
            (true, ..) => Method::GET,
            (_, true, _) if self.dice.percent(80) => Method::POST,
            (.., "finalize") if self.dice.percent(80) => Method::PUT,
            _ => method,
        };
        let mut request = self.request(method.clone(), path, &subresource);
        if method == Method::PATCH && self.dice.percent(30) {
            return self.apply_part(&name, &subresource);
        }
        let full = self.full(&name);
        let body = match (&*subresource, &method) {
            (_, &Method::GET) => return request,
            ("scale", &Method::PUT) => json!({
                "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": full},
                "spec": {"replicas": self.dice.below(12)},
            }),
            ("scale", _) => json!({"spec": {"replicas": self.dice.below(12)}}),
            ("eviction", _) => {
                let mut eviction =
                    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": full}});
                if self.dice.percent(50) {
                    let uid = format!("{{{{uid:{}/{name}}}}}", self.resource.kind);
                    let options = [
                        json!({"gracePeriodSeconds": 5}),
                        json!({"dryRun": ["All"]}),
                        json!({"preconditions": {"uid": uid}}),
                        json!({"preconditions": {"uid": "x"}}),
                        json!({"gracePeriodSeconds": -1}),
                        json!({"propagationPolicy": "x"}),
                    ];
                    eviction["deleteOptions"] = self.dice.one(&options).cloned().into();
                }
                eviction
            }
            ("binding", _) => json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": full},
                "target": {"kind": "Node", "name": self.dice.pick(&["n", "", "m"])},
            }),
            ("token", _) => {
                let spec = [
                    json!({}),
                    json!({"audiences": ["a"], "expirationSeconds": 600}),
                    json!({"expirationSeconds": 599}),
                    json!({"expirationSeconds": 4_294_967_297_i64}),
                    json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "none"}}),
                    json!({"boundObjectRef": {"kind": "X", "apiVersion": "v1", "name": "none"}}),
                ];
                let spec = self.dice.one(&spec).cloned();
                json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
            }
            (_, &Method::PATCH) => self.difference(&name),
            _ => {
                let current = self.current(&name);
                self.mutated(current, 1)
            }
        };
        if method == Method::PATCH {
            request.content_type =
                self.dice.pick(&["application/merge-patch+json", "application/strategic-merge-patch+json"]);
        }
        request.body = Body::Json(body);
        request
    }

    /// An apply to a subresource.
    fn apply_part(&mut self, name: &str, subresource: &str) -> Request {
        let full = self.full(name);
        let current = self.current(name);
        let target = self.mutated(current, 1);
        let mut body = match subresource {
            "scale" => json!({
                "apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": self.dice.below(12)},
            }),
            _ => json!({"apiVersion": self.resource.api_version(), "kind": self.resource.kind}),
        };
        body["metadata"] = json!({"name": full});
        if subresource != "scale" {
            for part in ["status", "spec"] {
                if target.get(part).is_some() && (part == "status" || self.dice.percent(20)) {
                    body[part] = target[part].clone();
                }
            }
        }
        let path = format!("{}/{subresource}", self.item(name));
        let mut request = self.request(Method::PATCH, path, subresource).body(body);
        request.content_type = "application/apply-patch+yaml";
        request.query(self.dice.pick(&["fieldManager=one", "fieldManager=two"]));
        if self.dice.percent(50) {
            request.query("force=true");
        }
        request
    }
}
