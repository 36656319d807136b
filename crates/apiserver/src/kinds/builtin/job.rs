//! Jobs.

mod job_status;
mod pod_policies;

use kube_apimachinery::selector::LabelSelector;
use kube_apimachinery::status::FieldError;
use kube_apimachinery::{go, names};
use serde_json::{Map, Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::domain_checks::domain_path;
use super::shared::field_checks::{invalid_text, not_negative, supported, too_long};
use super::shared::fields::{elements, list, put, set, text, within};
use super::shared::immutable_fields::{immutable, immutable_struct};
use super::shared::{label_selector, pod_spec, workload};
use crate::kind::WriteContext;
use crate::kind::resource::Resource;

/// Labels that identify a Job's pods, by the Job's UID and by its name.
const UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
const NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

/// Numbers of the spec that are not negative.
const NUMBERS: [&str; 7] = [
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
];

/// Numbers above which the completed indexes of a Job may be too many for its status.
const MANY_COMPLETIONS: i64 = 100_000;
const MUCH_PARALLELISM: i64 = 10_000;

#[derive(Debug)]
pub(super) struct Job;

impl BuiltinKind for Job {
    fn default(&self, job: &mut Value) {
        default(job);
    }

    fn prepare_create(&self, _context: &WriteContext<'_>, job: &mut Value) {
        select_own_pods(job);
    }

    fn default_stored(&self, job: &mut Value) -> bool {
        default_labels(job)
    }

    fn prepare_subresource(
        &self,
        _context: &WriteContext<'_>,
        _subresource: &str,
        old: &Value,
        new: &mut Value,
    ) {
        // Only the template of the stored spec counts. kube-apiserver derives missing labels from it when it reads the stored Job again.
        new["spec"] = old["spec"].clone();
        default_labels(new);
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = validate_generated_selector(new, old);
        errors.extend(validate_spec(new));
        errors.extend(host_names(new));
        // kube-apiserver validates the spec of an update twice.
        if let Some(old) = old {
            errors.extend(validate_spec(new));
            errors.extend(validate_update(old, new));
        }
        errors
    }

    fn validate_subresource(&self, subresource: &str, old: &Value, new: &Value) -> Vec<FieldError> {
        if subresource == "status" { job_status::validate(old, new) } else { Vec::new() }
    }

    fn pod_spec(&self) -> Option<&'static str> {
        Some(pod_spec::IN_WORKLOAD)
    }

    fn warnings(&self, _resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = workload::warnings(object, old, pod_spec::IN_WORKLOAD);
        if old.is_none_or(|old| workload::generation(old) != workload::generation(object)) {
            warnings.extend(many_indexes(&object["spec"], "spec"));
        }
        warnings
    }

    fn orphans_by_default(&self) -> bool {
        true
    }
}

/// Validates the spec of a Job with its selector.
fn validate_spec(job: &Value) -> Vec<FieldError> {
    let spec = &job["spec"];
    let mut errors = validate_of_template(job, "spec");
    let selector = &spec["selector"];
    if selector.is_null() {
        errors.push(FieldError::required("spec.selector", ""));
    } else {
        errors.extend(label_selector::validate(selector, "spec.selector"));
    }
    let labels = &spec["template"]["metadata"]["labels"];
    // A missing selector matches nothing.
    let parsed = LabelSelector::from_object(selector).filter(|_| !selector.is_null());
    let matches = parsed.map(|parsed| parsed.matches_labels(Some(labels)));
    if selector.is_null() || matches == Some(false) {
        let why = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid("spec.template.metadata.labels", &labels.to_string(), why));
    }
    errors
}

/// Validates the spec of Jobs at `path`, except for the selector.
pub(super) fn validate_of_template(object: &Value, path: &str) -> Vec<FieldError> {
    const MAX_INDEXED: i64 = 100_000;
    const MAX_OF_MANY: i64 = 10_000;
    const MAX_MANAGER: usize = 63;
    let Some(spec) = object.pointer(&format!("/{}", path.replace('.', "/"))) else { return Vec::new() };
    let number = |field: &str| spec[field].as_i64();
    let (completions, parallelism) = (number("completions"), number("parallelism"));
    let (per_index, failed) = (number("backoffLimitPerIndex"), number("maxFailedIndexes"));
    let mut errors = Vec::new();
    for field in NUMBERS {
        errors.extend(not_negative(spec, field, path));
    }
    let place = |field: &str| format!("{path}.{field}");
    if failed.is_some() && per_index.is_none() {
        let why = "when maxFailedIndexes is specified";
        errors.push(FieldError::required(place("backoffLimitPerIndex"), why));
    }
    if let Some(manager) = spec["managedBy"].as_str() {
        errors.extend(domain_path(manager, &place("managedBy")));
        if manager.len() > MAX_MANAGER {
            errors.push(too_long(place("managedBy"), MAX_MANAGER));
        }
    }
    errors.extend(supported(spec, "completionMode", path, &["NonIndexed", "Indexed"]));
    let invalid =
        |field: &str, number: i64, why: String| FieldError::invalid(place(field), &number.to_string(), &why);
    if spec["completionMode"] == "Indexed" {
        if completions.is_none() {
            errors.push(FieldError::required(place("completions"), "when completion mode is Indexed"));
        }
        let above = |number: Option<i64>, max: i64| number.filter(|number| *number > max);
        if let Some(number) = above(parallelism, MAX_INDEXED) {
            let why = format!("must be less than or equal to {MAX_INDEXED} when completion mode is Indexed");
            errors.push(invalid("parallelism", number, why));
        }
        if let Some(number) = completions.and_then(|completions| above(failed, completions)) {
            errors.push(invalid(
                "maxFailedIndexes",
                number,
                "must be less than or equal to completions".to_owned(),
            ));
        }
        if let Some(number) = above(failed, MAX_INDEXED) {
            let why = format!("must be less than or equal to {MAX_INDEXED}");
            errors.push(invalid("maxFailedIndexes", number, why));
        }
        if above(completions, MAX_INDEXED).is_some() && per_index.is_some() {
            if failed.is_none() {
                let why = format!("must be specified when completions is above {MAX_INDEXED}");
                errors.push(FieldError::required(place("maxFailedIndexes"), &why));
            }
            for (field, number) in [("parallelism", parallelism), ("maxFailedIndexes", failed)] {
                if let Some(number) = above(number, MAX_OF_MANY) {
                    let why = format!(
                        "must be less than or equal to {MAX_OF_MANY} when completions are above {MAX_INDEXED} and used \
                         with backoff limit per index"
                    );
                    errors.push(invalid(field, number, why));
                }
            }
        }
    } else if spec["completionMode"].is_null() || spec["completionMode"] == "NonIndexed" {
        for (field, number) in [("backoffLimitPerIndex", per_index), ("maxFailedIndexes", failed)] {
            let why = "requires indexed completion mode";
            errors.extend(number.map(|number| invalid(field, number, why.to_owned())));
        }
    }
    let has_policy = !spec["podFailurePolicy"].is_null();
    if has_policy {
        errors.extend(pod_policies::validate_failure_policy(spec, &place("podFailurePolicy")));
    }
    if !spec["successPolicy"].is_null() {
        errors.extend(pod_policies::validate_success_policy(spec, &place("successPolicy")));
    }
    let replacements: &[&str] = if has_policy { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    errors.extend(supported(spec, "podReplacementPolicy", path, replacements));
    let template = format!("{path}.template.spec");
    errors.extend(pod_spec::validate(object, &template));
    let field = format!("{template}.restartPolicy");
    errors.extend(match text(&spec["template"]["spec"], "restartPolicy") {
        "Always" | "" => Some(FieldError::required(field, "valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" if has_policy => {
            let why = "only \"Never\" is supported when podFailurePolicy is specified";
            Some(invalid_text(field, "OnFailure", why))
        }
        "OnFailure" | "Never" => None,
        other => Some(FieldError::not_supported(field, other, &["OnFailure", "Never"])),
    });
    errors
}

/// Validates that the selector and the labels of the template are those that the server generates.
fn validate_generated_selector(job: &Value, old: Option<&Value>) -> Vec<FieldError> {
    const PATH: &str = "spec.template.metadata";
    let (spec, metadata) = (&job["spec"], &job["metadata"]);
    if spec["manualSelector"] == true || spec["selector"].is_null() {
        return Vec::new();
    }
    let labels = &spec["template"]["metadata"]["labels"];
    // Jobs of old servers lack the labels with a prefix.
    let has_both = |job: &Value| {
        let labels = &job["spec"]["template"]["metadata"]["labels"];
        [UID_LABELS[0], NAME_LABELS[0]].iter().all(|label| labels.get(*label).is_some())
    };
    let with_prefix = old.is_none_or(has_both);
    let (uid, name) = (text(metadata, "uid"), text(metadata, "name"));
    let mut expected = vec![(UID_LABELS[1], uid), (NAME_LABELS[1], name)];
    if with_prefix {
        expected.extend([(UID_LABELS[0], uid), (NAME_LABELS[0], name)]);
    }
    let mut errors = Vec::new();
    if uid.is_empty() {
        errors.push(FieldError::required("metadata.uid", ""));
    }
    for (label, value) in &expected {
        match labels.get(*label) {
            None => {
                let why = format!("must be '{value}'");
                errors.push(FieldError::required(format!("{PATH}.labels[{label}]"), &why));
            }
            Some(given) if given != value => {
                let why = format!("must be '{value}'");
                let given = go::json(labels);
                errors.push(FieldError::invalid(format!("{PATH}.labels[{label}]"), &given, &why));
            }
            Some(_) => {}
        }
    }
    let expected: Map<String, Value> =
        expected.iter().map(|(label, value)| ((*label).to_owned(), json!(value))).collect();
    let selects = LabelSelector::from_object(&spec["selector"])
        .is_none_or(|selector| selector.matches_labels(Some(&Value::Object(expected))));
    if !selects {
        let shown = go::json(&spec["selector"]);
        errors.push(FieldError::invalid("spec.selector", &shown, "`selector` not auto-generated"));
    }
    errors
}

/// Checks that the pods of an indexed Job, whose host names end with their index, can have these names.
fn host_names(job: &Value) -> Option<FieldError> {
    let spec = &job["spec"];
    let count =
        spec["completions"].as_i64().filter(|count| *count > 0 && spec["completionMode"] == "Indexed")?;
    let name = text(&job["metadata"], "name");
    let host = format!("{name}-{}", count - 1);
    (!names::label(&host).is_empty()).then(|| {
        let why = format!("will not able to create pod with invalid DNS label: {host}");
        invalid_text("metadata.name", name, &why)
    })
}

/// Returns the warning about an indexed Job at `path` with too many indexes.
pub(super) fn many_indexes(spec: &Value, path: &str) -> Option<String> {
    let number = |field: &str| spec[field].as_i64().unwrap_or_default();
    let is_many = spec["completionMode"] == "Indexed"
        && number("completions") > MANY_COMPLETIONS
        && number("parallelism") > MUCH_PARALLELISM;
    is_many.then(|| {
        format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
             Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        )
    })
}

/// Gives a Job without labels those of its template. Returns whether it had none.
fn default_labels(job: &mut Value) -> bool {
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    if labels.is_object()
        && job["metadata"]["labels"].as_object().is_none_or(Map::is_empty)
        && let Some(metadata) = job.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.insert("labels".to_owned(), labels);
        return true;
    }
    false
}

fn default(job: &mut Value) {
    default_labels(job);
    within(job, "spec", |spec| {
        // Before the default of `parallelism`, because the condition needs to know whether the client set it.
        if spec["completions"].is_null() && spec["parallelism"].is_null() {
            set(spec, "completions", json!(1));
        }
        set(spec, "parallelism", json!(1));
        // With a limit for each index, the total is unlimited.
        let limit = if spec["backoffLimitPerIndex"].is_null() { 6 } else { i32::MAX };
        set(spec, "backoffLimit", json!(limit));
        set(spec, "completionMode", json!("NonIndexed"));
        set(spec, "suspend", json!(false));
        set(spec, "manualSelector", json!(false));
        // A failure policy can judge only pods that have failed, not terminating ones.
        let replacement = if spec["podFailurePolicy"].is_null() { "TerminatingOrFailed" } else { "Failed" };
        set(spec, "podReplacementPolicy", json!(replacement));
        within(spec, "podFailurePolicy", |policy| {
            for rule in elements(policy, "rules") {
                for condition in elements(rule, "onPodConditions") {
                    set(condition, "status", json!("True"));
                }
            }
        });
        within(spec, "template", pod_spec::default);
    });
}

/// Sets the selector and labels of a new Job to its UID, unless it has a manual selector.
fn select_own_pods(job: &mut Value) {
    if job["spec"]["manualSelector"] == true {
        return;
    }
    let text = |field: &str| job["metadata"][field].as_str().unwrap_or_default().to_owned();
    let (uid, name) = (text("uid"), text("name"));
    // Labels that the client set stay: if they contradict the selector, validation refuses the Job.
    let add_to = |metadata: &mut Value| {
        if metadata["labels"].is_null() {
            metadata["labels"] = json!({});
        }
        for (labels, value) in [(UID_LABELS, &uid), (NAME_LABELS, &name)] {
            for label in labels {
                set(&mut metadata["labels"], label, json!(value));
            }
        }
    };
    // A Job that got the labels of its template shares them, because both are one map in Go.
    let labels = &job["metadata"]["labels"];
    if labels.is_object() && *labels == job["spec"]["template"]["metadata"]["labels"] {
        within(job, "metadata", add_to);
    }
    within(job, "spec", |spec| {
        if let Some(metadata) = spec.pointer_mut("/template/metadata").filter(|metadata| metadata.is_object())
        {
            add_to(metadata);
        }
        if spec["selector"].is_null() {
            spec["selector"] = json!({});
        }
        if spec["selector"]["matchLabels"].is_null() {
            spec["selector"]["matchLabels"] = json!({});
        }
        // The UID is sufficient to select only the pods of this Job.
        set(&mut spec["selector"]["matchLabels"], UID_LABELS[0], json!(uid));
    });
}

/// Checks the immutable fields of a Job. The scheduling of a suspended Job may change.
fn validate_update(old_job: &Value, new_job: &Value) -> Vec<FieldError> {
    let (old, new) = (&old_job["spec"], &new_job["spec"]);
    let mut errors = Vec::new();
    // An indexed Job may be scaled as long as completions and parallelism stay equal.
    if new["completionMode"] != "Indexed" {
        errors.extend(immutable("spec", old, new, &["completions"]));
    } else if old["completions"] != new["completions"]
        && !new["completions"].is_null()
        && new["completions"] != new["parallelism"]
    {
        let why = "can only be modified in tandem with spec.parallelism";
        errors.push(FieldError::invalid("spec.completions", &new["completions"].to_string(), why));
    }
    errors.extend(immutable("spec", old, new, &["selector"]));
    let template = &new["template"];
    errors.extend(if is_idle(old_job) {
        let kept = with_resources(with_placement(&old["template"], template), &template["spec"]);
        immutable_struct("spec.template.spec", "core.PodSpec", &kept["spec"], &template["spec"])
    } else {
        immutable_struct("spec.template", "core.PodTemplateSpec", &old["template"], template)
    });
    errors.extend(immutable("spec", old, new, &["completionMode"]));
    let policy =
        |field: &str, name: &str| immutable_struct(&format!("spec.{field}"), name, &old[field], &new[field]);
    errors.extend(policy("podFailurePolicy", "*batch.PodFailurePolicy"));
    errors.extend(immutable("spec", old, new, &["backoffLimitPerIndex", "managedBy"]));
    errors.extend(policy("successPolicy", "*batch.SuccessPolicy"));
    errors
}

/// Whether a Job is suspended and has no pods, so that its template may change.
fn is_idle(job: &Value) -> bool {
    let status = &job["status"];
    let is_suspended = list(status, "conditions")
        .iter()
        .any(|condition| condition["type"] == "Suspended" && condition["status"] == "True");
    job["spec"]["suspend"] == true
        && (status["startTime"].is_null() || is_suspended)
        && status["active"].as_i64().unwrap_or_default() == 0
}

/// Returns the old template of a Job with the fields of `new` that determine where its pods run.
fn with_placement(old: &Value, new: &Value) -> Value {
    let mut template = old.clone();
    let mut take = |path: &str| match new.pointer(path) {
        Some(value) => set_at(&mut template, path, value.clone()),
        None => set_at(&mut template, path, Value::Null),
    };
    for path in [
        "/metadata/labels",
        "/metadata/annotations",
        "/spec/nodeSelector",
        "/spec/tolerations",
        "/spec/schedulingGates",
    ] {
        take(path);
    }
    // Affinity to nodes may change, affinity to pods may not.
    let affinity = &new["spec"]["affinity"];
    let mut kept = old["spec"]["affinity"].clone();
    if !affinity.is_null() || !kept.is_null() {
        if kept.is_null() {
            kept = json!({});
        }
        put(&mut kept, "nodeAffinity", affinity["nodeAffinity"].clone());
        let is_empty = kept.as_object().is_none_or(Map::is_empty);
        let is_dropped = affinity.is_null() && is_empty;
        set_at(&mut template, "/spec/affinity", if is_dropped { Value::Null } else { kept });
    }
    template
}

/// Returns a template with the resources of the containers in `spec`, as far as these have the same names.
fn with_resources(mut template: Value, spec: &Value) -> Value {
    for field in ["containers", "initContainers"] {
        let given = list(spec, field);
        if given.len() != list(&template["spec"], field).len() {
            continue;
        }
        for (container, given) in elements(&mut template["spec"], field).zip(given) {
            if container["name"] == given["name"] {
                put(container, "resources", given["resources"].clone());
            }
        }
    }
    template
}

/// Sets a field that is two levels deep; null removes it.
fn set_at(value: &mut Value, path: &str, to: Value) {
    let mut names = path.split('/').skip(1);
    let (Some(outer), Some(inner)) = (names.next(), names.next()) else {
        return;
    };
    match value.get_mut(outer).and_then(Value::as_object_mut) {
        Some(fields) if to.is_null() => drop(fields.remove(inner)),
        Some(fields) => drop(fields.insert(inner.to_owned(), to)),
        None if to.is_null() => {}
        None => value[outer] = json!({ inner: to }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_job_selects_its_own_pods() {
        let mut job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"metadata": {}}}});
        select_own_pods(&mut job);
        assert_eq!(
            job["spec"]["selector"],
            json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}})
        );
        assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "j");
        // It gets the labels of its template when it is stored.
        assert_eq!(job["metadata"]["labels"], Value::Null);
        default_labels(&mut job);
        assert_eq!(job["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]);
    }

    #[test]
    fn a_job_shares_the_labels_that_it_got_from_its_template() {
        let new = |labels: Value| {
            let mut job = json!({"metadata": {"name": "j", "uid": "u", "labels": labels}});
            job["spec"] = json!({"template": {"metadata": {"labels": {"a": "b"}}}});
            default(&mut job);
            select_own_pods(&mut job);
            job["metadata"]["labels"].take()
        };
        assert_eq!(new(Value::Null)["job-name"], "j");
        assert_eq!(new(json!({"own": "x"})), json!({"own": "x"}));
    }

    #[test]
    fn a_job_with_a_manual_selector_is_unchanged() {
        let before = json!({"metadata": {"name": "j"}, "spec": {"manualSelector": true, "selector": {}}});
        let mut job = before.clone();
        select_own_pods(&mut job);
        assert_eq!(job, before);
    }

    #[test]
    fn completions_follow_from_parallelism_only_if_both_are_absent() {
        let mut job = json!({"metadata": {}, "spec": {"parallelism": 3}});
        default(&mut job);
        assert_eq!(job["spec"]["completions"], Value::Null);
        let mut job = json!({"metadata": {}, "spec": {}});
        default(&mut job);
        assert_eq!((&job["spec"]["completions"], &job["spec"]["parallelism"]), (&json!(1), &json!(1)));
    }

    #[test]
    fn completions_mode_and_template_are_immutable_unless_suspended_or_elastic() {
        let job = |completions: u32, mode: &str, suspend: bool, zone: &str| {
            json!({"spec": {
                "completions": completions, "parallelism": completions, "completionMode": mode, "suspend": suspend,
                "template": {"spec": {"nodeSelector": {"zone": zone}}},
            }})
        };
        let check = |old: &Value, new: &Value, expected: &[&str]| {
            let errors = validate_update(old, new);
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(errors, expected, "{old} to {new}");
        };
        let old = job(1, "NonIndexed", false, "a");
        check(
            &old,
            &job(2, "NonIndexed", true, "a"),
            &["spec.completions: Invalid value: 2: field is immutable"],
        );
        let why = "spec.completionMode: Invalid value: \"Indexed\": field is immutable";
        check(&old, &job(1, "Indexed", false, "a"), &[why]);
        let errors = validate_update(&old, &job(1, "NonIndexed", false, "b"));
        let [error] = errors.as_slice() else { panic!("{errors:?}") };
        let shown = error.to_string();
        // Parts of a message of kube-apiserver v1.36.3, which shows all fields of the struct.
        assert!(shown.starts_with("spec.template: Invalid value: {\"Spec\":{\"Volumes\":null,"), "{shown}");
        assert!(
            shown.contains(
                ",\"DNSPolicy\":\"\",\"NodeSelector\":{\"zone\":\"b\"},\"ServiceAccountName\":\"\","
            ),
            "{shown}"
        );
        assert!(
            shown.ends_with(",\"HostnameOverride\":null,\"SchedulingGroup\":null}}: field is immutable"),
            "{shown}"
        );
        check(&job(1, "NonIndexed", true, "a"), &job(1, "NonIndexed", true, "b"), &[]);
        let mut active = job(1, "NonIndexed", true, "a");
        active["status"] = json!({"active": 1});
        let errors = validate_update(&active, &job(1, "NonIndexed", true, "b"));
        assert_eq!(errors[0].field, "spec.template", "{errors:?}");
        check(&job(1, "Indexed", false, "a"), &job(3, "Indexed", false, "a"), &[]);
        let mut new = job(3, "Indexed", false, "a");
        new["spec"]["parallelism"] = json!(1);
        let why = "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism";
        check(&job(1, "Indexed", false, "a"), &new, &[why]);
    }

    /// Decisions and fields recorded from kube-apiserver v1.36.3.
    #[test]
    fn resources_and_placement_of_a_suspended_job_change() {
        let old = json!({"spec": {"suspend": true, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
            "containers": [{"name": "c", "image": "i"}],
        }}}});
        let check = |change: fn(&mut Value), field: Option<&str>| {
            let mut new = old.clone();
            change(&mut new["spec"]["template"]);
            let errors = validate_update(&old, &new);
            let fields: Vec<&str> = errors.iter().map(|error| &*error.field).collect();
            assert_eq!(fields, field.into_iter().collect::<Vec<_>>(), "{new}");
        };
        let spec = Some("spec.template.spec");
        check(|template| template["spec"]["containers"][0]["image"] = json!("j"), spec);
        check(|template| template["spec"]["affinity"] = json!({"podAffinity": {}}), spec);
        check(|template| template["spec"]["affinity"] = json!({"nodeAffinity": {"a": 1}}), None);
        check(
            |template| template["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}}),
            None,
        );
        check(|template| template["metadata"] = json!({"labels": {"x": "y"}, "finalizers": ["a/b"]}), None);
        check(|template| template["spec"]["nodeSelector"] = json!({"a": "b"}), None);
    }

    /// Texts of kube-apiserver v1.36.3, observed or read in its source.
    #[test]
    fn the_selector_and_the_policy_of_a_job_are_validated() {
        let check = |job: Value, old: Option<&Value>, expected: &[&str]| {
            crate::kinds::builtin::test_helpers::check("Job", &job, old, expected);
        };
        let pod = json!({"restartPolicy": "Always", "containers": [{"name": "c", "image": "i"}]});
        let unmatched =
            "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`";
        let job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {
            "parallelism": -1, "backoffLimitPerIndex": 1, "template": {"spec": pod},
        }});
        let errors = [
            "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
            "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
            "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
            "spec.selector: Required value",
            unmatched,
        ];
        check(job.clone(), None, &errors);
        check(job.clone(), Some(&job), &[errors, errors].concat());
        let mut job = json!({"metadata": {"name": "j.k", "uid": "u"}, "spec": {
            "completionMode": "Indexed", "completions": 2, "maxFailedIndexes": 3,
            "template": {"metadata": {"labels": {"job-name": "other"}}, "spec": pod},
            "selector": {"matchLabels": {"a": "b"}},
        }});
        job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
        let labels = "{\"job-name\":\"other\"}";
        check(
            job,
            None,
            &[
                "spec.template.metadata.labels[controller-uid]: Required value: must be 'u'",
                &format!("spec.template.metadata.labels[job-name]: Invalid value: {labels}: must be 'j.k'"),
                "spec.template.metadata.labels[batch.kubernetes.io/controller-uid]: Required value: must be 'u'",
                "spec.template.metadata.labels[batch.kubernetes.io/job-name]: Required value: must be 'j.k'",
                "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: `selector` not auto-generated",
                "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
                "spec.maxFailedIndexes: Invalid value: 3: must be less than or equal to completions",
                &format!(
                    "spec.template.metadata.labels: Invalid value: {labels}: `selector` does not match template `labels`"
                ),
                "metadata.name: Invalid value: \"j.k\": will not able to create pod with invalid DNS label: j.k-1",
            ],
        );
    }
}
