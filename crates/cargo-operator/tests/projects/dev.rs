//! `cargo operator dev`.

use std::{
    fs::{self, File, OpenOptions},
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use rustix::{
    process::{Pid, Signal, kill_process, kill_process_group},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};

use crate::{
    support::{answer, errors, files, script},
    workspace::Projects,
};

/// Time for a build on a slow machine.
const BUILD: Duration = Duration::from_secs(600);

/// A session, with the lines of both its outputs in the order in which they are read.
struct Session {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Session {
    fn start(mut command: Command) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let (sender, lines) = channel();
        let outputs: [Box<dyn std::io::Read + Send>; 2] =
            [Box::new(child.stdout.take().expect("a pipe")), Box::new(child.stderr.take().expect("a pipe"))];
        for output in outputs {
            let sender = sender.clone();
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        Self { child, lines, seen: Vec::new() }
    }

    /// Waits for a line with this text, from the next one on.
    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        self.wait_for_all(&[text]);
    }

    /// Waits for lines with these texts, in any order, from the next one on.
    #[track_caller]
    fn wait_for_all(&mut self, texts: &[&str]) {
        let mut missing = texts.to_vec();
        while !missing.is_empty() {
            match self.lines.recv_timeout(BUILD) {
                Ok(line) => self.seen.push(line),
                Err(error) => panic!("no lines have {missing:?} ({error}):\n{}", self.seen.join("\n")),
            }
            missing.retain(|text| !self.seen.last().is_some_and(|line| line.contains(text)));
        }
    }
}

impl Session {
    /// Waits until no process holds the outputs.
    #[track_caller]
    fn wait_for_end(&mut self) {
        loop {
            match self.lines.recv_timeout(BUILD) {
                Ok(line) => self.seen.push(line),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("a process holds the outputs:\n{}", self.seen.join("\n"))
                }
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It has ended unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Replaces a text in a file, as an editor does.
fn edit(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).expect("text");
    assert!(text.contains(from), "{text}");
    let beside = file.with_extension("new");
    fs::write(&beside, text.replace(from, to)).expect("a file is written");
    fs::rename(&beside, file).expect("a file is replaced");
}

/// A terminal: the end at which keys are pressed, and that of a program.
fn terminal() -> (File, File) {
    let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&keys).and_then(|()| unlockpt(&keys)).expect("a terminal");
    let path = ptsname(&keys, Vec::new()).expect("a path");
    let path = path.to_str().expect("a path in UTF-8");
    (File::from(keys), OpenOptions::new().read(true).write(true).open(path).expect("a terminal"))
}

/// Part of the test of new projects, which are compiled once: a port in use, and a cluster that may be in production.
pub(crate) fn a_taken_port_and_an_unknown_cluster_are_refused(projects: &Projects) {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let before = files(&projects.path().join("dns-policies"));
    let refused = projects.operator(&format!("dev --port {port}"), "dns-policies");
    let text = errors(&refused);
    assert_eq!(refused.status.code(), Some(1), "{text}");
    for part in [
        "error: ",
        &format!("127.0.0.1:{port}"),
        "Hint another program uses the port: choose another one with --port",
    ] {
        assert!(text.contains(part), "{text}");
    }

    let config = r#"{"clusters":[{"name":"a","cluster":{"server":"https://production:6443"}}]}"#;
    let kubectl = format!(
        "case \"$*\" in\n'--context production config view --minify --flatten --raw -o json') echo '{config}' ;;\n\
         *) echo \"$*\" >> {}; exit 1 ;;\nesac",
        projects.path().join("asked").display()
    );
    fs::create_dir(projects.path().join("bin")).expect("a folder");
    script(&projects.path().join("bin"), "kubectl", &kubectl);
    let path =
        format!("{}:{}", projects.path().join("bin").display(), std::env::var("PATH").expect("a path"));
    let mut command = projects.operator_command("dev --on production", "dns-policies");
    let refused = command.env("PATH", path).stdin(Stdio::null()).output().expect("the program runs");
    let text = errors(&refused);
    assert_eq!(refused.status.code(), Some(2), "{text}");
    for part in [
        "error: context production (https://production:6443) is not known to be for development",
        "Hint dev.contexts = [\"production\"] below [package.metadata.operator] in Cargo.toml allows this context",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!projects.path().join("asked").exists(), "it asked the cluster");
    let mut after = files(&projects.path().join("dns-policies"));
    after.retain(|file| !file.starts_with("target/"));
    assert_eq!(after, before);
}

/// Part of the test of new projects, which are compiled once.
pub(crate) fn the_operator_follows_its_sources(projects: &Projects) {
    let folder = projects.path().join("album");
    // The operator of another session may hold the default port of webhooks. If another process holds it now, so much the better.
    let _taken = TcpListener::bind("0.0.0.0:9443");
    let (mut keys, end) = terminal();
    let opened = projects.path().join("opened");
    let browser = projects.script(
        "browser",
        &format!("echo \"$1\" > {}.new\nmv {}.new {}", opened.display(), opened.display(), opened.display()),
    );
    let mut command = projects.operator_command("dev", "album");
    command.stdin(end).env("BROWSER", browser).env_remove("RUST_LOG").process_group(0);
    let mut session = Session::start(command);
    session.wait_for("API server https://127.0.0.1:");
    session.wait_for("Installed 2 definitions and the operator's rights");
    session.wait_for("album default/sample  created → configmaps default/album-sample created → Ready");
    // One run of cargo builds the operator and the program of the API server.
    let finished = session.seen.iter().filter(|line| line.contains("Finished `dev`"));
    assert_eq!(finished.count(), 1, "{}", session.seen.join("\n"));
    assert!(!session.seen.iter().any(|line| line.starts_with("    INFO ")), "{:?}", session.seen);
    let page =
        session.seen.iter().find_map(|line| line.trim().strip_prefix("Explain ")).expect("a page").to_owned();
    assert!(page.starts_with("http://127.0.0.1:") && page.contains("/explain/#token="), "{page}");

    // The session is asked from another terminal.
    let explained = projects.operator("explain album sample", "album");
    let text = answer(&explained);
    assert!(
        text.starts_with("Album default/sample waits for an event (controller album)\n"),
        "{text}{}",
        errors(&explained)
    );
    assert!(text.contains("done  wrote apply configmaps default/album-sample"), "{text}");
    let child = answer(&projects.operator("explain configmap default/album-sample", "album"));
    assert!(child.starts_with("Album default/sample waits for an event"), "{child}");
    let json = answer(&projects.operator("explain album/sample --format json", "album"));
    assert!(
        json.starts_with("{\"schema\":\"operator/v1\",\"library\":") && json.contains("\"requests\":[{"),
        "{json}"
    );
    let operator = answer(&projects.operator("explain", "album"));
    assert!(
        operator.starts_with("album, with controller-runtime ") && operator.contains("no findings"),
        "{operator}"
    );
    for (words, reason) in [
        ("explain album other", "album other: the operator found no such object among albums."),
        ("explain pod other", "operator album reconciles no pod: its kinds are Album."),
        ("explain album", "album does not name an object"),
    ] {
        let refused = projects.operator(words, "album");
        let text = format!("{}{}", answer(&refused), errors(&refused));
        assert!(text.contains(reason), "{words}: {text}");
    }

    // Keys.
    keys.write_all(b"x").expect("a key is pressed");
    session.wait_for("r restart   s samples   e explain failure   o open page   q quit");
    keys.write_all(b"e").expect("a key is pressed");
    session.wait_for("Explain no request is failing");
    keys.write_all(b"s").expect("a key is pressed");
    session.wait_for("Applied 2 objects from samples");
    keys.write_all(b"o").expect("a key is pressed");
    session.wait_for("Opened the page of explanations");
    keys.write_all(b"r").expect("a key is pressed");
    session.wait_for("Restarted album (built in ");
    let server = api_server(&folder);
    while !opened.exists() {
        thread::yield_now();
    }
    assert_eq!(fs::read_to_string(&opened).expect("text").trim(), page);

    // A second session of the project does not disturb the first, also one that would delete its objects.
    for words in ["dev", "dev --reset"] {
        let second = projects.operator(words, "album");
        assert_eq!(second.status.code(), Some(1));
        let text = errors(&second);
        assert!(text.starts_with("error: another session of this project runs"), "{text}");
        assert!(text.contains("Hint end it first") && text.lines().count() == 2, "nothing was built: {text}");
    }
    let alone = Command::new(Projects::program("dev")).env("CARGO_MANIFEST_DIR", &folder).output();
    let alone = alone.expect("the program runs");
    let text = errors(&alone);
    assert_eq!(alone.status.code(), Some(1), "{text}");
    assert!(text.starts_with("error: another session of this project uses "), "{text}");

    // A change of the code.
    let controller = folder.join("src/album/controller.rs");
    edit(&controller, "the ConfigMap has the greeting", "the ConfigMap is there");
    session.wait_for("Changed src/album/controller.rs");
    session.wait_for("Restarted album");
    session.wait_for_all(&["album default/sample  Ready", " runs, nothing fails"]);

    // A build of the program that holds the API server does not disturb it.
    projects.succeed("build --offline -p album --bin dev");
    assert_eq!(api_server(&folder), server);

    // A compile error does not stop the operator, and neither do changes of samples. Cargo does not list the new file before it compiles.
    let new = folder.join("src/extra.rs");
    fs::write(&new, "pub fn number() -> u32 {\n    \"text\"\n}\n").expect("a file is written");
    edit(&folder.join("src/lib.rs"), "pub mod album;", "pub mod album;\npub mod extra;");
    session.wait_for("error: album does not compile");
    session.wait_for("the operator of the previous build keeps running");
    edit(&folder.join("samples/album.yaml"), "greeting: hello", "greeting: good morning");
    session.wait_for("album default/sample  changed → configmaps default/album-sample changed → Ready");
    edit(&new, "\"text\"", "1");
    session.wait_for("Restarted album");

    // A kind with its sample, which the API server knows once the operator is built.
    let before = session.seen.len();
    let added = projects.operator("api Song --group example.com", "album");
    assert!(added.status.success(), "{}", errors(&added));
    session.wait_for("Restarted album");
    session.wait_for("song default/sample  created → configmaps default/song-sample created → Ready");
    let since = &session.seen[before..];
    assert!(!since.iter().any(|line| line.contains("error:")), "{}", since.join("\n"));

    // A right that the manifests do not grant shows at once. All controllers declare it.
    for other in ["photo", "song"] {
        edit(&folder.join(format!("src/{other}/controller.rs")), ".owns::<ConfigMap>()", "");
        session.wait_for("Restarted album");
    }
    edit(&controller, ".owns::<ConfigMap>()", "");
    session.wait_for("Restarted album");
    // The line of the object has the line to add. Retries that fail in the same way are counted.
    session.wait_for("album default/sample  failed: ");
    let before = session.seen.len();
    edit(&folder.join("samples/album.yaml"), "greeting: good morning", "greeting: good night");
    session.wait_for("album default/sample  changed → failed: ");
    let advice = "no registration declares this right: add .needs::<ConfigMap>([Verb::Apply]) to the controller's builder";
    assert!(session.seen.last().is_some_and(|line| line.contains(advice)), "{:?}", session.seen.last());
    session.wait_for("album default/sample  failed ");
    let since = &session.seen[before..];
    let with_advice =
        since.iter().filter(|line| line.contains(advice) && line.contains("album default/sample"));
    assert_eq!(with_advice.count(), 1, "{}", since.join("\n"));
    assert!(since.iter().any(|line| line.contains("Changed samples/album.yaml")), "{}", since.join("\n"));
    edit(
        &controller,
        ".with_predicate(GenerationChanged)",
        ".with_predicate(GenerationChanged).owns::<ConfigMap>()",
    );
    session.wait_for("configmaps default/album-sample changed → Ready");

    // Ctrl-C in a terminal, which sends the signal to the whole group of processes.
    kill_process_group(Pid::from_child(&session.child), Signal::INT).expect("the signal is sent");
    let status = session.child.wait().expect("it ends");
    session.wait_for_end();
    assert!(status.success(), "{status}: {}", session.seen.join("\n"));
    assert!(!session.seen.iter().any(|line| line.contains("second signal")), "{}", session.seen.join("\n"));
    assert!(!is_running(server), "its API server has ended");
    assert!(!folder.join("target/operator/session.json").exists());

    // A session that is killed leaves neither an operator nor an API server behind, which would hold the other end of the output. The next
    // session has its objects, and prints their changes.
    for (before, after) in [("good night", "good day"), ("good day", "good evening")] {
        let mut killed = Session::start(projects.operator_command("dev", "album"));
        killed.wait_for(", 1 album, 1 photo, 1 song of the previous session");
        killed.wait_for("Kubeconfig export KUBECONFIG=");
        killed.wait_for("Applied 3 objects from samples");
        edit(&folder.join("samples/album.yaml"), before, after);
        killed.wait_for("album default/sample  changed → configmaps default/album-sample changed → Ready");
        killed.child.kill().expect("it is killed");
        killed.wait_for_end();
    }

    // A session ends after its API server has ended.
    let mut session = Session::start(projects.operator_command("dev", "album"));
    session.wait_for("Applied 3 objects from samples");
    kill_process(api_server(&folder), Signal::KILL).expect("the signal is sent");
    session.wait_for("error: the API server of the session ended (signal: 9 (SIGKILL))");
    session.wait_for("Hint start cargo operator dev again: the objects are kept");
    session.wait_for_end();
    assert_eq!(session.child.wait().expect("it ends").code(), Some(1));
}

/// The process that holds the API server of a project's session.
#[track_caller]
fn api_server(folder: &Path) -> Pid {
    let program = folder.join("target/operator/dev").canonicalize().expect("a copy of the program");
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let mut found =
        processes.filter(|process| fs::read_link(process.path().join("exe")).is_ok_and(|exe| exe == program));
    let process = found.next().expect("a process runs it");
    Pid::from_raw(process.file_name().to_str().and_then(|name| name.parse().ok()).expect("a number"))
        .expect("a process")
}

fn is_running(process: Pid) -> bool {
    Path::new("/proc").join(process.as_raw_nonzero().to_string()).join("exe").read_link().is_ok()
}
