//! Types of all functions and operators: one table, as cel-go and kube-apiserver declare them.

/// Function that only expressions of mutations have, so it is not in the table.
pub(super) const ESCAPE_KEY: &str = "jsonpatch.escapeKey";

/// Functions and their overloads. `A`, `B` and `C` stand for any type, which is the same at each place of an overload. `#` stands for each type
/// with an order, and `%` for each type of numbers. A type before `.(` is that of the target.
pub(super) const FUNCTIONS: &[(&str, &[&str])] = &[
    // Operators.
    ("_?_:_", &["(bool, A, A) -> A"]),
    ("_==_", &["(A, A) -> bool"]),
    ("_!=_", &["(A, A) -> bool"]),
    ("_<_", ORDER),
    ("_<=_", ORDER),
    ("_>_", ORDER),
    ("_>=_", ORDER),
    ("@in", &["(A, list(A)) -> bool", "(A, map(A, B)) -> bool"]),
    (
        "_+_",
        &[
            "(%, %) -> %",
            "(string, string) -> string",
            "(bytes, bytes) -> bytes",
            "(list(A), list(A)) -> list(A)",
            "(duration, duration) -> duration",
            "(duration, timestamp) -> timestamp",
            "(timestamp, duration) -> timestamp",
        ],
    ),
    (
        "_-_",
        &[
            "(%, %) -> %",
            "(duration, duration) -> duration",
            "(timestamp, duration) -> timestamp",
            "(timestamp, timestamp) -> duration",
        ],
    ),
    ("_*_", &["(%, %) -> %"]),
    ("_/_", &["(%, %) -> %"]),
    ("_%_", &["(int, int) -> int", "(uint, uint) -> uint"]),
    ("!_", &["(bool) -> bool"]),
    ("-_", &["(int) -> int", "(double) -> double"]),
    (
        "_[_]",
        &[
            "(list(A), int) -> A",
            "(map(A, B), A) -> B",
            "(optional_type(list(A)), int) -> optional_type(A)",
            "(optional_type(map(A, B)), A) -> optional_type(B)",
        ],
    ),
    (
        "_[?_]",
        &[
            "(list(A), int) -> optional_type(A)",
            "(map(A, B), A) -> optional_type(B)",
            "(optional_type(list(A)), int) -> optional_type(A)",
            "(optional_type(map(A, B)), A) -> optional_type(B)",
        ],
    ),
    // Conversions.
    ("bool", &["(bool) -> bool", "(string) -> bool"]),
    ("bytes", &["(bytes) -> bytes", "(string) -> bytes"]),
    ("double", &["(%) -> double", "(string) -> double"]),
    ("duration", &["(duration) -> duration", "(string) -> duration"]),
    ("dyn", &["(A) -> dyn"]),
    ("int", &["(%) -> int", "(string) -> int", "(duration) -> int", "(timestamp) -> int"]),
    ("string", &["(#) -> string", "(net.IP) -> string", "(net.CIDR) -> string"]),
    ("timestamp", &["(timestamp) -> timestamp", "(int) -> timestamp", "(string) -> timestamp"]),
    ("type", &["(A) -> type"]),
    ("uint", &["(%) -> uint", "(string) -> uint"]),
    // Texts.
    ("charAt", &["string.(int) -> string"]),
    ("contains", CONTAINS),
    ("containsCIDR", &["net.CIDR.(string) -> bool", "net.CIDR.(net.CIDR) -> bool"]),
    ("containsIP", &["net.CIDR.(string) -> bool", "net.CIDR.(net.IP) -> bool"]),
    ("endsWith", CONTAINS),
    ("find", &["string.(string) -> string"]),
    ("findAll", &["string.(string) -> list(string)", "string.(string, int) -> list(string)"]),
    ("format", &["string.(list(dyn)) -> string"]),
    ("indexOf", INDEX),
    ("join", &["list(string).() -> string", "list(string).(string) -> string"]),
    ("lastIndexOf", INDEX),
    ("lowerAscii", &["string.() -> string"]),
    ("matches", &["(string, string) -> bool", "string.(string) -> bool"]),
    ("replace", &["string.(string, string) -> string", "string.(string, string, int) -> string"]),
    ("split", &["string.(string) -> list(string)", "string.(string, int) -> list(string)"]),
    ("startsWith", CONTAINS),
    ("strings.quote", &["(string) -> string"]),
    ("substring", &["string.(int) -> string", "string.(int, int) -> string"]),
    ("trim", &["string.() -> string"]),
    ("upperAscii", &["string.() -> string"]),
    // Lists, maps and sets.
    ("distinct", &["list(A).() -> list(A)"]),
    ("first", &["list(A).() -> optional_type(A)"]),
    ("flatten", &["list(list(A)).() -> list(A)", "list(dyn).(int) -> list(dyn)"]),
    ("isSorted", &["list(#).() -> bool"]),
    ("last", &["list(A).() -> optional_type(A)"]),
    ("lists.range", &["(int) -> list(int)"]),
    ("max", &["list(#).() -> #"]),
    ("min", &["list(#).() -> #"]),
    // For lists only: kube-apiserver leaves out the overload for texts.
    ("reverse", &["list(A).() -> list(A)"]),
    ("sets.contains", SETS),
    ("sets.equivalent", SETS),
    ("sets.intersects", SETS),
    (
        "size",
        &[
            "(string) -> int",
            "(bytes) -> int",
            "(list(A)) -> int",
            "(map(A, B)) -> int",
            "string.() -> int",
            "bytes.() -> int",
            "list(A).() -> int",
            "map(A, B).() -> int",
        ],
    ),
    ("slice", &["list(A).(int, int) -> list(A)"]),
    ("sort", &["list(#).() -> list(#)"]),
    // The macro `sortBy` calls it.
    ("@sortByAssociatedKeys", &["list(A).(list(#)) -> list(A)"]),
    ("sum", &["list(%).() -> %", "list(duration).() -> duration"]),
    // Optional values.
    ("hasValue", &["optional_type(A).() -> bool"]),
    ("optional.none", &["() -> optional_type(A)"]),
    ("optional.of", &["(A) -> optional_type(A)"]),
    ("optional.ofNonZeroValue", &["(A) -> optional_type(A)"]),
    ("optional.unwrap", &["(list(optional_type(A))) -> list(A)"]),
    ("or", &["optional_type(A).(optional_type(A)) -> optional_type(A)"]),
    ("orValue", &["optional_type(A).(A) -> A"]),
    ("unwrapOpt", &["list(optional_type(A)).() -> list(A)"]),
    ("value", &["optional_type(A).() -> A"]),
    // Times.
    ("getDate", OF_TIME),
    ("getDayOfMonth", OF_TIME),
    ("getDayOfWeek", OF_TIME),
    ("getDayOfYear", OF_TIME),
    ("getFullYear", OF_TIME),
    ("getHours", OF_TIME_OR_DURATION),
    ("getMilliseconds", OF_TIME_OR_DURATION),
    ("getMinutes", OF_TIME_OR_DURATION),
    ("getMonth", OF_TIME),
    ("getSeconds", OF_TIME_OR_DURATION),
    // Quantities and versions.
    ("add", QUANTITY_SUM),
    ("asApproximateFloat", &["kubernetes.Quantity.() -> double"]),
    ("asInteger", &["kubernetes.Quantity.() -> int"]),
    (
        "compareTo",
        &["kubernetes.Quantity.(kubernetes.Quantity) -> int", "kubernetes.Semver.(kubernetes.Semver) -> int"],
    ),
    ("isGreaterThan", COMPARED),
    ("isInteger", &["kubernetes.Quantity.() -> bool"]),
    ("isLessThan", COMPARED),
    ("isQuantity", &["(string) -> bool"]),
    ("isSemver", &["(string) -> bool", "(string, bool) -> bool"]),
    ("major", &["kubernetes.Semver.() -> int"]),
    ("minor", &["kubernetes.Semver.() -> int"]),
    ("patch", &["kubernetes.Semver.() -> int"]),
    ("quantity", &["(string) -> kubernetes.Quantity"]),
    ("semver", &["(string) -> kubernetes.Semver", "(string, bool) -> kubernetes.Semver"]),
    ("sign", &["(kubernetes.Quantity) -> int"]),
    ("sub", QUANTITY_SUM),
    // Addresses and URLs.
    ("cidr", &["(string) -> net.CIDR"]),
    ("family", &["net.IP.() -> int"]),
    ("getEscapedPath", OF_URL),
    ("getHost", OF_URL),
    ("getHostname", OF_URL),
    ("getPort", OF_URL),
    ("getQuery", &["kubernetes.URL.() -> map(string, list(string))"]),
    ("getScheme", OF_URL),
    ("ip", &["(string) -> net.IP", "net.CIDR.() -> net.IP"]),
    ("ip.isCanonical", &["(string) -> bool"]),
    ("isCIDR", &["(string) -> bool"]),
    ("isGlobalUnicast", OF_IP),
    ("isIP", &["(string) -> bool"]),
    ("isLinkLocalMulticast", OF_IP),
    ("isLinkLocalUnicast", OF_IP),
    ("isLoopback", OF_IP),
    ("isURL", &["(string) -> bool"]),
    ("isUnspecified", OF_IP),
    ("masked", &["net.CIDR.() -> net.CIDR"]),
    ("prefixLength", &["net.CIDR.() -> int"]),
    ("url", &["(string) -> kubernetes.URL"]),
    // Formats.
    ("format.byte", FORMAT),
    ("format.date", FORMAT),
    ("format.datetime", FORMAT),
    ("format.dns1035Label", FORMAT),
    ("format.dns1035LabelPrefix", FORMAT),
    ("format.dns1123Label", FORMAT),
    ("format.dns1123LabelPrefix", FORMAT),
    ("format.dns1123Subdomain", FORMAT),
    ("format.dns1123SubdomainPrefix", FORMAT),
    ("format.labelValue", FORMAT),
    ("format.named", &["(string) -> optional_type(kubernetes.NamedFormat)"]),
    ("format.qualifiedName", FORMAT),
    ("format.uri", FORMAT),
    ("format.uuid", FORMAT),
    ("validate", &["kubernetes.NamedFormat.(string) -> optional_type(list(string))"]),
    // The authorizer.
    ("allowed", &["kubernetes.authorization.Decision.() -> bool"]),
    (
        "check",
        &[
            "kubernetes.authorization.PathCheck.(string) -> kubernetes.authorization.Decision",
            "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.Decision",
        ],
    ),
    ("error", &["kubernetes.authorization.Decision.() -> string"]),
    ("errored", &["kubernetes.authorization.Decision.() -> bool"]),
    ("fieldSelector", OF_RESOURCE),
    ("group", &["kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.GroupCheck"]),
    ("labelSelector", OF_RESOURCE),
    ("name", OF_RESOURCE),
    ("namespace", OF_RESOURCE),
    ("path", &["kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.PathCheck"]),
    ("reason", &["kubernetes.authorization.Decision.() -> string"]),
    ("resource", &["kubernetes.authorization.GroupCheck.(string) -> kubernetes.authorization.ResourceCheck"]),
    (
        "serviceAccount",
        &["kubernetes.authorization.Authorizer.(string, string) -> kubernetes.authorization.Authorizer"],
    ),
    ("subresource", OF_RESOURCE),
];
const ORDER: &[&str] = &[
    "(#, #) -> bool",
    "(int, uint) -> bool",
    "(int, double) -> bool",
    "(uint, int) -> bool",
    "(uint, double) -> bool",
    "(double, int) -> bool",
    "(double, uint) -> bool",
];
const CONTAINS: &[&str] = &["string.(string) -> bool"];
const INDEX: &[&str] = &["string.(string) -> int", "string.(string, int) -> int", "list(A).(A) -> int"];
const SETS: &[&str] = &["(list(A), list(A)) -> bool"];
const OF_TIME: &[&str] = &["timestamp.() -> int", "timestamp.(string) -> int"];
const OF_TIME_OR_DURATION: &[&str] =
    &["timestamp.() -> int", "timestamp.(string) -> int", "duration.() -> int"];
const QUANTITY_SUM: &[&str] = &[
    "kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity",
    "kubernetes.Quantity.(int) -> kubernetes.Quantity",
];
const COMPARED: &[&str] =
    &["kubernetes.Quantity.(kubernetes.Quantity) -> bool", "kubernetes.Semver.(kubernetes.Semver) -> bool"];
const OF_URL: &[&str] = &["kubernetes.URL.() -> string"];
const OF_IP: &[&str] = &["net.IP.() -> bool"];
const FORMAT: &[&str] = &["() -> kubernetes.NamedFormat"];
const OF_RESOURCE: &[&str] =
    &["kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck"];
/// Types with an order.
pub(super) const ORDERED: &[&str] =
    &["bool", "int", "uint", "double", "string", "bytes", "duration", "timestamp"];
/// Types of numbers.
pub(super) const NUMBERS: &[&str] = &["int", "uint", "double"];
