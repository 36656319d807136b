//! The server on a socket: the library's listener and the program.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use kube_apiserver_embedded::{ApiServer, ListenError, Options};
use serde_json::json;
use tokio::time::Duration;
use tower_service::Service;

/// Sends a request on a new connection; returns the whole response.
fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Returns the error line of the program, which must fail with these arguments.
fn refusal(arguments: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_kube-apiserver-embedded")).args(arguments).output().unwrap();
    assert!(!output.status.success());
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

fn get(address: &str, path: &str) -> String {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_serves_until_it_is_shut_down() {
    let server = ApiServer::start(Options::default());
    let listener = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr().to_string();
    assert!(listener.kubeconfig().contains(&format!("server: \"http://{address}\"")));
    let asked = address.clone();
    let answer =
        tokio::task::spawn_blocking(move || get(&asked, "/api/v1/namespaces/default")).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    // The shutdown ends an open watch instead of waiting for it.
    let mut watch = TcpStream::connect(&address).unwrap();
    watch.write_all(b"GET /api/v1/namespaces?watch=1 HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut line = String::new();
    let mut reader = BufReader::new(watch);
    reader.read_line(&mut line).unwrap();
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    listener.shutdown().await;
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("0\r\n\r\n"), "the stream of the watch ends cleanly: {rest}");
    assert!(TcpStream::connect(&address).is_err());
}

#[tokio::test]
async fn responses_with_many_warnings_fit_a_client_with_a_limit_of_header_lines() {
    let server = ApiServer::start(Options::default());
    let listener = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    // Strict decoding reports a hundred fields, and warnings are limited to 4096 characters.
    for (unknown, length, told_of) in
        [(50, 0, 50..=50), (120, 0, 100..=100), (5_000, 0, 100..=100), (120, 60, 40..=60)]
    {
        let long = "x".repeat(length);
        let fields: Vec<String> = (0..unknown).map(|n| format!("\"u{n}{long}\":1")).collect();
        let body = format!("{{\"metadata\":{{\"name\":\"n{unknown}{long}\"}},{}}}", fields.join(","));
        let request = http::Request::post(format!("{}/api/v1/namespaces/default/configmaps", listener.url()))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        let response = client.request(request).await.unwrap();
        assert_eq!(response.status(), 201, "{unknown} unknown fields");
        let warnings: Vec<&str> =
            response.headers().get_all("warning").iter().map(|line| line.to_str().unwrap()).collect();
        let told = warnings.join(", ");
        let first = format!(r#"299 - "unknown field \"u0{long}\"", 299 - "unknown field \"u1{long}\""#);
        assert!(told.starts_with(&first), "{told}");
        let fields = told.matches("unknown field").count();
        assert!(told_of.contains(&fields), "{fields} of {unknown}: {told}");
    }
}

/// The clock is paused and only advances when nothing else can happen.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_cut_off() {
    let server = ApiServer::start(Options::default());
    let listener = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let mut service = server.service();
    let padding = "x".repeat(1 << 20);
    // More than operating systems buffer for a connection.
    for n in 0..16 {
        let map = json!({"metadata": {"name": format!("m{n}")}, "data": {"k": padding}}).to_string();
        let request = http::Request::post("/api/v1/namespaces/default/configmaps")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(map)))
            .unwrap();
        assert_eq!(service.call(request).await.unwrap().status(), 201);
    }
    let address = listener.local_addr().to_string();
    let mut watch = TcpStream::connect(&address).unwrap();
    watch
        .write_all(b"GET /api/v1/configmaps?watch=1&timeoutSeconds=3600 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    tokio::time::sleep(Duration::from_secs(300)).await;
    // Nothing more is sent, so this read does not depend on the server, which runs on this thread. It would time out if the
    // connection were still open.
    watch.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut taken = Vec::new();
    let end = watch.read_to_end(&mut taken);
    assert!(!end.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock), "{end:?}");
    assert!(!taken.ends_with(b"0\r\n\r\n"), "the stream is cut, not ended: {end:?}");
    assert!(taken.len() < 16 << 20, "{}", taken.len());
    assert!(taken.starts_with(b"HTTP/1.1 200"), "{end:?}");
}

#[tokio::test]
async fn an_address_that_cannot_be_served_is_named() {
    let server = ApiServer::start(Options::default());
    let open = server.listen("0.0.0.0:0".parse().unwrap()).await.unwrap_err();
    assert!(matches!(open, ListenError::NotLoopback(_)));
    let first = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let taken = server.listen(first.local_addr()).await.unwrap_err();
    assert_eq!(taken.to_string(), format!("cannot listen on {}: the address is in use", first.local_addr()));
}

#[test]
fn the_program_announces_itself_and_ends_on_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let mut program = Command::new(env!("CARGO_BIN_EXE_kube-apiserver-embedded"))
        .args(["--listen", "127.0.0.1:0", "--profile", "dev", "--kubeconfig-out"])
        .arg(&kubeconfig)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("ready http://").unwrap().to_owned();
    assert!(get(&address, "/readyz").ends_with("ok"));
    assert!(std::fs::read_to_string(&kubeconfig).unwrap().contains(&address));
    Command::new("kill").args(["-TERM", &program.id().to_string()]).status().unwrap();
    assert!(program.wait().unwrap().success());
}

#[test]
fn the_program_serves_https_and_ends_on_sigint() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_kube-apiserver-embedded"))
        .args(["--tls", "--kubeconfig-out", "-"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let ready = lines.next().unwrap();
    let url = ready.strip_prefix("ready ").unwrap();
    assert!(url.starts_with("https://127.0.0.1:"), "{ready}");
    lines.find(|line| line.contains(&format!("server: \"{url}\""))).unwrap();
    lines.find(|line| line.trim_start().starts_with("certificate-authority-data: ")).unwrap();
    Command::new("kill").args(["-INT", &program.id().to_string()]).status().unwrap();
    assert!(program.wait().unwrap().success());
}

#[test]
fn the_program_prints_a_kubeconfig_when_asked_to() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_kube-apiserver-embedded"))
        .args(["--kubeconfig-out", "-"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let ready = lines.next().unwrap();
    let address = ready.strip_prefix("ready http://").unwrap();
    let server = lines.find(|line| line.trim_start().starts_with("server: ")).unwrap();
    assert!(server.contains(address), "{server}");
    program.kill().unwrap();
    program.wait().unwrap();
}

#[test]
fn a_port_in_use_is_reported_in_one_line_with_the_address() {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let told = refusal(&["--listen", &address]);
    assert!(told.starts_with(&format!("error: cannot listen on {address}: the address is in use")), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
}

#[test]
fn other_addresses_than_loopback_need_tokens() {
    let told = refusal(&["--listen", "0.0.0.0:0"]);
    assert_eq!(
        told,
        "error: cannot listen on 0.0.0.0:0, because every client would be admin: configure tokens, or use a loopback address such \
         as 127.0.0.1 or [::1]\n"
    );
}

#[test]
fn an_invalid_token_file_is_reported_in_one_line_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.csv");
    let absent = refusal(&["--token-auth-file", path.to_str().unwrap()]);
    let expected = format!("error: token file {} cannot be read: No such file", path.display());
    assert!(absent.starts_with(&expected), "{absent}");
    std::fs::write(&path, "t,jane,u1\nbob\n").unwrap();
    let told = refusal(&["--token-auth-file", path.to_str().unwrap()]);
    assert_eq!(
        told,
        format!(
            "error: token file {}: line 2: must have at least 3 columns (token, user name, user uid), found 1\n",
            path.display()
        )
    );
}

#[test]
fn tokens_determine_the_user_and_the_kubeconfig_has_one() {
    let folder = tempfile::tempdir().unwrap();
    let (tokens, kubeconfig) = (folder.path().join("tokens.csv"), folder.path().join("kubeconfig"));
    std::fs::write(&tokens, "first,jane,u1,devs\nsecond,root,u2,\"system:masters,ops\"\n").unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_kube-apiserver-embedded"))
        .args(["--listen", "0.0.0.0:0", "--token-auth-file"])
        .arg(&tokens)
        .arg("--kubeconfig-out")
        .arg(&kubeconfig)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("ready http://").unwrap().to_owned();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    assert!(std::fs::read_to_string(&kubeconfig).unwrap().contains("user: {\"token\": \"second\"}"));
    assert_eq!(std::fs::metadata(&kubeconfig).unwrap().permissions().mode() & 0o077, 0);

    let asked = |token: &str| {
        let path = "/api/v1/namespaces/default";
        ask(&address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{token}Connection: close\r\n\r\n"))
    };
    let root = asked("Authorization: Bearer second\r\n");
    assert!(root.starts_with("HTTP/1.1 200"), "{root}");
    let jane = asked("Authorization: Bearer first\r\n");
    assert!(
        jane.starts_with("HTTP/1.1 403") && jane.contains("User \\\"jane\\\" cannot get resource"),
        "{jane}"
    );
    let unknown = asked("Authorization: Bearer third\r\n");
    assert!(unknown.starts_with("HTTP/1.1 401"), "{unknown}");
    let status: serde_json::Value = serde_json::from_str(unknown.lines().last().unwrap()).unwrap();
    let recorded = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "Unauthorized",
        "reason": "Unauthorized", "code": 401,
    });
    assert_eq!(status, recorded);
    assert!(asked("").starts_with("HTTP/1.1 403"));
    assert!(get(&address, "/readyz").ends_with("ok"));
    program.kill().unwrap();
    program.wait().unwrap();
}

/// A website in a browser on this machine is not admin.
#[tokio::test(flavor = "multi_thread")]
async fn requests_of_websites_are_refused_where_every_client_is_admin() {
    let server = ApiServer::start(Options::default());
    let listener = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let own = listener.local_addr().to_string();
    let request = |headers: &str| {
        ask(&own, &format!("GET /api/v1/namespaces HTTP/1.1\r\n{headers}Connection: close\r\n\r\n"))
    };
    for allowed in ["Host: localhost\r\n".to_owned(), format!("Host: {own}\r\nOrigin: http://{own}\r\n")] {
        assert!(request(&allowed).starts_with("HTTP/1.1 200"), "{allowed}");
    }
    for foreign in ["Host: evil.example.com\r\n", "Host: localhost\r\nOrigin: https://example.com\r\n"] {
        let answer = request(foreign);
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("may come from a website"), "{answer}");
    }
}
