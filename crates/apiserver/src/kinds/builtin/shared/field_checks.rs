//! Checks of single fields, with the texts of kube-apiserver's shared validation.

use std::net::IpAddr;

use kube_apimachinery::go::quote;
use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::fields::text;
use super::label_selector::invalid;

/// Maximum size of the data of a ConfigMap or a Secret in bytes.
pub(in crate::kinds::builtin) const MAX_DATA: usize = 1 << 20;
/// Maximum total length of the keys and values of annotations in bytes.
const MAX_ANNOTATIONS: usize = 256 << 10;
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
    'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const VARIABLE: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";
const HEADER: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for \
    validation is '[-A-Za-z0-9]+')";

/// Builds the error for an invalid text.
pub(in crate::kinds::builtin) fn invalid_text(field: impl Into<String>, text: &str, why: &str) -> FieldError {
    FieldError::invalid(field, &quote(text), why)
}

/// Builds the error for a text that occurs a second time.
pub(in crate::kinds::builtin) fn duplicate(field: impl Into<String>, text: &str) -> FieldError {
    FieldError {
        reason: "FieldValueDuplicate",
        field: field.into(),
        message: format!("Duplicate value: {}", quote(text)),
    }
}

/// Builds the error for a name that refers to nothing.
pub(in crate::kinds::builtin) fn not_found(field: impl Into<String>, text: &str) -> FieldError {
    FieldError {
        reason: "FieldValueNotFound",
        field: field.into(),
        message: format!("Not found: {}", quote(text)),
    }
}

/// Builds the error for a value of more than `max` bytes.
pub(in crate::kinds::builtin) fn too_long(field: impl Into<String>, max: usize) -> FieldError {
    FieldError {
        reason: "FieldValueTooLong",
        field: field.into(),
        message: format!("Too long: may not be more than {max} bytes"),
    }
}

/// Builds the error for a list of more than `max` items.
pub(in crate::kinds::builtin) fn too_many(field: impl Into<String>, count: usize, max: usize) -> FieldError {
    FieldError {
        reason: "FieldValueTooMany",
        field: field.into(),
        message: format!("Too many: {count}: must have at most {max} items"),
    }
}

/// Checks that a text of the object is one of the supported values. An absent text is valid.
pub(in crate::kinds::builtin) fn supported(
    object: &Value,
    field: &str,
    path: &str,
    supported: &[&str],
) -> Option<FieldError> {
    let given = object[field].as_str()?;
    (!supported.contains(&given))
        .then(|| FieldError::not_supported(format!("{path}.{field}"), given, supported))
}

/// Checks the preemption policy of a pod or a priority class. `field` is its path in errors.
pub(in crate::kinds::builtin) fn preemption_policy(object: &Value, field: &str) -> Option<FieldError> {
    const POLICIES: [&str; 2] = ["PreemptLowerPriority", "Never"];
    match object["preemptionPolicy"].as_str()? {
        "" => Some(FieldError::required(field, "")),
        policy if POLICIES.contains(&policy) => None,
        policy => Some(FieldError::not_supported(field, policy, &POLICIES)),
    }
}

/// Checks that a text of the object is not empty.
pub(in crate::kinds::builtin) fn required(object: &Value, field: &str, path: &str) -> Option<FieldError> {
    text(object, field).is_empty().then(|| FieldError::required(format!("{path}.{field}"), ""))
}

/// Checks a required name that can be a segment of a URL path.
pub(in crate::kinds::builtin) fn path_segment(object: &Value, field: &str, path: &str) -> Vec<FieldError> {
    match required(object, field, path) {
        Some(error) => vec![error],
        None => {
            let name = text(object, field);
            invalid(&format!("{path}.{field}"), name, &names::name(names::NameRule::PathSegment, name))
        }
    }
}

/// Checks the name of a CSI driver.
pub(in crate::kinds::builtin) fn csi_driver(driver: &str, field: &str) -> Vec<FieldError> {
    const MAX_DRIVER: usize = 63;
    if driver.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let mut errors = Vec::new();
    if driver.len() > MAX_DRIVER {
        errors.push(too_long(field, MAX_DRIVER));
    }
    // Drivers may have upper case in their names.
    errors.extend(invalid(field, driver, &names::subdomain(&driver.to_lowercase())));
    errors
}

/// Checks a DNS subdomain whose first label may be `*`.
pub(in crate::kinds::builtin) fn host_name(host: &str, field: &str) -> Vec<FieldError> {
    const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must \
                            consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character \
                            (e.g. '*.example.com', regex used for validation is \
                            '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    if !host.contains('*') {
        return invalid(field, host, &names::subdomain(host));
    }
    let is_valid = host.strip_prefix("*.").is_some_and(|rest| names::subdomain(rest).is_empty());
    if is_valid { Vec::new() } else { vec![invalid_text(field, host, WILDCARD)] }
}

/// Checks that a number of the object, if it has one, is not negative.
pub(in crate::kinds::builtin) fn not_negative(object: &Value, field: &str, path: &str) -> Option<FieldError> {
    let number = object[field].as_i64().filter(|number| *number < 0)?;
    let why = "must be greater than or equal to 0";
    Some(FieldError::invalid(format!("{path}.{field}"), &number.to_string(), why))
}

/// Checks that a number is in a range.
pub(in crate::kinds::builtin) fn in_range(
    number: i64,
    first: i64,
    last: i64,
    field: impl Into<String>,
) -> Option<FieldError> {
    let why = || format!("must be between {first} and {last}, inclusive");
    (!(first..=last).contains(&number)).then(|| FieldError::invalid(field, &number.to_string(), &why()))
}

/// Checks the number of a port.
pub(in crate::kinds::builtin) fn port_number(number: i64, field: impl Into<String>) -> Option<FieldError> {
    in_range(number, 1, 65_535, field)
}

/// Returns the reasons why a text is not a valid port name. The rules are those of RFC 6335 for service names, in lower case.
pub(in crate::kinds::builtin) fn port_name(name: &str) -> Vec<String> {
    let bytes = name.as_bytes();
    let is_of_charset = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    let reasons = [
        (bytes.len() > 15, "must be no more than 15 characters"),
        (
            bytes.is_empty() || !bytes.iter().all(is_of_charset),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (!bytes.iter().any(u8::is_ascii_lowercase), "must contain at least one letter (a-z)"),
        (name.contains("--"), "must not contain consecutive hyphens"),
        (name.starts_with('-') || name.ends_with('-'), "must not begin or end with a hyphen"),
    ];
    reasons.iter().filter(|(applies, _)| *applies).map(|(_, why)| (*why).to_owned()).collect()
}

/// Checks a port, which is a number or a name.
pub(in crate::kinds::builtin) fn port(port: &Value, field: &str) -> Vec<FieldError> {
    match port.as_str() {
        Some(name) => invalid(field, name, &port_name(name)),
        None => port_number(port.as_i64().unwrap_or_default(), field).into_iter().collect(),
    }
}

/// Returns the reasons why a text is not a valid key of a ConfigMap or a Secret. Keys become file names in volumes.
pub(in crate::kinds::builtin) fn data_key(key: &str) -> Vec<String> {
    let mut reasons = Vec::new();
    if key.len() > 253 {
        reasons.push("must be no more than 253 characters".to_owned());
    }
    let is_of_charset = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if key.is_empty() || !key.bytes().all(is_of_charset) {
        reasons.push(CONFIG_KEY.to_owned());
    }
    match key {
        "." | ".." => reasons.push(format!("must not be '{key}'")),
        // The kubelet uses such names for the links with which it replaces all files of a volume at once.
        _ if key.starts_with("..") => reasons.push("must not start with '..'".to_owned()),
        _ => {}
    }
    reasons
}

/// Returns the number of bytes that a base64 value decodes to, without decoding it.
pub(in crate::kinds::builtin) fn decoded_length(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default().trim_end_matches('=');
    text.len() * 3 / 4
}

/// Returns the reasons why a text is not a valid name of an environment variable.
pub(in crate::kinds::builtin) fn variable_name(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    let is_valid = |c: char| (c.is_ascii_graphic() || c == ' ') && c != '=';
    if name.chars().all(is_valid) { Vec::new() } else { vec![VARIABLE.to_owned()] }
}

/// Returns the reasons why a text is not a valid name of an HTTP header.
pub(in crate::kinds::builtin) fn header_name(name: &str) -> Vec<String> {
    let is_of_charset = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_valid = !name.is_empty() && name.bytes().all(is_of_charset);
    if is_valid { Vec::new() } else { vec![HEADER.to_owned()] }
}

/// Checks an IP address.
pub(in crate::kinds::builtin) fn address(given: &str, field: &str) -> Option<FieldError> {
    names::address(given).map(|why| invalid_text(field, given, why))
}

/// Checks an address range.
pub(in crate::kinds::builtin) fn address_range(given: &str, field: &str) -> Option<FieldError> {
    let refuse = |why: &str| Some(invalid_text(field, given, why));
    let not_a_range = || refuse("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
    let Some((start, length)) = given.split_once('/') else { return not_a_range() };
    let address = start.parse::<IpAddr>();
    if names::lenient_address(start).is_none() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return not_a_range();
    }
    let Ok(bits) = length.parse::<u32>() else { return not_a_range() };
    // The text decides, because Go also reads an IPv4-mapped address as an IPv4 address.
    let max = if start.contains(':') { 128 } else { 32 };
    if bits > max {
        return not_a_range();
    }
    let has_zeros = length.len() > 1 && length.starts_with('0');
    match address {
        Ok(_) | Err(_) if has_zeros || address.is_err() => {
            refuse("must not have leading 0s in IP or prefix length")
        }
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
            refuse("must not have an IPv4-mapped IPv6 address")
        }
        // Shifting out the prefix leaves the host bits. For the full length the shift has no result, and there are no host bits.
        Ok(IpAddr::V6(v6)) if u128::from(v6).checked_shl(bits).unwrap_or_default() != 0 => {
            refuse("must not have bits set beyond the prefix length")
        }
        Ok(IpAddr::V4(v4)) if u32::from(v4).checked_shl(bits).unwrap_or_default() != 0 => {
            refuse("must not have bits set beyond the prefix length")
        }
        _ => None,
    }
}

/// Checks that an address is not one of the special ones, to which a node must not send a Service's traffic.
pub(in crate::kinds::builtin) fn reachable_address(given: &str, field: &str) -> Vec<FieldError> {
    let Ok(address) = given.parse::<IpAddr>() else { return Vec::new() };
    let (is_local, is_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        // The last four bits of the first segment are the scope of a multicast address; 2 is link-local.
        IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.segments()[0] & 0xff0f == 0xff02),
    };
    let unspecified = format!("may not be unspecified ({given})");
    let reasons = [
        (address.is_unspecified(), unspecified.as_str()),
        (address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (is_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (is_multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ];
    let applying = reasons.iter().filter(|(applies, _)| *applies);
    applying.map(|(_, why)| invalid_text(field, given, why)).collect()
}

/// Checks a value that is a number, which must not be negative, or a percentage.
pub(in crate::kinds::builtin) fn number_or_percent(value: &Value, field: &str) -> Option<FieldError> {
    const WHY: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                       regex used for validation is '[0-9]+%')";
    match value.as_str() {
        Some(given) => {
            // Any number of digits is valid here. `at_most_all` checks the range where it matters.
            let digits = given.strip_suffix('%').unwrap_or_default();
            let is_percent = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            (!is_percent).then(|| invalid_text(field, given, WHY))
        }
        None => {
            let number = value.as_i64().filter(|number| *number < 0)?;
            let why = "must be greater than or equal to 0";
            Some(FieldError::invalid(field, &number.to_string(), why))
        }
    }
}

/// Checks that a percentage is at most 100%.
pub(in crate::kinds::builtin) fn at_most_all(value: &Value, field: &str) -> Option<FieldError> {
    let given = value.as_str()?;
    let digits = given.strip_suffix('%').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    let percent: u64 = digits.parse().ok()?;
    (percent > 100).then(|| invalid_text(field, given, "must not be greater than 100%"))
}

/// Checks conditions of the common type `metav1.Condition`.
pub(in crate::kinds::builtin) fn conditions(conditions: &[Value], path: &str) -> Vec<FieldError> {
    const MAX_REASON: usize = 1 << 10;
    const MAX_MESSAGE: usize = 32 << 10;
    const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
    const WHY: &str = "a condition reason must start with alphabetic character, optionally followed by a string of \
                       alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  \
                       or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is \
                       '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";
    let mut errors = Vec::new();
    for (index, condition) in conditions.iter().enumerate() {
        let place = format!("{path}[{index}]");
        let kind = text(condition, "type");
        if conditions.iter().take(index).any(|earlier| text(earlier, "type") == kind) {
            errors.push(duplicate(format!("{place}.type"), kind));
        }
        errors.extend(invalid(&format!("{place}.type"), kind, &names::qualified(kind)));
        if !STATUSES.contains(&text(condition, "status")) {
            let field = format!("{place}.status");
            errors.push(FieldError::not_supported(field, text(condition, "status"), &STATUSES));
        }
        if let Some(number) = condition["observedGeneration"].as_i64().filter(|number| *number < 0) {
            // The common check for numbers says "0".
            let why = "must be greater than or equal to zero";
            errors.push(FieldError::invalid(format!("{place}.observedGeneration"), &number.to_string(), why));
        }
        if condition["lastTransitionTime"].is_null() {
            errors.push(FieldError::required(format!("{place}.lastTransitionTime"), ""));
        }
        let (reason, field) = (text(condition, "reason"), format!("{place}.reason"));
        let bytes = reason.as_bytes();
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let is_reason = bytes.first().is_some_and(u8::is_ascii_alphabetic)
            && bytes.last().is_some_and(is_word)
            && bytes.iter().all(|byte| is_word(byte) || b",:".contains(byte));
        if reason.is_empty() {
            errors.push(FieldError::required(&*field, ""));
        } else if !is_reason {
            errors.push(invalid_text(&*field, reason, WHY));
        }
        if reason.len() > MAX_REASON {
            errors.push(too_long(field, MAX_REASON));
        }
        if text(condition, "message").len() > MAX_MESSAGE {
            errors.push(too_long(format!("{place}.message"), MAX_MESSAGE));
        }
    }
    errors
}

/// Checks a map of labels.
pub(in crate::kinds::builtin) fn labels(labels: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels.as_object().into_iter().flatten() {
        errors.extend(invalid(field, key, &names::qualified(key)));
        let value = value.as_str().unwrap_or_default();
        errors.extend(invalid(field, value, &names::label_value(value)));
    }
    errors
}

/// Checks the metadata of a template, which may have only labels and annotations.
pub(in crate::kinds::builtin) fn template_metadata(metadata: &Value, path: &str) -> Vec<FieldError> {
    // The other fields, and their spelling in errors.
    const OTHERS: [(&str, &str); 13] = [
        ("name", "name"),
        ("generateName", "generateName"),
        ("namespace", "namespace"),
        ("selfLink", "selfLink"),
        ("uid", "uID"),
        ("resourceVersion", "resourceVersion"),
        ("generation", "generation"),
        ("creationTimestamp", "creationTimestamp"),
        ("deletionTimestamp", "deletionTimestamp"),
        ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
        ("ownerReferences", "ownerReferences"),
        ("finalizers", "finalizers"),
        ("managedFields", "managedFields"),
    ];
    let mut errors = annotations(&metadata["annotations"], &format!("{path}.annotations"));
    errors.extend(labels(&metadata["labels"], &format!("{path}.labels")));
    for (_, shown) in OTHERS.iter().filter(|(field, _)| !metadata[*field].is_null()) {
        errors.push(FieldError::forbidden(format!("{path}.{shown}"), "cannot be set"));
    }
    errors
}

/// Checks a map of annotations.
pub(in crate::kinds::builtin) fn annotations(annotations: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        // Unlike keys of labels, keys of annotations may have upper case in their domain, so kube-apiserver checks them in lower case.
        errors.extend(invalid(field, key, &names::qualified(&key.to_lowercase())));
        size += key.len() + value.as_str().unwrap_or_default().len();
    }
    if size > MAX_ANNOTATIONS {
        errors.push(too_long(field, MAX_ANNOTATIONS));
    }
    errors
}

/// Checks that a path has no element `..`.
pub(in crate::kinds::builtin) fn no_backsteps(path: &str, field: &str) -> Option<FieldError> {
    path.split('/').any(|part| part == "..").then(|| invalid_text(field, path, "must not contain '..'"))
}

/// Checks that a path is relative and has no element `..`.
pub(in crate::kinds::builtin) fn descending_path(path: &str, field: &str) -> Vec<FieldError> {
    let absolute = path.starts_with('/').then(|| invalid_text(field, path, "must be a relative path"));
    absolute.into_iter().chain(no_backsteps(path, field)).collect()
}

/// Like [`descending_path`], but also refuses a first element that starts with `..`. The kubelet uses such names for itself.
pub(in crate::kinds::builtin) fn unreserved_path(path: &str, field: &str) -> Vec<FieldError> {
    let mut errors = descending_path(path, field);
    if path.starts_with("..") && !path.starts_with("../") {
        errors.push(invalid_text(field, path, "must not start with '..'"));
    }
    errors
}

#[cfg(test)]
mod tests;
