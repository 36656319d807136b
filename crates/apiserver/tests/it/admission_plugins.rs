//! Effects of admission plugins on requests of clients. Tests run in paused time, in which waiting takes no time.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use http::Request;
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{AdmissionPlugin, ApiServer, ApiService, Options, Profile};
use serde_json::{Value, json};
use tower_service::Service;

const NAMESPACE: &str = "/api/v1/namespaces/default";
/// A certificate request of `O = system:masters, CN = mallory`.
const MASTER: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIbU1JR05BZ0VBTUNzeEZ6QVZCZ05WQkFvTURuTjVjM1JsYlRwdFlYTjBaWEp6TVJBd0RnWURWUVFEREFkdApZV3hzYjNKNU1Ga3dFd1lIS29aSXpqMENBUVlJS29aSXpqMERBUWNEUWdBRXQxNlVoUFFZL0NVSkJFUTVyN1gvCjFOOEpwZDNTNkI2b0pqTGtCVmV6YjRweDg3dTZPbUo5WGlPMG56ZzQ3eVJJQm4zMm1EQk9uSDFVMTlFWG01cHEKb2FBQU1Bb0dDQ3FHU000OUJBTUNBMGdBTUVVQ0lRQ2tXczdOQmxvSm4wT2Z6Z0FWUnVyWG5ncFVibXFLaE80RQp6NUN4bFFacFRRSWdiOVNlY2FpZlVSRDJVQ0srb1RTeURrM0dxQWF6aThndXdocUNSakdLSmZjPQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";

async fn send(service: &ApiService, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    let response = service.clone().call(request).await.unwrap();
    let (head, body) = response.into_parts();
    (head.status.as_u16(), serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap())
}

/// Sends a request that succeeds, and returns the texts of its warnings.
async fn warnings(service: &ApiService, method: &str, path: &str, body: &Value) -> Vec<String> {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    let response = service.clone().call(request).await.unwrap();
    assert!(response.status().is_success(), "{method} {path}: {}", response.status());
    let headers = response.headers().get_all("warning").iter();
    headers.map(|warning| warning.to_str().unwrap().replace('\\', "")).collect()
}

async fn post(service: &ApiService, path: &str, body: &Value) -> (u16, Value) {
    send(service, "POST", path, body).await
}

/// Creates an object that is accepted.
async fn create(service: &ApiService, path: &str, body: &Value) -> Value {
    let (code, created) = post(service, path, body).await;
    assert_eq!(code, 201, "{created}");
    created
}

async fn get(service: &ApiService, path: &str) -> Value {
    send(service, "GET", path, &Value::Null).await.1
}

/// Waits until the controllers are done: paused time advances when the runtime is idle.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

fn start(profile: Profile) -> (ApiServer, ApiService) {
    let server = ApiServer::start(Options::default().profile(profile));
    let service = server.service();
    (server, service)
}

fn pod(name: &str, cpu: Option<&str>) -> Value {
    let mut container = json!({"name": "c", "image": "i"});
    if let Some(cpu) = cpu {
        container["resources"] = json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
    }
    json!({"metadata": {"name": name}, "spec": {"containers": [container]}})
}

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

/// Returns `status.used` of the quota `q`.
async fn used(service: &ApiService) -> Value {
    get(service, &format!("{NAMESPACE}/resourcequotas/q")).await["status"]["used"].clone()
}

/// Creates the quota `q` and waits until it is counted.
async fn quota(service: &ApiService, spec: Value) {
    let quota = json!({"metadata": {"name": "q"}, "spec": spec});
    create(service, &format!("{NAMESPACE}/resourcequotas"), &quota).await;
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_quota_is_enforced_once_it_is_counted() {
    let (_server, service) = start(Profile::Dev);
    let secrets = format!("{NAMESPACE}/secrets");
    create(&service, &secrets, &named("before")).await;
    quota(&service, json!({"hard": {"secrets": "2", "count/configmaps": "5"}})).await;
    assert_eq!(used(&service).await["secrets"], "1");
    create(&service, &secrets, &named("a")).await;
    assert_eq!(used(&service).await["secrets"], "2");
    let (code, refused) = post(&service, &secrets, &named("b")).await;
    assert_eq!((code, &refused["reason"]), (403, &json!("Forbidden")));
    assert_eq!(
        refused["message"],
        "secrets \"b\" is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=2, limited: secrets=2"
    );
    send(&service, "DELETE", &format!("{secrets}/before"), &Value::Null).await;
    settle().await;
    assert_eq!(used(&service).await["secrets"], "1");
    create(&service, &secrets, &named("b")).await;
    let more = json!({"spec": {"hard": {"secrets": "3", "count/configmaps": null}}});
    send(&service, "PATCH", &format!("{NAMESPACE}/resourcequotas/q"), &more).await;
    settle().await;
    let counted = get(&service, &format!("{NAMESPACE}/resourcequotas/q")).await;
    assert_eq!(counted["status"], json!({"hard": {"secrets": "3"}, "used": {"secrets": "2"}}));
}

#[tokio::test(start_paused = true)]
async fn without_its_controller_a_quota_allows_everything() {
    let (_server, service) = start(Profile::Envtest);
    quota(&service, json!({"hard": {"secrets": "0"}})).await;
    assert_eq!(used(&service).await, Value::Null);
    create(&service, &format!("{NAMESPACE}/secrets"), &named("a")).await;
    // The test does the work of the controller.
    let status = json!({"status": {"hard": {"secrets": "1"}, "used": {"secrets": "1"}}});
    send(&service, "PATCH", &format!("{NAMESPACE}/resourcequotas/q/status"), &status).await;
    assert_eq!(post(&service, &format!("{NAMESPACE}/secrets"), &named("b")).await.0, 403);
}

#[tokio::test(start_paused = true)]
async fn concurrent_creates_never_exceed_a_quota_together() {
    let (_server, service) = start(Profile::Dev);
    let maps = format!("{NAMESPACE}/secrets");
    quota(&service, json!({"hard": {"secrets": "5"}})).await;
    let creates = (0..20).map(|n| {
        let (service, maps) = (service.clone(), maps.clone());
        async move { post(&service, &maps, &named(&format!("s{n}"))).await.0 }
    });
    let codes = join_all(creates).await;
    assert_eq!(codes.iter().filter(|code| **code == 201).count(), 5, "{codes:?}");
    assert_eq!(used(&service).await["secrets"], "5");
}

#[tokio::test(start_paused = true)]
async fn only_objects_that_are_stored_are_charged() {
    let (_server, service) = start(Profile::Dev);
    let secrets = format!("{NAMESPACE}/secrets");
    quota(&service, json!({"hard": {"secrets": "2"}})).await;
    create(&service, &secrets, &named("a")).await;
    assert_eq!(post(&service, &secrets, &named("a")).await.0, 409);
    assert_eq!(post(&service, &format!("{secrets}?dryRun=All"), &named("b")).await.0, 201);
    assert_eq!(used(&service).await["secrets"], "1");
    create(&service, &secrets, &named("b")).await;
    assert_eq!(post(&service, &format!("{secrets}?dryRun=All"), &named("c")).await.0, 403);
    assert_eq!(post(&service, &secrets, &named("a")).await.0, 403, "the quota is checked before the name");
}

#[tokio::test(start_paused = true)]
async fn pods_are_charged_until_they_end() {
    let (_server, service) = start(Profile::Dev);
    let pods = format!("{NAMESPACE}/pods");
    quota(&service, json!({"hard": {"requests.cpu": "2", "pods": "10", "count/pods": "10"}})).await;
    let (code, refused) = post(&service, &pods, &pod("a", None)).await;
    assert_eq!(
        (code, refused["message"].as_str().unwrap()),
        (403, "pods \"a\" is forbidden: failed quota: q: must specify requests.cpu for: c")
    );
    create(&service, &pods, &pod("a", Some("1500m"))).await;
    assert_eq!(used(&service).await, json!({"count/pods": "1", "pods": "1", "requests.cpu": "1500m"}));
    assert_eq!(post(&service, &pods, &pod("b", Some("1"))).await.0, 403);
    let ended = json!({"status": {"phase": "Succeeded"}});
    send(&service, "PATCH", &format!("{pods}/a/status"), &ended).await;
    settle().await;
    assert_eq!(used(&service).await, json!({"count/pods": "1", "pods": "0", "requests.cpu": "0"}));
    create(&service, &pods, &pod("b", Some("1"))).await;
}

/// The pods' node is lost: nothing removes them at the end of their grace periods.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_deletion_is_overdue_is_not_charged() {
    let (_server, service) = start(Profile::Dev);
    let pods = format!("{NAMESPACE}/pods");
    quota(&service, json!({"hard": {"requests.cpu": "2", "pods": "10"}})).await;
    for (name, grace) in [("a", 30), ("b", 60)] {
        let mut pod = pod(name, Some("1"));
        pod["spec"]["nodeName"] = json!("lost");
        pod["spec"]["terminationGracePeriodSeconds"] = json!(grace);
        create(&service, &pods, &pod).await;
        send(&service, "DELETE", &format!("{pods}/{name}"), &Value::Null).await;
    }
    settle().await;
    assert_eq!(used(&service).await, json!({"pods": "2", "requests.cpu": "2"}));
    // Each deletion is overdue after a second grace period.
    for (seconds, number) in [(58, "2"), (5, "1"), (55, "1"), (5, "0"), (600, "0")] {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        assert_eq!(used(&service).await, json!({"pods": number, "requests.cpu": number}));
    }
    assert_eq!(get(&service, &format!("{pods}/a")).await["metadata"]["deletionGracePeriodSeconds"], 30);
}

#[tokio::test(start_paused = true)]
async fn a_changed_service_and_custom_objects_are_charged() {
    let (_server, service) = start(Profile::Dev);
    let definition = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    create(&service, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    quota(&service, json!({"hard": {"services.nodeports": "1", "count/things.example.com": "1"}})).await;
    let thing =
        |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}});
    let things = "/apis/example.com/v1/namespaces/default/things";
    create(&service, things, &thing("a")).await;
    assert_eq!(post(&service, things, &thing("b")).await.0, 403);
    let ports = json!([{"port": 1, "name": "a"}, {"port": 2, "name": "b"}]);
    let services = format!("{NAMESPACE}/services");
    create(&service, &services, &json!({"metadata": {"name": "s"}, "spec": {"ports": ports}})).await;
    let exposed = json!({"spec": {"type": "NodePort"}});
    let (code, refused) = send(&service, "PATCH", &format!("{services}/s"), &exposed).await;
    assert_eq!(
        (code, refused["message"].as_str().unwrap()),
        (
            403,
            "services \"s\" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=0, \
             limited: services.nodeports=1"
        )
    );
    let one = json!({"spec": {"type": "NodePort", "ports": [{"port": 1, "name": "a"}]}});
    assert_eq!(send(&service, "PATCH", &format!("{services}/s"), &one).await.0, 200);
    assert_eq!(used(&service).await["services.nodeports"], "1");
}

#[tokio::test(start_paused = true)]
async fn objects_that_controllers_create_are_counted_a_second_later() {
    let (_server, service) = start(Profile::Dev);
    quota(&service, json!({"hard": {"count/serviceaccounts": "5"}})).await;
    assert_eq!(used(&service).await["count/serviceaccounts"], "1");
    send(&service, "DELETE", &format!("{NAMESPACE}/serviceaccounts/default"), &Value::Null).await;
    settle().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(used(&service).await["count/serviceaccounts"], "1", "the controller made a new one");
}

#[tokio::test(start_paused = true)]
async fn limits_are_set_and_enforced_in_their_namespace() {
    let (_server, service) = start(Profile::Envtest);
    let range = json!({"metadata": {"name": "l"}, "spec": {"limits": [
        {"type": "Container", "default": {"cpu": "1"}, "max": {"cpu": "2"}},
    ]}});
    create(&service, &format!("{NAMESPACE}/limitranges"), &range).await;
    let pods = format!("{NAMESPACE}/pods");
    let created = create(&service, &pods, &pod("a", None)).await;
    let resources = &created["spec"]["containers"][0]["resources"];
    assert_eq!(resources, &json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}));
    assert_eq!(created["status"]["qosClass"], "Burstable");
    let (code, refused) = post(&service, &pods, &pod("b", Some("3"))).await;
    assert_eq!(
        (code, refused["message"].as_str().unwrap()),
        (403, "pods \"b\" is forbidden: maximum cpu usage per Container is 2, but limit is 3")
    );
    create(&service, "/api/v1/namespaces/kube-public/pods", &pod("b", Some("3"))).await;
    let larger =
        json!({"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "5"}}}]}});
    let (code, refused) = send(&service, "PATCH", &format!("{pods}/a/resize"), &larger).await;
    assert_eq!(code, 403, "a resized pod is limited too: {refused}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_gets_the_account_and_the_token_of_its_namespace() {
    let (_server, service) = start(Profile::Dev);
    create(&service, "/api/v1/namespaces", &named("team")).await;
    // The pod can be created at once, because the plugin waits until a controller has created the account.
    let created = create(&service, "/api/v1/namespaces/team/pods", &pod("a", None)).await;
    let spec = &created["spec"];
    assert_eq!(
        (&spec["serviceAccountName"], &spec["serviceAccount"]),
        (&json!("default"), &json!("default"))
    );
    let volume = spec["volumes"][0]["name"].as_str().unwrap();
    assert!(
        volume.starts_with("kube-api-access-") && volume.len() == "kube-api-access-".len() + 5,
        "{volume}"
    );
    assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], volume);
    let owned = created["metadata"]["managedFields"].to_string();
    assert!(!owned.contains("volumes") && !owned.contains("serviceAccount"), "{owned}");
    let mut other = pod("b", None);
    other["spec"]["serviceAccountName"] = json!("nope");
    let (code, refused) = post(&service, "/api/v1/namespaces/team/pods", &other).await;
    assert_eq!(
        (code, refused["message"].as_str().unwrap()),
        (
            403,
            "pods \"b\" is forbidden: error looking up service account team/nope: serviceaccount \"nope\" not found"
        )
    );
    let account = json!({
        "metadata": {"name": "own"}, "automountServiceAccountToken": false, "imagePullSecrets": [{"name": "pull"}],
    });
    create(&service, "/api/v1/namespaces/team/serviceaccounts", &account).await;
    other["spec"]["serviceAccountName"] = json!("own");
    let created = create(&service, "/api/v1/namespaces/team/pods", &other).await;
    assert_eq!(created["spec"]["imagePullSecrets"], json!([{"name": "pull"}]));
    assert_eq!(created["spec"]["volumes"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn plugins_can_be_switched_on_and_off() {
    let options = Options::default()
        .enable_admission_plugin(AdmissionPlugin::ServiceAccount)
        .disable_admission_plugin(AdmissionPlugin::DefaultTolerationSeconds);
    let server = ApiServer::start(options);
    let service = server.service();
    let pods = format!("{NAMESPACE}/pods");
    // No controller creates the account.
    let (code, refused) = post(&service, &pods, &pod("a", None)).await;
    assert_eq!(code, 403, "{refused}");
    create(&service, &format!("{NAMESPACE}/serviceaccounts"), &named("default")).await;
    let created = create(&service, &pods, &pod("a", None)).await;
    assert_eq!(created["spec"]["tolerations"], Value::Null);
    let server =
        ApiServer::start(Options::default().disable_admission_plugin(AdmissionPlugin::NamespaceLifecycle));
    create(&server.service(), "/api/v1/namespaces/missing/configmaps", &named("a")).await;
    let (_server, service) = start(Profile::Envtest);
    assert_eq!(post(&service, "/api/v1/namespaces/missing/configmaps", &named("a")).await.0, 404);
    let created = create(&service, &pods, &pod("a", None)).await;
    assert_eq!(created["spec"]["serviceAccountName"], Value::Null);
    assert_eq!(created["spec"]["tolerations"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn default_classes_are_set_and_decide_whether_a_claim_can_grow() {
    let (_server, service) = start(Profile::Envtest);
    let class = |name: &str, group: &str, spec: Value| {
        let mark = format!("{group}.kubernetes.io/is-default-class");
        let mut class = json!({"metadata": {"name": name, "annotations": {mark: "true"}}});
        class.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        class
    };
    let storage = class("fast", "storageclass", json!({"provisioner": "example.com/p"}));
    create(&service, "/apis/storage.k8s.io/v1/storageclasses", &storage).await;
    let ingresses = class("web", "ingressclass", json!({"spec": {"controller": "example.com/c"}}));
    create(&service, "/apis/networking.k8s.io/v1/ingressclasses", &ingresses).await;
    let claims = format!("{NAMESPACE}/persistentvolumeclaims");
    let claim = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        }})
    };
    let created = create(&service, &claims, &claim("a")).await;
    assert_eq!(created["spec"]["storageClassName"], "fast");
    assert_eq!(created["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    let mut none = claim("b");
    none["spec"]["storageClassName"] = json!("");
    assert_eq!(create(&service, &claims, &none).await["spec"]["storageClassName"], "");
    let ingress = json!({"metadata": {"name": "i"}, "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 1}}}}});
    let created = create(&service, "/apis/networking.k8s.io/v1/namespaces/default/ingresses", &ingress).await;
    assert_eq!(created["spec"]["ingressClassName"], "web");

    let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
    send(&service, "PATCH", &format!("{claims}/a/status"), &bound).await;
    let larger = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    let (code, refused) = send(&service, "PATCH", &format!("{claims}/a"), &larger).await;
    assert_eq!(code, 403, "{refused}");
    let expandable = json!({"allowVolumeExpansion": true});
    send(&service, "PATCH", "/apis/storage.k8s.io/v1/storageclasses/fast", &expandable).await;
    let (code, grown) = send(&service, "PATCH", &format!("{claims}/a"), &larger).await;
    assert_eq!(code, 200, "{grown}");
}

#[tokio::test(start_paused = true)]
async fn nodes_have_a_taint_and_their_pods_their_zone() {
    let (_server, service) = start(Profile::Envtest);
    let zone = "topology.kubernetes.io/zone";
    let node = json!({"metadata": {"name": "n", "labels": {zone: "z"}}});
    let created = create(&service, "/api/v1/nodes", &node).await;
    assert_eq!(created["spec"]["taints"][0]["key"], "node.kubernetes.io/not-ready");
    let pods = format!("{NAMESPACE}/pods");
    create(&service, &pods, &pod("bound", None)).await;
    let binding = json!({"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "n"}});
    create(&service, &format!("{pods}/bound/binding"), &binding).await;
    let mut assigned = pod("assigned", None);
    assigned["spec"]["nodeName"] = json!("n");
    create(&service, &pods, &assigned).await;
    for name in ["bound", "assigned"] {
        let labels = get(&service, &format!("{pods}/{name}")).await["metadata"]["labels"].clone();
        assert_eq!(labels, json!({zone: "z"}), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_client_certificate_is_issued_for_the_group_of_masters() {
    let (_server, service) = start(Profile::Envtest);
    let request = |name: &str, signer: &str| json!({"metadata": {"name": name}, "spec": {"request": MASTER, "signerName": signer, "usages": ["client auth"]}});
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    create(&service, requests, &request("a", "example.com/other")).await;
    let (code, refused) =
        post(&service, requests, &request("b", "kubernetes.io/kube-apiserver-client")).await;
    assert_eq!(
        (code, refused["message"].as_str().unwrap()),
        (
            403,
            "certificatesigningrequests.certificates.k8s.io \"b\" is forbidden: use of kubernetes.io/kube-apiserver-client \
             signer with system:masters group is not allowed"
        )
    );
}

/// Recorded from kube-apiserver v1.36.3.
#[tokio::test(start_paused = true)]
async fn pods_meet_the_standard_of_their_namespace() {
    const HARDENING: &str = "allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false), \
         unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or \
         container \"c\" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container \"c\" must set \
         securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";
    let label = |mode: &str, value: Value| json!({"metadata": {"labels": {format!("pod-security.kubernetes.io/{mode}"): value}}});
    let (_server, service) = start(Profile::Envtest);
    let pods = format!("{NAMESPACE}/pods");
    for name in ["a", "b"] {
        create(&service, &pods, &pod(name, None)).await;
    }
    let invalid = send(&service, "PATCH", NAMESPACE, &label("enforce", json!("strict"))).await;
    assert_eq!(invalid.0, 422);
    assert_eq!(
        invalid.1["message"],
        "Namespace \"default\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one of \
         privileged, baseline, restricted"
    );
    assert_eq!(
        warnings(&service, "PATCH", NAMESPACE, &label("enforce", json!("restricted"))).await,
        [
            "299 - \"existing pods in namespace \"default\" violate the new PodSecurity enforce level \"restricted:latest\"\"",
            "299 - \"a (and 1 other pod): allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile\"",
        ]
    );
    let (code, refused) = post(&service, &pods, &pod("c", None)).await;
    assert_eq!(code, 403, "{refused}");
    let expected =
        format!("pods \"c\" is forbidden: violates PodSecurity \"restricted:latest\": {HARDENING}");
    assert_eq!(refused["message"], expected);
    // Other changes of existing pods are accepted.
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    assert!(warnings(&service, "PATCH", &format!("{pods}/a"), &labelled).await.is_empty());

    // Enforced standards only warn about the templates of workloads.
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod("", None)["spec"]});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let warning = format!("299 - \"would violate PodSecurity \"restricted:latest\": {HARDENING}\"");
    assert_eq!(warnings(&service, "POST", deployments, &deployment).await, [&*warning]);

    send(&service, "PATCH", NAMESPACE, &label("enforce", Value::Null)).await;
    send(&service, "PATCH", NAMESPACE, &label("warn", json!("restricted"))).await;
    assert_eq!(warnings(&service, "POST", &pods, &pod("c", None)).await, [&*warning]);
}
