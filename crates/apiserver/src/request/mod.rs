//! Parsing of requests: the path, the query, the `Accept` header and the object in the body.
//!
//! This module does not access the store. All errors are [`ApiError`](kube_apimachinery::status::ApiError)s with kube-apiserver's
//! messages.

pub(crate) mod accept;
pub(crate) mod info;
pub(crate) mod origin;
pub(crate) mod path;
pub(crate) mod query;
pub(crate) mod request_body;
pub(crate) mod verb;
