//! Public keys as a JSON Web Key Set, with which others verify tokens of service accounts.
//!
//! Formats follow Kubernetes' `pkg/serviceaccount` (`jwt.go`, `openidmetadata.go`).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

/// Identifiers of the algorithm and its parameters in DER, by the name of the algorithm of tokens.
const ALGORITHMS: [(&str, &[u8]); 3] = [
    ("RS256", b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00"),
    ("ES256", b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07"),
    ("ES384", b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x22"),
];
const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;

/// Returns the identifier of a key: the SHA-256 of its SubjectPublicKeyInfo.
pub(super) fn id(algorithm: &str, public: &[u8]) -> String {
    BASE64.encode(Sha256::digest(info(algorithm, public)))
}

/// Returns a key as JSON; `None` if it is malformed.
pub(super) fn json_web_key(algorithm: &str, public: &[u8]) -> Option<Value> {
    let info = info(algorithm, public);
    let id = BASE64.encode(Sha256::digest(&info));
    let (_, info) = SubjectPublicKeyInfo::from_der(&info).ok()?;
    match info.parsed().ok()? {
        PublicKey::RSA(key) => Some(json!({
            "use": "sig", "kty": "RSA", "kid": id, "alg": algorithm,
            "n": number(key.modulus), "e": number(key.exponent),
        })),
        // A point is a 4 and both coordinates.
        PublicKey::EC(point) => {
            let coordinates = point.data().strip_prefix(&[4])?;
            let (x, y) = coordinates.split_at(coordinates.len() / 2);
            let curve = if algorithm == "ES256" { "P-256" } else { "P-384" };
            Some(json!({
                "use": "sig", "kty": "EC", "kid": id, "crv": curve, "alg": algorithm,
                "x": BASE64.encode(x), "y": BASE64.encode(y),
            }))
        }
        _ => None,
    }
}

/// Encodes a positive number without leading zeros.
fn number(bytes: &[u8]) -> String {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    BASE64.encode(&bytes[zeros..])
}

/// Returns the SubjectPublicKeyInfo of a key in DER.
fn info(algorithm: &str, public: &[u8]) -> Vec<u8> {
    let identifiers = ALGORITHMS.iter().find(|(name, _)| *name == algorithm).map_or(&[][..], |(_, der)| der);
    // The first byte is the number of unused bits.
    let bits = element(BIT_STRING, &[&[0], public].concat());
    element(SEQUENCE, &[element(SEQUENCE, identifiers), bits].concat())
}

/// Returns an element of DER.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let zeros = length.iter().take_while(|byte| **byte == 0).count();
    let length = &length[zeros..];
    let mut out = vec![tag];
    match length {
        [] => out.push(0),
        [short @ 0..0x80] => out.push(*short),
        long => {
            // There are at most 8 bytes.
            out.push(0x80 | u8::try_from(long.len()).unwrap_or(8));
            out.extend(long);
        }
    }
    out.extend(content);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_info_of_a_key_is_that_of_its_pem() {
        for (name, algorithm) in
            [("ES256", &rcgen::PKCS_ECDSA_P256_SHA256), ("ES384", &rcgen::PKCS_ECDSA_P384_SHA384)]
        {
            let pair = rcgen::KeyPair::generate_for(algorithm).unwrap();
            let pem = x509_parser::pem::parse_x509_pem(pair.public_key_pem().as_bytes()).unwrap().1;
            assert_eq!(info(name, pair.public_key_raw()), pem.contents);
            let key = json_web_key(name, pair.public_key_raw()).unwrap();
            assert_eq!((&key["kty"], &key["alg"]), (&json!("EC"), &json!(name)));
            assert_eq!(key["kid"], id(name, pair.public_key_raw()));
            assert_eq!(key["x"].as_str().map(str::len), key["y"].as_str().map(str::len));
        }
    }

    /// The key and the answer of a kube-apiserver v1.36.3 that was started with it.
    #[test]
    fn an_rsa_key_is_published_as_by_kube_apiserver() {
        let n = RECORDED_N;
        let modulus = BASE64.decode(n).unwrap();
        let number = |bytes: &[u8]| element(2, bytes);
        let public = element(SEQUENCE, &[number(&[&[0], &*modulus].concat()), number(&[1, 0, 1])].concat());
        let expected = json!({
            "use": "sig", "kty": "RSA", "kid": "wTy9yYcNx7gwcs0-74YtyFzJrLe0B4eh6Tfso41dofY", "alg": "RS256",
            "n": n, "e": "AQAB",
        });
        assert_eq!(json_web_key("RS256", &public), Some(expected));
    }

    const RECORDED_N: &str = "xdO5Pvh5o1bfGAVDdkX6Bk6F1KJ2niGA3CnjwL-n5SlEhtyBwFGSIRb8AwrwZcVMxJHIaNdqVVBFxTmRgxIaj1LnYhE0R3s2\
        glkgaCBgZsuWjEt_3kbr5HjMx0vdmeEA2f432Ji9TTOp1EbWEkDFW2T3_kgJqeAlA67eKso6GsGTfQ-6MacdH6rP93pJexvREMxBfqSyUEcl_0SYNCou\
        s9nKFxK1VUIONqDnVqDt20fGtFuabTrQfMcyYgdbdC3SzLLuN9bBC5pDX8qDtvMB_Mg6-2-9wspQKm0-tca9CPIzcVBUqJ2mC4Vo2pmY8CvOpyrdzakY\
        EgvCbixyX1dLaw";
}
