//! Length limits of an event's fields. An API server refuses an event with longer ones, so they are cut here.
//!
//! The values are those of `ValidateEventCreate` in kube-apiserver, in bytes.

/// Limit of `reason`.
pub(super) const REASON: usize = 128;
/// Limit of `action`.
pub(super) const ACTION: usize = 128;
/// Limit of `note`.
pub(super) const NOTE: usize = 1024;
/// Limit of `reportingInstance`.
const INSTANCE: usize = 128;
/// Limit of the part of `reportingController` after its slash, if it has one.
const QUALIFIED: usize = 63;
/// Limit of the name of an object.
const NAME: usize = 253;

/// The beginning of a text, at most `limit` bytes.
pub(super) fn cut(mut text: String, limit: usize) -> String {
    text.truncate(text.floor_char_boundary(limit));
    text
}

/// The reporting process: controller and host. The host distinguishes processes, so the controller is cut first.
pub(super) fn instance(controller: &str, host: &str) -> String {
    let host = cut(host.to_owned(), INSTANCE / 2);
    let controller = cut(controller.to_owned(), INSTANCE - host.len() - 1);
    format!("{controller}-{host}")
}

/// The reporting controller: a name that ends in a letter or digit.
pub(super) fn controller(name: &str) -> String {
    let start = name.rfind('/').map_or(0, |slash| slash + 1);
    // Only the part after the slash has a limit of its own.
    if name.len() - start <= QUALIFIED {
        return name.to_owned();
    }
    let short = cut(name.to_owned(), start + QUALIFIED);
    short.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

/// The name of an event about the object `about`.
///
/// Not every name of an object can be part of it: `system:node` is a valid name of a ClusterRole, but no DNS subdomain.
pub(super) fn event_name(about: &str, suffix: u64) -> String {
    let name = format!("{about}.{suffix:016x}");
    if is_subdomain(&name) { name } else { format!("event.{suffix:016x}") }
}

/// Returns whether a name is a DNS subdomain.
fn is_subdomain(name: &str) -> bool {
    let is_alphanumeric = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(|c| is_alphanumeric(*c))
            && bytes.last().is_some_and(|c| is_alphanumeric(*c))
            && bytes.iter().all(|c| is_alphanumeric(*c) || *c == b'-')
    };
    name.len() <= NAME && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("short".to_owned(), 5), "short");
        assert_eq!(cut("longer".to_owned(), 5), "longe");
        assert_eq!(cut("né".to_owned(), 2), "n", "a half of a character is none");
    }

    #[test]
    fn a_shortened_instance_keeps_its_host() {
        assert_eq!(instance("guestbook", "web-0"), "guestbook-web-0");
        let long = instance(&"c".repeat(200), "web-0");
        assert_eq!((long.len(), long.ends_with("cc-web-0")), (128, true), "{long}");
        assert_eq!(instance("guestbook", &"h".repeat(200)), format!("guestbook-{}", "h".repeat(64)));
    }

    #[test]
    fn a_controller_stays_a_qualified_name() {
        assert_eq!(controller("example.com/widget"), "example.com/widget");
        let prefix = format!("{}.example.com", "p".repeat(60));
        assert_eq!(controller(&format!("{prefix}/widget")), format!("{prefix}/widget"));
        assert_eq!(controller(&"c".repeat(64)), "c".repeat(63));
        let dashed = format!("{prefix}/{}--more", "c".repeat(62));
        assert_eq!(controller(&dashed), format!("{prefix}/{}", "c".repeat(62)));
    }

    #[test]
    fn an_event_is_named_after_its_object_if_the_name_is_valid() {
        let plain = "event.0000000000000007";
        let named = |about: &str| event_name(about, 7);
        assert_eq!(named("web-1.example"), "web-1.example.0000000000000007");
        assert_eq!(named(&"a".repeat(236)).len(), 253);
        assert_eq!(named(&"a".repeat(237)), plain);
        for about in ["system:node", "Upper", "", "a..b", "-a", "a-"] {
            assert_eq!(named(about), plain, "{about:?}");
        }
    }
}
