//! Webhook configurations for the API server, computed from the registrations.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{
        MatchCondition, MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ServiceReference,
        ValidatingWebhook, ValidatingWebhookConfiguration, WebhookClientConfig,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceConversion, ServiceReference as ConversionServiceReference,
        WebhookClientConfig as ConversionClientConfig, WebhookConversion,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::{
    Webhooks,
    registration::{CONVERT, Hook},
    rule::{AdmissionPhase, Rule},
};

/// The Service in front of the webhook server.
///
/// ```
/// use controller_runtime::webhook::WebhookService;
///
/// let service = WebhookService::new("guestbook-system", "webhook-service").ca_bundle("-----BEGIN CERTIFICATE-----…");
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct WebhookService {
    pub(super) namespace: String,
    pub(super) name: String,
    port: u16,
    ca_bundle: Option<Vec<u8>>,
}

impl WebhookService {
    /// The Service `name` in `namespace`, at port 443.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into(), port: 443, ca_bundle: None }
    }

    /// Namespace and name.
    #[cfg(feature = "manifests")]
    pub(crate) fn place(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }

    /// Name of the webhook configurations.
    pub(super) fn configuration_name(&self) -> String {
        format!("{}-{}", self.namespace, self.name)
    }

    /// Sets the port of the Service. Default: 443.
    pub fn port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// Sets the certificates of the authorities that signed the server's certificate, in PEM. Default: none; then
    /// another program, such as cert-manager, sets `caBundle`.
    pub fn ca_bundle(self, pem: impl Into<Vec<u8>>) -> Self {
        Self { ca_bundle: Some(pem.into()), ..self }
    }
}

/// Configurations that make the API server call the registered webhooks.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Configurations {
    /// The mutating webhooks, if there are any.
    pub mutating: Option<MutatingWebhookConfiguration>,
    /// The validating webhooks, if there are any.
    pub validating: Option<ValidatingWebhookConfiguration>,
    /// The stanza `spec.conversion` of CustomResourceDefinitions by name, such as `guestbooks.example.com`.
    pub conversions: BTreeMap<String, CustomResourceConversion>,
}

impl Webhooks {
    /// The configurations of all registered webhooks, reached through `service`. Objects are named after the Service:
    /// `<namespace>-<service>`.
    #[must_use]
    pub fn configurations(&self, service: &WebhookService) -> Configurations {
        let name = service.configuration_name();
        let metadata = || ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        let versions = || vec!["v1".to_owned()];
        let mutating: Vec<_> = self
            .entries(AdmissionPhase::Mutating, service)
            .into_iter()
            .map(|entry| MutatingWebhook {
                admission_review_versions: versions(),
                client_config: entry.client_config,
                failure_policy: Some(entry.failure_policy),
                match_conditions: conditions(&entry.hook.rule),
                match_policy: Some(entry.hook.rule.match_policy.as_str().to_owned()),
                name: entry.name,
                namespace_selector: entry.hook.rule.namespace_selector.clone(),
                object_selector: entry.hook.rule.object_selector.clone(),
                reinvocation_policy: Some(entry.hook.rule.reinvocation.as_str().to_owned()),
                rules: Some(vec![entry.rule]),
                side_effects: entry.hook.rule.side_effects.as_str().to_owned(),
                timeout_seconds: Some(entry.hook.rule.timeout_seconds()),
            })
            .collect();
        let validating: Vec<_> = self
            .entries(AdmissionPhase::Validating, service)
            .into_iter()
            .map(|entry| ValidatingWebhook {
                admission_review_versions: versions(),
                client_config: entry.client_config,
                failure_policy: Some(entry.failure_policy),
                match_conditions: conditions(&entry.hook.rule),
                match_policy: Some(entry.hook.rule.match_policy.as_str().to_owned()),
                name: entry.name,
                namespace_selector: entry.hook.rule.namespace_selector.clone(),
                object_selector: entry.hook.rule.object_selector.clone(),
                rules: Some(vec![entry.rule]),
                side_effects: entry.hook.rule.side_effects.as_str().to_owned(),
                timeout_seconds: Some(entry.hook.rule.timeout_seconds()),
            })
            .collect();
        let conversions = self.with_registrations(|registrations| {
            let converters = registrations.converters.values();
            converters.map(|(_, converter)| (converter.hub().to_string(), conversion(service))).collect()
        });
        Configurations {
            mutating: (!mutating.is_empty())
                .then(|| MutatingWebhookConfiguration { metadata: metadata(), webhooks: Some(mutating) }),
            validating: (!validating.is_empty())
                .then(|| ValidatingWebhookConfiguration { metadata: metadata(), webhooks: Some(validating) }),
            conversions,
        }
    }

    /// Names of the admission webhooks in [`configurations`](Self::configurations).
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let service = WebhookService::new("", "");
        let phases = [AdmissionPhase::Mutating, AdmissionPhase::Validating];
        phases.into_iter().flat_map(|phase| self.entries(phase, &service)).map(|entry| entry.name).collect()
    }

    /// One entry for each path.
    fn entries(&self, phase: AdmissionPhase, service: &WebhookService) -> Vec<WebhookEntry> {
        self.with_registrations(|registrations| {
            let mut names: BTreeMap<String, u32> = BTreeMap::new();
            let paths = registrations.paths.iter().filter(|(_, place)| place.phase == phase);
            paths
                .map(|(path, place)| {
                    let hooks = place.hooks();
                    let name = name_of(path, &hooks[0]);
                    // Paths that differ only in characters that a name cannot contain get the same name: later ones are numbered.
                    let same = names.entry(name.clone()).and_modify(|same| *same += 1).or_insert(1);
                    let name = if *same == 1 { name } else { format!("{same}-{name}") };
                    WebhookEntry {
                        name,
                        client_config: WebhookClientConfig {
                            ca_bundle: service.ca_bundle.clone().map(ByteString),
                            service: Some(ServiceReference {
                                namespace: service.namespace.clone(),
                                name: service.name.clone(),
                                path: Some(path.clone()),
                                port: Some(i32::from(service.port)),
                            }),
                            url: None,
                        },
                        failure_policy: hooks[0].rule.failure_policy.as_str().to_owned(),
                        rule: rule_of(&hooks),
                        hook: Arc::clone(&hooks[0]),
                    }
                })
                .collect()
        })
    }
}

struct WebhookEntry {
    name: String,
    client_config: WebhookClientConfig,
    failure_policy: String,
    rule: RuleWithOperations,
    /// The first hook of the path. The rules of all its hooks differ only in their operations.
    hook: Arc<Hook>,
}

/// A name of at least three segments, which the API server requires: path, resource and group.
fn name_of(path: &str, hook: &Hook) -> String {
    let resource = hook.rule.kind.resource();
    let letter =
        |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let path: String = path.chars().map(letter).collect();
    let path = match path.trim_matches('-') {
        "" => "root",
        path => path,
    };
    let group = if resource.group.is_empty() { "core" } else { &resource.group };
    format!("{path}.{}.{group}", resource.plural)
}

fn conditions(rule: &Rule) -> Option<Vec<MatchCondition>> {
    let conditions = rule.match_conditions.iter();
    let conditions = conditions
        .map(|(name, expression)| MatchCondition { name: name.clone(), expression: expression.clone() });
    (!rule.match_conditions.is_empty()).then(|| conditions.collect())
}

fn rule_of(hooks: &[Arc<Hook>]) -> RuleWithOperations {
    let rule = &hooks[0].rule;
    let resource = rule.kind.resource();
    let operations: BTreeSet<_> = hooks.iter().flat_map(|hook| &hook.rule.operations).collect();
    let name = match &rule.subresource {
        Some(subresource) => format!("{}/{subresource}", resource.plural),
        None => resource.plural.clone(),
    };
    RuleWithOperations {
        api_groups: Some(vec![resource.group.clone()]),
        api_versions: Some(vec![resource.version.clone()]),
        operations: Some(operations.into_iter().map(|operation| operation.as_str().to_owned()).collect()),
        resources: Some(vec![name]),
        scope: Some(if rule.kind.is_namespaced() { "Namespaced" } else { "Cluster" }.to_owned()),
    }
}

fn conversion(service: &WebhookService) -> CustomResourceConversion {
    let client_config = ConversionClientConfig {
        ca_bundle: service.ca_bundle.clone().map(ByteString),
        service: Some(ConversionServiceReference {
            namespace: service.namespace.clone(),
            name: service.name.clone(),
            path: Some(CONVERT.to_owned()),
            port: Some(i32::from(service.port)),
        }),
        url: None,
    };
    CustomResourceConversion {
        strategy: "Webhook".to_owned(),
        webhook: Some(WebhookConversion {
            client_config: Some(client_config),
            conversion_review_versions: vec!["v1".to_owned()],
        }),
    }
}
