//! What a request asks for, before anything is done about it: where its path leads, what its query and its `Accept` header
//! say, and what object its body holds.
//!
//! Nothing here touches the store. All errors are [`ApiError`](crate::status::ApiError)s with the texts of kube-apiserver.

pub(crate) mod accept;
pub(crate) mod body;
mod go_json;
pub(crate) mod path;
pub(crate) mod query;
pub(crate) mod verb;
pub(crate) mod yaml;
