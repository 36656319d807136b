//! `KUBEBUILDER_ASSETS=… cargo run -p kube-apiserver-embedded --example differential`: sends equal random requests to a genuine
//! kube-apiserver and to the embedded server, and reports where the responses differ.
//!
//! Requests come in stories: a story is about one resource, in a namespace of its own, and consists of creates, updates,
//! patches, applies, deletes, reads and watches. Bodies are samples with random changes, which the genuine server's OpenAPI
//! documents guide. Some stories configure admission webhooks, and one custom kind has a conversion webhook: this program serves
//! them for both servers, and also compares the reviews that it receives. Connections that the genuine server ends are counted.
//!
//! A story ends at its first difference; the first story of each kind of difference is shortened before it is reported. An
//! interrupted run reports what it has found. Stories depend only on the seed and on the genuine server's responses: `--seed 7
//! --story 42` repeats one.
//!
//! Differences that are accepted stand in `known.rs` and are only counted. The exit code is 1 if there are others.

mod catalog;
mod comparison;
mod dice;
mod hooks;
mod known;
mod mutation;
mod player;
mod report;
mod request;
mod responder;
mod schema;
mod server;
mod story;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Parser;
use futures::future::try_join_all;
use parking_lot::Mutex;
use tokio::signal::ctrl_c;
use tokio::signal::unix::{SignalKind, signal};

use catalog::Catalog;
use player::{Namespaces, Stage, Twins, shrink};
use report::{Report, signature};
use responder::Responder;
use server::Server;
use story::Story;

/// Any failure to reach a server ends the run.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Compares the embedded API server with a genuine kube-apiserver.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of requests to send.
    #[arg(long, default_value_t = 10_000)]
    requests: usize,
    /// Seed of the stories.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Play only this story, and print its requests.
    #[arg(long)]
    story: Option<usize>,
    /// Play only stories about this resource, such as `pods`.
    #[arg(long, value_name = "PLURAL")]
    only: Option<String>,
    /// Number of stories that are played at the same time.
    #[arg(long, default_value_t = 8)]
    jobs: usize,
    /// List the known differences too.
    #[arg(long)]
    known: bool,
    /// Report differences without shortening their stories.
    #[arg(long)]
    no_shrink: bool,
}

/// A run, shared by its jobs.
struct Run<'a> {
    arguments: &'a Arguments,
    twins: &'a Twins,
    catalog: &'a Catalog,
    next: AtomicUsize,
    report: Mutex<Report>,
}

impl Run<'_> {
    /// Plays stories until enough requests are sent.
    async fn job(&self) -> Result<()> {
        if let Some(story) = self.arguments.story {
            return self.play(story).await;
        }
        while self.report.lock().requests < self.arguments.requests {
            self.play(self.next.fetch_add(1, Ordering::Relaxed)).await?;
        }
        Ok(())
    }

    async fn play(&self, number: usize) -> Result<()> {
        let seed = self.arguments.seed;
        let mut namespaces = Namespaces::new(format!("s{seed}-{number}"));
        let namespace = namespaces.next();
        let mut stage = Stage::open(self.twins, &namespace).await?;
        let only = self.arguments.only.as_deref();
        let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number as u64);
        let mut story = Story::new(self.catalog, only, seed, &namespace);
        self.report.lock().stories += 1;
        let played = self.play_story(number, &mut stage, &mut story, &mut namespaces).await;
        // A failure of the story counts more than one of the end.
        let closed = stage.close().await;
        played.and(closed)
    }

    async fn play_story(
        &self,
        number: usize,
        stage: &mut Stage<'_>,
        story: &mut Story<'_>,
        namespaces: &mut Namespaces,
    ) -> Result<()> {
        let mut requests = Vec::new();
        while let Some(request) = story.next() {
            let outcome = stage.play(&request).await?;
            if self.arguments.story.is_some() {
                println!("{request}\n  → {} {}", outcome.genuine.status, outcome.genuine.body);
            }
            {
                let mut report = self.report.lock();
                report.requests += 1;
                let verb = request.subject.split(' ').next().unwrap_or_default().to_owned();
                *report.statuses.entry((verb, outcome.genuine.status)).or_default() += 1;
                let resource = request.subject.split(' ').nth(1).unwrap_or_default().to_owned();
                let class = usize::from(outcome.genuine.status >= 300);
                report.resources.entry(resource).or_default()[class] += 1;
            }
            requests.push(request.clone());
            if outcome.genuine.is_ended() {
                // There is nothing to compare, and the state is unknown.
                let reason = outcome.genuine.body.as_str().unwrap_or_default().to_owned();
                let ended = (request.subject.clone(), reason);
                *self.report.lock().ended.entry(ended).or_default() += 1;
                return Ok(());
            }
            if outcome.differences.is_empty() {
                story.observe(&request, &outcome.genuine);
                continue;
            }
            match known::reason(&request.subject, &outcome) {
                Ok((reason, difference)) => {
                    let kind = signature(&request, difference);
                    *self.report.lock().known.entry(reason).or_default().entry(kind).or_default() += 1;
                }
                Err(difference) => {
                    let kind = signature(&request, difference);
                    if self.report.lock().count(&kind) {
                        if !self.arguments.no_shrink {
                            requests = shrink(self.twins, namespaces, requests, &kind).await?;
                        }
                        let mut example = format!("  story {number}:\n");
                        for request in &requests {
                            example += &format!("    {request}\n");
                        }
                        let differences = outcome.differences.iter().take(5);
                        for difference in differences {
                            example += &format!(
                                "  {}\n    genuine: {}\n    ours:    {}\n",
                                difference.path, difference.genuine, difference.ours
                            );
                        }
                        if let Some(finding) = self.report.lock().findings.get_mut(&kind) {
                            finding.example = example;
                        }
                    }
                }
            }
            return Ok(());
        }
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let folder = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let folder = folder.ok_or("set KUBEBUILDER_ASSETS to the folder of etcd and kube-apiserver")?;
    let responder = Responder::start().await?;
    let genuine = Server::genuine(&folder, &responder).await?;
    let ours = Server::embedded(&responder);
    let twins = Twins { genuine, ours, responder };
    let catalog = Catalog::load(&twins.genuine, &twins.ours).await?;
    let run = Run {
        arguments: &arguments,
        twins: &twins,
        catalog: &catalog,
        next: AtomicUsize::new(0),
        report: Mutex::default(),
    };
    let jobs = if arguments.story.is_some() { 1 } else { arguments.jobs };
    let mut terminated = signal(SignalKind::terminate())?;
    let ended = tokio::select! {
        biased;
        _ = terminated.recv() => Ok(()),
        interrupted = ctrl_c() => interrupted.map_err(Into::into),
        done = try_join_all((0..jobs).map(|_| run.job())) => done.map(drop),
    };
    // An interrupted or failed run reports the differences found so far.
    let report = run.report.into_inner();
    print!("{}", report.text(arguments.known));
    ended?;
    Ok(if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
