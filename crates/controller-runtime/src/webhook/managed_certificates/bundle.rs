//! Adds authorities to a `caBundle`, and removes those that are no longer needed. Pure.

use std::collections::BTreeSet;

use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject};

use super::{
    authority::{Authority, Material},
    rotation::{FORGET_AFTER, Generation, MOST_GENERATIONS, UnixTime},
};

/// Change of a `caBundle`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BundleChange {
    pub(super) pem: Vec<u8>,
    /// Generations with an authority that was missing.
    pub(super) lacked: BTreeSet<String>,
}

/// Returns how `bundle` has to change so that it has the authorities of `generations`; `None` if it has them.
///
/// A changed bundle keeps authorities of earlier and later generations that have not expired, because another replica may serve their
/// certificates. Authorities that no operator has made are removed.
pub(super) fn add_authorities(
    bundle: &[u8],
    generations: &[Generation<Material>],
    now: UnixTime,
) -> Option<BundleChange> {
    // Parts that are not certificates in PEM are dropped.
    let present: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(bundle).filter_map(Result::ok).collect();
    let wanted: Vec<(&Generation<Material>, CertificateDer<'static>)> = generations
        .iter()
        .filter_map(|generation| {
            let der = CertificateDer::from_pem_slice(generation.material.authority.as_bytes()).ok()?;
            Some((generation, der))
        })
        .collect();
    let lacked: BTreeSet<String> = wanted
        .iter()
        .filter(|(_, der)| !present.contains(der))
        .map(|(generation, _)| generation.id.clone())
        .collect();
    if lacked.is_empty() {
        return None;
    }
    let mut kept: Vec<(UnixTime, String)> = present
        .iter()
        .filter(|der| !wanted.iter().any(|(_, wanted)| wanted == *der))
        .filter_map(|der| {
            let authority = Authority::read(der).ok()?;
            let is_kept = authority.is_of_operator && now < authority.not_after + FORGET_AFTER;
            is_kept.then(|| (authority.not_after, pem(der)))
        })
        .collect();
    kept.sort();
    let excess = kept.len().saturating_sub(MOST_GENERATIONS);
    let kept = kept.into_iter().skip(excess).map(|(_, pem)| pem);
    let pem: String = kept.chain(wanted.iter().map(|(_, der)| pem(der))).collect();
    Some(BundleChange { pem: pem.into_bytes(), lacked })
}

/// The bundle to apply: `bundle` with the authorities of `generations`. `None` without generations; then another program, such as
/// cert-manager, sets the field.
pub(super) fn with_authorities(
    bundle: Option<Vec<u8>>,
    generations: &[Generation<Material>],
    now: UnixTime,
) -> Option<Vec<u8>> {
    if generations.is_empty() {
        return None;
    }
    let bundle = bundle.unwrap_or_default();
    Some(add_authorities(&bundle, generations, now).map_or(bundle, |change| change.pem))
}

/// A certificate in PEM, with the line length of other tools.
fn pem(der: &CertificateDer<'_>) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let text = STANDARD.encode(der);
    let lines = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).expect("base64 is ASCII"));
    let body: String = lines.flat_map(|line| [line, "\n"]).collect();
    format!("-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::webhook::managed_certificates::authority::mint;

    const DAY: u64 = 86_400;

    fn generation(day: u64) -> Generation<Material> {
        let names = BTreeSet::from(["hooks.system.svc".to_owned()]);
        mint(&names, Duration::from_secs(day * DAY), Duration::from_secs(3 * DAY)).unwrap()
    }

    /// Returns whether a bundle has the authority of a generation.
    fn has(bundle: &[u8], generation: &Generation<Material>) -> bool {
        add_authorities(bundle, std::slice::from_ref(generation), Duration::ZERO).is_none()
    }

    #[test]
    fn authorities_are_added_and_those_of_other_replicas_kept_until_they_expire() {
        let (old, other, new) = (generation(100), generation(102), generation(103));
        let at = |day: u64| Duration::from_secs(day * DAY);
        let foreign = rcgen::generate_simple_self_signed(["other".to_owned()]).unwrap().cert.pem();
        let first = add_authorities(foreign.as_bytes(), &[old.clone(), other.clone()], at(102)).unwrap();
        assert_eq!(first.lacked, BTreeSet::from([old.id.clone(), other.id.clone()]));
        let count = CertificateDer::pem_slice_iter(&first.pem).count();
        assert_eq!(count, 2, "an authority that no operator has made is removed");
        let second = add_authorities(&first.pem, std::slice::from_ref(&new), at(103)).unwrap();
        assert_eq!(second.lacked, BTreeSet::from([new.id.clone()]));
        assert!([&old, &other, &new].iter().all(|generation| has(&second.pem, generation)));
        let third = add_authorities(&second.pem, &[generation(104)], at(104)).unwrap();
        assert!(!has(&third.pem, &old), "it has been expired for a day");
        assert!(has(&third.pem, &other) && has(&third.pem, &new));
    }

    #[test]
    fn a_bundle_without_certificates_is_replaced() {
        let new = generation(1);
        for bundle in ["", "nothing", "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"] {
            let change =
                add_authorities(bundle.as_bytes(), std::slice::from_ref(&new), Duration::ZERO).unwrap();
            assert!(has(&change.pem, &new), "{bundle:?}");
        }
    }
}
