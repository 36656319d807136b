//! Conversion reviews.

use std::cell::RefCell;

use super::*;
use crate::webhook::registration::CONVERT;

fn cart(version: &str, name: &str, spec: &str) -> Value {
    let managed_fields = json!([{ "manager": "kubectl", "fieldsV1": { "f:spec": {} } }]);
    let metadata = json!({
        "name": name, "namespace": "default", "uid": "u", "generation": 3, "labels": { "own": "x" }, "new": 1,
        "managedFields": managed_fields,
    });
    json!({ "apiVersion": format!("example.com/{version}"), "kind": "Cart", "metadata": metadata, "spec": yaml(spec) })
}

async fn convert(desired: &str, objects: &[Value]) -> Value {
    convert_by(&webhooks().0, desired, objects).await
}

async fn convert_by(webhooks: &Webhooks, desired: &str, objects: &[Value]) -> Value {
    let request = json!({ "uid": "7", "desiredAPIVersion": desired, "objects": objects });
    let review =
        json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request });
    let (status, answer) = post(webhooks, CONVERT, review.to_string()).await;
    assert_eq!((status, &answer["response"]["uid"]), (StatusCode::OK, &json!("7")), "{answer}");
    answer["response"].clone()
}

#[tokio::test]
async fn objects_are_converted_through_the_hub_in_their_order() {
    let objects =
        [cart("v1", "a", "{item: tea}"), cart("v3", "b", "{list: 'a,b'}"), cart("v2", "c", "{items: [x]}")];
    let answer = convert("example.com/v2", &objects).await;
    assert_eq!(answer["result"], json!({ "status": "Success" }));
    let mut expected = cart("v2", "a", "{items: [tea], urgent: null}");
    expected["metadata"]["labels"] = json!({ "own": "x", "from": "v1" });
    assert_eq!(
        answer["convertedObjects"][0], expected,
        "all metadata but labels are those of the given object"
    );
    assert_eq!(answer["convertedObjects"][1], cart("v2", "b", "{items: [a, b], urgent: null}"));
    assert_eq!(answer["convertedObjects"][2], objects[2]);
    let answer = convert("example.com/v3", &objects[..1]).await;
    assert_eq!(answer["convertedObjects"][0]["spec"], yaml("{list: tea}"), "from spoke to spoke");
    let empty = convert("example.com/v3", &[]).await;
    assert_eq!((&empty["convertedObjects"], &empty["result"]["status"]), (&json!([]), &json!("Success")));
}

#[tokio::test]
async fn large_reviews_are_converted_one_after_another_and_small_ones_meanwhile() {
    let (webhooks, _) = webhooks();
    let answered = RefCell::new(Vec::new());
    let convert = async |name, count| {
        let objects = vec![cart("v1", "a", "{item: tea}"); count];
        let answer = convert_by(&webhooks, "example.com/v2", &objects).await;
        assert_eq!(answer["convertedObjects"].as_array().map(Vec::len), Some(count));
        answered.borrow_mut().push(name);
    };
    tokio::join!(convert("long", 2_000), convert("short", 200), convert("small", 1));
    assert_eq!(answered.into_inner(), ["small", "long", "short"]);
}

#[tokio::test]
async fn a_conversion_keeps_fields_that_the_types_do_not_know() {
    let given = cart("v1", "a", "{item: tea, note: fragile, empty: '', urgent: true}");
    let answer = convert("example.com/v2", &[given]).await;
    // Neither version knows `note`, so it is copied. `empty` has no value, and `urgent` is a field of v2, which the converter sets.
    assert_eq!(answer["convertedObjects"][0]["spec"], yaml("{items: [tea], note: fragile, urgent: null}"));
}

#[tokio::test]
async fn a_failed_conversion_fails_the_whole_request() {
    for (desired, object, expected) in [
        (
            "example.com/v1",
            cart("v2", "a", "{items: []}"),
            r#"Cart "a" cannot be converted from "example.com/v2" to "example.com/v1": v1 has one item, not 0"#,
        ),
        (
            "example.com/v9",
            cart("v2", "a", "{items: []}"),
            r#"Cart "a" cannot be converted from "example.com/v2" to "example.com/v9": version v9 is not registered"#,
        ),
        (
            "example.com/v1",
            cart("v8", "a", "{items: []}"),
            r#"Cart "a" cannot be converted from "example.com/v8" to "example.com/v1": version v8 is not registered"#,
        ),
        (
            "other.com/v1",
            cart("v2", "a", "{items: []}"),
            r#"Cart "a" cannot be converted from "example.com/v2" to "other.com/v1": the groups differ"#,
        ),
        (
            "example.com/v1",
            json!({ "apiVersion": "example.com/v2", "kind": "Box" }),
            r#"Box "" cannot be converted from "example.com/v2" to "example.com/v1": no converter is registered for the kind"#,
        ),
        (
            "example.com/v1",
            json!(7),
            r#" "" cannot be converted from "" to "example.com/v1": the groups differ"#,
        ),
        ("example.com/v1", cart("v2", "a", "{items: [bomb]}"), "panic: it explodes"),
    ] {
        let answer = convert(desired, &[object, cart("v2", "good", "{items: [a]}")]).await;
        assert_eq!(answer["result"]["status"], "Failure");
        assert_eq!(answer["convertedObjects"], json!([]));
        let message = answer["result"]["message"].as_str().expect("a message");
        assert_eq!(message.split(", at ").next(), Some(expected));
    }
}

#[test]
fn versions_of_different_kinds_are_refused() {
    let same = Registration::converter::<v2::Cart, (v1::Cart, v1::Cart)>();
    let error =
        Webhooks::new(Metrics::default().webhooks(), 0).register(vec![same]).expect_err("twice the same");
    let message = "example.com/v1, kind Cart cannot be converted to example.com/v2, kind Cart: the versions of a kind share group and kind and differ in the version";
    assert_eq!(error.to_string(), message);
}

#[test]
fn generated_objects_find_a_conversion_that_loses_something() {
    check_generated_round_trips::<v3::Cart, v2::Cart>(1, 200).expect("the hub has all fields of v3");
    let error = check_generated_round_trips::<v2::Cart, v3::Cart>(1, 200).expect_err("v3 has no urgency");
    let RoundTripError::Generated { seed: 1, source, .. } = &error else { panic!("{error}") };
    let lost = source.to_string();
    assert!(lost.starts_with("/spec/") && lost.ends_with("after the conversion to v3 and back"), "{lost}");
    let again = check_generated_round_trips::<v2::Cart, v3::Cart>(1, 200).expect_err("it is repeatable");
    assert_eq!(error.to_string(), again.to_string());
}
