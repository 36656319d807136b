//! The certificate request (PKCS#10) in a CertificateSigningRequest, and the validation of the fields around it.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kube_apimachinery::go::quote;
use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::Value;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::{Pem, parse_x509_pem};
use x509_parser::prelude::FromDer;

use crate::kinds::builtin::shared::field_checks::too_long;

/// Type of the PEM block of a request.
const BLOCK: &str = "CERTIFICATE REQUEST";
/// Type of the PEM blocks of a certificate.
const CERTIFICATE: &str = "CERTIFICATE";
/// Maximum length of the domain of a signer, in bytes.
const MAX_DOMAIN: usize = 253;
/// Maximum length of the name of a signer, in bytes: a domain, a namespace and the name of an object in it.
const MAX_SIGNER_NAME: usize = MAX_DOMAIN + 1 + 63 + 1 + 253;
/// Shortest lifetime of a certificate in seconds.
const SHORTEST: i64 = 600;
/// Key usages, in the order in which errors list them.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// Returns the organizations in the subject of a certificate request. With the certificate, they become the groups of a user.
///
/// # Errors
/// The reason why the bytes are not a certificate request in PEM.
pub(crate) fn organizations(pem: &[u8]) -> Result<Vec<String>, String> {
    let wrong = || format!("PEM block type must be {BLOCK}");
    let (_, block) = parse_x509_pem(pem).map_err(|_| wrong())?;
    if block.label != BLOCK {
        return Err(wrong());
    }
    let (_, request) = X509CertificationRequest::from_der(&block.contents)
        .map_err(|error| format!("malformed request: {error}"))?;
    let subject = &request.certification_request_info.subject;
    Ok(subject.iter_organization().filter_map(|one| one.as_str().ok()).map(str::to_owned).collect())
}

/// Validates the spec of a new CertificateSigningRequest. The signature of the request is not verified.
pub(super) fn validate(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = Vec::new();
    let request = spec["request"].as_str().unwrap_or_default();
    if let Err(why) = organizations(&BASE64.decode(request).unwrap_or_default()) {
        // Go shows a nil slice of bytes as null, an empty one as text.
        let shown = if spec["request"].is_null() { "null".to_owned() } else { quote(request) };
        errors.push(FieldError::invalid("spec.request", &shown, &why));
    }
    let usages: Vec<&str> =
        spec["usages"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if usages.is_empty() {
        errors.push(FieldError::required("spec.usages", ""));
    }
    for (index, usage) in usages.iter().enumerate().filter(|(_, usage)| !USAGES.contains(usage)) {
        errors.push(FieldError::not_supported(format!("spec.usages[{index}]"), usage, &USAGES));
    }
    // kube-apiserver reports duplicates after all unsupported usages.
    for (index, usage) in usages.iter().enumerate().filter(|(index, usage)| usages[..*index].contains(usage))
    {
        errors.push(FieldError {
            reason: "FieldValueDuplicate",
            field: format!("spec.usages[{index}]"),
            message: format!("Duplicate value: {}", quote(usage)),
        });
    }
    errors.extend(signer_name(spec["signerName"].as_str().unwrap_or_default()));
    if let Some(seconds) = spec["expirationSeconds"].as_i64().filter(|seconds| *seconds < SHORTEST) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid("spec.expirationSeconds", &seconds.to_string(), why));
    }
    errors
}

/// Returns `status.certificate`, or the empty text if it is absent.
pub(super) fn certificate(request: &Value) -> &str {
    request["status"]["certificate"].as_str().unwrap_or_default()
}

/// Validates a new certificate. If the old one is invalid, any new one is accepted.
pub(super) fn validate_certificate(old: &Value, new: &Value) -> Option<FieldError> {
    let wrong = |request: &Value| match certificate(request) {
        "" => None,
        text => certificates(&BASE64.decode(text).unwrap_or_default()).err(),
    };
    if wrong(old).is_some() {
        return None;
    }
    let why = wrong(new)?;
    Some(FieldError::invalid("status.certificate", "\"<certificate data>\"", &why))
}

/// Checks that a PEM text consists of certificates only, and contains at least one.
fn certificates(pem: &[u8]) -> Result<(), String> {
    let mut found = 0;
    let mut rest = Cursor::new(pem);
    loop {
        let start = usize::try_from(rest.position()).unwrap_or(pem.len());
        let Ok((block, _)) = Pem::read(&mut rest) else {
            // This parser refuses blocks with headers, which Go's parser reads.
            match label_before_headers(&pem[start..]) {
                None => break,
                Some(CERTIFICATE) => return Err("no PEM block headers are permitted".to_owned()),
                Some(label) => return Err(not_a_certificate(label)),
            }
        };
        if block.label != CERTIFICATE {
            return Err(not_a_certificate(&block.label));
        }
        block.parse_x509().map_err(|error| format!("malformed certificate: {error}"))?;
        found += 1;
    }
    if found == 0 {
        return Err(format!("must contain at least one {CERTIFICATE} PEM block"));
    }
    Ok(())
}

fn not_a_certificate(label: &str) -> String {
    format!("only {CERTIFICATE} PEM blocks are allowed, found {}", quote(label))
}

/// Returns the label of the first block if its first line is a header, such as `Proc-Type: 4,ENCRYPTED`.
fn label_before_headers(pem: &[u8]) -> Option<&str> {
    let mut lines = std::str::from_utf8(pem).ok()?.lines();
    let label = lines.find_map(|line| line.trim_end().strip_prefix("-----BEGIN ")?.strip_suffix("-----"))?;
    lines.next()?.contains(':').then_some(label)
}

/// Validates the name of a signer: a domain, and a path of one segment that may contain dots.
fn signer_name(name: &str) -> Vec<FieldError> {
    const FIELD: &str = "spec.signerName";
    if name.is_empty() {
        return vec![FieldError::required(FIELD, "")];
    }
    let invalid = |why: &str| FieldError::invalid(FIELD, &quote(name), why);
    if name == "kubernetes.io/legacy-unknown" {
        return vec![invalid("the legacy signerName is not allowed via this API version")];
    }
    let Some((domain, path)) = name.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        return vec![invalid(
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        )];
    };
    let mut errors = Vec::new();
    if domain.len() > MAX_DOMAIN {
        errors.push(too_long(FIELD, MAX_DOMAIN));
    }
    // Only the first invalid label of each part is reported.
    let wrong_label = |part: &str, check: fn(&str) -> Vec<String>| -> Vec<FieldError> {
        let wrong = part.split('.').map(|label| (label, check(label))).find(|(_, wrong)| !wrong.is_empty());
        let (label, wrong) = wrong.unwrap_or_default();
        let shown = |why: &String| format!("validating label {}: {why}", quote(label));
        wrong.iter().map(|why| FieldError::invalid(FIELD, &quote(part), &shown(why))).collect()
    };
    errors.extend(wrong_label(domain, names::label));
    if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        errors.push(FieldError::invalid(FIELD, &quote(domain), why));
    }
    // A part of the path may be as long as a subdomain: 253 characters instead of the 63 of a label.
    errors.extend(wrong_label(path, names::subdomain));
    if name.len() > MAX_SIGNER_NAME {
        errors.push(too_long(FIELD, MAX_SIGNER_NAME));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::CERTIFICATE_REQUEST;

    #[test]
    fn groups_are_the_organizations_of_the_subject() {
        let pem = BASE64.decode(CERTIFICATE_REQUEST).unwrap();
        assert_eq!(organizations(&pem), Ok(vec!["developers".to_owned()]));
        for text in ["x", "", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert_eq!(
                organizations(text.as_bytes()),
                Err("PEM block type must be CERTIFICATE REQUEST".to_owned()),
                "{text}"
            );
        }
        let garbage = "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n";
        assert!(organizations(garbage.as_bytes()).unwrap_err().starts_with("malformed request: "));
    }

    #[test]
    fn a_new_certificate_consists_of_certificates() {
        let error = |old: &str, new: &str| {
            let [old, new] = [old, new].map(|text| json!({"status": {"certificate": BASE64.encode(text)}}));
            validate_certificate(&old, &new).map(|error| error.message)
        };
        let invalid = |why: &str| Some(format!("Invalid value: \"<certificate data>\": {why}"));
        assert_eq!(error("", "x"), invalid("must contain at least one CERTIFICATE PEM block"));
        assert_eq!(error("x", "y"), None, "the old one is invalid");
        let block = |label: &str| format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n");
        assert_eq!(
            error("", &block("PRIVATE KEY")),
            invalid("only CERTIFICATE PEM blocks are allowed, found \"PRIVATE KEY\"")
        );
        assert!(error("", &block("CERTIFICATE")).unwrap().contains("malformed certificate: "));
        let with_header = |label: &str| block(label).replace("AAAA", "Proc-Type: 4,ENCRYPTED\n\nAAAA");
        assert_eq!(error("", &with_header("CERTIFICATE")), invalid("no PEM block headers are permitted"));
        let other = invalid("only CERTIFICATE PEM blocks are allowed, found \"KEY\"");
        assert_eq!(error("", &with_header("KEY")), other);
        assert_eq!(error("", &(block("KEY") + &with_header("CERTIFICATE"))), other, "the first error counts");
    }

    #[test]
    fn a_request_must_have_valid_signer_usages_and_duration() {
        let errors = |signer: &str, usages: Value, seconds: i64| -> Vec<String> {
            let spec = json!({"request": CERTIFICATE_REQUEST, "signerName": signer, "usages": usages, "expirationSeconds": seconds});
            validate(&json!({ "spec": spec })).iter().map(ToString::to_string).collect()
        };
        assert_eq!(errors("example.com/signer", json!(["client auth"]), 600), [""; 0]);
        assert_eq!(
            errors("bad", json!([]), 5),
            [
                "spec.usages: Required value",
                "spec.signerName: Invalid value: \"bad\": must be a fully qualified domain and path of the form \
                 'example.com/signer-name'",
                "spec.expirationSeconds: Invalid value: 5: may not specify a duration less than 600 seconds (10 minutes)",
            ]
        );
        let long = vec!["a"; 128].join(".");
        assert_eq!(
            errors(&format!("{long}/signer"), json!(["client auth"]), 600),
            ["spec.signerName: Too long: may not be more than 253 bytes"]
        );
        let longer = vec!["a".repeat(200); 3].join(".");
        assert_eq!(
            errors(&format!("example.com/{longer}"), json!(["client auth"]), 600),
            ["spec.signerName: Too long: may not be more than 571 bytes"]
        );
        let twice = errors("example.com/signer", json!(["nope", "any", "any"]), 600);
        assert!(
            twice[0].starts_with("spec.usages[0]: Unsupported value: \"nope\": supported values: \"any\", ")
        );
        assert_eq!(twice[1], "spec.usages[2]: Duplicate value: \"any\"");
    }
}
