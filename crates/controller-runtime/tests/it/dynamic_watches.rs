//! Watches of dynamic kinds.

use controller_runtime::{
    Builder, DynamicKind, Kind, MapMeta, ObjectKey, cache::Meta, set_controller_reference,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::core::{DynamicObject, PartialObjectMeta};
use kube_envtest::Environment;

use crate::{
    support::{NoteAll, Running, Widget, config_map, environment, manager, settle, widget},
    watches::{client, watched},
};

#[tokio::test(start_paused = true)]
async fn dynamic_kinds_are_reconciled_owned_and_watched() {
    let env = environment().await;
    let widgets = client(&env).discover("example.com", "v1", "Widget").await.unwrap();
    let maps = client(&env).discover("", "v1", "ConfigMap").await.unwrap();
    let (manager, notes) = (manager(&env), NoteAll::<ObjectKey<DynamicObject>>::new());
    let mapped = MapMeta(|meta: &Meta| Some(ObjectKey::<DynamicObject>::new(meta.namespace()?, "mapped")));
    let secrets = DynamicKind::namespaced("", "v1", "Secret", "secrets");
    let handle = Builder::managed_by(&manager)
        .for_dynamic(&widgets)
        .owns_dynamic(&maps)
        .watches(Kind::<DynamicObject, _>::dynamic(&secrets, mapped))
        .complete(notes.clone())
        .unwrap();
    assert_eq!(handle.name(), "widget");
    let _running = Running::start(manager).await;
    let owner = client(&env).create(&widget("a", 1)).await.unwrap();
    settle().await;
    assert_eq!(notes.take(), ["object default/a"]);
    owned_and_mapped(&env, &owner, || notes.take()).await;
}

/// Creates a ConfigMap of `owner`, which enqueues its owner, and a Secret, which a function maps.
async fn owned_and_mapped(
    env: &Environment,
    owner: &Widget,
    take: impl Fn() -> Vec<String>,
) -> (ConfigMap, Secret) {
    let mut child = config_map("child");
    set_controller_reference(owner, &mut child).unwrap();
    client(env).create(&child).await.unwrap();
    settle().await;
    assert_eq!(take(), ["object default/a"]);
    let mut secret = Secret::default();
    secret.metadata.namespace = Some("default".to_owned());
    secret.metadata.name = Some("s".to_owned());
    client(env).create(&secret).await.unwrap();
    settle().await;
    assert_eq!(take(), ["object default/mapped"]);
    (child, secret)
}

#[tokio::test(start_paused = true)]
async fn metadata_of_dynamic_kinds_are_reconciled_and_watched() {
    let env = environment().await;
    let widgets = client(&env).discover("example.com", "v1", "Widget").await.unwrap();
    let maps = client(&env).discover("", "v1", "ConfigMap").await.unwrap();
    let owner = client(&env).create(&widget("a", 1)).await.unwrap();
    let secrets = DynamicKind::namespaced("", "v1", "Secret", "secrets");
    let mapped =
        |meta: &Meta| Some(ObjectKey::<PartialObjectMeta<DynamicObject>>::new(meta.namespace()?, "mapped"));
    for resource in ["widgets", "configmaps", "secrets"] {
        let (manager, asked) = watched(&env, resource);
        let notes = NoteAll::<ObjectKey<PartialObjectMeta<DynamicObject>>>::new();
        Builder::managed_by(&manager)
            .for_dynamic(widgets.metadata())
            .owns_dynamic(&maps)
            .watches(Kind::<PartialObjectMeta<DynamicObject>, _>::dynamic(&secrets, MapMeta(mapped)))
            .complete(notes.clone())
            .unwrap();
        let _running = Running::start(manager).await;
        settle().await;
        assert_eq!(notes.take(), ["object default/a"]);
        let (child, secret) = owned_and_mapped(&env, &owner, || notes.take()).await;
        assert_eq!(*asked.lock().unwrap(), ["metadata all"], "{resource}");
        client(&env).delete(&child).any_version().await.unwrap();
        client(&env).delete(&secret).any_version().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_dynamic_cluster_scoped_owner_has_no_namespace() {
    let env = environment().await;
    let namespaces = client(&env).discover("", "v1", "Namespace").await.unwrap();
    let (manager, notes) = (manager(&env), NoteAll::<ObjectKey<DynamicObject>>::new());
    Builder::managed_by(&manager)
        .for_dynamic(&namespaces)
        .with_predicate(|_: &controller_runtime::Event<DynamicObject>| false)
        .owns::<ConfigMap>()
        .complete(notes.clone())
        .unwrap();
    let _running = Running::start(manager).await;
    let owner = client(&env).get(&ObjectKey::<Namespace>::new((), "default")).await.unwrap().unwrap();
    let mut child = config_map("child");
    set_controller_reference(&owner, &mut child).unwrap();
    client(&env).create(&child).await.unwrap();
    settle().await;
    assert_eq!(notes.take(), ["object default"]);
}
