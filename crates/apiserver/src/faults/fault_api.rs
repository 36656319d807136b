//! Fault API for clients that are not written in Rust: rules, commands and the journal as JSON.

use bytes::Bytes;
use http::Method;
use kube_apimachinery::go;
use kube_apimachinery::status::ApiError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Faults, GroupResource, Rule, RuleId};

/// Path prefix of the fault API.
pub(crate) const PREFIX: &str = "/debug/faults/";

/// A command, which takes effect at once. Each variant calls the method of [`Faults`] of the same name.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum FaultCommand {
    Compact(Compact),
    EvictHistory(GroupResource),
    BookmarkNow(GroupResource),
    CloseWatches(GroupResource),
    StallWatches(GroupResource),
    HoldWatches(GroupResource),
    ReleaseWatches(GroupResource),
    Freeze(GroupResource),
    StopClock,
    ResumeClock,
    /// A duration in Go's format.
    AdvanceClock(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Compact {
    revision: Option<u64>,
}

/// Answers a request to the path [`PREFIX`] + `path`.
///
/// # Errors
/// 400 for an invalid body, 404 for an unknown path, rule or resource, 405 for a method that the path does not
/// support.
pub(crate) fn answer(
    faults: &Faults,
    method: &Method,
    path: &str,
    body: &Bytes,
) -> Result<(u16, Value), ApiError> {
    let done = || Ok((200, json!({})));
    match (method, path) {
        (&Method::GET, "rules") => {
            let rules: Vec<Value> =
                faults.rules().iter().map(|(id, rule)| json!({"id": id, "rule": rule})).collect();
            Ok((200, json!({ "rules": rules })))
        }
        (&Method::POST, "rules") => {
            let rule: Rule = read(body, "rule")?;
            Ok((201, json!({"id": faults.add(rule)})))
        }
        (&Method::DELETE, "rules") => {
            faults.clear();
            done()
        }
        (&Method::GET, "journal") => {
            let journal = faults.journal();
            let entries: Vec<Value> = journal
                .iter()
                .map(|entry| json!({"at": entry.at.to_string(), "what": entry.to_string()}))
                .collect();
            Ok((200, json!({"dropped": journal.dropped(), "entries": entries})))
        }
        (&Method::POST, "commands") => carry_out(faults, read(body, "command")?),
        // Before the unknown paths: the path exists, so the answer is 405 and not 404.
        (_, "rules" | "journal" | "commands") => {
            Err(ApiError::new(405, "MethodNotAllowed", format!("{PREFIX}{path} does not support {method}")))
        }
        (&Method::DELETE, path) => {
            let id = path.strip_prefix("rules/").and_then(|id| id.parse().ok()).map(RuleId);
            match id.and_then(|id| faults.remove(id)) {
                Some(_) => done(),
                None => Err(not_there(&format!("{PREFIX}{path}"))),
            }
        }
        (_, path) => Err(not_there(&format!("{PREFIX}{path}"))),
    }
}

fn read<'a, T: Deserialize<'a>>(body: &'a Bytes, what: &str) -> Result<T, ApiError> {
    serde_json::from_slice(body)
        .map_err(|why| ApiError::bad_request(format!("invalid {what} in the body: {why}")))
}

fn not_there(what: &str) -> ApiError {
    ApiError::new(404, "NotFound", format!("{what} not found"))
}

fn carry_out(faults: &Faults, command: FaultCommand) -> Result<(u16, Value), ApiError> {
    let at = |resource: GroupResource, act: fn(&Faults, &str, &str) -> bool| {
        if act(faults, &resource.group, &resource.plural) {
            Ok(())
        } else {
            Err(not_there(&resource.to_string()))
        }
    };
    match command {
        FaultCommand::Compact(compact) => faults.compact_to(compact.revision.unwrap_or(u64::MAX)),
        FaultCommand::EvictHistory(resource) => at(resource, Faults::evict_history)?,
        FaultCommand::BookmarkNow(resource) => at(resource, Faults::bookmark_now)?,
        FaultCommand::CloseWatches(resource) => at(resource, Faults::close_watches)?,
        FaultCommand::StallWatches(resource) => at(resource, Faults::stall_watches)?,
        FaultCommand::HoldWatches(resource) => at(resource, Faults::hold_watches)?,
        FaultCommand::ReleaseWatches(resource) => at(resource, Faults::release_watches)?,
        FaultCommand::Freeze(resource) => {
            let rule = faults.freeze(&resource.group, &resource.plural);
            let rule = rule.ok_or_else(|| not_there(&resource.to_string()))?;
            return Ok((201, json!({ "id": rule })));
        }
        FaultCommand::StopClock => faults.stop_clock(),
        FaultCommand::ResumeClock => faults.resume_clock(),
        FaultCommand::AdvanceClock(by) => {
            faults.advance_clock(go::duration(&by).map_err(ApiError::bad_request)?);
        }
    }
    Ok((200, json!({})))
}
