//! Usage of quotas by objects of each resource.

use serde_json::json;

use super::*;

fn usage(group: &str, plural: &str, object: &Value) -> String {
    let now = "2026-01-01T00:01:00Z".parse().unwrap();
    ObjectCounter::of(group, plural).unwrap().usage(object, now).to_string()
}

fn pod() -> Value {
    json!({"spec": {"containers": [{"name": "c", "resources": {
        "requests": {"cpu": "1", "memory": "1Gi", "example.com/gpu": "2", "hugepages-2Mi": "2Mi"},
        "limits": {"cpu": "2", "example.com/gpu": "2"},
    }}]}})
}

#[test]
fn every_object_counts_and_some_under_an_older_name_too() {
    assert_eq!(usage("", "configmaps", &json!({})), "configmaps=1,count/configmaps=1");
    assert_eq!(usage("apps", "deployments", &json!({})), "count/deployments.apps=1");
    assert_eq!(usage("example.com", "widgets", &json!({})), "count/widgets.example.com=1");
    assert_eq!(ObjectCounter::of("", "events"), None);
}

#[test]
fn a_pod_uses_its_requests_and_limits_until_it_ends() {
    let all = "count/pods=1,cpu=1,hugepages-2Mi=2Mi,limits.cpu=2,memory=1Gi,pods=1,requests.cpu=1,\
               requests.example.com/gpu=2,requests.hugepages-2Mi=2Mi,requests.memory=1Gi";
    let with = |field: &str, value: &Value| {
        let mut pod = pod();
        pod[field] = value.clone();
        usage("", "pods", &pod)
    };
    assert_eq!(with("status", &json!({"phase": "Running"})), all);
    assert_eq!(with("status", &json!({"phase": "Failed"})), "count/pods=1");
    let deleted = |time: &str| json!({"deletionTimestamp": time, "deletionGracePeriodSeconds": 30});
    assert_eq!(with("metadata", &deleted("2026-01-01T00:00:50Z")), all);
    assert_eq!(with("metadata", &deleted("2026-01-01T00:00:20Z")), "count/pods=1");
}

#[test]
fn services_use_node_ports_and_load_balancers() {
    let service = |spec: Value| usage("", "services", &json!({ "spec": spec }));
    let shown = |balancers: u8, ports: u8| {
        format!("count/services=1,services=1,services.loadbalancers={balancers},services.nodeports={ports}")
    };
    let ports = json!([{"port": 1}, {"port": 2, "nodePort": 30000}]);
    assert_eq!(service(json!({"type": "ClusterIP", "ports": ports})), shown(0, 0));
    assert_eq!(service(json!({"type": "NodePort", "ports": ports})), shown(0, 2));
    assert_eq!(service(json!({"type": "LoadBalancer", "ports": ports})), shown(1, 2));
    let few = json!({"type": "LoadBalancer", "ports": ports, "allocateLoadBalancerNodePorts": false});
    assert_eq!(service(few), shown(1, 1));
}

#[test]
fn claims_use_storage_of_their_class() {
    let mut claim = json!({"spec": {"resources": {"requests": {"storage": "1.5"}}}});
    assert_eq!(
        usage("", "persistentvolumeclaims", &claim),
        "count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=2"
    );
    claim["spec"]["storageClassName"] = json!("fast");
    claim["status"] = json!({"allocatedResources": {"storage": "1Ki"}});
    assert_eq!(
        usage("", "persistentvolumeclaims", &claim),
        "count/persistentvolumeclaims=1,fast.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
         fast.storageclass.storage.k8s.io/requests.storage=1Ki,persistentvolumeclaims=1,requests.storage=1Ki"
    );
}

#[test]
fn claims_use_devices_of_the_alternative_with_the_most() {
    let exact = |class: &str, count: u8| json!({"deviceClassName": class, "allocationMode": "ExactCount", "count": count});
    let claim = json!({"spec": {"devices": {"requests": [
        {"exactly": exact("gpu", 1)},
        {"firstAvailable": [exact("gpu", 2), exact("nic", 1), {"deviceClassName": "gpu", "allocationMode": "All"}]},
    ]}}});
    assert_eq!(
        usage("resource.k8s.io", "resourceclaims", &claim),
        "count/resourceclaims.resource.k8s.io=1,gpu.deviceclass.resource.k8s.io/devices=33,\
         nic.deviceclass.resource.k8s.io/devices=1"
    );
}

#[test]
fn amounts_belong_to_resources() {
    for (group, plural, own, foreign) in [
        (
            "",
            "pods",
            "pods count/pods cpu memory requests.cpu limits.memory ephemeral-storage hugepages-2Mi \
             requests.hugepages-2Mi requests.example.com/gpu requests.deviceclass.resource.kubernetes.io/gpu",
            "services requests.storage example.com/gpu limits.example.com/gpu count/pods.apps",
        ),
        ("", "services", "services services.nodeports count/services", "pods"),
        (
            "",
            "persistentvolumeclaims",
            "requests.storage gold.storageclass.storage.k8s.io/requests.storage persistentvolumeclaims",
            "gold.storageclass.storage.k8s.io/x storage",
        ),
        ("resource.k8s.io", "resourceclaims", "gpu.deviceclass.resource.k8s.io/devices", "devices"),
        ("", "secrets", "secrets count/secrets", "count/configmaps"),
    ] {
        let counter = ObjectCounter::of(group, plural).unwrap();
        assert!(own.split_whitespace().all(|name| counter.tracks(name)), "{plural}: {own}");
        assert!(!foreign.split_whitespace().any(|name| counter.tracks(name)), "{plural}: {foreign}");
    }
}

#[test]
fn containers_must_state_limited_amounts() {
    let pods = ObjectCounter::of("", "pods").unwrap();
    let check = |limited: &[&str]| pods.check_stated(limited, &pod());
    assert_eq!(check(&["pods", "requests.cpu", "memory", "limits.cpu"]), Ok(()));
    assert_eq!(check(&["limits.memory"]), Err("must specify limits.memory for: c".to_owned()));
    assert_eq!(check(&["limits.ephemeral-storage"]), Ok(()));
    let mut pod = json!({"spec": {"containers": [{"name": "b"}, {"name": "a"}]}});
    assert_eq!(
        pods.check_stated(&["memory", "cpu"], &pod),
        Err("must specify cpu for: a,b; memory for: a,b".to_owned())
    );
    pod["spec"]["resources"] = json!({"requests": {"cpu": "1"}});
    assert_eq!(pods.check_stated(&["memory", "cpu"], &pod), Ok(()));
}

#[test]
fn scopes_select_pods_and_claims() {
    let pods = ObjectCounter::of("", "pods").unwrap();
    let within = |name: &str, pod: &Value| pods.is_within(&QuotaScope::present(name), pod);
    let timed = json!({"spec": {"activeDeadlineSeconds": 0, "priorityClassName": "high"}});
    assert!(within("Terminating", &timed) && !within("NotTerminating", &timed));
    assert!(within("BestEffort", &timed) && !within("NotBestEffort", &timed));
    assert!(within("PriorityClass", &timed) && !within("PriorityClass", &pod()));
    assert!(within("NotBestEffort", &pod()) && within("NotTerminating", &pod()));
    let near = json!({"spec": {"affinity": {"podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {"namespaceSelector": {}}}],
    }}}});
    assert!(within("CrossNamespacePodAffinity", &near) && !within("CrossNamespacePodAffinity", &pod()));
    let claims = ObjectCounter::of("", "persistentvolumeclaims").unwrap();
    let classed = json!({"status": {"currentVolumeAttributesClassName": "fast"}});
    assert!(claims.is_within(&QuotaScope::present("VolumeAttributesClass"), &classed));
    assert!(!claims.is_within(&QuotaScope::present("Terminating"), &classed));
}

#[test]
fn only_writes_that_change_the_usage_are_handled() {
    let handles = |plural: &str, subresource: &str, operation: QuotaOperation<'_>, object: &Value| {
        ObjectCounter::of("", plural).unwrap().handles(operation, subresource, object)
    };
    let (old, timed) = (json!({}), json!({"spec": {"activeDeadlineSeconds": 5}}));
    assert!(handles("secrets", "", QuotaOperation::Create, &old));
    assert!(!handles("secrets", "", QuotaOperation::Update(&old), &old));
    assert!(!handles("pods", "", QuotaOperation::Update(&old), &old));
    assert!(handles("pods", "", QuotaOperation::Update(&old), &timed));
    assert!(handles("pods", "resize", QuotaOperation::Update(&old), &old));
    assert!(!handles("pods", "binding", QuotaOperation::Create, &old));
    assert!(handles("persistentvolumeclaims", "status", QuotaOperation::Update(&old), &old));
    assert!(handles("services", "", QuotaOperation::Update(&old), &old));
    assert!(!handles("services", "status", QuotaOperation::Update(&old), &old));
}
