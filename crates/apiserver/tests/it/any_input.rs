//! Robustness against arbitrary input: each request gets a response, errors are the client's, and objects survive being read
//! and written back.
//!
//! The properties are in `fuzz/src`, which cargo-fuzz uses too. `INPUTS=1000000 cargo test --release --test it any_input` (`just
//! any-input 1000000`) tries more than the few inputs of an ordinary run. A million inputs take between one and two minutes
//! of CPU for selectors, two for protobuf, four for bodies, seven for paths and fifteen for patches. Name one of them after
//! `--` to run it alone.

#[path = "../../fuzz/src/lib.rs"]
#[expect(unreachable_pub, reason = "elsewhere it is a library")]
mod fuzz;

use fuzz::with_target;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::RngSeed;

/// Names and values with a meaning for the server, and some without.
const WORDS: [&str; 52] = [
    "a",
    "b",
    "",
    "k",
    "n",
    "app",
    "apiVersion",
    "kind",
    "metadata",
    "name",
    "namespace",
    "generateName",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "managedFields",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "data",
    "binaryData",
    "immutable",
    "spec",
    "status",
    "selector",
    "template",
    "containers",
    "env",
    "ports",
    "list",
    "matchLabels",
    "replicas",
    "$patch",
    "$retainKeys",
    "$setElementOrder/list",
    "$deleteFromPrimitiveList/finalizers",
    "v1",
    "ConfigMap",
    "apps/v1",
    "Deployment",
    "example.com/v1",
    "Thing",
    "default",
    "replace",
    "delete",
    "orphan",
    "1",
    "kubernetes.io/x",
    "é\u{0}\u{fffd}",
];

/// Uses equal inputs in every ordinary run, and random ones with `INPUTS`.
fn config() -> ProptestConfig {
    let inputs: Option<u32> = std::env::var("INPUTS").ok().and_then(|inputs| inputs.parse().ok());
    ProptestConfig {
        failure_persistence: None,
        rng_seed: if inputs.is_some() { RngSeed::Random } else { RngSeed::Fixed(5) },
        ..ProptestConfig::with_cases(inputs.unwrap_or(48))
    }
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![4 => select(&WORDS[..]).prop_map(str::to_owned), 1 => any::<String>()]
}

fn scalar() -> impl Strategy<Value = String> {
    let text = word().prop_map(|text| serde_json::Value::from(text).to_string());
    let odd = vec![
        "null",
        "true",
        "0",
        "-1",
        "1.0",
        "1e5",
        "9223372036854775807",
        "1e400",
        "-0",
        "\"2024-01-01T00:00:00Z\"",
    ];
    prop_oneof![3 => text, 1 => select(odd).prop_map(str::to_owned)]
}

/// Generates JSON, with repeated names because text is concatenated.
fn document() -> impl Strategy<Value = String> {
    scalar().prop_recursive(6, 40, 6, |inner| {
        let field = (word(), inner.clone())
            .prop_map(|(name, value)| format!("{}:{value}", serde_json::Value::from(name)));
        prop_oneof![
            3 => prop::collection::vec(field, 0..6).prop_map(|fields| format!("{{{}}}", fields.join(","))),
            1 => prop::collection::vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(","))),
        ]
    })
}

/// Generates almost valid objects, which get past the parser.
fn object() -> impl Strategy<Value = String> {
    let kind = select(vec![
        "",
        r#""apiVersion":"v1","kind":"ConfigMap","#,
        r#""apiVersion":"apps/v1","kind":"Deployment","#,
        r#""apiVersion":"example.com/v1","kind":"Thing","#,
    ]);
    let field =
        (word(), document()).prop_map(|(name, value)| format!(",{}:{value}", serde_json::Value::from(name)));
    let fields = prop::collection::vec(field, 0..4).prop_map(|fields| fields.concat()).boxed();
    let data = prop_oneof![
        Just(String::new()),
        document().prop_map(|data| format!(r#","data":{data}"#)),
        document().prop_map(|spec| format!(r#","spec":{spec}"#)),
        document().prop_map(|spec| format!(
            r#","spec":{{"selector":{{"matchLabels":{{"a":"b"}}}},"template":{{"metadata":{{"labels":{{"a":"b"}}}},"spec":{spec}}}}}"#
        )),
        document().prop_map(|field| format!(
            r#","spec":{{"selector":{{"matchLabels":{{"a":"b"}}}},"template":{{"metadata":{{"labels":{{"a":"b"}}}},"spec":{{"containers":[{{"name":"c","image":"i","x":{field},"env":{field}}}]}}}}}}"#
        )),
    ];
    (kind, fields.clone(), data, fields).prop_map(|(kind, metadata, data, other)| {
        format!(r#"{{{kind}"metadata":{{"name":"x"{metadata}}}{data}{other}}}"#)
    })
}

/// Changes, duplicates or removes a few bytes.
fn bent(bytes: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let bend = (any::<Index>(), any::<Index>(), any::<u8>(), 0..4u8);
    (bytes, prop::collection::vec(bend, 0..4)).prop_map(|(mut bytes, bends)| {
        for (from, to, byte, how) in bends {
            if bytes.is_empty() {
                break;
            }
            let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
            let (from, to) = (from.min(to), from.max(to));
            match how {
                0 => bytes[from] = byte,
                1 => bytes.insert(from, byte),
                2 => drop(bytes.drain(from..to)),
                _ => bytes.extend_from_within(from..to),
            }
        }
        bytes
    })
}

/// Generates protobuf messages: fields within fields.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        word().prop_map(String::into_bytes),
        any::<u64>().prop_map(|number| number.to_le_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..6),
    ];
    leaf.prop_recursive(5, 30, 5, |inner| {
        prop::collection::vec((1..16u8, 0..6u8, inner), 0..5).prop_map(|fields| {
            let mut bytes = Vec::new();
            for (number, wire_type, value) in fields {
                let is_bytes = wire_type != 0 && wire_type != 1 && wire_type != 5;
                bytes.push(number << 3 | if is_bytes { 2 } else { wire_type });
                if is_bytes {
                    bytes.push(u8::try_from(value.len().min(127)).unwrap_or(0));
                }
                bytes.extend(value);
            }
            bytes
        })
    })
}

/// Generates the protobuf envelope of an object with an arbitrary message.
fn wrapped() -> impl Strategy<Value = Vec<u8>> {
    let kind = select(vec![("v1", "ConfigMap"), ("apps/v1", "Deployment"), ("v1", "Nope")]);
    (kind, message()).prop_map(|((version, kind), raw)| {
        let part = |number: u8, bytes: &[u8]| {
            let mut part = vec![number << 3 | 2];
            let mut length = bytes.len();
            while length >= 0x80 {
                part.push(u8::try_from(length & 0x7f).unwrap_or(0) | 0x80);
                length >>= 7;
            }
            part.push(u8::try_from(length).unwrap_or(0));
            part.extend(bytes);
            part
        };
        let kind = [part(1, version.as_bytes()), part(2, kind.as_bytes())].concat();
        // Add a name, so that the message may be a valid object.
        let named = [part(1, &part(1, b"x")), raw].concat();
        [part(1, &kind), part(2, &named)].concat()
    })
}

fn operation() -> impl Strategy<Value = String> {
    let pointer = prop::collection::vec(word(), 0..5)
        .prop_map(|parts| {
            let parts: Vec<String> =
                parts.iter().map(|part| part.replace('~', "~0").replace('/', "~1")).collect();
            serde_json::Value::from(format!("/{}", parts.join("/"))).to_string()
        })
        .boxed();
    let op = select(vec!["add", "remove", "replace", "move", "copy", "test", "nope"]);
    (op, pointer.clone(), pointer, document()).prop_map(|(op, path, from, value)| {
        format!(r#"{{"op":"{op}","path":{path},"from":{from},"value":{value}}}"#)
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn bodies(data in prop_oneof![
        bent(object().prop_map(String::into_bytes)),
        bent(document().prop_map(String::into_bytes)),
        "[-a-z0-9:&*!|>'\"\\[\\]{},# \n\t%@`~?]{0,60}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..80),
    ]) {
        with_target(|target| target.body(&data));
    }

    #[test]
    fn protobuf(data in prop_oneof![bent(wrapped()), bent(message()), prop::collection::vec(any::<u8>(), 0..80)]) {
        with_target(|target| target.protobuf(&data));
    }

    #[test]
    fn selectors(text in prop_oneof!["[a-z./=!<>(), \\\\-]{0,30}", "(in|notin|[a-z]|[ ,()=!])*", any::<String>()]) {
        with_target(|target| target.selector(&text));
    }

    #[test]
    fn patches(data in prop_oneof![
        bent(document().prop_map(String::into_bytes)),
        bent(object().prop_map(String::into_bytes)),
        bent(prop::collection::vec(operation(), 0..5).prop_map(|list| format!("[{}]", list.join(",")).into_bytes())),
    ]) {
        with_target(|target| target.patch(&data));
    }

    #[test]
    fn definitions(text in prop_oneof![
        r"[\\\[\]{}()^$a-c&~:,0-9dpPL.*+?|@'=!<>-]{0,60}",
        any::<String>(),
        // Repeated, as long as a body may be.
        (
            select(vec![
                "[?(@.a", "[?(@..a)]", "..a", "..*", "[*]", "[0,1]", "(", "(a", "(a{30})", r"\pL{50}", r"(\pL{50}){20}|", "[a-z]*", "a|",
                "é|{2}", "[", "\\", "a{1000}", ".*", "(a*)*",
            ]),
            prop_oneof![1usize..40, 1000usize..20_000],
        ).prop_map(|(piece, times)| piece.repeat(times)),
    ]) {
        with_target(|target| target.definition(&text));
    }

    #[test]
    fn bulk(
        name in prop_oneof![word(), ("[a-z.]", 1000usize..4000).prop_map(|(piece, times)| piece.repeat(times))],
        piece in prop_oneof![
            scalar(),
            document(),
            select(vec![
                "1", "{}", "[]", "null", "\"\"", "\"A B\"", r#"{"type":"bogus"}"#, r#"{"type":"string","default":1}"#,
                r#"{"k":"a"}"#, r#"{"k":1,"x":2}"#, r#"{"name":"","type":"x"}"#, r#"{"uid":"u","controller":true}"#,
                r#"{"anyOf":[{"type":"a"},{"properties":{"x":{}}}]}"#,
            ]).prop_map(str::to_owned),
        ],
    ) {
        with_target(|target| target.bulk(&name, &piece));
    }

    #[test]
    fn paths(
        segments in prop::collection::vec(prop_oneof![
            3 => select(vec![
                "api", "apis", "v1", "apps", "namespaces", "default", "configmaps", "deployments", "status", "scale", "watch",
                "openapi", "v3", "a", "..", ".", "%2f", "%00", "%", "",
            ]).prop_map(str::to_owned),
            1 => "[!-~]{0,12}",
        ], 0..8),
        parameters in prop::collection::vec((select(vec![
            "limit", "continue", "resourceVersion", "resourceVersionMatch", "watch", "timeoutSeconds", "labelSelector",
            "fieldSelector", "sendInitialEvents", "allowWatchBookmarks", "includeObject", "pretty", "dryRun", "fieldManager",
            "fieldValidation", "gracePeriodSeconds", "propagationPolicy", "force", "x",
        ]), prop_oneof![
            select(vec!["1", "0", "-1", "true", "All", "Exact", "NotOlderThan", "Strict", "99999999999999999999", "", "e30"])
                .prop_map(str::to_owned),
            "[!-~]{0,16}",
        ]), 0..5),
    ) {
        let query: Vec<String> = parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let query = query.join("&");
        with_target(|target| target.path(&format!("{}?{query}", segments.join("/"))));
        with_target(|target| target.path(&query));
    }
}
