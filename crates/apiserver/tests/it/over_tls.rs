//! The server over TLS.
#![expect(clippy::disallowed_methods, reason = "sockets are the subject of these tests")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures::future::join_all;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Config, ResourceExt};
use kube_apiserver_embedded::{ApiServer, ClientAuthority, ListenOptions, Listener, Options, Profile};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

async fn listen() -> Listener {
    let server = ApiServer::start(Options::default());
    server.listen_with("127.0.0.1:0".parse().unwrap(), ListenOptions::default().tls()).await.unwrap()
}

/// Connects with the protocols that the client offers; returns the error otherwise.
async fn connect(
    listener: &Listener,
    trusted: &str,
    version: &'static SupportedProtocolVersion,
    offered: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(listener.local_addr()).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), stream).await
}

#[tokio::test]
async fn a_client_of_the_kubeconfig_trusts_the_listener() {
    let listener = listen().await;
    assert_eq!(listener.url(), format!("https://{}", listener.local_addr()));
    let kubeconfig = Kubeconfig::from_yaml(&listener.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(kube::Client::try_from(config).unwrap());
    assert_eq!(namespaces.list(&Default::default()).await.unwrap().items.len(), 4);
    listener.shutdown().await;
}

#[tokio::test]
async fn no_other_listener_is_trusted() {
    let (first, second) = (listen().await, listen().await);
    let refused = connect(&first, second.certificate_authority().unwrap(), &TLS13, &[]).await.unwrap_err();
    assert!(refused.to_string().contains("certificate"), "{refused}");
    assert!(connect(&first, first.certificate_authority().unwrap(), &TLS13, &[]).await.is_ok());
}

#[tokio::test]
async fn the_client_chooses_the_protocol() {
    let listener = listen().await;
    let authority = listener.certificate_authority().unwrap();
    for version in [&TLS12, &TLS13] {
        for (offered, chosen) in
            [(&["h2", "http/1.1"][..], Some(&b"h2"[..])), (&["http/1.1"], Some(b"http/1.1")), (&[], None)]
        {
            let stream = connect(&listener, authority, version, offered).await.unwrap();
            assert_eq!(stream.get_ref().1.alpn_protocol(), chosen, "{offered:?}");
        }
    }
    let mut plain = connect(&listener, authority, &TLS13, &[]).await.unwrap();
    plain.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
}

#[tokio::test]
async fn requests_share_one_connection_of_http2_and_a_shutdown_ends_their_watches() {
    let listener = listen().await;
    let authority = listener.certificate_authority().unwrap().to_owned();
    let stream = connect(&listener, &authority, &TLS13, &["h2"]).await.unwrap();
    let (mut requests, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let mut connections = JoinSet::new();
    connections.spawn(connection);
    let ask = |path: &str| {
        let url = format!("{}{path}", listener.url());
        http::Request::get(url).body(Empty::<Bytes>::new()).unwrap()
    };
    let watches: Vec<_> = (0..50).map(|_| requests.send_request(ask("/api/v1/namespaces?watch=1"))).collect();
    let watches = join_all(watches).await;
    let answer = requests.send_request(ask("/api/v1/namespaces/default")).await.unwrap();
    assert_eq!(answer.status(), 200);
    let ended = AtomicUsize::new(0);
    let read = join_all(watches.into_iter().map(|watch| async {
        let mut body = watch.unwrap().into_body();
        while let Some(frame) = body.frame().await {
            frame.unwrap();
        }
        ended.fetch_add(1, Ordering::Relaxed);
    }));
    tokio::join!(read, listener.shutdown());
    assert_eq!(ended.into_inner(), 50);
    drop(requests);
    connections.join_next().await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_client_without_tls_is_refused_and_others_are_not_affected() {
    let listener = listen().await;
    let mut plain = TcpStream::connect(listener.local_addr()).await.unwrap();
    plain.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // A TLS alert or nothing, then the end.
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "{answer:?}");
    assert!(connect(&listener, listener.certificate_authority().unwrap(), &TLS13, &[]).await.is_ok());
}

/// Returns the value of `key` in the ConfigMaps of this name, by namespace.
async fn told(client: &kube::Client, name: &str, key: &str) -> BTreeMap<String, String> {
    let maps = Api::<ConfigMap>::all(client.clone());
    let found = maps.list(&ListParams::default().fields(&format!("metadata.name={name}"))).await.unwrap();
    found.into_iter().map(|map| (map.namespace().unwrap(), map.data.unwrap()[key].clone())).collect()
}

#[tokio::test]
async fn the_certificate_authority_is_published_to_programs_in_the_cluster() {
    for profile in [Profile::Envtest, Profile::Dev] {
        let server = ApiServer::start(Options::default().profile(profile));
        let client = kube::Client::new(server.service(), "default");
        let namespaces = Api::<Namespace>::all(client.clone());
        // The last of several listeners is published.
        for _ in 0..2 {
            let listener = server
                .listen_with("127.0.0.1:0".parse().unwrap(), ListenOptions::default().tls())
                .await
                .unwrap();
            let authority = listener.certificate_authority().unwrap().to_owned();
            if profile == Profile::Envtest {
                assert!(
                    told(&client, "kube-root-ca.crt", "ca.crt").await.is_empty(),
                    "no controller publishes it in this profile"
                );
                continue;
            }
            let count = namespaces.list(&ListParams::default()).await.unwrap().items.len();
            until(&client, count, &authority).await;
            let name = format!("shop-{count}");
            let shop = Namespace {
                metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
                ..Namespace::default()
            };
            namespaces.create(&PostParams::default(), &shop).await.unwrap();
            until(&client, count + 1, &authority).await;
            let maps = Api::<ConfigMap>::namespaced(client.clone(), &name);
            maps.delete("kube-root-ca.crt", &DeleteParams::default()).await.unwrap();
            until(&client, count + 1, &authority).await;
        }
    }
}

#[tokio::test]
async fn the_authority_of_clients_is_published_and_not_that_of_the_listener() {
    let trusted = authority().pem().clone();
    let clients = ClientAuthority::from_pem(trusted.as_bytes()).unwrap();
    let with = Options::default().client_authority(clients);
    let published = BTreeMap::from([("kube-system".to_owned(), trusted)]);
    for (options, expected) in [(with, published), (Options::default(), BTreeMap::new())] {
        let server = ApiServer::start(options);
        let client = kube::Client::new(server.service(), "default");
        let listen = ListenOptions::default().tls();
        let _listener = server.listen_with("127.0.0.1:0".parse().unwrap(), listen).await.unwrap();
        let found = told(&client, "extension-apiserver-authentication", "client-ca-file").await;
        assert_eq!(found, expected);
    }
}

/// Waits until this many namespaces publish the authority.
async fn until(client: &kube::Client, namespaces: usize, authority: &str) {
    loop {
        let told = told(client, "kube-root-ca.crt", "ca.crt").await;
        if told.len() == namespaces && told.values().all(|told| told == authority) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// Returns a client with a certificate of this user and group, or without one.
async fn client_of(listener: &Listener, identity: Option<(&Authority, &str, &str)>) -> kube::Client {
    let encode = |pem: &str| base64::Engine::encode(&base64::prelude::BASE64_STANDARD, pem);
    let user = identity.map(|(authority, name, group)| {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.distinguished_name.push(rcgen::DnType::OrganizationName, group);
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, authority).unwrap();
        serde_json::json!({
            "client-certificate-data": encode(&certificate.pem()), "client-key-data": encode(&key.serialize_pem()),
        })
    });
    let mut config: serde_json::Value = serde_saphyr::from_str(&listener.kubeconfig()).unwrap();
    config["users"][0]["user"] = user.unwrap_or_default();
    let config = Kubeconfig::from_yaml(&config.to_string()).unwrap();
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

type Authority = rcgen::CertifiedIssuer<'static, rcgen::KeyPair>;

fn authority() -> Authority {
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    rcgen::CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate().unwrap()).unwrap()
}

#[tokio::test]
async fn a_client_certificate_names_the_user_and_its_groups() {
    let (trusted, foreign) = (authority(), authority());
    let clients = ClientAuthority::from_pem(trusted.pem().as_bytes()).unwrap();
    let server = ApiServer::start(Options::default().client_authority(clients));
    let listener =
        server.listen_with("127.0.0.1:0".parse().unwrap(), ListenOptions::default().tls()).await.unwrap();
    let list =
        async |client: kube::Client| match Api::<Namespace>::all(client).list(&ListParams::default()).await {
            Ok(list) => list.items.len().to_string(),
            Err(kube::Error::Api(status)) => format!("{} {}", status.code, status.message),
            Err(error) => panic!("{error}"),
        };
    let refused = |user: &str| {
        format!(
            "403 namespaces is forbidden: User \"{user}\" cannot list resource \"namespaces\" in API group \"\" at the cluster scope"
        )
    };
    assert_eq!(list(client_of(&listener, Some((&trusted, "root", "system:masters"))).await).await, "4");
    assert_eq!(list(client_of(&listener, Some((&trusted, "jane", "devs"))).await).await, refused("jane"));
    assert_eq!(
        list(client_of(&listener, Some((&foreign, "root", "system:masters"))).await).await,
        "401 Unauthorized"
    );
    assert_eq!(list(client_of(&listener, None).await).await, refused("system:anonymous"));
}
