//! A Kubernetes API server inside your process.
//!
//! Responses are tested against recorded responses of kube-apiserver v1.36. Unlike kube-apiserver, the server starts in
//! milliseconds, needs neither etcd nor a socket, and follows tokio's time, which tests can pause. Use it where a
//! test, an example or a development loop needs the real API, but not a whole cluster.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::api::{Api, ListParams, PostParams};
//! use kube_apiserver_embedded::{ApiServer, Options};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::start(Options::default());
//! let client = kube::Client::new(server.service(), "default");
//! let maps: Api<ConfigMap> = Api::default_namespaced(client);
//! let mut map = ConfigMap::default();
//! map.metadata.name = Some("settings".into());
//! maps.create(&PostParams::default(), &map).await?;
//! assert_eq!(maps.list(&ListParams::default()).await?.items.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! One store holds all objects: a revision counter, an ordered persistent map for each stored resource, and the latest events of
//! each. The server parses a request, validates it against the schema of its kind, and turns it into a commit that is conditional
//! on the object's revision. Expensive work happens outside the store's lock and is repeated if the object changed meanwhile. A
//! list is a snapshot; a watch is a cursor into the history. Builtin and custom kinds share one code path.
//!
//! Responses are JSON, YAML or protobuf, as the client prefers. Custom objects and tables have no protobuf message and are not
//! offered in protobuf. Objects are stored as JSON text, and protobuf is encoded while that text is read. A watch event is
//! encoded once for all watches that ask for the same encoding.
//!
//! With a data file, commits are also passed, in order, to a thread that writes many of them in one transaction. Responses and
//! events wait until their revision is in the file, so that no client observes a change that a killed process would lose.
//!
//! Schemas, patches, server-side apply, selectors and encodings are in the crate `kube-apimachinery`. The modules in reading
//! order, each of which imports only from earlier ones: `webhook_client`, `user`, `store`, `kind` (kinds as data), `kinds` (their
//! rules), `metrics`, `state` (the cluster), `bootstrap`, `controllers`, `request`, `faults`, `response`, `api` (stages of a
//! request), `http`, `listener`, `api_server`.
//!
//! # Faults
//!
//! [`ApiServer::faults`] injects faults: requests that are slow, fail, are reset or lose their response; watches that close,
//! expire, stall or lag; revisions that are compacted. See [`faults`].
//!
//! # Users
//!
//! Callers in process are administrators. [`ApiServer::service_for`] returns a service for any other user, whose permissions come
//! from roles and bindings.
//!
//! Over a socket, the server authenticates users by [`Tokens`], client certificates ([`Options::client_authority`]) and tokens of
//! service accounts. Other clients are anonymous and may only read health and version. If neither `Tokens` nor client certificates
//! are configured, every client is admin, except for those with a service account token.
//!
//! As in kube-apiserver, users may impersonate others if roles allow it, and can grant only permissions that they hold.
//! [`Options::authorization`] turns access control off.
//!
//! [`ApiServer::audit`] records requests in order, each with its user and the rule of the role that allowed it. `/metrics` shows
//! requests, watches, stored objects and webhooks with the names and labels of kube-apiserver.
//!
//! # Features
//!
//! - `program` (default): the program `kube-apiserver-embedded`. It includes the features below.
//! - `tls`: TLS and HTTP/2 for [listeners](ApiServer::listen_with), and calls of webhooks over sockets.
//! - `persistence`: [data files](ApiServer::open).
//! - `gzip`: compressed responses.
//! - `websocket`: watches over WebSocket. Without it the upgrade is ignored and the client gets an ordinary watch.
//!
//! None of them is needed in process: use `default-features = false`.
//!
//! # Defaults and bounds
//!
//! Requests:
//!
//! - A request body may be 3 MiB. Bytes beyond the first 64 KiB of each body share a pool of 128 MiB; when it is empty the answer
//!   is 429.
//! - JSON and YAML may be nested 127 levels deep and protobuf 100. Deeper bodies are answered with 400; kube-apiserver accepts
//!   10,000 levels of JSON.
//! - Query parameters after the first 128 are ignored.
//! - A request times out with 504 after 60 s, or sooner if its `timeout` parameter says so. A write also times out 34 s after its
//!   body arrived.
//! - A write is attempted at most 64 times if other writes change the object meanwhile.
//!
//! CustomResourceDefinitions:
//!
//! - The errors of a schema have at most 1 MiB of text. A schema that an error quotes is cut off after 64 KiB.
//! - The distinct patterns of a schema may have 128 KiB of text. Their automata may take 1 MiB, and each at most 512 KiB. Patterns
//!   beyond that are not checked, and the response has a warning.
//! - The path of a printer column may have 4 KiB and 16 nested filters, and may visit 10,000 values. Beyond that the cell is empty.
//!
//! Watches and history:
//!
//! - The history of a resource holds at most 10,000 events and 32 MiB. Requests may start at most five minutes back
//!   ([`Options::history_age`]).
//! - A watch buffers at most 64 KiB for its client. A watch that falls behind the history ends.
//! - Events (the `Event` resource) are deleted an hour after their last write ([`Options::event_ttl`]).
//!
//! Connections:
//!
//! - A client has 32 s for the TLS handshake and 120 s to send the head of an HTTP/1.1 request.
//! - An HTTP/2 connection carries up to 1000 concurrent requests, each with up to 256 KiB of headers. The client must answer a
//!   ping within 20 s.
//! - A client that reads nothing for 60 s is disconnected. A response other than a watch is cut off if the client has not read
//!   all of it after 60 s.
//! - A response above 128 KiB is generated while the client reads it. It holds about 64 KiB of output, and a snapshot of the
//!   collection as it was when the list began.
//!
//! # What is served
//!
//! Custom resources, and all builtin resources of kube-apiserver v1.36, with its defaults and the schemas of their fields. Of the
//! other validation of builtin resources, the rules that clients meet most often are implemented. The objects are stored without
//! effect: no pod runs, no certificate is signed, no policy is evaluated, and no APIService is proxied. Services get a cluster IP of
//! [`Options::service_range`] and their node ports, at which no process listens.
//!
//! Writes pass the [admission plugins](AdmissionPlugin) that kube-apiserver runs by default, except those for policies. Options
//! switch plugins on and off.
//!
//! Responses name the flow schema and priority level of the request (`X-Kubernetes-PF-FlowSchema-UID`,
//! `X-Kubernetes-PF-PriorityLevel-UID`), from which clients learn that they need not limit their own rate. The server itself
//! does not limit requests either; inject a fault to simulate overload.
//!
//! A server starts with the objects of every new cluster:
//!
//! - four namespaces;
//! - all roles and bindings of kube-apiserver v1.36. `admin`, `edit` and `view` have rules in profile [`Dev`](Profile::Dev) only,
//!   because a controller aggregates them;
//! - the priority classes, flow schemas and the ServiceCIDR;
//! - APIServices for everything that is served, custom resources included;
//! - in `default` the Service `kubernetes` with its Endpoints and EndpointSlice. They name the listener that was opened last, or
//!   127.0.0.1:6443 without a listener; the port is named `https` with and without TLS.
//!
//! In profile [`Dev`](Profile::Dev) every namespace also gets a service account `default`, for pods that name none, and, if a
//! listener uses TLS, a ConfigMap `kube-root-ca.crt` with its certificate authority. The objects that ResourceQuotas limit are
//! counted, so that the quotas are enforced. In every profile the [authorities](Options::client_authority) of client certificates are
//! published in the ConfigMap `extension-apiserver-authentication` of `kube-system`. The server creates IPAddresses for
//! Services, and no Lease for itself.
//!
//! Changes of immutable fields of volumes and claims are refused with Kubernetes' message, without the diff that kube-apiserver
//! appends.
//!
//! `serviceaccounts/token` issues service account tokens, with audiences, an expiration and a bound object. The server accepts
//! them as credentials and verifies them in TokenReviews, with or without other [`Tokens`]. A request with a token that is no
//! longer valid is answered with 401. Without [keys](Options::service_account_keys), tokens are signed with HMAC, so only this server
//! can verify them. If [`Tokens`] or client certificates are configured, the HMAC key is new at each start, which invalidates earlier
//! tokens. With keys, other programs can verify tokens by `/.well-known/openid-configuration` and `/openid/v1/jwks`.
//!
//! Pods have no processes, and there are no kubelets. `pods/log` of a pod without a node is empty. Connections (`pods/exec`,
//! `pods/attach`, `pods/portforward`, and `proxy` of pods, services and nodes) pass admission and then fail: as on a cluster if
//! the pod has no node or the service has no endpoints, and otherwise with 501. ComponentStatuses report that the scheduler and
//! the controller manager are unreachable; they are not probed.
//!
//! With the feature `websocket` watches are also served over WebSocket (HTTP/1.1, with an `Origin` header). Each event is a message.
//!
//! The server calls admission webhooks over HTTPS, or in process through a [`WebhookTransport`].
//!
//! When a client creates an object without effect, such as an admission policy, the response contains a `Warning`. `docs/book/src/reference/api-server-differences.md`
//! of the repository lists the missing admission plugins and all other known differences from kube-apiserver.
//!
//! # Limitations
//!
//! - There are no admission policies.
//! - A changed CustomResourceDefinition takes effect at once: watches of its objects end, and clients never receive the error that
//!   storage is being initialized.
//! - The [clock](faults::Faults::advance_clock) changes timestamps in objects and calculations with them. Timeouts, bookmarks and
//!   the age of the history follow tokio's time.
//! - Only profile [`Dev`](Profile::Dev) removes the finalizers that protect volumes and claims in use. Elsewhere a client has to
//!   remove them, as with envtest.
//! - A pod that is assigned to a node never terminates: after a deletion the pod stays until a client deletes it with a grace
//!   period of 0, as a kubelet does.
//! - The state is in memory and is lost with the last handle, unless the server uses a [data file](ApiServer::open).
//! - If every client is admin (see [Users](#users)), listeners accept only loopback addresses, and refuse requests that a web page
//!   in a browser may have sent: those with an `Origin` other than the server, or with a `Host` other than an address, `localhost`
//!   or a name of the Service `kubernetes`.

// A large future would be copied with every request. Tests are exempt: their futures are moved only once.
#![cfg_attr(not(test), warn(clippy::large_futures))]

mod api;
mod api_server;
mod bootstrap;
mod controllers;
pub mod faults;
mod http;
mod kind;
mod kinds;
mod listener;
mod metrics;
mod request;
mod response;
mod state;
mod store;
#[cfg(test)]
mod testing;
mod user;
mod webhook_client;

pub use api::admission::{AdmissionPlugin, UnknownAdmissionPlugin};
pub use api::audit;
#[cfg(feature = "program")]
pub use api::authentication::InvalidTokenFile;
pub use api::authentication::Tokens;
#[cfg(feature = "tls")]
pub use api::authentication::{
    ClientAuthority, InvalidClientAuthority, InvalidServiceAccountKey, ServiceAccountKeys,
};
pub use api::authorization::{AuthorizationMode, UnknownAuthorizationMode};
#[doc(hidden)]
pub use api_server::Checkpoint;
pub use api_server::{ApiServer, Options, Profile, Switch};
pub use http::{ApiService, GIT_VERSION};
pub use kinds::builtin::service::pool::ServiceRange;
pub use kube_clock::Epoch;
#[cfg(feature = "tls")]
pub use listener::{CannotGenerate, GeneratedCertificate, InvalidServingCertificate, ServingCertificate};
pub use listener::{ListenError, ListenOptions, Listener, Transport};
pub use response::ResponseBody;
#[cfg(feature = "persistence")]
pub use state::persistence::{DataFile, DataFileError};
#[doc(hidden)]
pub use state::{Commit, CommittedObject};
pub use user::UserInfo;
pub use webhook_client::WebhookTransport;
