//! Objects that an operator's program renders for a session.

use std::path::Path;

use serde_json::Value;

use super::process;
use crate::{ask::SCHEMA, failure::Failure};

/// Definitions and rights of an operator.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Rendered {
    /// Its CustomResourceDefinitions.
    pub(super) definitions: Vec<Value>,
    /// Its namespace, service account, roles and bindings.
    pub(super) rights: Vec<Value>,
    /// Namespaces and names of its Services.
    pub(super) services: Vec<(String, String)>,
}

impl Rendered {
    /// Asks a program for its objects. `flags` are those with which it will run, because some objects depend on them.
    pub(super) async fn by(program: &Path, flags: &[String]) -> Result<Self, Failure> {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let definitions = words("crds --format json");
        let definitions = process::answer(program, &definitions).await.map_err(Failure::new)?;
        let mut manifests = words("manifests --format json --only namespace,rbac,services --");
        manifests.extend(flags.iter().cloned());
        let manifests = process::answer(program, &manifests).await.map_err(Failure::new)?;
        Self::of(&definitions, &manifests).map_err(|reason| {
            Failure::new(format!("the operator's program printed its manifests in an unknown form: {reason}"))
        })
    }

    fn of(definitions: &str, manifests: &str) -> Result<Self, String> {
        let (services, rights): (Vec<_>, Vec<_>) =
            objects(manifests)?.into_iter().partition(|object| object["kind"] == "Service");
        let services = services.iter().map(place).collect();
        Ok(Self { definitions: objects(definitions)?, rights, services })
    }

    /// Namespace and name of the operator's service account, if there is exactly one. Its Deployment has the same.
    pub(super) fn account(&self) -> Option<(String, String)> {
        let mut accounts = self.rights.iter().filter(|object| object["kind"] == "ServiceAccount");
        match (accounts.next(), accounts.next()) {
            (Some(account), None) => Some(place(account)),
            _ => None,
        }
    }
}

/// Namespace and name of an object.
fn place(object: &Value) -> (String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

/// Objects of an answer in JSON.
fn objects(answer: &str) -> Result<Vec<Value>, String> {
    let mut answer: Value = serde_json::from_str(answer)
        .map_err(|error| format!("{error}; its main has to return operator().main().await"))?;
    // Checked first: objects of another schema would lead to errors about their content.
    if answer["schema"] != SCHEMA {
        let (schema, library) = (&answer["schema"], &answer["library"]);
        return Err(format!(
            "schema {schema} of controller-runtime {library}, but cargo-operator {} reads schema {SCHEMA}",
            env!("CARGO_PKG_VERSION")
        ));
    }
    match answer["objects"].take() {
        Value::Array(objects) => Ok(objects),
        _ => Err("it has no objects".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: &str = r#"{"schema":"operator/v1","objects":[]}"#;

    #[test]
    fn services_and_the_account_are_found() {
        let manifests = r#"{"schema":"operator/v1","objects":[
            {"kind":"ServiceAccount","metadata":{"namespace":"shop","name":"album"}},
            {"kind":"ClusterRole","metadata":{"name":"album"}},
            {"kind":"Service","metadata":{"namespace":"shop","name":"album-webhooks"}}]}"#;
        let rendered = Rendered::of(NONE, manifests).expect("manifests");
        assert_eq!(rendered.account(), Some(("shop".to_owned(), "album".to_owned())));
        assert_eq!(rendered.services, [("shop".to_owned(), "album-webhooks".to_owned())]);
        assert_eq!(rendered.rights.len(), 2);
        assert_eq!(Rendered::of(NONE, NONE).map(|rendered| rendered.account()), Ok(None));
    }

    #[test]
    fn other_answers_are_refused() {
        for (answer, reason) in [
            ("", "EOF while parsing a value at line 1 column 0; its main has to return operator()"),
            ("Ok(\"/no-cluster\")", "expected value at line 1 column 1; its main has to return operator()"),
            (
                r#"{"schema":"operator/v9","library":"9.0.0","objects":[]}"#,
                "schema \"operator/v9\" of controller-runtime \"9.0.0\", but cargo-operator ",
            ),
            (r#"{"schema":"operator/v1"}"#, "it has no objects"),
            (r#"{"schema":"operator/v1","objects":{}}"#, "it has no objects"),
        ] {
            for refused in [Rendered::of(answer, NONE), Rendered::of(NONE, answer)] {
                let message = refused.expect_err(answer);
                assert!(message.starts_with(reason), "{answer}: {message}");
            }
        }
    }
}
