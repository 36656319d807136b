//! Mail addresses as Go's `net/mail` parses them.

use std::net::IpAddr;

/// Whether a text is a single address that `mail.ParseAddress` accepts: `user@host`, `Name <user@host>`, or a group of one address.
#[must_use]
pub fn is_mail_address(text: &str) -> bool {
    let mut parser = AddressParser(text);
    parser.address(Groups::Allowed).is_some_and(|addresses| addresses == 1)
        && parser.skip_comments()
        && parser.0.is_empty()
}

/// Whether this is a visible character, or any outside of ASCII.
fn is_visible(c: char) -> bool {
    c.is_ascii_graphic() || !c.is_ascii()
}

fn is_atom(c: char) -> bool {
    is_visible(c) && !"()<>[]:;@\\,\"".contains(c)
}

/// Whether an address may be a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Groups {
    Allowed,
    Refused,
}

/// The rest of a text. Methods return `None` (or `false`) where the text is malformed.
#[derive(Debug, Clone, Copy)]
struct AddressParser<'a>(&'a str);

impl<'a> AddressParser<'a> {
    /// Returns the number of addresses: one, unless this is a group. A group has no groups.
    fn address(&mut self, groups: Groups) -> Option<usize> {
        self.skip_space();
        if self.0.is_empty() {
            return None;
        }
        // As in Go, a text that begins like `user@host` is one; otherwise it is read again from its start, as a name with an address.
        let plain = *self;
        if self.plain_address() {
            // An old form has the name in a comment: `user@host (Name)`.
            self.skip_space();
            return if self.0.starts_with('(') { self.comment().then_some(1) } else { Some(1) };
        }
        *self = plain;
        if !self.0.starts_with('<') && !self.phrase() {
            return None;
        }
        self.skip_space();
        if groups == Groups::Allowed && self.consume(':') {
            return self.group();
        }
        (self.consume('<') && self.plain_address() && self.consume('>')).then_some(1)
    }

    /// Parses `user@host`.
    fn plain_address(&mut self) -> bool {
        self.skip_space();
        // A user in quotes must not be empty, and may have dots anywhere.
        let has_user = if self.0.starts_with('"') {
            self.quoted().is_some_and(|user| user > 0)
        } else {
            self.strict_atom()
        };
        if !has_user || !self.consume('@') {
            return false;
        }
        self.skip_space();
        if self.0.starts_with('[') { self.literal() } else { self.strict_atom() }
    }

    /// Parses the addresses of a group after its colon.
    fn group(&mut self) -> Option<usize> {
        self.skip_space();
        if self.consume(';') {
            return self.skip_comments().then_some(0);
        }
        let mut addresses = 0;
        loop {
            self.skip_space();
            addresses += self.address(Groups::Refused)?;
            if !self.skip_comments() {
                return None;
            }
            if self.consume(';') {
                return self.skip_comments().then_some(addresses);
            }
            if !self.consume(',') {
                return None;
            }
        }
    }

    /// Parses the words of a displayed name, of which there must be one.
    fn phrase(&mut self) -> bool {
        let mut words = 0;
        loop {
            if words > 0 && !self.skip_comments() {
                return false;
            }
            self.skip_space();
            let before = *self;
            let is_word =
                if self.0.starts_with('"') { self.quoted().is_some() } else { !self.atom().is_empty() };
            if !is_word {
                *self = before;
                return words > 0;
            }
            words += 1;
        }
    }

    /// Returns characters of an atom, and dots.
    fn atom(&mut self) -> &'a str {
        let end = self.0.find(|c| !is_atom(c)).unwrap_or(self.0.len());
        let (atom, rest) = self.0.split_at(end);
        self.0 = rest;
        atom
    }

    /// Parses atoms with single dots between them.
    fn strict_atom(&mut self) -> bool {
        self.atom().split('.').all(|part| !part.is_empty())
    }

    /// Parses a quoted text; returns the number of its characters.
    fn quoted(&mut self) -> Option<usize> {
        let mut characters = self.0.char_indices().skip(1);
        let mut length = 0;
        while let Some((at, c)) = characters.next() {
            let inner = match c {
                '"' => {
                    self.0 = &self.0[at + 1..];
                    return Some(length);
                }
                '\\' => characters.next()?.1,
                c => c,
            };
            if !is_visible(inner) && ![' ', '\t'].contains(&inner) {
                return None;
            }
            length += 1;
        }
        None
    }

    /// Parses an IP address in brackets.
    fn literal(&mut self) -> bool {
        let Some((inner, rest)) = self.0.strip_prefix('[').and_then(|text| text.split_once(']')) else {
            return false;
        };
        self.0 = rest;
        inner.parse::<IpAddr>().is_ok()
    }

    fn skip_space(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t']);
    }

    /// Skips blanks and comments.
    fn skip_comments(&mut self) -> bool {
        self.skip_space();
        while self.0.starts_with('(') {
            if !self.comment() {
                return false;
            }
            self.skip_space();
        }
        true
    }

    /// Skips a comment, which may have inner ones.
    fn comment(&mut self) -> bool {
        let mut depth = 0;
        let mut characters = self.0.char_indices();
        while let Some((at, c)) = characters.next() {
            match c {
                '\\' => {
                    characters.next();
                }
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                self.0 = &self.0[at + 1..];
                return true;
            }
        }
        false
    }

    fn consume(&mut self, expected: char) -> bool {
        let rest = self.0.strip_prefix(expected);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checked against kube-apiserver v1.36.3 as values of a custom kind with a field of format `email`.
    #[test]
    fn addresses_are_those_of_net_mail() {
        for (text, is_valid) in ADDRESSES {
            assert_eq!(is_mail_address(text), is_valid, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_accepted_or_refused(text in "[a.@\"\\\\()<>\\[\\]:;, ]{0,16}|\\PC{0,12}") {
            let _ = is_mail_address(&text);
        }
    }

    const ADDRESSES: [(&str, bool); 37] = [
        ("a@b", true),
        ("\"a b\"@c.d", true),
        ("a", false),
        ("A <a@b.c>", true),
        ("<a@b.c>", true),
        ("\"A B\" <a@b.c>", true),
        ("A B <a@b.c>", true),
        ("a@b@c", false),
        ("a@[1.2.3.4]", true),
        ("a@[x]", false),
        ("a@b.", false),
        ("a..b@c", false),
        (".a@b", false),
        ("a.@b", false),
        ("a@b (comment)", true),
        ("(c) a@b", false),
        ("a@b(c(d))", true),
        ("a@b (c", false),
        ("\"\"@b", false),
        ("\"\\\"\"@b", true),
        ("\"a\tb\"@c", true),
        ("g: a@b;", true),
        ("g: a@b, c@d;", false),
        ("g:;", false),
        ("é@ü.de", true),
        ("a @b", false),
        ("a@ b", true),
        ("a,b@c", false),
        ("a@b, c@d", false),
        ("A. B. <a@b>", true),
        ("A <a@b", false),
        ("a@b>", false),
        ("a@-b", true),
        ("", false),
        (" a@b ", true),
        ("a@b_c", true),
        ("a+b@c", true),
    ];
}
