//! Reads and lists in a version that is not stored.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use super::{Cluster, V1, V2, names};

#[tokio::test]
async fn only_objects_of_another_version_are_converted() {
    let cluster = Cluster::start().await;
    cluster.create("a", 1).await;
    assert_eq!(cluster.get(&format!("{V1}/a")).await.1["spec"], json!({"size": 1}));
    assert_eq!(cluster.get(V1).await.1["items"][0]["spec"], json!({"size": 1}));
    assert!(cluster.hook.calls().is_empty(), "objects of the storage version");
    let (code, object) = cluster.get(&format!("{V2}/a")).await;
    assert_eq!(
        (code, &object["spec"], &object["apiVersion"]),
        (200, &json!({"amount": 1}), &json!("example.com/v2"))
    );
    assert_eq!(cluster.hook.calls(), [1]);
    assert_eq!(cluster.get(&format!("{V2}/none")).await.0, 404);
    assert!(cluster.hook.calls().is_empty());
}

#[tokio::test]
async fn a_list_converts_each_object_once_and_in_few_calls() {
    let cluster = Cluster::start().await;
    for number in 0..1000 {
        cluster.create(&format!("t{number:04}"), number).await;
    }
    let (code, list) = cluster.get(V2).await;
    assert_eq!(code, 200);
    let expected: Vec<String> = (0..1000).map(|number| format!("t{number:04}")).collect();
    assert_eq!(names(&list), expected);
    for (number, item) in list["items"].as_array().unwrap().iter().enumerate() {
        assert_eq!(item["spec"], json!({"amount": number}));
    }
    assert_eq!(cluster.hook.calls(), [500, 500]);
    assert_eq!(cluster.get(V2).await.1["items"], list["items"]);
    assert!(cluster.hook.calls().is_empty(), "converted objects are kept");
    cluster.send("PATCH", &format!("{V1}/t0007"), &json!({"spec": {"size": 7000}})).await;
    assert_eq!(cluster.get(V2).await.1["items"][7]["spec"], json!({"amount": 7000}));
    assert_eq!(cluster.hook.calls(), [1], "only the changed object");
}

#[tokio::test(start_paused = true)]
async fn a_list_has_three_calls_at_a_time() {
    let cluster = Cluster::start().await;
    for number in 0..2500 {
        cluster.create(&format!("t{number:04}"), number).await;
    }
    cluster.hook.delay(Duration::from_secs(1));
    let before = Instant::now();
    let (code, list) = cluster.get(V2).await;
    assert_eq!((code, list["items"].as_array().unwrap().len()), (200, 2500));
    assert_eq!(cluster.hook.calls(), [500; 5]);
    assert_eq!(before.elapsed().as_secs(), 2, "five calls of one second");
    let mut in_order = list["items"].as_array().unwrap().iter().enumerate();
    assert!(in_order.all(|(number, item)| item["spec"] == json!({"amount": number})));
}

#[tokio::test]
async fn a_page_converts_its_own_objects() {
    let cluster = Cluster::start().await;
    for number in 0..5 {
        cluster.create(&format!("t{number}"), number).await;
    }
    let (mut token, mut seen) = (String::new(), Vec::new());
    loop {
        let (code, page) = cluster.get(&format!("{V2}?limit=2&continue={token}")).await;
        assert_eq!(code, 200);
        assert_eq!(cluster.hook.calls(), [page["items"].as_array().unwrap().len()]);
        seen.extend(names(&page));
        token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, ["t0", "t1", "t2", "t3", "t4"]);
}

#[tokio::test]
async fn selectors_see_converted_objects() {
    let cluster = Cluster::start().await;
    for number in 0..4 {
        cluster.create(&format!("t{number}"), number).await;
    }
    cluster.hook.change(|response| {
        for object in response["convertedObjects"].as_array_mut().unwrap() {
            let parity = if object["spec"]["amount"].as_u64().unwrap() % 2 == 0 { "even" } else { "odd" };
            object["metadata"]["labels"] = json!({"parity": parity});
        }
    });
    let (_, even) = cluster.get(&format!("{V2}?labelSelector=parity%3Deven")).await;
    assert_eq!(names(&even), ["t0", "t2"]);
    let (_, first) = cluster.get(&format!("{V2}?labelSelector=parity%3Dodd&limit=1")).await;
    assert_eq!(names(&first), ["t1"]);
    assert!(!first["metadata"]["continue"].as_str().unwrap().is_empty(), "there is another one");
    let (_, none) = cluster.get(&format!("{V1}?labelSelector=parity%3Deven")).await;
    assert_eq!(names(&none), [""; 0], "stored objects have no labels");
}

#[tokio::test(start_paused = true)]
async fn concurrent_lists_share_a_call() {
    let cluster = Arc::new(Cluster::start().await);
    for number in 0..3 {
        cluster.create(&format!("t{number}"), number).await;
    }
    cluster.hook.delay(Duration::from_secs(1));
    let path = format!("{V2}/t1?resourceVersion=0");
    let (first, second, one) = tokio::join!(cluster.get(V2), cluster.get(V2), cluster.get(&path),);
    assert_eq!((first.0, second.0, one.0), (200, 200, 200));
    assert_eq!(first.1, second.1);
    assert_eq!(cluster.hook.calls(), [3]);
}

#[tokio::test]
async fn tables_and_metadata_are_of_converted_objects() {
    let cluster = Cluster::start().await;
    cluster.create("a", 1).await;
    cluster.hook.change(|response| {
        response["convertedObjects"][0]["metadata"]["annotations"] = json!({"from": "the webhook"});
    });
    let response = cluster.get(&format!("{V2}?limit=1")).await.1;
    assert_eq!(response["items"][0]["metadata"]["annotations"], json!({"from": "the webhook"}));
    assert_eq!(cluster.get(&format!("{V1}/a")).await.1["metadata"].get("annotations"), None::<&Value>);
}

/// Polls a future until it completes, and returns the number of turns that another task had meanwhile.
async fn turns(work: impl Future<Output = (u16, Value)>) -> usize {
    let mut turns = 0;
    tokio::select! {
        biased;
        (code, _) = work => assert_eq!(code, 200),
        () = async {
            loop {
                turns += 1;
                tokio::task::yield_now().await;
            }
        } => {}
    }
    turns
}

#[tokio::test]
async fn the_conversion_of_many_objects_yields_to_other_tasks() {
    let cluster = Cluster::start().await;
    for number in 0..2000 {
        cluster.create(&format!("t{number:04}"), number).await;
    }
    let stored = turns(cluster.get(V1)).await;
    let converted = turns(cluster.get(V2)).await;
    // Turns of sixteen objects when they are written to a review, and when they are read from its answer. Three reviews may take
    // their turns together.
    assert!(converted - stored >= 2 * 2000 / (3 * 16), "{converted} turns, {stored} without conversion");
}
