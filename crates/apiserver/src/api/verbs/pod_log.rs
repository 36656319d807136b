//! GET of `/log`. No containers run here: the log of a pod without a node is empty, and for other pods the kubelet of the node cannot be
//! reached.

use kube_apimachinery::go::{Layout, time};
use kube_apimachinery::status::{ApiError, FieldError};

use super::reply::Reply;
use super::{Call, kubelet};
use crate::request::accept::View;
use crate::request::query::Query;

/// Responds with 204 for a pod without a node.
///
/// # Errors
/// 406 and 500 for the metadata of a log, 400 for an option that cannot be read and for a missing or unknown container name, 422 for an option with an invalid value, 404 if the node of the pod does not exist, 500 if it has no address, 501
/// otherwise.
pub(crate) fn get(call: &Call) -> Result<Reply, ApiError> {
    check_options(&call.query, &call.path.name)?;
    let stored = call.cluster.read(|store| store.get(call.served.storage(), &call.key()).cloned());
    let stored = stored.ok_or_else(|| call.not_found())?;
    let pod = call.served.value(&stored);
    kubelet::check_container(call, &pod, call.query.text("container"))?;
    match pod["spec"]["nodeName"].as_str().unwrap_or_default() {
        "" => check_view(call.accept.view).map(|()| Reply::nothing()),
        node => Err(kubelet::unreachable(call, node)),
    }
}

/// Checks that the response has the requested view: a log has no metadata.
fn check_view(view: View) -> Result<(), ApiError> {
    match view {
        View::Object | View::Table => Ok(()),
        View::Metadata => Err(ApiError::internal("object does not implement the Object interfaces")),
        View::MetadataList => {
            let why = "you requested PartialObjectMetadataList, but the requested object is not a list \
                       (*rest.LocationStreamer)";
            Err(ApiError::new(406, "NotAcceptable", why))
        }
    }
}

/// Validates the options, before the pod is looked up.
fn check_options(query: &Query, pod: &str) -> Result<(), ApiError> {
    let number = |name: &str| match query.get(name) {
        // Unlike other numbers, an empty one is not absent.
        Some("") => Err(ApiError::bad_request("strconv.ParseInt: parsing \"\": invalid syntax")),
        _ => query.integer(name),
    };
    let seconds = number("sinceSeconds")?;
    let since = query.get("sinceTime");
    if let Some(since) = since.filter(|since| !since.is_empty()) {
        time(since, Layout::Seconds).map_err(ApiError::bad_request)?;
    }
    let (lines, bytes) = (number("tailLines")?, number("limitBytes")?);
    let mut errors = Vec::new();
    let too_low = |field: &str, number: Option<i64>, min: i64, why: &str| {
        let number = number.filter(|number| *number < min)?;
        Some(FieldError::invalid(field, &number.to_string(), why))
    };
    errors.extend(too_low("tailLines", lines, 0, "must be greater than or equal to 0"));
    errors.extend(too_low("limitBytes", bytes, 1, "must be greater than 0"));
    if seconds.is_some() && since.is_some() {
        let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        errors.push(FieldError::forbidden("[]", why));
    } else {
        errors.extend(too_low("sinceSeconds", seconds, 1, "must be greater than 0"));
    }
    // The choice of a stream belongs to a feature that is off by default.
    if query.get("stream").is_some() {
        errors.push(FieldError::forbidden("stream", "may not be specified"));
    }
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid("", "PodLogOptions", pod, errors)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of kube-apiserver v1.36.3, observed or read in its source.
    #[test]
    fn options_are_checked() {
        let message = |query: &str| match check_options(&Query::parse(query), "a") {
            Ok(()) => String::new(),
            Err(error) => format!("{} {}", error.code(), error.message()),
        };
        for valid in
            ["", "tailLines=0&limitBytes=1&sinceSeconds=1", "sinceTime=2026-01-01T00:00:00Z", "follow=maybe"]
        {
            assert_eq!(message(valid), "", "{valid}");
        }
        let log = "422 PodLogOptions \"a\" is invalid:";
        for (query, expected) in [
            ("tailLines=abc", "400 strconv.ParseInt: parsing \"abc\": invalid syntax".to_owned()),
            ("tailLines=", "400 strconv.ParseInt: parsing \"\": invalid syntax".to_owned()),
            (
                "limitBytes=9999999999999999999999",
                "400 strconv.ParseInt: parsing \"9999999999999999999999\": value out of range".to_owned(),
            ),
            (
                "sinceTime=x",
                "400 parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\""
                    .to_owned(),
            ),
            (
                "limitBytes=0&tailLines=-2",
                format!(
                    "{log} [tailLines: Invalid value: -2: must be greater than or equal to 0, limitBytes: Invalid value: 0: must be \
                     greater than 0]"
                ),
            ),
            ("sinceSeconds=0", format!("{log} sinceSeconds: Invalid value: 0: must be greater than 0")),
            (
                "sinceSeconds=0&sinceTime=2026-01-01T00:00:00Z",
                format!("{log} []: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"),
            ),
            ("stream=All", format!("{log} stream: Forbidden: may not be specified")),
        ] {
            assert_eq!(message(query), expected, "{query}");
        }
    }
}
