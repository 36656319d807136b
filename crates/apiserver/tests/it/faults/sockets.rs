//! Faults over a socket.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::Api;
use kube_apiserver_embedded::faults::{Action, Rule, Verb};
use kube_apiserver_embedded::{ApiServer, ListenOptions, Options, Tokens};
use serde_json::Value;
use tokio::task::JoinSet;

use super::{create, exists, is_reset, raw, start};

#[tokio::test]
async fn faults_are_driven_over_a_socket_where_the_listener_allows_it() {
    let (server, api) = start();
    let address = "127.0.0.1:0".parse().unwrap();
    let connect = |url: String| Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
    let plain = server.listen(address).await.unwrap();
    let (code, _) = raw(&connect(plain.url()), "GET", "/debug/faults/rules", "").await.unwrap();
    assert_eq!(code, 404, "the listener was started without fault commands");
    let any = "0.0.0.0:0".parse().unwrap();
    let tokens = ApiServer::start(Options::default().tokens(Tokens::new()));
    let refused = tokens.listen_with(any, ListenOptions::default().faults()).await.unwrap_err();
    assert!(refused.to_string().contains("use a loopback address"), "{refused}");

    let listener = server.listen_with(address, ListenOptions::default().faults()).await.unwrap();
    let client = connect(listener.url());
    let send = async |method: &str, path: &str, body: &str| {
        let (code, answer) = raw(&client, method, &format!("/debug/faults/{path}"), body).await.unwrap();
        (code, answer.trim_end().to_owned())
    };
    let rule = r#"{"action": "loseResponse", "verbs": ["create"], "resource": {"plural": "configmaps"}, "atMost": 1}"#;
    assert_eq!(send("POST", "rules", rule).await, (201, r#"{"id":1}"#.to_owned()));
    assert!(is_reset(create(&api, "a").await));
    assert!(exists(&api, "a").await);
    let slow = r#"{"action": {"watch": {"late": "1.5s"}}, "when": {"probability": 0.5}, "within": {"from": "0s", "to": "1h"}}"#;
    assert_eq!(send("POST", "rules", slow).await.0, 201);
    assert_eq!(send("DELETE", "rules/1", "").await.0, 200);
    assert_eq!(send("DELETE", "rules/1", "").await.0, 404);
    let (_, rules) = send("GET", "rules", "").await;
    let within = r#""within":{"from":"0ns","to":"3600s"}"#;
    let expected = format!(
        r#"{{"rules":[{{"id":2,"rule":{{"action":{{"watch":{{"late":"1.5s"}}}},"when":{{"probability":0.5}},{within}}}}}]}}"#
    );
    assert_eq!(rules, expected);
    for command in [
        r#"{"compact": {}}"#,
        r#"{"closeWatches": {"plural": "configmaps"}}"#,
        r#"{"bookmarkNow": {"group": "apps", "plural": "deployments"}}"#,
        r#""stopClock""#,
        r#"{"advanceClock": "-1h"}"#,
    ] {
        assert_eq!(send("POST", "commands", command).await.0, 200, "{command}");
    }
    for (path, body, expected) in [
        ("commands", r#"{"holdWatches": {"plural": "nothings"}}"#, 404),
        ("commands", r#""explode""#, 400),
        ("rules", r#"{"action": {"delayBefore": "soon"}}"#, 400),
        ("rules", r#"{"action": "reset", "verb": "get"}"#, 400),
        ("journal", "", 405),
        ("elsewhere", "", 404),
    ] {
        let (code, answer) = send("POST", path, body).await;
        assert_eq!(code, expected, "{path} {body}: {answer}");
    }
    let (_, journal) = send("GET", "journal", "").await;
    let journal: Value = serde_json::from_str(&journal).unwrap();
    let said: Vec<&str> =
        journal["entries"].as_array().unwrap().iter().filter_map(|entry| entry["what"].as_str()).collect();
    assert_eq!(said[0], "rule 1: create configmaps default/: carried out, response lost");
    assert_eq!(
        said[2..],
        [
            "watches of configmaps closed",
            "bookmarks sent to watches of deployments.apps",
            "clock stopped",
            "clock set back by 1h"
        ]
    );
    listener.shutdown().await;
    plain.shutdown().await;
}

#[tokio::test]
async fn a_truncated_response_over_tcp_is_an_incomplete_body() {
    let (server, api) = start();
    create(&api, "a").await.unwrap();
    let listener = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let config = kube::Config::new(listener.url().parse().unwrap());
    let remote = Client::try_from(config).unwrap();
    server.faults().add(Rule::new(Action::Truncate(50)).once());
    let path = "/api/v1/namespaces/default/configmaps/a";
    assert!(raw(&remote, "GET", path, "").await.is_err());
    assert_eq!(raw(&remote, "GET", path, "").await.unwrap().0, 200);
    listener.shutdown().await;
}

#[tokio::test]
async fn silence_over_tcp_ends_with_the_listener() {
    let (server, api) = start();
    let listener = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let config = kube::Config::new(listener.url().parse().unwrap());
    let remote: Api<ConfigMap> = Api::namespaced(Client::try_from(config).unwrap(), "default");
    let faults = server.faults();
    faults.add(Rule::new(Action::Silence).name("silent"));
    faults.add(Rule::new(Action::WithholdResponse).verb(Verb::Create).once());
    let mut asking = JoinSet::new();
    let asks = remote.clone();
    asking.spawn(async move { asks.get("silent").await.is_err() });
    asking.spawn(async move { create(&remote, "a").await.is_err() });
    while faults.journal().len() < 2 || !exists(&api, "a").await {
        tokio::task::yield_now().await;
    }
    assert!(asking.try_join_next().is_none(), "neither has an answer");
    listener.shutdown().await;
    assert_eq!(asking.join_all().await, [true, true], "their connections closed without an answer");
}

#[tokio::test]
async fn a_lost_response_over_tcp_closes_the_connection() {
    let (server, api) = start();
    let listener = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let config = kube::Config::new(listener.url().parse().unwrap());
    let remote: Api<ConfigMap> = Api::namespaced(Client::try_from(config).unwrap(), "default");
    let faults = server.faults();
    faults.add(Rule::new(Action::LoseResponse).verb(Verb::Create).once());
    let error = create(&remote, "a").await.unwrap_err();
    assert!(!matches!(error, kube::Error::Api(_)), "there is no answer: {error}");
    assert!(exists(&api, "a").await);
    assert!(exists(&remote, "a").await, "the next request gets a connection of its own");
    assert_eq!(faults.journal().len(), 1, "the client did not try again by itself");
    listener.shutdown().await;
}
