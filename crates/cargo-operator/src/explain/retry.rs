//! `cargo operator retry`: lets the requests of an object run now.

use std::path::Path;

use clap::Args;

use super::{ApiError, OperatorApi, Place, Request, answer, block_on, place, wanted};
use crate::{failure::Failure, project::PackageSelection, shell::Shell};

/// Arguments of `cargo operator retry`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Retry {
    /// The object, such as `guestbook shop/wedding`
    #[arg(value_name = "KIND [NAMESPACE/]NAME", num_args = 1..=2, required = true)]
    object: Vec<String>,
    /// Namespace of the object, if its name has none
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    #[command(flatten)]
    place: place::Arguments,
    #[command(flatten)]
    package: PackageSelection,
}

/// Asks the operator to reconcile the object now, in each controller that knows it.
///
/// # Errors
///
/// No operator runs or answers, it knows no such object, or the user lacks the right.
pub(crate) fn run(arguments: &Retry, here: &Path, shell: &Shell) -> Result<(), Failure> {
    let Some(wanted) = wanted(&arguments.object, &arguments.namespace)? else { return Ok(()) };
    block_on(async {
        let place = Place::find(&arguments.place, &arguments.package, here, shell).await?;
        let api = OperatorApi::new(&place)?;
        let found = answer(&api, Some(&wanted)).await.map_err(|error| place.failure(error))?;
        if let Some(unknown) = found.unknown() {
            return Err(unknown);
        }
        if found.requests.is_empty() {
            let hint = "check the predicates, namespaces and selectors with which its controller watches";
            return Err(Failure::new(
                "no event of the object has led to a request, so there is none to retry",
            )
            .hint(hint));
        }
        for request in &found.requests {
            let query = [("controller", &*request.controller), ("request", &*request.request)];
            let answer: Result<Request, ApiError> = api.post(&["retry"], &query).await;
            answer.map_err(|error| refused(place.failure(error)))?;
            shell.status("Retried", format_args!("{} (controller {})", request.request, request.controller));
        }
        if let Some(lease) = found.standing_by() {
            shell.warn(format_args!(
                "another replica holds lease {lease} and reconciles: send the retry to that replica"
            ));
        }
        Ok(())
    })
}

/// The failure with the right that a retry needs.
fn refused(failure: Failure) -> Failure {
    if failure.message.contains(" refused: ") {
        return Failure { hint: None, ..failure }
            .hint("its user needs the verb post on the nonResourceURL /explain/v1/retry");
    }
    failure
}
