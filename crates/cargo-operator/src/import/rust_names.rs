//! Names in Rust for the fields, values and nested objects of a schema (pure).

use std::collections::BTreeSet;

use crate::names::{is_keyword, snake};

/// Words that cannot be raw identifiers.
const NEVER_RAW: [&str; 5] = ["self", "Self", "super", "crate", "_"];

/// A field of a struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldName {
    /// Identifier in Rust.
    pub(super) ident: String,
    /// Whether serde needs the name in JSON, because `rename_all` does not derive it from the identifier.
    pub(super) is_renamed: bool,
}

/// Name of the field of a property, which no other field in `used` has.
pub(super) fn field(property: &str, used: &mut BTreeSet<String>) -> FieldName {
    let words: String = property.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let mut name = snake(&words);
    while name.contains("__") {
        name = name.replace("__", "_");
    }
    let name = name.trim_matches('_');
    let name = match name.chars().next() {
        None => "field".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("n{name}"),
        Some(_) => name.to_owned(),
    };
    let name = unused(&name, "_", used);
    let is_renamed = camel(&name) != property;
    let ident = match &*name {
        word if NEVER_RAW.contains(&word) => format!("{word}_"),
        word if is_keyword(word) => format!("r#{word}"),
        word => word.to_owned(),
    };
    // serde derives `type` from `r#type`, but not `self` from `self_`, so the latter needs an explicit name.
    let is_renamed = is_renamed || ident.ends_with('_');
    FieldName { ident, is_renamed }
}

/// The name that serde's `rename_all = "camelCase"` gives a field.
fn camel(field: &str) -> String {
    let mut name = String::new();
    let mut upper = false;
    for c in field.chars() {
        match c {
            '_' => upper = true,
            c if upper => {
                name.push(c.to_ascii_uppercase());
                upper = false;
            }
            c => name.push(c),
        }
    }
    name
}

/// A property or value in PascalCase: `IssuerRef` for `issuerRef`, `RsaPkcs1` for `rsa-pkcs1`.
pub(super) fn pascal(text: &str) -> String {
    let mut name = String::new();
    let mut upper = true;
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            name.push(if upper { c.to_ascii_uppercase() } else { c });
            upper = false;
        } else {
            upper = true;
        }
    }
    name
}

/// Name of a variant for a value, which no other variant in `used` has.
pub(super) fn variant(value: &str, used: &mut BTreeSet<String>) -> String {
    let name = pascal(value);
    let name = match name.chars().next() {
        None if value.is_empty() => "Empty".to_owned(),
        None => "Symbol".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("N{name}"),
        Some(_) => name,
    };
    let name = if name == "Self" { "SelfValue".to_owned() } else { name };
    unused(&name, "", used)
}

/// Returns the name, or the name with a number if it is in `used`, and adds it to `used`.
pub(super) fn unused(name: &str, separator: &str, used: &mut BTreeSet<String>) -> String {
    let mut candidate = name.to_owned();
    let mut number = 2;
    while !used.insert(candidate.clone()) {
        candidate = format!("{name}{separator}{number}");
        number += 1;
    }
    candidate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_names_of_rust() {
        for (property, ident, is_renamed) in [
            ("secretName", "secret_name", false),
            ("type", "r#type", false),
            ("self", "self_", true),
            ("dnsNames", "dns_names", false),
            ("renewBeforeURL", "renew_before_url", true),
            ("$ref", "r#ref", true),
            ("foo-bar", "foo_bar", true),
            ("2fa", "n2fa", true),
            ("_", "field", true),
            ("über", "ber", true),
        ] {
            let name = field(property, &mut BTreeSet::new());
            assert_eq!(name, FieldName { ident: ident.to_owned(), is_renamed }, "{property}");
        }
    }

    #[test]
    fn equal_names_are_numbered() {
        let mut used = BTreeSet::new();
        let names = ["fooBar", "foo_bar", "foo-bar"].map(|property| field(property, &mut used).ident);
        assert_eq!(names, ["foo_bar", "foo_bar_2", "foo_bar_3"]);
        let mut used = BTreeSet::new();
        let names = ["", "RSA", "rsa-1", "1.2", "+", "-", "self"].map(|value| variant(value, &mut used));
        assert_eq!(names, ["Empty", "RSA", "Rsa1", "N12", "Symbol", "Symbol2", "SelfValue"].map(|it| it));
    }
}
