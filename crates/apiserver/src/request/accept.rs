//! Content negotiation: the encoding of a response, and the view of the object.

use kube_apimachinery::status::ApiError;

/// Encoding of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
    /// Protobuf; responses without a protobuf message use JSON.
    Protobuf,
}

impl Encoding {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// Returns the content type of a watch. JSON uses the type of a single object.
    pub(crate) fn watch_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
            other => other.content_type(),
        }
    }

    /// Returns the encoding that a range names, unless the encoding lacks the stream or the metadata version that the range requires. A
    /// wildcard names JSON.
    pub(crate) fn of(range: &MediaRange<'_>) -> Option<Self> {
        let encoding = match range.media_type {
            "application/json" | "*/*" | "*" | "application/*" => Self::Json,
            "application/yaml" => Self::Yaml,
            "application/vnd.kubernetes.protobuf" => Self::Protobuf,
            _ => return None,
        };
        // YAML has no streams.
        let is_served = match range.parameter("stream") {
            None | Some("") => true,
            Some(stream) => stream == "watch" && encoding != Self::Yaml,
        };
        // `sv` is the version of the metadata, of which only `v1` exists.
        let is_versioned = range.parameter("sv").is_some_and(|version| !matches!(version, "" | "v1"));
        (is_served && !is_versioned).then_some(encoding)
    }
}

/// Kind of endpoint, which determines the supported encodings and views.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// The list or watch of a builtin kind.
    Collection,
    /// An object of a builtin kind.
    Object,
    /// A custom kind. Its objects and their scales are not served as protobuf messages, but their metadata are.
    Custom,
    /// A POST of an object that is not stored, such as a review, or a subresource without a Table.
    Action,
    /// The log of a pod.
    Log,
    /// A discovery document of builtin kinds. It has no views.
    Discovery,
    /// A discovery document that the handler of all groups writes. It has no views.
    Groups,
}

impl Endpoint {
    /// Returns the media types that the router of builtin kinds offers before the handler negotiates; `None` if no router precedes it. The
    /// router knows no wildcard except `*/*`.
    fn offered(self) -> Option<&'static [&'static str]> {
        const OFFERED: [&str; 6] = [
            "text/plain",
            "application/json",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
            "application/json;stream=watch",
            "application/vnd.kubernetes.protobuf;stream=watch",
        ];
        match self {
            Self::Collection => Some(&OFFERED[1..]),
            Self::Object | Self::Action | Self::Discovery => Some(&OFFERED[1..4]),
            Self::Log => Some(&OFFERED[..4]),
            Self::Custom | Self::Groups => None,
        }
    }

    /// Whether a response can have this view.
    fn shows(self, view: View) -> bool {
        match self {
            Self::Discovery | Self::Groups => false,
            Self::Action | Self::Log => view != View::Table,
            Self::Collection | Self::Object | Self::Custom => true,
        }
    }
}

/// Part or form of an object that the response contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum View {
    /// The whole object.
    Object,
    /// `as=PartialObjectMetadata`.
    Metadata,
    /// `as=PartialObjectMetadataList`.
    MetadataList,
    /// `as=Table`.
    Table,
}

/// Result of the negotiation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accept {
    pub(crate) encoding: Encoding,
    pub(crate) view: View,
    /// `v1` or `v1beta1` of `meta.k8s.io`, for views other than [`View::Object`].
    pub(crate) view_version: &'static str,
}

impl Accept {
    /// The whole object as JSON.
    pub(crate) const JSON: Self = Self { encoding: Encoding::Json, view: View::Object, view_version: "v1" };

    /// Picks the first range of `header` that can be served, higher `q` first.
    ///
    /// # Errors
    /// 406, with the message for builtin or for custom kinds.
    pub(crate) fn negotiate(header: Option<&str>, endpoint: Endpoint) -> Result<Self, ApiError> {
        let Some(header) = header.filter(|header| !header.trim().is_empty()) else {
            return Ok(Self::JSON);
        };
        let ranges = ranges(header);
        Self::check_routed(Some(header), endpoint)?;
        for range in ranges {
            let Some(encoding) = Encoding::of(&range) else {
                continue;
            };
            // A range that cannot be served is skipped, because the client may accept another.
            let is_document = matches!(endpoint, Endpoint::Discovery | Endpoint::Groups);
            if is_document && range.parameter("sv").is_some_and(|version| !version.is_empty()) {
                continue;
            }
            if !range.transforms() {
                if encoding == Encoding::Protobuf && endpoint == Endpoint::Custom {
                    continue;
                }
                return Ok(Self { encoding, ..Self::JSON });
            }
            let view_version = match (range.parameter("g"), range.parameter("v")) {
                (Some("meta.k8s.io"), Some("v1")) => "v1",
                (Some("meta.k8s.io"), Some("v1beta1")) => "v1beta1",
                _ => continue,
            };
            let view = match range.parameter("as") {
                Some("Table") if encoding != Encoding::Protobuf => View::Table,
                Some("PartialObjectMetadata") => View::Metadata,
                Some("PartialObjectMetadataList") => View::MetadataList,
                _ => continue,
            };
            if endpoint.shows(view) {
                return Ok(Self { encoding, view, view_version });
            }
        }
        Err(not_acceptable())
    }

    /// Checks the header as the router of builtin kinds does, before its handler [negotiates](Self::negotiate).
    ///
    /// # Errors
    /// 406 with the types that the router offers.
    pub(crate) fn check_routed(header: Option<&str>, endpoint: Endpoint) -> Result<(), ApiError> {
        endpoint.offered().map_or(Ok(()), |offered| require_one_of(header, offered))
    }

    /// Checks that the encoding has a form for streams.
    ///
    /// # Errors
    /// 406 with the streams that exist.
    pub(crate) fn require_stream(self) -> Result<(), ApiError> {
        if self.encoding != Encoding::Yaml {
            return Ok(());
        }
        let why = "only the following media types are accepted: application/json;stream=watch, \
                   application/vnd.kubernetes.protobuf;stream=watch";
        Err(ApiError::new(406, "NotAcceptable", why))
    }

    /// Returns the apiVersion of the metadata views.
    pub(crate) fn meta_api_version(self) -> &'static str {
        if self.view_version == "v1" { "meta.k8s.io/v1" } else { "meta.k8s.io/v1beta1" }
    }

    /// Returns the encoding of an error: that of the first range for whole objects, or `None` if there is no such range. A `Status` has no
    /// other views, and has a protobuf message whatever the kind.
    pub(crate) fn of_error(header: Option<&str>) -> Option<Encoding> {
        match header.filter(|header| !header.trim().is_empty()) {
            None => Some(Encoding::Json),
            Some(header) => ranges(header).iter().filter(|range| !range.transforms()).find_map(Encoding::of),
        }
    }
}

/// Checks that a client accepts one of the types that the router offers for a path. An absent header accepts everything.
///
/// # Errors
/// 406.
pub(crate) fn require_one_of(header: Option<&str>, offered: &[&str]) -> Result<(), ApiError> {
    match header.filter(|header| !header.trim().is_empty()) {
        Some(header) => require(header, offered),
        None => Ok(()),
    }
}

/// Checks a header as the router does: it compares whole media types, ignores their parameters, and knows only the wildcard `*/*`.
fn require(header: &str, offered: &[&str]) -> Result<(), ApiError> {
    let media_type = |range: &str| range.split(';').next().unwrap_or_default().trim_matches(' ').to_owned();
    let accepts = |range: &str| {
        let accepted = media_type(range);
        accepted == "*/*" || offered.contains(&accepted.as_str())
    };
    if header.split(',').any(accepts) { Ok(()) } else { Err(not_routed(offered)) }
}

/// Builds the 406 of the handler of objects.
fn not_acceptable() -> ApiError {
    ApiError::new(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json, application/yaml, \
         application/vnd.kubernetes.protobuf",
    )
}

/// Builds the 406 of the router of builtin kinds.
fn not_routed(offered: &[&str]) -> ApiError {
    let why = format!("406: Not Acceptable\n\nAvailable representations: {}", offered.join(", "));
    ApiError::new(406, "NotAcceptable", &why).with_details("", "", "")
}

/// One element of an `Accept` header.
#[derive(Debug)]
pub(crate) struct MediaRange<'a> {
    pub(crate) media_type: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    /// The parameter `q`.
    weight: f32,
}

impl MediaRange<'_> {
    /// Returns the value of a parameter. Of several values, the last one counts.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().rfind(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// Whether the range requests another form than the whole object.
    pub(crate) fn transforms(&self) -> bool {
        ["as", "g", "v"].iter().any(|name| self.parameter(name).is_some())
    }

    /// Whether the sort moves the range before one that precedes it. Go's library prefers a larger weight, and a range without wildcards
    /// whatever its weight.
    fn passes(&self, other: &Self) -> bool {
        let wildcards = |range: &Self| {
            let (kind, subtype) = range.media_type.split_once('/').unwrap_or((range.media_type, "*"));
            (kind == "*", subtype == "*")
        };
        let ((any, any_subtype), (other_any, other_any_subtype)) = (wildcards(self), wildcards(other));
        self.weight > other.weight || (!any && other_any) || (!any_subtype && other_any_subtype)
    }
}

/// Maximum number of elements. Elements beyond it are ignored.
const MAX_RANGES: usize = 32;

/// Parses the elements of an `Accept` header, preferred ones first.
///
/// As in kube-apiserver, quotes are part of a value, and elements without a subtype or with two are ignored.
pub(crate) fn ranges(header: &str) -> Vec<MediaRange<'_>> {
    let mut ranges: Vec<MediaRange<'_>> = header
        .split(',')
        .take(MAX_RANGES)
        .filter_map(|element| {
            let mut parts = element.trim_matches(' ').split(';');
            let media_type = parts.next().unwrap_or_default().trim();
            let mut weight = 1.0;
            let mut parameters = Vec::new();
            let named = parts.filter_map(|part| part.split_once('='));
            for (name, value) in named.filter(|(_, value)| !value.is_empty() && !value.contains('=')) {
                if name.trim() == "q" {
                    // A weight that cannot be read is zero. Go's library does not remove spaces around it.
                    weight = value.parse().unwrap_or(0.0);
                } else {
                    parameters.push((name.trim(), value.trim()));
                }
            }
            let is_range = media_type == "*" || media_type.matches('/').count() == 1;
            is_range.then_some(MediaRange { media_type, parameters, weight })
        })
        .collect();
    // An insertion sort as in Go, because the order is not transitive.
    for end in 1..ranges.len() {
        for at in (1..=end).rev() {
            if !ranges[at].passes(&ranges[at - 1]) {
                break;
            }
            ranges.swap(at, at - 1);
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferred_ranges_come_first() {
        for (header, expected) in [
            ("a/a;q=0.1,b/b,c/c;q=0.5,d/d", "b/b,d/d,c/c,a/a"),
            ("a/a;q=nan,b/b,c/c", "a/a,b/b,c/c"),
            ("a/a;q=0.5,b/b;q=nan,c/c", "a/a,b/b,c/c"),
            ("a/a;q=0.1,b/b;q=0.2,c/c;q=nan,d/d;q=0.3,e/e", "b/b,a/a,c/c,e/e,d/d"),
            ("a/a;q=x,b/b;q=0.1", "b/b,a/a"),
            ("a/a;q= 0.5,b/b;q=0.1", "b/b,a/a"),
            ("a/a;q=0.1;q=0.3,b/b;q=0.2 ", "a/a,b/b"),
            ("*/*,a/a;q=0.1", "a/a,*/*"),
            ("a/a;q=0.1,*/*", "*/*,a/a"),
            ("a/*,*/*;q=2,a/b;q=0.1", "a/b,*/*,a/*"),
            ("*,a/a;q=0.1", "a/a,*"),
        ] {
            let found: Vec<&str> = ranges(header).iter().map(|range| range.media_type).collect();
            assert_eq!(found.join(","), expected, "{header}");
        }
    }

    #[test]
    fn kubectl_gets_a_table_and_client_go_gets_protobuf() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(Accept::negotiate(Some(kubectl), Endpoint::Object).unwrap().view, View::Table);
        let client_go = "application/vnd.kubernetes.protobuf,application/json";
        for (endpoint, encoding) in
            [(Endpoint::Object, Encoding::Protobuf), (Endpoint::Custom, Encoding::Json)]
        {
            let accept = Accept::negotiate(Some(client_go), endpoint);
            assert_eq!(accept, Ok(Accept { encoding, ..Accept::JSON }));
        }
        assert_eq!(Accept::negotiate(None, Endpoint::Custom), Ok(Accept::JSON));
    }

    #[test]
    fn custom_metadata_has_protobuf_and_custom_objects_and_tables_have_not() {
        let view = |header| Accept::negotiate(Some(header), Endpoint::Custom);
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        let accept = view(metadata).unwrap();
        assert_eq!((accept.encoding, accept.view), (Encoding::Protobuf, View::Metadata));
        assert_eq!(view("application/vnd.kubernetes.protobuf").unwrap_err().code(), 406);
        let table = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1";
        assert_eq!(view(table).unwrap_err().code(), 406);
    }

    #[test]
    fn errors_are_written_as_whole_objects_are() {
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        assert_eq!(Accept::of_error(Some(metadata)), None);
        let both = format!("{metadata},application/vnd.kubernetes.protobuf");
        assert_eq!(Accept::of_error(Some(&both)), Some(Encoding::Protobuf));
        assert_eq!(Accept::of_error(None), Some(Encoding::Json));
        assert_eq!(Accept::of_error(Some("text/html")), None);
        assert_eq!(Accept::of_error(Some("application/*")), Some(Encoding::Json));
    }

    #[test]
    fn quality_decides_before_order() {
        let accept =
            Accept::negotiate(Some("application/json;q=0.5, application/yaml"), Endpoint::Object).unwrap();
        assert_eq!(accept.encoding, Encoding::Yaml);
    }

    #[test]
    fn unsupported_encodings_and_views_are_406() {
        assert_eq!(Accept::negotiate(Some("text/html"), Endpoint::Object).unwrap_err().code(), 406);
        assert_eq!(Accept::negotiate(Some("application/cbor"), Endpoint::Custom).unwrap_err().code(), 406);
    }

    #[track_caller]
    fn encoding(header: &str, endpoint: Endpoint) -> Option<Encoding> {
        Accept::negotiate(Some(header), endpoint).ok().map(|accept| accept.encoding)
    }

    #[test]
    fn named_types_are_preferred_to_wildcards() {
        for header in [
            "*/*, application/yaml",
            "application/*;q=1,application/yaml",
            "application/json;q=0.1, application/yaml, */*",
        ] {
            assert_eq!(encoding(header, Endpoint::Collection), Some(Encoding::Yaml), "{header}");
        }
        for header in [
            "application/yaml;q=0.5,*/*;q=0.9",
            "application/yaml;q=x, application/json;q=0.1",
            "application/json;q=0.1,application/*;q=0.5,application/yaml;q=0.05",
        ] {
            assert_eq!(encoding(header, Endpoint::Collection), Some(Encoding::Json), "{header}");
        }
    }

    #[test]
    fn the_router_of_builtin_kinds_knows_only_one_wildcard() {
        for header in [
            "application/*",
            "*",
            "APPLICATION/YAML",
            "application/*;as=Table;v=v1;g=meta.k8s.io",
            "application/json/x",
        ] {
            let error = Accept::negotiate(Some(header), Endpoint::Object).unwrap_err();
            let text = error.to_json()["message"].as_str().unwrap_or_default().to_owned();
            assert_eq!(
                text,
                "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
                 application/vnd.kubernetes.protobuf",
                "{header}"
            );
        }
        assert_eq!(encoding("application/*", Endpoint::Custom), Some(Encoding::Json));
        assert_eq!(encoding("*", Endpoint::Groups), Some(Encoding::Json));
        assert!(require_one_of(Some("application/*"), &["application/json"]).is_err());
        assert!(require_one_of(Some("text/html, */*;q=0.1"), &["application/json"]).is_ok());
        assert!(require_one_of(None, &["application/json"]).is_ok());
    }

    #[test]
    fn ranges_with_unknown_demands_are_skipped() {
        for header in [
            "application/json;v=v1",
            "application/json;sv=1",
            "application/yaml;stream=watch",
            "application/json;stream=other",
            "application/json;as=\"Table\";v=v1;g=meta.k8s.io",
        ] {
            assert_eq!(encoding(header, Endpoint::Collection), None, "{header}");
        }
        for header in
            ["application/json;stream=watch", "application/json;stream=", "application/json;foo=bar"]
        {
            assert_eq!(encoding(header, Endpoint::Collection), Some(Encoding::Json), "{header}");
        }
        let twice = "application/json;as=Table;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
        assert_eq!(Accept::negotiate(Some(twice), Endpoint::Object).unwrap().view, View::MetadataList);
    }

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn a_version_of_the_metadata_can_be_requested() {
        let version = "application/json;sv=v1";
        for endpoint in [Endpoint::Collection, Endpoint::Object, Endpoint::Custom] {
            assert_eq!(encoding(version, endpoint), Some(Encoding::Json));
            assert_eq!(encoding("application/json;sv=v1beta1", endpoint), None);
        }
        assert_eq!(encoding(version, Endpoint::Discovery), None);
        assert_eq!(encoding(version, Endpoint::Groups), None);
    }

    #[test]
    fn yaml_has_no_streams() {
        let yaml =
            Accept::negotiate(Some("application/yaml, application/json"), Endpoint::Collection).unwrap();
        assert_eq!(yaml.require_stream().unwrap_err().code(), 406);
        assert_eq!(Accept::JSON.require_stream(), Ok(()));
    }
}
