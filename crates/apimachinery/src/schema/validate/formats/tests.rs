//! Texts that each format accepts or refuses.

use super::*;

#[test]
fn dashes_of_a_uuid_stand_between_its_groups() {
    for (text, is_valid) in [
        ("6ba7b8109dad11d180b400c04fd430c8", true),
        ("6ba7b810-9dad11d180b4-00c04fd430c8", true),
        ("6ba7b810-9dad-11d1-80b4-00c04fd430c", false),
        ("6ba7b-8109dad11d180b400c04fd430c8", false),
        ("-6ba7b8109dad11d180b400c04fd430c8", false),
        ("6ba7b810--9dad11d180b400c04fd430c8", false),
        ("6ba7b8109dad11d180b400c04fd430c8-", false),
        ("6ba7b8109dad11d180b400c04fd430cé", false),
    ] {
        assert_eq!(is_uuid(text, None), is_valid, "{text}");
    }
    assert!(is_uuid("6ba7b8109dad41d1A0b400c04fd430c8", Some('4')));
    assert!(!is_uuid("6ba7b8109dad41d1c0b400c04fd430c8", Some('4')));
    assert!(is_uuid("6ba7b8109dad31d1c0b400c04fd430c8", Some('3')));
}

#[test]
fn formats_admit_their_own_and_refuse_others() {
    for (format, good, bad) in [
        ("bsonobjectid", "507f1f77bcf86cd799439011", "x"),
        ("uri", "https://example.com/a?b=c", "not a uri"),
        ("email", "a.b@example.com", "a@"),
        ("hostname", "db-1.example.com", "-db"),
        ("ipv4", "10.0.0.1", "10.0.0.256"),
        ("ipv6", "fe80::1", "10.0.0.1"),
        ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
        ("mac", "00:1a:2b:3c:4d:5e", "00:1a"),
        ("uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6ba7b810"),
        ("uuid3", "6ba7b810-9dad-31d1-80b4-00c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
        ("uuid4", "6ba7b810-9dad-41d1-80b4-00c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
        ("uuid5", "6ba7b810-9dad-51d1-80b4-00c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
        ("isbn", "0321751043", "0321751042"),
        ("isbn13", "9780321751041", "9780321751042"),
        ("creditcard", "4111-1111-1111-1111", "1234"),
        ("ssn", "111-22-3333", "1112"),
        ("hexcolor", "#FFF", "red"),
        ("rgbcolor", "rgb(1,2,3)", "rgb(1,2,256)"),
        ("byte", "YQ==", "Y!"),
        ("date", "2024-02-29", "2024-02-30x"),
        ("date-time", "2024-02-29T10:00:00Z", "yesterday"),
        ("duration", "1h30m", "soon"),
        ("k8s-short-name", "abc", "A_b"),
        ("k8s-long-name", "abc.def", "A_b"),
    ] {
        assert!(matches(format, good), "{format} {good}");
        assert!(!matches(format, bad), "{format} {bad}");
    }
    assert!(matches("password", "anything"));
    assert!(matches("nobody-knows", "anything"));
}

/// Checked against kube-apiserver v1.36.3 as values of a custom kind with a field of each format.
#[test]
fn texts_have_the_formats_that_they_have_in_kube_apiserver() {
    for (format, good, bad) in TEXTS {
        for text in *good {
            assert!(matches(format, text), "{format} {text:?}");
        }
        for text in *bad {
            assert!(!matches(format, text), "{format} {text:?}");
        }
    }
}

/// Formats, texts that have it, and texts that do not.
const TEXTS: &[(&str, &[&str], &[&str])] = &[
    (
        "uri",
        &[
            "http://a",
            "http://[::1]:80/",
            "/x",
            "/a b",
            "mailto:x@y",
            "http://a/b c",
            "a:b",
            "//h/p",
            "http://",
            "*",
            "http://u:p@h",
            "http://u@:80",
            "h:80",
            "/a?b#c",
        ],
        &[
            "http://a:b",
            "http://[::1",
            "a b",
            "::",
            "%zz",
            "/%zz",
            "http://a b/",
            "x",
            "1a:b",
            ":x",
            "http://h:80:90",
            "http://h/\x7f",
            "",
        ],
    ),
    (
        "ipv4",
        &[
            "1.2.3.4",
            "01.2.3.4",
            "001.002.003.004",
            "0.0.0.0",
            "00.0.0.0",
            "::ffff:1.2.3.4",
            "::ffff:01.2.3.4",
        ],
        &["1.2.3", "1.2.3.256", "1..3.4", "::1", "1.2.3.4 ", "+1.2.3.4", ""],
    ),
    (
        "cidr",
        &["10.0.0.0/8", "010.0.0.0/8", "10.0.0.1/8", "10.0.0.0/08", "::/0", "::ffff:10.0.0.0/104"],
        &["10.0.0.0/33", "10.0.0.0/+8", "::/129", "fe80::1%eth0/64", "10.0.0.0", "10/8"],
    ),
    (
        "ssn",
        &["111-11-1111", "111 11 1111", "111-11 1111"],
        &["111111111", "111-111111", "11-111-1111", "a11-11-1111"],
    ),
    (
        "duration",
        &[
            "1h",
            "1h1",
            "P1D",
            "1 day",
            "2 hours",
            "1w",
            "1wk",
            "3 weeks",
            "5 secs",
            "1.5h",
            "1.5 hours",
            "1µs",
            "1 micros",
            "1D",
            "1H",
            "-1s",
            "+1s",
            "0",
            "1 x 2 s",
            "1 nanosecond",
            " 1s",
        ],
        &["1", "1 year", "1 month", "99999999999999999999s", "99999999999999999999 days", "h", ""],
    ),
    (
        "datetime",
        &[
            "2020-01-01T00:00:00Z",
            "2020-01-01t00:00:00z",
            "2020-01-01T23:59:59.999+23:59",
            "2020-01-01T00:00:00,5Z",
            "2020-01-01T00:00:00ZT",
            "2020-01-01T00:00:00+99:99",
        ],
        &[
            "2020-01-01T00:00:60Z",
            "2020-01-01T24:00:00Z",
            "2020-01-01T00:00:00+2400",
            "2020-01-01T00:00:00",
            "2020-01-01T00:00Z",
            "2020-01-01T00:00:00.Z",
            "2020-02-30T00:00:00Z",
            "2020-01-01 00:00:00Z",
            "20-01-01T00:00:00Z",
            "",
        ],
    ),
    ("date-time", &["2020-01-01T00:00:00Z"], &["2020-01-01T00:00:00"]),
    (
        "creditcard",
        &[
            "4111111111111111",
            "4111-1111-1111-1111",
            "x4111111111111111x",
            "4222222222222",
            "5105105105105100",
            "378282246310005",
            "6011111111111117",
            "30569309025904",
            "3530111333300000",
        ],
        &["2221000000000009", "6759649826438453", "0000000000000000", "4111111111111112", ""],
    ),
    (
        "isbn",
        &["0321751043", "0-321-75104-3", "0 321 75104 3", "0\t321751043", "080442957X", "978-0321751041"],
        &["080442957x", "9780321751042", "123", ""],
    ),
    ("isbn10", &[], &["9780321751041"]),
    ("isbn13", &[], &["0321751043"]),
    (
        "mac",
        &[
            "00:00:5e:00:53:01",
            "00-00-5e-00-53-01",
            "0000.5e00.5301",
            "0000.5e00.5301.0000",
            "00005e005301",
            "00:00:5e:00:53:01:00:00:5e:00:53:01:00:00:5e:00:53:01:00:00",
        ],
        &["00:00:5e-00-53-01", "0:0:5e:0:53:1"],
    ),
    (
        "rgbcolor",
        &["rgb(0,0,0)", "rgb( 1, 2, 3 )", "rgb(199,199,255)"],
        &["rgb(256,0,0)", "RGB(0,0,0)", "rgb(00,0,0)", "rgb(0,0)"],
    ),
    (
        "date",
        &["2020-02-29", "0000-01-01"],
        &["2021-02-29", "2020-1-1", "+2020-01-1", "10000-01-01", "2020-01-32"],
    ),
    ("byte", &["AA==", "AAA=", "AAAA"], &["A===", "AA", "-_==", "AAAA AAAA", "AAAA\n"]),
    (
        "hostname",
        &["a", "a.bc", "a-", "A.COM", "xn--a.com", "ü.de", "😀", "localhost"],
        &["a.b", "a_b.c", "-a", "1.2.3.4", "a..com", "a.c-m", "a b", "*.a.com"],
    ),
    (
        "ipv6",
        &["::1", "::", "1::", "::ffff:1.2.3.4", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:1.2.3.4"],
        &["::ffff:01.2.3.4", "fe80::1%lo", "1.2.3.4", "12345::", "[::1]", "1:2:3:4:5:6:7:8:9"],
    ),
];
