//! Clients with missing, malformed, expired or foreign credentials: they learn versions and health, and nothing else.
#![expect(clippy::disallowed_methods, reason = "sockets are the subject of these tests")]

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use kube_apiserver_embedded::{
    ApiServer, ClientAuthority, ListenOptions, Listener, Options, Tokens, UserInfo,
};
use rcgen::{CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Starts a server with an administrator, identified by the token `t0ken` or by a certificate of the authority.
async fn listen(trusted: &Authority) -> Listener {
    let admin = UserInfo::new("root", "", ["system:masters"]);
    let clients = ClientAuthority::from_pem(trusted.pem().as_bytes()).unwrap();
    let options = Options::default().tokens(Tokens::new().with("t0ken", admin)).client_authority(clients);
    let listen = ListenOptions::default().tls();
    ApiServer::start(options).listen_with("127.0.0.1:0".parse().unwrap(), listen).await.unwrap()
}

/// Sends a request, `METHOD PATH`, with additional header lines and a body on a connection of its own. Returns the status and the body, or
/// the empty string if the server closes the connection without a response.
async fn ask(
    listener: &Listener,
    identity: Option<&Arc<CertifiedKey>>,
    request: &str,
    headers: &[u8],
) -> String {
    let mut roots = RootCertStore::empty();
    let trusted = listener.certificate_authority().unwrap().as_bytes();
    roots.add(CertificateDer::from_pem_slice(trusted).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match identity {
        Some(key) => config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(key)))),
        None => config.with_no_client_auth(),
    };
    let stream = TcpStream::connect(listener.local_addr()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let Ok(mut stream) = TlsConnector::from(Arc::new(config)).connect(name, stream).await else {
        return String::new();
    };
    let mut message = format!("{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n").into_bytes();
    message.extend_from_slice(headers);
    message.extend_from_slice(b"\r\n");
    // The server may respond and close before it has read everything.
    let _ = stream.write_all(&message).await;
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response).await;
    let text = String::from_utf8(response).unwrap();
    match text.split_once("\r\n\r\n") {
        Some((head, body)) => format!("{} {body}", head.split(' ').nth(1).unwrap()),
        None => text,
    }
}

#[tokio::test]
async fn a_client_without_credentials_learns_versions_and_health_alone() {
    let listener = listen(&authority()).await;
    for path in ["/healthz", "/livez", "/readyz", "/readyz?verbose", "/version", "/version/"] {
        let answer = ask(&listener, None, &format!("GET {path}"), b"").await;
        assert!(answer.starts_with("200 "), "{path}: {answer}");
    }
    for path in [
        "/",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
        "/apis/absent.example.com/v1",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/api/v1",
        "/metrics",
        "/livez/ping",
        "/healthz/etcd",
        "/.well-known/openid-configuration",
        "/openid/v1/jwks",
        "/absent",
    ] {
        let answer = ask(&listener, None, &format!("GET {path}"), b"").await;
        let refused = format!(r#"forbidden: User \"system:anonymous\" cannot get path \"{path}\""#);
        assert!(answer.starts_with("403 ") && answer.contains(&refused), "{path}: {answer}");
    }
    let body = b"Content-Type: application/json\r\nContent-Length: 1\r\n\r\n{";
    for (method, path) in [
        ("GET", "/api/v1/namespaces"),
        ("GET", "/api/v1/namespaces?watch=1"),
        ("GET", "/api/v1/namespaces/{}"),
        ("DELETE", "/api/v1/namespaces/{}"),
        ("PUT", "/api/v1/namespaces/{}/finalize"),
        ("PATCH", "/api/v1/namespaces/{}"),
        ("POST", "/api/v1/namespaces/{}/configmaps"),
        ("GET", "/apis/nothing.example.com/v1/namespaces/{}/things"),
        ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews"),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews"),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"),
        ("POST", "/api/v1/namespaces/default/serviceaccounts/{}/token"),
    ] {
        // Neither the name nor the body makes a difference.
        let mut answers = Vec::new();
        for name in ["default", "absent"] {
            let answer = ask(&listener, None, &format!("{method} {}", path.replace("{}", name)), body).await;
            assert!(
                answer.starts_with("403 ") && answer.contains(r#"User \"system:anonymous\" cannot "#),
                "{method} {path}: {answer}"
            );
            answers.push(answer.replace(name, "{}"));
        }
        assert_eq!(answers[0].replace("default", "{}"), answers[1].replace("default", "{}"));
    }
}

#[tokio::test]
async fn malformed_and_oversized_tokens_are_refused() {
    let listener = listen(&authority()).await;
    let part = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
    let claims =
        r#"{"iss":"https://kubernetes.default.svc","sub":"system:serviceaccount:default:default","exp":9e9}"#;
    let unsigned = format!("{}.{}.", part(r#"{"alg":"none"}"#), part(claims));
    let forged = format!("{}.{}.{}", part(r#"{"alg":"HS256"}"#), part(claims), part("signature"));
    let deep = format!("{}.{}.x", part(r#"{"alg":"HS256"}"#), part(&"[".repeat(50_000)));
    for token in [
        "t0ke",
        "t0kenn",
        "T0KEN",
        "a.b.c",
        "..",
        "%00",
        "\u{e9}",
        &unsigned,
        &forged,
        &deep,
        &"a".repeat(8_000),
        &".".repeat(50_000),
    ] {
        let answer =
            ask(&listener, None, "GET /api/v1", format!("Authorization: Bearer {token}\r\n").as_bytes())
                .await;
        let shown: String = token.chars().take(50).collect();
        assert!(answer.starts_with("401 ") && answer.contains("Unauthorized"), "{shown}: {answer}");
    }
    let answer = ask(&listener, None, "GET /api/v1", b"Authorization: Bearer \xff\xfe\r\n").await;
    assert!(answer.starts_with("401 "), "bytes that are no text: {answer}");
    let huge = format!("Authorization: Bearer {}\r\n", "a".repeat(1 << 20));
    let answer = ask(&listener, None, "GET /api/v1", huge.as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("431 "), "a token of a mebibyte: {answer}");
    let answer = ask(&listener, None, "GET /api/v1", b"Authorization: Bearer t0ken\r\n").await;
    assert!(answer.starts_with("200 "), "the server still serves others: {answer}");
}

/// Years of validity of a certificate.
type Years = (i32, i32);

#[tokio::test]
async fn only_a_valid_certificate_of_the_authority_with_its_key_gives_access() {
    let (trusted, foreign) = (authority(), authority());
    let listener = listen(&trusted).await;
    let signed = |issuer: &Authority, usage: ExtendedKeyUsagePurpose, (from, to): Years, key: &KeyPair| {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "root");
        params.distinguished_name.push(DnType::OrganizationName, "system:masters");
        params.extended_key_usages = vec![usage];
        (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        params.signed_by(key, issuer).unwrap().der().clone()
    };
    let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let identity = |certificate: CertificateDer<'static>, key: &KeyPair| {
        let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        Arc::new(CertifiedKey::new(vec![certificate], ring::sign::any_supported_type(&private).unwrap()))
    };
    let (client, now) = (ExtendedKeyUsagePurpose::ClientAuth, (2020, 2900));
    let good = signed(&trusted, client.clone(), now, &key);
    let cut = CertificateDer::from(good[..good.len() / 2].to_vec());
    let mut changed = good.to_vec();
    let last = changed.len() - 1;
    changed[last] ^= 1;
    for (what, certificate, key, expected) in [
        ("valid", good.clone(), &key, "200 "),
        ("expired", signed(&trusted, client.clone(), (2019, 2020), &key), &key, "401 "),
        ("not yet valid", signed(&trusted, client.clone(), (2900, 2901), &key), &key, "401 "),
        ("of another authority", signed(&foreign, client, now, &key), &key, "401 "),
        ("of a server", signed(&trusted, ExtendedKeyUsagePurpose::ServerAuth, now, &key), &key, "401 "),
        ("with a changed signature", CertificateDer::from(changed), &key, "401 "),
        ("without its key", good, &other, ""),
        ("cut off", cut, &key, ""),
    ] {
        for path in ["/api/v1", "/healthz"] {
            let identity = identity(certificate.clone(), key);
            let answer = ask(&listener, Some(&identity), &format!("GET {path}"), b"").await;
            let is_expected =
                if expected.is_empty() { answer.is_empty() } else { answer.starts_with(expected) };
            assert!(is_expected, "{what}, {path}: {answer}");
        }
    }
}
