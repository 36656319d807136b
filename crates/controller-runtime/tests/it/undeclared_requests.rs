//! Requests that no registration declares: refused, reported or sent.

use std::{
    io::{Read, Seek},
    sync::Arc,
};

use controller_runtime::{
    Builder, DynamicKind, Manager, ObjectKey, Verb, client::Patch, manager::UndeclaredRequests,
};
use expect_test::expect;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, PodStatus};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use kube_envtest::Environment;
use tokio::task::JoinSet;

use crate::rights::{nothing, options};

/// A manager that refuses undeclared requests, on a server that would carry out all of them.
#[tokio::test(start_paused = true)]
async fn an_undeclared_request_is_not_sent_and_fails_the_run() {
    let env = Environment::builder().start().await.unwrap();
    let config_maps = Api::<ConfigMap>::default_namespaced(env.client());
    let mut config_map = ConfigMap::default();
    config_map.metadata.name = Some("a".to_owned());
    config_maps.create(&PostParams::default(), &config_map).await.unwrap();

    let manager = Manager::new(env.client(), options().undeclared_requests(UndeclaredRequests::Refuse));
    let builder = Builder::managed_by(&manager).for_kind::<ConfigMap>().needs::<ConfigMap>([Verb::Update]);
    builder.without_events().complete(nothing()).unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let mut tasks = JoinSet::new();
    tasks.spawn(manager.clone().run(async { stopped.await.unwrap_or(()) }));
    manager.ready().await.unwrap();

    let key = ObjectKey::<ConfigMap>::new("default", "a");
    let refused = manager.client().delete_key(&key).await.unwrap_err();
    let called = format!(" (called at {}:{})", file!(), line!() - 1);
    assert!(refused.is_forbidden(), "{refused}");
    expect![[r#"
        delete configmaps default/a: configmaps "a" is forbidden: User "rights" cannot delete resource "configmaps" in API group "" in the namespace "default": the operator did not send the request (403 Forbidden); no registration declares this right: add .needs::<ConfigMap>([Verb::Delete]) to the controller's builder and render the manifests again"#]]
    .assert_eq(&refused.to_string().replace(&called, ""));
    assert!(refused.to_string().ends_with(&called), "{refused}");
    let kube = Api::<ConfigMap>::default_namespaced(manager.client().kube().clone());
    let refused = kube.delete("a", &DeleteParams::default()).await.unwrap_err();
    let line = ".needs_right(Right::of_resource(\"\", \"configmaps\", [Verb::Delete]))";
    assert!(refused.to_string().contains(line), "{refused}");
    // The object exists, because the deletes were not sent. Declared requests are sent, and so are those that every user may make.
    let mut found = config_maps.get("a").await.unwrap();
    found.data = Some([("a".to_owned(), "b".to_owned())].into());
    manager.client().update(&found).await.unwrap();
    manager.client().kube().apiserver_version().await.unwrap();

    stop.send(()).unwrap();
    let error = tasks.join_next().await.unwrap().unwrap().unwrap_err();
    expect![[r#"
        requests were not sent, because no registration declares them:
          delete configmaps in default: no registration declares this right: add .needs::<ConfigMap>([Verb::Delete]) to the controller's builder and render the manifests again
          delete configmaps in default: no registration declares this right: add .needs_right(Right::of_resource("", "configmaps", [Verb::Delete])) and render the manifests again"#]]
    .assert_eq(&error.to_string().replacen(&called, "", 1));
    assert!(error.to_string().contains(&format!("again{called}\n")), "{error}");
}

/// Requests are the same whether their kind is known at compile time or at run time, and whichever method makes them.
#[tokio::test(start_paused = true)]
async fn a_refused_request_names_the_line_that_made_it() {
    let env = Environment::builder().start().await.unwrap();
    let manager = Manager::new(env.client(), options().undeclared_requests(UndeclaredRequests::Refuse));
    let client = manager.client();
    let (key, pods) = (ObjectKey::<Pod>::new("default", "a"), DynamicKind::of::<Pod>());
    let mut pod = Pod::default();
    pod.metadata.name = Some("a".to_owned());
    pod.metadata.namespace = Some("default".to_owned());
    let mut versioned = pod.clone();
    versioned.metadata.resource_version = Some("1".to_owned());
    let scale = client.subresource(&key, "scale");
    let merge = serde_json::json!({});
    let dynamic_key = ObjectKey::new("default", "a");
    macro_rules! check {
        ($($request:expr),* $(,)?) => {
            $(
                let (line, error) = (line!(), $request.await.map(drop).unwrap_err());
                let place = format!(" (called at crates/controller-runtime/tests/it/undeclared_requests.rs:{line})");
                assert!(error.to_string().ends_with(&place), "{}: {error}", stringify!($request));
            )*
        };
    }
    check!(client.get(&key));
    check!(client.list::<Pod>());
    check!(client.create(&pod));
    check!(client.update(&versioned));
    check!(client.update_status(&versioned));
    check!(client.apply(&pod));
    check!(client.apply_status(&key, &PodStatus::default()));
    check!(client.merge_patch(&key, &merge));
    check!(client.delete(&pod));
    check!(client.delete_key(&key));
    check!(client.delete_all::<Pod>());
    check!(client.of(pods.clone()).get(&dynamic_key));
    check!(client.of(pods.clone()).list());
    check!(client.of(pods.clone()).delete_key(&dynamic_key));
    check!(client.of(pods.clone()).patch(&dynamic_key, Patch::merge(&merge)));
    let error = scale.get::<serde_json::Value>().await.unwrap_err();
    assert!(
        error.to_string().contains(" (called at crates/controller-runtime/tests/it/undeclared_requests.rs:"),
        "{error}"
    );
}

/// As in the release of an `Operator`.
#[tokio::test(start_paused = true)]
async fn reported_requests_are_sent_logged_once_and_counted() {
    let log = Arc::new(tempfile::tempfile().unwrap());
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(Arc::clone(&log)).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let env = Environment::builder().start().await.unwrap();
    let options = options().undeclared_requests(UndeclaredRequests::Report);
    let manager = Manager::new(env.client(), options);
    let builder = Builder::managed_by(&manager).for_kind::<ConfigMap>().needs::<ConfigMap>([Verb::Create]);
    builder.without_events().complete(nothing()).unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let mut tasks = JoinSet::new();
    tasks.spawn(manager.clone().run(async { stopped.await.unwrap_or(()) }));
    manager.ready().await.unwrap();

    for name in ["a", "b", "c"] {
        let mut config_map = ConfigMap::default();
        (config_map.metadata.name, config_map.metadata.namespace) =
            (Some(name.to_owned()), Some("default".to_owned()));
        manager.client().create(&config_map).await.unwrap();
        manager.client().delete(&config_map).await.unwrap();
    }
    manager.client().kube().request_text(http::Request::get("/metrics").body(Vec::new()).unwrap()).await.ok();
    stop.send(()).unwrap();
    tasks.join_next().await.unwrap().unwrap().expect("the run does not fail");

    let text = manager.metrics().encode();
    let count = "controller_runtime_undeclared_requests_total{verb=\"delete\",resource=\"configmaps\"} 3\n";
    assert!(text.contains(count), "{text}");
    assert!(!text.contains("undeclared_requests_total{verb=\"create\""), "{text}");
    let mut text = String::new();
    (&*log).rewind().unwrap();
    (&*log).read_to_string(&mut text).unwrap();
    let lines: Vec<_> = text.lines().filter(|line| line.contains("without a declaration")).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    for part in [
        "delete configmaps in default",
        ".needs::<ConfigMap>([Verb::Delete])",
        "tests/it/undeclared_requests.rs:",
    ] {
        assert!(lines[0].contains(part), "{lines:?}");
    }
    assert!(lines[1].contains("manager.needs_url(\"/metrics\", [Verb::Get])"), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn undeclared_requests_are_sent_unless_the_options_refuse_them() {
    let env = Environment::builder().start().await.unwrap();
    let manager = Manager::new(env.client(), options());
    let mut config_map = ConfigMap::default();
    (config_map.metadata.name, config_map.metadata.namespace) =
        (Some("a".to_owned()), Some("default".to_owned()));
    manager.client().create(&config_map).await.unwrap();
}
