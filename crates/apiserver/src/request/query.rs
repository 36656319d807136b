//! Query strings, and the API options in them.

use kube_apimachinery::go::quote;
use kube_apimachinery::managed_fields::OnConflict;
use kube_apimachinery::metadata;
use kube_apimachinery::selector::{LabelSelector, field_terms};
use kube_apimachinery::status::{ApiError, FieldError};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

/// Version of options as objects.
const META: &str = "meta.k8s.io/v1";
/// Maximum number of parameters. Like Go's `net/url`, a query with more counts as empty.
const MAX_PARAMETERS: usize = 10_000;

/// A parsed query string. A parameter may occur more than once. As in Go, parameters with a malformed escape or a semicolon are ignored.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: &str) -> Self {
        let decode = |text: &str| {
            // Form encoding writes a space as `+`. It is replaced before decoding, so that `%2B` stays a plus.
            let spaced = text.replace('+', " ");
            percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
        };
        if query.split('&').count() > MAX_PARAMETERS {
            return Self::default();
        }
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .filter(|pair| is_readable(pair))
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(name), decode(value))
                })
                .collect(),
        )
    }

    /// Returns the first value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the first value, or the empty string.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(known, _)| known == name).map(|(_, value)| value.clone()).collect()
    }

    /// Parses a boolean parameter as Go does: present means true, unless the value is `false` or `0`.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| !(value.eq_ignore_ascii_case("false") || value == "0"))
    }

    /// Parses an integer parameter; an empty one counts as absent.
    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, ApiError> {
        match self.get(name) {
            None | Some("") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|error: std::num::ParseIntError| {
                let why = match error.kind() {
                    std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => {
                        "value out of range"
                    }
                    _ => "invalid syntax",
                };
                ApiError::bad_request(format!("strconv.ParseInt: parsing {}: {why}", quote(text)))
            }),
        }
    }
}

/// Whether Go reads a parameter.
fn is_readable(pair: &str) -> bool {
    let is_escape = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    !pair.contains(';') && pair.split('%').skip(1).all(is_escape)
}

/// Builds a 422 about the options of a request, not about its object.
fn invalid_options(kind: &str, errors: Vec<FieldError>) -> ApiError {
    ApiError::invalid("meta.k8s.io", kind, "", errors)
}

fn unsupported(field: &str, shown: &str, supported: &str) -> FieldError {
    FieldError {
        reason: "FieldValueNotSupported",
        field: field.to_owned(),
        message: format!("Unsupported value: {shown}: supported values: {supported}"),
    }
}

/// Treatment of unknown and duplicate fields in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

impl FieldValidation {
    fn name(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Warn => "Warn",
            Self::Strict => "Strict",
        }
    }
}

/// Kind of a write, which determines its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteKind {
    Create,
    Update,
    /// A patch other than an apply.
    Patch,
    /// A server-side apply.
    Apply,
}

impl WriteKind {
    /// Returns the kind of the options.
    fn options(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
        }
    }
}

/// `CreateOptions`, `UpdateOptions` or `PatchOptions`.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) field_manager: String,
    pub(crate) field_validation: FieldValidation,
    /// Whether the client requests a field validation instead of the server's default.
    names_validation: bool,
    /// Whether to take over fields of other managers; only for server-side apply.
    pub(crate) on_conflict: OnConflict,
}

impl WriteOptions {
    /// Parses and validates the options.
    pub(crate) fn read(query: &Query, write: WriteKind) -> Result<Self, ApiError> {
        let mut errors = Vec::new();
        let force = query.flag("force");
        let field_manager = query.text("fieldManager").to_owned();
        match write {
            WriteKind::Patch if force.is_some() => {
                errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
            }
            WriteKind::Apply if field_manager.is_empty() => {
                errors.push(FieldError::required("fieldManager", "is required for apply patch"));
            }
            _ => {}
        }
        errors.extend(metadata::validate_manager("fieldManager", &field_manager));
        let dry_run = dry_run(&query.all("dryRun"), &mut errors);
        let field_validation = match query.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = r#""", "Ignore", "Strict", "Warn""#;
                errors.push(unsupported("fieldValidation", &quote(other), supported));
                FieldValidation::Warn
            }
        };
        if errors.is_empty() {
            let names_validation = !query.text("fieldValidation").is_empty();
            let on_conflict = if force == Some(true) { OnConflict::Force } else { OnConflict::Refuse };
            Ok(Self { dry_run, field_manager, field_validation, names_validation, on_conflict })
        } else {
            Err(invalid_options(write.options(), errors))
        }
    }

    /// Returns the options as an object of `kind`: `CreateOptions` or `UpdateOptions`.
    pub(crate) fn to_value(&self, kind: &str) -> Value {
        let mut options = json!({"kind": kind, "apiVersion": META});
        if self.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        if !self.field_manager.is_empty() {
            options["fieldManager"] = json!(self.field_manager);
        }
        if self.names_validation {
            options["fieldValidation"] = json!(self.field_validation.name());
        }
        options
    }
}

fn dry_run(values: &[String], errors: &mut Vec<FieldError>) -> bool {
    if values.iter().any(|value| value != "All") {
        let shown: Vec<String> = values.iter().map(|value| quote(value)).collect();
        errors.push(unsupported("dryRun", &format!("[{}]", shown.join(",")), r#""All""#));
    }
    values.iter().any(|value| value == "All")
}

/// Treatment of the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    Foreground,
    Background,
    Orphan,
}

impl Propagation {
    fn name(self) -> &'static str {
        match self {
            Self::Foreground => "Foreground",
            Self::Background => "Background",
            Self::Orphan => "Orphan",
        }
    }
}

/// `DeleteOptions`.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) dry_run: bool,
    /// Period as the client sent it; [`grace_period`](Self::grace_period) returns the one that applies.
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) orphan_dependents: Option<bool>,
}

impl DeleteOptions {
    /// Parses the options from the body if there is one, otherwise from the query. The body must have been decoded as `DeleteOptions`.
    pub(crate) fn read(query: &Query, body: Option<&Value>) -> Result<Self, ApiError> {
        let mut errors = Vec::new();
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let (policy, orphan_dependents, mut options, dry) = if let Some(body) = body {
            let conditions = body.get("preconditions");
            let options = Self {
                grace_period_seconds: body.get("gracePeriodSeconds").and_then(Value::as_i64),
                uid: text(conditions.and_then(|c| c.get("uid"))),
                resource_version: text(conditions.and_then(|c| c.get("resourceVersion"))),
                ..Self::default()
            };
            let dry: Vec<String> = body
                .get("dryRun")
                .and_then(Value::as_array)
                .map(|values| values.iter().map(|v| v.as_str().unwrap_or_default().to_owned()).collect())
                .unwrap_or_default();
            let orphan = body.get("orphanDependents").and_then(Value::as_bool);
            (text(body.get("propagationPolicy")), orphan, options, dry)
        } else {
            let precondition = |name: &str| Some(query.text(name).to_owned()).filter(|text| !text.is_empty());
            let options = Self {
                grace_period_seconds: query.integer("gracePeriodSeconds")?,
                uid: precondition("uid"),
                resource_version: precondition("resourceVersion"),
                ..Self::default()
            };
            let policy = query.get("propagationPolicy").map(str::to_owned);
            (policy, query.flag("orphanDependents"), options, query.all("dryRun"))
        };
        if let (Some(policy), Some(_)) = (&policy, orphan_dependents) {
            errors.push(FieldError::invalid(
                "propagationPolicy",
                &quote(policy),
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        options.propagation = match policy.as_deref() {
            None => None,
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Background") => Some(Propagation::Background),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let supported = r#""Foreground", "Background", "Orphan", "nil""#;
                errors.push(unsupported("propagationPolicy", &quote(other), supported));
                None
            }
        };
        options.orphan_dependents = orphan_dependents;
        options.dry_run = dry_run(&dry, &mut errors);
        if errors.is_empty() { Ok(options) } else { Err(invalid_options("DeleteOptions", errors)) }
    }

    /// Returns the grace period. As in kube-apiserver, a negative period is one second, not zero.
    pub(crate) fn grace_period(&self) -> Option<i64> {
        self.grace_period_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds })
    }

    /// Returns the options as an object.
    pub(crate) fn to_value(&self) -> Value {
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": META});
        if let Some(seconds) = self.grace_period_seconds {
            options["gracePeriodSeconds"] = json!(seconds);
        }
        for (field, value) in [("uid", &self.uid), ("resourceVersion", &self.resource_version)] {
            if let Some(value) = value {
                options["preconditions"][field] = json!(value);
            }
        }
        if let Some(orphan) = self.orphan_dependents {
            options["orphanDependents"] = json!(orphan);
        }
        if let Some(policy) = self.propagation {
            options["propagationPolicy"] = json!(policy.name());
        }
        if self.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        options
    }
}

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
        Self::read(query, false)
    }

    /// Parses and validates the options of a watch.
    pub(crate) fn of_watch(query: &Query) -> Result<Self, ApiError> {
        Self::read(query, true)
    }

    /// Parses and validates the options; `watch` selects which combinations are allowed.
    fn read(query: &Query, watch: bool) -> Result<Self, ApiError> {
        // Numbers are parsed first, then selectors. Both precede the validation of the options. Zero counts as unset, and so does a negative
        // limit. A watch with a negative timeout ends at once.
        let timeout_seconds = query.integer("timeoutSeconds")?.filter(|seconds| *seconds != 0);
        let timeout_seconds = timeout_seconds.map(|seconds| u64::try_from(seconds).unwrap_or(0));
        let limit =
            query.integer("limit")?.and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0);
        LabelSelector::parse(query.text("labelSelector"))?;
        for term in field_terms(query.text("fieldSelector")) {
            term.map_err(ApiError::bad_request)?;
        }
        let resource_version = query.text("resourceVersion").to_owned();
        let continue_token = query.text("continue").to_owned();
        let matching = query.text("resourceVersionMatch");
        let initial = query.flag("sendInitialEvents");
        let mut errors = Vec::new();
        let match_field = "resourceVersionMatch";
        if watch {
            if initial.is_some() && matching != "NotOlderThan" {
                let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                errors.push(FieldError::forbidden(match_field, detail));
            }
            // A watch with this parameter from no revision requests the initial events by default, which implies the match.
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

/// Parses a resource version; `None` if it is empty. The error is the message for a read.
pub(crate) fn revision(text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    parse_uint(text)
        .map(Some)
        .map_err(|why| format!("resourceVersion: Invalid value: {}: {why}", quote(text)))
}

/// Parses a number as Go's `strconv.ParseUint`. The error is Go's text.
pub(crate) fn parse_uint(text: &str) -> Result<u64, String> {
    // Checked first, because `parse` also accepts a plus sign, which `ParseUint` refuses.
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let why = if digits { "value out of range" } else { "invalid syntax" };
    let number = if digits { text.parse().ok() } else { None };
    number.ok_or_else(|| format!("strconv.ParseUint: parsing {}: {why}", quote(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_read_as_go_reads_them() {
        assert_eq!(revision(""), Ok(None));
        assert_eq!(revision("18446744073709551615"), Ok(Some(u64::MAX)));
        for (text, why) in [
            ("abc", "invalid syntax"),
            ("+1", "invalid syntax"),
            ("99999999999999999999", "value out of range"),
        ] {
            assert_eq!(parse_uint(text), Err(format!("strconv.ParseUint: parsing \"{text}\": {why}")));
        }
    }

    #[test]
    fn booleans_are_read_as_go_reads_them() {
        let query = Query::parse("watch&a=false&b=0&c=maybe&d=FALSE");
        assert_eq!(query.flag("watch"), Some(true));
        assert_eq!(query.flag("a"), Some(false));
        assert_eq!(query.flag("b"), Some(false));
        assert_eq!(query.flag("c"), Some(true));
        assert_eq!(query.flag("d"), Some(false));
        assert_eq!(query.flag("absent"), None);
    }

    #[test]
    fn a_query_with_too_many_parameters_counts_as_empty() {
        let query = |more: usize| Query::parse(&format!("dryRun=All{}", "&a".repeat(more)));
        assert_eq!(query(MAX_PARAMETERS - 1).text("dryRun"), "All");
        assert_eq!(query(MAX_PARAMETERS).text("dryRun"), "");
    }

    #[test]
    fn escapes_and_plus_signs_are_decoded() {
        let query = Query::parse("labelSelector=a+in+%28b%2Cc%29&&x=%zz&y=1%&a;b=1&z=%2");
        assert_eq!(query.text("labelSelector"), "a in (b,c)");
        for name in ["x", "y", "a;b", "b", "z"] {
            assert_eq!(query.get(name), None, "{name}");
        }
    }

    #[test]
    fn texts_are_quoted_as_go_quotes_them() {
        assert_eq!(quote("a\"b\\\t\u{7}\u{1}é"), r#""a\"b\\\t\a\x01é""#);
    }

    #[test]
    fn an_unknown_dry_run_value_is_invalid() {
        let error = WriteOptions::read(&Query::parse("dryRun=Foo"), WriteKind::Create).unwrap_err();
        assert_eq!(
            error.message(),
            r#"CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Foo"]: supported values: "All""#
        );
    }

    #[test]
    fn options_have_the_parameters_that_the_client_sent() {
        let options = WriteOptions::read(&Query::default(), WriteKind::Create).unwrap();
        assert_eq!(
            options.to_value("CreateOptions"),
            json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"})
        );
        let query = Query::parse("dryRun=All&fieldManager=me&fieldValidation=Warn");
        let options = WriteOptions::read(&query, WriteKind::Update).unwrap();
        let expected = json!({
            "kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"], "fieldManager": "me",
            "fieldValidation": "Warn",
        });
        assert_eq!(options.to_value("UpdateOptions"), expected);
        let body = json!({
            "gracePeriodSeconds": -3, "preconditions": {"uid": "u"}, "propagationPolicy": "Orphan", "dryRun": ["All"],
        });
        let options = DeleteOptions::read(&Query::default(), Some(&body)).unwrap();
        let expected = json!({
            "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "gracePeriodSeconds": -3,
            "preconditions": {"uid": "u"}, "propagationPolicy": "Orphan", "dryRun": ["All"],
        });
        assert_eq!(options.to_value(), expected);
        assert_eq!(options.grace_period(), Some(1));
    }

    #[test]
    fn an_apply_needs_a_field_manager() {
        let error = WriteOptions::read(&Query::default(), WriteKind::Apply).unwrap_err();
        assert_eq!(
            error.message(),
            r#"PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch"#
        );
    }
}
