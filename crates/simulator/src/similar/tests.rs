//! Differences that count between two worlds, and those that do not.

use std::collections::BTreeSet;

use expect_test::{Expect, expect};
use k8s_openapi::ByteString;
use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;

#[expect(clippy::needless_pass_by_value, reason = "`json!` returns values")]
fn object(name: &str, uid: u64, rest: Value) -> (ObjectId, Arc<ObjectState>) {
    let uid = format!("00000000-0000-0000-0000-{uid:012}");
    let mut object =
        json!({"metadata": {"name": name, "namespace": "a", "uid": uid, "resourceVersion": "7"}});
    for (field, value) in rest.as_object().unwrap() {
        match (object.get_mut(field).and_then(Value::as_object_mut), value) {
            (Some(known), Value::Object(more)) => known.extend(more.clone()),
            _ => object[field] = value.clone(),
        }
    }
    let state = ObjectState::new("configmaps", object, &Masks::default());
    (ObjectId::new("", "configmaps", "a", name), Arc::new(state))
}

fn world(objects: impl IntoIterator<Item = (ObjectId, Arc<ObjectState>)>) -> World {
    World { objects: objects.into_iter().collect(), ..World::default() }
}

fn owned_by(uid: u64) -> Value {
    let uid = format!("00000000-0000-0000-0000-{uid:012}");
    json!({"metadata": {"ownerReferences": [{"uid": uid}]}})
}

#[expect(clippy::needless_pass_by_value, reason = "`expect!` returns values")]
fn check(expected: World, found: World, differences: Expect) {
    let learned = Learned::default();
    let found = compare(&normal_form(&expected, &learned), &normal_form(&found, &learned));
    let text: Vec<String> = found.iter().map(ToString::to_string).collect();
    differences.assert_eq(&text.join("\n"));
}

#[test]
fn uids_may_differ_but_references_must_lead_to_the_same_object() {
    let with =
        |parent, child, owner| world([object("p", parent, json!({})), object("c", child, owned_by(owner))]);
    check(with(1, 2, 1), with(8, 9, 8), expect![""]);
    check(
        with(1, 2, 1),
        with(1, 2, 7),
        expect![[
            r#"configmaps a/c has .metadata.ownerReferences = [{"uid":"<uid of something gone 1>"}], the run without faults has [{"uid":"<uid of configmaps a/p>"}]"#
        ]],
    );
}

#[test]
fn generated_names_may_differ_but_their_number_and_content_must_not() {
    let page = |name: &str, uid, text: &str| {
        let rest = json!({"metadata": {"generateName": "page-"}, "data": {"text": text}});
        object(&format!("page-{name}"), uid, rest)
    };
    let names = |name: &str| object("site", 9, json!({"data": {"page": format!("a/page-{name}")}}));
    let expected = || world([page("x", 1, "one"), page("y", 2, "two"), names("y")]);
    check(expected(), world([page("b", 1, "two"), page("c", 2, "one"), names("b")]), expect![""]);
    check(
        expected(),
        world([page("b", 1, "two"), page("c", 2, "one"), names("c")]),
        expect![[
            r#"configmaps a/site has .data.page = "a/page-*#1", the run without faults has "a/page-*#2""#
        ]],
    );
    check(
        expected(),
        world([page("b", 1, "two"), page("c", 2, "one"), page("d", 3, "two"), names("b")]),
        expect!["configmaps a/page-*#3 is left over"],
    );
}

#[test]
fn times_and_versions_are_not_compared_and_the_observed_generation_is_by_its_relation() {
    let site = |generation: i64, observed: i64, at: &str| {
        let rest = json!({
            "metadata": {"generation": generation, "creationTimestamp": at},
            "status": {"observedGeneration": observed, "at": at},
        });
        world([object("site", 1, rest)])
    };
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00.5Z");
    check(site(1, 1, early), site(3, 3, late), expect![""]);
    check(
        site(2, 2, early),
        site(2, 1, late),
        expect![[
            r#"configmaps a/site has .status.observedGeneration = "<outdated>", the run without faults has "<current>""#
        ]],
    );
}

#[test]
fn ids_of_remote_systems_are_learned_and_must_be_the_same_in_both_places() {
    let bucket = |status: u64, remote: &[u64]| World {
        objects: BTreeMap::from([object("b", 1, json!({"status": {"id": status}}))]),
        remotes: BTreeMap::from([(
            Arc::from("cloud"),
            json!({"buckets": remote.iter().map(|id| (id.to_string(), json!("b"))).collect::<Map<_, _>>()}),
        )]),
        ..World::default()
    };
    let learned = learn(&bucket(11, &[11]), &bucket(22, &[22])).unwrap();
    let compared = |world: World| {
        let found = compare(&normal_form(&bucket(11, &[11]), &learned), &normal_form(&world, &learned));
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(compared(bucket(33, &[33])), [""; 0]);
    assert_eq!(
        compared(bucket(33, &[44])),
        [
            r#"remote cloud has .buckets.<id 1> = nothing, the run without faults has "b""#,
            r#"remote cloud has .buckets.<id 2> = "b", the run without faults has nothing"#
        ]
    );
    assert_eq!(
        compared(bucket(33, &[33, 44])),
        [r#"remote cloud has .buckets.<id 2> = "b", the run without faults has nothing"#]
    );
}

/// A Secret with a generated password and a text that contains it, and the database that knows the password.
fn with_password(secret: &str, link: &str, database: &str) -> World {
    let base64 = |text: &str| json!(ByteString(text.as_bytes().to_vec()));
    let whole = json!({"metadata": {"name": "s"}, "data": {"password": base64(secret), "uri": base64(link)}});
    let state = Arc::new(ObjectState::new("secrets", whole, &Masks::default()));
    World {
        objects: BTreeMap::from([(ObjectId::new("", "secrets", "a", "s"), state)]),
        remotes: BTreeMap::from([(Arc::from("database"), json!({"password": database}))]),
        ..World::default()
    }
}

#[test]
fn a_generated_value_is_recognised_in_a_secret_and_within_other_texts() {
    let of = |password: &str, linked: &str, database: &str| {
        with_password(password, &format!("postgres://app:{linked}@db/x"), database)
    };
    let consistent = |password: &str| of(password, password, password);
    let expected = consistent("pw-aaaaaa");
    let learned = learn(&expected, &consistent("pw-bbbbbb")).unwrap();
    let compared = |world: World| {
        let found = compare(&normal_form(&expected, &learned), &normal_form(&world, &learned));
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(compared(consistent("pw-cccccc")), [""; 0]);
    assert_eq!(
        compared(of("pw-cccccc", "pw-cccccc", "pw-dddddd")),
        [
            r#"secrets a/s has .data.password = "<id 2>", the run without faults has "<id 1>""#,
            r#"secrets a/s has .data.uri = "postgres://app:<id 2>@db/x", the run without faults has "postgres://app:<id 1>@db/x""#,
        ]
    );
    assert_eq!(
        compared(of("pw-cccccc", "pw-dddddd", "pw-cccccc")),
        [r#"secrets a/s has .data.uri = "<id 2>", the run without faults has "postgres://app:<id 1>@db/x""#]
    );
}

#[test]
fn the_generated_values_in_a_form_are_found_within_texts() {
    let found = ids_in(&json!({"uri": "postgres://<id 12>@x/<id 3>", "all": ["<id 1>", "<id", "<uid 4>"]}));
    assert_eq!(found, ["<id 1>", "<id 3>", "<id 12>"].map(str::to_owned).into());
}

#[test]
fn a_text_that_differs_around_the_generated_value_within_it_may_differ() {
    let of = |password: &str, salt: &str| with_password(password, &format!("{salt}:{password}"), password);
    let learned = learn(&of("pw-aaaaaa", "1"), &of("pw-bbbbbb", "22")).unwrap();
    let forms = |world: &World| normal_form(world, &learned);
    assert_eq!(compare(&forms(&of("pw-aaaaaa", "1")), &forms(&of("pw-cccccc", "333"))), []);
}

#[test]
fn lists_without_an_order_are_compared_as_sets() {
    let with = |names: &[&str], texts: &[&str]| {
        let finalizers: Vec<String> = names.iter().map(|name| format!("dev/{name}")).collect();
        let owners: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        let conditions: Vec<Value> =
            names.iter().map(|name| json!({"type": name, "status": "True"})).collect();
        let metadata = json!({"finalizers": finalizers, "ownerReferences": owners});
        world([object(
            "x",
            1,
            json!({"metadata": metadata, "status": {"conditions": conditions, "texts": texts}}),
        )])
    };
    check(with(&["a", "b"], &["1", "2"]), with(&["b", "a"], &["1", "2"]), expect![""]);
    check(
        with(&["a", "b"], &["1", "2"]),
        with(&["a", "b"], &["2", "1"]),
        expect![[r#"configmaps a/x has .status.texts = ["2","1"], the run without faults has ["1","2"]"#]],
    );
}

#[test]
fn a_field_without_a_value_is_not_an_absent_one() {
    let with = |data: Value| world([object("x", 1, json!({"data": data}))]);
    check(
        with(json!({})),
        with(json!({"a": null})),
        expect!["configmaps a/x has .data.a = null, the run without faults has nothing"],
    );
}

#[test]
fn masked_fields_are_not_compared() {
    let mut masks = Masks::default();
    masks.add("configmaps".to_owned(), "/data/last~1probe").unwrap();
    let of = |probe: &str, text: &str| {
        let (id, object) = object("x", 1, json!({"data": {"last/probe": probe, "text": text}}));
        world([(id, Arc::new(ObjectState::new("configmaps", object.whole().clone(), &masks)))])
    };
    let learned = Learned::default();
    let differences = |one: &World, other: &World| {
        compare(&normal_form(one, &learned), &normal_form(other, &learned)).len()
    };
    assert_eq!(differences(&of("1", "a"), &of("2", "a")), 0);
    assert_eq!(differences(&of("1", "a"), &of("1", "b")), 1);
    assert_eq!(masks.texts().collect::<Vec<_>>(), ["configmaps /data/last/probe"]);
    for wrong in ["", "/", "data", ".data"] {
        assert!(masks.add(String::new(), wrong).unwrap_err().contains("is not a JSON pointer"), "{wrong}");
    }
}

#[test]
fn worlds_with_other_objects_cannot_be_learned() {
    let differences = learn(&world([object("x", 1, json!({}))]), &world([])).unwrap_err();
    assert_eq!(differences, [Difference::Missing("configmaps a/x".to_owned())]);
}

proptest! {
    #[test]
    fn a_renamed_world_is_equal(
        texts in prop::collection::vec("[a-c]{1,2}", 1..6),
        shift in 0_u64..1000,
        names in prop::collection::btree_set("[d-z]{5}", 6),
    ) {
        let names: Vec<String> = names.into_iter().collect();
        let of = |shift: u64, name: &dyn Fn(usize) -> String| {
            world(texts.iter().enumerate().map(|(place, text)| {
                let mut rest = owned_by(shift + 10 + (place as u64 + 1) % texts.len() as u64);
                rest["metadata"]["generateName"] = json!("page-");
                rest["data"] = json!({"text": text});
                object(&format!("page-{}", name(place)), shift + 10 + place as u64, rest)
            }))
        };
        // References form a ring, so the order is fixed by contents only if these differ.
        let distinct = texts.iter().collect::<BTreeSet<_>>().len() == texts.len();
        prop_assume!(distinct);
        let first = normal_form(&of(0, &|place| names[place].clone()), &Learned::default());
        let last = names.len() - 1;
        let second = normal_form(&of(shift, &|place| names[last - place].clone()), &Learned::default());
        prop_assert!(compare(&first, &second).is_empty(), "{first:?} {second:?}");
    }
}
