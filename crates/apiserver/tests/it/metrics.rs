//! `/metrics`: the same requests as were sent to a kube-apiserver v1.36.3, and the samples that it showed afterwards.

use expect_test::{Expect, expect};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::WatchParams;
use kube::client::Body;
use kube_apiserver_embedded::{ApiServer, Options, UserInfo};

struct Cluster {
    server: ApiServer,
    admin: kube::Client,
}

impl Cluster {
    fn start() -> Self {
        let server = ApiServer::start(Options::default());
        let admin = kube::Client::new(server.service(), "default");
        Self { server, admin }
    }

    /// Sends `METHOD path`, with a body as `METHOD path content-type body`, and returns status code and body.
    async fn send(&self, request: &str) -> (u16, String) {
        Self::send_as(&self.admin, request).await
    }

    async fn send_as(client: &kube::Client, request: &str) -> (u16, String) {
        let parts: Vec<&str> = request.splitn(4, ' ').collect();
        let mut builder = http::Request::builder().method(parts[0]).uri(parts[1]);
        if let Some(content_type) = parts.get(2) {
            builder = builder.header("content-type", *content_type);
        }
        let body = parts.get(3).map_or_else(Body::empty, |body| Body::from(body.as_bytes().to_vec()));
        let response = client.send(builder.body(body).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect_bytes().await.unwrap();
        (code, String::from_utf8(bytes.to_vec()).unwrap())
    }

    /// Returns the samples of a metric, without those of buckets and sums, that contain a text.
    async fn samples(&self, name: &str, part: &str) -> String {
        let (code, page) = self.send("GET /metrics").await;
        assert_eq!(code, 200);
        let is_shown = |line: &&str| {
            line.starts_with(name)
                && line.contains(part)
                && !line.contains("_bucket")
                && !line.contains("_sum")
        };
        page.lines().filter(is_shown).collect::<Vec<_>>().join("\n")
    }
}

#[expect(clippy::needless_pass_by_value, reason = "`expect!` returns values")]
fn check(samples: String, expected: Expect) {
    expected.assert_eq(&samples);
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn requests_are_counted_with_the_labels_of_kube_apiserver() {
    let cluster = Cluster::start();
    let map =
        |name: &str| format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}}}"#);
    for request in [
        format!("GET {MAPS}"),
        format!("GET {MAPS}/x"),
        "GET /api/v1/configmaps".to_owned(),
        format!("POST {MAPS} application/json {}", map("a")),
        format!("POST {MAPS}?dryRun=All application/json {}", map("b")),
        format!("PATCH {MAPS}/c?fieldManager=x application/apply-patch+yaml {}", map("c")),
        format!(r#"PATCH {MAPS}/c application/merge-patch+json {{"data":{{"x":"1"}}}}"#),
        format!("DELETE {MAPS}/a"),
        format!("DELETE {MAPS}"),
        "GET /version".to_owned(),
        "GET /nothing".to_owned(),
        "GET /apis/nope/v1/x".to_owned(),
        "GET /apis/apps/v1/nope".to_owned(),
        "GET /openapi/v3".to_owned(),
        "GET /apis/apps/v1".to_owned(),
        "GET /healthz".to_owned(),
        format!("PUT {MAPS} application/json {{}}"),
        format!("OPTIONS {MAPS}"),
        "GET /api/v1/namespaces/default/pods/x/log".to_owned(),
    ] {
        cluster.send(&request).await;
    }
    check(
        cluster.samples("apiserver_request_total", "configmaps").await,
        expect![[r#"
            apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="configmaps",scope="cluster",subresource="",verb="LIST",version="v1"} 1
            apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="configmaps",scope="namespace",subresource="",verb="DELETE",version="v1"} 1
            apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="configmaps",scope="namespace",subresource="",verb="LIST",version="v1"} 1
            apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="configmaps",scope="resource",subresource="",verb="DELETE",version="v1"} 1
            apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="configmaps",scope="resource",subresource="",verb="PATCH",version="v1"} 1
            apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="configmaps",scope="resource",subresource="",verb="APPLY",version="v1"} 1
            apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="configmaps",scope="resource",subresource="",verb="POST",version="v1"} 1
            apiserver_request_total{code="201",component="apiserver",dry_run="All",group="",resource="configmaps",scope="resource",subresource="",verb="POST",version="v1"} 1
            apiserver_request_total{code="404",component="apiserver",dry_run="",group="",resource="configmaps",scope="resource",subresource="",verb="GET",version="v1"} 1"#]],
    );
    check(
        cluster.samples("apiserver_request_total", ",resource=\"\",").await,
        expect![[r#"
            apiserver_request_total{code="200",component="",dry_run="",group="",resource="",scope="",subresource="/healthz",verb="GET",version=""} 1
            apiserver_request_total{code="200",component="",dry_run="",group="",resource="",scope="",subresource="openapi/v3",verb="GET",version=""} 1"#]],
    );
    check(
        cluster.samples("apiserver_request_total", "pods").await,
        expect![[
            r#"apiserver_request_total{code="404",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="log",verb="CONNECT",version="v1"} 1"#
        ]],
    );
    check(
        cluster.samples("apiserver_request_duration_seconds", "LIST").await,
        expect![[r#"
            apiserver_request_duration_seconds_count{component="apiserver",dry_run="",group="",resource="configmaps",scope="cluster",subresource="",verb="LIST",version="v1"} 1
            apiserver_request_duration_seconds_count{component="apiserver",dry_run="",group="",resource="configmaps",scope="namespace",subresource="",verb="LIST",version="v1"} 1"#]],
    );
    check(
        cluster.samples("apiserver_current_inflight_requests", "readOnly").await,
        expect![[r#"apiserver_current_inflight_requests{request_kind="readOnly"} 1"#]],
    );
    check(
        cluster.samples("apiserver_resource_objects", "\"configmaps\"").await,
        expect![[r#"apiserver_resource_objects{group="",resource="configmaps"} 0"#]],
    );
    check(
        cluster.samples("apiserver_storage_objects", "\"clusterroles.rbac").await,
        expect![[r#"apiserver_storage_objects{resource="clusterroles.rbac.authorization.k8s.io"} 69"#]],
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_counted_when_it_ends_and_its_events_when_they_are_sent() {
    let cluster = Cluster::start();
    cluster.send(&format!(r#"POST {MAPS} application/json {{"metadata":{{"name":"a"}}}}"#)).await;
    let maps = Api::<ConfigMap>::all(cluster.admin.clone());
    let parameters = WatchParams::default().timeout(90);
    let mut events = Box::pin(maps.watch(&parameters, "0").await.unwrap());
    events.try_next().await.unwrap().expect("an initial object");
    check(
        cluster.samples("apiserver_longrunning_requests", "configmaps").await,
        expect![[
            r#"apiserver_longrunning_requests{component="apiserver",group="",resource="configmaps",scope="cluster",subresource="",verb="WATCH",version="v1"} 1"#
        ]],
    );
    check(cluster.samples("apiserver_request_total", "WATCH").await, expect![""]);
    while events.try_next().await.unwrap().is_some() {}
    drop(events);
    check(
        cluster.samples("apiserver_request", "WATCH").await,
        expect![[r#"
            apiserver_request_duration_seconds_count{component="apiserver",dry_run="",group="",resource="configmaps",scope="cluster",subresource="",verb="WATCH",version="v1"} 1
            apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="configmaps",scope="cluster",subresource="",verb="WATCH",version="v1"} 1"#]],
    );
    let sum = "apiserver_request_duration_seconds_sum{component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"configmaps\"";
    let (_, page) = cluster.send("GET /metrics").await;
    let sum = page.lines().find(|line| line.starts_with(sum) && line.contains("WATCH")).unwrap();
    assert!(sum.ends_with(" 90"), "{sum}");
    // The object, and the bookmark after it.
    check(
        cluster.samples("apiserver_watch_events_total", "configmaps").await,
        expect![[r#"apiserver_watch_events_total{group="",resource="configmaps",version="v1"} 2"#]],
    );
    check(
        cluster.samples("apiserver_longrunning_requests", "configmaps").await,
        expect![[
            r#"apiserver_longrunning_requests{component="apiserver",group="",resource="configmaps",scope="cluster",subresource="",verb="WATCH",version="v1"} 0"#
        ]],
    );
}

#[tokio::test]
async fn refused_requests_are_not_counted_and_the_page_needs_a_permission() {
    let cluster = Cluster::start();
    let jane = UserInfo::new("jane", "", [""; 0]);
    let jane = kube::Client::new(cluster.server.service_for(jane), "default");
    assert_eq!(Cluster::send_as(&jane, &format!("GET {MAPS}")).await.0, 403);
    assert_eq!(Cluster::send_as(&jane, "GET /metrics").await.0, 403);
    check(cluster.samples("apiserver_request_total", "").await, expect![""]);
    let monitor = UserInfo::new("prometheus", "", ["system:monitoring"]);
    let monitor = kube::Client::new(cluster.server.service_for(monitor), "default");
    assert_eq!(Cluster::send_as(&monitor, "GET /metrics").await.0, 200);
}
