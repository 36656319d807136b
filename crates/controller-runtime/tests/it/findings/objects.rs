//! Findings about objects: fields with several writers, deletions that do not end, and values of another type.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use controller_runtime::{Builder, Client, DynamicKind, ObjectKey, ReconcileError, client::Patch};
use k8s_openapi::api::apps::v1::Deployment;
use kube::CustomResourceExt;
use serde_json::json;
use tokio::time::sleep;

use super::{
    Guestbook, SECOND, apply_deployment, client, create, environment, findings, from_json, guestbook,
    manager, of, run, works,
};
use crate::support::Running;

#[tokio::test(start_paused = true)]
async fn a_fight_over_a_field_names_both_sides_within_five_turns() {
    let env = environment().await;
    let manager = manager(&env, env.client());
    let owners = manager.cached::<Guestbook>();
    let works = works(move |key, client| apply_deployment(owners.clone(), key, client));
    Builder::managed_by(&manager).for_kind::<Guestbook>().owns::<Deployment>().complete(works).unwrap();
    let _running = Running::start(manager.clone()).await;
    create(&env, "shop", "web").await;
    let hpa = Client::new(env.client(), "hpa");
    let web = ObjectKey::<Deployment>::new("shop", "web");
    for _ in 0..2 {
        assert_eq!(findings(&manager).await, [""; 0]);
        sleep(SECOND * 6).await;
        hpa.merge_patch(&web, &json!({ "spec": { "replicas": 2 } })).await.unwrap();
        sleep(SECOND / 10).await;
        let replicas = hpa.get(&web).await.unwrap().unwrap().spec.unwrap().replicas;
        assert_eq!(replicas, Some(3), "the operator sets it back");
    }
    assert_eq!(
        findings(&manager).await,
        [
            "fight Deployment shop/web: .spec.replicas is written alternately by guestbook (3) and hpa (2), 5 times in 12 s. \
             Remove the field from the writes of guestbook, or stop hpa from writing it."
        ]
    );
    let finding = &manager.findings().await[0];
    assert_eq!(
        finding.evidence,
        [
            "10:00:12 UTC: guestbook wrote 3",
            "10:00:12 UTC: hpa",
            "10:00:06 UTC: guestbook wrote 3",
            "10:00:06 UTC: hpa"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_status_that_differs_in_each_run_is_named() {
    let env = environment().await;
    let manager = manager(&env, env.client());
    let count = Arc::new(AtomicU32::new(0));
    let works = works(move |key, client| {
        let seen = count.fetch_add(1, Relaxed);
        async move {
            sleep(SECOND / 4).await;
            let status = Patch::merge(&json!({ "status": { "lastSeen": seen.to_string() } }));
            client.subresource(&key, "status").patch::<Guestbook>(status).await?;
            Ok(())
        }
    });
    let _running = run(&manager, works).await;
    create(&env, "shop", "web").await;
    sleep(SECOND).await;
    assert_eq!(findings(&manager).await, [""; 0]);
    sleep(SECOND + SECOND / 10).await;
    assert_eq!(
        findings(&manager).await,
        [
            "self-trigger Guestbook shop/web: 8 runs in 2 s, each caused by a write of the previous run: status.lastSeen of \
             guestbooks.example.com shop/web differs each time. Write the field only if something else changes as well, or ignore \
             such events: with_predicate(GenerationChanged)."
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_stuck_deletion_names_the_finalizer_and_the_manager_that_added_it() {
    let env = environment().await;
    let manager = manager(&env, env.client());
    let owners = manager.cached::<Guestbook>();
    let works = works(move |key, client| {
        let owners = owners.clone();
        async move {
            let Some(guestbook) = owners.get(&key)? else { return Ok(()) };
            if guestbook.metadata.deletion_timestamp.is_some() {
                return Err(ReconcileError::new("the archive is full"));
            }
            if guestbook.metadata.finalizers.is_none() {
                let patch = json!({ "metadata": { "finalizers": ["example.com/archive"] } });
                client.merge_patch(&key, &patch).await?;
            }
            Ok(())
        }
    });
    let _running = run(&manager, works).await;
    let other = Client::new(env.client(), "other-operator");
    let mut old = guestbook("shop", "old");
    old.metadata.finalizers = Some(vec!["other.example.com/hold".to_owned()]);
    other.create(&old).await.unwrap();
    create(&env, "shop", "ours").await;
    sleep(SECOND).await;
    for name in ["old", "ours"] {
        other.delete_key(&ObjectKey::<Guestbook>::new("shop", name)).await.unwrap();
    }
    sleep(SECOND * 240).await;
    assert_eq!(of("stuck-finalizer", &findings(&manager).await), [""; 0], "a deletion may take some minutes");
    sleep(SECOND * 3600 * 3).await;
    assert_eq!(
        of("stuck-finalizer", &findings(&manager).await),
        [
            "Guestbook shop/old was deleted 3 h 4 min ago and waits for finalizer other.example.com/hold, which other-operator added. \
             This operator did not add it. Check whether the program that removes it runs. Remove the finalizer by hand only if that \
             program is gone and its clean-up does not matter.",
            "Guestbook shop/ours was deleted 3 h 4 min ago and waits for finalizer example.com/archive of this operator. The last \
             run of controller guestbook failed at 12:51:51 UTC: the archive is full. Repair the cause of the error: the operator \
             removes its finalizer when its clean-up succeeds."
        ]
    );
}

/// For each list of findings, the managers of fields are read for at most eight objects. The next list includes those of other objects.
#[tokio::test(start_paused = true)]
async fn later_findings_know_the_managers_of_all_stuck_objects() {
    let env = environment().await;
    let manager = manager(&env, env.client());
    let owners = manager.cached::<Guestbook>();
    let works = works(move |key, client| {
        let owners = owners.clone();
        async move {
            let Some(guestbook) = owners.get(&key)? else { return Ok(()) };
            if guestbook.metadata.finalizers.is_none() {
                let patch = json!({ "metadata": { "finalizers": ["example.com/archive"] } });
                client.merge_patch(&key, &patch).await?;
            }
            Ok(())
        }
    });
    let _running = run(&manager, works).await;
    let names: Vec<String> = (0..10).map(|number| format!("book-{number}")).collect();
    for name in &names {
        create(&env, "shop", name).await;
    }
    sleep(SECOND).await;
    for name in &names {
        let key = ObjectKey::<Guestbook>::new("shop", name.as_str());
        Client::new(env.client(), "other").delete_key(&key).await.unwrap();
    }
    sleep(SECOND * 600).await;
    for expected in [8, 10] {
        let findings = findings(&manager).await;
        let stuck = of("stuck-finalizer", &findings);
        let ours = stuck.iter().filter(|text| text.contains("example.com/archive of this operator"));
        assert_eq!((ours.count(), stuck.len()), (expected, 10), "{stuck:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_fit_its_type_is_named_with_its_last_writer() {
    let env = environment().await;
    // The schema of the cluster is older than the type.
    let mut loose = Guestbook::crd();
    for version in &mut loose.spec.versions {
        let schema = version.schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
        schema.properties.as_mut().unwrap().insert(
            "spec".to_owned(),
            from_json(json!({
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            })),
        );
    }
    client(&env).apply(&loose).await.unwrap();
    sleep(SECOND).await;
    for number in 0..3 {
        create(&env, "shop", &format!("good-{number}")).await;
    }
    let kind = DynamicKind::namespaced("example.com", "v1", "Guestbook", "guestbooks");
    let bad: kube::core::DynamicObject = from_json(json!({
        "apiVersion": "example.com/v1", "kind": "Guestbook", "metadata": { "namespace": "shop", "name": "bad" },
        "spec": { "theme": 3 },
    }));
    Client::new(env.client(), "kubectl-edit").of(kind).create(&bad).await.unwrap();
    let manager = manager(&env, env.client());
    let owners = manager.cached::<Guestbook>();
    let works = works(move |key, _| {
        let owners = owners.clone();
        async move {
            owners.get(&key)?;
            Ok(())
        }
    });
    let _running = run(&manager, works).await;
    sleep(SECOND).await;
    assert_eq!(
        of("unreadable-object", &findings(&manager).await),
        [
            "Guestbook shop/bad does not fit its Rust type: .spec.theme: invalid type: integer `3`, expected a string (version 208, \
             written by kubectl-edit at 10:00:01 UTC). It is not reconciled until it changes. The other 3 objects of its kind are not \
             affected. Correct the object, or widen the type."
        ]
    );
    let fixed = json!({ "spec": { "theme": "roses" } });
    client(&env).merge_patch(&ObjectKey::<Guestbook>::new("shop", "bad"), &fixed).await.unwrap();
    sleep(SECOND).await;
    assert_eq!(findings(&manager).await, [""; 0]);
}
