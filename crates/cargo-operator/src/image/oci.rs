//! Image layouts: <https://github.com/opencontainers/image-spec/blob/main/image-layout.md>.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::tar::{Entry, archive};

/// User and group of the program: not root, and the ones that distroless images call `nonroot`.
const USER: &str = "65532:65532";

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// The image of one platform.
#[derive(Debug, Clone)]
pub(super) struct Image {
    pub(super) program: Vec<u8>,
    pub(super) architecture: &'static str,
    /// Name of the program's file.
    pub(super) name: String,
}

/// An image of one or several platforms, as files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    files: BTreeMap<String, Vec<u8>>,
    /// Digest of the image, by which a registry knows it.
    pub(super) digest: String,
}

impl Layout {
    /// Creates the layout of images with this name. All times are `created`, in seconds since 1970.
    pub(super) fn of(images: &[Image], name: &str, created: u32) -> io::Result<Self> {
        let mut layout = Self { files: BTreeMap::new(), digest: String::new() };
        layout
            .files
            .insert("oci-layout".to_owned(), json!({ "imageLayoutVersion": "1.0.0" }).to_string().into());
        let mut manifests = Vec::new();
        for image in images {
            manifests.push(layout.add_image(image, created)?);
        }
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests });
        // Images of several platforms need an additional index, so that they have one digest together.
        let mut image = match &mut manifests[..] {
            [only] => only.take(),
            _ => layout.add_json(INDEX, &index),
        };
        layout.digest = image["digest"].as_str().unwrap_or_default().to_owned();
        let (_, tag) = split_name(name);
        // The standard annotation holds the tag alone. containerd reads the whole name from the other one.
        image["annotations"] =
            json!({ "org.opencontainers.image.ref.name": tag, "io.containerd.image.name": name });
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [image] });
        layout.files.insert("index.json".to_owned(), index.to_string().into());
        Ok(layout)
    }

    /// Paths and contents.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, bytes)| (&**path, &**bytes))
    }

    /// Number of bytes of all files.
    pub(super) fn len(&self) -> usize {
        self.files.values().map(Vec::len).sum()
    }

    /// All files as one archive.
    pub(super) fn archive(&self, created: u32) -> Vec<u8> {
        let folders = ["blobs/", "blobs/sha256/"].map(Entry::Folder);
        let files = self.files().map(|(path, bytes)| Entry::File(path, bytes));
        archive(folders.into_iter().chain(files), created)
    }

    /// Adds the image of a platform, and returns the descriptor of its manifest.
    fn add_image(&mut self, image: &Image, created: u32) -> io::Result<Value> {
        let layer = archive([Entry::Program(&image.name, &image.program)], created);
        let uncompressed = digest(&layer);
        // The header has neither a time nor an operating system (255 stands for unknown), so equal programs give equal
        // bytes.
        let mut gzip = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::best());
        gzip.write_all(&layer)?;
        let layer = self.add(LAYER, gzip.finish()?);
        let config = json!({
            "created": time(created),
            "architecture": image.architecture,
            "os": "linux",
            "config": { "User": USER, "Entrypoint": [format!("/{}", image.name)], "WorkingDir": "/" },
            "rootfs": { "type": "layers", "diff_ids": [uncompressed] },
            "history": [{ "created": time(created), "created_by": "cargo operator image" }],
        });
        let config = self.add_json(CONFIG, &config);
        let manifest =
            json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer] });
        let mut descriptor = self.add_json(MANIFEST, &manifest);
        descriptor["platform"] = json!({ "architecture": image.architecture, "os": "linux" });
        Ok(descriptor)
    }

    fn add_json(&mut self, media_type: &str, value: &Value) -> Value {
        self.add(media_type, value.to_string().into())
    }

    /// Adds a blob, and returns its descriptor.
    fn add(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let digest = digest(&bytes);
        let descriptor = json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() });
        self.files.insert(format!("blobs/{}", digest.replace(':', "/")), bytes);
        descriptor
    }
}

/// Splits the name of an image into path and tag. The tag is `latest` if the name has none; a colon before a slash precedes a port.
pub(super) fn split_name(name: &str) -> (&str, &str) {
    match name.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, tag),
        _ => (name, "latest"),
    }
}

fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// RFC 3339, in UTC. The date is that of the Gregorian calendar, by the algorithm of
/// <https://howardhinnant.github.io/date_algorithms.html#civil_from_days>.
fn time(seconds: u32) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that a leap day is the last day of a year; and an era of 400 years has 146,097 days.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u32::from(month < 3);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::{super::elf::tests::program, *};

    fn image(machine: u16, architecture: &'static str) -> Image {
        Image { program: program(machine, 1), architecture, name: "guestbook".to_owned() }
    }

    fn layout(images: &[Image]) -> Layout {
        Layout::of(images, "registry.example.com:5000/guestbook:1.0", 1_700_000_000).expect("a layout")
    }

    /// Follows a descriptor, and checks its digest and size.
    fn blob<'l>(layout: &'l Layout, descriptor: &Value) -> &'l [u8] {
        let wanted = descriptor["digest"].as_str().expect("a digest");
        let path = format!("blobs/{}", wanted.replace(':', "/"));
        let (_, bytes) = layout.files().find(|(found, _)| *found == path).expect("a blob");
        assert_eq!(
            (digest(bytes).as_str(), bytes.len() as u64),
            (wanted, descriptor["size"].as_u64().expect("a size"))
        );
        bytes
    }

    fn json_of(layout: &Layout, descriptor: &Value) -> Value {
        serde_json::from_slice(blob(layout, descriptor)).expect("JSON")
    }

    fn index(layout: &Layout) -> Value {
        let (_, bytes) = layout.files().find(|(path, _)| *path == "index.json").expect("an index");
        serde_json::from_slice(bytes).expect("JSON")
    }

    #[test]
    fn the_layer_holds_the_program_alone_and_digests_lead_to_it() {
        let layout = layout(&[image(62, "amd64")]);
        let descriptor = &index(&layout)["manifests"][0];
        assert_eq!(descriptor["mediaType"], MANIFEST);
        assert_eq!(descriptor["annotations"]["org.opencontainers.image.ref.name"], "1.0");
        assert_eq!(descriptor["digest"], layout.digest);
        let manifest = json_of(&layout, descriptor);
        let config = json_of(&layout, &manifest["config"]);
        assert_eq!(
            (
                &config["architecture"],
                &config["config"]["User"],
                &config["config"]["Entrypoint"],
                &config["created"]
            ),
            (&json!("amd64"), &json!("65532:65532"), &json!(["/guestbook"]), &json!("2023-11-14T22:13:20Z"))
        );
        let mut layer = Vec::new();
        GzDecoder::new(blob(&layout, &manifest["layers"][0])).read_to_end(&mut layer).expect("gzip");
        assert_eq!(config["rootfs"]["diff_ids"], json!([digest(&layer)]));
        assert_eq!(layer[512..512 + program(62, 1).len()], program(62, 1));
        assert_eq!(layout.files().count(), 5);
    }

    #[test]
    fn several_platforms_have_an_index_of_their_own() {
        let layout = layout(&[image(62, "amd64"), image(183, "arm64")]);
        let outer = &index(&layout)["manifests"][0];
        assert_eq!(
            (outer["mediaType"].as_str(), outer["digest"].as_str()),
            (Some(INDEX), Some(&*layout.digest))
        );
        let inner = json_of(&layout, outer);
        let platforms: Vec<_> = inner["manifests"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|manifest| {
                let config = json_of(&layout, &json_of(&layout, manifest)["config"]);
                assert_eq!(config["architecture"], manifest["platform"]["architecture"]);
                manifest["platform"]["architecture"].clone()
            })
            .collect();
        assert_eq!(platforms, ["amd64", "arm64"]);
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (59, "1970-01-01T00:00:59Z"),
            (68_169_599, "1972-02-28T23:59:59Z"),
            (68_169_600, "1972-02-29T00:00:00Z"),
            (68_256_000, "1972-03-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (978_307_199, "2000-12-31T23:59:59Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (u32::MAX, "2106-02-07T06:28:15Z"),
        ] {
            assert_eq!(time(seconds), expected);
        }
        // Each day follows the day before.
        let mut before = time(0);
        for day in 1..=u32::MAX / 86_400 {
            let next = time(day * 86_400);
            let number = |text: &str| text[8..10].parse::<u32>().expect("a day");
            let follows = match number(&next) {
                1 => (28..=31).contains(&number(&before)) && next[..7] > before[..7],
                number_of_next => number_of_next == number(&before) + 1 && next[..7] == before[..7],
            };
            assert!(follows, "{before} {next}");
            before = next;
        }
    }

    #[test]
    fn equal_programs_give_equal_bytes() {
        let one = layout(&[image(62, "amd64")]);
        assert_eq!(layout(&[image(62, "amd64")]).archive(0), one.archive(0));
        let mut other = image(62, "amd64");
        other.program.push(0);
        assert_ne!(layout(&[other]).digest, one.digest);
    }
}
