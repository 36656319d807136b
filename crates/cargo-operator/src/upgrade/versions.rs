//! Versions of the libraries in a manifest. Pure.

use std::{
    cmp::Ordering,
    fmt::{self, Display, Formatter},
};

use toml_edit::{DocumentMut, Item, TableLike, TomlError, Value};

/// Packages whose versions must be compatible.
const TOGETHER: [&str; 5] = ["controller-runtime", "kube-envtest", "kube", "k8s-openapi", "schemars"];

/// Tables of a manifest with dependencies.
const TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// A dependency with another version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VersionChange {
    pub(super) name: String,
    pub(super) from: String,
    pub(super) to: String,
}

impl Display for VersionChange {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { name, from, to } = self;
        write!(formatter, "{name} {from} → {to}")
    }
}

/// Returns the manifest with all versions that are newer in the template, and the changes.
pub(super) fn upgraded(
    text: &str,
    template: &DocumentMut,
) -> Result<(String, Vec<VersionChange>), TomlError> {
    let mut manifest: DocumentMut = text.parse()?;
    let mut changes = Vec::new();
    for table in TABLES {
        change_table(manifest.get_mut(table), template, &mut changes);
    }
    let workspace = manifest.get_mut("workspace").and_then(Item::as_table_like_mut);
    change_table(workspace.and_then(|workspace| workspace.get_mut("dependencies")), template, &mut changes);
    Ok((manifest.to_string(), changes))
}

fn change_table(table: Option<&mut Item>, template: &DocumentMut, changes: &mut Vec<VersionChange>) {
    let Some(table) = table.and_then(Item::as_table_like_mut) else { return };
    for name in TOGETHER {
        let Some(to) = TABLES.iter().find_map(|table| version(template.get(table)?.get(name)?)) else {
            continue;
        };
        let Some(dependency) = table.get_mut(name) else { continue };
        let Some(from) = version(dependency).filter(|from| is_older(from, &to)) else { continue };
        set_version(dependency, &to);
        if let Some(feature) = kubernetes(template, name) {
            set_kubernetes(dependency, &feature);
        }
        changes.push(VersionChange { name: name.to_owned(), from, to });
    }
}

/// Version requirement of a dependency. A checkout or a workspace's dependency has none.
fn version(dependency: &Item) -> Option<String> {
    let is_elsewhere =
        |table: &dyn TableLike| ["path", "git", "workspace"].iter().any(|key| table.contains_key(key));
    match dependency.as_table_like() {
        Some(table) if is_elsewhere(table) => None,
        Some(table) => Some(table.get("version")?.as_str()?.to_owned()),
        None => Some(dependency.as_str()?.to_owned()),
    }
}

/// Sets a requirement, and keeps comments.
fn set_version(dependency: &mut Item, to: &str) {
    let value = match dependency.as_table_like_mut() {
        Some(table) => table.get_mut("version").and_then(Item::as_value_mut),
        None => dependency.as_value_mut(),
    };
    if let Some(value) = value {
        let decor = value.decor().clone();
        *value = Value::from(to);
        *value.decor_mut() = decor;
    }
}

/// The feature of `k8s-openapi` that selects the version of Kubernetes: `v1_36`.
fn kubernetes(template: &DocumentMut, name: &str) -> Option<String> {
    let features = template.get("dependencies")?.get(name)?.get("features")?.as_array()?;
    features.iter().filter_map(Value::as_str).find(|feature| feature.starts_with("v1_")).map(str::to_owned)
}

fn set_kubernetes(dependency: &mut Item, feature: &str) {
    let features = dependency.as_table_like_mut().and_then(|table| table.get_mut("features"));
    for value in features.and_then(Item::as_array_mut).into_iter().flat_map(|features| features.iter_mut()) {
        if value.as_str().is_some_and(|old| old.starts_with("v1_")) {
            let decor = value.decor().clone();
            *value = Value::from(feature);
            *value.decor_mut() = decor;
        }
    }
}

/// Whether a requirement such as `0.28` or `>=0.28, <0.30` is older than the version `to`. This compares the lowest version that it
/// accepts with `to`, up to the parts that both contain. A requirement without a lowest version is older if it excludes `to`.
fn is_older(from: &str, to: &str) -> bool {
    let to = numbers(to);
    let (upper, lower): (Vec<&str>, Vec<&str>) =
        from.split(',').map(str::trim).partition(|bound| bound.starts_with('<'));
    let lowest = lower.iter().map(|bound| numbers(bound)).filter(|bound| !bound.is_empty()).max();
    match lowest {
        Some(lowest) => up_to_common(&lowest, &to) == Ordering::Less,
        None => upper.iter().any(|bound| excludes(bound, &to)),
    }
}

/// Whether an upper bound such as `<0.30` or `<=0.29` excludes each version that begins with `version`.
fn excludes(bound: &str, version: &[u64]) -> bool {
    let limit = numbers(bound);
    let order = up_to_common(&limit, version);
    // `<0.30.5` accepts 0.30.4, but `<0.30.0` accepts no version 0.30.
    let has_rest = limit.iter().skip(version.len()).any(|part| *part > 0);
    order == Ordering::Less || (order == Ordering::Equal && !has_rest && !bound.starts_with("<="))
}

/// Numbers of a version or of a bound: 0 and 28 of `>=0.28`.
fn numbers(bound: &str) -> Vec<u64> {
    let version = bound.trim_start_matches(|c: char| "^~=<> ".contains(c));
    version.split('.').map_while(|part| part.parse().ok()).collect()
}

/// Compares two versions by the parts that both contain.
fn up_to_common(one: &[u64], other: &[u64]) -> Ordering {
    let common = one.len().min(other.len());
    one[..common].cmp(&other[..common])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template;

    fn template() -> DocumentMut {
        "[dependencies]\n\
         controller-runtime = { version = \"0.4.0\", features = [\"clap\"] }\n\
         k8s-openapi = { version = \"0.30\", features = [\"schemars\", \"v1_37\"] }\n\
         kube = \"6\"\n\
         [dev-dependencies]\n\
         kube-envtest = \"0.4.0\"\n"
            .parse()
            .expect("TOML")
    }

    #[test]
    fn versions_move_together_and_the_rest_stays() {
        let before = "[package]\nname = \"a\" # mine\n\n[dependencies]\nanyhow = \"1\"\n\
             controller-runtime = { features = [\"clap\", \"http2\"], version = \"0.3.1\" } # ours\n\
             k8s-openapi = { version = \"0.29\", features = [\"v1_36\"] }\nkube = \"5\" # five\n\n\
             [dev-dependencies.kube-envtest]\nversion = \"0.3.1\"\n\n[workspace.dependencies]\nkube = \"=5.0.1\"\n";
        let (after, changes) = upgraded(before, &template()).expect("TOML");
        let expected = before
            .replace("version = \"0.3.1\"", "version = \"0.4.0\"")
            .replace("0.29", "0.30")
            .replace("v1_36", "v1_37")
            .replace("kube = \"5\"", "kube = \"6\"")
            .replace("=5.0.1", "6");
        assert_eq!(after, expected);
        let listed: Vec<_> = changes.iter().map(|it| format!("{} {} {}", it.name, it.from, it.to)).collect();
        assert_eq!(
            listed,
            [
                "controller-runtime 0.3.1 0.4.0",
                "kube 5 6",
                "k8s-openapi 0.29 0.30",
                "kube-envtest 0.3.1 0.4.0",
                "kube =5.0.1 6"
            ]
        );
        assert_eq!(
            upgraded(&after, &template()).expect("TOML"),
            (after.clone(), Vec::new()),
            "a second time"
        );
    }

    #[test]
    fn checkouts_inherited_and_newer_versions_stay() {
        let manifest = "[dependencies]\ncontroller-runtime = { path = \"../c\" }\nkube = { workspace = true }\nk8s-openapi = \"0.31\"\n\
             [dev-dependencies]\nkube-envtest = { git = \"https://example.com\", version = \"0.1\" }\n";
        assert_eq!(upgraded(manifest, &template()).expect("TOML"), (manifest.to_owned(), Vec::new()));
    }

    #[test]
    fn requirements_are_compared_as_far_as_both_say() {
        for (from, to, older) in [
            ("5", "6", true),
            ("5.2", "5", false),
            ("0.28", "0.29", true),
            ("^0.9.9", "0.10", true),
            ("*", "1", false),
            (">=0.28, <0.30", "0.30", true),
            (">= 0.28.3, < 0.32", "0.30", true),
            ("<0.32, >0.28", "0.30", true),
            (">=0.30, <0.32", "0.30", false),
            (">=0.31", "0.30", false),
            ("<0.30", "0.30", true),
            ("<0.30.0", "0.30", true),
            ("<0.30.5", "0.30", false),
            ("<=0.30", "0.30", false),
            ("<=0.29", "0.30", true),
            ("<1", "0.30", false),
            ("0.28.*", "0.30", true),
            ("", "1", false),
        ] {
            assert_eq!(is_older(from, to), older, "{from} {to}");
        }
    }

    /// A new project is up to date.
    #[test]
    fn the_template_has_a_version_of_each_package() {
        let template = template::manifest();
        for name in TOGETHER {
            let known = TABLES.iter().find_map(|table| version(template.get(table)?.get(name)?));
            assert!(known.is_some(), "{name}");
        }
    }
}
