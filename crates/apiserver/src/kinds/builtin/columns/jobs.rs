//! Columns of Jobs, CronJobs and PodDisruptionBudgets.

use jiff::Timestamp;
use kube_apimachinery::table::Column;
use kube_apimachinery::table::age::{since, since_text};
use serde_json::{Value, json};

use super::workloads::{containers, images, of_containers, selector_or_none};
use super::{age, column, integer, number, string, text, text_at, wide};

const SELECTOR: &str = "A label query over pods that should match the pod count. Normally, the system sets this field for you. \
                        More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors";

pub(super) fn job() -> Vec<Column> {
    vec![
        string("Status", "Status of the job.", |job, _| json!(status(job))),
        string(
            "Completions",
            "The number of pods which reached phase Succeeded. The value increases monotonically for a given spec. \
             However, it may decrease in reaction to scale down of elastic indexed jobs.",
            |job, _| {
                let done = number(job, "/status/succeeded");
                let parallel = number(job, "/spec/parallelism");
                json!(match job["spec"]["completions"].as_i64() {
                    Some(wanted) => format!("{done}/{wanted}"),
                    // Without `completions`, the success of any one pod completes the Job.
                    None if parallel > 1 => format!("{done}/1 of {parallel}"),
                    None => format!("{done}/1"),
                })
            },
        ),
        string("Duration", "Time required to complete the job.", duration),
        age(),
        containers(),
        images(),
        wide("Selector", SELECTOR, selector_or_none),
    ]
}

fn status(job: &Value) -> &'static str {
    let is = |kind: &str| {
        let conditions = job["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|found| found["type"] == kind && found["status"] == "True")
    };
    // The order is a ranking. A finished Job keeps its result while it is deleted. `FailureTarget` and `SuccessCriteriaMet` announce a
    // result while pods still run.
    if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if job["metadata"]["deletionTimestamp"].is_string() {
        "Terminating"
    } else if is("Suspended") {
        "Suspended"
    } else if is("FailureTarget") {
        "FailureTarget"
    } else if is("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

/// Returns the time from the start of a Job to its completion, or until now.
fn duration(job: &Value, now: Timestamp) -> Value {
    let time = |pointer: &str| text_at(job, pointer).and_then(|text| text.parse::<Timestamp>().ok());
    json!(match (time("/status/startTime"), time("/status/completionTime")) {
        (None, _) => String::new(),
        // A failed Job has no completion time, so its duration goes on growing, as in kube-apiserver.
        (Some(start), end) => since(start, end.unwrap_or(now)),
    })
}

pub(super) fn cron_job() -> Vec<Column> {
    vec![
        string(
            "Schedule",
            "The schedule in Cron format, see https://en.wikipedia.org/wiki/Cron.",
            |object, _| text(object, "/spec/schedule"),
        ),
        string(
            "Timezone",
            "The time zone name for the given schedule, see https://en.wikipedia.org/wiki/List_of_tz_database_time_zones. \
             If not specified, this will default to the time zone of the kube-controller-manager process. The set of \
             valid time zone names and the time zone offset is loaded from the system-wide time zone database by the API \
             server during CronJob validation and the controller manager during execution. If no system-wide time zone \
             database can be found a bundled version of the database is used instead. If the time zone name becomes \
             invalid during the lifetime of a CronJob or due to a change in host configuration, the controller will stop \
             creating new new Jobs and will create a system event with the reason UnknownTimeZone. More information can \
             be found in https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#time-zones",
            |object, _| json!(text_at(object, "/spec/timeZone").unwrap_or("<none>")),
        ),
        column(
            "Suspend",
            "boolean",
            0,
            "This flag tells the controller to suspend subsequent executions, it does not apply to already started \
             executions.  Defaults to false.",
            |object, _| json!(if object["spec"]["suspend"] == true { "True" } else { "False" }),
        ),
        integer("Active", "A list of pointers to currently running jobs.", |object, _| {
            json!(object["status"]["active"].as_array().map_or(0, Vec::len))
        }),
        string(
            "Last Schedule",
            "Information when was the last time the job was successfully scheduled.",
            |object, now| match text_at(object, "/status/lastScheduleTime") {
                None => json!("<none>"),
                time => json!(since_text(time, now)),
            },
        ),
        age(),
        wide("Containers", "Names of each container in the template.", |object, _| {
            json!(of_containers(&object["spec"]["jobTemplate"], "name"))
        }),
        wide("Images", "Images referenced by each container in the template.", |object, _| {
            json!(of_containers(&object["spec"]["jobTemplate"], "image"))
        }),
        wide("Selector", SELECTOR, |object, now| selector_or_none(&object["spec"]["jobTemplate"], now)),
    ]
}

pub(super) fn disruption_budget() -> Vec<Column> {
    fn amount(object: &Value, field: &str) -> Value {
        match &object["spec"][field] {
            Value::Null => json!("N/A"),
            Value::String(share) => json!(share),
            number => json!(number.to_string()),
        }
    }
    vec![
        string("Min Available", "The minimum number of pods that must be available.", |object, _| {
            amount(object, "minAvailable")
        }),
        string("Max Unavailable", "The maximum number of pods that may be unavailable.", |object, _| {
            amount(object, "maxUnavailable")
        }),
        integer(
            "Allowed Disruptions",
            "Calculated number of pods that may be disrupted at this time.",
            |object, _| json!(number(object, "/status/disruptionsAllowed")),
        ),
        age(),
    ]
}
