//! Keys with which tokens of service accounts are signed and verified, from files: kube-apiserver's
//! `--service-account-signing-key-file` and `--service-account-key-file`.

mod key_set;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED,
    ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256,
    RsaKeyPair, UnparsedPublicKey, VerificationAlgorithm,
};
use serde_json::Value;
use thiserror::Error;
use x509_parser::oid_registry::{Oid, asn1_rs::oid};
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::SubjectPublicKeyInfo;

const RSA: Oid<'static> = oid!(1.2.840.113549.1.1.1);
const ELLIPTIC_CURVE: Oid<'static> = oid!(1.2.840.10045.2.1);
const P256: Oid<'static> = oid!(1.2.840.10045.3.1.7);
const P384: Oid<'static> = oid!(1.3.132.0.34);

/// Keys of service account tokens. Without such keys the server signs tokens with a secret of its own, and they become invalid when it
/// ends.
#[derive(Clone)]
pub struct ServiceAccountKeys {
    issuer: String,
    signing: Arc<SigningKey>,
    verifying: Vec<VerifyingKey>,
}

/// Reason why a key is refused. Messages never contain keys.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InvalidServiceAccountKey {
    /// The file cannot be read.
    #[error("service account key file {} cannot be read", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The content of a file is refused.
    #[error("service account key file {}", path.display())]
    InFile {
        /// Path of the file.
        path: PathBuf,
        /// The problem.
        source: Box<Self>,
    },
    /// The text has no PEM block with a key.
    #[error("there is no {0} for service accounts: write it as a PEM block")]
    Empty(&'static str),
    /// The key is malformed, or of another kind.
    #[error(
        "the PEM block {0} is not supported as a service account key: use an RSA key of at least 2048 bits, or an elliptic curve key \
         (P-256 or P-384) in PKCS#8"
    )]
    Unsupported(String),
}

impl ServiceAccountKeys {
    /// Reads the private key (PEM) that signs tokens. Its public key also verifies them. `issuer` is the issuer of the tokens, such as
    /// `https://kubernetes.default.svc`. It is also their audience unless a request names others.
    ///
    /// # Errors
    /// [`InvalidServiceAccountKey`] names the supported forms.
    pub fn from_pem(issuer: impl Into<String>, signing_key: &[u8]) -> Result<Self, InvalidServiceAccountKey> {
        let blocks = blocks(signing_key);
        let mut keys = blocks.iter().filter(|block| block.label.ends_with("PRIVATE KEY"));
        let block = keys.next().ok_or(InvalidServiceAccountKey::Empty("private key"))?;
        let signing = SigningKey::read(block)?;
        let verifying = vec![signing.verifying()];
        Ok(Self { issuer: issuer.into(), signing: Arc::new(signing), verifying })
    }

    /// Like [`from_pem`](Self::from_pem), from a file.
    ///
    /// # Errors
    /// Like [`from_pem`](Self::from_pem), and if the file cannot be read.
    pub fn from_file(issuer: impl Into<String>, path: &Path) -> Result<Self, InvalidServiceAccountKey> {
        Self::from_pem(issuer, &read(path)?).map_err(in_file(path))
    }

    /// Adds keys that verify tokens: public keys, certificates or private keys (PEM).
    ///
    /// # Errors
    /// [`InvalidServiceAccountKey`] names the supported forms.
    pub fn verified_by_pem(mut self, keys: &[u8]) -> Result<Self, InvalidServiceAccountKey> {
        let blocks = blocks(keys);
        let read = blocks.iter().map(VerifyingKey::read).collect::<Result<Vec<_>, _>>()?;
        let read: Vec<VerifyingKey> = read.into_iter().flatten().collect();
        if read.is_empty() {
            return Err(InvalidServiceAccountKey::Empty("public key"));
        }
        self.verifying.extend(read);
        Ok(self)
    }

    /// Like [`verified_by_pem`](Self::verified_by_pem), from a file.
    ///
    /// # Errors
    /// Like [`verified_by_pem`](Self::verified_by_pem), and if the file cannot be read.
    pub fn verified_by_file(self, path: &Path) -> Result<Self, InvalidServiceAccountKey> {
        self.verified_by_pem(&read(path)?).map_err(in_file(path))
    }

    pub(super) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Returns the name of the algorithm in the header of a token.
    pub(super) fn algorithm(&self) -> &'static str {
        self.signing.algorithm()
    }

    /// Returns the identifier of the signing key in the header of a token.
    pub(super) fn id(&self) -> String {
        let key = self.signing.verifying();
        key_set::id(key.algorithm, &key.public)
    }

    /// Whether one of the keys that verify tokens has this identifier.
    pub(super) fn has_key(&self, id: &str) -> bool {
        self.verifying.iter().any(|key| key_set::id(key.algorithm, &key.public) == id)
    }

    /// Returns the public keys as JSON Web Keys: the given ones, and before them the signing key if it is not one of them.
    pub(super) fn public_keys(&self) -> Vec<Value> {
        let mut keys = self.verifying.as_slice();
        if let [signing, given @ ..] = keys
            && given.iter().any(|key| key.public == signing.public)
        {
            keys = given;
        }
        keys.iter().filter_map(|key| key_set::json_web_key(key.algorithm, &key.public)).collect()
    }

    pub(super) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.signing.sign(message)
    }

    /// Whether one of the keys of this algorithm signed the message.
    pub(super) fn verify(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
        // The algorithm comes from the token, which must not decide how a key is used.
        let keys = self.verifying.iter().filter(|key| key.algorithm == algorithm);
        keys.into_iter().any(|key| {
            UnparsedPublicKey::new(key.verification, &key.public).verify(message, signature).is_ok()
        })
    }
}

/// Omits the keys, because private keys are secret.
impl fmt::Debug for ServiceAccountKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccountKeys").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

fn read(path: &Path) -> Result<Vec<u8>, InvalidServiceAccountKey> {
    std::fs::read(path).map_err(|source| InvalidServiceAccountKey::Read { path: path.to_owned(), source })
}

/// Adds the path of the file to an error about its content.
fn in_file(path: &Path) -> impl FnOnce(InvalidServiceAccountKey) -> InvalidServiceAccountKey {
    move |why| InvalidServiceAccountKey::InFile { path: path.to_owned(), source: Box::new(why) }
}

/// Returns the PEM blocks of a text up to the first malformed block.
fn blocks(text: &[u8]) -> Vec<Pem> {
    Pem::iter_from_buffer(text).map_while(Result::ok).collect()
}

enum SigningKey {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
}

impl SigningKey {
    fn read(block: &Pem) -> Result<Self, InvalidServiceAccountKey> {
        let der = &block.contents;
        let elliptic = |algorithm| EcdsaKeyPair::from_pkcs8(algorithm, der, &SystemRandom::new());
        let key = match block.label.as_str() {
            "RSA PRIVATE KEY" => RsaKeyPair::from_der(der).ok().map(Self::Rsa),
            // The label does not name the algorithm, so each is tried.
            "PRIVATE KEY" => RsaKeyPair::from_pkcs8(der)
                .map(Self::Rsa)
                .or_else(|_| elliptic(&ECDSA_P256_SHA256_FIXED_SIGNING).map(Self::P256))
                .or_else(|_| elliptic(&ECDSA_P384_SHA384_FIXED_SIGNING).map(Self::P384))
                .ok(),
            _ => None,
        };
        key.ok_or_else(|| InvalidServiceAccountKey::Unsupported(block.label.clone()))
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "RS256",
            Self::P256(_) => "ES256",
            Self::P384(_) => "ES384",
        }
    }

    fn verifying(&self) -> VerifyingKey {
        let (verification, public): (&'static dyn VerificationAlgorithm, &[u8]) = match self {
            Self::Rsa(key) => (&RSA_PKCS1_2048_8192_SHA256, key.public().as_ref()),
            Self::P256(key) => (&ECDSA_P256_SHA256_FIXED, key.public_key().as_ref()),
            Self::P384(key) => (&ECDSA_P384_SHA384_FIXED, key.public_key().as_ref()),
        };
        VerifyingKey { algorithm: self.algorithm(), verification, public: public.to_vec() }
    }

    /// # Panics
    /// If the operating system has no random bytes.
    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                let signed = key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature);
                signed.expect("the operating system has random bytes");
                signature
            }
            Self::P256(key) | Self::P384(key) => {
                let signature = key.sign(&random, message);
                signature.expect("the operating system has random bytes").as_ref().to_vec()
            }
        }
    }
}

/// A public key, and the only algorithm for which it verifies tokens.
#[derive(Clone)]
struct VerifyingKey {
    algorithm: &'static str,
    verification: &'static dyn VerificationAlgorithm,
    public: Vec<u8>,
}

impl VerifyingKey {
    /// Reads the key of a PEM block; `None` for other blocks, such as the parameters of a curve.
    fn read(block: &Pem) -> Result<Option<Self>, InvalidServiceAccountKey> {
        let der = &block.contents;
        let key = match block.label.as_str() {
            "RSA PUBLIC KEY" => Some(Self::rsa(der)),
            "PUBLIC KEY" => {
                SubjectPublicKeyInfo::from_der(der).ok().and_then(|(_, info)| Self::of_info(&info))
            }
            "CERTIFICATE" => {
                let certificate = X509Certificate::from_der(der).ok();
                certificate.and_then(|(_, certificate)| Self::of_info(certificate.public_key()))
            }
            label if label.ends_with("PRIVATE KEY") => Some(SigningKey::read(block)?.verifying()),
            _ => return Ok(None),
        };
        key.map(Some).ok_or_else(|| InvalidServiceAccountKey::Unsupported(block.label.clone()))
    }

    fn rsa(public: &[u8]) -> Self {
        Self { algorithm: "RS256", verification: &RSA_PKCS1_2048_8192_SHA256, public: public.to_vec() }
    }

    fn of_info(info: &SubjectPublicKeyInfo<'_>) -> Option<Self> {
        let public = info.subject_public_key.data.as_ref();
        if info.algorithm.algorithm == RSA {
            return Some(Self::rsa(public));
        }
        if info.algorithm.algorithm != ELLIPTIC_CURVE {
            return None;
        }
        let curve = info.algorithm.parameters.as_ref()?.as_oid().ok()?;
        let (algorithm, verification): (_, &'static dyn VerificationAlgorithm) = if curve == P256 {
            ("ES256", &ECDSA_P256_SHA256_FIXED)
        } else if curve == P384 {
            ("ES384", &ECDSA_P384_SHA384_FIXED)
        } else {
            return None;
        };
        Some(Self { algorithm, verification, public: public.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384};

    use super::*;

    fn key(algorithm: &'static rcgen::SignatureAlgorithm) -> rcgen::KeyPair {
        rcgen::KeyPair::generate_for(algorithm).unwrap()
    }

    fn keys(pair: &rcgen::KeyPair) -> ServiceAccountKeys {
        ServiceAccountKeys::from_pem("https://issuer", pair.serialize_pem().as_bytes()).unwrap()
    }

    #[test]
    fn a_key_verifies_tokens_that_it_signed() {
        for (algorithm, name) in [(&PKCS_ECDSA_P256_SHA256, "ES256"), (&PKCS_ECDSA_P384_SHA384, "ES384")] {
            let pair = key(algorithm);
            let keys = keys(&pair);
            assert_eq!((keys.issuer(), keys.algorithm()), ("https://issuer", name));
            let signature = keys.sign(b"message");
            assert!(keys.verify(name, b"message", &signature));
            assert!(!keys.verify(name, b"massage", &signature));
            for other in ["HS256", "none", "RS256", ""] {
                assert!(!keys.verify(other, b"message", &signature), "{other}");
            }
        }
    }

    #[test]
    fn tokens_of_other_keys_are_accepted_if_their_public_keys_are_given() {
        let (first, second) = (key(&PKCS_ECDSA_P256_SHA256), key(&PKCS_ECDSA_P384_SHA384));
        let signature = keys(&second).sign(b"message");
        let alone = keys(&first);
        assert!(!alone.verify("ES384", b"message", &signature));
        let certificate = rcgen::CertificateParams::default().self_signed(&second).unwrap().pem();
        for public in [second.public_key_pem(), certificate, second.serialize_pem()] {
            let both = alone.clone().verified_by_pem(public.as_bytes()).unwrap();
            assert!(both.verify("ES384", b"message", &signature), "{public}");
        }
    }

    #[test]
    fn text_without_a_usable_key_is_refused() {
        let reason_of =
            |pem: &str| ServiceAccountKeys::from_pem("i", pem.as_bytes()).unwrap_err().to_string();
        let none = "there is no private key for service accounts: write it as a PEM block";
        assert_eq!(reason_of(""), none);
        let broken = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        assert!(
            reason_of(broken)
                .starts_with("the PEM block PRIVATE KEY is not supported as a service account key")
        );
        let public = key(&PKCS_ECDSA_P256_SHA256).public_key_pem();
        assert_eq!(reason_of(&public), none);
        let keys = keys(&key(&PKCS_ECDSA_P256_SHA256));
        assert!(matches!(keys.clone().verified_by_pem(b"x"), Err(InvalidServiceAccountKey::Empty(_))));
        assert!(matches!(
            keys.verified_by_file(Path::new("absent.pem")),
            Err(InvalidServiceAccountKey::Read { .. })
        ));
    }
}
