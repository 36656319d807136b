//! Texts of tags, anchors and directives in a YAML text.

use super::text_cursor::{TextCursor, is_blank, is_blank_or_end, is_word};

/// Place of a tag's handle. In a directive its second `!` is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HandlePlace {
    Node,
    Directive,
}

/// Reads the name of an anchor, alias or directive; empty if there is none.
pub(super) fn word(cursor: &mut TextCursor<'_>) -> String {
    let mut word = String::new();
    while is_word(cursor.peek()) {
        cursor.read(&mut word);
    }
    word
}

/// Reads a tag: `!<uri>`, `!handle!suffix`, `!suffix` or `!` alone, which has an empty handle. Returns its handle and suffix.
pub(super) fn tag(cursor: &mut TextCursor<'_>) -> Result<(String, String), String> {
    let (handle, suffix) = if cursor.peek_after(1) == '<' {
        cursor.skip();
        cursor.skip();
        let suffix = tag_uri(cursor, "")?;
        if cursor.peek() != '>' {
            return Err(cursor.error("did not find the expected '>'"));
        }
        cursor.skip();
        (String::new(), suffix)
    } else {
        let handle = tag_handle(cursor, HandlePlace::Node)?;
        if handle.len() > 1 && handle.ends_with('!') {
            let suffix = tag_uri(cursor, "")?;
            (handle, suffix)
        } else {
            match tag_uri(cursor, &handle)? {
                suffix if suffix.is_empty() => (suffix, "!".to_owned()),
                suffix => ("!".to_owned(), suffix),
            }
        }
    };
    if !is_blank_or_end(cursor.peek()) {
        return Err(cursor.error("did not find expected whitespace or line break"));
    }
    Ok((handle, suffix))
}

/// Reads the rest of a `%TAG` directive. Returns the handle and the prefix that it stands for.
pub(super) fn tag_prefix(cursor: &mut TextCursor<'_>) -> Result<(String, String), String> {
    cursor.skip_blanks();
    let handle = tag_handle(cursor, HandlePlace::Directive)?;
    if !is_blank(cursor.peek()) {
        return Err(cursor.error("did not find expected whitespace"));
    }
    cursor.skip_blanks();
    let prefix = tag_uri(cursor, "")?;
    if !is_blank_or_end(cursor.peek()) {
        return Err(cursor.error("did not find expected whitespace or line break"));
    }
    Ok((handle, prefix))
}

/// Reads the rest of a `%YAML` directive. Returns the major and the minor version.
pub(super) fn version(cursor: &mut TextCursor<'_>) -> Result<(u32, u32), String> {
    cursor.skip_blanks();
    let major = version_number(cursor)?;
    if cursor.peek() != '.' {
        return Err(cursor.error("did not find expected digit or '.' character"));
    }
    cursor.skip();
    let minor = version_number(cursor)?;
    Ok((major, minor))
}

fn tag_handle(cursor: &mut TextCursor<'_>, place: HandlePlace) -> Result<String, String> {
    let missing = "did not find expected '!'";
    if cursor.peek() != '!' {
        return Err(cursor.error(missing));
    }
    let mut handle = String::new();
    cursor.read(&mut handle);
    handle.push_str(&word(cursor));
    if cursor.peek() == '!' {
        cursor.read(&mut handle);
    } else if place == HandlePlace::Directive && handle != "!" {
        return Err(cursor.error(missing));
    }
    Ok(handle)
}

/// Reads the URI of a tag after a handle, of which all but the `!` belongs to the URI.
fn tag_uri(cursor: &mut TextCursor<'_>, handle: &str) -> Result<String, String> {
    let mut uri: Vec<u8> = handle.bytes().skip(1).collect();
    let mut is_tag = !handle.is_empty();
    loop {
        let next = cursor.peek();
        if next == '%' {
            uri_escapes(cursor, &mut uri)?;
        } else if is_word(next) || ";/?:@&=+$,.!~*'()[]".contains(next) {
            let mut buffer = [0; 4];
            uri.extend_from_slice(next.encode_utf8(&mut buffer).as_bytes());
            cursor.skip();
        } else {
            break;
        }
        is_tag = true;
    }
    if !is_tag {
        return Err(cursor.error("did not find expected tag URI"));
    }
    Ok(String::from_utf8_lossy(&uri).into_owned())
}

/// Reads the escaped bytes of one character.
fn uri_escapes(cursor: &mut TextCursor<'_>, uri: &mut Vec<u8>) -> Result<(), String> {
    // Number of bytes of the character that must follow; unknown before the first one.
    let mut left = None;
    while left != Some(0) {
        let digit = |place: usize| cursor.peek_after(place).to_digit(16);
        let (Some(high), Some(low), '%') = (digit(1), digit(2), cursor.peek()) else {
            return Err(cursor.error("did not find URI escaped octet"));
        };
        let byte = u8::try_from(high << 4 | low).unwrap_or_default();
        left = match (left, byte) {
            (Some(left), 0x80..=0xbf) => Some(left - 1),
            (Some(_), _) => return Err(cursor.error("found an incorrect trailing UTF-8 octet")),
            (None, 0..=0x7f) => Some(0),
            (None, 0xc0..=0xdf) => Some(1),
            (None, 0xe0..=0xef) => Some(2),
            (None, 0xf0..=0xf7) => Some(3),
            (None, _) => return Err(cursor.error("found an incorrect leading UTF-8 octet")),
        };
        uri.push(byte);
        (0..3).for_each(|_| cursor.skip());
    }
    Ok(())
}

fn version_number(cursor: &mut TextCursor<'_>) -> Result<u32, String> {
    let mut number = 0;
    let mut length = 0;
    while let Some(digit) = cursor.peek().to_digit(10) {
        length += 1;
        if length > 2 {
            return Err(cursor.error("found extremely long version number"));
        }
        number = number * 10 + digit;
        cursor.skip();
    }
    if length == 0 {
        return Err(cursor.error("did not find expected version number"));
    }
    Ok(number)
}
