//! Parsing: from tokens to a tree.

use super::message::{FieldInitializer, MessageNode};
use super::syntax_tree::{Expr, Fold, FoldKind, OPTIONAL_PART, SyntaxNode, qualified};
use super::token::{Spanned, Token, tokens};
use super::value::Literal;
use super::{DEPTH, Issue};

/// Functions of a namespace, which look like member functions: `sets.contains(a, b)`.
const NAMESPACED: [&str; 25] = [
    "format.byte",
    "format.date",
    "format.datetime",
    "format.dns1035Label",
    "format.dns1035LabelPrefix",
    "format.dns1123Label",
    "format.dns1123LabelPrefix",
    "format.dns1123Subdomain",
    "format.dns1123SubdomainPrefix",
    "format.labelValue",
    "format.named",
    "format.qualifiedName",
    "format.uri",
    "format.uuid",
    "ip.isCanonical",
    "jsonpatch.escapeKey",
    "lists.range",
    "optional.none",
    "optional.of",
    "optional.ofNonZeroValue",
    "optional.unwrap",
    "sets.contains",
    "sets.equivalent",
    "sets.intersects",
    "strings.quote",
];

/// Names of types with a namespace, which look like fields.
const NAMESPACED_TYPES: [&str; 4] =
    ["google.protobuf.Duration", "google.protobuf.Timestamp", "net.CIDR", "net.IP"];

/// Beginning of the message about a text that is no token.
const UNRECOGNIZED: &str = "Syntax error: token recognition error at: '";

/// Whether a text can be the name of a variable.
#[must_use]
pub fn is_identifier(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let starts = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    starts && text.bytes().all(is_word) && !is_reserved(text)
}

/// Whether the grammar reserves a word.
pub(super) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word) || KEYWORDS.contains(&word)
}

/// Tokens with which an expression can begin, in ANTLR's order.
const BEGINNINGS: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// Words that the grammar keeps for later. They cannot be names of variables.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Words with a meaning in the grammar.
const KEYWORDS: [&str; 4] = ["true", "false", "null", "in"];

/// Binary operators by increasing precedence, with cel-go's names.
const LEVELS: [&[(&str, &str)]; 3] = [
    &[
        ("==", "_==_"),
        ("!=", "_!=_"),
        ("<=", "_<=_"),
        (">=", "_>=_"),
        ("<", "_<_"),
        (">", "_>_"),
        ("in", "@in"),
    ],
    &[("+", "_+_"), ("-", "_-_")],
    &[("*", "_*_"), ("/", "_/_"), ("%", "_%_")],
];

/// Parses an expression.
pub(super) fn parse(text: &str) -> Result<SyntaxNode, Vec<Issue>> {
    let mut issues = match tokens(text) {
        Ok(tokens) => return parse_tokens(text, tokens),
        Err(issues) => issues,
    };
    // As in ANTLR, the parser goes on without the texts that are no tokens. Literals out of range are found later.
    let mut rest = text.to_owned();
    for issue in &issues {
        let unknown = issue.message.strip_prefix(UNRECOGNIZED).and_then(|text| text.strip_suffix('\''));
        let Some(unknown) = unknown else { return Err(issues) };
        rest.replace_range(issue.at..issue.at + unknown.len(), &" ".repeat(unknown.len()));
    }
    if let Ok(tokens) = tokens(&rest)
        && let Err(found) = parse_tokens(text, tokens)
    {
        issues.extend(found);
    }
    Err(issues)
}

fn parse_tokens(text: &str, tokens: Vec<Spanned>) -> Result<SyntaxNode, Vec<Issue>> {
    let mut parser = CelParser { text, tokens, next: 0, depth: 0 };
    let node = parser.expression().map_err(|issue| vec![issue])?;
    let Spanned { token, at, .. } = parser.peek().clone();
    if token == Token::End {
        return Ok(node);
    }
    // ANTLR deletes a single token if the text is correct without it.
    let is_last = parser.tokens.get(parser.next + 1).is_none_or(|next| next.token == Token::End);
    let what = if is_last { "extraneous" } else { "mismatched" };
    let message = format!("Syntax error: {what} input '{}' expecting <EOF>", parser.shown());
    Err(vec![Issue::new(at, message)])
}

struct CelParser<'a> {
    text: &'a str,
    tokens: Vec<Spanned>,
    next: usize,
    /// Number of rules that are being parsed.
    depth: usize,
}

impl CelParser<'_> {
    fn peek(&self) -> &Spanned {
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    /// Text of the next token in messages.
    fn shown(&self) -> String {
        let next = self.peek();
        if next.token == Token::End { "<EOF>".to_owned() } else { self.text[next.at..next.end].to_owned() }
    }

    /// Returns the issue of a dot that is not followed by a name. Its text does not name the end of the expression.
    fn no_field(&self) -> Issue {
        let next = self.peek();
        let message =
            format!("Syntax error: no viable alternative at input '.{}'", &self.text[next.at..next.end]);
        Issue::new(next.at, message)
    }

    /// Takes a sign if it is next, and returns its offset.
    fn take(&mut self, sign: &str) -> Option<usize> {
        let Spanned { token: Token::Sign(found), at, .. } = self.peek() else { return None };
        let at = *at;
        (*found == sign).then(|| {
            self.next += 1;
            at
        })
    }

    fn expect(&mut self, sign: &str) -> Result<(), Issue> {
        if self.take(sign).is_some() {
            return Ok(());
        }
        let at = self.peek().at;
        // At the end ANTLR inserts the missing token.
        let message = if self.peek().token == Token::End {
            format!("Syntax error: missing '{sign}' at '<EOF>'")
        } else {
            format!("Syntax error: mismatched input '{}' expecting '{sign}'", self.shown())
        };
        Err(Issue::new(at, message))
    }

    /// Builds a node, unless it is nested too deep.
    fn node(at: usize, expr: Expr) -> Result<SyntaxNode, Issue> {
        let node = SyntaxNode::new(at, expr);
        if node.depth() > DEPTH {
            return Err(Issue::new(at, format!("expression recursion limit exceeded: {DEPTH}")));
        }
        Ok(node)
    }

    fn expression(&mut self) -> Result<SyntaxNode, Issue> {
        // The first error ends the parsing, so only the way without an error counts back.
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(Issue::new(self.peek().at, format!("expression recursion limit exceeded: {DEPTH}")));
        }
        let condition = self.or()?;
        let node = if let Some(at) = self.take("?") {
            let then = self.or()?;
            self.expect(":")?;
            let otherwise = self.expression()?;
            let arguments = vec![condition, then, otherwise];
            Self::node(at, Expr::Call { function: "_?_:_".to_owned(), target: None, arguments })?
        } else {
            condition
        };
        self.depth -= 1;
        Ok(node)
    }

    fn or(&mut self) -> Result<SyntaxNode, Issue> {
        // A chain is one node, so that a long chain is not nested deep; cel-go balances it for this purpose.
        let first = self.and()?;
        let mut terms = vec![first];
        let mut place = None;
        while let Some(at) = self.take("||") {
            place.get_or_insert(at);
            terms.push(self.and()?);
        }
        match (place, terms.len()) {
            (Some(at), _) => Self::node(at, Expr::Or(terms)),
            _ => Ok(terms.remove(0)),
        }
    }

    fn and(&mut self) -> Result<SyntaxNode, Issue> {
        let first = self.binary(0)?;
        let mut terms = vec![first];
        let mut place = None;
        while let Some(at) = self.take("&&") {
            place.get_or_insert(at);
            terms.push(self.binary(0)?);
        }
        match (place, terms.len()) {
            (Some(at), _) => Self::node(at, Expr::And(terms)),
            _ => Ok(terms.remove(0)),
        }
    }

    // Functions through which nested expressions recurse leave their rarer parts to others, so that their frames are small: 100 levels must
    // fit into the stack of a thread even without optimisation.
    fn binary(&mut self, level: usize) -> Result<SyntaxNode, Issue> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut node = self.binary(level + 1)?;
        while let Some((at, function)) = self.operator(operators) {
            let right = self.binary(level + 1)?;
            node = Self::global_call(at, function, vec![node, right])?;
        }
        Ok(node)
    }

    /// Takes one of these operators if it is next, and returns its offset and cel-go's name.
    fn operator(&mut self, operators: &[(&str, &'static str)]) -> Option<(usize, &'static str)> {
        operators.iter().find_map(|(sign, function)| Some((self.take(sign)?, *function)))
    }

    fn global_call(at: usize, function: &str, arguments: Vec<SyntaxNode>) -> Result<SyntaxNode, Issue> {
        Self::node(at, Expr::Call { function: function.to_owned(), target: None, arguments })
    }

    fn unary(&mut self) -> Result<SyntaxNode, Issue> {
        match self.operator(&[("!", "!_"), ("-", "-_")]) {
            Some((at, function)) => self.negation(at, function),
            None => self.member(),
        }
    }

    /// Parses the operand of signs, of which the first is taken.
    fn negation(&mut self, at: usize, function: &str) -> Result<SyntaxNode, Issue> {
        let sign = &function[..1];
        let mut count = 1;
        while self.take(sign).is_some() {
            count += 1;
        }
        // Only a single sign is part of the literal.
        let operand = if sign == "-" && count == 1 { self.negated()? } else { self.member()? };
        // As in cel-go, the operand's type does not matter if the signs cancel out.
        if count % 2 == 0 {
            return Ok(operand);
        }
        // A sign before a number is part of the literal: the smallest integer has no positive counterpart.
        let negated = match (sign, &operand.expr) {
            ("-", Expr::Literal(Literal::Int(value))) => value.checked_neg().map(Literal::Int),
            ("-", Expr::Literal(Literal::IntMinimum)) => Some(Literal::Int(i64::MIN)),
            ("-", Expr::Literal(Literal::Double(value))) => Some(Literal::Double(-value)),
            _ => None,
        };
        match negated {
            Some(literal) => Self::node(at, Expr::Literal(literal)),
            None => Self::global_call(at, function, vec![operand]),
        }
    }

    /// Parses the operand of a minus sign, which may be 2⁶³.
    fn negated(&mut self) -> Result<SyntaxNode, Issue> {
        let Spanned { token: Token::Literal(Literal::IntMinimum), at, .. } = *self.peek() else {
            return self.member();
        };
        self.next += 1;
        Self::node(at, Expr::Literal(Literal::IntMinimum))
    }

    fn member(&mut self) -> Result<SyntaxNode, Issue> {
        let mut node = self.primary()?;
        loop {
            if let Some(dot) = self.take(".") {
                node = self.selection(dot, node)?;
            } else if let Some(at) = self.take("[") {
                node = self.indexed(at, node)?;
            } else if self.peek().token == Token::Sign("{")
                && let Some(name) = qualified(&node)
            {
                node = self.message(name)?;
            } else {
                return Ok(node);
            }
        }
    }

    /// Parses what follows a dot: a field, or a call of a member function.
    fn selection(&mut self, dot: usize, node: SyntaxNode) -> Result<SyntaxNode, Issue> {
        let is_optional = self.take("?").is_some();
        let Spanned { token: Token::Ident(field), .. } = self.peek().clone() else {
            return Err(self.no_field());
        };
        let at = self.peek().at;
        self.next += 1;
        if is_optional {
            let field = Self::node(at, Expr::Literal(Literal::String(field)))?;
            return Self::global_call(dot, "_?._", vec![node, field]);
        }
        if let Some(open) = self.take("(") {
            let arguments = self.arguments()?;
            return self.member_call(open, node, field, arguments);
        }
        let select = Self::node(dot, Expr::Select { operand: Box::new(node), field, test: false })?;
        match qualified(&select).filter(|name| NAMESPACED_TYPES.contains(&name.as_str())) {
            Some(name) => Self::node(dot, Expr::Ident(name)),
            None => Ok(select),
        }
    }

    /// Parses an index up to the closing bracket.
    fn indexed(&mut self, at: usize, node: SyntaxNode) -> Result<SyntaxNode, Issue> {
        let function = if self.take("?").is_some() { "_[?_]" } else { "_[_]" };
        let index = self.expression()?;
        self.expect("]")?;
        Self::global_call(at, function, vec![node, index])
    }

    /// Parses the fields of a message in brackets.
    fn message(&mut self, name: String) -> Result<SyntaxNode, Issue> {
        let at = self.peek().at;
        self.expect("{")?;
        let fields = self.field_initializers()?;
        Self::node(at, Expr::Message(Box::new(MessageNode { name, fields })))
    }

    /// Parses the arguments of a call up to the closing bracket.
    fn arguments(&mut self) -> Result<Vec<SyntaxNode>, Issue> {
        let mut arguments = Vec::new();
        if self.take(")").is_some() {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression()?);
            if self.take(",").is_none() {
                self.expect(")")?;
                return Ok(arguments);
            }
        }
    }

    /// Parses parts of a list or map up to the closing bracket. Unlike arguments, they may end with a comma, which may also stand alone.
    fn parts<T>(&mut self, close: &str, part: fn(&mut Self) -> Result<T, Issue>) -> Result<Vec<T>, Issue> {
        let mut parts = Vec::new();
        if self.take(",").is_some() {
            self.expect(close)?;
            return Ok(parts);
        }
        while self.take(close).is_none() {
            if !parts.is_empty() && self.peek().token == Token::End {
                self.expect(close)?;
            }
            parts.push(part(self)?);
            if self.take(",").is_none() {
                self.expect(close)?;
                break;
            }
        }
        Ok(parts)
    }

    /// Parses the fields of a message up to the closing bracket.
    fn field_initializers(&mut self) -> Result<Vec<FieldInitializer>, Issue> {
        let mut fields = Vec::new();
        let mut expected = "{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}";
        loop {
            if self.take("}").is_some() {
                return Ok(fields);
            }
            // As in a list, a comma may stand alone.
            if fields.is_empty() && self.take(",").is_some() {
                self.expect("}")?;
                return Ok(fields);
            }
            let is_optional = self.take("?").is_some();
            if is_optional {
                expected = "{IDENTIFIER, ESC_IDENTIFIER}";
            }
            let Spanned { token: Token::Ident(name), .. } = self.peek().clone() else {
                let shown = self.shown();
                let message = format!("Syntax error: mismatched input '{shown}' expecting {expected}");
                return Err(Issue::new(self.peek().at, message));
            };
            self.next += 1;
            let at = self.peek().at;
            self.expect(":")?;
            fields.push(FieldInitializer { at, name, is_optional, value: self.expression()? });
            if self.take(",").is_none() {
                self.expect("}")?;
                return Ok(fields);
            }
            expected = "{'}', '?', IDENTIFIER, ESC_IDENTIFIER}";
        }
    }

    /// Parses an element of a list, which is optional behind a question mark.
    fn element(&mut self) -> Result<SyntaxNode, Issue> {
        let place = self.take("?");
        let element = self.expression()?;
        match place {
            Some(at) => Self::optional_part(at, element),
            None => Ok(element),
        }
    }

    fn entry(&mut self) -> Result<(SyntaxNode, SyntaxNode), Issue> {
        let place = self.take("?");
        let key = self.expression()?;
        self.expect(":")?;
        let value = self.expression()?;
        // The value is optional, although the question mark stands before the key.
        Ok(match place {
            Some(at) => (key, Self::optional_part(at, value)?),
            None => (key, value),
        })
    }

    fn optional_part(at: usize, part: SyntaxNode) -> Result<SyntaxNode, Issue> {
        let call = Expr::Call { function: OPTIONAL_PART.to_owned(), target: None, arguments: vec![part] };
        Self::node(at, call)
    }

    fn primary(&mut self) -> Result<SyntaxNode, Issue> {
        if self.take("(").is_some() {
            let inner = self.expression()?;
            self.expect(")")?;
            return Ok(inner);
        }
        self.name_or_literal()
    }

    fn name_or_literal(&mut self) -> Result<SyntaxNode, Issue> {
        let Spanned { token, at, .. } = self.peek().clone();
        match token {
            Token::Literal(Literal::IntMinimum) => Err(Issue::new(at, "invalid int literal")),
            Token::Literal(literal) => {
                self.next += 1;
                Self::node(at, Expr::Literal(literal))
            }
            Token::Ident(name) => {
                self.next += 1;
                self.named(at, name)
            }
            Token::Sign(".") => {
                self.next += 1;
                let Spanned { token: Token::Ident(name), at, .. } = self.peek().clone() else {
                    return Err(self.no_field());
                };
                self.next += 1;
                self.named(at, format!(".{name}"))
            }
            Token::Sign("[") => self.list(at),
            Token::Sign("{") => self.map(at),
            Token::Sign(_) | Token::End => {
                let message =
                    format!("Syntax error: mismatched input '{}' expecting {BEGINNINGS}", self.shown());
                Err(Issue::new(at, message))
            }
        }
    }

    fn list(&mut self, at: usize) -> Result<SyntaxNode, Issue> {
        self.next += 1;
        let elements = self.parts("]", Self::element)?;
        Self::node(at, Expr::List(elements))
    }

    fn map(&mut self, at: usize) -> Result<SyntaxNode, Issue> {
        self.next += 1;
        let entries = self.parts("}", Self::entry)?;
        Self::node(at, Expr::Map(entries))
    }

    /// Parses the rest of a name: the arguments, if it is a function's name. A name with a dot before it is global.
    fn named(&mut self, at: usize, name: String) -> Result<SyntaxNode, Issue> {
        if let Some(open) = self.take("(") {
            let arguments = self.arguments()?;
            return Self::call(open, name, arguments);
        }
        let plain = name.trim_start_matches('.');
        if RESERVED.contains(&plain) || plain == "__unused" {
            return Err(Issue::new(at, format!("reserved identifier: {plain}")));
        }
        Self::node(at, Expr::Ident(name))
    }

    /// Builds a call of a global function, or the macro `has`.
    fn call(at: usize, function: String, mut arguments: Vec<SyntaxNode>) -> Result<SyntaxNode, Issue> {
        if function == "has" && arguments.len() == 1 {
            let SyntaxNode { at: place, expr, .. } = arguments.remove(0);
            let Expr::Select { operand, field, test: false } = expr else {
                return Err(Issue::new(place, "invalid argument to has() macro"));
            };
            return Self::node(at, Expr::Select { operand, field, test: true });
        }
        // A dot at the beginning only says that the name is not relative to a container.
        let function = function.strip_prefix('.').map(str::to_owned).unwrap_or(function);
        Self::node(at, Expr::Call { function, target: None, arguments })
    }

    /// Builds a call of a member function, or a macro.
    fn member_call(
        &self,
        at: usize,
        target: SyntaxNode,
        function: String,
        mut arguments: Vec<SyntaxNode>,
    ) -> Result<SyntaxNode, Issue> {
        let namespaced = qualified(&target).map(|namespace| format!("{namespace}.{function}"));
        if let Some(function) = namespaced.filter(|name| NAMESPACED.contains(&name.as_str())) {
            return Self::node(at, Expr::Call { function, target: None, arguments });
        }
        let (kind, variables) = match (&*function, arguments.len()) {
            ("all", 2) => (FoldKind::All, 1),
            ("all", 3) => (FoldKind::All, 2),
            ("exists", 2) => (FoldKind::Exists, 1),
            ("exists", 3) => (FoldKind::Exists, 2),
            ("exists_one" | "existsOne", 2) => (FoldKind::ExistsOne, 1),
            ("exists_one" | "existsOne", 3) => (FoldKind::ExistsOne, 2),
            ("map", 2 | 3) => (FoldKind::Map, 1),
            ("filter", 2) => (FoldKind::Filter, 1),
            ("transformList", 3 | 4) => (FoldKind::TransformList, 2),
            ("transformMap", 3 | 4) => (FoldKind::TransformMap, 2),
            ("transformMapEntry", 3 | 4) => (FoldKind::TransformMapEntry, 2),
            ("sortBy", 2) => (FoldKind::SortBy, 1),
            ("optMap", 2) => (FoldKind::OptMap, 1),
            ("optFlatMap", 2) => (FoldKind::OptFlatMap, 1),
            _ => return Self::node(at, Expr::Call { function, target: Some(Box::new(target)), arguments }),
        };
        let refusal = match kind {
            FoldKind::Map | FoldKind::Filter | FoldKind::SortBy => "argument is not an identifier".to_owned(),
            FoldKind::OptMap | FoldKind::OptFlatMap => {
                format!("{function}() variable name must be a simple identifier")
            }
            _ => "argument must be a simple name".to_owned(),
        };
        let mut name = || {
            let SyntaxNode { at, expr, .. } = arguments.remove(0);
            match expr {
                Expr::Ident(name) => Ok((at, name)),
                _ => Err(Issue::new(at, refusal.clone())),
            }
        };
        let (_, variable) = name()?;
        let second = if variables == 2 {
            let (at, second) = name()?;
            if second == variable {
                return Err(Issue::new(at, format!("duplicate variable name: {second}")));
            }
            Some(second)
        } else {
            None
        };
        let filter = if arguments.len() == 2 { Some(arguments.remove(0)) } else { None };
        let body = arguments.remove(0);
        let fold = Fold { kind, range: target, variable, second, filter, body };
        Self::node(at, Expr::Fold(Box::new(fold)))
    }
}
