//! Sequences of writes by several managers, and the resulting entries.

use expect_test::{Expect, expect};
use serde_json::{Map, Value};

use super::super::{OnConflict, Writer, apply, keep_times_of_no_op, track_update};
use super::{GIZMO, gizmo};
use crate::patch;

/// Runs steps of the form `manager verb spec`, a second apart, and compares the spec and the entries after the last
/// one, or its error.
#[track_caller]
fn check(steps: &[&str], expected: &Expect) {
    let mut live: Option<Value> = None;
    let mut shown = String::new();
    for (second, step) in steps.iter().enumerate() {
        let mut words = step.splitn(3, ' ');
        let (manager, verb, spec) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
        let writer = Writer {
            manager,
            subresource: "",
            api_version: "example.com/v1",
            now: &format!("2024-01-01T00:00:{second:02}Z"),
        };
        let spec: Value = serde_json::from_str(spec).unwrap();
        let outcome = match verb {
            "applies" => apply(&GIZMO, live.as_ref(), &gizmo(&spec), &writer, OnConflict::Refuse, &[]),
            "forces" => apply(&GIZMO, live.as_ref(), &gizmo(&spec), &writer, OnConflict::Force, &[]),
            "patches" => {
                let mut new = live.clone().unwrap_or_else(|| gizmo(&Value::Object(Map::new())));
                patch::merge(&mut new["spec"], &spec);
                track_update(&GIZMO, live.as_ref(), &mut new, &writer, &[]);
                Ok(new)
            }
            "resets" => {
                let mut new = live.clone().unwrap();
                new["metadata"]["managedFields"] = spec;
                track_update(&GIZMO, live.as_ref(), &mut new, &writer, &[]);
                Ok(new)
            }
            verb => panic!("no such verb: {verb}"),
        };
        shown = match outcome {
            Err(error) => error.message().to_owned(),
            Ok(mut new) => {
                GIZMO.default(&mut new);
                if let Some(live) = &live {
                    keep_times_of_no_op(live, &mut new);
                }
                let shown = show(&new);
                live = Some(new);
                shown
            }
        };
    }
    expected.assert_eq(&shown);
}

fn show(object: &Value) -> String {
    let mut lines = vec![object["spec"].to_string()];
    for entry in object["metadata"]["managedFields"].as_array().into_iter().flatten() {
        let text = |name: &str| entry[name].as_str().unwrap_or("-");
        let time = text("time").trim_start_matches("2024-01-01T00:00:");
        let paths = super::super::fields_v1::decode(&entry["fieldsV1"]).unwrap().paths().join(" ");
        lines.push(format!("{} {} {time} {paths}", text("manager"), text("operation")));
    }
    lines.join("\n")
}

#[test]
fn an_applier_owns_its_fields_and_not_the_structures_around_them() {
    check(
        &[
            r#"a applies {"size":1,"deep":{"a":1},"map":{"k":"v"},"ports":[{"port":80}],"set":["x"],"list":["x"]}"#,
        ],
        &expect![[r#"
            {"deep":{"a":1},"list":["x"],"map":{"k":"v"},"ports":[{"port":80,"proto":"TCP"}],"set":["x"],"size":1}
            a Apply 00Z .spec.list .spec.size .spec.deep.a .spec.map.k .spec.ports[port=80,proto="TCP"] .spec.ports[port=80,proto="TCP"].port .spec.set[="x"]"#]],
    );
}

#[test]
fn a_creator_owns_the_structures_too() {
    check(
        &[r#"a patches {"size":1,"map":{"k":"v"},"set":["x"]}"#],
        &expect![[r#"
            {"map":{"k":"v"},"set":["x"],"size":1}
            a Update 00Z .spec .spec.map .spec.set .spec.size .spec.map.k .spec.set[="x"]"#]],
    );
}

#[test]
fn the_same_value_is_shared_and_another_is_a_conflict() {
    check(
        &[r#"a applies {"size":1,"color":"red"}"#, r#"b applies {"size":1}"#],
        &expect![[r#"
            {"color":"red","size":1}
            b Apply - .spec.size
            a Apply 00Z .spec.color .spec.size"#]],
    );
    check(
        &[r#"a applies {"size":1}"#, r#"b applies {"size":2}"#],
        &expect![[r#"Apply failed with 1 conflict: conflict with "a": .spec.size"#]],
    );
    check(
        &[r#"a patches {"size":1,"color":"red","deep":{"a":1}}"#, r#"b applies {"size":2,"deep":{"a":2}}"#],
        &expect![[r#"
            Apply failed with 2 conflicts: conflicts with "a" using example.com/v1:
            - .spec.size
            - .spec.deep.a"#]],
    );
}

#[test]
fn force_takes_ownership() {
    check(
        &[r#"a applies {"size":1,"color":"red"}"#, r#"b forces {"size":2}"#],
        &expect![[r#"
            {"color":"red","size":2}
            a Apply 00Z .spec.color
            b Apply 01Z .spec.size"#]],
    );
}

#[test]
fn fields_no_longer_applied_are_removed_unless_another_manager_owns_them() {
    check(
        &[
            r#"a applies {"size":1,"set":["x","y"],"ports":[{"port":1},{"port":2,"label":"l"}]}"#,
            r#"b applies {"set":["y"],"ports":[{"port":2}]}"#,
            r#"a applies {"color":"red"}"#,
        ],
        &expect![[r#"
            {"color":"red","ports":[{"port":2,"proto":"TCP"}],"set":["y"]}
            b Apply - .spec.ports[port=2,proto="TCP"] .spec.ports[port=2,proto="TCP"].port .spec.set[="y"]
            a Apply 02Z .spec.color"#]],
    );
}

#[test]
fn applying_an_empty_spec_removes_the_entry() {
    check(
        &[r#"a applies {"size":1}"#, r#"b applies {"color":"red"}"#, "a applies {}"],
        &expect![[r#"
            {"color":"red"}
            b Apply 01Z .spec.color
            a Apply 02Z .spec"#]],
    );
}

#[test]
fn an_update_takes_the_fields_that_it_changes() {
    check(
        &[r#"a applies {"size":1,"color":"red","deep":{"a":1}}"#, r#"b patches {"size":2,"deep":null}"#],
        &expect![[r#"
            {"color":"red","size":2}
            a Apply 00Z .spec.color
            b Update 01Z .spec.size"#]],
    );
}

#[test]
fn applying_again_changes_nothing_not_even_times() {
    check(
        &[r#"a applies {"size":1,"set":["x"]}"#, r#"a applies {"size":1,"set":["x"]}"#],
        &expect![[r#"
            {"set":["x"],"size":1}
            a Apply 00Z .spec.size .spec.set[="x"]"#]],
    );
}

#[test]
fn lists_take_the_order_of_the_last_applier() {
    check(
        &[r#"a applies {"set":["a","b","c"]}"#, r#"b applies {"set":["z","c","a"]}"#],
        &expect![[r#"
            {"set":["b","z","c","a"]}
            a Apply 00Z .spec.set[="a"] .spec.set[="b"] .spec.set[="c"]
            b Apply 01Z .spec.set[="a"] .spec.set[="c"] .spec.set[="z"]"#]],
    );
}

#[test]
fn an_atomic_value_has_one_owner() {
    check(
        &[r#"a applies {"atomic":{"x":"1"},"list":["x"]}"#, r#"b applies {"atomic":{"y":"1"},"list":["y"]}"#],
        &expect![[r#"
            Apply failed with 2 conflicts: conflicts with "a":
            - .spec.atomic
            - .spec.list"#]],
    );
}

#[test]
fn fields_without_a_schema_are_tracked_by_their_values() {
    check(
        &[
            r#"a applies {"free":{"m":{"x":1},"l":[{"n":1}]}}"#,
            r#"b applies {"free":{"m":{"y":1},"n":null}}"#,
        ],
        &expect![[r#"
            {"free":{"l":[{"n":1}],"m":{"x":1,"y":1},"n":null}}
            a Apply 00Z .spec.free.l .spec.free.m .spec.free.m.x
            b Apply 01Z .spec.free.m .spec.free.n .spec.free.m.y"#]],
    );
}

#[test]
fn entries_stay_discarded_until_the_next_apply() {
    check(
        &[r#"a patches {"size":1}"#, "a resets [{}]", r#"b patches {"size":2}"#],
        &expect![[r#"{"size":2}"#]],
    );
    check(
        &[r#"a patches {"size":1}"#, "a resets [{}]", r#"b applies {"color":"red"}"#],
        &expect![[r#"
            {"color":"red","size":1}
            b Apply 02Z .spec.color
            before-first-apply Update 02Z .spec .spec.size"#]],
    );
}

#[test]
fn malformed_entries_are_ignored() {
    check(
        &[r#"a patches {"size":1}"#, r#"b resets [{"manager":"m","operation":"Bogus"}]"#],
        &expect![[r#"
            {"size":1}
            a Update 00Z .spec .spec.size"#]],
    );
}

#[test]
fn the_oldest_update_entries_are_merged() {
    let steps: Vec<String> =
        (0..12).map(|n| format!(r#"u{n:02} patches {{"map":{{"k{n:02}":"v"}}}}"#)).collect();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    check(
        &steps,
        &expect![[r#"
            {"map":{"k00":"v","k01":"v","k02":"v","k03":"v","k04":"v","k05":"v","k06":"v","k07":"v","k08":"v","k09":"v","k10":"v","k11":"v"}}
            ancient-changes Update 02Z .spec .spec.map .spec.map.k00 .spec.map.k01 .spec.map.k02
            u03 Update 03Z .spec.map.k03
            u04 Update 04Z .spec.map.k04
            u05 Update 05Z .spec.map.k05
            u06 Update 06Z .spec.map.k06
            u07 Update 07Z .spec.map.k07
            u08 Update 08Z .spec.map.k08
            u09 Update 09Z .spec.map.k09
            u10 Update 10Z .spec.map.k10
            u11 Update 11Z .spec.map.k11"#]],
    );
}

#[test]
fn an_object_that_loses_its_last_applied_field_becomes_null() {
    check(
        &[r#"a applies {"free":{"m":{"x":1}}}"#, r#"a applies {"free":{"m":{}}}"#],
        &expect![[r#"
            {"free":{"m":null}}
            a Apply 01Z .spec.free.m"#]],
    );
}

#[test]
fn a_value_that_does_not_fit_the_schema_is_refused() {
    let refused = |spec: &str, expected: Expect| check(&[&format!("a applies {spec}")], &expected);
    refused(
        r#"{"bogus":1}"#,
        expect![
            "failed to create typed patch object (/g; example.com/v1, Kind=Gizmo): .spec.bogus: field not declared in schema"
        ],
    );
    refused(
        r#"{"size":"one"}"#,
        expect![
            "failed to create typed patch object (/g; example.com/v1, Kind=Gizmo): .spec.size: expected numeric (int or float), got string"
        ],
    );
    refused(
        r#"{"color":1}"#,
        expect![
            "failed to create typed patch object (/g; example.com/v1, Kind=Gizmo): .spec.color: expected string, got &value.valueUnstructured{Value:1}"
        ],
    );
    refused(
        r#"{"deep":[]}"#,
        expect![
            "failed to create typed patch object (/g; example.com/v1, Kind=Gizmo): .spec.deep: expected map, got &{[]}"
        ],
    );
    refused(
        r#"{"set":["q","q"]}"#,
        expect![[
            r#"failed to create typed patch object (/g; example.com/v1, Kind=Gizmo): .spec.set: duplicate entries for key [="q"]"#
        ]],
    );
    refused(
        r#"{"set":[null]}"#,
        expect![
            "failed to create typed patch object (/g; example.com/v1, Kind=Gizmo): .spec.set: element 0: associative list without keys has an element that's an explicit null"
        ],
    );
    refused(
        r#"{"ports":[{"port":1},{"port":1,"proto":"TCP"}]}"#,
        expect![[
            r#"failed to create typed patch object (/g; example.com/v1, Kind=Gizmo): .spec.ports: duplicate entries for key [port=1,proto="TCP"]"#
        ]],
    );
    refused(
        r#"{"bogus":1,"junk":2}"#,
        expect![
            "failed to create typed patch object (/g; example.com/v1, Kind=Gizmo): .spec.bogus: field not declared in schema"
        ],
    );
}
