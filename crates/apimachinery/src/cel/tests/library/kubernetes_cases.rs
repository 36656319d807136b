//! Functions of Kubernetes' libraries. Each expression has its value, or the error of kube-apiserver v1.36.3.

pub(super) static LIBRARIES: [(&str, &str); 119] = [
    ("quantity(dyn('1000m')).isInteger()", "false"),
    ("quantity('1.0').isInteger()", "false"),
    ("quantity('1.5').isInteger()", "false"),
    ("quantity('1k').isInteger() && quantity('1k').asInteger() == 1000", "true"),
    ("quantity('1Ki').asInteger() == 1024", "true"),
    ("quantity('9223372036854775807').isInteger()", "false"),
    ("quantity('9223372036854775808').isInteger()", "false"),
    ("quantity('10E').isInteger()", "false"),
    ("quantity('500m').asInteger() == 1", "cannot convert value to integer"),
    ("quantity('500m').asApproximateFloat() == 0.5", "true"),
    ("quantity('1.5Gi').asApproximateFloat() == 1610612736.0", "true"),
    ("quantity('50k').add(20) == quantity('50020')", "true"),
    ("quantity('50k').sub(quantity('20')).compareTo(quantity('1')) == 1", "true"),
    ("sign(quantity('-1')) == -1 && sign(quantity('0')) == 0", "true"),
    ("quantity('12E').add(quantity('12E')).isGreaterThan(quantity('9E'))", "true"),
    (
        "quantity(dyn('x')) == quantity('1')",
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
    (
        "quantity(dyn('')) == quantity('1')",
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
    (
        "quantity(dyn('1x')) == quantity('1')",
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
    ("quantity('1') == quantity('1000m')", "true"),
    ("dyn(quantity('1')) == 1", "no such overload"),
    (
        "url('https://user:pw@example.com:80/path with spaces/%2f?k1=a&k2=b&k2=c#frag').getEscapedPath() == '/path%20with%20spaces/%2f'",
        "false",
    ),
    (
        "url('https://user:pw@example.com:80/p?k1=a&k2=b&k2=c#frag').getQuery() == {'k1': ['a'], 'k2': ['b', 'c']}",
        "true",
    ),
    ("url('https://user:pw@example.com:80/p').getHost() == 'example.com:80'", "true"),
    (
        "url('https://[::1]:80/p').getHostname() == '::1' && url('https://[::1]:80/p').getPort() == '80' && url('https://[::1]:80/p').getHost() == '[::1]:80'",
        "true",
    ),
    ("url('/abs?x').getScheme() == '' && url('/abs?x').getQuery() == {'x': ['']}", "true"),
    (
        "url(dyn('foo'))  == url('/a')",
        r#"URL parse error during conversion from string: parse "foo": invalid URI for request"#,
    ),
    ("url(dyn(''))  == url('/a')", r#"URL parse error during conversion from string: parse "": empty url"#),
    (
        "url(dyn('https://a b/'))  == url('/a')",
        r#"URL parse error during conversion from string: parse "https://a b/": invalid character " " in host name"#,
    ),
    (
        "url(dyn('https://a:x/'))  == url('/a')",
        r#"URL parse error during conversion from string: parse "https://a:x/": invalid port ":x" after host"#,
    ),
    (
        "url(dyn('https://a/%zz'))  == url('/a')",
        r#"URL parse error during conversion from string: parse "https://a/%zz": invalid URL escape "%zz""#,
    ),
    (
        "url(dyn(':foo'))  == url('/a')",
        r#"URL parse error during conversion from string: parse ":foo": missing protocol scheme"#,
    ),
    (
        "url(dyn('1http://a'))  == url('/a')",
        r#"URL parse error during conversion from string: parse "1http://a": invalid URI for request"#,
    ),
    (
        "url(dyn('https://[::1/'))  == url('/a')",
        r#"URL parse error during conversion from string: parse "https://[::1/": missing ']' in host"#,
    ),
    (
        r#"url(dyn('https://a\u007f/'))  == url('/a')"#,
        r#"URL parse error during conversion from string: parse "https://a\x7f/": net/url: invalid control character in URL"#,
    ),
    ("isURL('mailto:x@y') && isURL('http:opaque')", "true"),
    ("url('mailto:x@y').getHost() == '' && url('mailto:x@y').getEscapedPath() == ''", "true"),
    ("isURL('http://x/#a') && isURL('*')", "true"),
    ("isURL('a/b')", "false"),
    ("isURL('//host/p') && url('//host/p').getHost() == 'host'", "true"),
    ("url('/a') == url('/a') && url('/a') != url('/b')", "true"),
    ("url('http://EXAMPLE.com/a?b=%zz').getQuery() == {}", "true"),
    ("url('http://e/a?b=1;c=2&d=3').getQuery() == {'d': ['3']}", "true"),
    ("url('http://e/a?b+c=1+2').getQuery() == {'b c': ['1 2']}", "true"),
    (
        "ip(dyn('1.2.3')) == ip('1.2.3.4')",
        r#"IP Address "1.2.3" parse error during conversion from string: ParseAddr("1.2.3"): IPv4 address too short"#,
    ),
    (
        "ip(dyn('1.2.3.4.5')) == ip('1.2.3.4')",
        r#"IP Address "1.2.3.4.5" parse error during conversion from string: ParseAddr("1.2.3.4.5"): IPv4 address too long"#,
    ),
    (
        "ip(dyn('1.2.3.256')) == ip('1.2.3.4')",
        r#"IP Address "1.2.3.256" parse error during conversion from string: ParseAddr("1.2.3.256"): IPv4 field has value >255"#,
    ),
    (
        "ip(dyn('1.2.3.04')) == ip('1.2.3.4')",
        r#"IP Address "1.2.3.04" parse error during conversion from string: ParseAddr("1.2.3.04"): IPv4 field has octet with leading zero"#,
    ),
    (
        "ip(dyn('1.2..4')) == ip('1.2.3.4')",
        r#"IP Address "1.2..4" parse error during conversion from string: ParseAddr("1.2..4"): IPv4 field must have at least one digit (at ".4")"#,
    ),
    (
        "ip(dyn('.1.2.4')) == ip('1.2.3.4')",
        r#"IP Address ".1.2.4" parse error during conversion from string: ParseAddr(".1.2.4"): IPv4 field must have at least one digit (at ".1.2.4")"#,
    ),
    (
        "ip(dyn('1.2.3.4.')) == ip('1.2.3.4')",
        r#"IP Address "1.2.3.4." parse error during conversion from string: ParseAddr("1.2.3.4."): IPv4 field must have at least one digit (at ".")"#,
    ),
    (
        "ip(dyn('1.2.3.x')) == ip('1.2.3.4')",
        r#"IP Address "1.2.3.x" parse error during conversion from string: ParseAddr("1.2.3.x"): unexpected character (at "x")"#,
    ),
    (
        "ip(dyn('x')) == ip('1.2.3.4')",
        r#"IP Address "x" parse error during conversion from string: ParseAddr("x"): unable to parse IP"#,
    ),
    (
        "ip(dyn('')) == ip('1.2.3.4')",
        r#"IP Address "" parse error during conversion from string: ParseAddr(""): unable to parse IP"#,
    ),
    ("ip(dyn('::1%eth0')) == ip('1.2.3.4')", r#"IP address "::1%eth0" with zone value is not allowed"#),
    (
        "ip(dyn('::ffff:1.2.3.4')) == ip('1.2.3.4')",
        r#"IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed"#,
    ),
    (
        "ip(dyn('1::2::3')) == ip('1.2.3.4')",
        r#"IP Address "1::2::3" parse error during conversion from string: ParseAddr("1::2::3"): multiple :: in address (at ":3")"#,
    ),
    (
        "ip(dyn('12345::')) == ip('1.2.3.4')",
        r#"IP Address "12345::" parse error during conversion from string: ParseAddr("12345::"): each group must have 4 or less digits (at "12345::")"#,
    ),
    (
        "ip(dyn('1:2:3')) == ip('1.2.3.4')",
        r#"IP Address "1:2:3" parse error during conversion from string: ParseAddr("1:2:3"): address string too short"#,
    ),
    (
        "ip(dyn('1:2:3:4:5:6:7:8:9')) == ip('1.2.3.4')",
        r#"IP Address "1:2:3:4:5:6:7:8:9" parse error during conversion from string: ParseAddr("1:2:3:4:5:6:7:8:9"): trailing garbage after address (at "9")"#,
    ),
    (
        "ip(dyn(':1')) == ip('1.2.3.4')",
        r#"IP Address ":1" parse error during conversion from string: ParseAddr(":1"): each colon-separated field must have at least one digit (at ":1")"#,
    ),
    (
        "ip(dyn('1:')) == ip('1.2.3.4')",
        r#"IP Address "1:" parse error during conversion from string: ParseAddr("1:"): colon must be followed by more characters (at ":")"#,
    ),
    (
        "ip(dyn('g::')) == ip('1.2.3.4')",
        r#"IP Address "g::" parse error during conversion from string: ParseAddr("g::"): each colon-separated field must have at least one digit (at "g::")"#,
    ),
    (
        "ip(dyn('1:2:3:4:5:6:7::8')) == ip('1.2.3.4')",
        r#"IP Address "1:2:3:4:5:6:7::8" parse error during conversion from string: ParseAddr("1:2:3:4:5:6:7::8"): the :: must expand to at least one field of zeros"#,
    ),
    (
        "ip(dyn('::1.2.3')) == ip('1.2.3.4')",
        r#"IP Address "::1.2.3" parse error during conversion from string: ParseAddr("::1.2.3"): IPv4 address too short"#,
    ),
    (
        "ip(dyn('1::%')) == ip('1.2.3.4')",
        r#"IP Address "1::%" parse error during conversion from string: ParseAddr("1::%"): zone must be a non-empty string"#,
    ),
    (
        "ip(dyn('1:2:3:4:5:6:7:1.2.3.4')) == ip('1.2.3.4')",
        r#"IP Address "1:2:3:4:5:6:7:1.2.3.4" parse error during conversion from string: ParseAddr("1:2:3:4:5:6:7:1.2.3.4"): embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")"#,
    ),
    (
        "string(ip('FE80::0:1')) == 'fe80::1' && !ip.isCanonical('FE80::0:1') && ip.isCanonical('1.2.3.4')",
        "true",
    ),
    (
        "ip.isCanonical(dyn('x'))",
        r#"IP Address "x" parse error during conversion from string: ParseAddr("x"): unable to parse IP"#,
    ),
    (
        "ip('fe80::1').isLinkLocalUnicast() && ip('ff02::1').isLinkLocalMulticast() && ip('0.0.0.0').isUnspecified() && ip('8.8.8.8').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast()",
        "true",
    ),
    ("ip('1.2.3.4').family() == 4 && ip('::1').family() == 6", "true"),
    (
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.1.2.3/8').ip() == ip('10.1.2.3') && string(cidr('10.1.2.3/8')) == '10.1.2.3/8'",
        "true",
    ),
    (
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.0.0.0/16').containsCIDR(cidr('10.0.0.0/8')) && cidr('10.0.0.0/8').containsIP(ip('10.1.1.1'))",
        "true",
    ),
    (
        "cidr(dyn('10.0.0.0')) == cidr('10.0.0.0/8')",
        r#"network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("10.0.0.0"): no '/'"#,
    ),
    (
        "cidr(dyn('10.0.0.0/33')) == cidr('10.0.0.0/8')",
        r#"network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("10.0.0.0/33"): prefix length out of range"#,
    ),
    (
        "cidr(dyn('10.0.0.0/08')) == cidr('10.0.0.0/8')",
        r#"network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("10.0.0.0/08"): bad bits after slash: "08""#,
    ),
    (
        "cidr(dyn('10.0.0.0/x')) == cidr('10.0.0.0/8')",
        r#"network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("10.0.0.0/x"): bad bits after slash: "x""#,
    ),
    (
        "cidr(dyn('10.0.0.0/-1')) == cidr('10.0.0.0/8')",
        r#"network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("10.0.0.0/-1"): bad bits after slash: "-1""#,
    ),
    (
        "cidr(dyn('10.0.0.0/')) == cidr('10.0.0.0/8')",
        r#"network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("10.0.0.0/"): bad bits after slash: """#,
    ),
    (
        "cidr(dyn('10.0.0/8')) == cidr('10.0.0.0/8')",
        r#"network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("10.0.0/8"): ParseAddr("10.0.0"): IPv4 address too short"#,
    ),
    (
        "cidr(dyn('::1%e/8')) == cidr('10.0.0.0/8')",
        r#"network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("::1%e/8"): IPv6 zones cannot be present in a prefix"#,
    ),
    (
        "cidr(dyn('::ffff:1.2.3.4/100')) == cidr('10.0.0.0/8')",
        r#"network address parse error during conversion from string: IPv4-mapped IPv6 address "::ffff:1.2.3.4/100" is not allowed"#,
    ),
    ("cidr('10.0.0.0/8').containsIP('x')", "no such overload"),
    (
        "cidr('10.0.0.0/8').containsCIDR('x')",
        r#"network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("x"): no '/'"#,
    ),
    ("cidr('10.0.0.0/8').containsIP('::1')", "false"),
    ("isIP('::ffff:1.2.3.4') || isIP('1.2.3') || isCIDR('1.2.3.4')", "false"),
    ("semver(dyn('1.2')) == semver('1.2.3')", "No Major.Minor.Patch elements found"),
    ("semver(dyn('')) == semver('1.2.3')", "Version string empty"),
    ("semver(dyn('v1.2.3')) == semver('1.2.3')", r#"Invalid character(s) found in major number "v1""#),
    ("semver(dyn('01.2.3')) == semver('1.2.3')", r#"Major number must not contain leading zeroes "01""#),
    ("semver(dyn('1.02.3')) == semver('1.2.3')", r#"Minor number must not contain leading zeroes "02""#),
    ("semver(dyn('1.2.03')) == semver('1.2.3')", r#"Patch number must not contain leading zeroes "03""#),
    ("semver(dyn('1.x.3')) == semver('1.2.3')", r#"Invalid character(s) found in minor number "x""#),
    ("semver(dyn('1.2.x')) == semver('1.2.3')", r#"Invalid character(s) found in patch number "x""#),
    ("semver(dyn('1.2.3-')) == semver('1.2.3')", "Prerelease is empty"),
    (
        "semver(dyn('1.2.3-01')) == semver('1.2.3')",
        r#"Numeric PreRelease version must not contain leading zeroes "01""#,
    ),
    ("semver(dyn('1.2.3-a_b')) == semver('1.2.3')", r#"Invalid character(s) found in prerelease "a_b""#),
    ("semver(dyn('1.2.3+')) == semver('1.2.3')", "Build meta data is empty"),
    ("semver(dyn('1.2.3+a_b')) == semver('1.2.3')", r#"Invalid character(s) found in build meta data "a_b""#),
    (
        "semver(dyn('99999999999999999999.2.3')) == semver('1.2.3')",
        r#"strconv.ParseUint: parsing "99999999999999999999": value out of range"#,
    ),
    (
        "semver('1.2.3+a') == semver('1.2.3+b') && semver('1.2.3-rc.1').isLessThan(semver('1.2.3')) && semver('1.2.3-rc.2').compareTo(semver('1.2.3-rc.10')) == -1",
        "true",
    ),
    ("semver('v01.2', true) == semver('1.2.0') && isSemver('v1', true) && !isSemver('v1')", "true"),
    (
        "semver(dyn('1.2-x'), true) == semver('1.2.0')",
        "short version cannot contain PreRelease/Build meta data",
    ),
    ("semver('1.2.3').major() + semver('1.2.3').minor() + semver('1.2.3').patch() == 6", "true"),
    ("format.dns1123Label().validate('Abc').value() == ['x']", "false"),
    ("format.named('dns1123Label').value() == format.dns1123Label()", "true"),
    ("format.named('nope').hasValue()", "false"),
    ("format.uri().validate('x y').value()[0] == 'x'", "false"),
    (
        "format.datetime().validate('x').value()[0] == 'invalid datetime' && format.date().validate('x').value()[0] == 'invalid date' && format.byte().validate('?').value()[0] == 'invalid base64' && format.uuid().validate('?').value()[0] == 'does not match the UUID format'",
        "true",
    ),
    ("dyn([1]).flatten(-1) == [1]", "level must be non-negative"),
    (
        "[3, 1, 2].sort() == [1, 2, 3] && ['b', 'a'].sort() == ['a', 'b'] && [3, 1, 2].reverse() == [2, 1, 3] && lists.range(3) == [0, 1, 2] && [1, 1, 2].distinct() == [1, 2]",
        "true",
    ),
    ("[{'a': 2}, {'a': 1}].sortBy(e, e.a) == [{'a': 1}, {'a': 2}]", "true"),
    ("[1, 2, 3, 4].slice(1, 3) == [2, 3]", "true"),
    ("[1, 2].slice(-1, 1) == [1]", "cannot slice(-1, 1), negative indexes not supported"),
    ("[1, 2].slice(0, 3) == [1]", "cannot slice(0, 3), list is length 2"),
    ("[dyn(1), dyn('a')].sort() == [1]", "list elements must have the same type"),
    ("[dyn(1), dyn('a')].isSorted()", "true"),
    ("[dyn(1), dyn('a')].sum() == 1", "no such overload"),
    ("dyn([]).sum() == 0", "true"),
    ("dyn([dyn('a')]).sum() == 'a'", "no such overload: sum(list)"),
];
