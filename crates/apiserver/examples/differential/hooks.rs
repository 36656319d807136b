//! Random configurations of admission webhooks.

use http::Method;
use serde_json::{Map, Value, json};

use super::catalog::Resource;
use super::dice::Dice;
use super::player::CONFIGURATIONS;
use super::request::Request;
use super::responder::{FAILING, PASSING};

/// Match conditions; the last ones fail, for some requests.
const CONDITIONS: [&str; 12] = [
    "true",
    "false",
    "request.operation == 'CREATE'",
    "request.operation != 'DELETE'",
    "object == null || object.metadata.name != 'a'",
    "oldObject == null",
    "has(object.metadata.labels) && 'a' in object.metadata.labels",
    "request.userInfo.groups.exists(g, g == 'system:masters')",
    "authorizer.group('').resource('pods').namespace('x').check('create').allowed()",
    "request.subResource == ''",
    "object.metadata.missing == 1",
    "object.spec.replicas > 1",
];

/// Returns the request that creates a configuration. Its first webhook only shows that the configuration is in effect.
pub(crate) fn configuration(resource: &Resource, is_mutating: bool, dice: &mut Dice) -> Request {
    let (letter, kind, plural) = match is_mutating {
        true => ("m", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
        false => ("v", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    };
    let name = format!("{letter}.{{{{ns}}}}");
    let of_namespace = json!({"matchLabels": {"kubernetes.io/metadata.name": "{{ns}}"}});
    let ready = json!({
        "name": "ready.{{ns}}.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "{{hook}}/{{ns}}/ready/deny", "caBundle": "{{ca}}"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        "namespaceSelector": of_namespace, "objectSelector": {"matchLabels": {"ready": name}},
    });
    let mut webhooks = vec![ready];
    let number = 1 + dice.below(if is_mutating { 3 } else { 2 });
    // kube-apiserver reports the first validating webhook that answers: there may be one only.
    let failing = dice.percent(50).then(|| dice.below(number));
    for index in 0..number {
        let behaviour = if failing == Some(index) { dice.pick(&FAILING) } else { dice.pick(&PASSING) };
        // Validating webhooks may not patch.
        let behaviour = if !is_mutating && failing != Some(index) {
            dice.pick(&["allow", "warn", "audit"])
        } else {
            behaviour
        };
        let mut webhook = Map::new();
        let mut set = |field: &str, value: Value| drop(webhook.insert(field.to_owned(), value));
        set("name", format!("{letter}{index}.{{{{ns}}}}.example.com").into());
        let url = format!("{{{{hook}}}}/{{{{ns}}}}/{letter}{index}/{behaviour}");
        set("clientConfig", json!({"url": url, "caBundle": "{{ca}}"}));
        set("sideEffects", dice.pick(&["None", "None", "NoneOnDryRun"]).into());
        let versions: &[&str] = match dice.below(4) {
            0 => &["v1beta1", "v1"],
            1 => &["v3", "v1"],
            _ => &["v1"],
        };
        set("admissionReviewVersions", json!(versions));
        set("rules", rules(resource, dice));
        // A busy machine needs time.
        set("timeoutSeconds", json!(30));
        let is_story = json!({"key": "story", "operator": "In", "values": ["{{ns}}"]});
        let mut expressions = vec![json!({"key": "ready", "operator": "DoesNotExist"})];
        if resource.is_namespaced {
            set("namespaceSelector", of_namespace.clone());
            if dice.percent(15) {
                expressions.push(is_story);
            }
        } else {
            expressions.push(is_story);
        }
        set("objectSelector", json!({"matchExpressions": expressions}));
        if dice.percent(40) {
            set("failurePolicy", dice.pick(&["Ignore", "Fail"]).into());
        }
        if dice.percent(40) {
            set("matchPolicy", dice.pick(&["Exact", "Equivalent"]).into());
        }
        if is_mutating && dice.percent(40) {
            set("reinvocationPolicy", dice.pick(&["IfNeeded", "Never"]).into());
        }
        if dice.percent(30) {
            let conditions = (0..=dice.below(2))
                .map(|index| json!({"name": format!("c{index}"), "expression": dice.pick(&CONDITIONS)}));
            set("matchConditions", conditions.collect());
        }
        webhooks.push(webhook.into());
    }
    let body = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "webhooks": webhooks,
    });
    Request::new(Method::POST, format!("{CONFIGURATIONS}{plural}"), format!("create {plural}")).body(body)
}

/// Rules that match most requests of a story.
fn rules(resource: &Resource, dice: &mut Dice) -> Value {
    let mut rules = Vec::new();
    for _ in 0..=usize::from(dice.percent(15)) {
        let plural = &resource.plural;
        let resources = match dice.below(8) {
            0 => json!(["*"]),
            1 => json!(["*/*"]),
            2 => json!([plural, format!("{plural}/*")]),
            3 => json!([format!("{plural}/status"), format!("{plural}/scale")]),
            4 => json!([plural, "*/status"]),
            _ => json!([plural]),
        };
        let is_wild =
            resources.to_string().contains('*') && resources != json!([plural, format!("{plural}/*")]);
        let operations = dice
            .one(&[
                json!(["*"]),
                json!(["CREATE", "UPDATE"]),
                json!(["CREATE"]),
                json!(["UPDATE", "DELETE"]),
                json!(["CONNECT", "CREATE", "UPDATE", "DELETE"]),
            ])
            .cloned();
        let mut rule = json!({
            "apiGroups": [if dice.percent(20) { "*" } else { &*resource.group }],
            "apiVersions": [if dice.percent(20) { "*" } else { &*resource.version }],
            "operations": operations, "resources": resources,
        });
        let scope = if resource.is_namespaced { "Namespaced" } else { "Cluster" };
        if is_wild && resource.is_namespaced {
            // Objects of other stories that are in no namespace would match too.
            rule["scope"] = scope.into();
        } else if dice.percent(20) {
            rule["scope"] = dice.pick(&["*", scope]).into();
        }
        rules.push(rule);
    }
    rules.into()
}
