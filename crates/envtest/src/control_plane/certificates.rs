//! Certificates of a control plane: authority, API server, users and service account keys.

use std::{fs, path::Path};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose,
};
use serde_json::json;

use super::ControlPlaneError;

/// Certificate authority of one control plane, trusted by the API server and by its clients.
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(super) fn new() -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = named("kube-envtest-ca", &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)? })
    }

    /// Writes the files that kube-apiserver reads at startup: the authority's certificate, the server certificate, and the
    /// key pair for service account tokens.
    pub(super) fn write_for_api_server(&self, folder: &Path) -> Result<(), ControlPlaneError> {
        let names = ["localhost", "127.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let mut params = CertificateParams::new(names.map(str::to_owned))?;
        params.distinguished_name = named("kube-apiserver", &[]);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let (key, tokens) = (KeyPair::generate()?, KeyPair::generate()?);
        let certificate = params.signed_by(&key, &self.issuer)?;
        let files = [
            ("ca.crt", self.issuer.pem()),
            ("apiserver.crt", certificate.pem()),
            ("apiserver.key", key.serialize_pem()),
            ("service-account.key", tokens.serialize_pem()),
            ("service-account.pub", tokens.public_key_pem()),
        ];
        for (name, text) in files {
            fs::write(folder.join(name), text).map_err(super::cannot_write)?;
        }
        Ok(())
    }

    /// Returns the kubeconfig of a user with a client certificate of this authority.
    pub(super) fn kubeconfig(&self, url: &str, user: &str, groups: &[&str]) -> Result<String, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(user, groups);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        // JSON is valid YAML, so no YAML writer is needed.
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{
                "name": "envtest",
                "cluster": { "server": url, "certificate-authority-data": base64(&self.issuer.pem()) },
            }],
            "users": [{
                "name": user,
                "user": {
                    "client-certificate-data": base64(&certificate.pem()),
                    "client-key-data": base64(&key.serialize_pem()),
                },
            }],
            "contexts": [{ "name": "envtest", "context": { "cluster": "envtest", "user": user } }],
            "current-context": "envtest",
        });
        Ok(format!("{config:#}\n"))
    }
}

/// Subject of a client certificate: API servers read the common name as the user and the organizations as groups.
fn named(name: &str, groups: &[&str]) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    for group in groups {
        named.push(DnType::OrganizationName, *group);
    }
    named
}

pub(crate) fn base64(text: &str) -> String {
    use base64::Engine;
    base64::prelude::BASE64_STANDARD.encode(text)
}

#[cfg(test)]
mod tests {
    use kube::config::Kubeconfig;

    use super::*;

    #[test]
    fn the_files_match_the_command_line() {
        let folder = tempfile::tempdir().unwrap();
        Authority::new().unwrap().write_for_api_server(folder.path()).unwrap();
        let first_line = |name: &str| {
            let text = fs::read_to_string(folder.path().join(name)).unwrap();
            text.lines().next().unwrap().to_owned()
        };
        assert_eq!(first_line("ca.crt"), "-----BEGIN CERTIFICATE-----");
        assert_eq!(first_line("apiserver.crt"), "-----BEGIN CERTIFICATE-----");
        assert_eq!(first_line("apiserver.key"), "-----BEGIN PRIVATE KEY-----");
        assert_eq!(first_line("service-account.key"), "-----BEGIN PRIVATE KEY-----");
        assert_eq!(first_line("service-account.pub"), "-----BEGIN PUBLIC KEY-----");
    }

    #[test]
    fn a_kubeconfig_is_read_by_kube() {
        let text = Authority::new().unwrap().kubeconfig("https://127.0.0.1:6443", "jane", &["devs"]).unwrap();
        let config = Kubeconfig::from_yaml(&text).unwrap();
        let cluster = config.clusters[0].cluster.clone().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://127.0.0.1:6443"));
        assert_eq!(config.auth_infos[0].name, "jane");
        assert!(config.auth_infos[0].auth_info.clone().unwrap().client_certificate_data.is_some());
    }
}
