//! CustomResourceDefinitions as an import reads them (pure).

use serde_json::Value;

/// A kind of a CustomResourceDefinition, in one version.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Definition {
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) plural: String,
    pub(super) is_namespaced: bool,
    /// Name of the selected version; empty before one is selected.
    pub(super) version: String,
    /// Schema of the selected version.
    pub(super) schema: Value,
    versions: Vec<Value>,
}

/// Reads the definitions in YAML or JSON, which may have other objects and several documents. A repeated definition is returned once.
pub(super) fn all_of(text: &str) -> Result<Vec<Definition>, String> {
    let mut found = Vec::new();
    for document in documents(text)? {
        let items = match document.get("items") {
            Some(Value::Array(items))
                if document["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) =>
            {
                items.clone()
            }
            _ => vec![document],
        };
        for item in items.iter().filter(|item| item["kind"] == "CustomResourceDefinition") {
            let definition = Definition::of(item)?;
            if !found.contains(&definition) {
                found.push(definition);
            }
        }
    }
    if found.is_empty() {
        return Err("there is no CustomResourceDefinition in it".to_owned());
    }
    Ok(found)
}

fn documents(text: &str) -> Result<Vec<Value>, String> {
    // Schemas are deeply nested and the parser is recursive, so it runs in a thread with a large stack.
    const STACK: usize = 256 << 20;
    const DEPTH: usize = 250;
    let parse = || {
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! { max_depth: DEPTH, max_nodes: 10_000_000, max_events: 40_000_000 },
        };
        serde_saphyr::from_multiple_with_options(text, options)
            .map_err(|error| first_line(&error.to_string()))
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, parse);
        let thread = thread.map_err(|error| format!("cannot start a thread to read it: {error}"))?;
        thread.join().unwrap_or_else(|_| Err("it cannot be read as YAML".to_owned()))
    })
}

/// The position and the reason; further lines quote the file.
fn first_line(error: &str) -> String {
    error.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

impl Definition {
    fn of(object: &Value) -> Result<Self, String> {
        let spec = &object["spec"];
        let name = object["metadata"]["name"].as_str().unwrap_or("without a name");
        let version = object["apiVersion"].as_str().unwrap_or("none");
        if version != "apiextensions.k8s.io/v1" {
            return Err(format!(
                "definition {name} has apiVersion {version}, but only apiextensions.k8s.io/v1 is supported"
            ));
        }
        let text = |value: &Value, path: &str| {
            let text = value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
            text.ok_or_else(|| format!("definition {name} has no {path}"))
        };
        let versions = spec["versions"].as_array().filter(|versions| !versions.is_empty()).cloned();
        Ok(Self {
            group: text(&spec["group"], ".spec.group")?,
            kind: text(&spec["names"]["kind"], ".spec.names.kind")?,
            plural: text(&spec["names"]["plural"], ".spec.names.plural")?,
            is_namespaced: spec["scope"] == "Namespaced",
            version: String::new(),
            schema: Value::Null,
            versions: versions.ok_or_else(|| format!("definition {name} has no .spec.versions"))?,
        })
    }

    /// Kind and group: `Tunnel.net.example.com`.
    pub(super) fn full_kind(&self) -> String {
        format!("{}.{}", self.kind, self.group)
    }

    /// Selects a version: the named one, or else the stored one.
    pub(super) fn with_version(mut self, wanted: Option<&str>) -> Result<Self, String> {
        let name = |version: &Value| version["name"].as_str().unwrap_or_default().to_owned();
        let found = match wanted {
            Some(wanted) => self.versions.iter().find(|version| version["name"] == wanted),
            None => self.versions.iter().find(|version| version["storage"] == true),
        };
        let Some(found) = found else {
            let names: Vec<String> = self.versions.iter().map(name).collect();
            let wanted =
                wanted.map_or_else(|| "no stored version".to_owned(), |it| format!("no version {it}"));
            return Err(format!("{} has {wanted}; it has {}", self.kind, names.join(", ")));
        };
        self.version = name(found);
        self.schema = found["schema"]["openAPIV3Schema"].clone();
        if !self.schema.is_object() {
            return Err(format!("version {} of {} has no schema", self.version, self.kind));
        }
        Ok(self)
    }
}
