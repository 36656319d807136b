//! Another version of a kind: the type of the previous version, and the conversions between both. Pure.

use crate::{edit::KindDeclaration, names::KindName};

/// Returns the text of the file with the previous version, which becomes a module of the kind.
///
/// `uses` and `types` are the declarations of `use`, and the types of the kind's module, that its struct needs.
pub(crate) fn version_before(
    kind: &KindName,
    before: &KindDeclaration,
    uses: &[String],
    types: &[String],
    version: &str,
) -> String {
    let KindDeclaration { text, spec, version: old, fields, has_status, .. } = before;
    let (name, plural) = (&kind.kind, kind.kinds());
    let shared =
        if types.is_empty() { String::new() } else { format!("\nuse super::{{{}}};\n", types.join(", ")) };
    let shares = if types.is_empty() {
        String::new()
    } else {
        format!(
            "//!\n//! Both versions use the same types of fields: copy a type to this file before you change it for {version} alone.\n"
        )
    };
    let fields = fields.join(", ");
    // A field can have the same name as another variable of the function, so the fields are variables of an inner block.
    let convert = |from: &str, to: &str, spec_from: &str, spec_to: &str, variable: &str| {
        let status = if *has_status { format!(", status: {variable}.status") } else { String::new() };
        format!(
            "impl From<{from}> for {to} {{\n    fn from({variable}: {from}) -> Self {{\n        let spec = {{\n            \
             let {spec_from} {{ {fields} }} = {variable}.spec;\n            {spec_to} {{ {fields} }}\n        }};\n        \
             Self {{ metadata: {variable}.metadata, spec{status} }}\n    }}\n}}\n"
        )
    };
    let new = format!("super::{name}");
    let new_spec = format!("super::{spec}");
    let to_new = convert(name, &new, spec, &new_spec, old);
    let to_old = convert(&new, name, &new_spec, spec, version);
    format!(
        "//! Version {old} of {plural}, which stays served. Objects are stored as {version} and converted.\n{shares}\n{uses}\n{shared}\n{text}\n\n\
         {to_new}\n{to_old}\n\
         #[cfg(test)]\nmod tests {{\n    use controller_runtime::webhook::check_generated_round_trips;\n\n    use super::super::{name};\n\n    \
         #[test]\n    fn conversions_lose_nothing() {{\n        \
         check_generated_round_trips::<super::{name}, {name}>(1, 100).expect(\"{version} has all of {old}\");\n        \
         check_generated_round_trips::<{name}, super::{name}>(1, 100).expect(\"{old} has all of {version}\");\n    }}\n}}\n",
        uses = uses.join("\n"),
    )
}

/// The function that returns the definition of both versions, for the module of the kind.
pub(crate) fn definition(kind: &KindName, old: &str, version: &str) -> String {
    let name = &kind.kind;
    format!(
        "/// The definition of all versions. Objects are stored as {version}.\npub fn definition() -> CustomResourceDefinition {{\n    \
         let versions = vec![{old}::{name}::crd(), {name}::crd()];\n    \
         merge_crds(versions, \"{version}\").expect(\"versions of one kind\")\n}}\n"
    )
}

/// Declarations of `use` that [`definition`] needs.
pub(crate) const USES: [&str; 2] = [
    "use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;",
    "use kube::{CustomResourceExt, core::crd::merge_crds};",
];

#[cfg(test)]
mod tests {
    use std::{fs, process::Command};

    use super::*;
    use crate::edit::RustFile;

    #[test]
    fn fields_may_have_the_names_of_versions_and_of_parts_of_the_object() {
        let spec = "pub struct AlbumSpec { pub v1: u8, pub v2: u8, pub metadata: u8, pub spec: u8, pub status: u8, pub r#type: u8 }\n";
        let declaration = format!(
            "#[kube(group = \"a.b\", version = \"v1\", kind = \"Album\", status = \"AlbumStatus\")]\n{spec}"
        );
        let file = RustFile::parse(declaration).expect("Rust");
        let mut before = file.kind("Album").expect("the kind");
        // The derived type of objects, in the form that the conversions use.
        let object = "pub struct Album { pub metadata: (), pub spec: AlbumSpec, pub status: Option<()> }\n";
        before.text = format!("{spec}{object}");
        let kind = KindName::new("a.b", "v1", "Album", []).expect("a kind");
        let version = version_before(&kind, &before, &[], &[], "v2");

        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lib.rs");
        fs::write(&path, format!("{spec}{object}pub mod v1 {{\n{version}}}\n")).expect("a file");
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc.args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata", "--deny", "warnings"]);
        let output = rustc.arg(&path).current_dir(folder.path()).output().expect("rustc runs");
        assert!(output.status.success(), "{version}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}
