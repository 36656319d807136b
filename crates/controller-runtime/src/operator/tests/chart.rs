//! The layouts for kustomize and Helm.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Output},
};

use kube_apimachinery::yaml;
use serde_json::json;

use super::*;
use crate::manifests::{differences, objects_of};

/// Flags with which each server and the election are on.
const EVERYTHING: &str = "-- --leader-elect --metrics-bind-address=:8443 --metrics-cert-path=/certs/metrics";

fn complete() -> Operator {
    let mut definition = guestbook().definitions()[0].clone();
    // The braces must reach the object as they are: Helm must not evaluate them.
    definition.spec.versions[0]
        .schema
        .as_mut()
        .expect("a schema")
        .open_api_v3_schema
        .as_mut()
        .expect("a schema")
        .description = Some("Greets {{ .Values.image }}".to_owned());
    Operator::new("guestbook", "guestbook.example.com")
        .definition(definition)
        .setup(add_to)
        .setup(add_webhooks_to)
}

async fn written(layout: &str, rest: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let line = format!("manifests --layout {layout} --out {} {rest} {EVERYTHING}", folder.path().display());
    answer(&complete(), &line).await.expect("files");
    folder
}

/// Objects of the YAML layout in a namespace, without the namespace itself.
async fn of_yaml(namespace: &str, rest: &str) -> Vec<Value> {
    let line = format!("manifests --namespace {namespace} {rest} {EVERYTHING}");
    let mut objects = objects_of(&answer(&complete(), &line).await.expect("manifests")).expect("YAML");
    objects.retain(|object| object["kind"] != "Namespace");
    objects
}

/// Runs a program; `None` if it is not installed.
fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: {program} is not installed");
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

#[tokio::test]
async fn kustomize_builds_the_objects_of_the_yaml_layout() {
    let folder = written("kustomize", "").await;
    let path = folder.path().to_str().expect("UTF-8");
    let Some(output) = run("kubectl", &["kustomize", path]) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut built = objects_of(&String::from_utf8_lossy(&output.stdout)).expect("YAML");
    built.retain(|object| object["kind"] != "Namespace");
    assert_eq!(differences(&of_yaml("guestbook", "").await, &built), []);
}

#[tokio::test]
async fn the_chart_with_default_values_equals_the_yaml_layout() {
    let folder = written("helm", "").await;
    let mut objects = evaluate(folder.path(), "shop", &json!({}));
    for object in &mut objects {
        if object["kind"] == "CustomResourceDefinition" {
            let annotations = object["metadata"]["annotations"].as_object_mut().expect("annotations");
            assert_eq!(annotations.remove("helm.sh/resource-policy"), Some(json!("keep")));
        }
    }
    assert_eq!(differences(&of_yaml("shop", "").await, &objects), []);
}

#[tokio::test]
async fn helm_itself_renders_the_yaml_layout() {
    let folder = written("helm", "").await;
    let path = folder.path().to_str().expect("UTF-8");
    let Some(output) = run("helm", &["template", "guestbook", path, "--namespace", "shop"]) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut objects = objects_of(&String::from_utf8_lossy(&output.stdout)).expect("YAML");
    for object in objects.iter_mut().filter(|object| object["kind"] == "CustomResourceDefinition") {
        object["metadata"]["annotations"]
            .as_object_mut()
            .expect("annotations")
            .remove("helm.sh/resource-policy");
    }
    assert_eq!(differences(&of_yaml("shop", "").await, &objects), []);
}

#[tokio::test]
async fn values_and_patches_reach_every_field() {
    let folder = written("helm", "").await;
    let values = json!({
        "image": "registry.example.com/guestbook:2", "replicas": 3, "resources": {"limits": {"memory": "1Gi"}},
        "crds": false, "networkPolicy": false, "serviceMonitor": true,
        "patches": {
            "Deployment": {"guestbook": {"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}}},
            "ValidatingWebhookConfiguration": {"guestbook-webhooks": {"metadata": {"labels": {"a": "b"}}}},
        },
    });
    let objects = evaluate(folder.path(), "shop", &values);
    let of_kind = |kind: &str| objects.iter().find(|object| object["kind"] == kind);
    let deployment = of_kind("Deployment").expect("a Deployment");
    assert_eq!(deployment["spec"]["replicas"], 3);
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["nodeSelector"]["disk"], "ssd");
    assert_eq!(pod["containers"][0]["image"], "registry.example.com/guestbook:2");
    assert_eq!(pod["containers"][0]["resources"]["limits"]["memory"], "1Gi");
    assert_eq!(pod["serviceAccountName"], "guestbook");
    let webhooks = of_kind("ValidatingWebhookConfiguration").expect("a configuration");
    assert_eq!(webhooks["metadata"]["labels"]["a"], "b");
    assert_eq!(webhooks["webhooks"][0]["clientConfig"]["service"]["namespace"], "shop");
    assert!(of_kind("CustomResourceDefinition").is_none() && of_kind("NetworkPolicy").is_none());
    let monitor = of_kind("ServiceMonitor").expect("a monitor");
    assert_eq!(monitor["spec"]["endpoints"][0]["tlsConfig"]["serverName"], "guestbook-metrics.shop.svc");
}

#[tokio::test]
async fn rendering_again_keeps_edits_and_removes_stale_templates() {
    let folder = written("helm", "").await;
    let (values, chart) = (folder.path().join("values.yaml"), folder.path().join("Chart.yaml"));
    let generated = folder.path().join("templates/_generated");
    fs::write(&values, "# ours\nimage: mine:1\npatches: {}\n").expect("written");
    fs::write(&chart, "apiVersion: v2\nname: ours\nversion: 3.1.4\n").expect("written");
    fs::write(folder.path().join("templates/extra.yaml"), "kind: ConfigMap\n").expect("written");
    fs::write(generated.join("deployment-guestbook.yaml"), "edited").expect("written");
    // Without webhooks fewer objects are rendered.
    let line = format!("manifests --layout helm --out {}", folder.path().display());
    let check = format!("{line} --check");
    let (code, text) = answer(&guestbook(), &check).await.expect_err("the chart has webhooks");
    assert!(
        code == 3 && text.contains("deployment-guestbook.yaml differs from the output of the program"),
        "{text}"
    );
    let changed = answer(&guestbook(), &line).await.expect("files");
    assert!(changed.contains("service-guestbook-webhooks.yaml"), "{changed}");
    assert_eq!(answer(&guestbook(), &line).await, Ok(String::new()));
    assert_eq!(answer(&guestbook(), &check).await, Ok(String::new()));
    let read = |path: &Path| fs::read_to_string(path).expect("a file");
    let text = read(&values);
    assert!(
        text.starts_with("# ours\nimage: mine:1\npatches: {}\n") && text.contains("\nreplicas: 1\n"),
        "{text}"
    );
    assert!(read(&chart).contains("3.1.4") && folder.path().join("templates/extra.yaml").exists());
    assert!(!generated.join("service-guestbook-webhooks.yaml").exists());
    assert!(read(&generated.join("deployment-guestbook.yaml")).contains("kind: Deployment"));
}

#[tokio::test]
async fn a_chart_is_not_for_a_program_with_a_namespace_of_its_own() {
    let fixed = complete().options(|options| {
        let service = WebhookService::new("system", "hooks");
        options.webhooks(WebhookOptions::default().certificates(SelfManagedCertificates::new(&service)))
    });
    let folder = tempfile::tempdir().expect("a folder");
    let line = format!("manifests --layout helm --out {}", folder.path().display());
    let (code, text) = answer(&fixed, &line).await.expect_err("one namespace");
    assert!(code == 1 && text.contains("namespace system"), "{text}");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing was written");
}

/// Renders a chart as Helm does. Only the actions that generated templates contain are implemented.
fn evaluate(chart: &Path, namespace: &str, overrides: &Value) -> Vec<Value> {
    let text = fs::read_to_string(chart.join("values.yaml")).expect("values");
    let mut values = yaml::read(text.as_bytes()).expect("YAML").value;
    merge(&mut values, overrides);
    let mut objects = Vec::new();
    let entries = fs::read_dir(chart.join("templates/_generated")).expect("templates");
    for path in entries.map(|entry| entry.expect("a file").path()) {
        if path.file_name().is_some_and(|name| name != "_object.tpl") {
            let text = fs::read_to_string(&path).expect("a template");
            let mut template =
                Template { namespace, values: &values, defined: BTreeMap::new(), objects: Vec::new() };
            template.run(&text);
            objects.append(&mut template.objects);
        }
    }
    objects
}

struct Template<'t> {
    namespace: &'t str,
    values: &'t Value,
    defined: BTreeMap<String, String>,
    objects: Vec<Value>,
}

impl Template<'_> {
    /// Evaluates a template: a definition, then the object that includes it, which may have a condition.
    fn run(&mut self, text: &str) {
        let (name, rest) = text
            .strip_prefix("{{- define \"")
            .and_then(|rest| rest.split_once("\" -}}\n"))
            .expect("a definition");
        let (body, rest) = rest.split_once("{{- end -}}\n").expect("its end");
        self.defined.insert(name.to_owned(), body.to_owned());
        let include = match rest.strip_prefix("{{- if .Values.") {
            None => rest,
            Some(condition) => {
                let (value, rest) = condition.split_once(" }}\n").expect("a condition");
                if self.values[value] != true {
                    return;
                }
                rest.strip_suffix("{{- end }}\n").expect("its end")
            }
        };
        let arguments = include
            .strip_prefix("{{ include \"operator.object\" (list . ")
            .and_then(|rest| rest.strip_suffix(") }}\n"));
        let arguments: Vec<String> = arguments
            .expect("an object")
            .split_whitespace()
            .map(|word| serde_json::from_str(word).expect("text"))
            .collect();
        let body = self.defined[&format!("operator.{}.{}", arguments[0], arguments[1])].clone();
        let mut object = yaml::read(self.actions(&body).as_bytes()).expect("YAML").value;
        merge(&mut object, &self.values["patches"][&arguments[0]][&arguments[1]]);
        self.objects.push(object);
    }

    /// Replaces the actions in `text` by their results.
    fn actions(&self, text: &str) -> String {
        let mut done = String::new();
        let mut rest = text;
        while let Some((before, action)) = rest.split_once("{{ ") {
            let (action, after) = action.split_once(" }}").expect("the end of an action");
            done.push_str(before);
            done.push_str(&match action {
                "\"{{\"" => "{{".to_owned(),
                ".Release.Namespace" => self.namespace.to_owned(),
                action => match (action.strip_prefix("toJson .Values."), action.strip_prefix(".Values.")) {
                    (Some(value), _) | (None, Some(value)) => self.values[value].to_string(),
                    (None, None) => panic!("unknown action {action}"),
                },
            });
            rest = after;
        }
        done + rest
    }
}

/// Merges maps; other values are replaced.
fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (_, Value::Null) => {}
        (into, from) => *into = from.clone(),
    }
}
