//! `cargo operator explain`: why an object is not reconciled, and the state of an operator.
//!
//! The operator answers; this command finds it and shows its answers: [`place`] finds it, [`operator_api`] asks, [`shapes`] are the answers,
//! [`text`] and [`request_text`] make lines of them, [`mod@watch`] asks again, [`retry`] lets a request run, and [`first_runs`] asks for `dev`
//! after a restart.

mod first_runs;
pub(crate) mod operator_api;
mod place;
mod request_text;
pub(crate) mod retry;
mod shapes;
mod text;
mod watch;

use std::path::Path;

use clap::{Args, ValueEnum};
use serde_json::json;

pub(crate) use self::{first_runs::FirstRuns, place::Place};
use self::{
    operator_api::{ApiError, OperatorApi},
    shapes::{Controller, ObjectAnswer, Overview, Request},
    text::Answer,
};
use crate::{ask::SCHEMA, browser, failure::Failure, project::PackageSelection, shell::Shell};

/// Arguments of `cargo operator explain`.
#[derive(Debug, Clone, Args)]
pub struct Explain {
    /// The object, such as `guestbook shop/wedding`; without it the findings and controllers of the operator
    #[arg(value_name = "KIND [NAMESPACE/]NAME", num_args = 0..=2)]
    object: Vec<String>,
    /// Namespace of the object, if its name has none
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// Form of the answer
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// Open the page of explanations in the browser
    #[arg(long)]
    open: bool,
    /// Print the answer again whenever it changes, until Ctrl-C. Waits for an object that does not exist yet
    #[arg(short, long, conflicts_with = "open")]
    watch: bool,
    #[command(flatten)]
    place: place::Arguments,
    #[command(flatten)]
    package: PackageSelection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// A kind and a name, as the user wrote them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    kind: String,
    namespace: String,
    name: String,
}

/// Prints the explanation.
///
/// # Errors
///
/// No operator runs or answers, it does not reconcile the kind, or it knows no such object.
pub fn run(arguments: &Explain, here: &Path, shell: &Shell) -> Result<(), Failure> {
    let wanted = wanted(&arguments.object, &arguments.namespace)?;
    block_on(async {
        let place = Place::find(&arguments.place, &arguments.package, here, shell).await?;
        let api = OperatorApi::new(&place)?;
        if arguments.open {
            return show(&place, &api, wanted.as_ref(), shell).await;
        }
        if arguments.watch {
            return watch::run(place, api, wanted.as_ref(), arguments.format, shell).await;
        }
        let answer = answer(&api, wanted.as_ref()).await.map_err(|error| place.failure(error))?;
        let unknown = answer.unknown();
        // The error says everything that the text would say, but the JSON answer has more fields.
        if unknown.is_none() || arguments.format == Format::Json {
            arguments.format.print(&answer, shell);
        }
        unknown.map_or(Ok(()), Err)
    })
}

/// Runs a command to its end, or until Ctrl-C. Does not wait for open requests.
fn block_on(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    let result = runtime.block_on(command);
    runtime.shutdown_background();
    result
}

impl Format {
    fn print(self, answer: &Answer, shell: &Shell) {
        let shown = self.show(answer);
        match self {
            Self::Text => shell.text(shown),
            Self::Json => shell.result(shown),
        }
    }

    fn show(self, answer: &Answer) -> String {
        match self {
            Self::Text => answer.to_string().trim_end().to_owned(),
            Self::Json => json_of(answer),
        }
    }
}

/// The answer in JSON, which begins with its schema.
fn json_of(answer: &Answer) -> String {
    let Answer { overview, requests, object, cluster, .. } = answer;
    let fields = [
        ("schema", json!(SCHEMA)),
        ("library", json!(overview.library)),
        ("overview", json!(overview)),
        ("requests", json!(requests)),
        ("object", json!(object)),
        ("cluster", json!(cluster)),
    ];
    let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{}:{value}", json!(name))).collect();
    format!("{{{}}}", fields.join(","))
}

/// Prints the latest failure of an operator, and returns whether there is one.
pub(crate) async fn last_failure(place: &Place) -> Result<Option<String>, Failure> {
    let api = OperatorApi::new(place)?;
    let text = async {
        let overview: Overview = api.get(&["overview"], &[]).await?;
        let mut failed: Option<Request> = None;
        for controller in overview.controllers.iter().filter(|controller| controller.failing > 0) {
            let query = [("state", "failing"), ("limit", "20")];
            let page: shapes::Page = api.get(&["controllers", &controller.name, "requests"], &query).await?;
            for item in page.items {
                let Some(request) = request(&api, &controller.name, item.name()).await? else { continue };
                if failed.as_ref().is_none_or(|last| request.ended() > last.ended()) {
                    failed = Some(request);
                }
            }
        }
        Ok(failed.map(|request| Answer::of(overview, vec![request], None).to_string()))
    };
    text.await.map_err(|error| place.failure(error))
}

/// Splits the arguments into kind, namespace and name; `None` without arguments. `namespace` applies to a name without one.
fn wanted(words: &[String], namespace: &str) -> Result<Option<Wanted>, Failure> {
    let (kind, name) = match words {
        [] => return Ok(None),
        [one] => one.split_once('/').unwrap_or((one, "")),
        [kind, name, ..] => (&**kind, &**name),
    };
    let (namespace, name) = name.split_once('/').unwrap_or((namespace, name));
    if [kind, namespace, name].iter().any(|word| word.is_empty()) || name.contains('/') {
        let given = words.join(" ");
        return Err(Failure::usage(format!("{given} does not name an object")).hint(
            "give kind and name, such as guestbook wedding, guestbook/wedding or guestbook shop/wedding",
        ));
    }
    Ok(Some(Wanted { kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }))
}

/// Asks the operator for everything that the text shows.
async fn answer(api: &OperatorApi, wanted: Option<&Wanted>) -> Result<Answer, ApiError> {
    let overview: Overview = api.get(&["overview"], &[]).await?;
    let Some(wanted) = wanted else {
        let mut answer = Answer::of(overview, Vec::new(), None);
        answer.cluster = match api.get(&["cluster"], &[]).await {
            Ok(cluster) => Some(cluster),
            // Older operators have no such path.
            Err(ApiError::NotFound(_)) => None,
            Err(error) => return Err(error),
        };
        return Ok(answer);
    };
    let mut controllers = Vec::new();
    for summary in &overview.controllers {
        controllers.push(api.get::<Controller>(&["controllers", &summary.name], &[]).await?);
    }
    let place = format!("{}/{}", wanted.namespace, wanted.name);
    let mut requests = Vec::new();
    let of_kind: Vec<_> =
        controllers.iter().filter(|controller| controller.reconciles(&wanted.kind)).collect();
    for controller in &of_kind {
        // Objects of the cluster have no namespace.
        let found = match request(api, &controller.name, &place).await? {
            None => request(api, &controller.name, &wanted.name).await?,
            found => found,
        };
        requests.extend(found);
    }
    let resources = controllers.iter().flat_map(|controller| &controller.sources);
    let resource = match of_kind.first() {
        Some(controller) => controller.sources.first(),
        None => resources.clone().find(|resource| shapes::is_resource(resource, &wanted.kind)),
    };
    let Some(resource) = resource.cloned() else {
        let known =
            controllers.iter().map(|controller| controller.kind.as_deref().unwrap_or(&controller.name));
        let known: Vec<_> = known.collect();
        return Err(ApiError::NotFound(format!(
            "operator {} reconciles no {}: its kinds are {}",
            overview.name,
            wanted.kind,
            known.join(", ")
        )));
    };
    let object = object(api, &resource, wanted).await?;
    if requests.is_empty() {
        // Events of a child lead to requests for its owners.
        for led_to in object.iter().flat_map(|object| &object.requests) {
            requests.extend(request(api, &led_to.controller, led_to.name()).await?);
        }
    }
    let mut answer = Answer::of(overview, requests, object);
    answer.about(wanted, &resource);
    Ok(answer)
}

/// The explanation of a request; `None` if the controller does not know it.
async fn request(api: &OperatorApi, controller: &str, name: &str) -> Result<Option<Request>, ApiError> {
    let path: Vec<&str> =
        ["controllers", controller, "requests"].into_iter().chain(name.split('/')).collect();
    match api.get(&path, &[]).await {
        Ok(found) => Ok(Some(found)),
        Err(ApiError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Metadata of the object; `None` if there is none.
async fn object(
    api: &OperatorApi,
    resource: &str,
    wanted: &Wanted,
) -> Result<Option<ObjectAnswer>, ApiError> {
    let (resource, group) = resource.split_once('.').unwrap_or((resource, "core"));
    for namespace in [&wanted.namespace, "-"] {
        match api.get(&["objects", group, resource, namespace, &wanted.name], &[]).await {
            Ok(found) => return Ok(Some(found)),
            Err(ApiError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Opens the page of explanations, at the request of the wanted object if there is one. Keeps a forwarded port open until Ctrl-C.
async fn show(
    place: &Place,
    api: &OperatorApi,
    wanted: Option<&Wanted>,
    shell: &Shell,
) -> Result<(), Failure> {
    let mut view = String::new();
    if let Some(wanted) = wanted {
        let answer = answer(api, Some(wanted)).await.map_err(|error| place.failure(error))?;
        if let Some(request) = answer.requests.first() {
            let name = operator_api::encoded(&request.request);
            view = format!("&/controllers/{}/requests/{name}", operator_api::encoded(&request.controller));
        }
    } else {
        // Do not open an address that does not answer.
        api.get::<Overview>(&["overview"], &[]).await.map_err(|error| place.failure(error))?;
    }
    let page = format!("{}{view}", place.page());
    browser::open(&page, shell).await;
    if place.ends_with_this_process() {
        shell.note("Forwarding", "the port until Ctrl-C");
        let stopped = tokio::signal::ctrl_c().await;
        stopped.map_err(|error| Failure::new(format!("cannot wait for Ctrl-C: {error}")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_as_for_kubectl() {
        let found = |words: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            wanted(&words, "default")
                .map(|found| found.map(|it| format!("{} {} {}", it.kind, it.namespace, it.name)))
        };
        let name = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(found("guestbook wedding"), name("guestbook default wedding"));
        assert_eq!(found("guestbook/wedding"), name("guestbook default wedding"));
        assert_eq!(found("guestbook shop/wedding"), name("guestbook shop wedding"));
        assert_eq!(found("guestbook/shop/wedding"), name("guestbook shop wedding"));
        for wrong in ["guestbook", "guestbook/", "/wedding", "a b/", "a b/c/d"] {
            let refused = found(wrong).expect_err("no object");
            assert_eq!(refused.message, format!("{wrong} does not name an object"));
        }
        assert_eq!(wanted(&[], "default"), Ok(None));
    }
}
