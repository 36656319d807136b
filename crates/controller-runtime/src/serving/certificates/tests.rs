use std::{fs, path::Path, sync::mpsc};

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

/// Returns whether a client that trusts only `certificate` reaches the server.
async fn reaches(certificate: &CertificateDer<'static>, certificates: &Certificates) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (client, server) = duplex(1 << 16);
    let acceptor = certificates.acceptor(false, &AdaptTls::default()).unwrap();
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
async fn a_changed_certificate_file_is_reloaded() {
    let folder = tempfile::tempdir().unwrap();
    let first = write_pair(folder.path());
    let certificates = certificates(folder.path()).unwrap();
    assert!(reaches(&first, &certificates).await);
    let second = write_pair(folder.path());
    until_reached(&second, &certificates, Duration::from_millis(5)).await;
    assert!(!reaches(&first, &certificates).await);
}

#[tokio::test(start_paused = true)]
async fn a_change_without_a_notification_is_found_within_10_s() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("1"), folder.path().join("link"));
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    write_pair(&real);
    let certificates = certificates(&link).unwrap();
    let other = folder.path().join("2");
    fs::create_dir(&other).unwrap();
    let second = write_pair(&other);
    // Updated like a Secret volume: the files stay unchanged, and the link in their path is exchanged.
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&other, &link).unwrap();
    let reached = until_reached(&second, &certificates, Duration::from_secs(1));
    tokio::time::timeout(Duration::from_secs(11), reached).await.unwrap();
}

/// Number of times the server has read its files.
fn reads(metrics: &crate::metrics::Metrics) -> u64 {
    let text = metrics.encode();
    let line = text.lines().find_map(|line| line.strip_prefix("certwatcher_read_certificate_total "));
    line.expect("reads are counted").parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn unchanged_files_are_read_once_per_interval() {
    let folder = tempfile::tempdir().unwrap();
    write_pair(folder.path());
    let (metrics, files) = (crate::metrics::Metrics::default(), CertFiles::in_dir(folder.path()));
    let certificates = Certificates::load(&Serving::Files(files.clone()), metrics.certificates()).unwrap();
    let (notify, notifications) = mpsc::channel();
    let _watcher = watch_files(&files, move |event| drop(notify.send(event)));
    let mut notifications = Some(notifications);
    let five_intervals = async {
        for _ in 0..5 {
            sleep(POLL).await;
            // The notification of a read takes real time, during which the paused clock must not advance.
            let events = notifications.take().unwrap();
            let wait = move || {
                let read = events.recv_timeout(Duration::from_secs(10)).is_ok();
                (read, events)
            };
            let (read, events) = tokio::task::spawn_blocking(wait).await.unwrap();
            assert!(read, "the files are read");
            while events.try_recv().is_ok() {}
            notifications = Some(events);
        }
    };
    tokio::select! {
        () = five_intervals => {}
        () = certificates.keep_up() => {}
    }
    let reads = reads(&metrics);
    assert!((5..=7).contains(&reads), "one at the load, one at the start and one per interval, not {reads}");
}

#[test]
fn a_read_is_no_change() {
    let folder = tempfile::tempdir().unwrap();
    write_pair(folder.path());
    let files = CertFiles::in_dir(folder.path());
    let (notify, notifications) = mpsc::channel();
    let _watcher = watch_files(&files, move |event| drop(notify.send(event)));
    let marker = folder.path().join("marker");
    assert!(files.read().is_ok());
    fs::create_dir(&marker).unwrap();
    // Notifications arrive in order, so those of the reads precede that of the folder.
    loop {
        let event = notifications
            .recv_timeout(Duration::from_secs(10))
            .expect("the new folder causes a notification");
        let made = event.as_ref().is_ok_and(|event| event.paths.contains(&marker));
        assert_eq!(is_change(&event), made, "{event:?}");
        if made {
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_certificate_without_its_key_is_not_loaded() {
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
    assert!(text(folder.path()).ends_with("tls.crt contains no certificate"));
    fs::write(folder.path().join("tls.key"), "").unwrap();
    assert!(
        text(folder.path())
            .ends_with("tls.key is not in PEM format, or holds something other than a certificate or key")
    );
}

#[tokio::test]
async fn without_files_a_certificate_is_made() {
    let certificates = Certificates::load(&Serving::SelfSigned, CertificateMetrics::default()).unwrap();
    let made = certificates.current.key.load_full().expect("it is set").cert[0].clone();
    assert!(reaches(&made, &certificates).await);
}
