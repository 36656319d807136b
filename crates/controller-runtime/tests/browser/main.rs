//! The page of explanations in a headless browser, over a server that checks tokens. Skipped without a browser, unless
//! `REQUIRE_BROWSER=1`. `SCREENSHOTS=FOLDER` writes pictures.
#![expect(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod devtools;

use std::time::Duration;

use controller_runtime::{
    Action, Builder, Client, Context, Manager, ManagerOptions, ObjectKey, ReconcileError, Reconciler,
    controller::ControllerOptions,
    manager::ManagerError,
    serving::{AllowedTo, MetricsServerOptions},
    workqueue::ItemFastSlow,
};
use k8s_openapi::api::{
    core::v1::{ConfigMap, Secret},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube_apiserver_embedded::{AuthorizationMode, Options, Tokens, UserInfo};
use kube_envtest::Environment;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::devtools::Browser;

/// Text that would be dangerous as markup.
const HOSTILE: &str = "theme <img src=x onerror=\"document.title='owned'\"> not found";

/// Fails for objects called `wedding`, and waits after others.
struct Themes;

impl Reconciler for Themes {
    type Request = ObjectKey<ConfigMap>;

    async fn reconcile(&self, key: &ObjectKey<ConfigMap>, _: &Context) -> Result<Action, ReconcileError> {
        match key.name() {
            "wedding" => Err(ReconcileError::new(HOSTILE)),
            _ => Ok(Action::requeue_after(Duration::from_secs(600))),
        }
    }
}

/// An operator with its page. Ends when it is dropped.
struct Operator {
    url: String,
    manager: Manager,
    env: Environment,
    _running: JoinSet<Result<(), ManagerError>>,
}

impl Operator {
    async fn start() -> Self {
        Self::start_with(AuthorizationMode::AlwaysAllow).await
    }

    async fn start_with(authorization: AuthorizationMode) -> Self {
        let mut server = Options::default();
        let reader = UserInfo::new("reader", "", ["readers"]);
        let tokens = Tokens::new().with("good", UserInfo::new("jane", "", ["system:masters"]));
        server.tokens = Some(tokens.with("reader", reader));
        server.authorization = authorization;
        let env = Environment::builder().server_options(server).start().await.unwrap();
        let metrics = MetricsServerOptions::default()
            .allowed_to(AllowedTo::Authorized)
            .bind_address("127.0.0.1:0".parse().unwrap());
        let manager = Manager::new(env.client(), ManagerOptions::new("guestbook").metrics(metrics).seed(1));
        let quarter = Duration::from_secs(900);
        let limiter = ItemFastSlow::new(quarter, quarter, 1);
        Builder::managed_by(&manager)
            .for_kind::<ConfigMap>()
            .owns::<Secret>()
            .named("guestbook")
            .with_options(ControllerOptions::default().rate_limiter(limiter).max_concurrent_reconciles(2))
            .complete(Themes)
            .unwrap();
        let mut running = JoinSet::new();
        let ready = manager.ready();
        running.spawn({
            let manager = manager.clone();
            async move { manager.run(std::future::pending()).await }
        });
        ready.await.unwrap();
        let url = format!("http://{}/explain/", manager.metrics_address().unwrap());
        let operator = Self { url, manager, env, _running: running };
        for name in ["wedding", "birthday", "garden"] {
            operator.create(name).await;
        }
        operator
    }

    async fn create(&self, name: &str) {
        let object =
            json!({ "metadata": { "name": name, "namespace": "default" }, "data": { "theme": "roses" } });
        let object: ConfigMap = serde_json::from_value(object).unwrap();
        Client::new(self.env.client(), "kubectl").create(&object).await.unwrap();
    }

    /// Opens the page and signs in.
    async fn open(&self, browser: &mut Browser, view: &str) {
        self.open_as(browser, "good", view).await;
    }

    /// Opens the page and signs in with a token.
    async fn open_as(&self, browser: &mut Browser, token: &str, view: &str) {
        browser.open(&format!("{}{view}", self.url)).await;
        browser.wait_until("document.getElementById('login')?.open").await;
        browser.write(token).await;
        browser.press("Enter").await;
        browser.wait_until("document.querySelector('.pill.good')?.textContent === 'live'").await;
    }
}

/// View of the request that fails.
const WEDDING: &str = "#/controllers/guestbook/requests/ConfigMap%20default%2Fwedding";

#[tokio::test]
async fn a_request_is_retried_by_a_button() {
    let Some(mut browser) = Browser::start(1280, 900).await else { return };
    let operator = Operator::start().await;
    operator.open(&mut browser, WEDDING).await;
    browser.shows("1 failed run since its last success.").await;
    // By keyboard, and the focus stays.
    browser.value("document.getElementById('retry').focus()").await;
    browser.press("Enter").await;
    browser.shows("it runs as soon as a worker is free.").await;
    browser.shows("because of retry by a user").await;
    assert_eq!(browser.value("document.activeElement.id").await, "retry");
    browser.picture("retried").await;
    assert_eq!(problems(&browser), Vec::<String>::new());
}

#[tokio::test]
async fn a_reader_without_the_right_to_retry_is_refused() {
    let Some(mut browser) = Browser::start(1280, 900).await else { return };
    let operator = Operator::start_with(AuthorizationMode::Rbac).await;
    let client = Client::new(operator.env.client(), "kubectl");
    let rules = json!([{ "nonResourceURLs": ["/explain", "/explain/*"], "verbs": ["get"] }]);
    let role: ClusterRole =
        serde_json::from_value(json!({ "metadata": { "name": "reader" }, "rules": rules })).unwrap();
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "reader" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "readers" }],
    }))
    .unwrap();
    client.create(&role).await.unwrap();
    client.create(&binding).await.unwrap();
    operator.open_as(&mut browser, "reader", WEDDING).await;
    browser.shows("1 failed run since its last success.").await;
    browser.value("document.getElementById('retry').click()").await;
    browser
        .shows("Not permitted: the token's user needs the verb post on the nonResourceURL /explain/v1/retry.")
        .await;
    browser.picture("retry-refused").await;
    // The page does not ask for another token: the user may still read.
    assert_eq!(browser.value("document.getElementById('login').open").await, false);
    browser.shows("1 failed run since its last success.").await;
    let problems: Vec<_> =
        problems(&browser).into_iter().filter(|problem| !problem.contains("403")).collect();
    assert_eq!(problems, Vec::<String>::new());
}

/// Everything that a browser reports, except for the requests without a valid token.
fn problems(browser: &Browser) -> Vec<String> {
    browser.problems().into_iter().filter(|problem| !problem.contains("401")).collect()
}

#[tokio::test]
async fn a_link_can_bring_the_token_which_is_not_kept_in_the_address() {
    let Some(mut browser) = Browser::start(1280, 900).await else { return };
    let operator = Operator::start().await;
    browser.open(&format!("{}#token=good&/controllers/guestbook", operator.url)).await;
    browser.shows("Controller guestbook").await;
    browser.shows("of 2 busy").await;
    assert_eq!(browser.value("location.hash").await, "#/controllers/guestbook");
    assert_eq!(problems(&browser), Vec::<String>::new());
}

#[tokio::test]
async fn the_page_asks_for_a_token_and_then_follows_the_operator() {
    let Some(mut browser) = Browser::start(1280, 900).await else { return };
    let operator = Operator::start().await;
    browser.open(&operator.url).await;
    browser.wait_until("document.getElementById('login')?.open").await;
    browser.picture("sign-in").await;
    assert_eq!(browser.value("document.activeElement.id").await, "token");
    browser.write("bad").await;
    browser.press("Enter").await;
    browser.shows("The API server does not accept this token.").await;
    browser.write("good").await;
    browser.press("Enter").await;

    browser.shows("ConfigMap default/wedding waits 1").await;
    browser.shows("long-back-off").await;
    assert_eq!(browser.value("document.title").await, "(1) guestbook");
    browser.picture("overview-light").await;
    // The numbers follow by themselves.
    let waiting = "document.querySelector('tbody tr td:nth-of-type(5)')?.textContent";
    browser.wait_until(&format!("{waiting} === '3'")).await;
    operator.create("anniversary").await;
    browser.wait_until(&format!("{waiting} === '4'")).await;

    // Foreign texts are shown as they are.
    browser.value("document.querySelector('.finding a').click()").await;
    browser.shows(HOSTILE).await;
    browser.shows("back-off after failures").await;
    browser.shows("wrote nothing").await;
    browser.shows("kubectl").await;
    browser.picture("request-light").await;
    assert_eq!(browser.value("document.querySelectorAll('main img').length").await, 0);
    assert_eq!(browser.value("document.title").await, "(1) guestbook");

    browser.value("location.hash = '#/controllers/guestbook'").await;
    browser.shows("1 failed").await;
    browser.picture("controller-light").await;
    browser.value("location.hash = '#/controllers/gadget'").await;
    browser.shows("there is no controller gadget: the manager has guestbook").await;
    browser.value("location.hash = '#/search/garden'").await;
    browser.shows("ConfigMap default/garden").await;

    let origin = operator.url.trim_end_matches("explain/");
    let foreign: Vec<_> = browser
        .requests()
        .into_iter()
        .filter(|url| !url.starts_with(origin) && !url.starts_with("data:"))
        .collect();
    assert_eq!(foreign, Vec::<String>::new());
    // The only request that may fail is the one for a controller that does not exist.
    let problems: Vec<_> =
        problems(&browser).into_iter().filter(|problem| !problem.contains("gadget")).collect();
    assert_eq!(problems, Vec::<String>::new());

    drop(operator);
    browser.shows("connection lost").await;
}

#[tokio::test]
async fn every_view_is_reached_by_keyboard() {
    let Some(mut browser) = Browser::start(1280, 900).await else { return };
    let operator = Operator::start().await;
    operator.open(&mut browser, "").await;
    let title = |text: &str| format!("document.querySelector('h1').textContent === {}", json!(text));
    browser.wait_until(&title("Overview")).await;
    browser.wait_until("document.querySelector('.finding a')").await;

    // A finding is the first row; the controller follows.
    browser.press("ArrowDown").await;
    assert_eq!(browser.value("document.activeElement.textContent").await, "ConfigMap default/wedding");
    browser.press("ArrowDown").await;
    assert_eq!(browser.value("document.activeElement.textContent").await, "guestbook");
    browser.press("Enter").await;
    browser.wait_until("document.querySelector('h1').textContent === 'Controller guestbook'").await;
    browser.wait_until("document.querySelector('tbody th a')").await;
    browser.press("ArrowDown").await;
    browser.press("Enter").await;
    browser.wait_until(&title("ConfigMap default/wedding")).await;
    browser.press("u").await;
    browser.wait_until("document.querySelector('h1').textContent === 'Controller guestbook'").await;
    for (key, heading) in [("c", "Caches"), ("o", "Overview")] {
        browser.press("g").await;
        browser.press(key).await;
        browser.wait_until(&title(heading)).await;
    }
    browser.press("/").await;
    assert_eq!(browser.value("document.activeElement.id").await, "query");
    browser.write("garden").await;
    browser.press("Enter").await;
    browser.shows("ConfigMap default/garden").await;
    browser.press("Escape").await;
    browser.press("?").await;
    browser.wait_until("document.getElementById('keys').open").await;
    browser.press("Escape").await;
    browser.wait_until("!document.getElementById('keys').open").await;
    browser.press("t").await;
    assert_eq!(browser.value("document.documentElement.dataset.theme").await, "light");

    // The first stop of Tab skips the header, and each stop shows that it has the focus.
    browser.open(&format!("{}#/caches", operator.url)).await;
    browser.send("Page.reload", json!({})).await;
    browser.wait_until("document.getElementById('login')?.open").await;
    browser.write("good").await;
    browser.press("Enter").await;
    browser.wait_until("document.querySelector('tbody th')").await;
    browser.value("document.activeElement.blur(); document.body.tabIndex = -1; document.body.focus()").await;
    for _ in 0..8 {
        browser.press("Tab").await;
        let outline = "(e => e !== document.body && getComputedStyle(e).outlineStyle !== 'none')(document.activeElement)";
        let element = browser.value("document.activeElement.outerHTML.slice(0, 200)").await;
        assert_eq!(browser.value(outline).await, true, "{element}");
    }
    assert_eq!(problems(&browser), Vec::<String>::new());
    drop(operator.manager);
}

/// Texts with too little contrast, as the WCAG compute it: 4.5, or 3 for large text.
const FAINT: &str = r"(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = colour => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => { const f = c => (c /= 255) <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4; return .2126 * f(r) + .7152 * f(g) + .0722 * f(b); };
  const behind = e => { for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; } return [255, 255, 255, 255]; };
  const faint = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || e.placeholder;
    if (!own || !e.checkVisibility({ visibilityProperty: true }) || ['SCRIPT', 'STYLE', 'NOSCRIPT'].includes(e.tagName)) continue;
    const style = getComputedStyle(e, e.placeholder && !e.value ? '::placeholder' : null), size = parseFloat(style.fontSize);
    const [a, b] = [light(rgba(style.color)), light(behind(e))].sort((a, b) => b - a);
    const ratio = (a + .05) / (b + .05), large = size >= 24 || size >= 18.66 && style.fontWeight >= 700;
    if (ratio < (large ? 3 : 4.5)) faint.push(`${ratio.toFixed(2)} ${e.tagName}.${e.className}: ${e.textContent.slice(0, 40)}`);
  }
  return faint;
})()";

/// Controls that are smaller than 24 by 24 pixels; links in text are exempt.
const SMALL: &str = r"[...document.querySelectorAll('button, input, nav a, .brand')].filter(e => e.checkVisibility())
  .map(e => [e, e.getBoundingClientRect()]).filter(([, r]) => r.width < 24 || r.height < 24).map(([e]) => e.outerHTML.slice(0, 100))";

/// Words in cells of tables that are broken between lines, and tables that are wider than the window.
const BROKEN: &str = r"[...document.querySelectorAll('th, td')].filter(cell => cell.checkVisibility()).flatMap(cell => {
  const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), range = document.createRange(), broken = [];
  while (texts.nextNode()) {
    for (const word of texts.currentNode.data.matchAll(/[^\s/.-]+/g)) {
      range.setStart(texts.currentNode, word.index);
      range.setEnd(texts.currentNode, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map(line => Math.round(line.top))).size > 1) broken.push(word[0]);
    }
  }
  return broken;
}).concat([...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).map(e => 'wide: ' + e.ariaLabel))";

/// Faults of the structure: heading levels that are skipped, ids that repeat, tables without captions or scopes, fields without labels.
const FAULTS: &str = r"(() => {
  const faults = [], all = q => [...document.querySelectorAll(q)];
  if (document.documentElement.lang !== 'en') faults.push('no language');
  all('h1, h2, h3').filter(h => h.checkVisibility()).map(h => +h.tagName[1]).reduce((before, level) => { if (level > before + 1) faults.push(`h${level} after h${before}`); return level; }, 0);
  const ids = all('[id]').map(e => e.id);
  ids.filter((id, i) => ids.indexOf(id) !== i).forEach(id => faults.push(`two of #${id}`));
  all('table').forEach(t => { if (!t.caption?.textContent) faults.push('a table without caption'); });
  all('th').forEach(th => { if (!th.scope) faults.push('th without scope: ' + th.textContent); });
  all('input').forEach(i => { if (!i.labels.length && !i.ariaLabel) faults.push('no label: ' + i.id); });
  all('svg').forEach(s => { if (s.getAttribute('aria-hidden') !== 'true') faults.push('an image without text'); });
  for (const one of ['main', 'header', 'h1', '[aria-live=polite]']) if (!document.querySelector(one)) faults.push('no ' + one);
  return faults;
})()";

/// Roles of elements that must have a name.
const NAMED: [&str; 10] = [
    "link",
    "button",
    "textbox",
    "searchbox",
    "table",
    "heading",
    "dialog",
    "navigation",
    "region",
    "columnheader",
];

#[tokio::test]
async fn every_view_is_readable_by_everybody() {
    let Some(mut browser) = Browser::start(1280, 900).await else { return };
    let operator = Operator::start().await;
    operator.open(&mut browser, "").await;
    browser.wait_until("document.querySelector('.finding a')").await;
    let views = [
        ("", "document.querySelector('tbody td')"),
        (
            "controllers/guestbook",
            "document.querySelector('tbody td') && document.querySelector('.card .big')",
        ),
        (
            "controllers/guestbook/requests/ConfigMap%20default%2Fwedding",
            "document.querySelector('.runs .fact') && document.querySelector('.pairs details')",
        ),
        ("caches", "document.querySelector('tbody td')"),
        ("search/default", "document.querySelector('tbody td')"),
    ];
    for (view, is_drawn) in views {
        browser.value(&format!("location.hash = '#/{view}'")).await;
        browser.wait_until(is_drawn).await;
        let name =
            view.split('/').next_back().filter(|name| !name.is_empty()).unwrap_or("overview").to_owned();
        for scheme in ["light", "dark"] {
            browser.emulate("prefers-color-scheme", scheme).await;
            assert_eq!(browser.value(FAINT).await, json!([]), "{view} in {scheme}");
            let (paper, dark) =
                (browser.value("getComputedStyle(document.body).backgroundColor").await, "rgb(18, 20, 23)");
            assert_eq!(paper == dark, scheme == "dark", "{paper}");
            browser.picture(&format!("{name}-{scheme}")).await;
        }
        assert_eq!(browser.value(SMALL).await, json!([]), "{view}");
        assert_eq!(browser.value(FAULTS).await, json!([]), "{view}");
        let tree = browser.accessible().await;
        for (role, name) in &tree {
            assert!(!NAMED.contains(&&**role) || !name.trim().is_empty(), "{view}: a {role} without a name");
        }
        for role in ["banner", "navigation", "main", "heading", "searchbox"] {
            assert!(tree.iter().any(|(known, _)| known == role), "{view}: no {role} in {tree:?}");
        }
        // A narrow window, and the default one at 200 %.
        for width in [320, 640] {
            browser.resize(width, 800).await;
            let wide = browser.value("document.documentElement.scrollWidth").await;
            assert!(wide.as_u64() <= Some(width.into()), "{view}: {wide} of {width} pixels");
            assert_eq!(browser.value(BROKEN).await, json!([]), "{view}, {width} pixels");
            browser.picture(&format!("{name}-{width}")).await;
        }
        browser.resize(1280, 900).await;
    }
    browser.emulate("prefers-reduced-motion", "reduce").await;
    let moving =
        browser.value("document.getAnimations().filter(a => a.playState === 'running').length").await;
    assert_eq!(moving, Value::from(0));
    assert_eq!(problems(&browser), Vec::<String>::new());
}
