//! The JSON API of explanations, over sockets and as a client sees it.

use std::{net::SocketAddr, time::Duration};

use controller_runtime::{
    Action, Builder, Client, Manager, ObjectKey, ReconcileError, controller::ControllerOptions,
    serving::MetricsServerOptions, set_controller_reference, workqueue::ItemFastSlow,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube_envtest::{Environment, eventually};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    access::{Reviews, guarded_on},
    servers::{anywhere, connect, get, send, serving},
    support::{NoteAll, Notes, Running, Widget, environment, widget},
};

const QUARTER_HOUR: Duration = Duration::from_secs(900);
const LIMIT: Duration = Duration::from_secs(20);

/// An operator with a failing, a waiting and a successful request.
async fn operator(env: &Environment) -> (Manager, Running, SocketAddr) {
    let manager = guarded_on(env, Reviews::default());
    let notes = Notes::new(|request: &ObjectKey<Widget>, _| match request.name() {
        "bad" => Err(ReconcileError::new("no luck")),
        "later" => Ok(Action::requeue_after(Duration::from_secs(600))),
        _ => Ok(Action::done()),
    });
    let options = ControllerOptions::default().max_concurrent_reconciles(3).rate_limiter(ItemFastSlow::new(
        QUARTER_HOUR,
        QUARTER_HOUR,
        1,
    ));
    let builder = Builder::managed_by(&manager).for_kind::<Widget>().owns::<ConfigMap>();
    builder.with_options(options).complete(notes.clone()).unwrap();
    let running = Running::start(manager.clone()).await;
    for name in ["bad", "fine", "later"] {
        Client::new(env.client(), "kubectl").create(&widget(name, 1)).await.unwrap();
    }
    let all = eventually(LIMIT, async || match notes.names().len() {
        3.. => Ok(()),
        ran => Err(format!("{ran} requests ran")),
    });
    all.await.unwrap();
    let address = manager.metrics_address().unwrap();
    (manager, running, address)
}

async fn fetch(address: SocketAddr, path: &str) -> (u16, Value) {
    let (code, body) = get(address, &format!("/explain/v1/{path}"), "Authorization: Bearer good\r\n").await;
    (code, serde_json::from_str(&body).unwrap_or(Value::String(body)))
}

/// The value without members that differ from run to run.
fn stable(mut value: Value, members: &[&str]) -> Value {
    let object = value.as_object_mut().expect("an object");
    for member in members {
        assert!(object.remove(*member).is_some(), "{member}");
    }
    value
}

#[tokio::test]
async fn a_retry_runs_a_request_at_once_whatever_it_waits_for() {
    let env = environment().await;
    let (_manager, _running, address) = operator(&env).await;
    let retry = async |method: &str, query: &str| {
        let path = format!("/explain/v1/retry?{query}");
        send(connect(address).await, method, &path, "Authorization: Bearer good\r\n").await
    };
    for name in ["bad", "later"] {
        let path = format!("controllers/widget/requests/default/{name}");
        let before = fetch(address, &path).await.1["runs"].clone();
        let (code, answer) = retry("POST", &format!("controller=widget&request=default/{name}")).await;
        assert_eq!(code, 200, "{answer}");
        let ran = eventually(LIMIT, async || {
            let runs = fetch(address, &path).await.1["runs"].clone();
            let (count, last) = (runs.as_array().map(Vec::len), runs[0]["causes"]["first"][0].clone());
            match last["source"] == "retry by a user" && runs != before {
                true => Ok(()),
                false => Err(format!("{count:?} runs, the last because of {last}")),
            }
        });
        ran.await.unwrap();
    }
    for (method, query, code, reason) in [
        ("GET", "controller=widget&request=default/bad", 405, "only POST is allowed"),
        ("POST", "controller=widget", 400, "a parameter is missing"),
        ("POST", "controller=other&request=default/bad", 404, "there is no controller other"),
        ("POST", "controller=widget&request=default/ba", 404, "it has default/bad"),
    ] {
        let (found, text) = retry(method, query).await;
        assert!(found == code && text.contains(reason), "{query}: {found} {text}");
    }
}

#[tokio::test]
async fn the_api_answers_in_the_documented_shapes() {
    let env = environment().await;
    let (_manager, _running, address) = operator(&env).await;

    let (code, overview) = fetch(address, "overview").await;
    assert_eq!(code, 200, "{overview}");
    assert_eq!(
        (&overview["name"], &overview["state"], &overview["leader"], &overview["findings"][0]["id"]),
        (&json!("test"), &json!("Ready"), &json!({ "leads": true }), &json!("long-back-off"))
    );
    let summary = json!({
        "name": "widget", "kind": "Widget.example.com", "queued": 0, "waiting": 2, "running": 0, "workers": 3,
        "failing": 1, "runs": 3, "failures": 1,
    });
    assert_eq!(stable(overview["controllers"][0].clone(), &["took"]), summary);

    let (code, detail) = fetch(address, "controllers/widget").await;
    assert_eq!(code, 200, "{detail}");
    for (member, value) in summary.as_object().unwrap() {
        assert_eq!(detail[member], *value, "{member}");
    }
    assert_eq!(
        (&detail["sources"], &detail["byRule"], &detail["errors"], &detail["failedEvents"]),
        (
            &json!(["widgets.example.com", "configmaps"]),
            &json!({ "delay": 1, "rateLimiter": 1 }),
            &json!([{ "text": "no luck", "count": 1, "example": "Widget default/bad" }]),
            &json!([])
        )
    );
    let caused = json!({ "source": "widgets.example.com", "change": "created", "runs": 3 });
    assert_eq!(detail["bySource"][1], caused, "{detail}");

    let (code, request) = fetch(address, "controllers/widget/requests/Widget%20default/bad").await;
    assert_eq!((code, &request["request"]), (200, &json!("Widget default/bad")), "{request}");
    assert_eq!(
        (&request["runs"][0]["result"], &request["runs"][0]["writes"]),
        (&json!({ "failed": "no luck" }), &json!([]))
    );
    assert_eq!(fetch(address, "controllers/widget/requests/default/bad").await.1["attempt"], 1);

    let (code, caches) = fetch(address, "caches").await;
    let widgets = &caches["items"][1];
    assert_eq!((code, &widgets["resource"]), (200, &json!("widgets.example.com")), "{caches}");
    assert_eq!(
        (&widgets["synced"], &widgets["objects"], &widgets["unreadable"]),
        (&json!(true), &json!(3), &json!(0))
    );
    assert!(widgets.get("failure").is_none() && widgets["bytes"].as_u64() > Some(0), "{caches}");

    let (code, object) = fetch(address, "objects/example.com/widgets/default/bad").await;
    let object = stable(object, &["uid", "version", "created"]);
    assert_eq!(code, 200, "{object}");
    assert_eq!((&object["kind"], &object["finalizers"]), (&json!("Widget"), &json!([])));
    assert_eq!(object["managers"][0]["manager"], "kubectl", "{object}");
    assert_eq!(object["requests"][0]["request"], "Widget default/bad", "{object}");
    let (code, findings) = fetch(address, "findings").await;
    assert_eq!((code, &findings["items"][0]["subject"]), (200, &json!("Widget default/bad")));
}

#[tokio::test]
async fn an_object_leads_to_the_requests_of_its_owner_in_no_namespace() {
    let env = environment().await;
    let manager = guarded_on(&env, Reviews::default());
    Builder::managed_by(&manager).for_kind::<Namespace>().complete(NoteAll::new()).unwrap();
    let _widgets = manager.cached::<Widget>();
    let _running = Running::start(manager.clone()).await;
    let client = Client::new(env.client(), "kubectl");
    let owner = client.get(&ObjectKey::<Namespace>::new((), "default")).await.unwrap().unwrap();
    let mut owned = widget("owned", 1);
    set_controller_reference(&owner, &mut owned).unwrap();
    client.create(&owned).await.unwrap();
    let address = manager.metrics_address().unwrap();
    let request = json!([{ "controller": "namespace", "request": "Namespace default", "state": "idle" }]);
    // It ran at the start, and may still run.
    let found = eventually(LIMIT, async || {
        let (code, object) = fetch(address, "objects/example.com/widgets/default/owned").await;
        match code == 200 && object["owners"][0]["name"] == "default" && object["requests"] == request {
            true => Ok(()),
            false => Err(format!("{code}: {object}")),
        }
    });
    found.await.unwrap();
}

#[tokio::test]
async fn calls_to_the_api_server_are_counted_with_their_errors() {
    let env = environment().await;
    let (manager, _running, address) = operator(&env).await;
    let missing = manager.client().get::<ConfigMap>(&ObjectKey::new("default", "none")).await.unwrap();
    assert!(missing.is_none());
    manager.client().create(&widget("bad", 2)).await.unwrap_err();
    Client::new(env.client(), "other").create(&widget("own", 1)).await.unwrap();
    let (code, cluster) = fetch(address, "cluster").await;
    assert_eq!(
        (code, &cluster["leader"], &cluster["webhooks"]),
        (200, &json!({ "leads": true }), &json!([]))
    );
    let calls = cluster["calls"].as_array().unwrap();
    let of = |verb: &str| calls.iter().find(|calls| calls["verb"] == verb).unwrap();
    assert_eq!((&of("get")["calls"], &of("create")["calls"]), (&json!(1), &json!(1)), "{cluster}");
    assert_eq!(of("create")["errors"], json!({ "409": 1 }), "{cluster}");
    assert!(of("get")["took"]["p99"].as_f64() > Some(0.0), "{cluster}");
}

#[tokio::test]
async fn requests_are_listed_by_state_rule_and_name_in_pages() {
    let env = environment().await;
    let (_manager, _running, address) = operator(&env).await;
    let list = async |query: &str| {
        let (code, page) = fetch(address, &format!("controllers/widget/requests?{query}")).await;
        assert_eq!(code, 200, "{query}: {page}");
        let items = page["items"].as_array().unwrap().iter();
        let mut names: Vec<String> = items.map(|item| item["request"].as_str().unwrap().to_owned()).collect();
        names.sort();
        (names, page["next"].as_str().map(str::to_owned))
    };
    let names = |all: &[&str]| all.iter().map(|name| format!("Widget default/{name}")).collect::<Vec<_>>();
    for (query, expected) in [
        ("", names(&["bad", "later"])),
        ("state=waiting&rule=delay", names(&["later"])),
        ("state=waiting&rule=rateLimiter", names(&["bad"])),
        ("state=waiting&rule=debounce", vec![]),
        ("state=failing", names(&["bad"])),
        ("state=failing&rule=rateLimiter", names(&["bad"])),
        ("state=failing&rule=delay", vec![]),
        ("state=recent", names(&["bad", "fine", "later"])),
        ("state=recent&contains=in", names(&["fine"])),
        ("state=running", vec![]),
    ] {
        assert_eq!(list(query).await, (expected, None), "{query}");
    }
    let (first, next) = list("state=recent&limit=2").await;
    assert_eq!(first.len(), 2);
    let (rest, end) = list(&format!("state=recent&limit=2&after={}", next.expect("a page follows"))).await;
    assert_eq!((rest, end), (names(&["later"]), None));
}

#[tokio::test]
async fn invalid_requests_are_answered_with_a_hint() {
    let env = environment().await;
    let (_manager, _running, address) = operator(&env).await;
    for (path, code, message) in [
        ("nothing", 404, "there is no such path: see overview, "),
        ("controllers/gadget", 404, "there is no controller gadget: the manager has widget\n"),
        (
            "controllers/widget/requests/default/worse",
            404,
            "controller widget has no request default/worse in its queue",
        ),
        ("controllers/widget/requests/", 404, "controller widget has no request "),
        (
            "controllers/widget/requests?state=lying",
            400,
            "unknown state lying: give queued, waiting, running,",
        ),
        ("controllers/widget/requests?rule=golden", 400, "unknown rule golden: give delay, rateLimiter,"),
        ("controllers/widget/requests?after=dinner", 400, "dinner is not the `next` of an earlier answer\n"),
        ("controllers/widget/requests?limit=0", 400, "limit 0 is not from 1 to 1000\n"),
        ("controllers/widget/requests?limit=1001", 400, "limit 1001 is not from 1 to 1000\n"),
        ("events?request=default/bad", 400, "the parameter controller is missing: give controller=NAME\n"),
        ("objects/core/secrets/default/x", 404, "this operator does not cache secrets of group \"\"\n"),
        ("objects/example.com/widgets/default/x", 404, "the API server has no Widget of this name\n"),
        (
            "objects/example.com/widgets/..%2Fkube-system/x",
            400,
            "\"../kube-system\" is not the name of an object or namespace\n",
        ),
        (
            "objects/example.com/widgets/default/x,y=z",
            400,
            "\"x,y=z\" is not the name of an object or namespace\n",
        ),
    ] {
        let (answered, body) = fetch(address, path).await;
        let body = body.as_str().expect("a text");
        assert_eq!(answered, code, "{path}: {body}");
        assert!(body.starts_with(message), "{path}: {body}");
    }
}

#[tokio::test]
async fn only_the_page_needs_no_authorization() {
    let env = environment().await;
    let (_manager, _running, address) = operator(&env).await;
    for path in ["/explain/v1/overview", "/explain/v1/events", "/explain/v1/", "/explain"] {
        assert_eq!(get(address, path, "").await.0, 401, "{path}");
    }
    let (code, page) = get(address, "/explain/", "").await;
    assert_eq!(code, 200);
    assert!(page.starts_with("<!doctype html>"), "{page}");
    assert_eq!(get(address, "/explain/other", "Authorization: Bearer good\r\n").await.0, 404);

    let open = serving(&env, MetricsServerOptions::default().bind_address(anywhere()));
    let _open_runs = Running::start(open.clone()).await;
    let (code, refusal) = get(open.metrics_address().unwrap(), "/explain/v1/overview", "").await;
    assert_eq!(code, 403);
    assert!(refusal.contains("serve metrics with AllowedTo::Authorized"), "{refusal}");
}

/// A stream of server-sent events.
struct Events {
    stream: TcpStream,
    text: String,
}

impl Events {
    async fn open(address: SocketAddr, query: &str) -> Self {
        let mut stream = connect(address).await;
        let request = format!(
            "GET /explain/v1/events?{query} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer good\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut events = Self { stream, text: String::new() };
        let head = events.until("\r\n\r\n").await;
        assert!(
            head.starts_with("HTTP/1.1 200 ") && head.contains("content-type: text/event-stream"),
            "{head}"
        );
        events
    }

    /// Reads up to this text.
    async fn until(&mut self, end: &str) -> String {
        loop {
            if let Some(place) = self.text.find(end) {
                let rest = self.text.split_off(place + end.len());
                return std::mem::replace(&mut self.text, rest);
            }
            let mut buffer = [0; 4096];
            let read = tokio::time::timeout(LIMIT, self.stream.read(&mut buffer));
            let count = read.await.expect("an event").unwrap();
            assert!(count > 0, "the stream ended: {}", self.text);
            self.text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        }
    }

    /// The next event of this name.
    async fn next(&mut self, name: &str) -> Value {
        self.until(&format!("event: {name}\ndata: ")).await;
        serde_json::from_str(self.until("\n\n").await.trim_end()).unwrap()
    }
}

#[tokio::test]
async fn each_change_is_sent_as_an_event_until_the_manager_stops() {
    let env = environment().await;
    let (_manager, running, address) = operator(&env).await;
    let mut events = Events::open(address, "controller=widget&request=default/bad").await;
    assert_eq!(events.next("overview").await["controllers"][0]["runs"], 3);
    assert_eq!(events.next("request").await["attempt"], 1);
    Client::new(env.client(), "kubectl").create(&widget("new", 1)).await.unwrap();
    while events.next("overview").await["controllers"][0]["runs"] != 4 {}
    // An open stream does not delay the shutdown.
    running.stop().await.unwrap();
    let mut rest = Vec::new();
    events.stream.read_to_end(&mut rest).await.unwrap();
    assert!(rest.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&rest));
}

#[tokio::test]
async fn a_ninth_stream_is_refused_until_another_ends() {
    let env = environment().await;
    let (_manager, _running, address) = operator(&env).await;
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(Events::open(address, "").await);
    }
    let (code, refusal) = fetch(address, "events").await;
    assert_eq!(
        (code, refusal.as_str().unwrap().starts_with("8 clients receive events already")),
        (503, true)
    );
    drop(open.pop());
    let admitted = eventually(LIMIT, async || {
        let mut stream = connect(address).await;
        let request = b"GET /explain/v1/events HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer good\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.unwrap();
        if &head == b"HTTP/1.1 200" { Ok(()) } else { Err(String::from_utf8_lossy(&head).into_owned()) }
    });
    admitted.await.unwrap();
}
