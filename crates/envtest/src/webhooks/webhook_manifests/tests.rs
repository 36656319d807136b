//! Webhook configurations: reading, checks and addresses.

use std::fs;

use super::*;

const HOOKS: &str = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\n\
    metadata: {name: carts}\nwebhooks:\n- name: vcart.kb.io\n  clientConfig:\n    service: {name: webhook-service, namespace: system, path: /validate-cart}\n";

/// Checks the references of a folder with this file, or the error, with `DIR` in place of the folder.
#[track_caller]
fn check(text: &str, expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("kustomization.yaml"), "resources: [hooks.yaml]\n").unwrap();
    fs::write(folder.path().join("hooks.yaml"), text).unwrap();
    let read = Manifest::read(folder.path());
    let shown = match read {
        Ok(manifests) => {
            let references = manifests.iter().flat_map(|manifest| manifest.references().unwrap());
            let shown = references
                .map(|Reference { title, service, port, path }| format!("{title}: {service}:{port}{path}"));
            shown.collect::<Vec<_>>().join("\n")
        }
        Err(error) => error.to_string(),
    };
    assert_eq!(shown.replace(&format!("{}", folder.path().display()), "DIR"), expected);
}

#[test]
fn references_are_read_from_the_configurations_of_a_folder() {
    check(
        HOOKS,
        "webhook vcart.kb.io of ValidatingWebhookConfiguration carts in DIR/hooks.yaml: system/webhook-service:443/validate-cart",
    );
    let two = format!(
        "{HOOKS}- {{name: other, clientConfig: {{url: 'https://example.com/x'}}}}\n---\nkind: Namespace\n"
    );
    check(
        &two,
        "webhook vcart.kb.io of ValidatingWebhookConfiguration carts in DIR/hooks.yaml: system/webhook-service:443/validate-cart",
    );
}

#[test]
fn errors_name_the_file_the_object_and_the_next_step() {
    let title = "ValidatingWebhookConfiguration carts in DIR/hooks.yaml";
    let webhook = format!("webhook vcart.kb.io of {title}");
    let none = HOOKS.split("webhooks:").next().unwrap();
    check(
        none,
        &format!("{title}: it has no webhooks: add them to its list `webhooks`, or remove the configuration"),
    );
    check(
        &HOOKS.replace("/v1\n", "/v1beta1\n"),
        &format!(
            "{title}: its apiVersion is \"admissionregistration.k8s.io/v1beta1\": write admissionregistration.k8s.io/v1"
        ),
    );
    check(
        &HOOKS.replace("{name: carts}", "{}"),
        "ValidatingWebhookConfiguration without a name in DIR/hooks.yaml: it has no name: set `metadata.name`",
    );
    check(
        &HOOKS.replace("service:", "services:"),
        &format!("{webhook}: `clientConfig` has to have either `service` or `url`"),
    );
    check(
        &HOOKS.replace("namespace: system, ", ""),
        &format!("{webhook}: `clientConfig.service` has to have `namespace` and `name`"),
    );
    check(
        "kind: Namespace\n",
        "DIR contains no MutatingWebhookConfiguration or ValidatingWebhookConfiguration: name the file that controller-gen wrote, \
         such as config/webhook/manifests.yaml",
    );
    let missing = Manifest::read(Path::new("/nowhere/webhook")).unwrap_err();
    assert_eq!(missing.to_string(), "cannot read webhook configurations from /nowhere/webhook");
}

#[test]
fn a_port_is_one_of_the_service() {
    let odd = HOOKS.replace("path:", "port: 9443, path:");
    check(
        &odd,
        "webhook vcart.kb.io of ValidatingWebhookConfiguration carts in DIR/hooks.yaml: Service system/webhook-service has no port \
         9443, only 443: leave out `clientConfig.service.port`, or add the manifest of Service system/webhook-service to the path",
    );
    let service = "---\nkind: Service\nmetadata: {name: webhook-service, namespace: system}\nspec: {ports: [{port: 9443, targetPort: 9443}]}\n";
    check(
        &format!("{odd}{service}"),
        "webhook vcart.kb.io of ValidatingWebhookConfiguration carts in DIR/hooks.yaml: system/webhook-service:9443/validate-cart",
    );
    check(
        &format!("{HOOKS}{service}"),
        "webhook vcart.kb.io of ValidatingWebhookConfiguration carts in DIR/hooks.yaml: Service system/webhook-service has no port \
         443, only 9443: correct `clientConfig.service.port` or the Service in DIR/hooks.yaml",
    );
}

fn manifest() -> Manifest {
    let webhook = |config: Value| json!({ "name": "a.b.c", "clientConfig": config });
    let service = json!({ "namespace": "n", "name": "s", "path": "/x" });
    let webhooks =
        [webhook(json!({ "service": service, "caBundle": "Cg==" })), webhook(json!({ "url": "https://e/" }))];
    let kind = "MutatingWebhookConfiguration";
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": { "name": "carts" }, "webhooks": webhooks,
    });
    Manifest::of(object, "")
}

#[test]
fn services_become_addresses_and_urls_stay() {
    let config =
        |manifest: &Manifest, webhook: usize| manifest.object["webhooks"][webhook]["clientConfig"].clone();
    let target = Target::Socket { base_url: "https://127.0.0.1:9", authority: "PEM" };
    let pointed = manifest().pointed_at(&target);
    assert_eq!(config(&pointed, 0), json!({ "url": "https://127.0.0.1:9/x", "caBundle": "UEVN" }));
    assert_eq!(config(&pointed, 1), json!({ "url": "https://e/" }));
    let pointed = manifest().pointed_at(&Target::InProcess);
    assert_eq!(config(&pointed, 0), json!({ "service": { "namespace": "n", "name": "s", "path": "/x" } }));
}

#[test]
fn configurations_on_a_shared_cluster_belong_to_one_environment() {
    let mut manifest = manifest();
    manifest.object["webhooks"][0]["namespaceSelector"] = json!({ "matchLabels": { "team": "red" } });
    let isolated = manifest.isolated("1234", "env");
    assert_eq!(isolated.name(), "carts-1234");
    let selector = |webhook: usize| isolated.object["webhooks"][webhook]["namespaceSelector"].clone();
    assert_eq!(selector(0), json!({ "matchLabels": { "env": "1234", "team": "red" } }));
    assert_eq!(selector(1), json!({ "matchLabels": { "env": "1234" } }));
}
