//! Certificate and private key of a Secret of type `kubernetes.io/tls`.

use x509_parser::certificate::X509Certificate;
use x509_parser::der_parser::asn1_rs::{Any, BitString, FromDer, Integer, OctetString, Oid, Sequence, Tag};
use x509_parser::pem::Pem;
use x509_parser::public_key::PublicKey;

const CERTIFICATE: &str = "CERTIFICATE";
const PRIVATE_KEY: &str = "PRIVATE KEY";

const RSA: &str = "1.2.840.113549.1.1.1";
const ELLIPTIC_CURVE: &str = "1.2.840.10045.2.1";
const ED25519: &str = "1.3.101.112";
const X25519: &str = "1.3.101.110";

/// Kind of a private key, with the part of the public key that it contains.
#[derive(Debug, PartialEq, Eq)]
enum PrivateKey {
    Rsa {
        modulus: Vec<u8>,
    },
    EllipticCurve {
        point: Option<Vec<u8>>,
    },
    Ed25519,
    /// A key for another purpose than signatures.
    Other,
}

/// Checks that two PEM texts are a certificate and its private key. Keys without their public key are not compared with the certificate:
/// deriving the public key would need arithmetic on the curve.
///
/// # Errors
///
/// The text of Go's `tls.X509KeyPair`.
pub(super) fn check(certificate: &[u8], key: &[u8]) -> Result<(), String> {
    let certificate = certificate_block(certificate)?;
    let key = key_block(key)?;
    let (_, certificate) =
        X509Certificate::from_der(&certificate).map_err(|_| "x509: malformed certificate".to_owned())?;
    let key = private_key(&key).ok_or("tls: failed to parse private key")?;
    if key == PrivateKey::Other {
        return Err("tls: found unknown private key type in PKCS#8 wrapping".to_owned());
    }
    let public = certificate.public_key();
    // Go compares the kinds of the two keys first, then their values, and refuses certificates with any other algorithm.
    let matches = match (public.parsed(), key) {
        (Ok(PublicKey::RSA(public)), PrivateKey::Rsa { modulus }) => without_zeros(public.modulus) == modulus,
        (Ok(PublicKey::EC(public)), PrivateKey::EllipticCurve { point }) => {
            point.is_none_or(|point| public.data() == point)
        }
        (_, PrivateKey::Ed25519) if public.algorithm.algorithm.to_id_string() == ED25519 => true,
        (Ok(PublicKey::RSA(_) | PublicKey::EC(_)), _) => {
            return Err("tls: private key type does not match public key type".to_owned());
        }
        _ if public.algorithm.algorithm.to_id_string() == ED25519 => {
            return Err("tls: private key type does not match public key type".to_owned());
        }
        _ => return Err("tls: unknown public key algorithm".to_owned()),
    };
    if matches { Ok(()) } else { Err("tls: private key does not match public key".to_owned()) }
}

fn blocks(pem: &[u8]) -> impl Iterator<Item = Pem> {
    Pem::iter_from_buffer(pem).map_while(Result::ok)
}

/// Returns the content of the first block with a certificate.
fn certificate_block(pem: &[u8]) -> Result<Vec<u8>, String> {
    let mut skipped = Vec::new();
    for block in blocks(pem) {
        if block.label == CERTIFICATE {
            return Ok(block.contents);
        }
        skipped.push(block.label);
    }
    Err(match skipped.as_slice() {
        [] => "tls: failed to find any PEM data in certificate input".to_owned(),
        // Go guesses that the inputs were switched only if there is exactly one block.
        [one] if one.ends_with(PRIVATE_KEY) => {
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; \
                                               PEM inputs may have been switched"
                .to_owned()
        }
        _ => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [{}]",
            skipped.join(" ")
        ),
    })
}

/// Returns the content of the first block with a private key.
fn key_block(pem: &[u8]) -> Result<Vec<u8>, String> {
    let mut skipped = Vec::new();
    for block in blocks(pem) {
        if block.label == PRIVATE_KEY || block.label.ends_with(" PRIVATE KEY") {
            return Ok(block.contents);
        }
        skipped.push(block.label);
    }
    Err(match skipped.as_slice() {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [one] if one == CERTIFICATE => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        _ => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following \
             types: [{}]",
            skipped.join(" ")
        ),
    })
}

/// Reads a key in PKCS #1, PKCS #8 or SEC 1. The label of the PEM block does not decide: like Go, this tries the formats in order.
fn private_key(der: &[u8]) -> Option<PrivateKey> {
    rsa_key(der).or_else(|| wrapped_key(der)).or_else(|| elliptic_curve_key(der))
}

/// Reads PKCS #1: the version, the modulus, and seven other numbers.
fn rsa_key(der: &[u8]) -> Option<PrivateKey> {
    const NUMBERS: usize = 9;
    let parts = sequence(der)?;
    // Keys with more than two primes have another element behind these numbers.
    let numbers: Vec<Integer<'_>> =
        parts.into_iter().take(NUMBERS).map(Integer::try_from).collect::<Result<_, _>>().ok()?;
    let modulus = numbers.get(1).filter(|_| numbers.len() == NUMBERS)?;
    Some(PrivateKey::Rsa { modulus: without_zeros(modulus.as_ref()).to_vec() })
}

/// Reads PKCS #8: the version, the algorithm, and the key in the format of the algorithm.
fn wrapped_key(der: &[u8]) -> Option<PrivateKey> {
    let mut parts = sequence(der)?.into_iter();
    Integer::try_from(parts.next()?).ok()?;
    let algorithm = Sequence::try_from(parts.next()?).ok()?;
    let (_, algorithm) = Oid::from_der(&algorithm.content).ok()?;
    let key = OctetString::try_from(parts.next()?).ok()?;
    match algorithm.to_id_string().as_str() {
        RSA => rsa_key(key.as_ref()),
        ELLIPTIC_CURVE => elliptic_curve_key(key.as_ref()),
        ED25519 => Some(PrivateKey::Ed25519),
        X25519 => Some(PrivateKey::Other),
        _ => None,
    }
}

/// Reads SEC 1: the version, the private key, and two optional tagged parts, the curve (tag 0) and the public key (tag 1).
fn elliptic_curve_key(der: &[u8]) -> Option<PrivateKey> {
    const PUBLIC_KEY: Tag = Tag(1);
    let mut parts = sequence(der)?.into_iter();
    Integer::try_from(parts.next()?).ok()?;
    OctetString::try_from(parts.next()?).ok()?;
    let point = parts.find(|part| part.tag() == PUBLIC_KEY).and_then(|part| {
        let (_, bits) = BitString::from_der(part.data).ok()?;
        Some(bits.as_ref().to_vec())
    });
    Some(PrivateKey::EllipticCurve { point })
}

/// Returns the elements of an ASN.1 sequence.
fn sequence(der: &[u8]) -> Option<Vec<Any<'_>>> {
    let (_, whole) = Any::from_der(der).ok()?;
    whole.tag().assert_eq(Tag::Sequence).ok()?;
    let mut rest = whole.data;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (after, part) = Any::from_der(rest).ok()?;
        parts.push(part);
        rest = after;
    }
    Some(parts)
}

/// Drops leading zero bytes of a number. DER adds one to keep a number positive.
fn without_zeros(number: &[u8]) -> &[u8] {
    let start = number.iter().position(|byte| *byte != 0).unwrap_or(number.len());
    &number[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(label: &str) -> String {
        format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n")
    }

    #[test]
    fn texts_without_the_blocks_are_refused() {
        let error = |certificate: &str, key: &str| check(certificate.as_bytes(), key.as_bytes()).unwrap_err();
        assert_eq!(error("x", "y"), "tls: failed to find any PEM data in certificate input");
        assert!(error(&block("EC PRIVATE KEY"), "").ends_with("PEM inputs may have been switched"));
        let skipped = error(&(block("A") + &block("B")), "");
        assert!(skipped.ends_with("after skipping PEM blocks of the following types: [A B]"), "{skipped}");
        let certificate = block("CERTIFICATE");
        assert_eq!(error(&certificate, ""), "tls: failed to find any PEM data in key input");
        assert!(error(&certificate, &certificate).starts_with("tls: found a certificate rather than a key"));
        assert_eq!(error(&certificate, &block("PRIVATE KEY")), "x509: malformed certificate");
    }

    #[cfg(feature = "tls")]
    #[test]
    fn a_key_belongs_to_its_certificate() {
        let pair = || rcgen::generate_simple_self_signed(["example.com".to_owned()]).expect("a certificate");
        let (one, other) = (pair(), pair());
        let certificate = one.cert.pem();
        assert_eq!(check(certificate.as_bytes(), one.signing_key.serialize_pem().as_bytes()), Ok(()));
        let why = check(certificate.as_bytes(), other.signing_key.serialize_pem().as_bytes());
        assert_eq!(why, Err("tls: private key does not match public key".to_owned()));
        let why = check(certificate.as_bytes(), block("PRIVATE KEY").as_bytes());
        assert_eq!(why, Err("tls: failed to parse private key".to_owned()));
    }
}
