//! Rust code of imported types (pure).

use std::fmt::Write;

use super::{
    definition::Definition,
    rust_types::{Body, Field, Presence, RustItem, Types},
};

/// Beginning of each file that an import wrote.
pub(super) const MARK: &str = "//! Written by `cargo operator import`";

/// Imports, each with the name that the code uses.
const USES: [(&str, &str); 4] = [
    ("BTreeMap", "use std::collections::BTreeMap;"),
    ("Condition", "use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;"),
    ("IntOrString", "use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;"),
    ("Value", "use serde_json::Value;"),
];

/// The file of a kind.
pub(super) fn text(definition: &Definition, types: &Types, source: &str, sha256: &str) -> String {
    let Definition { group, kind, plural, version, .. } = definition;
    let mut items = String::new();
    for (index, item) in types.all.iter().enumerate() {
        let attribute = (index == 0).then(|| kube_attribute(definition, types));
        write_item(&mut items, item, attribute.as_deref());
    }
    let fields: Vec<&str> = items.lines().filter(|line| line.starts_with("    pub ")).collect();
    let uses = |name: &str| {
        fields.iter().any(|line| line.split(|c: char| !c.is_alphanumeric()).any(|word| word == name))
    };
    let used = USES.iter().filter(|(name, _)| uses(name)).map(|(_, line)| *line);
    let (std, others): (Vec<&str>, Vec<&str>) = used.partition(|line| line.starts_with("use std"));
    let mut lines: Vec<&str> = others
        .into_iter()
        .chain(["use kube::CustomResource;", "use serde::{Deserialize, Serialize};"])
        .collect();
    lines.sort_unstable();
    let std = std.first().map_or_else(String::new, |line| format!("{line}\n\n"));
    format!(
        "{MARK}, which overwrites changes: {kind} ({plural}.{group}) in version {version}.\n//!\n\
         //! - source: {source}\n//! - sha256: {sha256}\n//!\n\
         //! The definition belongs to another program: install it from its source, not from these types.\n\n\
         #![allow(clippy::all, clippy::pedantic, missing_docs, rustdoc::all, reason = \"texts and names are those of the source\")]\n\n\
         {std}{}\n{items}",
        lines.join("\n"),
    )
}

fn kube_attribute(definition: &Definition, types: &Types) -> String {
    let Definition { group, kind, plural, version, is_namespaced, .. } = definition;
    let mut text = format!(
        "#[kube(group = {group:?}, version = {version:?}, kind = {kind:?}, plural = {plural:?}, schema = \"disabled\", derive = \"PartialEq\""
    );
    if *is_namespaced {
        text.push_str(", namespaced");
    }
    if types.is_root {
        text.push_str(", no_spec");
    }
    if let Some(status) = &types.status {
        // Writing to a string does not fail.
        let _ = write!(text, ", status = {status:?}");
    }
    text.push_str(")]\n");
    text
}

fn write_item(code: &mut String, item: &RustItem, kube: Option<&str>) {
    code.push('\n');
    write_doc(code, &item.doc, "");
    let resource = if kube.is_some() { "CustomResource, " } else { "" };
    let default = if item.has_default { "Default, " } else { "" };
    let _ = writeln!(code, "#[derive({resource}Clone, Debug, {default}PartialEq, Deserialize, Serialize)]");
    code.push_str(kube.unwrap_or_default());
    match &item.body {
        Body::Struct { fields } => {
            let _ = writeln!(code, "#[serde(rename_all = \"camelCase\")]\npub struct {} {{", item.name);
            for field in fields {
                write_field(code, field);
            }
        }
        Body::Enum { variants } => {
            let _ = writeln!(code, "pub enum {} {{", item.name);
            for variant in variants {
                if variant.ident != variant.value {
                    let _ = writeln!(code, "    #[serde(rename = {:?})]", variant.value);
                }
                let _ = writeln!(code, "    {},", variant.ident);
            }
            code.push_str("    /// A value that the definition did not name when it was imported.\n");
            code.push_str("    #[serde(untagged)]\n    Other(String),\n");
        }
    }
    code.push_str("}\n");
}

fn write_field(code: &mut String, field: &Field) {
    let Field { ident, doc, rename, ty, presence } = field;
    write_doc(code, doc, "    ");
    let mut options: Vec<String> = rename.iter().map(|name| format!("rename = {name:?}")).collect();
    match presence {
        Presence::Required | Presence::Nullable => {}
        Presence::Optional => {
            options.extend(["default".to_owned(), "skip_serializing_if = \"Option::is_none\"".to_owned()]);
        }
        Presence::Rest => options.push("flatten".to_owned()),
    }
    if !options.is_empty() {
        let _ = writeln!(code, "    #[serde({})]", options.join(", "));
    }
    let ty = match presence {
        Presence::Required | Presence::Rest => ty.text(),
        Presence::Optional | Presence::Nullable => format!("Option<{}>", ty.text()),
    };
    let _ = writeln!(code, "    pub {ident}: {ty},");
}

/// Writes documentation. Indented lines and fences would be code, which `cargo test` would compile.
fn write_doc(code: &mut String, doc: &str, indentation: &str) {
    for line in doc.trim().lines() {
        let line = line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            continue;
        }
        let line: String = line
            .chars()
            .filter(|c| {
                !c.is_control()
                    && !('\u{202a}'..='\u{202e}').contains(c)
                    && !('\u{2066}'..='\u{2069}').contains(c)
            })
            .collect();
        let separator = if line.is_empty() { "" } else { " " };
        let _ = writeln!(code, "{indentation}///{separator}{line}");
    }
}
