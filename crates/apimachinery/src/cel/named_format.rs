//! Named formats: `format.dns1123Label().validate(text)`.

use super::cost::Cost;
use super::evaluation_error::EvaluationError;
use super::functions::{Evaluated, no_overload_of};
use super::value::Val;
use crate::go::Url;
use crate::names::{self, NameRule};
use crate::schema;

/// A format of texts.
#[derive(Debug)]
pub(super) struct NamedFormat {
    /// Name of the function that returns the format.
    function: &'static str,
    pub(super) name: &'static str,
    /// Returns the reasons why a text does not have this format.
    refusals: fn(&str) -> Vec<String>,
    /// Length of the format's regular expression, by which kube-apiserver estimates the cost.
    pattern_length: usize,
}

const fn format(
    function: &'static str,
    name: &'static str,
    pattern_length: usize,
    refusals: fn(&str) -> Vec<String>,
) -> NamedFormat {
    NamedFormat { function, name, refusals, pattern_length }
}

static FORMATS: [NamedFormat; 13] = [
    format("dns1123Label", "DNS1123Label", 30, |text| names::name(NameRule::Label, text)),
    format("dns1123Subdomain", "DNS1123Subdomain", 60, |text| names::name(NameRule::Subdomain, text)),
    format("dns1035Label", "DNS1035Label", 30, |text| names::name(NameRule::Label1035, text)),
    format("qualifiedName", "QualifiedName", 60, names::qualified),
    format("dns1123LabelPrefix", "DNS1123LabelPrefix", 30, |text| names::name_prefix(NameRule::Label, text)),
    format("dns1123SubdomainPrefix", "DNS1123SubdomainPrefix", 60, |text| {
        names::name_prefix(NameRule::Subdomain, text)
    }),
    format("dns1035LabelPrefix", "DNS1035LabelPrefix", 30, |text| {
        names::name_prefix(NameRule::Label1035, text)
    }),
    format("labelValue", "LabelValue", 40, names::label_value),
    format("uri", "URI", 1103, |text| Url::parse_request(text).err().into_iter().collect()),
    format("uuid", "uuid", 84, |text| of_schema("uuid", text, "does not match the UUID format")),
    format("byte", "byte", 84, |text| of_schema("byte", text, "invalid base64")),
    format("date", "date", 130, |text| of_schema("date", text, "invalid date")),
    format("datetime", "datetime", 130, |text| of_schema("datetime", text, "invalid datetime")),
];

fn of_schema(format: &str, text: &str, why: &str) -> Vec<String> {
    if schema::has_format(format, text) { Vec::new() } else { vec![why.to_owned()] }
}

fn find(function: &str) -> Option<&'static NamedFormat> {
    FORMATS.iter().find(|format| format.function == function)
}

/// Calls a function of the namespace `format`; `None` if there is none of this name.
pub(super) fn global<'a>(function: &str, arguments: &[Val<'a>]) -> Option<Evaluated<'a>> {
    let name = function.strip_prefix("format.")?;
    Some(match (name, arguments) {
        ("named", [Val::String(name)]) => {
            Ok(find(name).map_or(Val::NONE, |format| Val::some(Val::Format(format))))
        }
        (name, []) if name != "named" => Ok(Val::Format(find(name)?)),
        _ => Err(no_overload_of(function, arguments)),
    })
}

/// Calls `format.validate(text)`, which returns the reasons why the text does not have the format, or nothing.
pub(super) fn validate<'a>(
    format: &NamedFormat,
    text: &str,
    cost: &mut Cost,
) -> Result<Val<'a>, EvaluationError> {
    cost.pattern(text.len(), format.pattern_length)?;
    let refusals = (format.refusals)(text);
    if refusals.is_empty() {
        return Ok(Val::NONE);
    }
    Ok(Val::some(Val::list(refusals.into_iter().map(Val::text).collect())))
}
