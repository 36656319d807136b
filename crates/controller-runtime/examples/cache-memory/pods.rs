//! Pods like those of a busy cluster: 6 to 7 KB of JSON with their field ownership, similar within a Deployment, and
//! different in names, uids, addresses, hashes and times.

use std::fmt::Write;

/// Replicas of a Deployment.
const REPLICAS: usize = 8;

/// Deployments per application, such as one per environment, each in its own namespace.
const NAMESPACES: usize = 40;

/// Generates the pods of a cluster one after another.
pub(crate) struct Pods {
    rng: fastrand::Rng,
    made: usize,
    deployment: Deployment,
}

/// Values that the pods of a Deployment have in common.
struct Deployment {
    app: String,
    namespace: String,
    team: &'static str,
    hash: String,
    replica_set_uid: String,
    version: String,
    config_checksum: String,
    image_digest: String,
    sidecar: bool,
    variables: Vec<(String, String)>,
}

impl Pods {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let deployment = Deployment::new(&mut rng, 0);
        Self { rng, made: 0, deployment }
    }

    /// Returns the next pod in the form in which an API server sends it.
    pub(crate) fn next(&mut self) -> String {
        if self.made > 0 && self.made.is_multiple_of(REPLICAS) {
            self.deployment = Deployment::new(&mut self.rng, self.made / REPLICAS);
        }
        self.made += 1;
        pod(&self.deployment, &mut self.rng, self.made)
    }
}

impl Deployment {
    fn new(rng: &mut fastrand::Rng, number: usize) -> Self {
        const TEAMS: [&str; 7] =
            ["payments", "search", "identity", "checkout", "catalog", "fraud", "platform"];
        const NOUNS: [&str; 12] = [
            "api",
            "worker",
            "frontend",
            "scheduler",
            "ingest",
            "gateway",
            "indexer",
            "mailer",
            "ledger",
            "proxy",
            "exporter",
            "cron",
        ];
        let team = TEAMS[rng.usize(..TEAMS.len())];
        let app = format!("{team}-{}-{}", NOUNS[rng.usize(..NOUNS.len())], number % 97);
        let variables = (0..rng.usize(4..9))
            .map(|i| match i % 3 {
                0 => (
                    format!("{}_URL", NOUNS[rng.usize(..12)].to_uppercase()),
                    format!("https://{}.{team}.svc.cluster.local:8443/v1", NOUNS[rng.usize(..12)]),
                ),
                1 => (format!("FEATURE_{}", word(rng, 8).to_uppercase()), rng.bool().to_string()),
                _ => (
                    format!("{}_LIMIT", NOUNS[rng.usize(..12)].to_uppercase()),
                    rng.u32(1..100_000).to_string(),
                ),
            })
            .collect();
        Self {
            namespace: format!("{team}-{}", number % NAMESPACES),
            team,
            hash: word(rng, 10),
            replica_set_uid: uid(rng),
            version: format!("{}.{}.{}", rng.u8(1..9), rng.u8(..40), rng.u8(..20)),
            config_checksum: hex(rng, 64),
            image_digest: hex(rng, 64),
            sidecar: rng.u8(..3) == 0,
            variables,
            app,
        }
    }
}

fn pod(of: &Deployment, rng: &mut fastrand::Rng, number: usize) -> String {
    let Deployment { app, namespace, team, hash, version, .. } = of;
    let (suffix, token) = (word(rng, 5), word(rng, 5));
    let node = format!("ip-10-{}-{}-{}.eu-central-1.compute.internal", rng.u8(..4), rng.u8(..), rng.u8(..));
    let (ip, host_ip) = (
        format!("10.{}.{}.{}", rng.u8(64..96), rng.u8(..), rng.u8(..)),
        format!("10.0.{}.{}", rng.u8(..), rng.u8(..)),
    );
    let (created, started) = (time(rng), time(rng));
    let mut json = String::with_capacity(8192);
    let mut put = |text: std::fmt::Arguments<'_>| json.write_fmt(text).expect("a String takes everything");
    put(format_args!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"annotations":{{"checksum/config":"{checksum}","cni.projectcalico.org/containerID":"{container}","cni.projectcalico.org/podIP":"{ip}/32","cni.projectcalico.org/podIPs":"{ip}/32","prometheus.io/port":"9090","prometheus.io/scrape":"true"}},"creationTimestamp":"{created}","generateName":"{app}-{hash}-","generation":1,"labels":{{"app.kubernetes.io/instance":"{app}","app.kubernetes.io/managed-by":"Helm","app.kubernetes.io/name":"{app}","app.kubernetes.io/version":"{version}","pod-template-hash":"{hash}","team":"{team}"}}"#,
        checksum = of.config_checksum,
        container = hex(rng, 64),
    ));
    put(format_args!(
        r#","managedFields":[{{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:annotations":{{".":{{}},"f:checksum/config":{{}},"f:prometheus.io/port":{{}},"f:prometheus.io/scrape":{{}}}},"f:generateName":{{}},"f:labels":{{".":{{}},"f:app.kubernetes.io/instance":{{}},"f:app.kubernetes.io/managed-by":{{}},"f:app.kubernetes.io/name":{{}},"f:app.kubernetes.io/version":{{}},"f:pod-template-hash":{{}},"f:team":{{}}}},"f:ownerReferences":{{".":{{}},"k:{{\"uid\":\"{owner}\"}}":{{}}}}}},"f:spec":{{"f:containers":{{"k:{{\"name\":\"{app}\"}}":{{".":{{}},"f:env":{{".":{{}}"#,
        owner = of.replica_set_uid,
    ));
    for (name, _) in &of.variables {
        put(format_args!(r#","k:{{\"name\":\"{name}\"}}":{{".":{{}},"f:name":{{}},"f:value":{{}}}}"#));
    }
    put(format_args!(
        r#"}},"f:image":{{}},"f:imagePullPolicy":{{}},"f:name":{{}},"f:ports":{{".":{{}},"k:{{\"containerPort\":8080,\"protocol\":\"TCP\"}}":{{".":{{}},"f:containerPort":{{}},"f:name":{{}},"f:protocol":{{}}}}}},"f:terminationMessagePath":{{}},"f:terminationMessagePolicy":{{}}}}}},"f:dnsPolicy":{{}},"f:enableServiceLinks":{{}},"f:restartPolicy":{{}},"f:schedulerName":{{}},"f:securityContext":{{}},"f:serviceAccount":{{}},"f:serviceAccountName":{{}},"f:terminationGracePeriodSeconds":{{}}}}}},"manager":"kube-controller-manager","operation":"Update","time":"{created}"}},{{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{{"f:status":{{"f:conditions":{{"k:{{\"type\":\"ContainersReady\"}}":{{".":{{}},"f:lastProbeTime":{{}},"f:lastTransitionTime":{{}},"f:status":{{}},"f:type":{{}}}},"k:{{\"type\":\"Initialized\"}}":{{".":{{}},"f:lastProbeTime":{{}},"f:lastTransitionTime":{{}},"f:status":{{}},"f:type":{{}}}},"k:{{\"type\":\"Ready\"}}":{{".":{{}},"f:lastProbeTime":{{}},"f:lastTransitionTime":{{}},"f:status":{{}},"f:type":{{}}}}}},"f:containerStatuses":{{}},"f:hostIP":{{}},"f:hostIPs":{{}},"f:phase":{{}},"f:podIP":{{}},"f:podIPs":{{".":{{}},"k:{{\"ip\":\"{ip}\"}}":{{".":{{}},"f:ip":{{}}}}}},"f:startTime":{{}}}}}},"manager":"kubelet","operation":"Update","subresource":"status","time":"{started}"}}]"#,
    ));
    put(format_args!(
        r#","name":"{app}-{hash}-{suffix}","namespace":"{namespace}","ownerReferences":[{{"apiVersion":"apps/v1","blockOwnerDeletion":true,"controller":true,"kind":"ReplicaSet","name":"{app}-{hash}","uid":"{owner}"}}],"resourceVersion":"{rv}","uid":"{uid}"}}"#,
        owner = of.replica_set_uid,
        rv = 100_000_000 + number * 7 + rng.usize(..7),
        uid = uid(rng),
    ));
    put(format_args!(r#","spec":{{"containers":[{{"env":["#));
    for (i, (name, value)) in of.variables.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        put(format_args!(r#"{comma}{{"name":"{name}","value":"{value}"}}"#));
    }
    put(format_args!(
        r#"],"image":"registry.example.com/{team}/{app}:{version}","imagePullPolicy":"IfNotPresent","livenessProbe":{{"failureThreshold":3,"httpGet":{{"path":"/healthz","port":8080,"scheme":"HTTP"}},"periodSeconds":10,"successThreshold":1,"timeoutSeconds":1}},"name":"{app}","ports":[{{"containerPort":8080,"name":"http","protocol":"TCP"}}],"resources":{{"limits":{{"memory":"512Mi"}},"requests":{{"cpu":"100m","memory":"256Mi"}}}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","volumeMounts":[{{"mountPath":"/etc/{app}","name":"config"}},{{"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount","name":"kube-api-access-{token}","readOnly":true}}]}}"#,
    ));
    if of.sidecar {
        put(format_args!(
            r#",{{"args":["--upstream=http://127.0.0.1:8080","--listen=:8443"],"image":"registry.example.com/platform/proxy:1.29.1","imagePullPolicy":"IfNotPresent","name":"proxy","ports":[{{"containerPort":8443,"name":"https","protocol":"TCP"}}],"resources":{{"requests":{{"cpu":"10m","memory":"64Mi"}}}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","volumeMounts":[{{"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount","name":"kube-api-access-{token}","readOnly":true}}]}}"#,
        ));
    }
    put(format_args!(
        r#"],"dnsPolicy":"ClusterFirst","enableServiceLinks":true,"nodeName":"{node}","preemptionPolicy":"PreemptLowerPriority","priority":0,"restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{{}},"serviceAccount":"{app}","serviceAccountName":"{app}","terminationGracePeriodSeconds":30,"tolerations":[{{"effect":"NoExecute","key":"node.kubernetes.io/not-ready","operator":"Exists","tolerationSeconds":300}},{{"effect":"NoExecute","key":"node.kubernetes.io/unreachable","operator":"Exists","tolerationSeconds":300}}],"volumes":[{{"configMap":{{"defaultMode":420,"name":"{app}"}},"name":"config"}},{{"name":"kube-api-access-{token}","projected":{{"defaultMode":420,"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}},{{"configMap":{{"items":[{{"key":"ca.crt","path":"ca.crt"}}],"name":"kube-root-ca.crt"}}}},{{"downwardAPI":{{"items":[{{"fieldRef":{{"apiVersion":"v1","fieldPath":"metadata.namespace"}},"path":"namespace"}}]}}}}]}}}}]}}"#,
    ));
    put(format_args!(r#","status":{{"conditions":["#));
    for (i, kind) in ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .iter()
        .enumerate()
    {
        let (comma, at) = (if i == 0 { "" } else { "," }, if i < 3 { &started } else { &created });
        put(format_args!(
            r#"{comma}{{"lastProbeTime":null,"lastTransitionTime":"{at}","status":"True","type":"{kind}"}}"#
        ));
    }
    put(format_args!(r#"],"containerStatuses":["#));
    for name in [Some(&**app), of.sidecar.then_some("proxy")].into_iter().flatten() {
        let comma = if name == "proxy" { "," } else { "" };
        put(format_args!(
            r#"{comma}{{"containerID":"containerd://{container}","image":"registry.example.com/{team}/{name}:{version}","imageID":"registry.example.com/{team}/{name}@sha256:{digest}","lastState":{{}},"name":"{name}","ready":true,"restartCount":{restarts},"started":true,"state":{{"running":{{"startedAt":"{started}"}}}}}}"#,
            container = hex(rng, 64),
            digest = of.image_digest,
            restarts = if rng.u8(..10) == 0 { rng.u8(1..5) } else { 0 },
        ));
    }
    put(format_args!(
        r#"],"hostIP":"{host_ip}","hostIPs":[{{"ip":"{host_ip}"}}],"phase":"Running","podIP":"{ip}","podIPs":[{{"ip":"{ip}"}}],"qosClass":"Burstable","startTime":"{created}"}}}}"#,
    ));
    json
}

/// Characters of random names in Kubernetes.
fn word(rng: &mut fastrand::Rng, length: usize) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    (0..length).map(|_| char::from(LETTERS[rng.usize(..LETTERS.len())])).collect()
}

fn hex(rng: &mut fastrand::Rng, length: usize) -> String {
    (0..length).map(|_| char::from(b"0123456789abcdef"[rng.usize(..16)])).collect()
}

fn uid(rng: &mut fastrand::Rng) -> String {
    format!("{}-{}-4{}-a{}-{}", hex(rng, 8), hex(rng, 4), hex(rng, 3), hex(rng, 3), hex(rng, 12))
}

fn time(rng: &mut fastrand::Rng) -> String {
    format!(
        "2026-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        rng.u8(9..12),
        rng.u8(1..29),
        rng.u8(..24),
        rng.u8(..60),
        rng.u8(..60)
    )
}
