//! `cargo operator explain` without a session: its errors, and operators in clusters. With a session it is part of the test of `dev`.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Command, Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{answer, errors, script};

fn explain(words: &str, folder: &Path, path: &str) -> Output {
    command(words, folder, path).output().expect("the program runs")
}

fn command(words: &str, folder: &Path, path: &str) -> Command {
    let words = format!("explain {words}");
    asking(&words, folder, path)
}

/// The command of cargo operator with these words.
fn asking(words: &str, folder: &Path, path: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-operator"));
    command.arg("operator").args(words.split_whitespace()).current_dir(folder);
    command.env("PATH", path).env_remove("OPERATOR_TOKEN");
    command
}

/// A package without code.
fn package() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let manifest = "[package]\nname = \"album\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    fs::write(folder.path().join("Cargo.toml"), manifest).expect("a file");
    fs::create_dir(folder.path().join("src")).expect("a folder");
    fs::write(folder.path().join("src/main.rs"), "").expect("a file");
    folder
}

fn usual_path() -> String {
    std::env::var("PATH").expect("a path")
}

/// Answers requests to an operator, if they have the token `good`. Request `shop/moving` changes once, and is once not answered.
fn serve(listener: &TcpListener) {
    let overview = r#"{"name":"album","library":"0.1.0","state":"Ready","leader":{"lease":"album.example.com","leads":true},
        "findings":[],"controllers":[{"name":"album","kind":"Album.example.com","queued":0,"waiting":1}]}"#;
    let controller = r#"{"name":"album","kind":"Album.example.com","sources":["albums.example.com"]}"#;
    let request = r#"{"controller":"album","request":"Album shop/a","state":"idle","attempt":0,"runs":[]}"#;
    let looks = Arc::new(AtomicU32::new(0));
    let handle = move |stream: TcpStream| {
        let mut moving;
        let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
        loop {
            let mut lines = Vec::new();
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) == 0 {
                    return;
                }
                if line.trim().is_empty() {
                    break;
                }
                lines.push(line.trim().to_lowercase());
            }
            let path = lines[0].split(' ').nth(1).unwrap_or_default();
            let (code, body) = match path {
                _ if !lines.contains(&"authorization: bearer good".to_owned()) => (401, "no"),
                _ if lines[0].starts_with("post ") => (403, "Authorization denied for user reader"),
                "/explain/v1/overview" => (200, overview),
                "/explain/v1/controllers/album" => (200, controller),
                "/explain/v1/controllers/album/requests/shop/a" => (200, request),
                "/explain/v1/controllers/album/requests/shop/moving" => {
                    let look = looks.fetch_add(1, Ordering::Relaxed);
                    if look == 3 {
                        return;
                    }
                    // A change of the remaining time does not count as a change.
                    moving = format!(
                        r#"{{"controller":"album","request":"Album shop/moving","attempt":{},"state":
                            {{"waiting":{{"until":"2026-01-01T12:00:00Z","left":{},"rule":"rateLimiter"}}}}}}"#,
                        (look / 2).min(1) + 2,
                        100 - look
                    );
                    (200, &*moving)
                }
                _ => (404, "nothing"),
            };
            let length = body.len();
            if write!(&stream, "HTTP/1.1 {code} x\r\ncontent-length: {length}\r\n\r\n{body}").is_err() {
                return;
            }
        }
    };
    while let Ok((stream, _)) = listener.accept() {
        let handle = handle.clone();
        thread::spawn(move || handle(stream));
    }
}

#[test]
fn problems_are_named_with_the_next_step() {
    let folder = package();
    let path = usual_path();
    let gone = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    for (words, code, reason, hint) in [
        (
            "",
            1,
            "no operator of this project runs here",
            "run cargo operator dev, without --on, in another terminal",
        ),
        ("album", 2, "album does not name an object", "give kind and name"),
        ("--address nonsense", 2, "nonsense is not the address of an operator", "give scheme, host and port"),
        (&format!("--address http://{gone}"), 1, "does not answer: Connection refused", "check that http://"),
        ("--context production", 2, "the operator requires a bearer token", "--account NAMESPACE/NAME"),
        ("--token-file missing --address http://[::1]:1", 1, "cannot read missing: ", ""),
    ] {
        let refused = explain(words, folder.path(), &path);
        let text = errors(&refused);
        assert_eq!(refused.status.code(), Some(code), "{words}: {text}");
        assert!(text.contains(reason) && text.contains(hint), "{words}: {text}");
        assert!(text.lines().count() <= 2, "{words}: {text}");
    }
    let nowhere = tempfile::tempdir().expect("a folder");
    assert!(errors(&explain("", nowhere.path(), &path)).contains("could not find `Cargo.toml`"));
    let without =
        explain("--context c --account a/b", folder.path(), nowhere.path().to_str().expect("a path"));
    // Cargo is found by its own path.
    assert!(errors(&without).contains("cannot run "), "{}", errors(&without));
}

#[test]
fn an_operator_is_asked_by_its_address_and_token() {
    let folder = package();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || serve(&listener));
    fs::write(folder.path().join("token"), "good\n").expect("a file");
    let words = format!("album shop/a --address http://{address}");
    let found = explain(&format!("{words} --token-file token"), folder.path(), &usual_path());
    let text = answer(&found);
    assert!(
        text.starts_with("Album shop/a waits for an event (controller album)\n"),
        "{text}{}",
        errors(&found)
    );
    let refused = explain(&words, folder.path(), &usual_path());
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        errors(&refused).contains("refused: no") && errors(&refused).contains("OPERATOR_TOKEN"),
        "{}",
        errors(&refused)
    );
}

#[test]
fn a_retry_needs_a_right_of_its_own() {
    let folder = package();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || serve(&listener));
    let words = format!("retry album shop/a --address http://{address}");
    let refused = asking(&words, folder.path(), &usual_path()).env("OPERATOR_TOKEN", "good").output();
    let refused = refused.expect("the program runs");
    let text = errors(&refused);
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(text.contains("refused: Authorization denied for user reader\n"), "{text}");
    assert!(
        text.contains("Hint its user needs the verb post on the nonResourceURL /explain/v1/retry"),
        "{text}"
    );
}

/// A folder with the package and a kubectl that knows operator `album` with its leader, the pod `album-5c-x2`. Its forwarding of a port ends
/// with these commands.
fn with_kubectl(port: u16, forwarding: &str) -> (tempfile::TempDir, String) {
    let folder = package();
    let deployment = r#"{"spec":{"selector":{"matchLabels":{"app":"album"}},"template":{"spec":{"containers":[{"args":["--leader-elect",
        "--metrics-secure=false"],"ports":[{"name":"metrics","containerPort":8080}]}]}}}}"#;
    let leases = r#"{"items":[{"spec":{"holderIdentity":"album-ui-7b-x9_3e"}},{"spec":{"holderIdentity":"album-5c-x2_4f"}}]}"#;
    let kubectl = format!(
        "case \"$*\" in\n\
         '--context c get deployment album -n album -o json') echo '{deployment}' ;;\n\
         '--context c get leases -n album -o json') echo '{leases}' ;;\n\
         '--context c get pods -n album -l app=album -o name') echo pod/album-5c-x1; echo pod/album-5c-x2 ;;\n\
         '--context c create token reader -n shop') echo good ;;\n\
         '--context c port-forward -n album --address=127.0.0.1 pod/album-5c-x2 :8080')\n\
           echo 'Forwarding from 127.0.0.1:{port} -> 8080'\n{forwarding} ;;\n\
         *) echo \"error: unexpected $*\" >&2; exit 1 ;;\nesac"
    );
    script(folder.path(), "kubectl", &kubectl);
    let path = format!("{}:{}", folder.path().display(), usual_path());
    (folder, path)
}

#[test]
fn kubectl_leads_to_the_pod_that_holds_the_lease() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || serve(&listener));
    let (folder, path) = with_kubectl(port, "exec tail -f /dev/null");
    let found = explain("album/shop/a --context c --account shop/reader", folder.path(), &path);
    let text = answer(&found);
    assert!(
        text.starts_with("Album shop/a waits for an event (controller album)\n"),
        "{text}{}",
        errors(&found)
    );
    let refused = explain("--context d --account shop/reader", folder.path(), &path);
    let text = errors(&refused);
    assert!(text.contains("error: kubectl, context d: unexpected"), "{text}");
}

/// kubectl reports each connection on its output, and ends if it cannot. The operator answers here only after kubectl has written more
/// than pipes hold.
#[test]
fn output_of_kubectl_is_read_as_long_as_it_forwards() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let forwarding = "trap '' PIPE\n\
         if head -c 300000 /dev/zero && head -c 300000 /dev/zero >&2; then echo written >result; else echo ended >result; exit 1; fi\n\
         exec tail -f /dev/null";
    let (folder, path) = with_kubectl(port, forwarding);
    let result = folder.path().join("result");
    let made = Command::new("mkfifo").arg(&result).status().expect("mkfifo runs");
    assert!(made.success());
    thread::spawn(move || {
        // Dropping the listener refuses the connection.
        if fs::read_to_string(result).is_ok_and(|result| result == "written\n") {
            serve(&listener);
        }
    });
    let found = explain("album/shop/a --context c --account shop/reader", folder.path(), &path);
    assert!(
        answer(&found).starts_with("Album shop/a waits for an event (controller album)\n"),
        "{}",
        errors(&found)
    );
}

#[test]
fn a_watched_answer_is_printed_when_it_changes_and_when_the_operator_answers_again() {
    let folder = package();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || serve(&listener));
    let words = format!("album shop/moving --watch --address http://{address}");
    let mut watching = command(&words, folder.path(), &usual_path())
        .env("OPERATOR_TOKEN", "good")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let output = BufReader::new(watching.stdout.take().expect("a pipe"));
    let states = output.lines().map_while(Result::ok).filter(|line| line.starts_with("Album "));
    let states: Vec<String> = states.take(3).collect();
    let state = |left: &str, failures| {
        format!(
            "Album shop/moving waits {left} more, until 2026-01-01 12:00:00 UTC: back-off after {failures} failed runs (controller album)"
        )
    };
    assert_eq!(states, [state("1 min 40 s", 2), state("1 min 38 s", 3), state("1 min 36 s", 3)]);
    kill_process(Pid::from_child(&watching), Signal::INT).expect("the signal is sent");
    let mut warnings = String::new();
    watching.stderr.take().expect("a pipe").read_to_string(&mut warnings).expect("text");
    assert!(watching.wait().expect("it ends").success(), "{warnings}");
    assert!(
        warnings.contains("does not answer: ") && warnings.contains("; retrying every second"),
        "{warnings}"
    );
}
