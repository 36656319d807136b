//! One request to the API server as a value: what interceptors, the write gate and messages see of it.

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use kube::{
    client::Body,
    core::{Status, response::StatusDetails},
};

use super::{DynamicKind, Error};

/// What a request wants of the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many objects.
    List,
    /// Follow changes.
    Watch,
    /// Make an object.
    Create,
    /// Replace an object.
    Update,
    /// Change fields of an object.
    Patch,
    /// Server-side apply, which the API server knows as a patch.
    Apply,
    /// Delete one object.
    Delete,
    /// Delete many objects.
    DeleteCollection,
}

impl Verb {
    /// Whether it may change something: everything but get, list and watch.
    #[must_use]
    pub fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }

    pub(super) fn method(self) -> http::Method {
        match self {
            Self::Get | Self::List | Self::Watch => http::Method::GET,
            Self::Create => http::Method::POST,
            Self::Update => http::Method::PUT,
            Self::Patch | Self::Apply => http::Method::PATCH,
            Self::Delete | Self::DeleteCollection => http::Method::DELETE,
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Apply => "apply",
            Self::Delete => "delete",
            Self::DeleteCollection => "delete all",
        })
    }
}

/// A request to the API server, before it is sent.
///
/// An [`Interceptor`](super::Interceptor) reads and may change it; a [`WriteGate`](super::WriteGate) reads it. Its `Debug`
/// form leaves out the body, which may be a secret.
#[derive(Clone)]
pub struct Call {
    pub(super) verb: Verb,
    pub(super) kind: Arc<DynamicKind>,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) subresource: Option<String>,
    pub(super) query: Vec<(&'static str, String)>,
    /// What the caller adds to the query, of which nothing is known here.
    pub(super) more: Vec<(Cow<'static, str>, String)>,
    pub(super) content_type: &'static str,
    pub(super) accept: &'static str,
    pub(super) body: Bytes,
    pub(super) dry_run: bool,
    /// Time that it may take, if it differs from what its client allows.
    pub(super) timeout: Option<Duration>,
}

pub(super) const JSON: &str = "application/json";

/// Parameters by which a request is dealt with differently here, so that they are said by its options alone.
const OWN: [&str; 2] = ["dryRun", "watch"];

/// Asks for an answer that is not compressed, as watches must: from Kubernetes 1.37 on each event of a compressed one is
/// a gzip file of its own, of which the decompression that feature `gzip` of kube turns on reads the first.
pub(crate) fn uncompressed<B>(request: &mut http::Request<B>) {
    request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
}

impl Call {
    pub(super) fn new(verb: Verb, kind: Arc<DynamicKind>) -> Self {
        Self {
            verb,
            kind,
            namespace: None,
            name: None,
            subresource: None,
            query: Vec::new(),
            more: Vec::new(),
            content_type: JSON,
            accept: JSON,
            body: Bytes::new(),
            dry_run: false,
            timeout: None,
        }
    }

    /// What is wanted.
    #[must_use]
    pub fn verb(&self) -> Verb {
        self.verb
    }

    /// The kind of object that it is about.
    #[must_use]
    pub fn kind(&self) -> &DynamicKind {
        &self.kind
    }

    /// The namespace; `None` for cluster-scoped kinds and for requests across namespaces.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The name of the object; `None` for requests about many, and for a create whose name the server makes.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The subresource, e.g. `status`; `None` for the object itself.
    #[must_use]
    pub fn subresource(&self) -> Option<&str> {
        self.subresource.as_deref()
    }

    /// The object, patch or options that are sent: JSON, empty for reads.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Sends another body.
    pub fn set_body(&mut self, body: impl Into<Bytes>) {
        self.body = body.into();
    }

    /// The value of a query parameter, e.g. `fieldManager`.
    #[must_use]
    pub fn query(&self, name: &str) -> Option<&str> {
        let own = self.query.iter().map(|(known, value)| (*known, value));
        let mut all = own.chain(self.more.iter().map(|(known, value)| (&**known, value)));
        all.find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// Whether nothing is to be stored.
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// What it is about, as messages name it: `deployments.apps demo/web`, `status of pods demo/web-0`.
    #[must_use]
    pub fn subject(&self) -> String {
        let mut text = match &self.subresource {
            Some(subresource) => format!("{subresource} of {}", self.kind),
            None => self.kind.to_string(),
        };
        match (&self.namespace, &self.name) {
            (Some(namespace), Some(name)) => text += &format!(" {namespace}/{name}"),
            (Some(namespace), None) => text += &format!(" in {namespace}"),
            (None, Some(name)) => text += &format!(" {name}"),
            (None, None) => {}
        }
        text
    }

    /// The error that this request meets when the API server answers with `code`, `reason` and `message`: for
    /// interceptors that inject failures.
    ///
    /// `code` is taken for 500 if it is no HTTP status code of an error.
    #[must_use]
    pub fn refusal(&self, code: u16, reason: &str, message: &str) -> Error {
        let code = if (400..600).contains(&code) { code } else { 500 };
        let details = StatusDetails {
            name: self.name.clone().unwrap_or_default(),
            group: self.kind.resource.group.clone(),
            kind: self.kind.resource.plural.clone(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: 0,
        };
        let status = Status::failure(message, reason).with_code(code).with_details(details);
        Error::refused(self, status, None)
    }

    pub(super) fn push(&mut self, name: &'static str, value: impl Into<String>) {
        self.query.push((name, value.into()));
    }

    /// Adds a parameter that is the caller's affair.
    pub(super) fn push_more(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) {
        self.more.push((name.into(), value.into()));
    }

    pub(super) fn to_http(&self) -> Result<http::Request<Body>, Error> {
        for (name, _) in &self.more {
            // What this client goes by would not be what the API server is told.
            if OWN.contains(&&**name) || self.query.iter().any(|(known, _)| known == name) {
                let reason = format!("query parameter {name} is the client's own: use the option for it");
                return Err(Error::not_sent(self, reason));
            }
        }
        for (what, part) in [("namespace", &self.namespace), ("name", &self.name)] {
            // Such a part would lead to another resource, and an empty name from one object to all.
            if part.as_deref().is_some_and(|part| part.is_empty() || part.contains(['/', '?', '#', '%'])) {
                return Err(Error::not_sent(
                    self,
                    format!("{:?} is not a {what}", part.as_deref().unwrap_or_default()),
                ));
            }
        }
        let mut path = self.kind.path(self.namespace());
        // A create goes to the collection; the name is in its body.
        let name = self.name.as_ref().filter(|_| self.verb != Verb::Create || self.subresource.is_some());
        for part in [name, self.subresource.as_ref()].into_iter().flatten() {
            path.push('/');
            path.extend(form_urlencoded::byte_serialize(part.as_bytes()));
        }
        if !(self.query.is_empty() && self.more.is_empty()) {
            path.push('?');
            let mut parameters = form_urlencoded::Serializer::new(String::new());
            path.push_str(&parameters.extend_pairs(&self.query).extend_pairs(&self.more).finish());
        }
        let mut request = http::Request::builder()
            .method(self.verb.method())
            .uri(path)
            .header(header::ACCEPT, HeaderValue::from_static(self.accept));
        if !self.body.is_empty() {
            request = request.header(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        }
        let mut request = request
            .body(Body::from(self.body.clone()))
            .map_err(|error| Error::not_sent(self, "it makes no valid request").caused_by(error))?;
        if self.verb == Verb::Watch {
            uncompressed(&mut request);
        }
        Ok(request)
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("verb", &self.verb)
            .field("subject", &self.subject())
            .field("query", &self.query)
            .field("more", &self.more)
            .field("body", &format_args!("{} bytes", self.body.len()))
            .finish()
    }
}

/// A good answer of the API server.
pub struct Answer {
    pub(super) code: StatusCode,
    pub(super) body: Content,
}

pub(super) enum Content {
    Whole(Bytes),
    /// Of a watch.
    Stream(Body),
}

impl Answer {
    /// An answer with this body, for interceptors that answer themselves.
    pub fn new(body: impl Into<Bytes>) -> Self {
        Self { code: StatusCode::OK, body: Content::Whole(body.into()) }
    }

    /// The HTTP code: 200, 201 or 202.
    #[must_use]
    pub fn code(&self) -> u16 {
        self.code.as_u16()
    }

    /// What the server sent; `None` for a watch, which goes on.
    #[must_use]
    pub fn body(&self) -> Option<&Bytes> {
        match &self.body {
            Content::Whole(bytes) => Some(bytes),
            Content::Stream(_) => None,
        }
    }

    /// The body, which is empty for a watch.
    pub(super) fn into_bytes(self) -> Bytes {
        match self.body {
            Content::Whole(bytes) => bytes,
            Content::Stream(_) => Bytes::new(),
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.body().map(Bytes::len);
        f.debug_struct("Answer").field("code", &self.code()).field("bytes", &bytes).finish()
    }
}
