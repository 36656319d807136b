//! Rights that follow from registrations.

use controller_runtime::{
    Action, Builder, DynamicKind, Kind, Manager, ManagerOptions, MapMeta, ObjectKey, Owns, Reconciler, Verb,
    cache::{CacheOptions, LabelSelector, Meta, Namespaces},
    leader_election::LeaderElectionOptions,
    reconcile,
    rights::{Declarations, Right, RightScope},
    serving::{AllowedTo, Endpoint, MetricsServerOptions},
    webhook::{SelfManagedCertificates, WebhookOptions, WebhookService},
};
use expect_test::{Expect, expect};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, Node, Pod, Secret},
};
use kube::core::PartialObjectMeta;
use kube_envtest::Environment;

use crate::support::Widget;

pub(crate) async fn manager(options: ManagerOptions) -> Manager {
    let env = Environment::builder().start().await.unwrap();
    Manager::new(env.client(), options)
}

pub(crate) fn options() -> ManagerOptions {
    ManagerOptions::new("rights")
}

pub(crate) fn nothing<R: reconcile::Request>() -> impl Reconciler<Request = R> {
    reconcile::from_fn(async |_: &R, _| Ok(Action::done()))
}

pub(crate) fn nobody(_: &Meta) -> Option<ObjectKey<Widget>> {
    None
}

/// The declarations, without controller and place.
fn shown(declarations: &Declarations) -> String {
    let lines = declarations.iter().map(|one| {
        let fallback: Vec<_> = one.fallback.iter().map(|verb| &**verb).collect();
        let fallback = if fallback.is_empty() {
            String::new()
        } else {
            format!(" ({} is a fallback)", fallback.join(", "))
        };
        format!("{}{fallback}: {}\n", one.right, one.reason)
    });
    lines.collect()
}

/// Checks the rights that the registrations of `register` imply.
async fn check(options: ManagerOptions, register: impl FnOnce(&Manager), expected: Expect) {
    let manager = manager(options).await;
    register(&manager);
    expected.assert_eq(&shown(&manager.declarations()));
}

#[tokio::test(start_paused = true)]
async fn a_manager_without_registrations_needs_nothing() {
    check(options(), |_| {}, expect![""]).await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_of_a_custom_kind_writes_its_status_and_events() {
    let register = |manager: &Manager| {
        Builder::managed_by(manager).for_kind::<Widget>().complete(nothing()).unwrap();
    };
    check(
        options(),
        register,
        expect![[r#"
            create patch events.events.k8s.io (patch is a fallback): events
            list watch widgets.example.com (list is a fallback): for_kind
            patch widgets.example.com/status: its type has a status
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_of_a_builtin_kind_leaves_its_status_alone() {
    let register = |manager: &Manager| {
        Builder::managed_by(manager).for_kind::<Deployment>().without_events().complete(nothing()).unwrap();
    };
    check(
        options(),
        register,
        expect![[r#"
        list watch deployments.apps (list is a fallback): for_kind
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn events_of_objects_without_a_namespace_are_in_the_default_namespace() {
    let register = |manager: &Manager| {
        Builder::managed_by(manager).for_kind::<Node>().complete(nothing()).unwrap();
    };
    check(
        options(),
        register,
        expect![[r#"
        list watch nodes (list is a fallback): for_kind
        create patch events.events.k8s.io in default (patch is a fallback): events
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_may_do_without_status_and_events() {
    let register = |manager: &Manager| {
        Builder::managed_by(manager)
            .for_kind::<Widget>()
            .without_status()
            .without_events()
            .complete(nothing())
            .unwrap();
    };
    check(
        options(),
        register,
        expect![[r#"
        list watch widgets.example.com (list is a fallback): for_kind
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_are_no_smaller_right() {
    let register = |manager: &Manager| {
        let builder =
            Builder::managed_by(manager).for_requests::<ObjectKey<Widget>>("widgets").without_events();
        builder.watches_metadata::<Secret>(MapMeta(nobody)).complete(nothing()).unwrap();
        let _pods = manager.cached::<PartialObjectMeta<Pod>>();
    };
    check(
        options(),
        register,
        expect![[r#"
        list watch pods (list is a fallback): cached
        list watch secrets (list is a fallback): watches
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn dynamic_kinds_need_the_same_rights() {
    let register = |manager: &Manager| {
        let kind = DynamicKind::namespaced("example.com", "v1", "Gadget", "gadgets");
        let owned = DynamicKind::namespaced("example.com", "v1", "Part", "parts");
        let builder = Builder::managed_by(manager).for_dynamic(&kind).owns_dynamic(&owned);
        builder.needs_dynamic(&kind, [Verb::Delete]).complete(nothing()).unwrap();
        let _metadata = manager.cache().of_dynamic(owned.metadata()).build().unwrap();
    };
    check(
        options(),
        register,
        expect![[r#"
        create patch events.events.k8s.io (patch is a fallback): events
        delete gadgets.example.com: needs
        list watch gadgets.example.com (list is a fallback): for_kind
        update gadgets.example.com/finalizers (update is a fallback): it owns others (blockOwnerDeletion)
        create patch parts.example.com: owns
        list watch parts.example.com (list is a fallback): cached
        list watch parts.example.com (list is a fallback): owns
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_needs_patch() {
    let register = |manager: &Manager| {
        let builder = Builder::managed_by(manager).for_kind::<ConfigMap>().without_events();
        builder.with_finalizer("example.com/archive").complete(nothing()).unwrap();
    };
    check(
        options(),
        register,
        expect![[r#"
        list watch configmaps (list is a fallback): for_kind
        patch configmaps: finalizer example.com/archive
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn owned_objects_are_applied_and_block_the_deletion_of_their_owner() {
    let register = |manager: &Manager| {
        let builder = Builder::managed_by(manager).for_kind::<Deployment>().without_events();
        let builder = builder.owns::<ConfigMap>().owns_with(Owns::<Secret>::new().whole());
        builder.complete(nothing()).unwrap();
    };
    check(
        options(),
        register,
        expect![[r#"
        create patch configmaps: owns
        list watch configmaps (list is a fallback): owns
        create patch secrets: owns
        list watch secrets (list is a fallback): owns
        list watch deployments.apps (list is a fallback): for_kind
        update deployments.apps/finalizers (update is a fallback): it owns others (blockOwnerDeletion)
        update deployments.apps/finalizers (update is a fallback): it owns others (blockOwnerDeletion)
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_selection_of_namespaces_needs_rights_there_alone() {
    let register = |manager: &Manager| {
        let widgets = manager.cache().of::<Widget>().namespaces(["a", "b"]).build().unwrap();
        let builder = Builder::managed_by(manager).for_kind::<Widget>().through(&widgets);
        builder.owns::<ConfigMap>().needs::<Secret>([Verb::Get]).complete(nothing()).unwrap();
    };
    check(options(), register, expect![[r#"
        create patch configmaps in a, b: owns
        list watch configmaps (list is a fallback): owns
        get secrets: needs
        create patch events.events.k8s.io in a, b (patch is a fallback): events
        list watch widgets.example.com in a, b (list is a fallback): cached
        update widgets.example.com/finalizers in a, b (update is a fallback): it owns others (blockOwnerDeletion)
        patch widgets.example.com/status in a, b: its type has a status
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn rights_are_in_the_namespaces_of_all_caches() {
    let namespaces = Namespaces::new(["a"]);
    let options = options().cache(CacheOptions::default().namespaces(&namespaces));
    let manager = manager(options).await;
    let builder = Builder::managed_by(&manager).for_kind::<Widget>().owns::<ConfigMap>();
    builder
        .watches_metadata::<Namespace>(MapMeta(nobody))
        .needs::<Secret>([Verb::Get])
        .complete(nothing())
        .unwrap();
    namespaces.add("c");
    expect![[r#"
        create patch configmaps in a, c: owns
        list watch configmaps in a, c (list is a fallback): owns
        list watch namespaces (list is a fallback): watches
        get secrets in a, c: needs
        create patch events.events.k8s.io in a, c (patch is a fallback): events
        list watch widgets.example.com in a, c (list is a fallback): for_kind
        update widgets.example.com/finalizers in a, c (update is a fallback): it owns others (blockOwnerDeletion)
        patch widgets.example.com/status in a, c: its type has a status
    "#]].assert_eq(&shown(&manager.declarations()));
    let may_change = |declarations: Declarations| {
        let mut scopes = declarations.into_iter().map(|one| one.right.scope);
        scopes.any(|scope| matches!(scope, RightScope::Namespaces { may_change: true, .. }))
    };
    assert!(may_change(manager.declarations()));
}

#[tokio::test(start_paused = true)]
async fn a_selected_name_restricts_the_right() {
    let register = |manager: &Manager| {
        let one =
            manager.cache().of::<Secret>().namespaces(["a"]).fields("metadata.name=token").build().unwrap();
        let labelled = manager.cache().of::<ConfigMap>().labels("app=web").build().unwrap();
        drop((one, labelled));
    };
    check(
        options(),
        register,
        expect![[r#"
        list watch configmaps (list is a fallback): cached
        list watch secrets named token in a (list is a fallback): cached
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn labels_do_not_change_rights() {
    let register = |manager: &Manager| {
        let selector: LabelSelector = "app=web".parse().unwrap();
        let source = Kind::<ConfigMap, _>::new(MapMeta(nobody)).with_predicate(selector);
        let builder =
            Builder::managed_by(manager).for_requests::<ObjectKey<Widget>>("widgets").without_events();
        builder.watches(source).complete(nothing()).unwrap();
    };
    check(
        options(),
        register,
        expect![[r#"
        list watch configmaps (list is a fallback): watches
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_election_updates_its_lease() {
    let election = LeaderElectionOptions::new("rights.example.com");
    check(options().leader_election(election.clone()), |_| {}, expect![[r#"
        create leases.coordination.k8s.io in the operator's namespace: leader election
        get watch update leases.coordination.k8s.io named rights.example.com in the operator's namespace: leader election
        create patch events.events.k8s.io in the operator's namespace (patch is a fallback): leader election
    "#]]).await;
    check(
        options().leader_election(election.namespace("leases")),
        |_| {},
        expect![[r#"
        create leases.coordination.k8s.io in leases: leader election
        get watch update leases.coordination.k8s.io named rights.example.com in leases: leader election
        create patch events.events.k8s.io in leases (patch is a fallback): leader election
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn metrics_for_authorized_clients_need_reviews() {
    let metrics = MetricsServerOptions::default().allowed_to(AllowedTo::Authorized);
    check(options().metrics(metrics.clone()), |_| {}, expect![""]).await;
    let metrics = metrics.bind_address("127.0.0.1:0".parse::<Endpoint>().unwrap());
    check(
        options().metrics(metrics),
        |_| {},
        expect![[r#"
        create tokenreviews.authentication.k8s.io: metrics for authorized clients
        create subjectaccessreviews.authorization.k8s.io: metrics for authorized clients
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn self_managed_certificates_need_rights_to_publish_them() {
    let service = WebhookService::new("system", "hooks");
    let certificates = WebhookOptions::default().certificates(SelfManagedCertificates::new(&service));
    let register = |manager: &Manager| {
        let rule = controller_runtime::webhook::Rule::of::<ConfigMap>();
        manager.webhooks().validating(rule, async |_| Ok(())).unwrap();
    };
    check(options().webhooks(certificates.clone()), |_| {}, expect![""]).await;
    check(
        options().webhooks(certificates.clone()),
        register,
        expect![[r#"
        create secrets in system: webhook certificates
        get watch update secrets named hooks-certificates in system: webhook certificates
        list watch patch mutatingwebhookconfigurations.admissionregistration.k8s.io: webhook configurations
        list watch patch validatingwebhookconfigurations.admissionregistration.k8s.io: webhook configurations
    "#]],
    )
    .await;
    check(options().webhooks(certificates.apply_configurations(&service)), register, expect![[r#"
        create secrets in system: webhook certificates
        get watch update secrets named hooks-certificates in system: webhook certificates
        get watch create patch mutatingwebhookconfigurations.admissionregistration.k8s.io named system-hooks: webhook configurations
        get watch create patch validatingwebhookconfigurations.admissionregistration.k8s.io named system-hooks: webhook configurations
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn other_rights_are_declared() {
    let register = |manager: &Manager| {
        manager.needs::<ConfigMap>([Verb::Apply, Verb::DeleteCollection]);
        manager.needs_subresource::<Pod>("eviction", [Verb::Create]);
        manager.needs_dynamic(&DynamicKind::cluster("example.com", "v1", "Gadget", "gadgets"), [Verb::Get]);
        manager.needs_url("/metrics", [Verb::Get]);
        manager.needs_right(Right::on::<Secret>([Verb::Get]).named(["token"]).in_own_namespace());
        manager.needs_right(Right::of_resource("rbac.authorization.k8s.io", "roles", []).verb("escalate"));
    };
    check(
        options(),
        register,
        expect![[r#"
        create patch deletecollection configmaps: needs
        create pods/eviction: needs
        get secrets named token in the operator's namespace: needs
        get gadgets.example.com: needs
        escalate roles.rbac.authorization.k8s.io: needs
        get /metrics: needs
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_controller_needs_nothing() {
    let register = |manager: &Manager| {
        let build = || Builder::managed_by(manager).for_kind::<ConfigMap>().without_events();
        build().complete(nothing()).unwrap();
        build().owns::<Secret>().complete(nothing()).unwrap_err();
    };
    check(
        options(),
        register,
        expect![[r#"
        list watch configmaps (list is a fallback): for_kind
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_cache_of_another_cluster_needs_rights_there() {
    let manager = manager(options()).await;
    let east = Environment::builder().start().await.unwrap();
    let east = manager.add_cluster("east", east.client(), CacheOptions::default()).unwrap();
    let builder = Builder::managed_by(&manager).for_kind::<ConfigMap>().without_events();
    builder
        .watches(Kind::of(&east.cached::<Secret>(), MapMeta(|_: &Meta| None)))
        .complete(nothing())
        .unwrap();
    expect![[r#"
        list watch configmaps (list is a fallback): for_kind
    "#]]
    .assert_eq(&shown(&manager.declarations()));
    expect![[r#"
        list watch secrets (list is a fallback): cached
    "#]]
    .assert_eq(&shown(&east.declarations()));
}
