//! Names of container images, as the `reference` library of the distribution project parses them.

/// Maximum length of a repository's path.
const PATH: usize = 255;
/// Maximum length of a tag.
const TAG: usize = 128;

/// Whether an image has the tag `latest`, or neither a tag nor a digest. An invalid name has no tag.
pub(super) fn is_latest(image: &str) -> bool {
    tag(image).is_some_and(|tag| tag == "latest")
}

/// Returns the tag of an image, or the empty text if it has only a digest. `None` if the name is invalid.
fn tag(image: &str) -> Option<&str> {
    let is_hexadecimal = |text: &str| text.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c));
    if image.len() == 64 && is_hexadecimal(image) {
        // The library refuses such a name, because it could be the ID of an image.
        return None;
    }
    let (domain, rest) = split_domain(image);
    let (named, digest) = match rest.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (rest, None),
    };
    let (path, tag) = match named.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (named, None),
    };
    let is_known = tag.is_none_or(is_tag) && digest.is_none_or(is_digest);
    // The library completes a name with one component to `docker.io/library/NAME`, which counts for the length.
    let is_official = domain.is_none_or(|domain| domain == "docker.io") && !path.contains('/');
    let length = path.len() + if is_official { "library/".len() } else { 0 };
    if !is_known || !is_path(path) {
        return None;
    }
    match domain {
        Some(domain) if !is_domain(domain) => {
            // The text before the first slash is not a domain, so it is part of the path.
            (is_path(domain) && domain.len() + 1 + length <= PATH).then_some(())?;
        }
        _ => (length <= PATH).then_some(())?,
    }
    Some(match (tag, digest) {
        (Some(tag), _) => tag,
        (None, Some(_)) => "",
        (None, None) => "latest",
    })
}

/// Splits the registry's domain off a name, if there is one. As in the library, a domain is `localhost`, or contains a dot, a colon or an uppercase letter.
fn split_domain(image: &str) -> (Option<&str>, &str) {
    match image.split_once('/') {
        // The library replaces the older domain of Docker Hub.
        Some(("index.docker.io", rest)) => (Some("docker.io"), rest),
        Some((domain, rest))
            if domain == "localhost"
                || domain.contains(['.', ':'])
                || domain.chars().any(char::is_uppercase) =>
        {
            (Some(domain), rest)
        }
        _ => (None, image),
    }
}

/// Whether a text is a host with an optional port.
fn is_domain(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => {
            let is_address = |c: u8| c.is_ascii_hexdigit() || c == b':';
            if address.is_empty() || !address.bytes().all(is_address) {
                return false;
            }
            // Any other text after the bracket counts as an empty port, which is invalid.
            (None, rest.strip_prefix(':').or(if rest.is_empty() { None } else { Some("") }))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (Some(host), Some(port)),
            None => (Some(text), None),
        },
    };
    let is_label = |label: &str| {
        let is_edge = |c: Option<u8>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        is_edge(label.bytes().next())
            && is_edge(label.bytes().next_back())
            && label.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
    };
    port.is_none_or(|port| !port.is_empty() && port.bytes().all(|c| c.is_ascii_digit()))
        && host.is_none_or(|host| host.split('.').all(is_label))
}

/// Whether a text is a path of lower-case components. Inside a component, words are separated by a dot, one or two underscores, or dashes.
fn is_path(text: &str) -> bool {
    let is_component = |component: &str| {
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let mut separators = component.split(is_word).filter(|part| !part.is_empty());
        component.starts_with(is_word)
            && component.ends_with(is_word)
            && separators.all(|part| [".", "_", "__"].contains(&part) || part.bytes().all(|c| c == b'-'))
    };
    text.split('/').all(is_component)
}

fn is_tag(text: &str) -> bool {
    let is_word = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    text.len() <= TAG
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|c| is_word(c) || c == b'.' || c == b'-')
}

/// Whether a text is a digest of a known algorithm.
fn is_digest(text: &str) -> bool {
    let Some((algorithm, sum)) = text.split_once(':') else { return false };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    sum.len() == length && sum.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_without_a_tag_are_the_latest_ones() {
        let digest = format!("@sha256:{}", "0".repeat(64));
        for (image, latest) in [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1", false),
            ("localhost:5000/nginx", true),
            ("localhost:5000/nginx:1", false),
            ("localhost/nginx", true),
            ("index.docker.io/nginx", true),
            ("[::1]:5000/nginx", true),
            ("a_b.c/d__e/f--g", true),
            ("Registry/nginx", true),
            ("", false),
        ] {
            assert_eq!(is_latest(image), latest, "{image}");
        }
        assert!(!is_latest(&format!("nginx{digest}")));
        assert!(is_latest(&format!("nginx:latest{digest}")));
    }

    #[test]
    fn a_name_that_cannot_be_read_has_no_tag() {
        let long = "a".repeat(255);
        for image in [
            &*"a".repeat(64),
            "Nginx",
            "a b",
            "a/B",
            "-a",
            "a..b",
            "a___b",
            "a//b",
            "a/",
            "a:",
            "a:-",
            "nginx:latest@sha256:0",
            "nginx@md5:0",
            "Ünï",
            "[::1/nginx",
            "a.b:x/nginx",
            &*long,
        ] {
            assert!(!is_latest(image), "{image}");
        }
        assert!(
            is_latest(&"a".repeat(63))
                && is_latest(&"a".repeat(247))
                && is_latest(&format!("{}g", "a".repeat(63)))
        );
    }
}
