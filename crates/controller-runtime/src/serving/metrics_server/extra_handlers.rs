//! Additional handlers of the metrics server.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::RwLock;

use super::METRICS_PATH;
use crate::serving::BoxHandler;

/// Handlers by path, other than the metrics. Clones share them.
///
/// A path that ends with a slash matches all paths that begin with it, as in Go's `ServeMux`; the longest path wins.
#[derive(Clone, Default)]
pub(crate) struct ExtraHandlers {
    by_path: Arc<RwLock<BTreeMap<String, BoxHandler>>>,
    /// Handlers that need no authorization, and match exactly.
    public: Arc<RwLock<BTreeMap<String, BoxHandler>>>,
}

impl ExtraHandlers {
    /// Adds a handler; replaces an earlier one of that path.
    pub(crate) fn insert(&self, path: String, handler: BoxHandler) {
        if path == METRICS_PATH {
            tracing::warn!(
                "the extra handler for {METRICS_PATH} is ignored, because metrics are served at that path: give it another one"
            );
            return;
        }
        self.by_path.write().insert(path, handler);
    }

    /// Adds a handler that every client may use, for content that is not secret.
    pub(crate) fn insert_public(&self, path: &str, handler: BoxHandler) {
        self.public.write().insert(path.to_owned(), handler);
    }

    /// The handler of a path that every client may use.
    pub(super) fn get_public(&self, path: &str) -> Option<BoxHandler> {
        self.public.read().get(path).cloned()
    }

    /// The handler of a path.
    pub(super) fn get(&self, path: &str) -> Option<BoxHandler> {
        let by_path = self.by_path.read();
        let below = |known: &&String| known.ends_with('/') && path.starts_with(&***known);
        let found = by_path.get(path);
        found.or_else(|| by_path.get(by_path.keys().filter(below).max_by_key(|known| known.len())?)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;
    use crate::serving::{HttpRequest, boxed, text};

    #[tokio::test]
    async fn a_path_with_a_slash_at_the_end_matches_the_paths_below_it() {
        let handlers = ExtraHandlers::default();
        for path in ["/debug", "/debug/", "/debug/pprof/", "/debug/pprof/heap"] {
            let handler = boxed(move |_: HttpRequest| std::future::ready(text(StatusCode::OK, path)));
            handlers.insert(path.to_owned(), handler);
        }
        for (path, expected) in [
            ("/debug", Some("/debug")),
            ("/debug/", Some("/debug/")),
            ("/debug/vars", Some("/debug/")),
            ("/debug/pprof/cpu", Some("/debug/pprof/")),
            ("/debug/pprof/heap", Some("/debug/pprof/heap")),
            ("/debugger", None),
            ("/", None),
        ] {
            let found = match handlers.get(path) {
                Some(handler) => match handler(HttpRequest::new(())).await.into_body() {
                    crate::serving::ResponseBody::Whole(body) => body,
                    crate::serving::ResponseBody::Stream(_) => panic!("no handler streams"),
                },
                None => None,
            };
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{path}");
        }
        assert!(handlers.get_public("/debug").is_none());
    }
}
