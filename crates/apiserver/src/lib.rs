//! A Kubernetes API server inside your process.
//!
//! It answers as kube-apiserver v1.36 does, as far as its recorded answers go, but it starts in milliseconds, needs
//! neither etcd nor a socket, and follows tokio's time, paused time included. Use it where a test, an example or a
//! development loop wants a real API and a cluster is too much.
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
//! One store holds everything: a revision counter, an ordered persistent map per stored resource, and the last events
//! of each. A request is read, checked against the schema of its kind, and turned into a commit that compares the
//! object's revision; what is expensive happens outside of the store's lock and starts over if the object changed
//! meanwhile. A list is a snapshot, a watch a cursor into the history. Builtin and custom kinds take the same way.
//!
//! Answers are JSON, YAML, or protobuf where a client prefers that; what has no protobuf message (custom objects, tables)
//! is not offered in it. Objects are stored as JSON text, and an answer in protobuf is written while that text is read; an
//! event of a watch is written once for all watchers of one form.
//!
//! With a data file, commits are also handed, in their order, to a thread that writes them, many in one transaction. Answers
//! and events wait until their revision is in the file, so that nobody is told what a killed process would forget.
//!
//! Modules in reading order: `store`, `request`, `verbs`, `registry` (what is served), `crd`, `server`; beside them
//! `schema`, `managed_fields` and `patch`, pure functions of JSON values, and `builtin`, `protobuf`, `discovery`,
//! `openapi`, `table`, `selector`, what is particular to kinds and views.
//!
//! # Faults
//!
//! [`ApiServer::faults`] makes the server misbehave as told: requests that are slow, refused, reset or lose their
//! response, watches that close, expire, stall or lag, revisions that are compacted. See [`faults`].
//!
//! # Features
//!
//! `program` (default) builds the program `kube-apiserver-embedded`; `tls`, part of it, gives
//! [listeners](ApiServer::listen_with) TLS and HTTP/2, `persistence` [files](ApiServer::open) that keep the objects, `gzip`
//! compressed answers. In process none is needed: `default-features = false`.
//!
//! # Defaults and bounds
//!
//! Bodies have at most 3 MiB, and what they have beyond 64 KiB each 128 MiB together, above which they are answered with 429.
//! JSON is nested up to 127 levels deep, YAML 64, protobuf 100; deeper bodies are 400, where Go takes JSON of 10,000. Of
//! a query 128 parameters are read. A request ends with 504 after 60 s, or sooner if its `timeout` says so, a write 34 s after
//! its body came; a write starts over at most 64 times. A history keeps 10,000 events and 32 MiB per resource, and is told from five minutes back
//! ([`Options::history_age`]); a watch holds at most 64 KiB for its client, and one that falls behind its history ends.
//! Events are deleted an hour after they were last written ([`Options::event_ttl`]).
//! A client has 32 s for a handshake of TLS and 120 s for the head of a request over HTTP/1.1; a connection of HTTP/2 carries
//! up to 1000 requests at once, each with up to 256 KiB of headers, and answers a ping within 20 s. A client that takes
//! nothing of what is sent to it for 60 s is cut off, and one that has not taken all of an answer after 60 s finds it cut, unless
//! the answer is a watch. An answer above 128 KiB is made while it is taken: what of it is held for a client is about 64 KiB,
//! and the state of the collection as it was when a list began.
//!
//! # What is served
//!
//! Custom resources, and all builtin resources of a kube-apiserver v1.36, stored with its defaults; of what else it checks,
//! only what clients run into first. Nothing acts on them: no pod runs, no quota counts, no certificate is signed, no
//! webhook or policy is asked, no APIService leads anywhere, and reviews of access say yes, because nothing is restricted.
//! Addresses and node ports are not allocated: a Service has those that it was given.
//!
//! Answers tell which of the flow schemas a request belongs to (`X-Kubernetes-PF-FlowSchema-UID`,
//! `X-Kubernetes-PF-PriorityLevel-UID`), which is how clients learn that they need not limit themselves. Nothing is limited
//! here either: overload is a fault.
//!
//! A server begins with the objects of every new cluster: four namespaces, the roles that everybody has, those for
//! users of a namespace (`admin`, `edit`, `view`) and their bindings, but none for components; its priority classes,
//! flow schemas and ServiceCIDR, APIServices of all that is served, definitions included, and in `default` the Service `kubernetes` with its Endpoints and EndpointSlice, which name the
//! listener that was opened last, or 127.0.0.1:6443 if there was none; the port is called `https`, with and without
//! TLS. In profile [`Dev`](Profile::Dev) every namespace has a service account `default`. Where a listener has TLS, its
//! authority is in the ConfigMap `extension-apiserver-authentication` of `kube-system`, and in profile
//! [`Dev`](Profile::Dev) in a ConfigMap `kube-root-ca.crt` of every namespace. Absent are the IPAddresses of Services and the
//! lease of the server.
//!
//! Tables show the columns that were recorded, and those of Endpoints and EndpointSlices; of a few kinds (HorizontalPodAutoscalers,
//! ResourceQuotas, StorageClasses, ClusterRoleBindings, dynamic resource allocation) only when the object was created. What may not
//! change of volumes and their claims is refused in the words of Kubernetes, without the diff that it appends.
//!
//! `autoscaling/v1` keeps what it has no field for in the annotations of Kubernetes, but in the form of `autoscaling/v2`.
//!
//! A service account gets tokens from `serviceaccounts/token`, with audiences, a time and an object that they end with. The
//! server knows who sends one and whose it is (TokenReview), whether or not it has other [`Tokens`]; one that holds no longer
//! is 401. They are signed by HMAC, so that nobody but the server can check them, and there are no keys to publish
//! (`/openid/v1/jwks`). With [`Tokens`] the key is new at each start, and with it tokens end.
//!
//! Absent is what only a node or another server could answer: `pods/log`, `pods/exec`, `pods/attach`, `pods/portforward`, and
//! `proxy` of pods, services and nodes. ComponentStatuses are listed as a kind, and there are none of them.
//!
//! # What is not here
//!
//! Client certificates, admission webhooks and policies, validation rules in CEL, access control. Impersonation: a request with
//! one of its headers is refused. A definition that changes does so at once: watches of its objects end, and nobody is told that
//! storage is being initialized. The [clock](faults::Faults::advance_clock) moves the times in objects and what is reckoned from
//! them, but no timeout, bookmark or history, which follow tokio's. Nothing says of a volume or claim that it is no longer in
//! use but in profile [`Dev`](Profile::Dev): elsewhere the finalizers that protect them stay until a client takes them away, as
//! under envtest. Nobody ends a pod on a node: once deleted, it has its time, and is there until a client deletes it with a
//! grace of 0, as a kubelet does. The state is in
//! memory and goes with the last handle, unless it is in a [file](ApiServer::open) too. With [`Tokens`] the server
//! knows its users, who may all do everything. Without, everybody who reaches it is admin, which is why it listens on
//! loopback addresses only.

mod admission;
mod authentication;
mod authorization;
mod bootstrap;
mod builtin;
mod clock;
mod crd;
mod discovery;
mod event_ttl;
pub mod faults;
mod flow_control;
mod gc;
mod go;
mod managed_fields;
mod namespaces;
mod openapi;
mod patch;
mod path;
#[cfg_attr(not(feature = "persistence"), path = "no_persistence.rs")]
mod persistence;
mod protection;
mod protobuf;
mod quantity;
mod registry;
mod request;
mod resource;
mod schema;
mod selection;
mod selector;
mod server;
mod status;
mod store;
mod table;
#[cfg(test)]
mod testing;
mod verbs;

#[cfg(feature = "program")]
pub use authentication::InvalidTokenFile;
pub use authentication::{Tokens, UserInfo};
pub use kube_clock::Epoch;
#[cfg(feature = "persistence")]
pub use persistence::{DataFile, DataFileError};
pub use server::{
    ApiServer, ApiService, ListenError, ListenOptions, Listener, Options, Profile, ResponseBody, Transport,
};
