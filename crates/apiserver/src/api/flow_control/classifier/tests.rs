use super::*;
use http::Request;
use serde_json::json;

/// Builds schemas from `name precedence level`, each with one rule.
fn classifier(schemas: &[(&str, Value)]) -> Classifier {
    let schema = |(line, rule): &(&str, Value)| {
        let mut words = line.split(' ');
        let [name, precedence, level] = [(); 3].map(|()| words.next().unwrap());
        let precedence: i64 = precedence.parse().unwrap();
        ParsedFlowSchema::read(json!({"metadata": {"name": name, "uid": name}, "spec": {
            "priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence, "rules": [rule],
        }}))
        .unwrap()
    };
    let levels = ["low", "high"].map(|name| {
        PriorityLevel::read(json!({"metadata": {"name": name, "uid": format!("{name}-uid")}, "spec": {}}))
            .unwrap()
    });
    Classifier::new(schemas.iter().map(schema), levels)
}

/// Builds a rule for all users and these requests.
fn of_all(resources: &Value, paths: &Value) -> Value {
    json!({
        "subjects": [{"kind": "Group", "group": {"name": "*"}}],
        "resourceRules": resources, "nonResourceRules": paths,
    })
}

fn everything() -> (Value, Value) {
    (
        json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true}]),
        json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]),
    )
}

fn classify(classifier: &Classifier, user: &UserInfo, method: &str, uri: &str) -> String {
    let head = Request::builder().method(method).uri(uri).body(()).unwrap().into_parts().0;
    classifier
        .classify(user, &RequestTarget::of(&head))
        .map_or_else(|| "none".to_owned(), |flow| flow.schema.to_str().unwrap().to_owned())
}

fn jane() -> UserInfo {
    UserInfo::new("jane", "", ["devs"])
}

/// Whether a rule for all users matches a request.
fn takes(resources: &Value, paths: &Value, method: &str, uri: &str) -> bool {
    let classifier = classifier(&[("it 1 low", of_all(resources, paths))]);
    classify(&classifier, &jane(), method, uri) == "it"
}

#[test]
fn the_lowest_precedence_wins_then_the_first_name() {
    let (resources, paths) = everything();
    let rule = || of_all(&resources, &paths);
    let order = |schemas: &[&str]| {
        let schemas: Vec<_> = schemas.iter().map(|line| (*line, rule())).collect();
        classify(&classifier(&schemas), &jane(), "GET", "/version")
    };
    assert_eq!(order(&["a 20 low", "b 3 low"]), "b");
    assert_eq!(order(&["b 7 low", "a 7 high"]), "a");
    assert_eq!(order(&["a 1 missing", "b 2 low"]), "b", "a schema without its level takes nothing");
    assert_eq!(order(&["a 1 missing"]), "none");
}

#[test]
fn rules_match_users_by_name_group_or_service_account() {
    let (resources, paths) = everything();
    let is = |subject: &Value, user: &UserInfo| {
        let rule = json!({"subjects": [subject], "resourceRules": resources, "nonResourceRules": paths});
        classify(&classifier(&[("it 1 low", rule)]), user, "GET", "/api/v1/pods") == "it"
    };
    let user = |name: &str| json!({"kind": "User", "user": {"name": name}});
    assert!(is(&user("jane"), &jane()) && is(&user("*"), &jane()) && !is(&user("jan"), &jane()));
    let group = |name: &str| json!({"kind": "Group", "group": {"name": name}});
    assert!(is(&group("devs"), &jane()) && is(&group("system:authenticated"), &jane()));
    assert!(is(&group("*"), &jane()) && !is(&group("jane"), &jane()));
    let account = |namespace: &str, name: &str| json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": name}});
    let builder = UserInfo::new("system:serviceaccount:ci:builder", "", ["system:serviceaccounts"]);
    assert!(is(&account("ci", "builder"), &builder) && is(&account("ci", "*"), &builder));
    assert!(!is(&account("c", "*"), &builder) && !is(&account("ci", "build"), &builder));
    assert!(!is(&account("ci", "*"), &UserInfo::new("ci:builder", "", ["devs"])));
}

#[test]
fn rules_match_resources_by_verb_group_resource_and_namespace() {
    let one = |verb: &str, group: &str, resource: &str, namespaces: &Value, cluster: bool| {
        json!([{
            "verbs": [verb], "apiGroups": [group], "resources": [resource], "namespaces": namespaces,
            "clusterScope": cluster,
        }])
    };
    let none = json!([]);
    let in_a = |resource: &str| one("get", "", resource, &json!(["a"]), false);
    let pod = "/api/v1/namespaces/a/pods/x";
    assert!(takes(&in_a("pods"), &none, "GET", pod) && takes(&in_a("*"), &none, "GET", pod));
    assert!(!takes(&in_a("pods"), &none, "DELETE", pod), "another verb");
    assert!(!takes(&in_a("pods"), &none, "GET", "/apis/g/v1/namespaces/a/pods/x"), "another group");
    assert!(!takes(&in_a("pods"), &none, "GET", "/api/v1/namespaces/b/pods/x"), "another namespace");
    assert!(!takes(&in_a("pods"), &none, "GET", "/api/v1/namespaces/a/pods/x/status"), "its status");
    assert!(takes(&in_a("pods/status"), &none, "GET", "/api/v1/namespaces/a/pods/x/status"));
    assert!(!takes(&in_a("pods/status"), &none, "GET", pod));
    let lists = |cluster: bool| one("list", "", "pods", &json!(["*"]), cluster);
    assert!(takes(&lists(true), &none, "GET", "/api/v1/pods"), "across namespaces");
    assert!(!takes(&lists(false), &none, "GET", "/api/v1/pods"));
    assert!(takes(&lists(false), &none, "GET", "/api/v1/namespaces/a/pods"));
    assert!(!takes(&lists(true), &none, "GET", "/api/v1/pods?watch=true"), "a watch is not a list");
    assert!(takes(&in_a("namespaces"), &none, "GET", "/api/v1/namespaces/a"), "a namespace is within itself");
}

#[test]
fn a_path_also_matches_paths_below_it() {
    let none = json!([]);
    let path = |path: &str| json!([{"verbs": ["get"], "nonResourceURLs": [path]}]);
    assert!(takes(&none, &path("/healthz"), "GET", "/healthz?verbose"));
    assert!(takes(&none, &path("/healthz"), "GET", "/healthz/ping"));
    assert!(takes(&none, &path("/healthz/*"), "GET", "/healthz/ping"));
    assert!(takes(&none, &path("*"), "GET", "/version"));
    assert!(!takes(&none, &path("/healthz"), "GET", "/healthzy"));
    assert!(!takes(&none, &path("/healthz"), "POST", "/healthz"));
    let api = path("/api/*");
    assert!(takes(&none, &api, "GET", "/api/v1"), "discovery is not a resource");
    assert!(!takes(&none, &api, "GET", "/api/v1/pods"), "a resource is not a path");
    assert!(!takes(&everything().0, &none, "GET", "/api/v1"), "nor a path a resource");
}
