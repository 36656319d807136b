//! Managers on a genuine API server: permissions, elections, events, access to metrics.

use std::time::Duration;

use controller_runtime::{
    Action, Builder, Client, Context, Manager, ManagerOptions, ObjectKey, ReconcileError, Reconciler,
    leader_election::{LeaderElectionOptions, Timing},
    serving::{AllowedTo, CertFiles, MetricsServerOptions, Serving},
};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    authorization::v1::SubjectAccessReview,
    coordination::v1::Lease,
    core::v1::{Node, ServiceAccount},
    events::v1::Event,
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use kube::{Api, api::PostParams};
use kube_envtest::eventually;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_rustls::rustls::version::TLS13;

use super::{Genuine, NOBODY, SOON, genuine};
use crate::{
    access::{certificate, speaks_tls},
    servers::{anywhere, ask, connect},
    support::{Running, Widget},
};

impl Genuine {
    async fn make<K>(&self, api: Api<K>, object: Value)
    where
        K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    {
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    /// Binds a cluster role to the user or service account.
    async fn bind(&self, name: &str, role: &str, subject: &Value) {
        let binding = json!({
            "metadata": { "name": format!("{}-{name}", self.namespace) },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [subject],
        });
        self.make::<ClusterRoleBinding>(Api::all(self.kube.clone()), binding).await;
    }

    /// Waits until RBAC has received the binding.
    async fn until_allowed(&self, spec: Value) {
        let review: SubjectAccessReview =
            serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap();
        let reviews = Api::<SubjectAccessReview>::all(self.kube.clone());
        let allowed = eventually(SOON, async || {
            let answer =
                reviews.create(&PostParams::default(), &review).await.map_err(|error| error.to_string())?;
            let status = answer.status.unwrap_or_default();
            if status.allowed { Ok(()) } else { Err(format!("{status:?}")) }
        });
        allowed.await.unwrap();
    }
}

fn user(name: &str) -> Value {
    json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name })
}

#[tokio::test]
async fn missing_rights_are_reported_at_once_and_suffice_when_granted() {
    let Some(cluster) = genuine().await else { return };
    let nobody = cluster.nobody().await;
    let namespace = cluster.namespace.as_str();
    let declared = || {
        let manager = Manager::new(nobody.clone(), ManagerOptions::new("test"));
        let widgets = manager.cache().of::<Widget>().namespaces([namespace]).build().unwrap();
        let nodes = manager.cached::<Node>();
        (manager, widgets, nodes)
    };
    let (manager, _widgets, _nodes) = declared();
    let began = Instant::now();
    let error = Running::begin(manager).end().await.expect_err("it may not").to_string();
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let role = format!(
        "a Role in namespace {namespace} with the rule \
         {{apiGroups: [\"example.com\"], resources: [\"widgets\"], verbs: [\"list\", \"watch\"]}}"
    );
    let cluster_role = "a ClusterRole bound by a ClusterRoleBinding with the rule \
                        {apiGroups: [\"\"], resources: [\"nodes\"], verbs: [\"list\", \"watch\"]}";
    assert!(error.contains(&role) && error.contains(cluster_role), "{error}");

    let rule = |group: &str, resource: &str| json!([{ "apiGroups": [group], "resources": [resource], "verbs": ["list", "watch"] }]);
    let reader = json!({ "metadata": { "name": "reader" }, "rules": rule("example.com", "widgets") });
    cluster.make(cluster.api::<Role>(), reader).await;
    let binding = json!({
        "metadata": { "name": "reader" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader" },
        "subjects": [user(NOBODY)],
    });
    cluster.make(cluster.api::<RoleBinding>(), binding).await;
    let reader = format!("{namespace}-nodes");
    let nodes = json!({ "metadata": { "name": reader }, "rules": rule("", "nodes") });
    cluster.make::<ClusterRole>(Api::all(cluster.kube.clone()), nodes).await;
    cluster.bind("nodes", &reader, &user(NOBODY)).await;
    for (group, resource, namespace) in [("example.com", "widgets", namespace), ("", "nodes", "")] {
        let asked = json!({ "group": group, "resource": resource, "namespace": namespace, "verb": "watch" });
        cluster.until_allowed(json!({ "user": NOBODY, "resourceAttributes": asked })).await;
    }
    cluster.client().create(&cluster.widget("a", 1)).await.unwrap();
    let (manager, widgets, _nodes) = declared();
    let _running = Running::start(manager).await;
    assert_eq!(widgets.len().unwrap(), 1);
}

#[tokio::test]
async fn a_standby_takes_the_lease_when_the_leader_stops_or_dies() {
    let Some(cluster) = genuine().await else { return };
    let candidate = async |name: &str| {
        let election = LeaderElectionOptions::new("the-lease").namespace(&cluster.namespace).identity(name);
        let timing =
            Timing::try_new(Duration::from_secs(3), Duration::from_secs(2), Duration::from_millis(500));
        let options = ManagerOptions::new("test")
            .leader_election(election.timing(timing.unwrap()).label("tier", "one"));
        let manager = Manager::new(cluster.kube.clone(), options);
        (manager.leads(), Running::start(manager).await)
    };
    let leases = cluster.api::<Lease>();
    let held = async || {
        let lease = leases.get("the-lease").await.unwrap();
        let spec = lease.spec.unwrap();
        assert!(spec.acquire_time.is_some() && spec.renew_time >= spec.acquire_time, "{spec:?}");
        assert_eq!(spec.lease_duration_seconds, Some(3));
        assert_eq!(lease.metadata.labels.unwrap()["tier"], "one");
        (spec.holder_identity.unwrap(), spec.lease_transitions.unwrap())
    };
    let (mut first_leads, first) = candidate("first").await;
    first_leads.wait_for(|leads| *leads).await.unwrap();
    let (mut second_leads, second) = candidate("second").await;
    assert_eq!((held().await, *second_leads.borrow()), (("first".to_owned(), 0), false));

    first.stop().await.unwrap();
    let began = Instant::now();
    second_leads.wait_for(|leads| *leads).await.unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "a lease given back is not waited for: {:?}",
        began.elapsed()
    );
    assert_eq!(held().await, ("second".to_owned(), 1));

    let (mut third_leads, _third) = candidate("third").await;
    drop(second);
    third_leads.wait_for(|leads| *leads).await.unwrap();
    assert_eq!(held().await, ("third".to_owned(), 2));
}

/// A reconciler that records the same event at each of four attempts, and another at the last.
struct Complains(Client);

impl Reconciler for Complains {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, key: &ObjectKey<Widget>, cx: &Context) -> Result<Action, ReconcileError> {
        let widget = self.0.get(key).await?.expect("it is there");
        cx.events().warning(&widget, "Broken", "Inspect", format!("attempt {}", cx.attempt()));
        if cx.attempt() < 3 {
            return Err(ReconcileError::new("broken"));
        }
        cx.events().normal(&widget, "Mended", "Mend", "it works");
        Ok(Action::done())
    }
}

#[tokio::test]
async fn a_recorded_event_is_stored_by_the_api_server() {
    let Some(cluster) = genuine().await else { return };
    let cache = controller_runtime::cache::CacheOptions::default();
    let here = controller_runtime::cache::Namespaces::new([cluster.namespace.as_str()]);
    let manager =
        Manager::new(cluster.kube.clone(), ManagerOptions::new("test").cache(cache.namespaces(&here)));
    Builder::managed_by(&manager).for_kind::<Widget>().complete(Complains(manager.client())).unwrap();
    let running = Running::start(manager).await;
    let created = cluster.client().create(&cluster.widget("a", 1)).await.unwrap();
    let events = cluster.api::<Event>();
    let answered = eventually(SOON, async || {
        let events = events.list(&Default::default()).await.map_err(|error| error.to_string())?;
        let mended = events.iter().any(|event| event.reason.as_deref() == Some("Mended"));
        if mended { Ok(()) } else { Err(format!("{} events", events.items.len())) }
    });
    answered.await.unwrap();
    running.stop().await.unwrap();
    let mut rows: Vec<_> = events.list(&Default::default()).await.unwrap().into_iter().collect();
    rows.sort_by_key(|event| event.reason.clone());
    let [broken, mended] = rows.as_slice() else { panic!("{rows:#?}") };
    let row = |event: &Event| {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let count = event.series.as_ref().map(|series| series.count);
        (text(&event.type_), text(&event.reason), text(&event.action), text(&event.note), count)
    };
    let of = |kind: &str, reason: &str, action: &str, note: &str, count| {
        (kind.to_owned(), reason.to_owned(), action.to_owned(), note.to_owned(), count)
    };
    assert_eq!(row(broken), of("Warning", "Broken", "Inspect", "attempt 0", Some(4)));
    assert_eq!(row(mended), of("Normal", "Mended", "Mend", "it works", None));
    let regarding = mended.regarding.as_ref().unwrap();
    assert_eq!((regarding.uid.clone(), regarding.kind.as_deref()), (created.metadata.uid, Some("Widget")));
    assert_eq!(mended.reporting_controller.as_deref(), Some("widget"));
}

#[tokio::test]
async fn metrics_are_served_only_to_an_authorized_service_account() {
    let Some(cluster) = genuine().await else { return };
    let namespace = cluster.namespace.as_str();
    let accounts = cluster.api::<ServiceAccount>();
    let token = async |name: &str| {
        cluster.make(accounts.clone(), json!({ "metadata": { "name": name } })).await;
        let request = TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
        let made = accounts.create_token_request(name, &PostParams::default(), &request).await.unwrap();
        format!("Authorization: Bearer {}\r\n", made.status.unwrap().token.unwrap())
    };
    let (stranger, scraper) = (token("stranger").await, token("scraper").await);
    let role = format!("{namespace}-metrics");
    let rules = json!([{ "nonResourceURLs": ["/metrics"], "verbs": ["get"] }]);
    let may_see = json!({ "metadata": { "name": role }, "rules": rules });
    cluster.make::<ClusterRole>(Api::all(cluster.kube.clone()), may_see).await;
    let subject = json!({ "kind": "ServiceAccount", "name": "scraper", "namespace": namespace });
    cluster.bind("metrics", &role, &subject).await;
    let path = json!({ "path": "/metrics", "verb": "get" });
    let name = format!("system:serviceaccount:{namespace}:scraper");
    cluster.until_allowed(json!({ "user": name, "nonResourceAttributes": path })).await;
    // A manager needs this role, which every cluster has.
    cluster.bind("delegator", "system:auth-delegator", &user(NOBODY)).await;
    for (group, resource) in
        [("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews")]
    {
        let asked = json!({ "group": group, "resource": resource, "verb": "create" });
        cluster.until_allowed(json!({ "user": NOBODY, "resourceAttributes": asked })).await;
    }

    let (folder, roots) = certificate();
    let serving = Serving::Files(CertFiles::in_dir(folder.path()));
    let metrics = MetricsServerOptions::default().serving(serving).allowed_to(AllowedTo::Authorized);
    let options = ManagerOptions::new("test").metrics(metrics.bind_address(anywhere()));
    let manager = Manager::new(cluster.nobody().await, options);
    let _running = Running::start(manager.clone()).await;
    let tls = speaks_tls(roots, &[&TLS13], &[]);
    let scrape = async |headers: &str| {
        let stream = connect(manager.metrics_address().unwrap()).await;
        let stream = tls.connect("localhost".try_into().unwrap(), stream).await.unwrap();
        ask(stream, "/metrics", headers).await
    };
    assert_eq!(scrape("").await.0, 401);
    assert_eq!(scrape("Authorization: Bearer made-up\r\n").await.0, 401);
    let denied = format!("Authorization denied for user system:serviceaccount:{namespace}:stranger\n");
    assert_eq!(scrape(&stranger).await, (403, denied));
    let (code, text) = scrape(&scraper).await;
    assert!(code == 200 && text.contains("certwatcher_read_certificate_total"), "{code} {text}");
}
