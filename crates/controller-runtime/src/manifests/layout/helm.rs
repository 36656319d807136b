//! A Helm chart.
//!
//! Objects are rendered with placeholders, which become template expressions. Each object is a named template; a helper parses its
//! text, merges `values.patches.<kind>.<name>` into it and prints it. So every field of every object can be changed without editing
//! a template.

use kube_apimachinery::yaml;
use serde_json::{Value, json};

use super::{Files, Owner};
use crate::manifests::{ManifestObject, Parameters, Part, Program, RenderError, text};

/// Folder of the templates that each run overwrites.
const GENERATED: &str = "templates/_generated";

/// Placeholder for the release's namespace in a program that is rendered as a chart.
pub const RELEASE_NAMESPACE: &str = "operator-release-namespace";

/// Placeholders of values, and the expressions that replace them.
const PLACEHOLDERS: [(&str, &str); 4] = [
    (RELEASE_NAMESPACE, "{{ .Release.Namespace }}"),
    ("operator-values-image", "{{ toJson .Values.image }}"),
    ("operator-values-replicas", "{{ .Values.replicas }}"),
    ("operator-values-resources", "{{ toJson .Values.resources }}"),
];

/// Prints an object with its patch. Arguments: the root, kind and name of the object.
const HELPER: &str = r#"{{- define "operator.object" -}}
{{- $root := index . 0 -}}
{{- $kind := index . 1 -}}
{{- $name := index . 2 -}}
{{- $object := include (printf "operator.%s.%s" $kind $name) $root | fromYaml -}}
{{- $patches := get ($root.Values.patches | default dict) $kind | default dict -}}
{{- mergeOverwrite $object (get $patches $name | default dict) | toYaml -}}
{{- end -}}
"#;

/// Files of the chart.
pub(super) fn files(
    program: &Program,
    parameters: &Parameters,
    parts: &[Part],
) -> Result<Files, RenderError> {
    let of_service = program.webhook_service.as_ref().map(|service| &service.namespace);
    if let Some(service) = of_service.filter(|service| *service != RELEASE_NAMESPACE) {
        return Err(RenderError::FixedNamespace { service: service.clone() });
    }
    let mut files = Files { generated: Some(GENERATED), ..Files::default() };
    let complete =
        parameters.clone().namespace(RELEASE_NAMESPACE).service_monitor(program.has_verifiable_metrics());
    let mut has = Vec::new();
    for object in program.render(&complete)?.only(parts).objects() {
        if object.part() == Part::Namespace {
            continue; // `helm install --create-namespace` creates it
        }
        let file = format!("{GENERATED}/{}-{}.yaml", object.kind().to_lowercase(), short_name(object.name()));
        files.add(file, template(object), Owner::Program);
        if !has.contains(&object.part()) {
            has.push(object.part());
        }
    }
    files.add(format!("{GENERATED}/_object.tpl"), HELPER.to_owned(), Owner::Program);
    let values = values(program, parameters, &has);
    files.add("values.schema.json", schema(&values), Owner::Program);
    files.add("values.yaml", values_text(&values), Owner::UserKeys);
    files.add("Chart.yaml", chart_file(program), Owner::User);
    Ok(files)
}

/// Name of an object in patches and files. Names of cluster-wide objects may begin with the namespace.
fn short_name(name: &str) -> String {
    name.replace(&format!("{RELEASE_NAMESPACE}-"), "")
}

/// Puts placeholders where the values of the chart belong.
fn parametrize(value: &mut Value, part: Part) {
    match part {
        Part::Definitions => {
            // Without it, uninstalling the chart would delete the definitions, and with them all objects of their kinds.
            value["metadata"]["annotations"]["helm.sh/resource-policy"] = json!("keep");
        }
        Part::Deployment => {
            value["spec"]["replicas"] = json!("operator-values-replicas");
            let container = &mut value["spec"]["template"]["spec"]["containers"][0];
            container["image"] = json!("operator-values-image");
            container["resources"] = json!("operator-values-resources");
        }
        _ => {}
    }
}

/// Template of an object.
fn template(object: &ManifestObject) -> String {
    let mut value = object.value().clone();
    parametrize(&mut value, object.part());
    // Text of users, such as descriptions, must not act as a template.
    let mut text = text(&value).replace("{{", "{{ \"{{\" }}");
    for (placeholder, expression) in PLACEHOLDERS {
        text = text.replace(placeholder, expression);
    }
    let (kind, name) = (object.kind(), short_name(object.name()));
    let condition = match object.part() {
        Part::Definitions => Some("crds"),
        Part::Network => Some("networkPolicy"),
        Part::Monitoring => Some("serviceMonitor"),
        _ => None,
    };
    let include = format!("{{{{ include \"operator.object\" (list . \"{kind}\" \"{name}\") }}}}\n");
    let include = match condition {
        Some(value) => format!("{{{{- if .Values.{value} }}}}\n{include}{{{{- end }}}}\n"),
        None => include,
    };
    format!("{{{{- define \"operator.{kind}.{name}\" -}}}}\n{text}{{{{- end -}}}}\n{include}")
}

/// A value of the chart.
struct ChartValue {
    name: &'static str,
    comment: &'static str,
    default: Value,
    schema: Value,
}

/// Values of a chart with these parts.
fn values(program: &Program, parameters: &Parameters, has: &[Part]) -> Vec<ChartValue> {
    let boolean = || json!({ "type": "boolean" });
    let value = |name, comment, default, schema| ChartValue { name, comment, default, schema };
    let image = parameters.image_of(program);
    let replicas =
        if program.elects { json!({ "type": "integer", "minimum": 0 }) } else { json!({ "enum": [0, 1] }) };
    let mut values = Vec::new();
    if has.contains(&Part::Deployment) {
        values.push(value(
            "image",
            "# Image of the operator.",
            json!(image),
            json!({ "type": "string", "minLength": 1 }),
        ));
        values.push(value(
            "replicas",
            if program.elects {
                "# Number of replicas; one of them is active."
            } else {
                "# Number of replicas. The operator runs without leader election: at most one."
            },
            json!(parameters.replicas),
            replicas,
        ));
        let resources = parameters.resources.clone();
        values.push(value(
            "resources",
            "# Resources of the container.",
            resources,
            json!({ "type": "object" }),
        ));
    }
    if has.contains(&Part::Definitions) {
        let comment = "# Whether the chart installs and updates the CustomResourceDefinitions. They stay when it is uninstalled.";
        values.push(value("crds", comment, json!(true), boolean()));
    }
    if has.contains(&Part::Network) {
        let comment = "# Whether a NetworkPolicy limits access to metrics to namespaces with the label `metrics: enabled`.";
        values.push(value("networkPolicy", comment, json!(true), boolean()));
    }
    if has.contains(&Part::Monitoring) {
        let comment = "# Whether there is a ServiceMonitor, which needs the Prometheus operator.";
        values.push(value("serviceMonitor", comment, json!(parameters.service_monitor), boolean()));
    }
    let comment = "# Changes of any field of any object, by kind and name. Maps are merged, lists and other values are replaced:\n\
                   #   patches: {Deployment: {<name>: {spec: {template: {spec: {nodeSelector: {disk: ssd}}}}}}}";
    let patches = json!({
        "type": "object",
        "additionalProperties": { "type": "object", "additionalProperties": { "type": "object" } },
    });
    values.push(value("patches", comment, json!({}), patches));
    values
}

fn values_text(values: &[ChartValue]) -> String {
    let mut text =
        "# Values of the chart. This file is yours: rendering adds keys that it lacks and keeps the rest.\n\n".to_owned();
    for value in values {
        text.push_str(value.comment);
        text.push('\n');
        text.push_str(&yaml::write(&json!({ value.name: value.default })));
    }
    text
}

fn schema(values: &[ChartValue]) -> String {
    let properties: serde_json::Map<String, Value> =
        values.iter().map(|value| (value.name.to_owned(), value.schema.clone())).collect();
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": properties,
    });
    format!("{schema:#}\n")
}

fn chart_file(program: &Program) -> String {
    let chart = json!({
        "apiVersion": "v2",
        "name": program.name(),
        "type": "application",
        "version": "0.1.0",
        "description": format!("The operator {}", program.name()),
    });
    format!("# This file is yours: rendering never changes it.\n{}", yaml::write(&chart))
}
