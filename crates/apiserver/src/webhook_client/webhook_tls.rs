//! TLS with webhooks: trusted certificates, and Go's texts for certificates that are refused.

use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{WebPkiServerVerifier, verify_server_name};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, InvalidMessage,
    RootCertStore, SignatureScheme,
};

/// Builds the configuration of a client that trusts the certificates in `bundle`, which is PEM.
///
/// # Errors
/// The bundle has no certificate.
pub(super) fn client(bundle: &[u8]) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    let trusted: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(bundle).filter_map(Result::ok).collect();
    // As in Go, malformed certificates among several are skipped.
    roots.add_parsable_certificates(trusted.iter().cloned());
    if roots.is_empty() && !bundle.is_empty() {
        return Err("unable to load root certificates: unable to parse bytes as PEM block".to_owned());
    }
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    // `WebPkiServerVerifier` cannot be built without roots. A client without roots refuses every certificate.
    let mut config = if roots.is_empty() {
        builder.with_root_certificates(roots).with_no_client_auth()
    } else {
        let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| error.to_string())?;
        let verifier = Arc::new(Verifier { chains, trusted });
        builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
    };
    // Connections speak HTTP/1.1 only, so a webhook must not choose HTTP/2.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Accepts certificates that are in the bundle, or that a certificate of the bundle has signed.
///
/// As in Go, a self-signed certificate of a webhook may be its own authority. webpki refuses such a certificate if it is marked as an
/// authority, so it is compared with the bundle; its period of validity is not checked then.
#[derive(Debug)]
struct Verifier {
    chains: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            Err(Error::InvalidCertificate(CertificateError::Other(_) | CertificateError::UnknownIssuer))
                if self.trusted.iter().any(|trusted| trusted.as_ref() == end_entity.as_ref()) =>
            {
                // The bundle replaces the chain, but not the check of the name.
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

/// Returns Go's text for an error of the handshake with `host`.
pub(super) fn text_of(error: &Error, host: &str) -> String {
    match error {
        Error::InvalidCertificate(why) => {
            format!("tls: failed to verify certificate: x509: {}", text_of_certificate(why, host))
        }
        Error::AlertReceived(alert) => format!("remote error: tls: {}", text_of_alert(*alert)),
        // A peer without TLS is most often an HTTP server.
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "http: server gave HTTP response to HTTPS client".to_owned()
        }
        error => format!("tls: {error}"),
    }
}

fn text_of_certificate(error: &CertificateError, host: &str) -> String {
    let expired = |now: &UnixTime, order: &str, bound: &UnixTime| {
        let shown = |time: &UnixTime| {
            let time = i64::try_from(time.as_secs()).ok().and_then(|secs| Timestamp::from_second(secs).ok());
            time.unwrap_or_default()
        };
        format!(
            "certificate has expired or is not yet valid: current time {} is {order} {}",
            shown(now),
            shown(bound)
        )
    };
    match error {
        // For a bad signature Go adds the name of the authority whose key does not fit. rustls does not report that name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::NotValidForNameContext { presented, .. } => other_names(presented, host),
        CertificateError::ExpiredContext { time, not_after } => expired(time, "after", not_after),
        CertificateError::NotValidYetContext { time, not_before } => expired(time, "before", not_before),
        CertificateError::Expired | CertificateError::NotValidYet => {
            "certificate has expired or is not yet valid".to_owned()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "certificate specifies an incompatible key usage".to_owned()
        }
        CertificateError::BadEncoding => "malformed certificate".to_owned(),
        error => error.to_string(),
    }
}

/// Returns Go's text for a certificate with other names than `host`. `presented` are names as rustls prints them: `DnsName("a.example")`,
/// `IpAddress(127.0.0.1)`.
fn other_names(presented: &[String], host: &str) -> String {
    let of_kind = |kind: &str| -> Vec<String> {
        let inner = |name: &String| {
            let inner = name.strip_prefix(kind)?.strip_prefix('(')?.strip_suffix(')')?;
            Some(inner.trim_matches('"').to_owned())
        };
        presented.iter().filter_map(inner).collect()
    };
    let is_address = host.parse::<IpAddr>().is_ok();
    let names = of_kind(if is_address { "IpAddress" } else { "DnsName" });
    match (is_address, names.is_empty()) {
        (true, true) => {
            format!("cannot validate certificate for {host} because it doesn't contain any IP SANs")
        }
        (false, true) => format!("certificate is not valid for any names, but wanted to match {host}"),
        _ => format!("certificate is valid for {}, not {host}", names.join(", ")),
    }
}

fn text_of_alert(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::BadCertificate => "bad certificate".to_owned(),
        AlertDescription::HandshakeFailure => "handshake failure".to_owned(),
        AlertDescription::InternalError => "internal error".to_owned(),
        AlertDescription::ProtocolVersion => "protocol version not supported".to_owned(),
        AlertDescription::UnrecognisedName => "unrecognized name".to_owned(),
        AlertDescription::CertificateRequired => "certificate required".to_owned(),
        AlertDescription::AccessDenied => "access denied".to_owned(),
        alert => format!("{alert:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_of_other_names_is_named_as_in_go() {
        let names = ["DnsName(\"localhost\")".to_owned(), "IpAddress(127.0.0.1)".to_owned()];
        for (presented, host, text) in [
            (&names[..], "hooks.n.svc", "certificate is valid for localhost, not hooks.n.svc"),
            (&names[..], "10.0.0.1", "certificate is valid for 127.0.0.1, not 10.0.0.1"),
            (
                &names[..1],
                "10.0.0.1",
                "cannot validate certificate for 10.0.0.1 because it doesn't contain any IP SANs",
            ),
            (&names[1..], "h", "certificate is not valid for any names, but wanted to match h"),
        ] {
            assert_eq!(other_names(presented, host), text);
        }
    }

    #[test]
    fn a_bundle_without_a_certificate_is_refused() {
        assert_eq!(
            client(b"not PEM").unwrap_err(),
            "unable to load root certificates: unable to parse bytes as PEM block"
        );
        assert!(client(b"").is_ok(), "without a bundle no certificate is trusted");
    }
}
