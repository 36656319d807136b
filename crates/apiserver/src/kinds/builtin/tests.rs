//! Life cycle of each stored builtin kind, from creation to deletion.

use bytes::Bytes;
use http_body_util::BodyExt;
use kube_apimachinery::protobuf;
use kube_apimachinery::selector::{FieldSelector, field_values};
use serde_json::{Value, json};

use super::served;
use crate::api::verbs::reply::Reply;
use crate::api::verbs::{create, delete, read};
use crate::kind::registry::ServedKind;
use crate::request::accept::{Accept, Encoding};
use crate::testing::{self, Running};

/// Returns the required fields of a kind, except for the name. Most kinds have none.
fn required(api_version: &str, kind: &str) -> Value {
    let container = json!({"containers": [{"name": "c", "image": "i"}]});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": container});
    let selector = json!({"matchLabels": {"a": "b"}});
    let once = json!({"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"});
    let criteria = json!({"resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]},
    ]});
    match (api_version, kind) {
        ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy") => {
            json!({"spec": {"matchConstraints": criteria, "validations": [{"expression": "true"}]}})
        }
        ("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy") => json!({"spec": {
            "matchConstraints": criteria, "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'remove', path: '/data'}]"}}],
        }}),
        ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding") => {
            json!({"spec": {"policyName": "p", "validationActions": ["Deny"]}})
        }
        ("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyBinding") => {
            json!({"spec": {"policyName": "p"}})
        }
        ("networking.k8s.io/v1", "IPAddress") => json!({
            "metadata": {"name": "10.9.8.7"}, "spec": {"parentRef": {"resource": "services", "name": "s"}},
        }),
        ("networking.k8s.io/v1", "ServiceCIDR") => json!({"spec": {"cidrs": ["10.9.0.0/16"]}}),
        ("apiregistration.k8s.io/v1", _) => json!({
            "metadata": {"name": "v1.example.com"},
            "spec": {"group": "example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1},
        }),
        ("flowcontrol.apiserver.k8s.io/v1", "FlowSchema") => {
            json!({"spec": {"priorityLevelConfiguration": {"name": "exempt"}}})
        }
        ("flowcontrol.apiserver.k8s.io/v1", _) => {
            json!({"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}})
        }
        ("v1", "Service") => json!({"spec": {"ports": [{"port": 80}]}}),
        ("v1", "PersistentVolumeClaim") => {
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
        }
        ("autoscaling/v1" | "autoscaling/v2", _) => json!({"spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 1,
        }}),
        ("networking.k8s.io/v1", "Ingress") => {
            json!({"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}})
        }
        ("resource.k8s.io/v1", "ResourceSlice") => json!({"spec": {
            "driver": "example.com", "pool": {"name": "p", "resourceSliceCount": 1, "generation": 1}, "allNodes": true,
        }}),
        ("storage.k8s.io/v1", "CSIStorageCapacity") => json!({"storageClassName": "c"}),
        ("storage.k8s.io/v1", "VolumeAttributesClass") => {
            json!({"driverName": "example.com", "parameters": {"a": "b"}})
        }
        ("storage.k8s.io/v1", "StorageClass") => json!({"provisioner": "example.com/p"}),
        ("storage.k8s.io/v1", "VolumeAttachment") => {
            json!({"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}})
        }
        ("v1", "PersistentVolume") => json!({"spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/v"},
        }}),
        ("v1", "Pod") => json!({"spec": container}),
        ("v1", "PodTemplate") => json!({"template": template}),
        ("rbac.authorization.k8s.io/v1", "RoleBinding" | "ClusterRoleBinding") => {
            json!({"roleRef": {"kind": "ClusterRole", "name": "r"}})
        }
        ("v1", "ReplicationController") => json!({"spec": {"selector": {"a": "b"}, "template": template}}),
        ("v1", "Event") => json!({"involvedObject": {"namespace": "default"}}),
        ("events.k8s.io/v1", "Event") => json!({
            "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "example.com/c", "type": "Normal",
            "reportingInstance": "i", "action": "a", "reason": "r", "regarding": {"namespace": "default"},
        }),
        ("apps/v1", "ControllerRevision") => json!({"data": {"a": "b"}, "revision": 1}),
        ("apps/v1", _) => json!({"spec": {"selector": selector, "template": template, "serviceName": "s"}}),
        ("batch/v1", "Job") => json!({"spec": {"template": {"spec": once}}}),
        ("batch/v1", "CronJob") => {
            json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": once}}}}})
        }
        ("apiextensions.k8s.io/v1", _) => testing::definition(),
        ("certificates.k8s.io/v1", "CertificateSigningRequest") => json!({"spec": {
            "request": testing::CERTIFICATE_REQUEST, "signerName": "example.com/s", "usages": ["client auth"],
        }}),
        ("node.k8s.io/v1", "RuntimeClass") => json!({"handler": "runc"}),
        ("networking.k8s.io/v1", "IngressClass") => json!({"spec": {"controller": "example.com/c"}}),
        ("discovery.k8s.io/v1", _) => json!({"addressType": "IPv4", "endpoints": []}),
        _ => json!({}),
    }
}

/// Returns a minimal object of the kind.
fn object(served: &ServedKind) -> Value {
    let mut object = required(&served.kind.api_version, &served.kind.kind);
    object["apiVersion"] = json!(served.kind.api_version);
    object["kind"] = json!(served.kind.kind);
    if object["metadata"]["name"].is_null() {
        object["metadata"] = json!({"name": "x"});
    }
    object["metadata"]["labels"] = json!({"shown": "yes"});
    object
}

async fn body(reply: Reply) -> Bytes {
    reply.body.collect().await.unwrap().to_bytes()
}

fn path(served: &ServedKind) -> String {
    let resource = &served.resource;
    let prefix = if resource.group.is_empty() { "/api" } else { "/apis" };
    let namespace = if resource.namespaced { "/namespaces/default" } else { "" };
    format!("{prefix}/{}{namespace}/{}", resource.api_version(), resource.plural)
}

/// Creates, gets, lists and deletes an object in one encoding. Returns the state that the GET returned.
async fn live(server: &Running, served: &ServedKind, encoding: Encoding) -> Value {
    let what = format!("{} {} in {encoding:?}", served.kind.api_version, served.kind.kind);
    let collection = path(served);
    let object = object(served);
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    let call = |path: &str| {
        let mut call = testing::call(server, path);
        call.content_type = Some(encoding.content_type().to_owned());
        call.accept = Accept { encoding, ..Accept::JSON };
        call
    };
    let decode = |bytes: &Bytes| match encoding {
        Encoding::Protobuf => protobuf::decode(bytes).unwrap(),
        _ => serde_json::from_slice(bytes).unwrap(),
    };
    let sent = match encoding {
        Encoding::Protobuf => protobuf::encode(&object).unwrap_or_else(|| panic!("{what}: no message")),
        _ => object.to_string().into_bytes(),
    };
    let created = testing::now(create::run(&call(&collection), &Bytes::from(sent)));
    let created = created.unwrap_or_else(|error| panic!("{what}: {}", error.message()));
    let created = decode(&body(created).await);

    let one = format!("{collection}/{name}");
    let got = decode(&body(testing::now(read::get(&call(&one))).unwrap()).await);
    if served.resource.plural != "customresourcedefinitions" {
        assert_eq!(got, created, "{what}");
    }
    assert_eq!(got["metadata"]["labels"]["shown"], "yes", "{what}");
    let list = decode(&body(read::list(&call(&collection)).await.unwrap()).await);
    let names = list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].clone());
    assert!(names.into_iter().any(|listed| listed == name.as_str()), "{what}: {list}");
    testing::delete(server, &one).unwrap();
    got
}

/// Removes empty values, which protobuf cannot tell from absent ones.
fn drop_nothing(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(drop_nothing);
            fields.retain(|_, value| !value.is_null() && *value != json!([]) && *value != json!({}));
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nothing),
        _ => {}
    }
}

/// The paused clock gives both objects the same times in their conditions.
#[tokio::test(start_paused = true)]
async fn every_stored_kind_lives_in_json_and_in_protobuf() {
    let registry = testing::server().registry();
    let stored =
        registry.all().filter(|served| served.resource.allows("create") && served.resource.action.is_none());
    let mut count = 0;
    for served in stored {
        // Each encoding has a server of its own, so objects of one cannot affect the other.
        let [json, protobuf] = [Encoding::Json, Encoding::Protobuf];
        let mut seen = Vec::new();
        for encoding in [json, protobuf] {
            let mut object = live(&testing::server(), served, encoding).await;
            for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
                object["metadata"].as_object_mut().unwrap().remove(field);
            }
            drop_nothing(&mut object);
            seen.push(object);
        }
        if !["Job", "CustomResourceDefinition", "PersistentVolume"].contains(&served.kind.kind.as_str()) {
            // These three contain UIDs or random names outside of their metadata.
            assert_eq!(seen[0], seen[1], "{} {}", served.kind.api_version, served.kind.kind);
        }
        count += 1;
    }
    assert!(count >= 60, "{count} kinds");
}

#[tokio::test]
async fn an_autoscaler_is_stored_once_and_shown_in_both_versions() {
    let server = testing::server();
    let path =
        |version: &str| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
    let old = json!({
        "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3,
            "targetCPUUtilizationPercentage": 60,
        },
    });
    testing::create(&server, &path("v1"), &old).unwrap();
    let get = async |version: &str| -> Value {
        let reply =
            testing::now(read::get(&testing::call(&server, &format!("{}/web", path(version))))).unwrap();
        serde_json::from_slice(&body(reply).await).unwrap()
    };
    let new = get("v2").await;
    assert_eq!(new["apiVersion"], "autoscaling/v2");
    assert_eq!(new["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 60);
    let old = get("v1").await;
    assert_eq!(old["spec"]["targetCPUUtilizationPercentage"], 60);
    assert_eq!(old["spec"]["minReplicas"], 1);
    assert_eq!(old["metadata"]["uid"], new["metadata"]["uid"]);
    let list = read::list(&testing::call(&server, &path("v1"))).await.unwrap();
    let list: Value = serde_json::from_slice(&body(list).await).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let call = testing::call(&server, &format!("{}/web", path("v1")));
    testing::now(delete::run(&call, &Bytes::new())).unwrap();
    assert!(testing::now(read::get(&testing::call(&server, &format!("{}/web", path("v2"))))).is_err());
}

#[test]
fn every_builtin_kind_can_be_answered_in_protobuf() {
    for (resource, _) in served() {
        let kind = json!({"apiVersion": resource.api_version(), "kind": resource.kind});
        assert!(protobuf::encode(&kind).is_some(), "{kind}");
        let list = protobuf::ListMessage::of(&resource.api_version(), &resource.list_kind);
        assert!(list.is_some() || !resource.allows("list"), "{kind}: its list");
    }
}

#[test]
fn the_source_of_an_event_is_its_component_or_its_reporter() {
    let served = served();
    let (events, _) = served.iter().find(|(resource, _)| resource.plural == "events").unwrap();
    let selector = FieldSelector::parse("source=kubelet", events.selectable()).unwrap();
    let selects = |object: Value| selector.matches_values(&field_values(&events.selectable, &object));
    assert!(selects(json!({"source": {"component": "kubelet"}, "reportingComponent": "x"})));
    assert!(selects(json!({"source": {}, "reportingComponent": "kubelet"})));
    assert!(!selects(json!({"source": {"component": "x"}, "reportingComponent": "kubelet"})));
}
