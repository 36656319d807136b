//! Warnings about overlapping paths of files in one volume.

use kube_apimachinery::go::quote;
use serde_json::Value;

use crate::kinds::builtin::shared::fields::{list, text};

/// Path of a file in a volume, and the source of the file.
#[derive(Debug, Clone, PartialEq)]
struct VirtualPath {
    path: String,
    /// Description of the source; empty if the volume has only one.
    source: String,
}

impl VirtualPath {
    fn new(path: &str, source: &str) -> Self {
        Self { path: path.trim_end_matches('/').to_owned(), source: source.to_owned() }
    }

    fn shown(&self) -> String {
        let path = quote(&self.path);
        if self.source.is_empty() { path } else { format!("{path} ({})", self.source) }
    }

    /// Whether both paths are the same file, or one is a parent folder of the other.
    fn overlaps(&self, other: &Self) -> bool {
        // With a slash at the end, `ab` is not inside of `a`.
        let (a, b) = (format!("{}/", self.path), format!("{}/", other.path));
        !self.path.is_empty() && !other.path.is_empty() && (a.starts_with(&b) || b.starts_with(&a))
    }
}

/// Returns the warnings about the volumes of a pod.
pub(super) fn overlaps(spec: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for volume in list(spec, "volumes") {
        let name = quote(text(volume, "name"));
        let mut warn = |described: &str, paths: Vec<VirtualPath>| {
            for (index, path) in paths.iter().enumerate() {
                warnings.extend(collisions(&name, described, &paths[..index], path));
            }
        };
        let map = format!("ConfigMap {}", quote(text(&volume["configMap"], "name")));
        warn(&map, items(&volume["configMap"], ""));
        let secret = format!("Secret {}", quote(text(&volume["secret"], "secretName")));
        warn(&secret, items(&volume["secret"], ""));
        warn("DownwardAPI", items(&volume["downwardAPI"], ""));
        let mut paths: Vec<VirtualPath> = Vec::new();
        for source in list(&volume["projected"], "sources") {
            if source.as_object().is_none_or(|source| source.values().all(Value::is_null)) {
                warnings.push(format!("volume {name} (Projected) has no sources provided"));
            }
            // All sources of a projected volume write to one folder, so each path is compared with those of earlier sources, too.
            for path in projected(source) {
                warnings.extend(collisions(&name, "Projected", &paths, &path));
                paths.push(path);
            }
        }
    }
    warnings
}

/// Returns the warnings about a path that overlaps earlier ones.
fn collisions<'a>(
    volume: &'a str,
    described: &'a str,
    earlier: &'a [VirtualPath],
    path: &'a VirtualPath,
) -> impl Iterator<Item = String> + 'a {
    earlier.iter().filter(|earlier| earlier.overlaps(path)).map(move |earlier| {
        let (path, earlier) = (path.shown(), earlier.shown());
        format!("volume {volume} ({described}): overlapping paths: {path} with {earlier}")
    })
}

fn items(volume: &Value, source: &str) -> Vec<VirtualPath> {
    list(volume, "items").iter().map(|item| VirtualPath::new(text(item, "path"), source)).collect()
}

/// Returns the paths of one source of a projected volume. Like kube-apiserver, this looks at the first kind of source that is set.
fn projected(source: &Value) -> Vec<VirtualPath> {
    for (field, kind) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
        if source[field]["items"].is_array() {
            let described = format!("{kind} {}", quote(text(&source[field], "name")));
            return items(&source[field], &described);
        }
    }
    if source["downwardAPI"]["items"].is_array() {
        return items(&source["downwardAPI"], "DownwardAPI");
    }
    let token = &source["serviceAccountToken"];
    if token.is_object() {
        return vec![VirtualPath::new(text(token, "path"), "ServiceAccountToken")];
    }
    let bundle = &source["clusterTrustBundle"];
    if bundle.is_object() {
        let name = if bundle["name"].is_string() { "name" } else { "signerName" };
        let described = format!("ClusterTrustBundle {}", quote(text(bundle, name)));
        return vec![VirtualPath::new(text(bundle, "path"), &described)];
    }
    let files = [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ];
    let path = |field| text(&source["podCertificate"], field);
    files
        .into_iter()
        .filter(|(field, _)| !path(field).is_empty())
        .map(|(field, described)| VirtualPath::new(path(field), described))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_with_one_path_or_inside_another_overlap() {
        let volume = |paths: &[&str]| {
            let items: Vec<Value> = paths.iter().map(|path| json!({"key": "k", "path": path})).collect();
            json!({"volumes": [{"name": "v", "configMap": {"name": "m", "items": items}}]})
        };
        assert_eq!(overlaps(&volume(&["a", "ab", "b/c", ""])), [""; 0]);
        assert_eq!(
            overlaps(&volume(&["a", "a/b", "a/"])),
            [
                "volume \"v\" (ConfigMap \"m\"): overlapping paths: \"a/b\" with \"a\"",
                "volume \"v\" (ConfigMap \"m\"): overlapping paths: \"a\" with \"a\"",
                "volume \"v\" (ConfigMap \"m\"): overlapping paths: \"a\" with \"a/b\"",
            ]
        );
    }

    #[test]
    fn sources_of_a_projected_volume_are_named() {
        let sources = json!([
            {"secret": {"name": "s", "items": [{"key": "k", "path": "a"}]}}, {"serviceAccountToken": {"path": "a"}}, {},
            {"podCertificate": {"keyPath": "b", "certificateChainPath": "a/", "credentialBundlePath": ""}},
        ]);
        let spec = json!({"volumes": [{"name": "v", "projected": {"sources": sources}}]});
        assert_eq!(
            overlaps(&spec),
            [
                "volume \"v\" (Projected): overlapping paths: \"a\" (ServiceAccountToken) with \"a\" (Secret \"s\")",
                "volume \"v\" (Projected) has no sources provided",
                "volume \"v\" (Projected): overlapping paths: \"a\" (PodCertificate chain) with \"a\" (Secret \"s\")",
                "volume \"v\" (Projected): overlapping paths: \"a\" (PodCertificate chain) with \"a\" (ServiceAccountToken)",
            ]
        );
    }
}
