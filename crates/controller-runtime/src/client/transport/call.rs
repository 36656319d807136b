//! One request to the API server as a value, which interceptors, the write gate and messages read.

use std::{borrow::Cow, fmt, panic::Location, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use kube::{
    client::Body,
    core::{Status, response::StatusDetails},
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{client_metrics::CountedBody, error::ClientError};
use crate::object::DynamicKind;
pub(in crate::client) use crate::rights::Verb;

/// A request to the API server, before it is sent.
///
/// An [`Interceptor`](crate::client::Interceptor) reads and may change it; a [`WriteGate`](crate::client::WriteGate) reads
/// it. Its `Debug` form leaves out the body, which may be a secret.
#[derive(Clone)]
pub struct Call {
    pub(in crate::client) verb: Verb,
    pub(in crate::client) kind: Arc<DynamicKind>,
    pub(in crate::client) namespace: Option<String>,
    pub(in crate::client) name: Option<String>,
    pub(in crate::client) subresource: Option<String>,
    pub(in crate::client) query: Vec<(&'static str, String)>,
    /// Query parameters added by the caller; this crate does not interpret them.
    pub(in crate::client) more: Vec<(Cow<'static, str>, String)>,
    pub(in crate::client) content_type: &'static str,
    pub(in crate::client) accept: &'static str,
    pub(in crate::client) body: Bytes,
    pub(in crate::client) dry_run: bool,
    /// Time that the request may take, if it differs from the client's.
    pub(in crate::client) timeout: Option<Duration>,
    /// Line that made the call.
    pub(in crate::client) place: &'static Location<'static>,
}

pub(in crate::client) const JSON: &str = "application/json";
/// `Accept` of a request for metadata alone.
pub(in crate::client) const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// Query parameters that change how the client handles a request; only the options of the request may set them.
const RESERVED: [&str; 2] = ["dryRun", "watch"];

/// Characters that are encoded in a part of a path. Those that are not need no encoding by RFC 3986, and stand in names.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// Whether a name or namespace would lead a path to another resource, or, if empty, from one object to the collection.
fn changes_path(part: &str) -> bool {
    matches!(part, "" | "." | "..") || part.contains(['/', '?', '#', '%'])
}

/// Asks for a response that is not compressed. Watches need it: from Kubernetes 1.37 on each event of a compressed watch is a
/// gzip file of its own, and the decompression that feature `gzip` of kube turns on reads only the first.
pub(crate) fn uncompressed<B>(request: &mut http::Request<B>) {
    request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
}

impl Call {
    #[track_caller]
    pub(in crate::client) fn new(verb: Verb, kind: Arc<DynamicKind>) -> Self {
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
            place: Location::caller(),
        }
    }

    /// A call about an object, for tests of code that receives calls.
    #[cfg(test)]
    pub(crate) fn about_object<K: crate::object::StaticObject>(
        verb: Verb,
        namespace: &str,
        name: &str,
    ) -> Self {
        let mut call = Self::new(verb, Arc::new(DynamicKind::of::<K>()));
        (call.namespace, call.name) = (Some(namespace.to_owned()), Some(name.to_owned()));
        call
    }

    #[cfg(test)]
    pub(crate) fn set_field_manager(&mut self, manager: &str) {
        self.push("fieldManager", manager);
    }

    /// The verb.
    #[must_use]
    pub fn verb(&self) -> Verb {
        self.verb
    }

    /// The kind of object.
    #[must_use]
    pub fn kind(&self) -> &DynamicKind {
        &self.kind
    }

    /// The namespace; `None` for cluster-scoped kinds and for requests across namespaces.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The name of the object; `None` for requests about many objects, and for a create with a generated name.
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

    /// Replaces the body.
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

    /// Returns whether the request is a dry run, which stores nothing.
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Line of the program that made the call; `None` if the line is in this crate.
    pub(in crate::client) fn place(&self) -> Option<&'static Location<'static>> {
        let sources = &file!()[..file!().len() - "client/transport/call.rs".len()];
        (!self.place.file().starts_with(sources)).then_some(self.place)
    }

    /// Returns whether the request is a write and not a dry run.
    pub(crate) fn is_stored(&self) -> bool {
        self.verb.is_write() && !self.dry_run
    }

    /// The object or objects of the request, as in messages: `deployments.apps demo/web`, `status of pods demo/web-0`.
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

    /// Returns the error of this request if the API server answered with `code`, `reason` and `message`: for interceptors that
    /// inject failures.
    ///
    /// A `code` that is not an HTTP status code of an error becomes 500.
    #[must_use]
    pub fn refusal(&self, code: u16, reason: &str, message: &str) -> ClientError {
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
        ClientError::refused(self, status, None)
    }

    pub(in crate::client) fn push(&mut self, name: &'static str, value: impl Into<String>) {
        self.query.push((name, value.into()));
    }

    /// Sets a query parameter, which replaces an earlier one of that name.
    pub(in crate::client) fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.query.retain(|(known, _)| *known != name);
        self.push(name, value);
    }

    /// Adds a query parameter on behalf of the caller.
    pub(in crate::client) fn push_more(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<String>,
    ) {
        self.more.push((name.into(), value.into()));
    }

    pub(in crate::client) fn to_http(&self) -> Result<http::Request<Body>, ClientError> {
        for (name, _) in &self.more {
            // The server would act on the caller's value, while this client acts on its own option.
            if RESERVED.contains(&&**name) || self.query.iter().any(|(known, _)| known == name) {
                let reason = format!(
                    "query parameter {name} is reserved by the client: set it with the option of the request"
                );
                return Err(ClientError::not_sent(self, reason));
            }
        }
        for (what, part) in [("namespace", &self.namespace), ("name", &self.name)] {
            if let Some(part) = part.as_deref().filter(|part| changes_path(part)) {
                return Err(ClientError::not_sent(self, format!("{part:?} is not a valid {what}")));
            }
        }
        let mut path = self.kind.path(self.namespace());
        // A create goes to the collection; the name is in its body.
        let name = self.name.as_ref().filter(|_| self.verb != Verb::Create || self.subresource.is_some());
        for part in [name, self.subresource.as_ref()].into_iter().flatten() {
            path.push('/');
            path.extend(utf8_percent_encode(part, ENCODED));
        }
        if !(self.query.is_empty() && self.more.is_empty()) {
            path.push('?');
            let mut parameters = form_urlencoded::Serializer::new(String::new());
            // The client's own parameters first; `more` cannot repeat them, as checked above.
            path.push_str(&parameters.extend_pairs(&self.query).extend_pairs(&self.more).finish());
        }
        let mut request = http::Request::builder()
            .method(self.verb.method())
            .uri(path)
            .header(header::ACCEPT, HeaderValue::from_static(self.accept));
        if !self.body.is_empty() {
            request = request.header(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        }
        let mut request = request.body(Body::from(self.body.clone())).map_err(|error| {
            ClientError::not_sent(self, "it is not a valid HTTP request").caused_by(error)
        })?;
        // Responses to other requests may be compressed, if the program enables it.
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

/// Successful response of the API server.
pub struct Answer {
    pub(in crate::client) code: StatusCode,
    pub(in crate::client) body: Content,
}

pub(in crate::client) enum Content {
    Whole(Bytes),
    /// Body of a watch.
    Stream(CountedBody),
}

impl Answer {
    /// Makes a response with this body, for interceptors that answer themselves.
    pub fn new(body: impl Into<Bytes>) -> Self {
        Self { code: StatusCode::OK, body: Content::Whole(body.into()) }
    }

    /// The HTTP code: 200, 201 or 202.
    #[must_use]
    pub fn code(&self) -> u16 {
        self.code.as_u16()
    }

    /// The body; `None` for a watch, which delivers events as they come.
    #[must_use]
    pub fn body(&self) -> Option<&Bytes> {
        match &self.body {
            Content::Whole(bytes) => Some(bytes),
            Content::Stream(_) => None,
        }
    }

    /// The body, which is empty for a watch.
    pub(in crate::client) fn into_bytes(self) -> Bytes {
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

/// Handling of unknown and duplicate fields by the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drops the fields.
    Ignore,
    /// Drops the fields and returns a warning: the API server's default.
    Warn,
    /// Refuses the request.
    Strict,
}

impl FieldValidation {
    pub(in crate::client) fn as_str(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Warn => "Warn",
            Self::Strict => "Strict",
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{core::v1::ConfigMap, rbac::v1::ClusterRole};

    use super::*;

    fn path(name: &str) -> Result<String, String> {
        let mut call = Call::new(Verb::Get, Arc::new(DynamicKind::of::<ClusterRole>()));
        call.name = Some(name.to_owned());
        call.to_http().map(|request| request.uri().to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_name_is_one_part_of_the_path() {
        let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
        for (name, part) in [
            ("system:controller:job", "system:controller:job"),
            ("all of them", "all%20of%20them"),
            ("a+b", "a%2Bb"),
            ("größe", "gr%C3%B6%C3%9Fe"),
        ] {
            assert_eq!(path(name), Ok(format!("{roles}/{part}")));
        }
        for name in ["", ".", "..", "a/b", "a%2Fb", "a?b", "a#b"] {
            let error = path(name).expect_err("it is refused");
            assert!(error.contains(&format!("{name:?} is not a valid name")), "{error}");
        }
    }

    #[test]
    fn a_parameter_that_is_set_again_replaces_the_first() {
        let mut call = Call::about_object::<ConfigMap>(Verb::Get, "n", "a");
        for version in ["1", "2"] {
            call.set("resourceVersion", version);
        }
        let request = call.to_http().expect("a request");
        assert_eq!(request.uri(), "/api/v1/namespaces/n/configmaps/a?resourceVersion=2");
    }
}
