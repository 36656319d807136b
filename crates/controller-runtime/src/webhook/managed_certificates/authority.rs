//! Makes the certificates of a generation, and reads them from PEM. Keys come from the operating system, not from a seed.

use std::{collections::BTreeSet, fmt, time::Duration};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use tokio_rustls::rustls::{
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer, X509Certificate},
};

use super::rotation::{Generation, SKEW, UnixTime};
use crate::error::BoxError;

/// Common name of the authorities, by which those of earlier generations are recognised in a `caBundle`.
const AUTHORITY: &str = "controller-runtime webhook authority";

/// Certificates and key of a generation, in PEM. Its `Debug` form does not show the key.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Material {
    pub(super) authority: String,
    pub(super) certificate: String,
    pub(super) key: String,
}

impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Material").finish_non_exhaustive()
    }
}

/// Makes an authority, and a certificate for `names` that it signs. The authority's key is dropped: it signs nothing else.
pub(super) fn mint(
    names: &BTreeSet<String>,
    now: UnixTime,
    validity: Duration,
) -> Result<Generation<Material>, BoxError> {
    // Times in certificates are whole seconds.
    let now = Duration::from_secs(now.as_secs());
    let (not_before, not_after) = (now.saturating_sub(SKEW), now + validity);
    let authority_key = KeyPair::generate()?;
    // The end of the public key serves as an ID, because it is as random as the key.
    let public = authority_key.public_key_raw();
    let id: String = public[public.len() - 16..].iter().map(|byte| format!("{byte:02x}")).collect();
    let mut authority = CertificateParams::default();
    authority.distinguished_name = distinguished_name(AUTHORITY, Some(&id));
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
    let mut server = CertificateParams::new(names.iter().cloned().collect::<Vec<_>>())?;
    server.distinguished_name = distinguished_name("controller-runtime webhook server", None);
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    server.use_authority_key_identifier_extension = true;
    for params in [&mut authority, &mut server] {
        params.not_before = date_time_ymd(1970, 1, 1) + not_before;
        params.not_after = date_time_ymd(1970, 1, 1) + not_after;
    }
    let authority = CertifiedIssuer::self_signed(authority, authority_key)?;
    let key = KeyPair::generate()?;
    let certificate = server.signed_by(&key, &authority)?;
    let material =
        Material { authority: authority.pem(), certificate: certificate.pem(), key: key.serialize_pem() };
    Ok(Generation { id, issued: now, not_after, names: names.clone(), material })
}

fn distinguished_name(name: &str, unit: Option<&str>) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    // Authorities need different subjects, by which clients find the issuer of a certificate.
    if let Some(unit) = unit {
        subject.push(DnType::OrganizationalUnitName, unit);
    }
    subject
}

/// Reads a generation from its certificates and key, and checks that they belong together.
pub(super) fn read(id: &str, material: Material) -> Result<Generation<Material>, BoxError> {
    let authority = one_certificate(&material.authority)?;
    if !Authority::read(&authority)?.is_of_operator {
        return Err("its authority was not made by an operator".into());
    }
    // A key of another certificate would fail at each handshake.
    certified_key(&material, &ring::default_provider())?;
    let der = one_certificate(&material.certificate)?;
    let (_, certificate) = X509Certificate::from_der(&der)?;
    let names = certificate.subject_alternative_name()?.map_or_else(BTreeSet::new, |names| {
        let names = names.value.general_names.iter().filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        });
        names.collect()
    });
    let validity = certificate.validity();
    let at = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    let issued = at(validity.not_before.timestamp()) + SKEW;
    let not_after = at(validity.not_after.timestamp());
    if issued >= not_after {
        return Err("it is valid for less than an hour".into());
    }
    Ok(Generation { id: id.to_owned(), issued, not_after, names, material })
}

fn one_certificate(pem: &str) -> Result<CertificateDer<'static>, BoxError> {
    Ok(CertificateDer::from_pem_slice(pem.as_bytes())?)
}

/// Parses certificate and key, and checks that they belong together.
pub(super) fn certified_key(
    material: &Material,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, BoxError> {
    let key = PrivateKeyDer::from_pem_slice(material.key.as_bytes())?;
    Ok(CertifiedKey::from_der(vec![one_certificate(&material.certificate)?], key, provider)?)
}

/// Properties of an authority in a `caBundle`.
pub(super) struct Authority {
    /// Whether an operator made it, for its own certificates.
    pub(super) is_of_operator: bool,
    pub(super) not_after: UnixTime,
}

impl Authority {
    pub(super) fn read(der: &CertificateDer<'_>) -> Result<Self, BoxError> {
        let (_, certificate) = X509Certificate::from_der(der)?;
        let not_after = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or_default();
        let mut names = certificate.subject().iter_common_name();
        let is_of_operator = names.any(|name| name.as_str().is_ok_and(|name| name == AUTHORITY));
        Ok(Self { is_of_operator, not_after: Duration::from_secs(not_after) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minted_generation_is_read_back() {
        let names =
            BTreeSet::from(["hooks.system.svc".to_owned(), "hooks.system.svc.cluster.local".to_owned()]);
        let now = Duration::from_millis(1_800_000_000_700);
        let made = mint(&names, now, Duration::from_secs(86_400)).unwrap();
        assert_eq!((made.issued.as_secs(), made.not_after.as_secs()), (1_800_000_000, 1_800_086_400));
        assert_eq!(read(&made.id, made.material.clone()).unwrap(), made);
        assert!(certified_key(&made.material, &ring::default_provider()).is_ok());
        let other = mint(&names, now, Duration::from_secs(86_400)).unwrap();
        let mixed = Material { key: other.material.key.clone(), ..made.material.clone() };
        assert!(read(&made.id, mixed).is_err(), "the key is that of another certificate");
        let shown = format!("{made:?}");
        assert!(!shown.contains("BEGIN"), "{shown}");
    }
}
