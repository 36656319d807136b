//! Access to clusters through kubectl, which has the user's credentials and forwards ports.

use std::{process::Stdio, str::FromStr};

use kube_apimachinery::selector::label_selector_text;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
    task::JoinSet,
    time::{Duration, timeout},
};

use crate::{failure::Failure, shell::Shell};

/// Time within which kubectl has to answer.
const WITHIN: Duration = Duration::from_secs(30);

/// Namespace and name of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamespacedName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A local port that kubectl forwards to an operator. Dropping it ends kubectl.
#[derive(Debug)]
pub(crate) struct Forwarded {
    pub(crate) address: String,
    _kubectl: Child,
    /// Tasks that read its output.
    _output: JoinSet<()>,
}

impl NamespacedName {
    /// The Deployment that `manifests` renders for an operator by default.
    pub(crate) fn of_deployment(operator: &str) -> Self {
        Self { namespace: operator.to_owned(), name: operator.to_owned() }
    }
}

impl FromStr for NamespacedName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split('/').collect::<Vec<_>>()[..] {
            [namespace, name] if !namespace.is_empty() && !name.is_empty() => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err("give namespace and name, such as guestbook/guestbook"),
        }
    }
}

/// A new token of a service account.
pub(crate) async fn token(context: &str, account: &NamespacedName, shell: &Shell) -> Result<String, Failure> {
    let words = ["create", "token", &account.name, "-n", &account.namespace];
    Ok(answer(context, &words, None, shell).await?.trim().to_owned())
}

/// Forwards a port to the metrics server of the operator: to the pod that leads, if there is an election.
pub(crate) async fn forward(
    context: &str,
    deployment: &NamespacedName,
    shell: &Shell,
) -> Result<Forwarded, Failure> {
    let NamespacedName { namespace, name } = deployment;
    let found =
        answer(context, &["get", "deployment", name, "-n", namespace, "-o", "json"], None, shell).await?;
    let found: Value = serde_json::from_str(&found)
        .map_err(|error| Failure::new(format!("kubectl printed no Deployment: {error}")))?;
    let server = metrics_server(&found).ok_or_else(|| {
        Failure::new(format!("Deployment {namespace}/{name} has no container port named metrics"))
            .hint("run the operator with --metrics-bind-address=:8443, and apply its manifests again")
    })?;
    let pod = match server.elects {
        false => None,
        true => leading_pod(context, namespace, &found, shell).await?,
    };
    let target = pod.map_or_else(|| format!("deployment/{name}"), |pod| format!("pod/{pod}"));
    let port = format!(":{}", server.port);
    let mut command =
        kubectl(context, &["port-forward", "-n", namespace, "--address=127.0.0.1", &target, &port]);
    shell.running(crate::project::display(command.as_std()));
    let mut child = command.kill_on_drop(true).spawn().map_err(|error| absent(&error))?;
    let output = child.stdout.take().expect("standard output is a pipe");
    let mut lines = BufReader::new(output).lines();
    let first = timeout(WITHIN, async {
        while let Ok(Some(line)) = lines.next_line().await {
            if let Some(port) = forwarded_port(&line) {
                return Some(port);
            }
        }
        None
    });
    match first.await {
        Ok(Some(port)) => {
            // kubectl prints a line for each connection, and would end if nothing read them.
            let mut output = JoinSet::new();
            output.spawn(discard(lines.into_inner()));
            if let Some(errors) = child.stderr.take() {
                output.spawn(discard(errors));
            }
            let scheme = if server.secure { "https" } else { "http" };
            let address = format!("{scheme}://127.0.0.1:{port}");
            Ok(Forwarded { address, _kubectl: child, _output: output })
        }
        Ok(None) => {
            let mut reason = String::new();
            if let Some(mut errors) = child.stderr.take() {
                // If the read fails or times out, the error below lacks kubectl's reason, but still names the port and the target.
                let _ = timeout(WITHIN, errors.read_to_string(&mut reason)).await;
            }
            Err(Failure::new(format!(
                "kubectl cannot forward a port to {target} in {namespace}: {}",
                reason.trim()
            )))
        }
        Err(_) => {
            Err(Failure::new(format!("kubectl forwarded no port to {target} in {namespace} within 30 s")))
        }
    }
}

/// The pod of a Deployment that holds a lease; `None` if no pod does.
async fn leading_pod(
    context: &str,
    namespace: &str,
    deployment: &Value,
    shell: &Shell,
) -> Result<Option<String>, Failure> {
    let leases = answer(context, &["get", "leases", "-n", namespace, "-o", "json"], None, shell).await?;
    let selector = label_selector_text(&deployment["spec"]["selector"]);
    let words = ["get", "pods", "-n", namespace, "-l", &selector, "-o", "name"];
    let pods = answer(context, &words, None, shell).await?;
    Ok(leader(&serde_json::from_str(&leases).unwrap_or_default(), &pods))
}

/// Reads output until its end, or until it cannot be read, and drops it.
async fn discard(mut output: impl AsyncRead + Unpin) {
    let _ = tokio::io::copy(&mut output, &mut tokio::io::sink()).await;
}

/// The metrics server of a Deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MetricsServer {
    port: u64,
    /// Whether it serves HTTPS.
    secure: bool,
    /// Whether the operator's replicas elect a leader.
    elects: bool,
}

fn metrics_server(deployment: &Value) -> Option<MetricsServer> {
    let containers = deployment["spec"]["template"]["spec"]["containers"].as_array()?;
    containers.iter().find_map(|container| {
        let ports = container["ports"].as_array()?;
        let port = ports.iter().find(|port| port["name"] == "metrics")?["containerPort"].as_u64()?;
        let arguments: Vec<&str> =
            container["args"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let elects = arguments.iter().any(|word| matches!(*word, "--leader-elect" | "--leader-elect=true"));
        Some(MetricsServer { port, secure: !arguments.contains(&"--metrics-secure=false"), elects })
    })
}

/// Returns the pod that holds a lease. The identity of a holder is the name of its pod, `_` and a random part.
///
/// `pods` are lines such as `pod/guestbook-7d9c-x2`. Names of pods alone do not show their Deployment: `guestbook-ui-0` can be a pod of a
/// StatefulSet `guestbook-ui`.
fn leader(leases: &Value, pods: &str) -> Option<String> {
    let pods: Vec<&str> = pods.lines().filter_map(|line| line.strip_prefix("pod/")).collect();
    let holders =
        leases["items"].as_array()?.iter().filter_map(|lease| lease["spec"]["holderIdentity"].as_str());
    let mut holders = holders.filter_map(|holder| holder.split('_').next());
    holders.find(|holder| pods.contains(holder)).map(str::to_owned)
}

/// The port in `Forwarding from 127.0.0.1:41234 -> 8443`.
fn forwarded_port(line: &str) -> Option<u16> {
    line.strip_prefix("Forwarding from 127.0.0.1:")?.split(' ').next()?.parse().ok()
}

/// Runs kubectl with these arguments and this standard input, and returns its output.
pub(crate) async fn answer(
    context: &str,
    words: &[&str],
    input: Option<&str>,
    shell: &Shell,
) -> Result<String, Failure> {
    let mut command = kubectl(context, words);
    if input.is_some() {
        command.stdin(Stdio::piped());
    }
    shell.running(crate::project::display(command.as_std()));
    let mut child = command.kill_on_drop(true).spawn().map_err(|error| absent(&error))?;
    let feed = child.stdin.take().zip(input);
    let output = async {
        if let Some((mut pipe, input)) = feed {
            // The write fails if kubectl ended before it read its input. Its error output has the reason.
            let _ = pipe.write_all(input.as_bytes()).await;
        }
        child.wait_with_output().await
    };
    let output = timeout(WITHIN, output).await;
    let output = output
        .map_err(|_| Failure::new(format!("kubectl {} gave no answer within 30 s", words.join(" "))))?
        .map_err(|error| absent(&error))?;
    if !output.status.success() {
        return Err(failure_of(context, &String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|_| Failure::new("kubectl did not print text"))
}

/// Error for the output of a kubectl that failed.
fn failure_of(context: &str, errors: &str) -> Failure {
    let lines = errors.lines().map(|line| line.trim().trim_start_matches("error: "));
    let reason = lines.filter(|line| !line.is_empty() && !is_log_line(line)).collect::<Vec<_>>().join(" ");
    let failure = Failure::new(format!("kubectl, context {context}: {reason}"));
    if reason.contains("was refused") || reason.contains("Unable to connect to the server") {
        return failure
            .hint("start the cluster, or choose another one: kubectl config get-contexts lists them");
    }
    failure
}

/// Whether a line belongs to kubectl's own log: `E1126 23:01:36.633195   12405 memcache.go:265] …`.
fn is_log_line(line: &str) -> bool {
    let (first, rest) = line.split_at_checked(1).unwrap_or_default();
    let date = rest.split(' ').next().unwrap_or_default();
    matches!(first, "E" | "W" | "I" | "F")
        && date.len() == 4
        && date.bytes().all(|byte| byte.is_ascii_digit())
}

fn kubectl(context: &str, words: &[&str]) -> Command {
    let mut command = Command::new("kubectl");
    command.args(["--context", context]).args(words);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn absent(error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot run kubectl: {error}"))
        .hint("install kubectl, or forward a port to the operator and name it with --address")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_metrics_server_is_read_from_the_deployment() {
        let deployment = |arguments: Value| {
            let container = json!({ "args": arguments, "ports": [{ "name": "webhooks", "containerPort": 9443 }, { "name": "metrics", "containerPort": 8443 }] });
            json!({ "spec": { "template": { "spec": { "containers": [{}, container] } } } })
        };
        let server = |secure, elects| Some(MetricsServer { port: 8443, secure, elects });
        assert_eq!(metrics_server(&deployment(json!(["run", "--leader-elect"]))), server(true, true));
        assert_eq!(metrics_server(&deployment(json!(["--metrics-secure=false"]))), server(false, false));
        assert_eq!(metrics_server(&json!({})), None);
    }

    #[test]
    fn the_leader_is_a_pod_of_the_deployment_that_holds_a_lease() {
        let leases = |holders: &[&str]| {
            let items = holders.iter().map(|holder| json!({ "spec": { "holderIdentity": holder } }));
            json!({ "items": items.chain([json!({ "spec": {} })]).collect::<Value>() })
        };
        let pods = "pod/guestbook-7d9c-x2\npod/guestbook-7d9c-x3\n";
        let leads = |holders: &[&str]| leader(&leases(holders), pods);
        assert_eq!(leads(&["guestbook-7d9c-x3_4f1a"]).as_deref(), Some("guestbook-7d9c-x3"));
        let of_others =
            ["guestbook-ui-5b4f-x9_1", "guestbook-ui-0_2", "guestbooks-x_3", "guestbook-7d9c-x_4"];
        assert_eq!(leads(&of_others), None);
        let all = [&of_others[..], &["guestbook-7d9c-x2_5"]].concat();
        assert_eq!(leads(&all).as_deref(), Some("guestbook-7d9c-x2"));
        assert_eq!(leader(&leases(&all), ""), None);
    }

    #[test]
    fn errors_of_kubectl_are_one_line_without_its_log() {
        let errors = "E1126 23:01:36.633195   12405 memcache.go:265] \"Unhandled Error\" err=\"refused\"\n\
            The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?\n";
        let failure = failure_of("dead", errors);
        assert_eq!(
            failure.message,
            "kubectl, context dead: The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?"
        );
        assert!(failure.hint.is_some_and(|hint| hint.starts_with("start the cluster")));
        let failure = failure_of("nope", "error: cannot locate context \"nope\"\n");
        assert_eq!(failure.message, "kubectl, context nope: cannot locate context \"nope\"");
        assert_eq!(failure.hint, None);
    }

    #[test]
    fn ports_are_read_from_kubectl() {
        assert_eq!(forwarded_port("Forwarding from 127.0.0.1:41234 -> 8443"), Some(41234));
        assert_eq!(forwarded_port("Forwarding from [::1]:41234 -> 8443"), None);
    }

    #[test]
    fn a_name_has_two_parts() {
        assert_eq!("a/b".parse(), Ok(NamespacedName { namespace: "a".to_owned(), name: "b".to_owned() }));
        for wrong in ["a", "a/", "/b", "a/b/c"] {
            assert!(wrong.parse::<NamespacedName>().is_err(), "{wrong}");
        }
    }
}
