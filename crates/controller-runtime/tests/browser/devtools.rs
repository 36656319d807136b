//! A headless browser, driven by the Chrome DevTools protocol: the few commands that the tests need.

use std::{
    env, fs,
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use futures::{SinkExt, StreamExt};
use kube_envtest::eventually;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{WebSocketStream, client_async, tungstenite::Message};

/// Time for anything that the browser does.
const LIMIT: Duration = Duration::from_secs(60);

/// A browser with one page. Ends when it is dropped.
pub(crate) struct Browser {
    process: Child,
    socket: WebSocketStream<TcpStream>,
    session: String,
    commands: u64,
    /// Events that arrived while a command was running.
    events: Vec<(String, Value)>,
    _profile: TempDir,
}

/// The browser's program: `$CHROME`, or the first of the usual names in `$PATH`.
fn program() -> Option<PathBuf> {
    if let Some(program) = env::var_os("CHROME") {
        return Some(program.into());
    }
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH")?).collect();
    let programs = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    programs.into_iter().find(|program| program.is_file())
}

impl Browser {
    /// Starts the browser with a window of this size; `None` if there is none and `REQUIRE_BROWSER` is not set.
    pub(crate) async fn start(width: u32, height: u32) -> Option<Self> {
        let Some(program) = program() else {
            assert!(
                env::var_os("REQUIRE_BROWSER").is_none_or(|set| set != "1"),
                "there is no browser: install chromium, or name one in $CHROME"
            );
            println!("skipped: there is no browser; install chromium, or name one in $CHROME");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let log = profile.path().join("log");
        let process = Command::new(program)
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--disable-component-update",
            ])
            .args(["--disable-background-networking", "--disable-sync", "--disable-dev-shm-usage"])
            .args(["--remote-debugging-port=0", "--lang=en-GB"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(format!("--window-size={width},{height}"))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut process = Guard(Some(process));
        let address = eventually(LIMIT, async || {
            let text = fs::read_to_string(&log).unwrap();
            let address =
                text.split_once("DevTools listening on ").and_then(|(_, rest)| rest.split_once('\n'));
            address.map(|(address, _)| address.to_owned()).ok_or(text)
        });
        let address = address.await.unwrap();
        let (host, _) = address.strip_prefix("ws://").unwrap().split_once('/').unwrap();
        #[expect(clippy::disallowed_methods, reason = "the browser listens on the loopback interface")]
        let stream = TcpStream::connect(host.parse::<SocketAddr>().unwrap()).await.unwrap();
        let (socket, _) = client_async(&address, stream).await.unwrap();
        let process = process.0.take().unwrap();
        let mut browser = Self {
            process,
            socket,
            session: String::new(),
            commands: 0,
            events: Vec::new(),
            _profile: profile,
        };
        let target = browser.send("Target.createTarget", json!({ "url": "about:blank" })).await;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.send("Target.attachToTarget", attach).await;
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            browser.send(&format!("{domain}.enable"), json!({})).await;
        }
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        browser.send("Emulation.setDeviceMetricsOverride", size).await;
        Some(browser)
    }

    /// Sends a command, and returns its result.
    pub(crate) async fn send(&mut self, method: &str, params: Value) -> Value {
        self.commands += 1;
        let id = self.commands;
        let mut command = json!({ "id": id, "method": method, "params": params });
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        self.socket.send(Message::text(command.to_string())).await.unwrap();
        loop {
            let received = timeout(LIMIT, self.socket.next()).await;
            let received = received.unwrap_or_else(|_| panic!("no answer to {method}: {command}"));
            let message = received.expect("the browser has ended").unwrap();
            let Message::Text(text) = message else { continue };
            let mut message: Value = serde_json::from_str(&text).unwrap();
            if message["id"] == id {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].take();
            }
            if let Some(event) = message["method"].as_str() {
                self.events.push((event.to_owned(), message["params"].take()));
            }
        }
    }

    pub(crate) async fn open(&mut self, url: &str) {
        self.send("Page.navigate", json!({ "url": url })).await;
    }

    /// The value of an expression of JavaScript.
    pub(crate) async fn value(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut result = self.send("Runtime.evaluate", params).await;
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].take()
    }

    /// Waits until the expression is true.
    pub(crate) async fn wait_until(&mut self, condition: &str) {
        let wait = format!(
            "new Promise(done => {{ const look = () => ({condition}) ? done(true) : setTimeout(look, 20); look(); \
             setTimeout(() => done(false), {}); }})",
            LIMIT.as_millis() / 2
        );
        if self.value(&wait).await != true {
            let text = self.value("document.body.innerText").await;
            panic!("never true: {condition}\n{}\n{:?}", text.as_str().unwrap_or_default(), self.problems());
        }
    }

    /// Waits until the page shows the text.
    pub(crate) async fn shows(&mut self, text: &str) {
        self.wait_until(&format!("document.body?.innerText.includes({})", json!(text))).await;
    }

    /// Presses a key, such as `g`, `Enter` or `Tab`.
    pub(crate) async fn press(&mut self, key: &str) {
        let text = match key {
            "Enter" => "\r",
            key if key.chars().count() == 1 => key,
            _ => "",
        };
        let code = match key {
            "Enter" => 13,
            "Tab" => 9,
            "ArrowDown" => 40,
            "ArrowUp" => 38,
            "Escape" => 27,
            _ => 0,
        };
        let down = if text.is_empty() { "rawKeyDown" } else { "keyDown" };
        let params = json!({ "type": down, "key": key, "text": text, "windowsVirtualKeyCode": code });
        self.send("Input.dispatchKeyEvent", params).await;
        let params = json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code });
        self.send("Input.dispatchKeyEvent", params).await;
    }

    /// Types a text into the element that has the focus.
    pub(crate) async fn write(&mut self, text: &str) {
        self.send("Input.insertText", json!({ "text": text })).await;
    }

    /// Sets a media feature, such as `prefers-color-scheme` to `dark`.
    pub(crate) async fn emulate(&mut self, feature: &str, value: &str) {
        let params = json!({ "features": [{ "name": feature, "value": value }] });
        self.send("Emulation.setEmulatedMedia", params).await;
    }

    pub(crate) async fn resize(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.send("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// The accessibility tree: role and name of each element that assistive technology sees.
    pub(crate) async fn accessible(&mut self) -> Vec<(String, String)> {
        let tree = self.send("Accessibility.getFullAXTree", json!({})).await;
        let nodes = tree["nodes"].as_array().unwrap().iter();
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
        let seen = nodes.filter(|node| node["ignored"] != true);
        seen.map(|node| (text(&node["role"]), text(&node["name"]))).collect()
    }

    /// URLs of all requests so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        let sent = self.events.iter().filter(|(method, _)| method == "Network.requestWillBeSent");
        sent.map(|(_, params)| params["request"]["url"].as_str().unwrap().to_owned()).collect()
    }

    /// Exceptions, and errors of the console, such as violations of the content security policy.
    pub(crate) fn problems(&self) -> Vec<String> {
        let problem = |(method, params): &(String, Value)| match method.as_str() {
            "Runtime.exceptionThrown" => Some(params["exceptionDetails"].to_string()),
            "Log.entryAdded" if params["entry"]["level"] == "error" => Some(params["entry"].to_string()),
            _ => None,
        };
        self.events.iter().filter_map(problem).collect()
    }

    /// Writes a picture of the page into `$SCREENSHOTS`, if that is set.
    pub(crate) async fn picture(&mut self, name: &str) {
        use base64::{Engine, prelude::BASE64_STANDARD};

        let Some(folder) = env::var_os("SCREENSHOTS") else { return };
        let shot = self.send("Page.captureScreenshot", json!({ "format": "png" })).await;
        let picture = BASE64_STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
        fs::create_dir_all(&folder).unwrap();
        fs::write(PathBuf::from(folder).join(format!("{name}.png")), picture).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

/// Ends the process unless it was taken.
struct Guard(Option<Child>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(process) = &mut self.0 {
            end(process);
        }
    }
}

fn end(process: &mut Child) {
    let _ = process.kill();
    let _ = process.wait();
}
