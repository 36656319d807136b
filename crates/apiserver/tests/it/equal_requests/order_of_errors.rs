//! Order of errors, and of fields in the values that they show.

use super::check;

#[tokio::test]
async fn a_selector_is_shown_with_its_labels_first() {
    let capacities = "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities";
    let capacity = |name: &str, zone: &str| {
        format!(
            r#"{{"metadata":{{"name":"a"}},"storageClassName":"{name}","nodeTopology":{{"matchLabels":{{"zone":"{zone}"}},
            "matchExpressions":[{{"key":"k","operator":"In","values":["v"]}}]}}}}"#
        )
    };
    let shown = r#"nodeTopology: Invalid value: {\"matchLabels\":{\"zone\":\"b\"},\"matchExpressions\":[{\"key\":\"k\",\"operator\":\"In\",\"values\":[\"v\"]}]}: field is immutable"#;
    let selector_first = "nodeTopology.matchLabels: Invalid value: \\\"b c\\\": a valid label";
    check(&[
        ("POST", capacities, &capacity("B", "b c"), 422, &[&format!("invalid: [{selector_first}")]),
        ("POST", capacities, &capacity("a", "a"), 201, &[]),
        ("merge", &format!("{capacities}/a"), &capacity("a", "b"), 422, &[shown]),
    ])
    .await;
}

#[tokio::test]
async fn errors_about_the_object_of_an_event_come_before_those_about_its_changed_metadata() {
    let event = r#"{"metadata":{"name":"a"},"involvedObject":{"namespace":"default"}}"#;
    let changes = r#"{"metadata":{"labels":{"a b":"c"}},"regarding":{"namespace":"z"}}"#;
    // The message names each error once, the causes repeat it.
    let causes =
        r#"does not match event.namespace","reason":"FieldValueInvalid"},{"field":"metadata.labels""#;
    check(&[
        ("POST", "/api/v1/namespaces/default/events", event, 201, &[]),
        ("merge", "/apis/events.k8s.io/v1/namespaces/default/events/a", changes, 422, &[causes]),
    ])
    .await;
}
