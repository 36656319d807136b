//! Replays responses recorded from a genuine kube-apiserver on the embedded server, one test case per scenario.
//!
//! Scenarios in `passing.txt` must pass. Those in `deferred.txt` are ignored tests, which `-- --ignored` runs. Each ordinary
//! run plays them too, and reports those that pass meanwhile. A scenario in neither list fails. See README.md.

mod bindings;
mod comparison;
mod entry_order;
mod lists;
mod player;
mod tcp;
mod template;
mod transcript;
mod transport;
mod webhook_server;
mod webhooks;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube_apiserver_embedded::{
    AdmissionPlugin, ApiServer, Epoch, ListenError, ListenOptions, Options, Profile, Tokens, UserInfo,
};
use libtest_mimic::{Arguments, Failed, Trial};

use crate::lists::{Expectation, Lists};
use crate::tcp::Tcp;
use crate::transcript::Transcript;
use crate::transport::Transport;
use crate::webhook_server::{InProcess, WebhookServer};
use crate::webhooks::Webhooks;

/// Maximum number of differences printed per scenario; later ones usually follow from the first.
const SHOWN: usize = 10;

/// Number of scenarios played at a time unless `--test-threads` is given. Over TCP they run in real time and mostly wait.
const AT_A_TIME: usize = 16;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_A_TIME);
    match run(&arguments) {
        Ok(code) => code,
        Err(line) => {
            eprintln!("conformance: {line}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    let transcripts = transcript::load(&folder.join("transcripts"))?;
    let lists = Lists::load(&folder, |name| transcripts.contains_key(name))?;
    let suite = Suite {
        folder,
        transcripts: transcripts.into_iter().map(|(name, one)| (name, Arc::new(one))).collect(),
        lists,
    };
    let conclusion = libtest_mimic::run(arguments, suite.trials());
    if !arguments.list && !arguments.ignored && !arguments.include_ignored {
        suite.look_ahead(arguments)?;
    }
    Ok(conclusion.exit_code())
}

struct Suite {
    folder: PathBuf,
    transcripts: BTreeMap<String, Arc<Transcript>>,
    lists: Lists,
}

impl Suite {
    /// Returns the test cases: each scenario in process, and those that must pass also over TCP with HTTP/1.1 and with HTTP/2
    /// over TLS.
    fn trials(&self) -> Vec<Trial> {
        let trial = |name: String, transcript: &Arc<Transcript>, way| {
            let transcript = Arc::clone(transcript);
            Trial::test(name, move || play(&transcript, way))
        };
        let mut trials = Vec::new();
        for (name, transcript) in &self.transcripts {
            let in_process = trial(name.clone(), transcript, Way::InProcess);
            match self.lists.expectation(name) {
                Expectation::Passes => {
                    trials.push(in_process);
                    trials.push(trial(format!("tcp:{name}"), transcript, Way::Tcp));
                    trials.push(trial(format!("tls:{name}"), transcript, Way::Tls));
                }
                Expectation::Deferred(_) => {
                    trials.push(in_process.with_kind("deferred").with_ignored_flag(true));
                }
                Expectation::Unlisted => trials.push(Trial::test(name.clone(), || {
                    Err("it is neither in passing.txt nor in deferred.txt: UPDATE_PASSING=1 adds it to passing.txt if it \
                         passes; otherwise list it in deferred.txt with the reason"
                        .into())
                })),
            }
        }
        trials
    }

    /// Plays the scenarios that are not required to pass; reports their number and those that could be required.
    fn look_ahead(self, arguments: &Arguments) -> Result<(), String> {
        let is_chosen = |name: &str| match &arguments.filter {
            Some(filter) if arguments.exact => name == filter,
            Some(filter) => name.contains(filter.as_str()),
            None => true,
        };
        let (mut passing, mut deferred) = (Vec::new(), String::new());
        for (name, transcript) in self.transcripts.iter().filter(|(name, _)| is_chosen(name)) {
            match self.lists.expectation(name) {
                Expectation::Passes => continue,
                _ if catch_unwind(|| play(transcript, Way::InProcess)).is_ok_and(|result| result.is_ok()) => {
                    passing.push(name.clone());
                }
                Expectation::Deferred(reason) => {
                    let _ = writeln!(deferred, "deferred: {name}: {reason}");
                }
                Expectation::Unlisted => {}
            }
        }
        print!("{deferred}");
        if passing.is_empty() {
            return Ok(());
        }
        if std::env::var_os("UPDATE_PASSING").is_some() {
            println!("added to passing.txt: {}", passing.join(" "));
            return self.lists.require(passing, &self.folder);
        }
        println!("passing, but not in passing.txt (UPDATE_PASSING=1 adds them): {}", passing.join(" "));
        Ok(())
    }
}

/// Transport to the server.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// In process and in paused time, so that waiting takes no time.
    InProcess,
    /// Over TCP on a port of its own, in real time.
    Tcp,
    /// Like [`Tcp`](Self::Tcp), with TLS.
    Tls,
}

/// Initial time of the clock: a full second, so that none elapses while a scenario waits for less than a second.
const EPOCH: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// Token of the user that sent the recorded requests.
const TOKEN: &str = "recorded-admin";
/// Host of the webhooks in process.
const WEBHOOKS: &str = "127.0.0.1:9443";
/// Scenarios about the sockets of webhooks, which are played in real time.
const WITH_SOCKETS: [&str; 1] = ["admission/unreachable-and-untrusted"];

/// Plays a scenario on a server of its own.
fn play(transcript: &Transcript, way: Way) -> Result<(), Failed> {
    // The scenarios in these folders were recorded with controllers, all others without.
    let has_controllers = ["gc/", "namespaces/"].iter().any(|folder| transcript.name.starts_with(folder));
    let profile = if has_controllers { Profile::Dev } else { Profile::Envtest };
    let has_sockets = !matches!(way, Way::InProcess) || WITH_SOCKETS.contains(&transcript.name.as_str());
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(!has_sockets).build()?;
    let failures = runtime.block_on(async {
        let webhook_server = if has_sockets { Some(WebhookServer::start().await?) } else { None };
        let admin = UserInfo::new("admin", "u-admin", ["system:masters"]);
        let mut options = Options::default()
            .profile(profile)
            .epoch(Epoch::starting_now(EPOCH))
            .tokens(Tokens::new().with(TOKEN, admin))
            // The recorded server ran without this plugin, as envtest runs it.
            .disable_admission_plugin(AdmissionPlugin::ServiceAccount);
        let webhooks = match &webhook_server {
            Some(server) => Arc::clone(&server.webhooks),
            None => {
                let webhooks = Arc::new(Webhooks::new(WEBHOOKS, "no certificate is needed in process"));
                options = options.webhook_transport(Arc::new(InProcess(Arc::clone(&webhooks))));
                webhooks
            }
        };
        let server = ApiServer::start(options);
        let options = match way {
            Way::InProcess => {
                let service = server.service_for(UserInfo::anonymous());
                let transport = Transport::over(service).with_token(TOKEN);
                return Ok(player::play(&transport, transcript, "", &|_| {}, &*webhooks).await);
            }
            Way::Tcp => ListenOptions::default(),
            Way::Tls => ListenOptions::default().tls(),
        };
        let listener = server.listen_with(SocketAddr::from(([127, 0, 0, 1], 0)), options).await;
        let listener = listener.map_err(|error: ListenError| std::io::Error::other(error.to_string()))?;
        let address = listener.local_addr().to_string();
        // The clock only advances as in the recording, so that ages are equal.
        let faults = server.faults();
        faults.stop_clock();
        let passed =
            |time: Duration| faults.advance_clock(SignedDuration::try_from(time).unwrap_or_default());
        let transport = Transport::over(Tcp::new(&listener)).with_token(TOKEN);
        Ok(player::play(&transport, transcript, &address, &passed, &*webhooks).await)
    });
    let failures = failures.map_err(|error: std::io::Error| error.to_string())?;
    if failures.is_empty() {
        return Ok(());
    }
    let mut text: Vec<String> = failures.iter().take(SHOWN).map(ToString::to_string).collect();
    if failures.len() > SHOWN {
        text.push(format!("and {} more differences", failures.len() - SHOWN));
    }
    Err(text.join("\n").into())
}
