//! Responses in the form in which they are compared.

use kube_apiserver_embedded::{ApiServer, Options};
use serde_json::Value;

use crate::transport::{Transport, json_or_text, media_type, warning_text};

#[test]
fn a_charset_does_not_affect_the_media_type() {
    assert_eq!(media_type("application/json; charset=utf-8; as=Table"), "application/json;as=Table");
}

#[test]
fn warnings_are_unquoted() {
    assert_eq!(warning_text(r#"299 - "unknown field \"spec.x\"""#), r#"299 unknown field "spec.x""#);
}

#[test]
fn invalid_json_is_recorded_as_text() {
    assert_eq!(json_or_text("ok"), Value::from("ok"));
    assert_eq!(json_or_text(" 1"), Value::from(1));
}

#[test]
fn a_transport_knows_the_token_of_the_admin() {
    let transport = || Transport::over(ApiServer::start(Options::default()).service());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _inside = runtime.enter();
    assert_eq!(transport().token(), None);
    assert_eq!(transport().with_token("t").token(), Some("t"));
}
