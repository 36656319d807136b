use controller_runtime::{Client, ObjectKey, has_finalizer};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, PodStatus};
use serde_json::json;

use crate::support::{Widget, WidgetStatus, config_map, environment, key, widget};

#[tokio::test]
async fn apply_creates_changes_and_removes_own_fields() {
    let env = environment().await;
    let (client, other) = (Client::new(env.client(), "one"), Client::new(env.client(), "two"));
    let data = |pairs: &[(&str, &str)]| {
        let mut map = config_map("settings");
        map.data = Some(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect());
        map
    };
    client.apply(&data(&[("a", "1"), ("b", "2")])).await.unwrap();
    other.apply(&data(&[("c", "3")])).await.unwrap();
    let applied = client.apply(&data(&[("a", "9")])).await.unwrap();
    let left: Vec<_> = applied.data.unwrap().into_iter().collect();
    assert_eq!(left, [("a".to_owned(), "9".to_owned()), ("c".to_owned(), "3".to_owned())]);
}

#[tokio::test]
async fn applying_the_same_again_changes_nothing() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let first = client.apply(&config_map("settings")).await.unwrap();
    let second = client.apply(&config_map("settings")).await.unwrap();
    assert_eq!(first.metadata.resource_version, second.metadata.resource_version);
}

#[tokio::test]
async fn apply_status_writes_the_status_alone() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    client.create(&widget("a", 7)).await.unwrap();
    let written = client.apply_status(&key("a"), &WidgetStatus { seen: 7 }).await.unwrap();
    assert_eq!((written.spec.size, written.status), (7, Some(WidgetStatus { seen: 7 })));
    assert_eq!(written.metadata.generation, Some(1));

    let widgets = client.of(client.discover("example.com", "v1", "Widget").await.unwrap());
    let written = widgets.apply_status(&ObjectKey::new("default", "a"), &json!({ "seen": 8 })).await.unwrap();
    assert_eq!((&written.data["spec"]["size"], &written.data["status"]["seen"]), (&json!(7), &json!(8)));
}

#[tokio::test]
async fn the_status_of_a_builtin_kind_is_applied_and_owned() {
    let env = environment().await;
    let client = Client::new(env.client(), "kubelet");
    let mut pod = Pod::default();
    pod.metadata.namespace = Some("default".to_owned());
    pod.metadata.name = Some("web".to_owned());
    let containers = json!([{ "name": "web", "image": "web" }]);
    pod.spec = Some(serde_json::from_value(json!({ "containers": containers })).unwrap());
    let web = ObjectKey::of(&client.create(&pod).await.unwrap()).unwrap();

    let running = PodStatus { phase: Some("Running".to_owned()), ..PodStatus::default() };
    client.apply_status(&web, &running).await.unwrap();
    let noted = PodStatus { message: Some("no address yet".to_owned()), ..PodStatus::default() };
    let network = client.field_manager("network");
    let status = network.apply_status(&web, &noted).await.unwrap().status.unwrap();
    assert_eq!(
        (status.phase.as_deref(), status.message.as_deref()),
        (Some("Running"), Some("no address yet"))
    );

    let theirs = network.apply_status(&web, &running).without_force().await.unwrap();
    assert_eq!(theirs.status.unwrap().message, None, "an owned field that is no longer applied is removed");
    let failed = PodStatus { phase: Some("Failed".to_owned()), ..PodStatus::default() };
    let error = network.apply_status(&web, &failed).without_force().await.unwrap_err();
    assert!(error.conflict().is_some(), "{error}");
}

#[tokio::test]
async fn errors_name_verb_and_object_and_have_kinds() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    client.create(&widget("a", 1)).await.unwrap();
    let error = client.create(&widget("a", 1)).await.unwrap_err();
    assert!(error.is_already_exists());
    assert_eq!(
        error.to_string(),
        "create widgets.example.com default/a: widgets.example.com \"a\" already exists (409 AlreadyExists)"
    );
    let error = client.apply_status(&key("b"), &WidgetStatus { seen: 1 }).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    let error = client.apply(&ConfigMap::default()).await.unwrap_err();
    assert!(error.to_string().contains("configmaps (without a name)"), "{error}");
    assert_eq!(error.code(), None);
}

#[tokio::test]
async fn get_distinguishes_absence_from_failure() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    assert!(client.get(&key("a")).await.unwrap().is_none());
    client.create(&widget("a", 1)).await.unwrap();
    assert_eq!(client.get(&key("a")).await.unwrap().unwrap().spec.size, 1);
}

#[tokio::test]
async fn delete_removes_only_the_given_object_and_ignores_its_absence() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let first = client.create(&widget("a", 1)).await.unwrap();
    client.delete(&first).await.unwrap();
    client.delete(&first).await.unwrap();
    client.create(&widget("a", 2)).await.unwrap();
    let error = client.delete(&first).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert_eq!(client.get(&key("a")).await.unwrap().unwrap().spec.size, 2);
}

#[tokio::test]
async fn a_finalizer_keeps_a_deleted_object_until_it_is_removed() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let created = client.create(&widget("a", 1)).await.unwrap();
    client.add_finalizer(&created, "example.com/one").await.unwrap();
    let error = client.add_finalizer(&created, "example.com/two").await.unwrap_err();
    assert!(error.is_conflict(), "an old version must not overwrite the finalizers: {error}");

    let held: Widget = client.get(&key("a")).await.unwrap().unwrap();
    assert!(has_finalizer(&held, "example.com/one"));
    client.delete(&held).await.unwrap();
    let deleting = client.get(&key("a")).await.unwrap().expect("the finalizer holds it");
    assert!(deleting.metadata.deletion_timestamp.is_some());
    client.remove_finalizer(&deleting, "example.com/one").await.unwrap();
    assert!(client.get(&key("a")).await.unwrap().is_none());
    assert!(
        !client.remove_finalizer(&deleting, "example.com/one").await.unwrap(),
        "what is gone needs no removal"
    );
}

#[tokio::test]
async fn keys_of_cluster_scoped_kinds_have_no_namespace() {
    use k8s_openapi::api::core::v1::Namespace;
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let default = client.get(&ObjectKey::<Namespace>::new((), "default")).await.unwrap();
    assert!(default.is_some());
}

#[tokio::test]
async fn an_unserved_kind_is_not_a_missing_object() {
    let env = kube_envtest::Environment::builder().start().await.unwrap();
    let client = Client::new(env.client(), "test");
    let error = client.get(&key("a")).await.unwrap_err();
    assert!(error.is_not_served() && !error.is_not_found());
    assert_eq!(
        error.to_string(),
        "get widgets.example.com default/a: the API server does not serve this kind: is its \
         CustomResourceDefinition installed?"
    );
    assert!(client.delete(&widget("a", 1)).await.is_err());
}

#[tokio::test]
async fn invalid_requests_fail_before_they_are_sent() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let mut homeless = config_map("a");
    homeless.metadata.namespace = None;
    let expected_message = "metadata.namespace must be set: the kind is namespaced";
    for error in [client.create(&homeless).await.unwrap_err(), client.apply(&homeless).await.unwrap_err()] {
        assert!(error.to_string().ends_with(expected_message), "{error}");
    }
    let mut generated = config_map("");
    generated.metadata.name = None;
    generated.metadata.generate_name = Some("settings-".to_owned());
    let created = client.create(&generated).await.unwrap();
    assert!(created.metadata.name.unwrap().starts_with("settings-"));
}
