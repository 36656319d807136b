//! Sets of kinds of tokens, as bits, and their form in messages.

/// Kinds of tokens as ANTLR shows them, in its order. The index is a bit of a [`TokenKinds`].
pub(super) const KINDS: [&str; 38] = [
    "<EOF>",
    "'=='",
    "'!='",
    "'in'",
    "'<'",
    "'<='",
    "'>='",
    "'>'",
    "'&&'",
    "'||'",
    "'['",
    "']'",
    "'{'",
    "'}'",
    "'('",
    "')'",
    "'.'",
    "','",
    "'-'",
    "'!'",
    "'?'",
    "':'",
    "'+'",
    "'*'",
    "'/'",
    "'%'",
    "'true'",
    "'false'",
    "'null'",
    "WHITESPACE",
    "COMMENT",
    "NUM_FLOAT",
    "NUM_INT",
    "NUM_UINT",
    "STRING",
    "BYTES",
    "IDENTIFIER",
    "ESC_IDENTIFIER",
];

/// A set of kinds of tokens, with a bit for each.
pub(super) type TokenKinds = u64;

pub(super) const END: TokenKinds = 1;
pub(super) const RELATIONS: TokenKinds = 0b1111_1110;
pub(super) const AND: TokenKinds = 1 << 8;
pub(super) const OR: TokenKinds = 1 << 9;
pub(super) const OPEN_LIST: TokenKinds = 1 << 10;
pub(super) const CLOSE_LIST: TokenKinds = 1 << 11;
pub(super) const OPEN_MAP: TokenKinds = 1 << 12;
pub(super) const CLOSE_MAP: TokenKinds = 1 << 13;
pub(super) const OPEN: TokenKinds = 1 << 14;
pub(super) const CLOSE: TokenKinds = 1 << 15;
pub(super) const DOT: TokenKinds = 1 << 16;
pub(super) const COMMA: TokenKinds = 1 << 17;
pub(super) const MINUS: TokenKinds = 1 << 18;
pub(super) const NOT: TokenKinds = 1 << 19;
pub(super) const QUESTION: TokenKinds = 1 << 20;
pub(super) const COLON: TokenKinds = 1 << 21;
pub(super) const ARITHMETIC: TokenKinds = MINUS | (0b1111 << 22);
pub(super) const WORDS: TokenKinds = 0b111 << 26;
pub(super) const FLOAT: TokenKinds = 1 << 31;
pub(super) const INT: TokenKinds = 1 << 32;
pub(super) const LITERALS: TokenKinds = WORDS | (0b1_1111 << 31);
pub(super) const NAME: TokenKinds = 1 << 36;
/// Index of names in backquotes among [`KINDS`].
pub(super) const ESCAPED_INDEX: usize = 37;
pub(super) const ESCAPED: TokenKinds = 1 << ESCAPED_INDEX;
pub(super) const NAMES: TokenKinds = NAME | ESCAPED;
/// The end of a rule, after which the rule that contains it goes on.
pub(super) const RULE_END: TokenKinds = 1 << 63;
/// Tokens with which an operand begins.
pub(super) const OPERAND: TokenKinds = OPEN_LIST | OPEN_MAP | OPEN | DOT | MINUS | LITERALS | NAME;
/// Tokens with which an expression begins.
pub(super) const BEGIN: TokenKinds = OPERAND | NOT;
/// Tokens with which an element of a list or map begins.
pub(super) const ELEMENT: TokenKinds = BEGIN | QUESTION;

/// Returns a set as ANTLR shows it.
pub(super) fn shown_set(set: TokenKinds) -> String {
    let kinds = KINDS.iter().enumerate().filter(|(index, _)| set & (1 << index) != 0);
    let kinds: Vec<&str> = kinds.map(|(_, kind)| *kind).collect();
    if let [kind] = kinds[..] { kind.to_owned() } else { format!("{{{}}}", kinds.join(", ")) }
}
