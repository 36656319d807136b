//! Patches of parts of a Deployment; the expectations follow recorded answers.

use std::cell::Cell;
use std::sync::Arc;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::strategic;
use crate::schema::definitions;
use crate::schema::{Definitions, Schema};
use crate::testing::json_value;

thread_local! {
    /// Number of comparisons of element identities.
    pub(super) static COMPARISONS: Cell<usize> = const { Cell::new(0) };
}

fn deployment() -> Arc<Schema> {
    let definitions = Arc::new(Definitions::new(definitions()));
    Schema::builtin(&definitions, "io.k8s.api.apps.v1.Deployment").unwrap()
}

/// Compares the patched object, or the error.
#[track_caller]
fn check(target: &Value, patch: &Value, expected: &Expect) {
    let shown = match strategic(&deployment(), target, patch) {
        Ok(patched) => patched.to_string(),
        Err(error) => format!("{} {}", error.code(), error.message()),
    };
    expected.assert_eq(&shown);
}

/// Like `check`, for a patch of the pod template's spec.
#[track_caller]
fn check_pod(target: &Value, patch: &Value, expected: &Expect) {
    let wrap = |spec: &Value| json!({"spec": {"template": {"spec": spec}}});
    let shown = match strategic(&deployment(), &wrap(target), &wrap(patch)) {
        Ok(patched) => patched["spec"]["template"]["spec"].to_string(),
        Err(error) => format!("{} {}", error.code(), error.message()),
    };
    expected.assert_eq(&shown);
}

#[test]
fn objects_merge_and_null_removes() {
    check(
        &json!({"metadata": {"labels": {"a": "1"}}, "spec": {"replicas": 1, "paused": true}}),
        &json!({"metadata": {"labels": {"b": "2"}}, "spec": {"paused": null, "minReadySeconds": null}}),
        &expect![[r#"{"metadata":{"labels":{"a":"1","b":"2"}},"spec":{"replicas":1}}"#]],
    );
}

#[test]
fn lists_merge_by_key_and_new_elements_come_first() {
    let containers =
        json!({"containers": [{"name": "c", "image": "c:1", "env": [{"name": "A", "value": "1"}]}]});
    check_pod(
        &containers,
        &json!({"containers": [{"name": "c", "image": "c:2"}, {"name": "side", "image": "s:1"}]}),
        &expect![[
            r#"{"containers":[{"env":[{"name":"A","value":"1"}],"image":"c:2","name":"c"},{"image":"s:1","name":"side"}]}"#
        ]],
    );
    check_pod(
        &containers,
        &json!({"containers": [{"name": "c", "env": [{"name": "B", "value": "2"}]}]}),
        &expect![[
            r#"{"containers":[{"env":[{"name":"B","value":"2"},{"name":"A","value":"1"}],"image":"c:1","name":"c"}]}"#
        ]],
    );
}

#[test]
fn lists_without_a_strategy_are_replaced() {
    check_pod(
        &json!({"tolerations": [{"key": "a"}], "containers": []}),
        &json!({"tolerations": [{"key": "b"}]}),
        &expect![[r#"{"containers":[],"tolerations":[{"key":"b"}]}"#]],
    );
}

#[test]
fn scalars_merge_as_a_set() {
    check(
        &json!({"metadata": {"finalizers": ["a"]}}),
        &json!({"metadata": {"finalizers": ["b", "a"]}}),
        &expect![[r#"{"metadata":{"finalizers":["b","a"]}}"#]],
    );
    check(
        &json!({"metadata": {"finalizers": ["a", "b"]}}),
        &json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
        &expect![[r#"{"metadata":{"finalizers":["b"]}}"#]],
    );
    check(
        &json!({"metadata": {"name": "x"}}),
        &json!({"metadata": {"$deleteFromPrimitiveList/finalizers": "text"}}),
        &expect![[r#"{"metadata":{"name":"x"}}"#]],
    );
}

#[test]
fn directives_replace_and_delete() {
    let labels = json!({"metadata": {"labels": {"a": "1", "b": "1"}}});
    check(
        &labels,
        &json!({"metadata": {"labels": {"$patch": "replace", "c": "1"}}}),
        &expect![[r#"{"metadata":{"labels":{"c":"1"}}}"#]],
    );
    check(
        &labels,
        &json!({"metadata": {"labels": {"$patch": "delete"}}}),
        &expect![[r#"{"metadata":{"labels":{}}}"#]],
    );
    let containers = json!({"containers": [{"name": "a"}, {"name": "b"}]});
    check_pod(
        &containers,
        &json!({"containers": [{"$patch": "replace"}, {"name": "only"}]}),
        &expect![[r#"{"containers":[{"name":"only"}]}"#]],
    );
    check_pod(
        &containers,
        &json!({"containers": [{"name": "b", "$patch": "delete"}, {"name": "a", "image": "i"}]}),
        &expect![[r#"{"containers":[{"image":"i","name":"a"}]}"#]],
    );
    check_pod(
        &json!({"containers": []}),
        &json!({"containers": [{"name": "a", "env": [{"name": "A", "$patch": "delete"}]}], "volumes": [{"name": "v", "$patch": "delete"}]}),
        // A new element keeps the directives in it. Go then reports an unknown field.
        &expect![[r#"{"containers":[{"env":[{"$patch":"delete","name":"A"}],"name":"a"}],"volumes":[]}"#]],
    );
}

#[test]
fn retain_keys_removes_all_other_fields() {
    check(
        &json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}),
        &json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
        &expect![[r#"{"spec":{"strategy":{"type":"Recreate"}}}"#]],
    );
    check(
        &json!({"spec": {"strategy": {}}}),
        &json!({"spec": {"strategy": {"$retainKeys": ["rollingUpdate"], "type": "Recreate"}}}),
        &expect!["400 invalid patch format of retainKeys"],
    );
}

#[test]
fn lists_take_the_requested_order() {
    let containers = json!({"containers": [{"name": "a"}, {"name": "server"}, {"name": "b"}]});
    check_pod(
        &containers,
        &json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
        &expect![[r#"{"containers":[{"name":"server"},{"name":"b"},{"name":"a"}]}"#]],
    );
    check_pod(
        &containers,
        &json!({
            "$setElementOrder/containers": [{"name": "new"}, {"name": "a"}, {"name": "b"}],
            "containers": [{"name": "new", "image": "n"}],
        }),
        &expect![[
            r#"{"containers":[{"image":"n","name":"new"},{"name":"a"},{"name":"server"},{"name":"b"}]}"#
        ]],
    );
}

#[test]
fn errors_of_a_patch_are_those_of_the_server() {
    let target = json!({"spec": {"strategy": {}, "template": {"spec": {"containers": [{"name": "c"}]}}}});
    let refused = |patch: Value, expected: Expect| check(&target, &patch, &expected);
    let pod = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    refused(
        json!({"spec": {"$patch": "bogus"}}),
        expect!["500 unknown patch type: bogus in map: map[$patch:bogus]"],
    );
    refused(
        json!({"spec": {"strategy": {"$patch": 5}}}),
        expect!["500 unknown patch type: %!s(int64=5) in map: map[$patch:5]"],
    );
    refused(
        json!({"spec": {"strategy": {"$patch": {"a": [1, true, null, "x"]}}}}),
        expect![
            "500 unknown patch type: map[a:[%!s(int64=1) %!s(bool=true) <nil> x]] in map: map[$patch:map[a:[1 true <nil> x]]]"
        ],
    );
    check(
        &json!({"metadata": {"labels": {"a": "b"}}}),
        &json!({"metadata": {"labels": {"$setElementOrder/x": ["a"]}}}),
        &expect!["500 merging an object in json but data type is not struct, instead is: map"],
    );
    refused(
        pod(json!({"containers": [{"name": "c", "$patch": "bogus"}]})),
        expect!["500 unknown patch type: bogus in map: map[$patch:bogus name:c]"],
    );
    refused(
        pod(json!({"containers": [{"image": "x"}]})),
        expect!["500 map: map[image:x] does not contain declared merge key: name"],
    );
    refused(
        pod(json!({"containers": [{"$patch": "delete"}]})),
        expect!["500 map: map[$patch:delete] does not contain declared merge key: name"],
    );
    refused(
        pod(json!({"containers": ["text"]})),
        expect!["500 list element types are not identical: [[map[name:c]] [text]]"],
    );
    refused(
        pod(json!({"$setElementOrder/containers": "text"})),
        expect!["500 expected a []interface {}, but received a string"],
    );
    refused(
        pod(json!({"$setElementOrder/containers": null})),
        expect!["500 expected a []interface {}, but received a %!s(<nil>)"],
    );
    refused(
        pod(json!({"$setElementOrder/containers": ["text"]})),
        expect!["500 value for key 0 is not a map"],
    );
    refused(
        pod(json!({"$setElementOrder/containers": [{"name": "c"}], "containers": [5]})),
        expect!["500 expected a map[string]interface {}, but received a int64"],
    );
    refused(
        pod(json!({"$setElementOrder/containers": [true], "containers": [{"name": "new"}]})),
        expect!["500 expected a map[string]interface {}, but received a bool"],
    );
    refused(
        pod(json!({"$setElementOrder/nope": [{"name": "c"}]})),
        expect![[r#"500 unable to find api field in struct PodSpec for the json field "nope""#]],
    );
    refused(
        pod(
            json!({"$setElementOrder/containers": [{"name": "nope"}], "containers": [{"name": "new", "image": "x"}]}),
        ),
        expect![[r#"
            500 The order in patch list:
            [map[image:x name:new]]
             doesn't match $setElementOrder list:
            [map[name:nope]]
        "#]],
    );
}

proptest! {
    #[test]
    fn no_patch_makes_it_panic(target in json_value(), patch in json_value()) {
        let wrap = |value: &Value| json!({"metadata": value, "spec": {"template": value}, "data": value});
        let _ = strategic(&deployment(), &wrap(&target), &wrap(&patch));
        let _ = strategic(&deployment(), &target, &patch);
    }

    #[test]
    fn without_lists_and_directives_it_is_a_merge_patch(
        old in prop::collection::btree_map("[ab]", prop::option::of("[xy]"), 0..3),
        change in prop::collection::btree_map("[ab]", prop::option::of("[xy]"), 0..3),
    ) {
        let old: Value = old.into_iter().filter_map(|(key, value)| Some((key, Value::from(value?)))).collect::<serde_json::Map<_, _>>().into();
        let wrap = |value: &Value| json!({"metadata": {"labels": value}});
        let (target, patch) = (wrap(&old), wrap(&json!(change)));
        let mut expected = target.clone();
        crate::patch::merge(&mut expected, &patch);
        prop_assert_eq!(strategic(&deployment(), &target, &patch).unwrap(), expected);
    }
}

#[test]
fn the_work_grows_linearly_with_the_length_of_the_lists() {
    const LONG: usize = 20_000;
    let names = |from: usize| (from..from + LONG).rev().map(|n| format!("E{n}")).collect::<Vec<_>>();
    let env = |from: usize, directive: Option<&str>| -> Vec<Value> {
        names(from)
            .iter()
            .map(|name| match directive {
                Some(directive) => json!({"name": name, "$patch": directive}),
                None => json!({"name": name, "value": "x"}),
            })
            .collect()
    };
    let order: Vec<Value> = names(LONG / 2).iter().map(|name| json!({"name": name})).collect();
    let pod = |env: Value| {
        let mut container = json!({"name": "c", "env": env["env"]});
        container.as_object_mut().unwrap().extend(env.as_object().unwrap().clone());
        json!({"spec": {"template": {"spec": {"containers": [container]}}}})
    };
    let map = |metadata: Value| json!({"metadata": metadata});
    let finalizers = |from: usize| json!({"finalizers": names(from)});
    for (what, target, patch, left) in [
        (
            "by key",
            pod(json!({"env": env(0, None)})),
            pod(json!({"env": env(LONG / 2, None)})),
            LONG + LONG / 2,
        ),
        (
            "deleted",
            pod(json!({"env": env(0, None)})),
            pod(json!({"env": env(LONG / 2, Some("delete"))})),
            LONG / 2,
        ),
        (
            "ordered",
            pod(json!({"env": env(0, None)})),
            pod(json!({"env": env(LONG / 2, None), "$setElementOrder/env": order})),
            LONG + LONG / 2,
        ),
        ("scalars", map(finalizers(0)), map(finalizers(LONG / 2)), LONG + LONG / 2),
        (
            "scalars deleted",
            map(finalizers(0)),
            map(json!({"$deleteFromPrimitiveList/finalizers": names(LONG / 2)})),
            LONG / 2,
        ),
    ] {
        COMPARISONS.with(|count| count.set(0));
        let patched = strategic(&deployment(), &target, &patch).unwrap();
        let list = patched
            .pointer("/spec/template/spec/containers/0/env")
            .or_else(|| patched.pointer("/metadata/finalizers"));
        assert_eq!(list.and_then(Value::as_array).map(Vec::len), Some(left), "{what}");
        let comparisons = COMPARISONS.with(Cell::get);
        assert!((1..200 * LONG).contains(&comparisons), "{what}: {comparisons}");
    }
}
