//! A session that `cargo operator dev` drives: that program builds and runs the operator, and the project's program `dev` runs the API
//! server.
//!
//! Thus `cargo operator` contains no API server, and the server has the version of the project's libraries.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr},
    process::ExitCode,
    thread,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{
    mpsc::{self, Sender},
    oneshot,
};

use super::{
    DevError, KindCount, PreviousObjects, Progress, Rendered, Session, SessionFlags, SessionOptions,
    change_lines::FailedReconcile,
    session_protocol::{Message, Previous, Refusal, RefusalKind, Request, SCHEMA},
};

/// Environment variable that requests a driven session. Its value is the schema of the messages.
pub(super) const VARIABLE: &str = "OPERATOR_SESSION";

/// Longest request, in bytes. The largest CustomResourceDefinitions have some MiB.
const MAX_REQUEST: u64 = 64 << 20;

/// Requests that wait while one is carried out. `cargo operator dev` sends the next request after an answer.
const WAITING_REQUESTS: usize = 1;

/// Carries out the requests on standard input, until that ends.
pub(super) async fn run(schema: &str) -> ExitCode {
    let served = serve(schema, BufReader::new(io::stdin()), MAX_REQUEST, io::stdout()).await;
    // The error needs no output: either nothing reads the messages any longer, or a message has reported it.
    if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Carries out requests until `input` ends, even if it ends during a request.
///
/// # Errors
///
/// `output` cannot be written, `schema` is not the schema of these messages, or a request has more than `max` bytes, so that the next one
/// cannot be found.
async fn serve(
    schema: &str,
    input: impl BufRead + Send + 'static,
    max: u64,
    mut output: impl Write,
) -> io::Result<()> {
    let mut send = |message: Message| {
        output.write_all(message.line().as_bytes())?;
        output.flush()
    };
    let library = env!("CARGO_PKG_VERSION");
    // Sent before anything can fail, so that the other program knows with which version it talks.
    send(Message::Hello { schema: SCHEMA, library })?;
    if schema != SCHEMA {
        let message =
            format!("kube-envtest {library} uses session schema {SCHEMA}, but {schema} was requested");
        send(Message::Error(Refusal { kind: RefusalKind::Schema, message }))?;
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // One waiting request is enough, because the other program waits for each answer. The thread then blocks.
    let (sender, mut lines) = mpsc::channel(WAITING_REQUESTS);
    let (end, ended) = oneshot::channel::<()>();
    // A read of standard input cannot be cancelled. The thread ends with the input, or with the process.
    thread::spawn(move || {
        if read_lines(input, max, &sender) == Reading::Ended {
            let _ = end.send(());
        }
    });
    let mut driven = DrivenSession { flags: None, running: None };
    let work = async {
        loop {
            tokio::select! {
                biased;
                // Requests come before lines, so that a busy cluster delays no answer.
                line = lines.recv() => match line {
                    None => return Ok(()),
                    Some(Err(error)) => {
                        send(Message::Error(Refusal::request(error.to_string())))?;
                        return Err(error);
                    }
                    Some(Ok(line)) => send(match driven.answer(&line).await {
                        Ok(answer) => Message::Answer(answer),
                        Err(refusal) => Message::Error(refusal),
                    })?,
                },
                line = driven.next_line() => send(Message::Line(line))?,
            }
        }
    };
    tokio::select! {
        biased;
        result = work => result,
        // If the thread fails without a message, `work` reports the error after its current request.
        Ok(()) = ended => Ok(()),
    }
}

/// Reason why reading has stopped.
#[derive(PartialEq, Eq)]
enum Reading {
    /// The input ended, or the session did.
    Ended,
    /// The last line is an error.
    Failed,
}

/// Sends each line of the input, and an error if one cannot be read or is longer than `max` bytes.
fn read_lines(mut input: impl BufRead, max: u64, lines: &Sender<io::Result<Vec<u8>>>) -> Reading {
    loop {
        let mut line = Vec::new();
        // One byte more than the longest line, for its end.
        let read = match input.by_ref().take(max + 1).read_until(b'\n', &mut line) {
            Ok(0) => return Reading::Ended,
            Ok(_) if line.pop_if(|byte| *byte == b'\n').is_some() => Ok(line),
            // The input ended in the middle of a line.
            Ok(_) if line.len() as u64 <= max => return Reading::Ended,
            Ok(_) => {
                Err(io::Error::new(io::ErrorKind::InvalidData, format!("a line has more than {max} bytes")))
            }
            Err(error) => Err(error),
        };
        let failed = read.is_err();
        if lines.blocking_send(read).is_err() {
            return Reading::Ended;
        }
        if failed {
            return Reading::Failed;
        }
    }
}

/// State of a driven session.
struct DrivenSession {
    /// `None` until they are requested.
    flags: Option<SessionFlags>,
    /// `None` until the API server is started.
    running: Option<(Session, Progress)>,
}

impl DrivenSession {
    /// Waits for the next line about objects.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses no line.
    async fn next_line(&mut self) -> String {
        match &mut self.running {
            Some((_, progress)) => progress.next_line().await,
            None => std::future::pending().await,
        }
    }

    /// Carries out a request.
    async fn answer(&mut self, line: &[u8]) -> Result<Value, Refusal> {
        Ok(match Request::parse(line)? {
            Request::Flags { more } => {
                let flags = SessionFlags::new(&more)?;
                let words = json!({ "words": flags.words() });
                self.flags = Some(flags);
                words
            }
            Request::Start { folder, port, previous, services, definitions } => {
                if self.running.is_some() {
                    // A second session would need another lock, server and address.
                    return Err(Refusal::request("the session is started already"));
                }
                let previous = match previous {
                    Previous::Restore => PreviousObjects::Restore,
                    Previous::Delete => PreviousObjects::Delete,
                };
                let options = SessionOptions::new(folder)
                    .services(services)
                    .webhook_address(self.flags()?.webhooks())
                    .address(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
                    .keep_objects(previous);
                let definitions = parsed(definitions)?;
                let (session, progress) = Session::start(options).await?;
                let objects = session.count(&definitions).await?;
                let objects: Vec<_> = objects
                    .iter()
                    .map(|KindCount { singular, plural, count }| {
                        json!({ "singular": singular, "plural": plural, "count": count })
                    })
                    .collect();
                let started = json!({
                    "url": session.url(), "objects": objects,
                    "kubeconfig": session.kubeconfig(), "operatorKubeconfig": session.operator_kubeconfig(),
                });
                self.running = Some((session, progress));
                started
            }
            Request::Install { definitions, rights } => {
                let definitions = parsed(definitions)?;
                let session = self.session()?;
                session.define(&definitions).await?;
                session.grant(&Rendered { definitions, rights, services: Vec::new() }).await?;
                json!({ "user": session.user() })
            }
            Request::Starting { services } => {
                self.session()?.replace_services(services).await?;
                // The new program may have repaired them, and a failure of it must be printed in full.
                self.progress()?.forget_failures();
                json!({})
            }
            Request::Failed { kind, namespace, name, error } => {
                self.progress()?.failed(&FailedReconcile { kind, namespace, name, error });
                json!({})
            }
            Request::Apply { path } => {
                let applied = self.session()?.apply_samples(&path).await?;
                json!({ "applied": applied })
            }
            Request::Publish {} => {
                let flags = self.flags()?.clone();
                json!({ "page": self.session()?.publish(&flags)? })
            }
        })
    }

    fn flags(&self) -> Result<&SessionFlags, Refusal> {
        self.flags.as_ref().ok_or_else(|| Refusal::request("the flags of the operator were not requested"))
    }

    fn session(&mut self) -> Result<&mut Session, Refusal> {
        self.running().map(|(session, _)| session)
    }

    fn progress(&mut self) -> Result<&mut Progress, Refusal> {
        self.running().map(|(_, progress)| progress)
    }

    fn running(&mut self) -> Result<&mut (Session, Progress), Refusal> {
        self.running.as_mut().ok_or_else(|| Refusal::request("the session is not started"))
    }
}

fn parsed(definitions: Vec<Value>) -> Result<Vec<CustomResourceDefinition>, DevError> {
    let parse = |definition: Value| {
        CustomResourceDefinition::deserialize(definition).map_err(|error| DevError::Answer(error.to_string()))
    };
    definitions.into_iter().map(parse).collect()
}

#[cfg(test)]
mod tests;
