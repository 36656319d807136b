//! Faults of the history: compaction, eviction, and reads of an old state.

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{GetParams, ListParams};
use kube_apiserver_embedded::faults::{Action, Rule};

use super::{code, create, start, watch};

#[tokio::test(start_paused = true)]
async fn a_compaction_expires_older_revisions_and_does_not_affect_open_watches() {
    let (server, api) = start();
    for name in ["a", "b"] {
        create(&api, name).await.unwrap();
    }
    let page = api.list(&ListParams::default().limit(1)).await.unwrap();
    let version = page.metadata.resource_version.unwrap();
    let token = page.metadata.continue_.unwrap();
    let mut open = watch(&api, &version).await;
    create(&api, "c").await.unwrap();
    server.faults().compact();
    assert_eq!(code(api.list(&ListParams::default().limit(1).continue_token(&token)).await), 410);
    // The 410 contains a token that lists the rest in its current state.
    let kube::Error::Api(expired) =
        api.list(&ListParams::default().limit(1).continue_token(&token)).await.unwrap_err()
    else {
        panic!("it was refused by the server");
    };
    let fresh = expired.metadata.unwrap().continue_.unwrap();
    let rest = api.list(&ListParams::default().continue_token(&fresh)).await.unwrap();
    assert_eq!(rest.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["b", "c"]);
    let exact = ListParams::default().at(&version).matching(kube::api::VersionMatch::Exact);
    assert_eq!(code(api.list(&exact).await), 410);
    assert_eq!(watch(&api, &version).await.collect::<Vec<_>>().await, ["410"]);
    assert_eq!(open.next().await.as_deref(), Some("+c"));
    // New lists and watches begin at the current revision.
    let now = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut fresh = watch(&api, &now).await;
    create(&api, "d").await.unwrap();
    assert_eq!(fresh.next().await.as_deref(), Some("+d"));
}

#[tokio::test(start_paused = true)]
async fn an_evicted_history_ends_the_watches_that_needed_it() {
    let (server, api) = start();
    create(&api, "a").await.unwrap();
    let version = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut behind = watch(&api, &version).await;
    create(&api, "b").await.unwrap();
    let now = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut up_to_date = watch(&api, &now).await;
    let faults = server.faults();
    assert!(faults.evict_history("", "configmaps") && !faults.evict_history("", "nothings"));
    assert_eq!(behind.next().await, None);
    create(&api, "c").await.unwrap();
    assert_eq!(up_to_date.next().await.as_deref(), Some("+c"));
    assert_eq!(faults.journal().to_string(), "history of configmaps evicted\n");
}

#[tokio::test(start_paused = true)]
async fn only_reads_of_any_state_get_a_stale_one() {
    let (server, api) = start();
    for name in ["a", "b", "c"] {
        create(&api, name).await.unwrap();
    }
    server.faults().add(Rule::new(Action::StaleRead { behind: 2 }).resource("", "configmaps"));
    let names = async |parameters: &ListParams| {
        let list = api.list(parameters).await.unwrap();
        let version: u64 = list.metadata.resource_version.unwrap().parse().unwrap();
        (list.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>().join(" "), version)
    };
    let (now, latest) = names(&ListParams::default()).await;
    assert_eq!(now, "a b c");
    assert_eq!(names(&ListParams::default().at("0")).await, ("a".to_owned(), latest - 2));
    let get = |version: &'static str| {
        let parameters = GetParams { resource_version: Some(version.to_owned()) };
        let api = api.clone();
        async move { api.get_with("b", &parameters).await.is_ok() }
    };
    assert_eq!((get("0").await, get("").await), (false, true));
    // A watch begins with the old state and receives all later changes.
    let seen: Vec<String> = watch(&api, "0").await.take(3).collect().await;
    assert_eq!(seen, ["+a", "+b", "+c"]);
    assert_eq!(server.faults().journal().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_compaction_up_to_a_revision_keeps_later_ones() {
    let (server, api) = start();
    let version = |map: &ConfigMap| map.resource_version().unwrap();
    let first = version(&create(&api, "a").await.unwrap());
    let second = version(&create(&api, "b").await.unwrap());
    create(&api, "c").await.unwrap();
    let faults = server.faults();
    faults.compact_to(second.parse().unwrap());
    faults.compact_to(first.parse().unwrap());
    assert_eq!(watch(&api, &first).await.next().await.as_deref(), Some("410"));
    assert_eq!(watch(&api, &second).await.next().await.as_deref(), Some("+c"));
    let line = format!("compacted at revision {second}\n");
    assert_eq!(faults.journal().to_string(), line.repeat(2), "a compaction is not taken back");
}
