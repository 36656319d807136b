//! Options of lists and watches.

use kube_apimachinery::go::quote;
use kube_apimachinery::selector::{LabelSelector, field_terms};
use kube_apimachinery::status::{ApiError, FieldError};

use super::{Query, invalid_options, unsupported};
use crate::request::verb::Verb;

/// Meaning of the resource version in a list's options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RevisionMatch {
    Exact,
    NotOlderThan,
}

/// `ListOptions`, for list and watch.
#[derive(Debug, Clone)]
pub(crate) struct ListOptions {
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    /// Resource version as the client sent it; empty if absent. It need not be a number.
    pub(crate) resource_version: String,
    pub(crate) revision_match: Option<RevisionMatch>,
    /// Maximum number of objects; `None` for no limit.
    pub(crate) limit: Option<usize>,
    pub(crate) continue_token: String,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
}

impl ListOptions {
    /// Parses and validates the options of a list.
    pub(crate) fn of_list(query: &Query) -> Result<Self, ApiError> {
        Self::read(query, Verb::List)
    }

    /// Parses and validates the options of a watch.
    pub(crate) fn of_watch(query: &Query) -> Result<Self, ApiError> {
        Self::read(query, Verb::Watch)
    }

    /// Whether the parameters can be decoded. They need not be valid.
    pub(crate) fn are_decodable(query: &Query) -> bool {
        Numbers::decode(query).is_ok()
    }

    /// Parses and validates the options; `verb` is list or watch, which allow different combinations.
    fn read(query: &Query, verb: Verb) -> Result<Self, ApiError> {
        let Numbers { timeout_seconds, limit } = Numbers::decode(query)?;
        let resource_version = query.text("resourceVersion").to_owned();
        let continue_token = query.text("continue").to_owned();
        let matching = query.text("resourceVersionMatch");
        let initial = query.flag("sendInitialEvents");
        let mut errors = Vec::new();
        let match_field = "resourceVersionMatch";
        if verb == Verb::Watch {
            if initial.is_some() && matching != "NotOlderThan" {
                let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                errors.push(FieldError::forbidden(match_field, detail));
            }
            // With `watch=true` and no revision, a watch begins with the initial events by default, which implies `NotOlderThan`.
            let is_implied = query.flag("watch") == Some(true)
                && initial.is_none()
                && matching.is_empty()
                && ["", "0"].contains(&resource_version.as_str());
            if is_implied && !continue_token.is_empty() {
                let detail = "resourceVersionMatch is forbidden when continue is provided";
                errors.push(FieldError::forbidden(match_field, detail));
            }
            if !matching.is_empty() {
                if initial.is_none() {
                    let detail =
                        "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                    errors.push(FieldError::forbidden(match_field, detail));
                }
                if matching != "NotOlderThan" {
                    errors.push(unsupported(match_field, &quote(matching), r#""NotOlderThan""#));
                }
                if !continue_token.is_empty() {
                    let detail = "resourceVersionMatch is forbidden when continue is provided";
                    errors.push(FieldError::forbidden(match_field, detail));
                }
            }
        } else {
            if initial.is_some() {
                let detail = "sendInitialEvents is forbidden for list";
                errors.push(FieldError::forbidden("sendInitialEvents", detail));
            }
            if !matching.is_empty() {
                if resource_version.is_empty() {
                    let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                    errors.push(FieldError::forbidden(match_field, detail));
                }
                if !continue_token.is_empty() {
                    let detail = "resourceVersionMatch is forbidden when continue is provided";
                    errors.push(FieldError::forbidden(match_field, detail));
                }
                if !["Exact", "NotOlderThan"].contains(&matching) {
                    let supported = r#""Exact", "NotOlderThan", """#;
                    errors.push(unsupported(match_field, &quote(matching), supported));
                }
                if matching == "Exact" && resource_version == "0" {
                    let detail = r#"resourceVersionMatch "exact" is forbidden for resourceVersion "0""#;
                    errors.push(FieldError::forbidden(match_field, detail));
                }
            }
        }
        if !errors.is_empty() {
            return Err(invalid_options("ListOptions", errors));
        }
        Ok(Self {
            label_selector: query.text("labelSelector").to_owned(),
            field_selector: query.text("fieldSelector").to_owned(),
            resource_version,
            revision_match: match matching {
                "Exact" => Some(RevisionMatch::Exact),
                "NotOlderThan" => Some(RevisionMatch::NotOlderThan),
                _ => None,
            },
            limit,
            continue_token,
            timeout_seconds,
            bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            send_initial_events: initial,
        })
    }
}

/// Numbers among the options.
struct Numbers {
    timeout_seconds: Option<u64>,
    limit: Option<usize>,
}

impl Numbers {
    /// Decodes the numbers and then checks the selectors, which stay text. As in kube-apiserver, both errors precede those of the validation.
    /// Zero counts as unset, and so does a negative limit. A watch with a negative timeout ends at once.
    fn decode(query: &Query) -> Result<Self, ApiError> {
        let timeout_seconds = query.integer("timeoutSeconds")?.filter(|seconds| *seconds != 0);
        let timeout_seconds = timeout_seconds.map(|seconds| u64::try_from(seconds).unwrap_or(0));
        let limit =
            query.integer("limit")?.and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0);
        LabelSelector::parse(query.text("labelSelector"))?;
        for term in field_terms(query.text("fieldSelector")) {
            term.map_err(ApiError::bad_request)?;
        }
        Ok(Self { timeout_seconds, limit })
    }
}
