use expect_test::{Expect, expect};

use super::*;

/// Objects, one per line: `plural namespace/name uid`, and optionally the time of deletion.
struct Cluster(&'static str);

impl ObjectLookup for Cluster {
    fn find(&self, plural: &str, namespace: &str, name: &str) -> Option<Found> {
        self.0.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next()? == plural && words.next()? == format!("{namespace}/{name}")).then_some(())?;
            let uid = words.next()?.to_owned();
            Some(Found { uid, deleted: words.next().map(|time| time.parse().unwrap()) })
        })
    }
}

/// Text of kube-apiserver v1.36.3.
const UNVERIFIED: &str = "go-jose/go-jose: error in cryptographic primitive";

const ALL: &str = "serviceaccounts a/robot u1\npods a/p u2\nsecrets a/s u3\nnodes /n u4";

fn named(name: &str, uid: &str) -> ObjectReference {
    ObjectReference { name: name.to_owned(), uid: uid.to_owned() }
}

fn bound() -> BoundObjects {
    BoundObjects {
        namespace: "a".to_owned(),
        node: None,
        pod: None,
        secret: None,
        serviceaccount: named("robot", "u1"),
    }
}

fn claims(bound: BoundObjects, audiences: &[&str]) -> Claims {
    let mut audiences: Vec<String> = audiences.iter().map(|audience| (*audience).to_owned()).collect();
    if audiences.is_empty() {
        audiences.push(ISSUER.to_owned());
    }
    Claims::new("id".to_owned(), bound, &audiences, at("12:00:00"), 600)
}

fn at(time: &str) -> Timestamp {
    format!("2026-01-02T{time}Z").parse().unwrap()
}

/// Compares the user of a token with these claims at a time of day.
#[expect(clippy::needless_pass_by_value, reason = "`expect!` returns values")]
fn check(claims: &Claims, time: &str, cluster: &'static str, expected: Expect) {
    let issuer = Issuer::from_seed(1);
    let token = issuer.sign(claims);
    assert!(issuer.claims_to_be_ours(&token));
    let audiences = [ISSUER.to_owned(), "vault".to_owned()];
    expected.assert_eq(&match issuer.user_of(&token, &audiences, at(time), &Cluster(cluster)) {
        Ok((user, audiences)) => {
            let extra: Vec<String> =
                user.extra.iter().map(|(key, values)| format!("{key}={}", values.join("+"))).collect();
            format!(
                "{} {} {}\n{}\nfor {}",
                user.name,
                user.uid,
                user.groups.join("+"),
                extra.join("\n"),
                audiences.join("+")
            )
        }
        Err(why) => why,
    });
}

#[test]
fn a_token_has_the_user_and_groups_of_its_account() {
    check(
        &claims(bound(), &[]),
        "12:00:00",
        ALL,
        expect![[r"
            system:serviceaccount:a:robot u1 system:serviceaccounts+system:serviceaccounts:a+system:authenticated
            authentication.kubernetes.io/credential-id=JTI=id
            for https://kubernetes.default.svc"]],
    );
    let pod = BoundObjects { pod: Some(named("p", "u2")), node: Some(named("gone", "")), ..bound() };
    check(
        &claims(pod, &["vault", "other"]),
        "12:00:00",
        ALL,
        expect![[r"
            system:serviceaccount:a:robot u1 system:serviceaccounts+system:serviceaccounts:a+system:authenticated
            authentication.kubernetes.io/credential-id=JTI=id
            authentication.kubernetes.io/node-name=gone
            authentication.kubernetes.io/pod-name=p
            authentication.kubernetes.io/pod-uid=u2
            for vault"]],
    );
    check(
        &claims(bound(), &["other"]),
        "12:00:00",
        ALL,
        expect![[
            r#"token audiences ["other"] is invalid for the target audiences ["https://kubernetes.default.svc" "vault"]"#
        ]],
    );
}

#[test]
fn a_token_is_valid_for_its_lifetime_and_a_minute_of_leeway() {
    let token = claims(bound(), &[]);
    let user = expect![[r"
        system:serviceaccount:a:robot u1 system:serviceaccounts+system:serviceaccounts:a+system:authenticated
        authentication.kubernetes.io/credential-id=JTI=id
        for https://kubernetes.default.svc"]];
    check(&token, "12:11:00", ALL, user);
    check(&token, "12:11:01", ALL, expect!["service account token has expired"]);
    check(&token, "11:58:59", ALL, expect!["service account token is not valid yet"]);
}

#[test]
fn a_token_becomes_invalid_with_an_object_it_is_bound_to() {
    let gone = || expect!["service account token has been invalidated"];
    check(&claims(bound(), &[]), "12:00:00", "", gone());
    check(
        &claims(bound(), &[]),
        "12:00:00",
        "serviceaccounts a/robot u9",
        expect!["service account UID (u9) does not match claim (u1)"],
    );
    for (bound, what) in [
        (BoundObjects { pod: Some(named("p", "u2")), ..bound() }, "pods a/p u2"),
        (BoundObjects { secret: Some(named("s", "u3")), ..bound() }, "secrets a/s u3"),
        (BoundObjects { node: Some(named("n", "u4")), ..bound() }, "nodes /n u4"),
    ] {
        let without: &'static str = Box::leak(ALL.replace(what, "").into_boxed_str());
        check(&claims(bound.clone(), &[]), "12:00:00", without, gone());
        let deleted: &'static str =
            Box::leak(ALL.replace(what, &format!("{what} 2026-01-02T11:59:00Z")).into_boxed_str());
        let token = Issuer::from_seed(1).sign(&claims(bound.clone(), &[]));
        let ours = [ISSUER.to_owned()];
        let issuer = Issuer::from_seed(1);
        assert!(
            issuer.user_of(&token, &ours, at("12:00:00"), &Cluster(deleted)).is_ok(),
            "{what}: within a minute"
        );
        check(&claims(bound, &[]), "12:00:01", deleted, gone());
    }
}

#[test]
fn a_token_signed_by_others_or_changed_is_refused() {
    let issuer = Issuer::from_seed(1);
    let token = issuer.sign(&claims(bound(), &[]));
    let ask = |token: &str| issuer.user_of(token, &[ISSUER.to_owned()], at("12:00:00"), &Cluster(ALL));
    assert!(ask(&token).is_ok());
    let parts: Vec<&str> = token.split('.').collect();
    let forged =
        BASE64.encode(String::from_utf8(BASE64.decode(parts[1]).unwrap()).unwrap().replace("robot", "admin"));
    let none = BASE64.encode(r#"{"alg":"none"}"#);
    for bad in [
        Issuer::from_seed(2).sign(&claims(bound(), &[])),
        Issuer::random().sign(&claims(bound(), &[])),
        format!("{}.{forged}.{}", parts[0], parts[2]),
        format!("{none}.{}.{}", parts[1], parts[2]),
        format!("{none}.{}.", parts[1]),
        format!("{}.{}", parts[0], parts[1]),
        format!("{token}.x"),
        format!("{token}é"),
        String::new(),
    ] {
        assert_eq!(ask(&bad).unwrap_err(), UNVERIFIED, "{bad}");
    }
}

#[test]
fn a_token_claims_to_be_ours_by_its_issuer_alone() {
    let of = |payload: &str| format!("x.{}.y", BASE64.encode(payload));
    let issuer = Issuer::from_seed(1);
    assert!(issuer.claims_to_be_ours(&of(r#"{"iss":"https://kubernetes.default.svc"}"#)));
    for other in [
        "secret".to_owned(),
        of(r#"{"iss":"https://accounts.example.com"}"#),
        of("{}"),
        of("["),
        "a.b".to_owned(),
        format!(
            "x.{}.y",
            BASE64.encode(format!(r#"{{"iss":"{ISSUER}","pad":"{}"}}"#, "x".repeat(MAX_LENGTH)))
        ),
    ] {
        assert!(!issuer.claims_to_be_ours(&other), "{other}");
    }
}

/// Tokens that given keys sign, with an issuer of their own.
#[cfg(feature = "tls")]
#[test]
fn tokens_of_given_keys_are_valid_only_with_their_issuer() {
    let issuer = |name: &str| {
        let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
        Issuer::Keys(ServiceAccountKeys::from_pem(name, key.as_bytes()).unwrap())
    };
    let (ours, theirs) = (issuer("https://a"), issuer("https://a"));
    let audiences = ["https://a".to_owned()];
    let claims = claims(bound(), &["https://a"]);
    let token = ours.sign(&claims);
    assert!(ours.claims_to_be_ours(&token));
    let ask = |issuer: &Issuer, token: &str| issuer.user_of(token, &audiences, at("12:00:00"), &Cluster(ALL));
    assert_eq!(ask(&ours, &token).unwrap().0.name, "system:serviceaccount:a:robot");
    assert_eq!(ask(&theirs, &token).unwrap_err(), "invalid signature, no keys found");
    // As in kube-apiserver, a signature with a character too many has another byte.
    assert!(is_signed_form(&format!("{token}x")));
    assert_eq!(ask(&ours, &format!("{token}x")).unwrap_err(), UNVERIFIED);
    // A signature made with a public key as secret, or with no key, is invalid.
    let secret = Issuer::from_seed(1).sign(&claims);
    assert_eq!(ask(&ours, &secret).unwrap_err(), UNVERIFIED);
    let parts: Vec<&str> = token.split('.').collect();
    let none = BASE64.encode(r#"{"alg":"none"}"#);
    assert_eq!(ask(&ours, &format!("{none}.{}.", parts[1])).unwrap_err(), UNVERIFIED);
    // The key signs a token of another issuer.
    let mut other = claims.clone();
    other.iss = "https://b".to_owned();
    assert_eq!(ask(&ours, &ours.sign(&other)).unwrap().1, audiences, "the issuer is not the caller's choice");
}
