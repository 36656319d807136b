use std::{fs, path::Path};

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, pki_types::CertificateDer},
};

use super::*;

/// Writes a new certificate and its key, and returns the certificate.
fn write_pair(folder: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(folder.join("tls.crt"), made.cert.pem()).unwrap();
    fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
    made.cert.der().clone()
}

/// Whether a client that trusts `certificate` alone reaches the server.
async fn reaches(certificate: &CertificateDer<'static>, certificates: &Certificates) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (client, server) = duplex(1 << 16);
    let acceptor = certificates.acceptor().unwrap();
    let serve = async move {
        if let Ok(mut stream) = acceptor.accept(server).await {
            stream.write_all(b"hello").await.unwrap();
            stream.shutdown().await.unwrap();
        }
    };
    let ask = async move {
        let name = "localhost".try_into().unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, client).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.map(|_| text)
    };
    let ((), text) = tokio::join!(serve, ask);
    text.is_ok_and(|text| text == "hello")
}

fn certificates(folder: &Path) -> Result<Certificates, CertificateError> {
    let serving = Serving::Files(CertFiles::in_dir(folder));
    Certificates::load(&serving, CertificateMetrics::default())
}

/// Waits until a client that trusts `certificate` reaches the server, while files are watched.
async fn until_reached(certificate: &CertificateDer<'static>, certificates: &Certificates, pause: Duration) {
    let reached = async {
        while !reaches(certificate, certificates).await {
            sleep(pause).await;
        }
    };
    tokio::select! {
        () = reached => {}
        () = certificates.keep_up() => {}
    }
}

#[tokio::test]
async fn a_certificate_in_files_is_taken_over_when_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let first = write_pair(folder.path());
    let certificates = certificates(folder.path()).unwrap();
    assert!(reaches(&first, &certificates).await);
    let second = write_pair(folder.path());
    until_reached(&second, &certificates, Duration::from_millis(5)).await;
    assert!(!reaches(&first, &certificates).await);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_the_system_does_not_tell_of_is_found_within_10_s() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("1"), folder.path().join("link"));
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    write_pair(&real);
    let certificates = certificates(&link).unwrap();
    let other = folder.path().join("2");
    fs::create_dir(&other).unwrap();
    let second = write_pair(&other);
    // As a volume of a Secret does it: the files stay as they are, and the link in the path to them is exchanged.
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&other, &link).unwrap();
    let reached = until_reached(&second, &certificates, Duration::from_secs(1));
    tokio::time::timeout(Duration::from_secs(11), reached).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pair_that_does_not_fit_is_not_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let first = write_pair(folder.path());
    let metrics = crate::metrics::Metrics::default();
    let serving = Serving::Files(CertFiles::in_dir(folder.path()));
    let certificates = Certificates::load(&serving, metrics.certificates()).unwrap();
    let old_key = fs::read(folder.path().join("tls.key")).unwrap();
    write_pair(folder.path());
    fs::write(folder.path().join("tls.key"), old_key).unwrap(); // a new certificate with the old key
    let files = CertFiles::in_dir(folder.path());
    certificates.reload(&files);
    assert!(reaches(&first, &certificates).await);
    fs::write(folder.path().join("tls.crt"), "nothing").unwrap();
    certificates.reload(&files);
    assert!(reaches(&first, &certificates).await);
    fs::remove_file(folder.path().join("tls.crt")).unwrap();
    certificates.reload(&files);
    assert!(reaches(&first, &certificates).await);
    let text = metrics.encode();
    assert!(text.contains("certwatcher_read_certificate_total 4\n"), "{text}");
    assert!(text.contains("certwatcher_read_certificate_errors_total 3\n"), "{text}");
}

#[test]
fn a_start_without_a_certificate_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let text = |folder: &Path| certificates(folder).err().unwrap().to_string();
    assert!(text(folder.path()).ends_with("tls.crt cannot be read"));
    write_pair(folder.path());
    fs::write(folder.path().join("tls.crt"), "").unwrap();
    assert!(text(folder.path()).ends_with("tls.crt holds no certificate"));
    fs::write(folder.path().join("tls.key"), "").unwrap();
    assert!(text(folder.path()).ends_with("tls.key is not in PEM or holds something else"));
}

#[tokio::test]
async fn without_files_a_certificate_is_made() {
    let certificates = Certificates::load(&Serving::SelfSigned, CertificateMetrics::default()).unwrap();
    let made = certificates.current.0.load().cert[0].clone();
    assert!(reaches(&made, &certificates).await);
}
