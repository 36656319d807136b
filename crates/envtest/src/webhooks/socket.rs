//! Address and certificate of the webhook server of an operator under test.

use std::{fmt, fs, net::SocketAddr, path::Path};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use tempfile::TempDir;
use tokio::net::TcpSocket;

use super::WebhookError;

/// An address that is reserved for one environment, and a folder with a certificate for it.
pub(super) struct Socket {
    address: SocketAddr,
    base_url: String,
    folder: TempDir,
    authority: String,
    authority_der: Vec<u8>,
    /// Bound, but not listening: the kernel gives the port to no other process, connections are refused while no operator
    /// listens, and the operator can bind it, because both sockets have `SO_REUSEADDR`.
    _reserved: Option<TcpSocket>,
}

impl Socket {
    /// Reserves an address; port 0 is a free one. Makes a certificate for it.
    pub(super) fn reserve(address: SocketAddr) -> Result<Self, WebhookError> {
        let failed = |what: String, reason: &dyn fmt::Display| {
            let reason = reason.to_string();
            WebhookError::Socket { what, reason }
        };
        // The port is bound now, because the manifests need it before the operator listens.
        let (address, reserved) =
            bind(address).map_err(|error| failed(format!("the address {address}"), &error))?;
        let folder = tempfile::Builder::new().prefix("kube-envtest-webhooks-").tempdir();
        let folder = folder.map_err(|error| failed("a folder for certificates".to_owned(), &error))?;
        let authority = write_certificates(address, folder.path());
        let (authority, authority_der) =
            authority.map_err(|error| failed("a certificate".to_owned(), &error))?;
        let base_url = format!("https://{address}");
        Ok(Self { address, base_url, folder, authority, authority_der, _reserved: reserved })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Folder with `tls.crt`, `tls.key` and `ca.crt`.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Certificate of the authority, as PEM.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// Client that trusts the certificate.
    pub(super) fn client(&self) -> Result<kube::Client, String> {
        let mut config = kube::Config::new(self.base_url.parse().map_err(|error| format!("{error}"))?);
        config.root_cert = Some(vec![self.authority_der.clone()]);
        kube::Client::try_from(config)
            .map_err(|error| format!("{error}: enable a TLS feature of kube, such as rustls-tls with ring"))
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Binds an address without listening. Only Linux lets the operator bind the same address. On other systems the socket is closed
/// again, so another process may take the port before the operator does.
fn bind(address: SocketAddr) -> std::io::Result<(SocketAddr, Option<TcpSocket>)> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // The operator binds the same port later, while this socket still holds it.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok((socket.local_addr()?, cfg!(target_os = "linux").then_some(socket)))
}

/// Writes a server certificate and its key. Returns the certificate of the authority, as PEM and DER.
fn write_certificates(
    address: SocketAddr,
    folder: &Path,
) -> Result<(String, Vec<u8>), Box<dyn std::error::Error>> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "kube-envtest-webhooks");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;

    let mut params = CertificateParams::new(["localhost".to_owned(), address.ip().to_string()])?;
    params.distinguished_name.push(DnType::CommonName, "webhooks");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    fs::write(folder.join("tls.crt"), certificate.pem())?;
    fs::write(folder.join("tls.key"), key.serialize_pem())?;
    fs::write(folder.join("ca.crt"), issuer.pem())?;
    Ok((issuer.pem(), issuer.der().to_vec()))
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        io::ErrorKind,
        net::{Ipv4Addr, TcpListener, TcpStream},
    };

    use super::*;

    fn loopback() -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 0).into()
    }

    #[test]
    fn an_address_belongs_to_one_environment_through_restarts_of_its_operator() {
        let all: Vec<Socket> = (0..32).map(|_| Socket::reserve(loopback()).unwrap()).collect();
        let addresses: BTreeSet<SocketAddr> = all.iter().map(Socket::address).collect();
        assert_eq!(addresses.len(), 32);
        let address = all[0].address();
        let refused = TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "while no operator runs");
        for _ in 0..2 {
            let operator = TcpListener::bind(address).unwrap();
            assert!(TcpStream::connect(address).is_ok());
            drop(operator);
        }
        let other = TcpListener::bind(address).unwrap();
        let taken = Socket::reserve(address).unwrap_err().to_string();
        assert!(taken.starts_with(&format!("cannot prepare the address {address}")), "{taken}");
        drop(other);
    }

    #[test]
    fn a_webhook_server_reads_the_files() {
        let socket = Socket::reserve(loopback()).unwrap();
        let first_line = |name: &str| {
            let text = fs::read_to_string(socket.folder().join(name)).unwrap();
            text.lines().next().unwrap().to_owned()
        };
        assert_eq!(first_line("tls.crt"), "-----BEGIN CERTIFICATE-----");
        assert_eq!(first_line("tls.key"), "-----BEGIN PRIVATE KEY-----");
        assert_eq!(fs::read_to_string(socket.folder().join("ca.crt")).unwrap(), socket.authority());
    }
}
