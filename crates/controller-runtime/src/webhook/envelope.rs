//! The part that AdmissionReviews, ConversionReviews and TokenReviews share: kind, version, and the request inside. Pure.

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<T> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    /// A TokenReview has its request here.
    #[serde(alias = "spec")]
    request: Option<T>,
}

/// Reads a review of version v1 or v1beta1 of `group`. Returns its `apiVersion` and the request.
///
/// # Errors
/// The reason why the body is not such a review, for the response.
pub(super) fn read<'a, T: Deserialize<'a>>(
    body: &'a [u8],
    group: &str,
    kind: &str,
) -> Result<(String, T), String> {
    read_describing_errors(body, group, kind, ToString::to_string)
}

/// Like [`read`], but `describe` gives the text of a decoding error. serde's own text may quote values of the body, which may be secret.
pub(super) fn read_describing_errors<'a, T: Deserialize<'a>>(
    body: &'a [u8],
    group: &str,
    kind: &str,
    describe: impl FnOnce(&serde_json::Error) -> String,
) -> Result<(String, T), String> {
    if body.is_empty() {
        return Err("request body is empty".to_owned());
    }
    let article = if kind.starts_with('A') { "an" } else { "a" };
    // Checking all texts at once takes less time than checking each.
    let review = match std::str::from_utf8(body) {
        Ok(body) => serde_json::from_str(body),
        Err(_) => serde_json::from_slice(body),
    };
    let review: Envelope<T> =
        review.map_err(|error| format!("request body is not {article} {kind}: {}", describe(&error)))?;
    let version = review.api_version.strip_prefix(group).and_then(|rest| rest.strip_prefix('/'));
    if review.kind != kind || !matches!(version, Some("v1" | "v1beta1")) {
        let (given, version) = (&review.kind, &review.api_version);
        return Err(format!(
            "request body is a {given:?} of version {version:?}, expected {article} {kind} of version {group}/v1 or v1beta1"
        ));
    }
    let request = review.request.ok_or_else(|| format!("the {kind} has no request"))?;
    Ok((review.api_version, request))
}
