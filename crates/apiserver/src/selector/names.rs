//! What label keys and values must look like.

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
    start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation \
    is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

pub(super) fn qualified(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let mut parts = name.split('/');
    let (prefix, part) = match (parts.next(), parts.next(), parts.next()) {
        (Some(part), None, _) => (None, part),
        (Some(prefix), Some(part), None) => (Some(prefix), part),
        _ => {
            let message = format!(
                "a qualified name {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            );
            return vec![message];
        }
    };
    match prefix {
        Some("") => errors.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => errors.extend(
            subdomain(prefix)
                .into_iter()
                .map(|error| format!("prefix part {error}")),
        ),
        None => {}
    }
    if part.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if part.len() > 63 {
        errors.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_name(part) {
        errors.push(format!("name part {QUALIFIED}"));
    }
    errors
}

pub(super) fn label_value(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 63 {
        errors.push("must be no more than 63 bytes".to_owned());
    }
    if !value.is_empty() && !is_name(value) {
        errors.push(VALUE.to_owned());
    }
    errors
}

fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes
            .iter()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.'))
}

pub(super) fn subdomain(name: &str) -> Vec<String> {
    checked(name, 253, SUBDOMAIN, |name| name.split('.').all(is_label))
}

fn checked(name: &str, max: usize, message: &str, valid: impl Fn(&str) -> bool) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > max {
        errors.push(format!("must be no more than {max} characters"));
    }
    if !valid(name) {
        errors.push(message.to_owned());
    }
    errors
}

fn is_label(name: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.first().is_some_and(|c| inner(*c))
        && bytes.last().is_some_and(|c| inner(*c))
        && bytes.iter().all(|c| inner(*c) || *c == b'-')
}
