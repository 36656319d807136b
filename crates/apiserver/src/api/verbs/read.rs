//! GET of one object, or of a list.

use std::sync::Arc;

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD, URL_SAFE_NO_PAD};
use kube_apimachinery::decode;
use kube_apimachinery::status::ApiError;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::items::{self, Items, Walk};
use super::reply::{self, ListMeta, Reply};
use super::{Call, list_reply, require_name};
use crate::api::selection::Selection;
use crate::request::query::{ListOptions, RevisionMatch, revision};
use crate::state::Turns;
use crate::store::{Key, Snapshot, Stored};

/// Returns one object.
pub(crate) async fn get(call: &Call) -> Result<Reply, ApiError> {
    let wanted = get_options(call)?;
    let stored = match call.stale {
        None => call.cluster.read(|store| store.get(call.served.storage(), &call.key()).cloned()),
        Some(_) => call.cluster.read(|store| call.any_state(store)).snapshot().get(&call.key()).cloned(),
    };
    let stored = stored.ok_or_else(|| call.not_found())?;
    // With a revision kube-apiserver reads its cache of converted objects, and without one etcd, whose object
    // it converts each time.
    let stored = match wanted {
        Some(_) => call.converted(stored).await?,
        None => call.converted_now(stored).await?,
    };
    reply::stored(call, 200, &stored)
}

/// Checks the options of a GET, and returns the revision that it requires.
///
/// # Errors
/// 400 for an option that is no longer supported, or an error about the name or the revision.
pub(super) fn get_options(call: &Call) -> Result<Option<u64>, ApiError> {
    if call.query.flag("export") == Some(true) {
        let why = "the export parameter, deprecated since v1.14, is no longer supported";
        return Err(ApiError::bad_request(why));
    }
    require_name(&call.path.name)?;
    revision(call.query.text("resourceVersion")).map_err(|why| {
        // kube-apiserver reads uncached kinds from its storage, which has an error of its own.
        if call.served.resource.rules.cached {
            ApiError::internal(why)
        } else {
            ApiError::bad_request(format!("invalid resource version: {why}"))
        }
    })
}

/// Returns a list, or a page of it.
pub(crate) async fn list(call: &Call) -> Result<Reply, ApiError> {
    let options = ListOptions::of_list(&call.query)?;
    let selection = Selection::parse(&call.served, &call.path.name, &options)?;
    let page = ListPage::read(call, &options)?.converted(call, &options, &selection).await?;
    let (items, meta) = page.select(call, &options, selection).await;
    list_reply::answer(call, &meta, items).await
}

/// Maximum number of objects that are converted together, in several reviews. The webhook has nothing to do between the last review of
/// these and the first one of the next.
const MAX_CONVERTED: usize = 10_000;
/// Like [`MAX_CONVERTED`], for a page with selectors, which a few objects may complete.
const CONVERTED_FOR_PAGE: usize = 500;

/// State of the collection to list, and the start of the page.
pub(super) struct ListPage {
    snapshot: Snapshot,
    start: Option<Key>,
    /// Whether `limit` applies. It does not if `resourceVersion` is 0.
    limited: bool,
}

impl ListPage {
    /// Reads the state that the options select, and the start of the page.
    ///
    /// # Errors
    /// 400 for an invalid revision or token, 410 for one that is too old.
    pub(super) fn read(call: &Call, options: &ListOptions) -> Result<Self, ApiError> {
        let storage = call.served.storage();
        let now = Instant::now();
        if !options.continue_token.is_empty() {
            let token = decode_token(&options.continue_token, &call.path.namespace)
                .map_err(|why| ApiError::bad_request(format!("invalid continue token: {why}")))?;
            let wanted = options.resource_version.as_str();
            if !matches!(wanted, "" | "0") {
                return Err(ApiError::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            let snapshot = match token.revision {
                // The token comes from an expired list: continue with the current state.
                None => call.cluster.read(|store| store.snapshot(storage)),
                Some(revision) => call
                    .cluster
                    .read(|store| store.past(storage, revision, now))
                    .map_err(|_| expired(call, &token.start))?
                    .snapshot(),
            };
            return Ok(Self { snapshot, start: Some(token.start), limited: wanted != "0" });
        }
        let wanted = revision(&options.resource_version)
            .map_err(|why| ApiError::bad_request(format!("invalid resource version: {why}")))?;
        let exact = match (options.revision_match, wanted) {
            (Some(RevisionMatch::Exact), Some(wanted)) => Some(wanted),
            // As in kube-apiserver, the first page of a list at a revision has exactly that revision, unless the client sets
            // `resourceVersionMatch`.
            (None, Some(wanted)) if wanted != 0 && options.limit.is_some() => Some(wanted),
            _ => None,
        };
        let snapshot = match exact {
            None => call.cluster.read(|store| call.any_state(store)),
            Some(revision) => {
                call.cluster.read(|store| store.past(storage, revision, now)).map_err(|_| {
                    ApiError::new(410, "Expired", "The resourceVersion for the provided list is too old.")
                })?
            }
        }
        .snapshot();
        Ok(Self { snapshot, start: None, limited: wanted != Some(0) })
    }

    /// Converts the objects of the page to the version of the request, if the kind has a conversion webhook. Objects after the page stay in
    /// their stored version.
    ///
    /// # Errors
    /// 500 if the webhook fails.
    pub(super) async fn converted(
        mut self,
        call: &Call,
        options: &ListOptions,
        selection: &Selection,
    ) -> Result<Self, ApiError> {
        if call.served.webhook.is_none() {
            return Ok(self);
        }
        let limit = options.limit.filter(|_| self.limited);
        let stored = self.snapshot.clone();
        let mut rest = stored.range(&call.path.namespace, self.start.as_ref());
        let mut turns = Turns::default();
        let mut left = limit;
        while left != Some(0) {
            let most = match left {
                None => MAX_CONVERTED,
                // Every object that the key selects fills the page, so the exact number is known.
                Some(left) if selection.is_about_key() => left.min(MAX_CONVERTED),
                Some(_) => CONVERTED_FOR_PAGE,
            };
            let batch = rest.by_ref().filter(|(key, _)| selection.matches_key(key)).take(most);
            let batch: Vec<(&Key, &Arc<Stored>)> = batch.collect();
            if batch.is_empty() {
                break;
            }
            let objects: Vec<Arc<Stored>> = batch.iter().map(|(_, stored)| Arc::clone(stored)).collect();
            let converted = call.all_converted(&objects).await?;
            for ((key, stored), object) in batch.into_iter().zip(converted) {
                if let Some(left) = &mut left {
                    *left = left.saturating_sub(usize::from(selection.matches(&call.served, key, &object)));
                }
                if !Arc::ptr_eq(stored, &object) {
                    self.snapshot.replace(key, object);
                }
                turns.pass().await;
            }
        }
        Ok(self)
    }

    /// Returns the objects of the page, and the metadata of the list.
    pub(super) async fn select(
        &self,
        call: &Call,
        options: &ListOptions,
        selection: Selection,
    ) -> (Items, ListMeta) {
        let revision = self.snapshot.revision();
        let limit = options.limit.filter(|_| self.limited);
        let mut meta = ListMeta { revision, continue_token: None, remaining: None };
        let mut held = Vec::new();
        let mut next = None;
        let (mut selected, mut last) = (0, None);
        let mut rest = self.snapshot.range(&call.path.namespace, self.start.as_ref());
        let mut turns = Turns::default();
        for (key, stored) in rest.by_ref() {
            if !selection.is_about_key() {
                // Evaluating selectors parses the object, so other tasks run in between.
                turns.pass().await;
            }
            if !selection.matches(&call.served, key, stored) {
                continue;
            }
            // The rest of a long list is selected again while it is written, so that it is never held as a
            // whole.
            if held.len() < items::MAX_HELD {
                held.push((key.clone(), Arc::clone(stored)));
            } else if next.is_none() {
                next = Some(key.clone());
                if limit.is_none() {
                    break;
                }
            }
            selected += 1;
            last = Some(key);
            if Some(selected) == limit {
                break;
            }
        }
        if Some(selected) == limit && self.has_more(call, &selection, &mut rest) {
            meta.continue_token = last.map(|last| encode_token(&call.path.namespace, last, revision));
            // As in kube-apiserver, lists with selectors have no number: their remaining objects are not evaluated.
            meta.remaining = selection.is_everything().then(|| rest.count() + 1);
        }
        let walk = next.map(|next| Walk {
            served: Arc::clone(&call.served),
            selection: Arc::new(selection),
            snapshot: self.snapshot.clone(),
            namespace: call.path.namespace.clone(),
            next,
            left: limit.map_or(usize::MAX, |_| selected - items::MAX_HELD),
        });
        (Items::new(held, walk), meta)
    }

    /// Whether a full page has a token. As in kube-apiserver, any further object of the collection counts, whether it matches or not, unless
    /// the selectors lead to one object by its name, or to the pods of a node by an index.
    fn has_more<'a>(
        &self,
        call: &Call,
        selection: &Selection,
        rest: &mut impl Iterator<Item = (&'a Key, &'a Arc<Stored>)>,
    ) -> bool {
        let resource = &call.served.resource;
        let is_first = self.start.is_none();
        let has_key = !resource.namespaced || !call.path.namespace.is_empty();
        if is_first && has_key && selection.required("metadata.name").is_some() {
            return false;
        }
        let is_of_kind = resource.group.is_empty() && resource.plural == "pods";
        match selection.required("spec.nodeName").filter(|_| is_first && is_of_kind) {
            Some(node) => {
                let indexed = |stored: &Stored| {
                    call.served.value(stored)["spec"]["nodeName"].as_str().unwrap_or_default() == node
                };
                rest.any(|(_, stored)| indexed(stored))
            }
            None => rest.next().is_some(),
        }
    }
}

/// Builds the 410. It contains a token with which the list continues in the current state.
fn expired(call: &Call, start: &Key) -> ApiError {
    let token = token_text(&call.path.namespace, start.as_str(), CURRENT);
    ApiError::new(
        410,
        "Expired",
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without \
         the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
         Continuing with the provided token results in an inconsistent list - objects that were created, modified, or \
         deleted between the time the first chunk was returned and now may show up in the list.",
    )
    .with_continue(&token)
}

/// Returns the token that continues after `last`.
fn encode_token(namespace: &str, last: &Key, revision: u64) -> String {
    // No name contains a NUL, so this key is the first possible one after `last`.
    token_text(namespace, &format!("{}\0", last.as_str()), i64::try_from(revision).unwrap_or(i64::MAX))
}

/// Revision in a token that continues in the current state.
const CURRENT: i64 = -1;

fn token_text(namespace: &str, start: &str, revision: i64) -> String {
    let relative = start.strip_prefix(namespace).unwrap_or(start).trim_start_matches('/');
    let token = json!({"v": "meta.k8s.io/v1", "rv": revision, "start": format!("/{relative}")});
    URL_SAFE_NO_PAD.encode(token.to_string())
}

struct Token {
    /// Revision of the list; `None` for the current state.
    revision: Option<u64>,
    start: Key,
}

/// Returns the revision at which a continue token continues a list; `None` without a valid token, or if the list continues in the current
/// state. Invalid options count as no token, because the list is refused before it is read.
pub(crate) fn continued_revision(call: &Call) -> Option<u64> {
    let token = Some(call.query.text("continue")).filter(|token| !token.is_empty())?;
    ListOptions::of_list(&call.query).ok()?;
    decode_token(token, &call.path.namespace).ok()?.revision
}

/// Decoder of tokens. As in Go, the unused bits of the last character do not matter.
const LENIENT: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

fn decode_token(text: &str, namespace: &str) -> Result<Token, String> {
    let invalid = |why: &str| format!("continue key is not valid: {why}");
    let encoded: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let illegal = |at: usize| invalid(&format!("illegal base64 data at input byte {at}"));
    let is_digit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if let Some(at) = text.find(|c| !is_digit(c) && !matches!(c, '\r' | '\n')) {
        return Err(illegal(at));
    }
    // Go decodes groups of four characters and reports the start of an incomplete one.
    let bytes = LENIENT.decode(&encoded).map_err(|_| illegal(encoded.len() / 4 * 4))?;
    let token: Value = serde_json::from_slice(&bytes)
        .map_err(|_| invalid(&decode::json(&bytes).err().unwrap_or_default()))?;
    let version = token.get("v").and_then(Value::as_str).unwrap_or_default();
    if version != "meta.k8s.io/v1" {
        return Err(invalid(&format!("server does not recognize this encoded version {version}")));
    }
    let revision = token.get("rv").and_then(Value::as_i64).unwrap_or(0);
    if revision == 0 {
        return Err(invalid("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
    }
    let start = token.get("start").and_then(Value::as_str).unwrap_or_default();
    if start.is_empty() {
        return Err(invalid("encoded start key empty (version meta.k8s.io/v1)"));
    }
    if start.split('/').any(|segment| segment == "..") {
        return Err(invalid(start));
    }
    let relative = start.trim_start_matches('/');
    let start = if namespace.is_empty() { relative.to_owned() } else { format!("{namespace}/{relative}") };
    Ok(Token { revision: u64::try_from(revision).ok(), start: Key::from_text(&start) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_decoded_to_their_parts() {
        for (namespace, key) in
            [("ns", Key::new("ns", "a")), ("", Key::new("ns", "a")), ("", Key::new("", "a"))]
        {
            let token = decode_token(&encode_token(namespace, &key, 7), namespace).unwrap();
            assert_eq!(token.revision, Some(7));
            assert_eq!(token.start.as_str(), format!("{}\0", key.as_str()));
        }
    }

    /// Observed with kube-apiserver v1.36.3.
    #[tokio::test]
    async fn a_full_page_has_a_token_if_any_object_follows() {
        const MAPS: &str = "/api/v1/namespaces/default/configmaps";
        let server = crate::testing::server();
        for (name, label) in [("a", "x"), ("b", "y"), ("c", "z")] {
            let map = json!({"metadata": {"name": name, "labels": {"l": label}}});
            crate::testing::create(&server, MAPS, &map).unwrap();
        }
        let meta = async |query: &str| {
            let mut call = crate::testing::call(&server, MAPS);
            call.query = crate::request::query::Query::parse(query);
            let options = ListOptions::of_list(&call.query).unwrap();
            let selection = Selection::parse(&call.served, "", &options).unwrap();
            let page = ListPage::read(&call, &options).unwrap();
            let (_, meta) = page.select(&call, &options, selection).await;
            (meta.continue_token.is_some(), meta.remaining)
        };
        assert_eq!(meta("limit=1").await, (true, Some(2)));
        assert_eq!(meta("limit=3").await, (false, None));
        assert_eq!(meta("limit=1&labelSelector=l%3Dx").await, (true, None));
        assert_eq!(meta("limit=1&labelSelector=l%3Dz").await, (false, None));
        assert_eq!(meta("limit=1&fieldSelector=metadata.name!%3Db").await, (true, None));
        // A name leads to one object without a list.
        assert_eq!(meta("limit=1&fieldSelector=metadata.name%3Da").await, (false, None));
    }

    #[test]
    fn broken_tokens_are_explained() {
        for (token, why) in [
            ("notatoken", "continue key is not valid: illegal base64 data at input byte 8"),
            ("e30", "continue key is not valid: server does not recognize this encoded version "),
            ("e31", "continue key is not valid: server does not recognize this encoded version "),
            ("e3\n0", "continue key is not valid: server does not recognize this encoded version "),
            ("zz", "continue key is not valid: invalid character 'Ï' looking for beginning of value"),
            ("z", "continue key is not valid: illegal base64 data at input byte 0"),
            ("a+b", "continue key is not valid: illegal base64 data at input byte 1"),
            ("e30=", "continue key is not valid: illegal base64 data at input byte 3"),
        ] {
            assert_eq!(decode_token(token, "").err().unwrap(), why);
        }
    }

    #[tokio::test]
    async fn a_list_by_labels_yields_to_other_tasks() {
        use futures::FutureExt;

        use crate::testing;
        const MAPS: &str = "/api/v1/namespaces/default/configmaps";
        let server = testing::server();
        for n in 0..100 {
            testing::create(&server, MAPS, &json!({"metadata": {"name": format!("m{n}")}})).unwrap();
        }
        let mut call = testing::call(&server, MAPS);
        assert!(list(&call).now_or_never().is_some(), "without a selector nothing is parsed");
        call.query = crate::request::query::Query::parse("labelSelector=a");
        assert!(list(&call).now_or_never().is_none());
        assert_eq!(list(&call).await.unwrap().code, 200);
    }

    #[tokio::test]
    async fn a_watch_by_labels_yields_to_other_tasks() {
        use futures::task::noop_waker;
        use http_body::Body;
        use std::task::Context;

        use crate::api::verbs::watch;
        use crate::testing;
        const MAPS: &str = "/api/v1/namespaces/default/configmaps";
        let server = testing::server();
        let data = "x".repeat(32 << 10);
        let map = |name: String| json!({"metadata": {"name": name}, "data": {"k": data}});
        for n in 0..200 {
            testing::create(&server, MAPS, &map(format!("m{n:03}"))).unwrap();
        }
        let start = |query: &str| {
            let mut call = testing::call(&server, MAPS);
            call.query = crate::request::query::Query::parse(query);
            Box::pin(watch::run(call, None, None, None).unwrap().body)
        };
        let waker = noop_waker();
        let mut context = Context::from_waker(&waker);
        // Only the last object matches, so the watch sends nothing before.
        let mut labelled = map("z".to_owned());
        labelled["metadata"]["labels"] = json!({"a": "b"});
        testing::create(&server, MAPS, &labelled).unwrap();
        for query in ["watch=true&labelSelector=a%3Db", "watch=true&labelSelector=a%3Db&resourceVersion=1"] {
            let mut body = start(query);
            let mut polls = 1;
            while body.as_mut().poll_frame(&mut context).is_pending() {
                polls += 1;
                assert!(polls < 1000);
            }
            // Selectors read 6.4 MiB, 512 KiB per poll.
            assert!((12..50).contains(&polls), "{polls} polls of {query}");
        }
    }
}
