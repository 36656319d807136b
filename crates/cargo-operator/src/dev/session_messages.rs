//! Messages of a session: their forms, and the loop that reads them from the output of the program `dev`.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt},
    sync::mpsc::Sender,
};

/// Longest message. A longer line is printed in parts, as output of the user's program.
const MAX_MESSAGE: u64 = 1 << 20;

/// Most lines that wait to be printed. Further lines are left out, and their number is printed.
pub(super) const WAITING_LINES: usize = 1024;

/// The API server of a session that has started.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Started {
    /// Address of the API server.
    pub(super) url: String,
    /// Objects of the operator's kinds that the previous session has left.
    pub(super) objects: Vec<KindCount>,
    /// Path of the administrator's kubeconfig.
    pub(super) kubeconfig: PathBuf,
    /// Path of the kubeconfig of the operator.
    pub(super) operator_kubeconfig: PathBuf,
}

/// Number of stored objects of a kind.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct KindCount {
    /// Name of one object, such as `guestbook`.
    singular: String,
    /// Name of several objects, such as `guestbooks`.
    plural: String,
    count: usize,
}

/// A message of the program `dev`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Message {
    /// The first message.
    Hello {
        schema: String,
        /// Version of `kube-envtest`.
        #[serde(default)]
        library: String,
    },
    /// A line to print.
    Line(String),
    /// The result of a request.
    Answer(Value),
    /// The failure of a request.
    Error { kind: String, message: String },
}

/// The answer to `flags`.
#[derive(Deserialize)]
pub(super) struct Flags {
    pub(super) words: Vec<String>,
}

/// The answer to `apply`.
#[derive(Deserialize)]
pub(super) struct Applied {
    /// Number of objects.
    pub(super) applied: usize,
}

/// The answer to a request that has no result.
#[derive(Deserialize)]
pub(super) struct Done {}

/// The answer to `publish`.
#[derive(Deserialize)]
pub(super) struct Published {
    /// Address of the operator's page of explanations, if it has one.
    pub(super) page: Option<String>,
}

/// `2 guestbooks, 1 photo`; empty without objects.
pub(super) fn counted(counts: &[KindCount]) -> String {
    let named = counts.iter().map(|KindCount { singular, plural, count }| {
        format!("{count} {}", if *count == 1 { singular } else { plural })
    });
    named.collect::<Vec<_>>().join(", ")
}

/// Reads the output of a session until it ends, and sends replies and lines to print. A line that is no message was printed by the
/// user's program, and is printed as it is.
///
/// If `lines` is full, the reader drops lines and later sends a line with their number. It does not wait, because the next reply may
/// follow the lines.
pub(super) async fn read_messages(
    mut output: impl AsyncBufRead + Unpin,
    replies: Sender<Message>,
    lines: Sender<String>,
) {
    let mut left_out = 0_u64;
    loop {
        let mut line = Vec::new();
        match (&mut output).take(MAX_MESSAGE).read_until(b'\n', &mut line).await {
            Ok(1..) => {}
            _ => return,
        }
        let text = match serde_json::from_slice(&line) {
            Ok(Message::Line(text)) => text,
            Ok(reply) => {
                if replies.send(reply).await.is_err() {
                    return;
                }
                continue;
            }
            // The program's own code may print as well.
            Err(_) => String::from_utf8_lossy(&line).trim_end().to_owned(),
        };
        if left_out > 0 && lines.try_send(format!("    ({left_out} lines were left out)")).is_ok() {
            left_out = 0;
        }
        // The reader never waits for lines: replies behind them would be delayed.
        if lines.try_send(text).is_err() {
            left_out += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::{
        io::{AsyncWriteExt, BufReader},
        sync::mpsc,
        task::JoinSet,
    };

    use super::*;

    /// Another session may have left objects of several kinds: each is named, because no other objects are counted.
    #[test]
    fn objects_of_the_previous_session_are_named() {
        for (answer, expected) in [
            ("[]", ""),
            (r#"[{"singular":"photo","plural":"photos","count":1}]"#, "1 photo"),
            (
                r#"[{"singular":"dnspolicy","plural":"dnspolicies","count":12},{"singular":"photo","plural":"photos","count":1}]"#,
                "12 dnspolicies, 1 photo",
            ),
        ] {
            let counts: Vec<KindCount> = serde_json::from_str(answer).expect("counts");
            assert_eq!(counted(&counts), expected);
        }
    }

    /// Lines that are not printed in time do not stop the API server.
    #[tokio::test]
    async fn lines_beyond_the_queue_are_counted() {
        let (reply, mut replies) = mpsc::channel(1);
        let (line, mut lines) = mpsc::channel(2);
        let mut output = String::new();
        for number in 0..5 {
            output += &format!("{{\"line\":\"{number}\"}}\n");
        }
        output += "{\"answer\":{}}\n{\"line\":\"last\"}\n";
        // The answer arrives although nothing has taken the lines.
        read_messages(output.as_bytes(), reply, line).await;
        assert_eq!(replies.recv().await, Some(Message::Answer(json!({}))));
        assert_eq!(lines.recv().await.as_deref(), Some("0"));
        assert_eq!(lines.recv().await.as_deref(), Some("1"));
        assert_eq!(lines.recv().await, None);

        let (reply, mut replies) = mpsc::channel(1);
        let (line, mut lines) = mpsc::channel(1);
        let (mut writer, output) = tokio::io::duplex(1024);
        let mut reader = JoinSet::new();
        reader.spawn(read_messages(BufReader::new(output), reply, line));
        writer
            .write_all(b"{\"line\":\"0\"}\n{\"line\":\"1\"}\n{\"line\":\"2\"}\n{\"answer\":{}}\n")
            .await
            .expect("room");
        replies.recv().await.expect("an answer");
        assert_eq!(lines.recv().await.as_deref(), Some("0"));
        writer.write_all(b"{\"line\":\"3\"}\n{\"answer\":{}}\n").await.expect("room");
        replies.recv().await.expect("an answer");
        assert_eq!(lines.recv().await.as_deref(), Some("    (2 lines were left out)"));
        drop(writer);
        reader.join_next().await.expect("a task").expect("it ends");
    }
}
