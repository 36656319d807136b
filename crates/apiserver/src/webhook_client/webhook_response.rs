//! Evaluation of a response, with the error texts of client-go.

use bytes::Bytes;
use http::{Response, header};
use kube_apimachinery::go::quote;
use serde_json::Value;

use super::CallError;

/// Reason why there is no response.
#[derive(Debug)]
pub(super) enum ExchangeFailure {
    /// The configuration cannot be used.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "without TLS no configuration is used"))]
    Settings(String),
    /// The connection or the request failed.
    Exchange(String),
}

/// Returns the body of a successful response.
///
/// # Errors
/// The status is not a success, or the body is empty.
pub(super) fn body_of(response: Response<Bytes>) -> Result<Bytes, CallError> {
    let (head, body) = response.into_parts();
    let code = head.status.as_u16();
    let content_type = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default();
    // client-go treats exactly these codes as success.
    if !(200..=206).contains(&code) {
        return Err(CallError::Response(refusal(code, content_type, &body)));
    }
    if body.is_empty() {
        return Err(CallError::Response(format!(
            "0-length response with status code: {code} and content type: {content_type}"
        )));
    }
    Ok(body)
}

/// Returns client-go's message for a response that is not a success: the message of a `Status` in its body, or one for its code.
fn refusal(code: u16, content_type: &str, body: &[u8]) -> String {
    if let Ok(status) = serde_json::from_slice::<Value>(body)
        && status["kind"] == "Status"
        && status["apiVersion"] == "v1"
        && status["status"] != "Success"
        && let Some(message) = status["message"].as_str()
    {
        return message.to_owned();
    }
    let is_text = content_type.is_empty() || content_type.starts_with("text/");
    let text = String::from_utf8_lossy(body);
    let text = if is_text { text.trim() } else { "unknown" };
    let fixed = match code {
        409 => "the server reported a conflict",
        404 => "the server could not find the requested resource",
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 415 => return text.to_owned(),
        406 if text.is_empty() || text == "unknown" => {
            "the server was unable to respond with a content type that the client supports"
        }
        406 => return text.to_owned(),
        405 => "the server does not allow this method on the requested resource",
        422 => "the server rejected our request due to an error in our request",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        429 => "the server has received too many requests and has asked us to try again later",
        500.. => {
            return format!(
                "an error on the server ({}) has prevented the request from succeeding",
                quote(text)
            );
        }
        _ => {
            return format!(
                "the server responded with the status code {code} but did not return more information"
            );
        }
    };
    fixed.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_response_has_the_message_of_its_code_or_of_its_status() {
        let status =
            r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"from a proxy","code":403}"#;
        for (code, content_type, body, message) in [
            (404, "application/json", "not here\n", "the server could not find the requested resource"),
            (
                500,
                "application/json",
                "boom",
                "an error on the server (\"unknown\") has prevented the request from succeeding",
            ),
            (
                502,
                "text/plain",
                " boom\n",
                "an error on the server (\"boom\") has prevented the request from succeeding",
            ),
            (
                302,
                "text/html",
                "moved",
                "the server responded with the status code 302 but did not return more information",
            ),
            (403, "application/json", status, "from a proxy"),
            (403, "", "no", "no"),
            (
                200,
                "application/json",
                "",
                "0-length response with status code: 200 and content type: application/json",
            ),
        ] {
            let mut response = Response::builder().status(code);
            if !content_type.is_empty() {
                response = response.header("content-type", content_type);
            }
            let error = body_of(response.body(Bytes::from(body)).unwrap()).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}
