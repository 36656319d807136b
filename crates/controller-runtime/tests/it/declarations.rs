//! Declarations of rights: the registrations and the lines of the program that imply them.

use std::collections::BTreeMap;

use controller_runtime::{
    Builder, Kind, MapMeta, Owns, Verb,
    leader_election::LeaderElectionOptions,
    serving::{AllowedTo, Endpoint, MetricsServerOptions},
};
use expect_test::expect;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Secret};

use crate::{
    rights::{manager, nobody, nothing, options},
    support::Widget,
};

#[tokio::test(start_paused = true)]
async fn a_line_that_runs_often_declares_once() {
    let manager = manager(options()).await;
    for _ in 0..3 {
        let _cached = manager.cached::<ConfigMap>();
    }
    assert_eq!(manager.declarations().iter().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn declarations_name_the_line_of_the_program() {
    let election = (LeaderElectionOptions::new("lease"), line!());
    let metrics = (MetricsServerOptions::default().allowed_to(AllowedTo::Authorized), line!());
    let metrics_options = metrics.0.bind_address("127.0.0.1:0".parse::<Endpoint>().unwrap());
    let manager = manager(options().leader_election(election.0).metrics(metrics_options)).await;
    let cached = (manager.cached::<Pod>(), line!());
    let built = (manager.cache().of::<Namespace>().build().unwrap(), line!());
    let source = (Kind::<Node, _>::new(MapMeta(nobody)), line!());
    let owned = (Owns::<Secret>::new(), line!());
    let builder = (Builder::managed_by(&manager).for_kind::<Widget>(), line!());
    let builder = (builder.0.owns::<ConfigMap>(), line!(), builder.1);
    let builder = (builder.0.with_finalizer("example.com/a"), line!(), builder.1, builder.2);
    let needs = (builder.0.needs::<ConfigMap>([Verb::Delete]), line!());
    let complete = needs.0.watches(source.0).owns_with(owned.0).complete(nothing());
    let (_handle, _cached, _built) = (complete.unwrap(), cached.0, built.0);
    manager.needs_url("/version", [Verb::Get]);
    let url = line!() - 1;

    let mut lines = BTreeMap::new();
    for one in &manager.declarations() {
        assert_eq!(one.place.file(), file!(), "{one:?}");
        lines.insert(format!("{}: {}", one.right, one.reason), one.place.line());
    }
    let line = |right: &str| *lines.get(right).unwrap_or_else(|| panic!("{right} is not in {lines:#?}"));
    assert_eq!(
        line("create leases.coordination.k8s.io in the operator's namespace: leader election"),
        election.1
    );
    assert_eq!(line("create tokenreviews.authentication.k8s.io: metrics for authorized clients"), metrics.1);
    assert_eq!(line("list watch pods: cached"), cached.1);
    assert_eq!(line("list watch namespaces: cached"), built.1);
    assert_eq!(line("list watch nodes: watches"), source.1);
    assert_eq!(line("list watch secrets: owns"), owned.1);
    assert_eq!(line("create patch secrets: owns"), owned.1);
    assert_eq!(line("list watch widgets.example.com: for_kind"), builder.3);
    assert_eq!(line("patch widgets.example.com/status: its type has a status"), builder.3);
    assert_eq!(line("create patch events.events.k8s.io: events"), builder.3);
    assert_eq!(line("create patch configmaps: owns"), builder.2);
    assert_eq!(line("patch widgets.example.com: finalizer example.com/a"), builder.1);
    assert_eq!(line("delete configmaps: needs"), needs.1);
    assert_eq!(line("get /version: needs"), url);
}

#[tokio::test(start_paused = true)]
async fn the_table_shows_rights_registrations_and_places() {
    let manager = manager(options().leader_election(LeaderElectionOptions::new("lease"))).await;
    let builder = Builder::managed_by(&manager).for_kind::<Widget>().owns::<ConfigMap>();
    builder.complete(nothing()).unwrap();
    let table = manager.declarations().to_string();
    let without_lines: Vec<&str> =
        table.lines().map(|line| line.rsplit_once(':').map_or(line, |(start, _)| start)).collect();
    expect![[r#"
        in the cluster
          create patch  configmaps                      widget: owns                                 crates/controller-runtime/tests/it/declarations.rs
          list watch    configmaps                      widget: owns                                 crates/controller-runtime/tests/it/declarations.rs
          create patch  events.events.k8s.io            widget: events                               crates/controller-runtime/tests/it/declarations.rs
          list watch    widgets.example.com             widget: for_kind                             crates/controller-runtime/tests/it/declarations.rs
          update        widgets.example.com/finalizers  widget: it owns others (blockOwnerDeletion)  crates/controller-runtime/tests/it/declarations.rs
          patch         widgets.example.com/status      widget: its type has a status                crates/controller-runtime/tests/it/declarations.rs
        in the operator's namespace
          create            leases.coordination.k8s.io              leader election  crates/controller-runtime/tests/it/declarations.rs
          get watch update  leases.coordination.k8s.io named lease  leader election  crates/controller-runtime/tests/it/declarations.rs
          create patch      events.events.k8s.io                    leader election  crates/controller-runtime/tests/it/declarations.rs"#]].assert_eq(&without_lines.join("\n"));
}
