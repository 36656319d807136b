//! Data files: acknowledged writes survive servers that are killed, stopped, or run out of disk space.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube_apiserver_embedded::{ApiServer, DataFile, DataFileError, Options};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;

const PROGRAM: &str = env!("CARGO_BIN_EXE_kube-apiserver-embedded");
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

/// The program with a data file. Dropping it kills it.
struct Program {
    child: Child,
    url: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both calls only fail if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    fn start(file: &Path, more: &[&str]) -> Self {
        Self::of(Command::new(PROGRAM).arg("--data-file").arg(file).args(more))
    }

    fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim_end().strip_prefix("ready ").expect("it starts").to_owned();
        Self { child, url, client: Client::builder(TokioExecutor::new()).build_http() }
    }

    /// Kills the process, like a crash.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        ask(&self.client, &self.url, method, path, body).await.unwrap()
    }
}

/// Sends a request; returns `None` without a complete response.
async fn ask(
    client: &Client<HttpConnector, Full<Bytes>>,
    url: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> Option<(u16, Value)> {
    let request = http::Request::builder()
        .method(method)
        .uri(format!("{url}{path}"))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap();
    let response = client.request(request).await.ok()?;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.ok()?.to_bytes();
    Some((code, serde_json::from_slice(&body).ok()?))
}

/// Returns the status and the body as text.
async fn ask_text(program: &Program, path: &str) -> (u16, String) {
    let response = program.client.get(format!("{}{path}", program.url).parse().unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}}},
            }}}],
        },
    })
}

/// A client's knowledge of its objects: the last response for each, `None` for a deleted one.
#[derive(Default)]
struct Acknowledged {
    objects: BTreeMap<String, Option<Value>>,
    /// Object of the last request without a response, which may have been processed or not.
    in_doubt: Option<String>,
    newest: u64,
}

/// Creates, updates and deletes objects until the server has ended.
async fn write(
    client: Client<HttpConnector, Full<Bytes>>,
    url: String,
    writer: usize,
    seed: u64,
    answered: Arc<AtomicUsize>,
    enough: Arc<Notify>,
) -> Acknowledged {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut known = Acknowledged::default();
    loop {
        let name = format!("w{writer}-{seed}-{}", random.u8(..20));
        let there = known.objects.get(&name).is_some_and(Option::is_some);
        let path = format!("{MAPS}/{name}");
        let padding = "x".repeat(random.usize(..3000));
        let body = json!({"metadata": {"name": name}, "data": {"n": random.u32(..).to_string(), "padding": padding}});
        let deletes = there && random.u8(..4) == 0;
        let answer = if deletes {
            ask(&client, &url, "DELETE", &path, &json!({})).await
        } else if there {
            ask(&client, &url, "PUT", &path, &body).await
        } else {
            ask(&client, &url, "POST", MAPS, &body).await
        };
        let Some((code, object)) = answer else {
            known.in_doubt = Some(name);
            return known;
        };
        assert!((200..300).contains(&code), "{object}");
        if !deletes {
            known.newest = known.newest.max(revision(&object));
        }
        known.objects.insert(name, (!deletes).then_some(object));
        if answered.fetch_add(1, Ordering::Relaxed) == 400 {
            enough.notify_one();
        }
    }
}

/// Returns the objects of a list by name. Items of lists have no kind.
async fn listed(program: &Program) -> (u64, BTreeMap<String, Value>) {
    let (code, list) = program.send("GET", MAPS, &Value::Null).await;
    assert_eq!(code, 200, "{list}");
    let named = |item: &Value| (item["metadata"]["name"].as_str().unwrap().to_owned(), item.clone());
    (revision(&list), list["items"].as_array().unwrap().iter().map(named).collect())
}

async fn rounds(more: &[&str], rounds: u64) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    let program = Program::start(&file, more);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(program.send("POST", definitions, &definition()).await.0, 201);
    let (code, thing) = program
        .send(
            "POST",
            THINGS,
            &json!({"metadata": {"name": "a"}, "spec": {}, "apiVersion": "example.com/v1", "kind": "Thing"}),
        )
        .await;
    assert_eq!((code, &thing["spec"]["size"]), (201, &json!(3)));
    program.kill();

    let mut before: BTreeMap<String, Value> = BTreeMap::new();
    for round in 0..rounds {
        let program = Program::start(&file, more);
        let (start, _) = listed(&program).await;
        let answered = Arc::new(AtomicUsize::new(0));
        let enough = Arc::new(Notify::new());
        let mut writers = JoinSet::new();
        for writer in 0..8 {
            let (answered, enough) = (Arc::clone(&answered), Arc::clone(&enough));
            writers.spawn(write(
                program.client.clone(),
                program.url.clone(),
                writer,
                round * 8 + writer as u64,
                answered,
                enough,
            ));
        }
        enough.notified().await;
        program.kill();
        let known = writers.join_all().await;

        let program = Program::start(&file, more);
        let (now, objects) = listed(&program).await;
        let newest = known.iter().map(|known| known.newest).max().unwrap();
        assert!(start <= newest && newest <= now, "round {round}: {start} {newest} {now}");
        for known in &known {
            for (name, object) in &known.objects {
                if known.in_doubt.as_ref() == Some(name) {
                    continue;
                }
                let mut expected = object.clone();
                if let Some(expected) = &mut expected {
                    for field in ["apiVersion", "kind"] {
                        expected.as_object_mut().unwrap().remove(field);
                    }
                }
                assert_eq!(objects.get(name), expected.as_ref(), "round {round}: {name}");
            }
        }
        // Objects of earlier rounds are still there.
        for (name, object) in &before {
            assert_eq!(objects.get(name), Some(object), "round {round}: {name}");
        }
        let (code, again) = program.send("GET", &format!("{THINGS}/a"), &Value::Null).await;
        assert_eq!((code, &again), (200, &thing), "round {round}");
        let (_, next) = program.send("POST", MAPS, &json!({"metadata": {"generateName": "next-"}})).await;
        assert!(revision(&next) > now, "round {round}");
        let (code, expired) = program
            .send("GET", &format!("{MAPS}?resourceVersion={start}&resourceVersionMatch=Exact"), &Value::Null)
            .await;
        assert_eq!((code, &expired["reason"]), (410, &json!("Expired")), "round {round}");
        before = listed(&program).await.1;
        program.kill();
    }
}

#[tokio::test]
async fn every_acknowledged_write_survives_a_killed_process() {
    rounds(&[], 3).await;
}

#[tokio::test]
async fn every_acknowledged_write_survives_a_killed_process_with_fsync() {
    rounds(&["--fsync", "--profile", "dev"], 1).await;
}

#[tokio::test]
async fn a_server_continues_where_the_last_one_with_the_file_ended() {
    let folder = tempfile::tempdir().unwrap();
    let file = DataFile::new(folder.path().join("data"));
    let mut uids = Vec::new();
    for n in 0..3 {
        let server = loop {
            match ApiServer::open(Options::default().seed(7), &file) {
                // The task behind the last client has not ended yet.
                Err(DataFileError::InUse(_)) => tokio::task::yield_now().await,
                opened => break opened.unwrap(),
            }
        };
        assert!(matches!(ApiServer::open(Options::default(), &file), Err(DataFileError::InUse(_))));
        let client = kube::Client::new(server.service(), "default");
        let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> = kube::Api::default_namespaced(client);
        let mut map = k8s_openapi::api::core::v1::ConfigMap::default();
        map.metadata.name = Some(format!("m{n}"));
        uids.push(maps.create(&Default::default(), &map).await.unwrap().metadata.uid.unwrap());
        let there = maps.list(&Default::default()).await.unwrap();
        let there: Vec<String> = there.items.into_iter().filter_map(|map| map.metadata.uid).collect();
        // Equal seeds, but no UID occurs twice.
        assert_eq!(there, uids);
        let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> = kube::Api::all(maps.into_client());
        assert_eq!(namespaces.list(&Default::default()).await.unwrap().items.len(), 4);
    }
    uids.dedup();
    assert_eq!(uids.len(), 3);
}

#[test]
fn an_unusable_file_is_reported_in_one_line_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes");
    std::fs::write(&notes, "mine").unwrap();
    let in_use = folder.path().join("data");
    let _program = Program::start(&in_use, &[]);
    for (path, expected) in [
        (notes, "was not written by this program: choose another path"),
        (in_use, "is in use: stop the server that uses it, or choose another file"),
        (folder.path().join("absent/data"), "cannot be opened for reading and writing"),
    ] {
        let output = Command::new(PROGRAM).arg("--data-file").arg(&path).output().unwrap();
        assert!(!output.status.success());
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.starts_with(&format!("error: data file {} {expected}", path.display())), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}

/// Simulates a full disk by a limit on the size of this process's files.
#[tokio::test]
async fn without_space_writes_are_refused_and_nothing_answered_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    // In units of 512 bytes. A soft limit can be raised again.
    let script = "trap '' XFSZ; ulimit -S -f 4096; exec \"$0\" --data-file \"$1\"";
    let program = Program::of(Command::new("sh").args(["-c", script, PROGRAM]).arg(&file));
    let map = |n: usize| json!({"metadata": {"name": format!("m{n:04}")}, "data": {"k": "x".repeat(20_000)}});
    let mut answered = 0;
    let refused = loop {
        let (code, answer) = program.send("POST", MAPS, &map(answered)).await;
        if code != 201 {
            break (code, answer);
        }
        answered += 1;
        assert!(answered < 1000, "the limit has no effect");
    };
    let told = refused.1["message"].as_str().unwrap();
    assert_eq!(refused.0, 500, "{told}");
    assert!(told.starts_with(&format!("data file {} cannot be written: ", file.display())), "{told}");
    // Later writes are refused before they change anything.
    let (code, _) = program.send("POST", MAPS, &map(answered + 1)).await;
    assert_eq!(code, 500);
    let (code, health) = ask_text(&program, "/readyz").await;
    let begin = "[+]ping ok\n[+]log ok\n[-]etcd failed: reason withheld\n";
    assert!(
        code == 500 && health.starts_with(begin) && health.ends_with("readyz check failed\n"),
        "{health}"
    );
    let lifted = Command::new("prlimit")
        .args(["--fsize=unlimited", "--pid", &program.child.id().to_string()])
        .status();
    if lifted.is_ok_and(|status| status.success()) {
        let (code, answer) = program.send("POST", MAPS, &map(answered + 2)).await;
        assert_eq!(code, 201, "{answer}");
        assert_eq!(ask_text(&program, "/readyz").await, (200, "ok".to_owned()));
        assert_eq!(program.send("GET", &format!("{MAPS}/m{:04}", answered + 1), &Value::Null).await.0, 404);
    } else {
        eprintln!("skipped: there is no prlimit to give the server its space back");
    }
    program.kill();
    let program = Program::start(&file, &[]);
    let (_, objects) = listed(&program).await;
    for n in 0..answered {
        assert_eq!(objects[&format!("m{n:04}")]["data"], map(n)["data"]);
    }
}

#[test]
fn the_file_is_for_its_owner_alone_and_free_after_sigterm() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    let mut program = Program::start(&file, &[]);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    Command::new("kill").args(["-TERM", &program.child.id().to_string()]).status().unwrap();
    assert!(program.child.wait().unwrap().success());
    let mut start = [0; 4];
    std::fs::File::open(&file).unwrap().read_exact(&mut start).unwrap();
    assert_eq!(&start, b"redb");
    drop(Program::start(&file, &[]));
}
