//! Objects that Go does not decode, or decodes in another way than their text suggests.

use super::{DEFINITIONS, MAPS, check};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
#[tokio::test]
async fn the_first_error_in_the_order_of_the_body_is_reported() {
    let number = "cannot unmarshal number into Go struct field";
    let steps = [
        (
            MAPS,
            r#"{"metadata":{"name":"a"},"immutable":"x","data":{"z":1,"a":true}}"#,
            "ConfigMap.immutable of type bool".to_owned(),
        ),
        (
            MAPS,
            r#"{"data":{"z":1,"a":true},"metadata":{"name":5},"immutable":"x"}"#,
            format!("{number} ConfigMap.data of type string"),
        ),
        (
            DEPLOYMENTS,
            r#"{"spec":{"template":{"spec":{"nodeName":1,"containers":[{"name":true,"image":5},{"image":[]}]}},"replicas":"x"}}"#,
            format!("{number} PodSpec.spec.template.spec.nodeName of type string"),
        ),
        // Decoders of single types end the decoding, and replace an error before theirs.
        (
            DEPLOYMENTS,
            r#"{"spec":{"replicas":"x","template":{"metadata":{"creationTimestamp":5}}},"metadata":{"name":5}}"#,
            format!("{number} ObjectMeta.spec.template.metadata.creationTimestamp of type string"),
        ),
        (
            DEPLOYMENTS,
            r#"{"spec":{"replicas":"x","strategy":{"rollingUpdate":{"maxSurge":1.5}}},"metadata":{"name":5}}"#,
            "number 1.5 into Go struct field RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge"
                .to_owned(),
        ),
        (
            DEFINITIONS,
            r#"{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"type":7,"items":{"externalDocs":{"url":5}}}}}]}}"#,
            format!("{number} JSONSchemaProps.spec.versions.schema.openAPIV3Schema.items.externalDocs.url"),
        ),
        // A repeated field is decoded each time it occurs.
        (
            MAPS,
            r#"{"metadata":{"name":"a"},"data":{"z":1},"data":{"z":"x"}}"#,
            format!("{number} ConfigMap.data of type string"),
        ),
        (
            MAPS,
            r#"{"metadata":{"name":"a"},"data":5,"data":{"z":"x"},"data":{"a":[]}}"#,
            format!("{number} ConfigMap.data of type map[string]string"),
        ),
    ];
    for (path, body, why) in &steps {
        check(&[("POST", path, body, 400, &[why])]).await;
    }
}

#[tokio::test]
async fn a_patch_reports_the_first_error_in_the_order_of_its_result() {
    let deployment = r#"{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
        "spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;
    let path = format!("{DEPLOYMENTS}/d");
    // The patch enters `spec`, whose fields are sorted, but not the metadata before it.
    let spec = r#"{"spec":{"replicas":"x","paused":"y","minReadySeconds":"z"}}"#;
    let nested = r#"{"spec":{"template":{"spec":{"hostNetwork":5,"volumes":5}},"replicas":"x"}}"#;
    let both = r#"{"spec":{"strategy":{"rollingUpdate":{"maxSurge":true}}},"metadata":{"labels":5,"generation":"x"}}"#;
    let sorted = "DeploymentSpec.spec.minReadySeconds of type int32";
    let surge = "RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32";
    check(&[
        ("POST", DEPLOYMENTS, deployment, 201, &[]),
        ("merge", &path, spec, 422, &[sorted]),
        ("merge", &path, nested, 422, &["DeploymentSpec.spec.replicas of type int32"]),
        ("merge", &path, both, 422, &[surge]),
        // Go restores a strategic merge in the order of declarations: the replicas before the template, the generation before the labels.
        ("strategic", &path, nested, 422, &["unrecognized type: int32"]),
        ("strategic", &path, both, 422, &["unrecognized type: int64"]),
    ])
    .await;
}
