//! Fields of Go's API types that are pointers, which no recorded document contains.
//!
//! A protobuf body contains every field that is a plain value, even zero, and the JSON of such a zero is omitted; a pointer
//! to zero is written. Only Go's struct declarations distinguish the two.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Returns (message, field number) of all pointer fields in the module folders below `modules`
/// (`api@…`, `apimachinery@…`, `apiextensions-apiserver@…`, `kube-aggregator@…`).
pub(crate) fn pointers(modules: &Path) -> Result<BTreeSet<(String, String)>, String> {
    let mut found = BTreeSet::new();
    for file in go_files(modules)? {
        let Some(package) = package(&file) else {
            continue;
        };
        let source =
            std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let mut message = String::new();
        for line in source.lines() {
            if let Some(name) = line.strip_prefix("type ").and_then(|rest| rest.strip_suffix(" struct {")) {
                message = format!("{package}.{name}");
            } else if line == "}" {
                message.clear();
            } else if !message.is_empty()
                && let Some(number) = pointer_number(line)
            {
                found.insert((message.clone(), number.to_owned()));
            }
        }
    }
    if found.is_empty() {
        return Err(format!("{}: no Go types with pointers here", modules.display()));
    }
    Ok(found)
}

/// Returns the protobuf number of a pointer field such as `Replicas *int32 `json:"…" protobuf:"varint,1,opt,name=replicas"``.
fn pointer_number(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let (_name, kind) = (words.next()?, words.next()?);
    if !kind.starts_with('*') {
        return None;
    }
    line.split_once("protobuf:\"")?.1.split(',').nth(1)
}

/// Returns the protobuf package of a file: `apps.v1` for `…/api@v0.36.0/apps/v1/types.go`.
fn package(file: &Path) -> Option<String> {
    let folder = file.parent()?;
    let version = folder.file_name()?.to_str()?;
    let group = folder.parent()?.file_name()?.to_str()?;
    version.starts_with('v').then(|| format!("{group}.{version}"))
}

fn go_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in entries {
            let path = entry.map_err(|error| error.to_string())?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.starts_with("types") && name.ends_with(".go") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pointers_have_a_number() {
        let pointer =
            "\tReplicas *int32 `json:\"replicas,omitempty\" protobuf:\"varint,1,opt,name=replicas\"`";
        let plain = "\tPaused bool `json:\"paused,omitempty\" protobuf:\"varint,7,opt,name=paused\"`";
        assert_eq!(pointer_number(pointer), Some("1"));
        assert_eq!(pointer_number(plain), None);
        assert_eq!(pointer_number("\t// Number of *desired pods."), None);
    }

    #[test]
    fn package_is_group_and_version() {
        let path = Path::new("modules/api@v0.36.0/apps/v1/types.go");
        assert_eq!(package(path).as_deref(), Some("apps.v1"));
    }
}
