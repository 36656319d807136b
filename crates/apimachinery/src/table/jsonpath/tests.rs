//! Paths and their values.

use serde_json::json;

use super::*;

/// First value at a path; null if there is none, the text `refused` if the path does not parse.
fn first(path: &str, object: &Value) -> Value {
    match JsonPath::parse(path) {
        Ok(path) => path.first(object).cloned().unwrap_or_default(),
        Err(_) => json!("refused"),
    }
}

/// Recorded from kube-apiserver v1.36.3, as cells of columns of type string.
#[test]
fn paths_have_the_values_and_failures_of_client_go() {
    let object = json!({"spec": {
        "s": "str", "map": {"k.x": "dot", "b": 1, "k": {"x": "kx"}},
        "objs": [
            {"name": "a", "v": 1, "f": 1.5, "b": true, "nul": null, "sub": [{"x": 1}]},
            {"name": "b", "v": 2, "sub": [{"x": 2}]},
            {"name": "a)b", "v": 3},
        ],
        "list": ["x", "y", "z"], "a b": "sp", "nul": null, "obj": {"x": {"y": "<&>"}}, "empty": [], "é": "acc",
    }});
    let refused = json!("refused");
    for (path, expected) in [
        (r".spec.map.k\.x", json!("dot")),
        (".spec.map['k.x']", json!("kx")),
        (r".spec.map['k\.x']", json!("dot")),
        (".spec..name", json!("a")),
        (".spec.objs[0,1].name", json!("a")),
        (".spec.list[0:2]", json!("x")),
        (".spec.objs[?(@.v>1)].name", json!("b")),
        (".spec.a b", json!(null)),
        (".spec.list[-1:]", json!("z")),
        (r#".spec["s"]"#, refused.clone()),
        (".spec.objs[?(@.name)].v", json!(1)),
        (r#".spec.objs[?(@.v==1 && @.name=="a")].v"#, refused.clone()),
        (".spec.s ", json!("str")),
        (".spec.list.x", json!(null)),
        (".spec.map[*]", json!(null)),
        (".spec.list[*]", json!("x")),
        (".spec.objs[?(@.v!=1)].name", json!("b")),
        (".spec.list[:-1]", json!("x")),
        (".spec.list[::2]", json!("x")),
        (".spec.list[3]", json!(null)),
        (".spec.list[-4]", json!(null)),
        (".spec.list[2:9]", json!(null)),
        (".spec.list[2:1]", json!(null)),
        (".spec.list[1:1]", json!(null)),
        (".spec.list[0,5]", json!(null)),
        (".spec.objs[].name", json!("a")),
        (".", json!(null)),
        (r#".spec.objs[?(@.none=="a")].v"#, json!(null)),
        (".spec.objs[?(@.f==1.5)].f", json!(1.5)),
        (".spec.objs[?(@.f==1)].f", json!(null)),
        (".spec.objs[?(@.name!=1)].name", json!(null)),
        (".spec.objs[?(@.v==1.0)].name", json!(null)),
        (".spec.objs[?(1==@.v)].name", json!("a")),
        (".spec.objs[?(@.name==@.name)].name", json!("a")),
        (".spec.objs[?(@.b==true)].name", json!("a")),
        (".spec.objs[?(@.b>false)].name", json!(null)),
        (".spec.objs[?(foo)].name", json!("a")),
        (".spec.objs[?(@.v[5])].name", json!("a")),
        (".spec.objs[?(@.v===1)].name", json!(null)),
        (".spec.objs[?(@.v==)].name", refused.clone()),
        (".spec.objs[?(==1)].name", refused.clone()),
        (".spec.objs[?(@.v<=1)].name", json!("a")),
        (".spec.objs[?( @.name == 'b' )].v", json!(2)),
        (r#".spec.objs[?(@.name=="a)b")].v"#, json!(3)),
        (".spec.objs[?(@.sub[?(@.x==1)])].name", refused.clone()),
        (".spec.list[a]", refused.clone()),
        (".spec.list[ 0 ]", refused.clone()),
        (".spec.list[0, 2]", json!("x")),
        (".spec.list[-]", refused.clone()),
        (".spec.list[1", refused.clone()),
        (".spec['']", json!(null)),
        (".spec['s','f']", json!("str")),
        (".spec['map'].b", json!(1)),
        (".['spec'].s", json!(null)),
        ("..['s']", json!("str")),
        ("..*", refused.clone()),
        ("..s", json!("str")),
        ("....s", refused.clone()),
        (".spec..", object["spec"].clone()),
        (".spec.s.t", json!(null)),
        (".spec.s[0]", json!(null)),
        (".spec.s}", json!("str")),
        (".spec.s}{.spec.map.b", json!("str")),
        (".spec.s}x{.spec.list[9]", json!(null)),
        (".spec.s,x", refused.clone()),
        (".spec.nul.x", json!(null)),
        (".spec.nul[0]", json!(null)),
        (".spec.empty[*]", json!(null)),
        (".spec.objs[?(@.nul==1)].name", json!(null)),
        (".spec.objs[?(@.nul)].name", json!("a")),
        (".spec.list[::0]", json!(null)),
        (".spec.list[0]:", refused.clone()),
        (".spec.(s)", json!(null)),
        (r".spec.x\", refused.clone()),
        (r#".spec.list[?(@=="y")]"#, json!("y")),
        (r#".spec.list[?(@>"x")]"#, json!("y")),
        (".spec.map[?(@.a)]", json!(null)),
        (".spec.é", json!("acc")),
        (".spec.objs[0:2].sub[*].x", json!(1)),
        (".spec.obj['x']['y']", json!("<&>")),
        (".spec.list[?(@.length-1)]", json!(null)),
        (".spec.list[(@.length-1)]", refused),
    ] {
        assert_eq!(first(path, &object), expected, "{path}");
    }
}

#[test]
fn paths_lead_to_the_first_value() {
    let object = json!({
        "metadata": {"labels": {"app": "web", "example.com/app": "api"}},
        "spec": {"size": 3, "list": ["x", "y", "z"]},
        "status": {"conditions": [
            {"type": "Live", "status": "False", "n": 1},
            {"type": "Ready", "status": "True", "n": 2},
        ]},
    });
    for (path, expected) in [
        (".spec.size", json!(3)),
        ("$.spec.size", json!(3)),
        (r".metadata.labels.example\.com/app", json!("api")),
        (r".metadata.labels['example\.com/app']", json!("api")),
        (".spec.list[0]", json!("x")),
        (".spec.list[-1]", json!("z")),
        (".spec.list[-2]", json!("y")),
        (".spec.list[1:]", json!("y")),
        (".spec.list", json!(["x", "y", "z"])),
        (r#".status.conditions[?(@.type=="Ready")].status"#, json!("True")),
        (".status.conditions[?(@.n>1)].type", json!("Ready")),
        (".status.conditions[?(@.type!='Live')].n", json!(2)),
        ("..status", json!({"conditions": object["status"]["conditions"]})),
        ("..type", json!("Live")),
        (".spec.*", json!(["x", "y", "z"])),
    ] {
        assert_eq!(first(path, &object), expected, "{path}");
    }
}

#[test]
fn paths_beyond_the_bounds_are_refused() {
    // These paths are as long as a request body allows.
    for text in [
        format!(".a{}", "[?(@.a)]".repeat(100_000)),
        format!(".a{}", "[?(@.a".repeat(100_000)),
        ".a".repeat(100_000),
    ] {
        let error = JsonPath::parse(&text).unwrap_err();
        assert!(error.contains("bytes are more than the 4096"), "{error}");
    }
}

#[test]
fn an_evaluation_ends_after_its_visits() {
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!({"a": deep});
    }
    let wide = json!({"list": vec![json!({"a": [1, 2, 3]}); 50_000]});
    for (path, object) in [
        ("..a".repeat(60) + ".none", &deep),
        (".list[*].none".to_owned(), &wide),
        (format!(".list[{}].none", "0,".repeat(2000) + "0"), &wide),
        (".list[?(@..b==1)].none".to_owned(), &wide),
        (".list[?('x'=='y')].none".to_owned(), &wide),
    ] {
        let path = JsonPath::parse(&path).unwrap();
        assert_eq!(path.first(object), None);
    }
    assert_eq!(first(".list[-1].a[2]", &wide), json!(3), "what leads straight there is not far");
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(path in "[\\[\\].*?()@$'\"\\\\:,=<>!{}a-z0-9é -]{0,30}") {
        let value = json!({"a": [{"b": 1}, [2]], "é": {"c": "d"}});
        if let Ok(path) = JsonPath::parse(&path) {
            let _ = path.first(&value);
        }
    }
}
