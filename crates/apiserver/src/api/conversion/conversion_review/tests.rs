//! The body of a review, and checks of its response.

use std::convert::Infallible;

use futures::FutureExt;
use serde_json::json;

use super::*;

const UID: &str = "1f";

fn original() -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": {"name": "a", "namespace": "n", "uid": "u", "labels": {"l": "1"}, "finalizers": ["f/g"]},
        "spec": {"size": 1},
    })
}

fn converted() -> Value {
    let mut object = original();
    object["apiVersion"] = json!("example.com/v2");
    object
}

fn read(version: ConversionReviewVersion, answer: &Value) -> Result<Vec<Value>, String> {
    read_text(version, &answer.to_string())
}

fn read_text(version: ConversionReviewVersion, answer: &str) -> Result<Vec<Value>, String> {
    let mut review = Review::new(version, UID.to_owned(), "example.com/v2", 0);
    review.push(original());
    let mut turns = Turns::default();
    let objects = review.objects(answer.as_bytes(), &mut turns, |_, _, _| None);
    let objects = objects.now_or_never().expect("nothing waits")?;
    objects.into_iter().map(|Err::<Infallible, _>(object)| review.check(object)).collect()
}

fn answer(objects: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "response": {"uid": UID, "convertedObjects": objects, "result": {"status": "Success"}},
    })
}

/// Changes the object in a response at a JSON pointer, and returns the error.
fn refused(place: &str, value: Value) -> String {
    let mut object = converted();
    *object.pointer_mut(place).unwrap() = value;
    read(ConversionReviewVersion::V1, &answer(&json!([object]))).unwrap_err()
}

#[test]
fn the_body_is_that_of_a_go_client() {
    let mut review = Review::new(ConversionReviewVersion::V1, UID.to_owned(), "example.com/v2", 0);
    for name in ["a", "b"] {
        review.push(json!({"kind": "Thing", "metadata": {"name": name}, "spec": 1.0}));
    }
    assert_eq!(
        String::from_utf8_lossy(&review.body()),
        concat!(
            r#"{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{"uid":"1f","#,
            r#""desiredAPIVersion":"example.com/v2","objects":[{"kind":"Thing","metadata":{"name":"a"},"spec":1},"#,
            r#"{"kind":"Thing","metadata":{"name":"b"},"spec":1}]},"#,
            r#""response":{"uid":"","convertedObjects":null,"result":{"metadata":{}}}}"#
        )
    );
}

#[test]
fn an_answer_may_be_yaml_and_repeat_fields() {
    let read = |text: &str| read_text(ConversionReviewVersion::V1, text);
    let object = converted().to_string();
    let response =
        format!(r#"{{"uid":"{UID}","result":{{"status":"Success"}},"convertedObjects":[{object}]}}"#);
    let with_type = |fields: &str| {
        format!(r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview",{fields}}}"#)
    };
    for answer in [
        with_type(&format!(r#""response":{response}"#)),
        with_type(&format!(r#""response":null,"response":{response}"#)),
        format!("apiVersion: apiextensions.k8s.io/v1\nkind: ConversionReview\nresponse: {response}\n"),
    ] {
        assert_eq!(read(&answer).unwrap(), [converted()], "{answer}");
    }
    const FAILED: &str = "conversion webhook for example.com/v1, Kind=Thing failed: ";
    for (answer, why) in [
        // Checked against kube-apiserver v1.36.3.
        (
            with_type(&format!(r#""response":[{response}]"#)),
            "json: cannot unmarshal array into Go struct field ConversionReview.response of type v1.ConversionResponse",
        ),
        (
            format!(r#"{{"response":{response}}}"#),
            "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind=",
        ),
        (
            format!(r#"{{"kind":"ConversionReview","response":{response}}}"#),
            "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind=ConversionReview",
        ),
        (
            r#"{"response":"#.to_owned(),
            "couldn't get version/kind; json parse error: unexpected end of JSON input",
        ),
    ] {
        assert_eq!(read(&answer).unwrap_err(), format!("{FAILED}{why}"));
    }
}

#[test]
fn an_answer_is_checked_against_its_request() {
    const FAILED: &str = "conversion webhook for example.com/v1, Kind=Thing failed: ";
    let good = answer(&json!([converted()]));
    assert_eq!(read(ConversionReviewVersion::V1, &good).unwrap(), [converted()]);
    for (place, value, why) in [
        ("/response", Value::Null, "no response provided"),
        ("/response/uid", json!("x"), "expected response.uid=\"1f\", got \"x\""),
        ("/response/result", json!({}), "response.result.status was '', not 'Success'"),
        ("/response/result", json!({"status": "Failure", "message": "not today"}), "not today"),
        (
            "/apiVersion",
            json!("apiextensions.k8s.io/v1beta1"),
            "converting (v1beta1.ConversionReview) to (v1.ConversionReview): unknown conversion",
        ),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(place).unwrap() = value;
        assert_eq!(read(ConversionReviewVersion::V1, &bad).unwrap_err(), format!("{FAILED}{why}"));
    }
    let mut old = good;
    old["apiVersion"] = json!("apiextensions.k8s.io/v1beta1");
    old["response"]["uid"] = json!("of another one");
    assert_eq!(read(ConversionReviewVersion::V1Beta1, &old).unwrap(), [converted()], "v1beta1 checks no uid");
    for count in [0, 2] {
        let objects = vec![converted(); count];
        assert_eq!(
            read(ConversionReviewVersion::V1, &answer(&json!(objects))).unwrap_err(),
            format!("conversion webhook for example.com/v1, Kind=Thing returned {count} objects, expected 1")
        );
    }
}

#[test]
fn a_converted_object_is_the_same_object() {
    const INVALID: &str = "conversion webhook for example.com/v1, Kind=Thing returned invalid object";
    let version = "invalid groupVersion (expected example.com/v2, received v1)";
    for (place, value, why) in [
        ("/apiVersion", json!("v1"), format!(" at index 0: {version}")),
        ("/kind", json!("Other"), " at index 0: invalid kind (expected Thing, received Other)".to_owned()),
        ("/metadata/name", json!("b"), ": must have the same name: a != b".to_owned()),
        ("/metadata/namespace", json!(""), ": must have the same namespace: n != ".to_owned()),
        ("/metadata/uid", json!("v"), ": must have the same UID: u != v".to_owned()),
        ("/metadata", json!([]), ": must have the same name: a != ".to_owned()),
    ] {
        assert_eq!(refused(place, value), format!("{INVALID}{why}"));
    }
    assert!(refused("", json!({"metadata": {}})).starts_with("Object 'Kind' is missing in '{"));
    assert!(refused("", json!(7)).starts_with("Object 'Kind' is missing in '7"));
    assert_eq!(refused("", Value::Null), "unexpected end of JSON input");
}

#[test]
fn only_labels_and_annotations_of_the_metadata_change() {
    let mut object = converted();
    object["metadata"]["labels"] = json!({"m": "2"});
    object["metadata"]["annotations"] = json!({"Kept": "as is"});
    object["metadata"]["finalizers"] = json!(["other/one"]);
    object["metadata"]["generation"] = json!(9);
    let read = |object: &Value| read(ConversionReviewVersion::V1, &answer(&json!([object])));
    let mut expected = converted();
    expected["metadata"]["labels"] = json!({"m": "2"});
    expected["metadata"]["annotations"] = json!({"Kept": "as is"});
    assert_eq!(read(&object).unwrap(), [expected]);
    const INVALID: &str = "conversion webhook for example.com/v1, Kind=Thing returned invalid metadata: ";
    for (labels, why) in [
        (json!("x"), "invalid metadata.labels of type string in converted object"),
        (json!({"a": 1}), "metadata.labels[a] must be a string, but is int64 in converted object"),
    ] {
        assert_eq!(refused("/metadata/labels", labels), format!("{INVALID}{why}"));
    }
    let error = refused("/metadata/labels", json!({"a": "!"}));
    assert!(error.starts_with(&format!("{INVALID}metadata.labels: Invalid value: \"!\": ")), "{error}");
}
