//! Routing of URL paths.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// Target of a request, determined by its path alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/api/v1/…` or `/apis/<group>/<version>/…`.
    Resource(ResourcePath),
    /// `/api`.
    CoreVersions,
    /// `/apis`.
    Groups,
    /// `/apis/<group>`.
    Group(String),
    /// `/api/<version>` (the group is empty) or `/apis/<group>/<version>`.
    GroupVersion { group: String, version: String },
    /// `/openapi/v3` (empty), or the document named by the rest of the path, such as `apis/apps/v1`.
    OpenApi(String),
    /// `/openapi/v2`.
    OpenApiV2,
    /// `/version`.
    Version,
    /// `/metrics`.
    Metrics,
    /// `/.well-known/openid-configuration`.
    IssuerConfiguration,
    /// `/openid/v1/jwks`.
    IssuerKeys,
    /// `/healthz`, `/livez` or `/readyz`, and the name of a single check.
    Health { endpoint: String, check: Option<String> },
    /// A malformed path below `/api` or `/apis`, such as `/apis/<group>/<version>//x`.
    Malformed { group: String, version: String },
    /// A path that ends where a resource is expected, such as `/api/v1/watch`.
    NoResource,
    /// `/`.
    Root,
    /// Any other path.
    Unknown,
}

/// Path of a collection, an object or a subresource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    /// Namespace; empty for cluster-scoped objects and for requests across namespaces.
    pub(crate) namespace: String,
    pub(crate) plural: String,
    /// Name; empty for the collection.
    pub(crate) name: String,
    /// Subresource; empty for the object itself.
    pub(crate) subresource: String,
    /// Path below the subresource with its first slash, such as `/a/b` of `proxy/a/b`; else empty.
    pub(crate) below: String,
    /// Whether the path has the deprecated `/apis/<group>/<version>/watch/…` form.
    pub(crate) watch_prefix: bool,
}

impl Route {
    /// Parses a path as it is in the request line, percent-encoded.
    pub(crate) fn parse(path: &str) -> Self {
        let relative = path.strip_prefix('/').unwrap_or(path);
        let trimmed = relative.trim_end_matches('/');
        let end = if trimmed.len() < relative.len() { "/" } else { "" };
        if relative.is_empty() {
            return Self::Root;
        }
        let segments: Vec<Cow<'_, str>> = trimmed
            .split('/')
            // Segments are decoded after the split, so that `%2F` does not separate segments.
            .map(|segment| percent_decode_str(segment).decode_utf8_lossy())
            .collect();
        let segments: Vec<&str> = segments.iter().map(|segment| &**segment).collect();
        match segments.as_slice() {
            ["api"] => Self::CoreVersions,
            ["apis"] => Self::Groups,
            // An empty segment does not stand for the core group, which has no path below `/apis`.
            ["apis", "", ..] => Self::Unknown,
            ["api", version] => Self::GroupVersion { group: String::new(), version: (*version).to_owned() },
            ["apis", group] => Self::Group((*group).to_owned()),
            ["apis", group, version] => {
                Self::GroupVersion { group: (*group).to_owned(), version: (*version).to_owned() }
            }
            ["api", version, rest @ ..] => Self::resource("", version, rest, end),
            ["apis", group, version, rest @ ..] => Self::resource(group, version, rest, end),
            ["openapi", "v2"] if end.is_empty() => Self::OpenApiV2,
            // The slash at the end belongs to the name of a document, so that none is found.
            ["openapi", "v3", rest @ ..] => Self::OpenApi(rest.join("/") + end),
            ["index.html"] => Self::Root,
            ["version"] => Self::Version,
            // Paths below `/version` get the 404 of the core group.
            ["version", ..] => Self::Malformed { group: String::new(), version: String::new() },
            ["metrics"] if end.is_empty() => Self::Metrics,
            [".well-known", "openid-configuration"] => Self::IssuerConfiguration,
            ["openid", "v1", "jwks"] => Self::IssuerKeys,
            [endpoint @ ("healthz" | "livez" | "readyz"), rest @ ..] if end.is_empty() => Self::Health {
                endpoint: (*endpoint).to_owned(),
                check: (!rest.is_empty()).then(|| rest.join("/")),
            },
            _ => Self::Unknown,
        }
    }

    /// Parses the path below the version. `end` is the slash at its end, or empty.
    fn resource(group: &str, version: &str, rest: &[&str], end: &str) -> Self {
        if let ["watch" | "proxy"] = rest {
            return Self::NoResource;
        }
        let malformed = || Self::Malformed { group: group.to_owned(), version: version.to_owned() };
        let is_malformed = |segment: &&str| segment.is_empty() || segment.contains('/');
        let (watch_prefix, rest) = match rest {
            ["watch", rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        // `namespaces/x/y…` means y in namespace x, except for the subresources of namespaces.
        let (namespace, plural, names) = match rest {
            ["namespaces", name, sub @ ("status" | "finalize")]
                if group.is_empty() && !is_malformed(name) =>
            {
                return Self::Resource(ResourcePath {
                    group: group.to_owned(),
                    version: version.to_owned(),
                    plural: "namespaces".to_owned(),
                    name: (*name).to_owned(),
                    subresource: (*sub).to_owned(),
                    watch_prefix,
                    ..ResourcePath::default()
                });
            }
            ["namespaces", namespace, plural, rest @ ..] => (*namespace, *plural, rest),
            // Only the core group has Namespaces; in other groups the plural is missing.
            ["namespaces", ..] if !group.is_empty() => return malformed(),
            [plural, rest @ ..] => ("", *plural, rest),
            [] => return malformed(),
        };
        let (name, subresource, below) = match names {
            [] => ("", "", &[][..]),
            [name] => (*name, "", &[][..]),
            [name, subresource, below @ ..] => (*name, *subresource, below),
        };
        // The router accepts an empty namespace, which stands for all.
        let rest = match rest {
            ["namespaces", "", plural, after @ ..] if !plural.is_empty() && after.is_empty() => &rest[2..],
            _ => rest,
        };
        // Below `proxy`, any path is allowed.
        let checked = if subresource == "proxy" { rest.len() - below.len() } else { rest.len() };
        if rest.iter().take(checked).any(is_malformed) {
            return malformed();
        }
        let mut below: String = below.join("/");
        if !below.is_empty() && !below.starts_with('/') {
            below.insert(0, '/');
        }
        if subresource == "proxy" && !below.ends_with('/') {
            below.push_str(end);
        }
        Self::Resource(ResourcePath {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.to_owned(),
            plural: plural.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
            below,
            watch_prefix,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    #[expect(clippy::needless_pass_by_value, reason = "`expect!` returns values")]
    fn check(path: &str, expected: Expect) {
        let text = match Route::parse(path) {
            Route::Resource(p) => format!(
                "group={} version={} ns={} plural={} name={} sub={}{}{}",
                p.group,
                p.version,
                p.namespace,
                p.plural,
                p.name,
                p.subresource,
                p.below,
                if p.watch_prefix { " watch" } else { "" }
            ),
            other => format!("{other:?}"),
        };
        expected.assert_eq(&text);
    }

    #[test]
    fn resources_are_found_in_and_outside_of_namespaces() {
        check("/api/v1/pods", expect!["group= version=v1 ns= plural=pods name= sub="]);
        check(
            "/apis/apps/v1/namespaces/a/deployments/web/scale",
            expect!["group=apps version=v1 ns=a plural=deployments name=web sub=scale"],
        );
        check("/api/v1/namespaces/a", expect!["group= version=v1 ns= plural=namespaces name=a sub="]);
        check(
            "/api/v1/namespaces/a/finalize",
            expect!["group= version=v1 ns= plural=namespaces name=a sub=finalize"],
        );
        check(
            "/api/v1/watch/namespaces/a/pods/%61",
            expect!["group= version=v1 ns=a plural=pods name=a sub= watch"],
        );
    }

    #[test]
    fn any_path_is_below_proxy() {
        let proxy = "/api/v1/namespaces/a/pods/b/proxy";
        check(proxy, expect!["group= version=v1 ns=a plural=pods name=b sub=proxy"]);
        check(&format!("{proxy}/"), expect!["group= version=v1 ns=a plural=pods name=b sub=proxy/"]);
        check(
            &format!("{proxy}/c//d%2fe/"),
            expect!["group= version=v1 ns=a plural=pods name=b sub=proxy/c//d/e/"],
        );
        check("/api/v1/nodes/n/proxy//c", expect!["group= version=v1 ns= plural=nodes name=n sub=proxy/c"]);
        check("/api/v1/nodes/n/status/c", expect!["group= version=v1 ns= plural=nodes name=n sub=status/c"]);
        check("/api/v1/nodes//proxy/c", expect![[r#"Malformed { group: "", version: "v1" }"#]]);
    }

    #[test]
    fn malformed_and_unknown_paths_are_distinguished() {
        check("/api/v1/namespaces//pods", expect!["group= version=v1 ns= plural=pods name= sub="]);
        check("/api/v1/namespaces//pods/a", expect![[r#"Malformed { group: "", version: "v1" }"#]]);
        check("/apis/g/v1//things", expect![[r#"Malformed { group: "g", version: "v1" }"#]]);
        check("/apis/g/v1/namespaces/x", expect![[r#"Malformed { group: "g", version: "v1" }"#]]);
        check("/apis/g/v1/a%2fb", expect![[r#"Malformed { group: "g", version: "v1" }"#]]);
        check("/apis/g/", expect![[r#"Group("g")"#]]);
        check("/metrics/slis", expect!["Unknown"]);
        check("//", expect!["Unknown"]);
        check("/", expect!["Root"]);
        check("/index.html", expect!["Root"]);
        for path in ["/healthz/", "/livez/ping/", "/metrics/", "/openapi/v2/"] {
            check(path, expect!["Unknown"]);
        }
        check("/openapi/v3", expect![[r#"OpenApi("")"#]]);
        check("/openapi/v3/", expect![[r#"OpenApi("/")"#]]);
        check("/version/", expect!["Version"]);
        check("/api/v1/watch", expect!["NoResource"]);
        check("/apis/apps/v1/proxy/", expect!["NoResource"]);
        check("/version/x", expect![[r#"Malformed { group: "", version: "" }"#]]);
        check("/apis//v1", expect!["Unknown"]);
        check("/api/v1//", expect![[r#"GroupVersion { group: "", version: "v1" }"#]]);
        check("/api/v1/pods//", expect!["group= version=v1 ns= plural=pods name= sub="]);
    }
}
