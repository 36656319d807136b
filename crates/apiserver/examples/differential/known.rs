//! Differences that are known and accepted, with their reasons. `docs/book/src/reference/api-server-differences.md` explains them to users.

use super::comparison::Difference;
use super::player::Outcome;
use super::request::Answer;

/// A known difference.
struct Known {
    reason: &'static str,
    /// Whether it covers a difference in the response to a request, given by verb and resource (`create pods`).
    is: fn(&str, &Difference) -> bool,
}

const KNOWN: [Known; 21] = [
    Known { reason: "the data of a ControllerRevision are compared with its revision", is: is_revision },
    Known { reason: "several objects are converted by one call of a webhook", is: is_conversion_batch },
    Known { reason: "errors of strategic merge patches name fewer types of Go", is: is_strategic_error },
    Known { reason: "errors about undeclared fields are complete", is: is_partial_schema_error },
    Known { reason: "an update that starts from a stale cache calls webhooks twice", is: is_retried },
    Known { reason: "empty lists and maps of a schema count as absent", is: is_empty_schema },
    Known { reason: "unknown fields of a patched object are sorted", is: is_field_order },
    Known { reason: TRAFFIC_POLICY, is: is_traffic_policy },
    Known { reason: "duplicates in the values of a JSON patch are reported once", is: is_patched_duplicate },
    Known {
        reason: "a read that the watch cache does not serve has another error",
        is: is_uncached_revision,
    },
    Known {
        reason: "a Service without a name gets an address before its name is required",
        is: is_nameless_service,
    },
    Known { reason: "contents of a schema have other errors than Go's decoder", is: is_schema_type },
    Known { reason: "a zero time in protobuf counts as absent", is: is_zero_time },
    Known { reason: "a webhook gets null bytes in a map as empty bytes", is: is_null_bytes },
    Known { reason: "numbers beyond 64-bit integers lose digits", is: is_long_number },
    Known { reason: "a webhook gets default policies in place of an empty list", is: is_empty_policies },
    Known {
        reason: "a webhook that removes the annotations of an object removes the fields that they carry",
        is: is_removed_field,
    },
    Known { reason: "a webhook of another version lacks the fields of the written one", is: is_lost_field },
    Known { reason: "a list converts objects when it is read", is: is_cached_list },
    Known { reason: "empty limits of a pod create no empty requests", is: is_empty_requests },
    Known { reason: "a stored `caBundle` without content counts as absent", is: is_empty_bundle },
];

/// Reason of all differences in a response to a converted kind whose stored object cannot be converted.
const CACHED: &str = "an object is converted for an update only if the watch cache has it already";

/// Returns the reason of a response with known differences only, and one of them.
///
/// # Errors
/// The first difference that is not known.
pub(crate) fn reason<'a>(
    subject: &str,
    outcome: &'a Outcome,
) -> Result<(&'static str, &'a Difference), &'a Difference> {
    let differences = &outcome.differences;
    let reason_of = |difference: &Difference| {
        KNOWN.iter().find(|known| (known.is)(subject, difference)).map(|known| known.reason)
    };
    if is_unconverted(subject, outcome) {
        return Ok((CACHED, &differences[0]));
    }
    if is_internal_type(subject, outcome) {
        return Ok((INTERNAL, &differences[0]));
    }
    if is_stored_policy(subject, outcome) {
        return Ok((TRAFFIC_POLICY, &differences[0]));
    }
    let known = differences.iter().find_map(|difference| Some((reason_of(difference)?, difference)));
    // If only one server writes the object, for a known reason, these fields differ too.
    let is_consequence = |difference: &Difference| {
        let is_version = ["$.metadata.resourceVersion", "$.metadata.generation"].contains(&&*difference.path);
        known.is_some() && is_version
    };
    match differences.iter().find(|difference| reason_of(difference).is_none() && !is_consequence(difference))
    {
        Some(unknown) => Err(unknown),
        None => known.ok_or(&differences[0]),
    }
}

/// kube-apiserver starts an update from its watch cache, and converts that object to the stored version. If the object has just been
/// written, the cache may not have it; then kube-apiserver starts from its storage, and needs no conversion.
fn is_unconverted(subject: &str, outcome: &Outcome) -> bool {
    let fails = |answer: &Answer| {
        let message = answer.body["message"].as_str().unwrap_or_default();
        let is_failure =
            message.contains("conversion webhook for ") || message.contains("unexpected end of JSON input");
        answer.status == 500 && is_failure
    };
    // The cache may also still have an object that was just deleted.
    let is_gone = fails(&outcome.genuine) && outcome.ours.status == 404;
    let is_fresh = fails(&outcome.ours) && !fails(&outcome.genuine);
    let writes = ["update", "merge", "json-patch", "apply", "status", "scale", "delete"];
    (is_gone || is_fresh) && writes.iter().any(|verb| subject == format!("{verb} sprockets"))
}

/// Reason of all differences in the response to a patch that removes `apiVersion`.
const INTERNAL: &str = "a patch that removes the type is not decoded as Go's internal type";

/// Reason of differences in Services without an address.
const TRAFFIC_POLICY: &str = "a read drops the traffic policy of a Service without address";

/// The time is null in JSON, but Go compares the pointer to it, which is not nil.
fn is_zero_time(subject: &str, difference: &Difference) -> bool {
    let is_refused = ["Invalid value: null: field is immutable", "Forbidden: cannot be set"]
        .iter()
        .any(|why| difference.genuine.contains(&format!("metadata.deletionTimestamp: {why}")));
    let is_shown = difference.path.ends_with("Time")
        && ["null", "{}"].contains(&&*difference.genuine)
        && difference.ours == "(absent)";
    ["create ", "update ", "status "].iter().any(|verb| subject.starts_with(verb)) && (is_shown || is_refused)
}

/// Both servers store empty bytes: protobuf has no null.
fn is_null_bytes(subject: &str, difference: &Difference) -> bool {
    let maps = [".object.data.", ".object.binaryData."];
    ["secrets", "configmaps"].iter().any(|plural| subject.ends_with(plural))
        && difference.path.starts_with("call ")
        && maps.iter().any(|map| difference.path.contains(map))
        && (difference.genuine.as_str(), difference.ours.as_str()) == ("null", "\"\"")
}

/// Go decodes a quantity from the text of the number.
fn is_long_number(_: &str, difference: &Difference) -> bool {
    let is_long = |word: &&str| word.len() >= 16 && word.bytes().take(16).all(|digit| digit.is_ascii_digit());
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        words.map(|word| if is_long(&word) { "#".to_owned() } else { word.to_owned() }).collect()
    };
    let (genuine, ours) = (words(&difference.genuine), words(&difference.ours));
    genuine == ours && genuine.iter().any(|word| word == "#")
}

/// Validation refuses the empty list on both servers.
fn is_empty_policies(subject: &str, difference: &Difference) -> bool {
    let path = &difference.path;
    subject.ends_with(" horizontalpodautoscalers")
        && path.starts_with("call ")
        && path.ends_with("olicies")
        && (path.contains(".behavior.") || path.contains(".f:behavior."))
        && difference.genuine == "(absent)"
}

/// kube-apiserver converts the object of `autoscaling/v1` that a webhook returns into the former object, which keeps its metrics if the new
/// one has none.
fn is_removed_field(subject: &str, difference: &Difference) -> bool {
    if subject.ends_with(" daemonsets") {
        return difference.path.starts_with("call ")
            && difference.path.ends_with(".annotations.deprecated.daemonset.template.generation");
    }
    let is_default = difference.path.starts_with("call ")
        && difference.path.ends_with(".spec.targetCPUUtilizationPercentage")
        && (difference.genuine.as_str(), difference.ours.as_str()) == ("(absent)", "80");
    let is_kept = difference.path == "causes"
        && difference.ours == "(absent)"
        && difference.genuine.lines().all(|line| line.starts_with("spec.metrics["));
    // Metrics of the annotation are added to them, and those behind the first of the former ones are empty.
    let is_without_type = |line: &str| line.contains("spec.metrics[") && line.contains("].type: ");
    let is_added = difference.path == "status"
        && difference.ours.starts_with("20")
        && difference.genuine.starts_with("422")
        && difference.genuine.split(", spec.").all(|part| is_without_type(&format!("spec.{part}")));
    subject.ends_with(" horizontalpodautoscalers") && (is_default || is_kept || is_added)
}

/// kube-apiserver converts the old object for a webhook from Go's internal type, and not from the version of the request: `autoscaling/v1` has no
/// average of the metric of an object. It also keeps the spec of that type in a write of `/status`.
fn is_lost_field(subject: &str, difference: &Difference) -> bool {
    let is_rewritten =
        subject == "status horizontalpodautoscalers" && difference.path == "$.metadata.resourceVersion";
    let is_missing = subject.ends_with(" horizontalpodautoscalers")
        && difference.path.starts_with("call ")
        && difference.path.contains(".oldObject.spec.metrics[")
        && difference.path.ends_with(".averageUtilization")
        && difference.ours == "(absent)";
    is_rewritten || is_missing
}

/// kube-apiserver lists objects from a cache of each version, which converts them when they are written. The embedded server converts them
/// when they are read.
fn is_cached_list(subject: &str, difference: &Difference) -> bool {
    ["list sprockets", "watch sprockets"].contains(&subject)
        && difference.path == "status"
        && difference.genuine.starts_with("200")
        && difference.ours.starts_with("500 conversion webhook for ")
}

/// Only the diff of a refused update shows them.
fn is_empty_requests(subject: &str, difference: &Difference) -> bool {
    let others = |text: &str| {
        let words =
            text.split_whitespace().filter(|word| !["\"Requests\":", "null", "+", "-"].contains(word));
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    subject.ends_with(" pods")
        && difference.path == "causes"
        && difference.genuine.contains("\"Requests\":")
        && others(&difference.genuine) == others(&difference.ours)
}

/// The next update without the bundle is a change for kube-apiserver: protobuf distinguishes empty bytes from none.
fn is_empty_bundle(subject: &str, difference: &Difference) -> bool {
    subject.ends_with("webhookconfigurations") && difference.path == "$.metadata.generation"
}

/// kube-apiserver still stores the policy, so that an update without it writes a new version.
fn is_stored_policy(subject: &str, outcome: &Outcome) -> bool {
    subject == "update services"
        && outcome.ours.body["spec"]["type"] == "ExternalName"
        && outcome.differences.iter().all(|difference| difference.path == "$.metadata.resourceVersion")
}

/// Go's internal type has the fields of its metadata at the top, so that such a patch may name the object there.
fn is_internal_type(subject: &str, outcome: &Outcome) -> bool {
    let message = outcome.ours.body["message"].as_str().unwrap_or_default();
    !is_custom(subject)
        && ["merge ", "json-patch "].iter().any(|verb| subject.starts_with(verb))
        && outcome.ours.status == 400
        && message.ends_with("was undeterminable: name must be provided")
}

/// The watch cache of a kind starts with its first read. Until it is ready, the storage answers.
fn is_uncached_revision(subject: &str, difference: &Difference) -> bool {
    let error = |text: &str, start: &str| text.strip_prefix(start).map(str::to_owned);
    let stored = error(&difference.genuine, "400 invalid resource version: ");
    let has_other_status =
        difference.path == "status" && stored.is_some() && stored == error(&difference.ours, "500 ");
    // The storage does not say when a version that is too new is worth another try.
    let has_no_retry = difference.path == "$.details.retryAfterSeconds"
        && difference.genuine == "(absent)"
        && difference.ours == "1";
    subject.starts_with("get ") && (has_other_status || has_no_retry)
}

fn is_nameless_service(subject: &str, difference: &Difference) -> bool {
    subject == "create services"
        && difference.path == "causes"
        && difference.genuine.contains("failed to allocate IP: IPAddress.networking.k8s.io")
        && difference.genuine.contains("spec.parentRef.name: Required value")
        && difference.ours.contains("metadata.name: Required value")
}

/// `items`, `additionalItems`, `additionalProperties` and `dependencies` have decoders of their own in Go. They refuse values of other types;
/// the embedded server validates them. It validates neither a default of an unknown type nor a schema inside
/// empty `dependencies`.
fn is_schema_type(subject: &str, difference: &Difference) -> bool {
    let genuine = &difference.genuine;
    // The elements of a list in `dependencies` are texts.
    let is_typed = genuine.contains("JSONSchema") || genuine.ends_with("into Go value of type string");
    let is_decoded = genuine.contains("boolean or JSON schema expected")
        || (genuine.contains("cannot unmarshal ") && is_typed);
    let is_missing = |line: &str| {
        line.contains(".default: Invalid value: ")
            || line.ends_with("dependencies: Forbidden: dependencies is not supported")
    };
    let is_incomplete = difference.ours == "(absent)" && genuine.lines().all(is_missing);
    let is_quoted = genuine.contains("\"JSONSchemas\":null");
    let is_empty = genuine.ends_with("dependencies: Forbidden: dependencies is not supported")
        && difference.ours.starts_with("20");
    subject.ends_with(" customresourcedefinitions")
        && match &*difference.path {
            "status" => is_decoded || is_empty,
            "causes" => is_decoded || is_incomplete || is_quoted,
            _ => false,
        }
}

/// kube-apiserver stores the policy and drops it when it reads the Service, but not at `/status` or in the response to a deletion. Its
/// writer owns the stored policy.
fn is_traffic_policy(subject: &str, difference: &Difference) -> bool {
    let is_shown = difference.path == "$.spec.internalTrafficPolicy" && difference.ours == "(absent)";
    let is_reviewed = difference.path.starts_with("call ")
        && difference.path.ends_with(".spec.internalTrafficPolicy")
        && difference.ours == "(absent)";
    // The error about a patch quotes the object as it is stored.
    let without = |text: &str| {
        text.replace("\\\"internalTrafficPolicy\\\":\\\"Cluster\\\"", "")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let is_quoted = subject.ends_with(" services")
        && difference.path == "causes"
        && difference.genuine.contains("internalTrafficPolicy")
        && without(&difference.genuine) == without(&difference.ours);
    let verbs = ["status services", "delete services"];
    is_quoted
        || (is_shown && verbs.contains(&subject))
        || (subject.ends_with(" services") && is_reviewed)
        || (subject.ends_with(" services") && difference.path.ends_with(".f:spec.f:internalTrafficPolicy"))
}

/// kube-apiserver keeps the text of the values of a JSON patch, and reports its duplicate fields at their places in the object too.
fn is_patched_duplicate(subject: &str, difference: &Difference) -> bool {
    let reports = |text: &str| text.contains("json patch duplicate field");
    let counted = |text: &str| text.matches("duplicate field \"").count();
    subject.starts_with("json-patch ")
        && reports(&difference.genuine)
        && reports(&difference.ours)
        && counted(&difference.genuine) > counted(&difference.ours)
}

fn is_custom(subject: &str) -> bool {
    ["widgets", "gadgets", "sprockets", "gizmos", "customresourcedefinitions"]
        .iter()
        .any(|plural| subject.ends_with(plural))
}

/// kube-apiserver compares the text of the data as it was sent, with its spaces, which the embedded server does not keep.
fn is_revision(subject: &str, difference: &Difference) -> bool {
    subject.ends_with(" controllerrevisions") && difference.ours.contains("data: Invalid value")
}

/// The error of a review counts its objects, and names the step that needed them. The webhook of this program fails for the first object of a
/// review only, so that another step may be the first one to fail, or the second object is converted.
fn is_conversion_batch(subject: &str, difference: &Difference) -> bool {
    let is_error = |text: &str| {
        text.contains("conversion webhook for ") || text.contains("unexpected end of JSON input")
    };
    let is_second = subject == "apply sprockets"
        && difference.genuine.starts_with("500 failed to convert new object: conversion webhook for ");
    subject.ends_with(" sprockets")
        && (is_second || (is_error(&difference.genuine) && is_error(&difference.ours)))
}

fn is_strategic_error(_: &str, difference: &Difference) -> bool {
    const FORMS: [&str; 8] = [
        "unable to find api field in struct ",
        "unknown patch type: ",
        "unrecognized type: ",
        "cannot convert ",
        "cannot restore ",
        "parsing time ",
        "quantities must match ",
        "but data type is not struct",
    ];
    // Go decodes the fields in the order of their declaration, and visits a patch in random order, so that its first error may be another.
    let is_error = |text: &str| {
        FORMS.iter().any(|form| text.contains(form))
            || text.contains("illegal base64")
            || text.contains("into Go value of type ")
    };
    is_error(&difference.genuine) && is_error(&difference.ours)
}

/// kube-apiserver stops at some point, which depends on the order of a map.
fn is_partial_schema_error(_: &str, difference: &Difference) -> bool {
    let is_error = |text: &str| text.contains("field not declared in schema");
    is_error(&difference.genuine) && is_error(&difference.ours)
}

/// kube-apiserver begins with the object in its watch cache, and starts again if a newer one is stored.
fn is_retried(_: &str, difference: &Difference) -> bool {
    let calls = |text: &str| text.split(", ").map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
    difference.path == "webhook calls" && calls(&difference.genuine) == calls(&difference.ours)
}

/// A schema that a message quotes has `null` for its empty lists and maps, and an empty one at the root is not refused.
fn is_empty_schema(subject: &str, difference: &Difference) -> bool {
    let is_shown = difference.path == "causes" && difference.genuine.contains("\"AdditionalItems\":null");
    let is_refused = difference.path == "status"
        && difference.ours.starts_with("20")
        && difference
            .genuine
            .contains("fields are allowed at the root of the schema if the status subresource is enabled")
        && (difference.genuine.contains("\":[]") || difference.genuine.contains("\":{}"));
    subject.ends_with(" customresourcedefinitions") && (is_shown || is_refused)
}

/// The text of a patched object has the order of Go's fields, and its unknown fields are reported in that order.
fn is_field_order(subject: &str, difference: &Difference) -> bool {
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    // The message of a refusal has been sorted around the field that comes first.
    let words = |text: &str| {
        let mut words: Vec<&str> = text.split([' ', '\n']).filter(|word| !word.is_empty()).collect();
        words.sort_unstable();
        words.join(" ")
    };
    let is_refusal = |text: &str| text.contains("strict decoding error: ");
    let are_warnings = difference.path == "warnings"
        && difference.genuine.lines().all(|line| line.contains("unknown field "))
        && sorted(&difference.genuine) == sorted(&difference.ours);
    let are_causes = difference.path == "causes"
        && is_refusal(&difference.genuine)
        && is_refusal(&difference.ours)
        && words(&difference.genuine) == words(&difference.ours);
    subject.starts_with("json-patch ") && (are_warnings || are_causes)
}
