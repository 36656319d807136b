//! Differences between two responses to one request.
//!
//! Each server chooses its own UIDs, resourceVersions, generated names, addresses, node ports and times. Such values are equal if each
//! value of one server always stands for the same value of the other. Lists without a defined order are sorted first.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Number, Value};

use super::request::{Answer, is_random};

/// A warning of the webhooks of this program.
const WEBHOOK_WARNING: &str = "299 - \"first\"";

/// Where two responses differ.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Difference {
    /// JSON path, or `status`, `content type`, `warnings`.
    pub(crate) path: String,
    pub(crate) genuine: String,
    pub(crate) ours: String,
}

/// Values that the servers chose, in pairs.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    genuine: BTreeMap<String, String>,
    ours: BTreeMap<String, String>,
}

impl Pairs {
    /// Whether the values stand for each other; new values do from now on.
    pub(crate) fn bind(&mut self, genuine: &str, ours: &str) -> bool {
        match (self.genuine.get(genuine), self.ours.get(ours)) {
            (Some(expected), Some(_)) => expected == ours,
            (None, None) => {
                self.genuine.insert(genuine.to_owned(), ours.to_owned());
                self.ours.insert(ours.to_owned(), genuine.to_owned());
                true
            }
            _ => false,
        }
    }

    /// Returns a text of the genuine server with the values of ours.
    fn translate(&self, text: &str) -> String {
        // Short values, such as revisions, occur in other texts by chance.
        let is_distinct = |value: &str| {
            value.len() > 8 || (value.len() > 5 && value.contains(|c: char| c.is_ascii_alphabetic()))
        };
        let long = self.genuine.iter().filter(|(value, _)| is_distinct(value));
        long.fold(text.to_owned(), |text, (genuine, ours)| text.replace(genuine.as_str(), ours))
    }

    /// Whether cells of tables or messages of causes are equal, except for values that the servers chose: UIDs, addresses and node ports. A
    /// table has no other place for some of them, so they are bound here.
    fn are_texts_equal(&mut self, genuine: &str, ours: &str) -> bool {
        const SEPARATORS: [char; 5] = ['/', ':', ',', '=', ' '];
        let shape = |cell: &str| cell.matches(SEPARATORS).collect::<Vec<_>>().concat();
        let words = |cell: &str| cell.split(SEPARATORS).map(str::to_owned).collect::<Vec<_>>();
        shape(genuine) == shape(ours)
            && words(genuine).iter().zip(&words(ours)).all(|(genuine, ours)| {
                let are_chosen = is_chosen(genuine) && is_chosen(ours) || are_generated_names(genuine, ours);
                genuine == ours || (are_chosen && self.bind(genuine, ours))
            })
    }

    /// Compares two responses.
    pub(crate) fn compare(&mut self, genuine: &Answer, ours: &Answer) -> Vec<Difference> {
        let mut found = Vec::new();
        let mut differ = |path: &str, genuine: String, ours: String| {
            found.push(Difference { path: path.to_owned(), genuine, ours });
        };
        if genuine.status != ours.status {
            let text = |answer: &Answer| match answer.body["message"].as_str() {
                _ if answer.is_ended() => format!("no response: {}", answer.body),
                Some(message) if answer.status >= 400 => format!("{} {message}", answer.status),
                _ => answer.status.to_string(),
            };
            differ("status", self.translate(&text(genuine)), text(ours));
            return found;
        }
        if genuine.content_type != ours.content_type {
            differ("content type", genuine.content_type.clone(), ours.content_type.clone());
        }
        let warnings = |answer: &Answer| {
            let mut warnings = answer.warnings.clone();
            // Validating webhooks are called at the same time, so their warnings have no order.
            if warnings.iter().any(|warning| warning == WEBHOOK_WARNING) {
                warnings.sort_unstable();
            }
            warnings.join("\n")
        };
        let warned = (self.translate(&warnings(genuine)), warnings(ours));
        if warned.0 != warned.1 {
            differ("warnings", warned.0, warned.1);
        }
        let causes = (causes(genuine, |text| self.translate(text)), causes(ours, str::to_owned));
        if causes.0 != causes.1 {
            let missing: Vec<&str> = causes.0.difference(&causes.1).map(String::as_str).collect();
            let superfluous: Vec<&str> = causes.1.difference(&causes.0).map(String::as_str).collect();
            let side =
                |lines: &[&str]| if lines.is_empty() { "(absent)".to_owned() } else { lines.join("\n") };
            found.push(Difference {
                path: "causes".into(),
                genuine: side(&missing),
                ours: side(&superfluous),
            });
            return found;
        }
        // Other fields may contain the UID, as those of Jobs.
        let uid = |answer: &Answer| answer.body["metadata"]["uid"].as_str().map(str::to_owned);
        if let (Some(genuine), Some(ours)) = (uid(genuine), uid(ours)) {
            self.bind(&genuine, &ours);
        }
        // A label of a namespace repeats its name, which may be generated.
        let name = |answer: &Answer| answer.body["metadata"]["name"].as_str().map(str::to_owned);
        if let (Some(genuine), Some(ours)) = (name(genuine), name(ours))
            && genuine != ours
        {
            self.bind(&genuine, &ours);
        }
        self.values(
            "$",
            &without_store_revisions(&genuine.body),
            &without_store_revisions(&ours.body),
            &mut found,
        );
        // The message repeats the causes.
        if !causes.0.is_empty() {
            found.retain(|difference| !matches!(&*difference.path, "$.message" | "$.details.causes"));
        }
        found
    }

    /// Compares the reviews that webhooks received.
    pub(crate) fn compare_calls(
        &mut self,
        genuine: &[(String, Value)],
        ours: &[(String, Value)],
        found: &mut Vec<Difference>,
    ) {
        let name = |(webhook, review): &(String, Value)| {
            let (operation, resource) =
                (&review["request"]["operation"], &review["request"]["resource"]["resource"]);
            format!("{webhook} {} {}", operation.as_str().unwrap_or("?"), resource.as_str().unwrap_or("?"))
        };
        let names = |calls: &[(String, Value)]| calls.iter().map(name).collect::<Vec<_>>();
        if names(genuine) != names(ours) {
            let text = |calls| names(calls).join(", ");
            found.push(Difference { path: "webhook calls".into(), genuine: text(genuine), ours: text(ours) });
            return;
        }
        for ((webhook, genuine), (_, ours)) in genuine.iter().zip(ours) {
            let kind = &webhook[..1];
            self.values(&format!("call {kind}"), genuine, ours, found);
        }
    }

    fn values(&mut self, path: &str, genuine: &Value, ours: &Value, found: &mut Vec<Difference>) {
        match (genuine, ours) {
            (Value::Object(genuine), Value::Object(ours)) => {
                for (name, value) in genuine {
                    let path = format!("{path}.{}", self.translate(name));
                    match ours.get(name).or_else(|| ours.get(&self.translate(name))) {
                        Some(ours) => self.values(&path, value, ours, found),
                        None => found.push(difference(path, Some(value), None)),
                    }
                }
                let known: Vec<String> = genuine.keys().map(|name| self.translate(name)).collect();
                for (name, value) in ours.iter().filter(|(name, _)| !known.contains(name)) {
                    found.push(difference(format!("{path}.{name}"), None, Some(value)));
                }
            }
            (Value::Array(genuine), Value::Array(ours)) => {
                if genuine.len() != ours.len() {
                    found.push(difference(
                        path.to_owned(),
                        Some(&genuine.clone().into()),
                        Some(&ours.clone().into()),
                    ));
                    return;
                }
                let is_unordered = path.ends_with(".managedFields") || path.ends_with("$.details.causes");
                let sorted = |values: &[Value]| {
                    let mut values = values.to_vec();
                    if is_unordered {
                        values.sort_by_cached_key(rank);
                    }
                    values
                };
                for (index, (genuine, ours)) in sorted(genuine).iter().zip(&sorted(ours)).enumerate() {
                    self.values(&format!("{path}[{index}]"), genuine, ours, found);
                }
            }
            (Value::String(genuine), Value::String(ours)) => {
                if !self.is_equal(path, genuine, ours) {
                    let (genuine, ours) = (genuine.clone().into(), ours.clone().into());
                    found.push(difference(path.to_owned(), Some(&genuine), Some(&ours)));
                }
            }
            (Value::Number(genuine), Value::Number(ours))
                if path.ends_with(".nodePort")
                    || path.ends_with(".healthCheckNodePort")
                    || (genuine != ours && is_copied_port(path, genuine, ours)) =>
            {
                if !self.bind(&genuine.to_string(), &ours.to_string()) {
                    found.push(difference(
                        path.to_owned(),
                        Some(&genuine.clone().into()),
                        Some(&ours.clone().into()),
                    ));
                }
            }
            _ if genuine == ours => {}
            _ => found.push(difference(path.to_owned(), Some(genuine), Some(ours))),
        }
    }

    fn is_equal(&mut self, path: &str, genuine: &str, ours: &str) -> bool {
        // Each review has a UID of its own.
        if path.ends_with(".request.uid") && path.starts_with("call ") {
            return true;
        }
        let is_name = [".metadata.uid", ".metadata.name", "/metadata.name", ".request.name"]
            .iter()
            .any(|end| path.ends_with(end));
        if is_name || path == "$.details.name" {
            return genuine == ours || self.bind(genuine, ours);
        }
        // Patches copy the metadata to other places, as it is now or as it was.
        if path.ends_with(".resourceVersion") {
            let is_copy = !path.ends_with("metadata.resourceVersion") && genuine == ours;
            return is_copy || self.bind(genuine, ours);
        }
        if genuine == ours {
            return true;
        }
        if path.ends_with(".spec.clusterIP") || path.contains(".spec.clusterIPs[") {
            return self.bind(genuine, ours);
        }
        // Tokens of service accounts are signed by the keys of each server.
        if path.ends_with(".status.token") {
            return [genuine, ours].iter().all(|token| token.matches('.').count() == 2);
        }
        if path.ends_with(".metadata.continue") {
            return !genuine.is_empty() && !ours.is_empty();
        }
        let translated = self.translate(genuine);
        translated == ours
            || ((path.contains(".cells[") || path.contains(".causes["))
                && self.are_texts_equal(genuine, ours))
            || (is_recent(genuine) && is_recent(ours))
            || (is_age(genuine) && is_age(ours))
            || sorted_parts(&without_revisions(&translated)) == sorted_parts(&without_revisions(ours))
    }
}

/// Removes the revisions of lists and of bookmarks. They are those of the whole store, which other stories write too, and no values of an
/// object.
fn without_store_revisions(body: &Value) -> Value {
    let mut body = body.clone();
    let mask = |metadata: Option<&mut Value>| {
        if let Some(revision) = metadata.and_then(|metadata| metadata.get_mut("resourceVersion")) {
            *revision = "*".into();
        }
    };
    // A decoded list of protobuf lacks empty items.
    let is_list = body["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    if is_list || ["items", "rows"].iter().any(|list| body.get(*list).is_some()) {
        mask(body.get_mut("metadata"));
    }
    for event in body.as_array_mut().into_iter().flatten().filter(|event| event["type"] == "BOOKMARK") {
        mask(event.pointer_mut("/object/metadata"));
    }
    body
}

/// Returns the causes of an error, each once: kube-apiserver repeats some.
fn causes(answer: &Answer, translate: impl Fn(&str) -> String) -> BTreeSet<String> {
    let causes = answer.body["details"]["causes"].as_array().into_iter().flatten();
    let text = |cause: &Value, field: &str| translate(cause[field].as_str().unwrap_or_default());
    let cause = |cause: &Value| {
        without_times(&without_revisions(&format!("{}: {}", text(cause, "field"), text(cause, "message"))))
    };
    causes
        .map(cause)
        .map(
            |cause| {
                if cause.contains('{') { sorted_parts(&cause).join(" ") } else { without_node_ports(&cause) }
            },
        )
        .collect()
}

fn difference(path: String, genuine: Option<&Value>, ours: Option<&Value>) -> Difference {
    let text = |value: Option<&Value>| value.map_or("(absent)".to_owned(), ToString::to_string);
    Difference { path, genuine: text(genuine), ours: text(ours) }
}

/// Order of entries of managed fields without their times, and of causes.
fn rank(value: &Value) -> String {
    let mut value = value.clone();
    if let Some(entry) = value.as_object_mut() {
        entry.remove("time");
    }
    value.to_string()
}

/// Whether a text is a time that a server read from its clock: requests contain times of 2001.
pub(crate) fn is_recent(text: &str) -> bool {
    let is_form = |(index, c): (usize, char)| match index {
        4 | 7 => c == '-',
        10 => c == 'T',
        13 | 16 => c == ':',
        _ => c.is_ascii_digit() || c == '.' || c == 'Z',
    };
    text.len() >= 20
        && text.starts_with("20")
        && !text.starts_with("2001")
        && text.chars().enumerate().all(is_form)
}

/// Whether a word is a UID, a cluster IP or a node port.
fn is_chosen(word: &str) -> bool {
    is_uid(word)
        || is_node_port(word)
        || word.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.octets()[0] == 10)
}

fn is_node_port(word: &str) -> bool {
    word.parse::<u16>().is_ok_and(|port| (30_000..32_768).contains(&port))
}

/// Whether a patch has copied a node port to another field of a port, such as `targetPort`.
fn is_copied_port(path: &str, genuine: &Number, ours: &Number) -> bool {
    let is_port = path.ends_with(".targetPort") || path.ends_with(".port");
    is_port
        && path.contains(".spec.ports[")
        && [genuine, ours].iter().all(|port| is_node_port(&port.to_string()))
}

fn is_uid(word: &str) -> bool {
    word.len() == 36 && word.matches('-').count() == 4
}

/// Whether two names have the same `generateName`, to which both servers add five characters.
fn are_generated_names(genuine: &str, ours: &str) -> bool {
    let parts = |name: &str| {
        let (prefix, random) = name.split_at_checked(name.len().checked_sub(5)?)?;
        is_random(random).then(|| prefix.to_owned())
    };
    parts(genuine).is_some_and(|prefix| parts(ours) == Some(prefix))
}

/// Whether a text is an age of less than a day, as in tables: `5s`, `2m36s`, `3h`.
fn is_age(text: &str) -> bool {
    let parts: Vec<&str> = text.split_inclusive(['s', 'm', 'h']).collect();
    let is_part = |part: &&str| {
        let number = part.strip_suffix(['s', 'm', 'h']);
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    !parts.is_empty() && parts.iter().all(is_part)
}

/// Masks revisions and storage keys in messages.
fn without_revisions(text: &str) -> String {
    let mut out = text.to_owned();
    for (start, stop) in [
        ("Key: /", ", ResourceVersion"),
        ("ResourceVersion: ", ","),
        ("ResourceVersion in object meta: ", "\n"),
        ("resource version: ", " "),
        ("in the precondition (", ")"),
        ("duplicate nodePort: {TCP ", "}"),
        ("duplicate nodePort: {UDP ", "}"),
        ("in record (", ")"),
        ("resourceVersion:", " "),
        ("expected response.uid=\"", "\""),
    ] {
        if let Some((before, rest)) = out.split_once(start) {
            let after = rest.find(stop).map_or("", |at| &rest[at..]);
            out = format!("{before}{start}*{after}");
        }
    }
    out
}

/// Masks times that a server read from its clock.
fn without_times(text: &str) -> String {
    const LENGTH: usize = "2026-01-01T00:00:00Z".len();
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("20") {
        let (before, found) = rest.split_at(at);
        out += before;
        let is_time = found.get(..LENGTH).is_some_and(is_recent);
        let (shown, length) = if is_time { ("*", LENGTH) } else { ("20", 2) };
        out += shown;
        rest = &found[length..];
    }
    out + rest
}

/// Masks node ports in a quoted object, or in the error about a duplicate. A patch may have copied one to another field of a port, such as
/// `targetPort`: there, numbers from the range of node ports are masked, also in the error about an invalid value.
fn without_node_ports(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // `nodePort`, `healthCheckNodePort`, `targetPort` and `port`, and their names in Go.
    while let Some(at) = rest.find("ort") {
        let (name, after) = rest.split_at(at + "ort".len());
        let value = after.trim_start_matches(['\\', '"', ':']);
        let invalid = value.strip_prefix(" Invalid value: ");
        let value = invalid.or_else(|| value.strip_prefix(" Duplicate value: ")).unwrap_or(value);
        let (number, end) = value.split_at(value.len() - value.trim_start_matches(is_digit).len());
        let is_copied = (name.ends_with("port") || name.ends_with("Port")) && is_node_port(number);
        let is_own = name.ends_with("odePort") && invalid.is_none();
        out += name;
        out += &after[..after.len() - value.len()];
        out += if is_copied || (is_own && !number.is_empty()) { "*" } else { number };
        rest = end;
    }
    out + rest
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

/// Masks UIDs in a quoted object, such as that of a Job in its labels.
fn without_uids(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_hexdigit() || c == '-';
    let words = text.split_inclusive(|c: char| !is_part(c));
    let masked = words.map(|word| {
        let uid = word.trim_end_matches(|c: char| !is_part(c));
        if is_uid(uid) { format!("*{}", &word[uid.len()..]) } else { word.to_owned() }
    });
    masked.collect()
}

/// Splits a message with several errors, or with an object: both have no fixed order. Revisions and recent times are masked.
fn sorted_parts(text: &str) -> Vec<String> {
    let is_chosen = |part: &str| {
        // Requests contain times of 2001.
        let is_time = (part.contains("time") || part.contains("Time")) && !part.contains("2001");
        let is_revision = part.contains("resourceVersion") || part.contains("ResourceVersion");
        (is_revision || is_time) && part.contains(|c: char| c.is_ascii_digit())
    };
    let text = without_uids(&without_times(&without_node_ports(text)));
    let parts = text.split(['[', ']', ',', '{', '}', '\n']).map(str::trim);
    let mut parts: Vec<String> =
        parts.map(|part| if is_chosen(part) { "*".to_owned() } else { part.to_owned() }).collect();
    parts.sort_unstable();
    parts
}
