//! Parsing: from tokens to a tree.

use super::identifier::{is_reserved, without_dot};
use super::issue::Issue;
use super::message::{FieldInitializer, MessageNode};
use super::syntax_recovery;
use super::syntax_tree::{Expr, OPTIONAL_PART, SyntaxNode, qualified};
use super::token::{Spanned, Token, UNRECOGNIZED, tokens};
use super::value::Literal;
use super::{DEPTH, functions, macros, signatures};

/// Message of a syntax error, which [`syntax_recovery`] replaces.
const SYNTAX: &str = "Syntax error";

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
    // As in ANTLR, the parser skips text that is not a token. Literals out of range are found later.
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
    issues.sort_by_key(|issue| issue.at);
    Err(issues)
}

fn parse_tokens(text: &str, tokens: Vec<Spanned>) -> Result<SyntaxNode, Vec<Issue>> {
    let mut parser = CelParser { tokens, next: 0, depth: 0 };
    let issue = match parser.expression() {
        Ok(node) if parser.peek().token == Token::End => return Ok(node),
        Ok(_) => parser.syntax_error(),
        Err(issue) => issue,
    };
    let mut issues = syntax_recovery::issues(text, &parser.tokens);
    if issues.is_empty() || issue.message != SYNTAX {
        issues.push(issue);
    }
    issues.sort_by_key(|issue| issue.at);
    Err(issues)
}

struct CelParser {
    tokens: Vec<Spanned>,
    next: usize,
    /// Number of rules that are being parsed.
    depth: usize,
}

impl CelParser {
    fn peek(&self) -> &Spanned {
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    /// Returns the issue of a token that cannot stand at its place.
    fn syntax_error(&self) -> Issue {
        Issue::new(self.peek().at, SYNTAX)
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
        Err(self.syntax_error())
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
        // The first error ends the parsing, so only the successful path restores the depth.
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(Issue::new(self.peek().at, format!("expression recursion limit exceeded: {DEPTH}")));
        }
        let condition = self.or()?;
        let node = if let Some(at) = self.take("?") {
            let then = self.or()?;
            self.expect(":")?;
            let otherwise = self.expression()?;
            Self::global_call(at, "_?_:_", vec![condition, then, otherwise])?
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

    // `expression` to `name_or_literal` call each other once per level of nesting. Their rarer parts are functions of their own, so that
    // their frames are small: 100 levels must fit into the stack of a thread even without optimisation.
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

    /// Builds a call of a global function or an operator.
    fn global_call(at: usize, function: &str, arguments: Vec<SyntaxNode>) -> Result<SyntaxNode, Issue> {
        Self::node(at, Expr::Call { function: function.to_owned(), target: None, arguments })
    }

    fn unary(&mut self) -> Result<SyntaxNode, Issue> {
        match self.operator(&[("!", "!_"), ("-", "-_")]) {
            Some((at, function)) => self.negation(at, function),
            None => self.member(),
        }
    }

    /// Parses the rest of a negation: further signs and the operand. The first sign is consumed already.
    fn negation(&mut self, at: usize, function: &str) -> Result<SyntaxNode, Issue> {
        let sign = &function[..1];
        let mut count = 1;
        while self.take(sign).is_some() {
            count += 1;
        }
        // Only a single sign is part of the literal.
        let operand = if sign == "-" && count == 1 { self.minus_operand()? } else { self.member()? };
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

    /// Parses the operand of a single minus sign, which may be 2⁶³.
    fn minus_operand(&mut self) -> Result<SyntaxNode, Issue> {
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

    /// Parses the rest of a selection after its dot: a field, or a call of a member function.
    fn selection(&mut self, dot: usize, node: SyntaxNode) -> Result<SyntaxNode, Issue> {
        let is_optional = self.take("?").is_some();
        let Spanned { token: Token::Ident(field), .. } = self.peek().clone() else {
            return Err(self.syntax_error());
        };
        let at = self.peek().at;
        self.next += 1;
        if is_optional {
            let field = Self::node(at, Expr::Literal(Literal::String(field)))?;
            return Self::global_call(dot, "_?._", vec![node, field]);
        }
        if let Some(open) = self.take("(") {
            let arguments = self.arguments()?;
            return Self::member_call(open, node, field, arguments);
        }
        let select = Self::node(dot, Expr::Select { operand: Box::new(node), field })?;
        // The name of a type with a namespace looks like a field.
        match qualified(&select).filter(|name| functions::TYPES.contains(&name.as_str())) {
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
            let Spanned { token: Token::Ident(name), .. } = self.peek().clone() else {
                return Err(self.syntax_error());
            };
            self.next += 1;
            let at = self.peek().at;
            self.expect(":")?;
            fields.push(FieldInitializer { at, name, is_optional, value: self.expression()? });
            if self.take(",").is_none() {
                self.expect("}")?;
                return Ok(fields);
            }
        }
    }

    /// Parses an element of a list, which is optional after a question mark.
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
        Self::global_call(at, OPTIONAL_PART, vec![part])
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
                    return Err(self.syntax_error());
                };
                self.next += 1;
                self.named(at, format!(".{name}"))
            }
            Token::Sign("[") => self.list(at),
            Token::Sign("{") => self.map(at),
            Token::Sign(_) | Token::EscapedIdent | Token::End => Err(self.syntax_error()),
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
            return Self::call(open, &name, arguments);
        }
        let plain = without_dot(&name);
        if is_reserved(plain) || plain == "__unused" {
            return Err(Issue::new(at, format!("reserved identifier: {plain}")));
        }
        Self::node(at, Expr::Ident(name))
    }

    /// Builds a call of a global function, or the macro `has`.
    fn call(at: usize, function: &str, mut arguments: Vec<SyntaxNode>) -> Result<SyntaxNode, Issue> {
        if function == "has" && arguments.len() == 1 {
            let SyntaxNode { at: place, expr, .. } = arguments.remove(0);
            let Expr::Select { operand, field } = expr else {
                return Err(Issue::new(place, "invalid argument to has() macro"));
            };
            return Self::node(at, Expr::Has { operand, field });
        }
        Self::global_call(at, without_dot(function), arguments)
    }

    /// Builds a call of a member function, or a macro.
    fn member_call(
        at: usize,
        target: SyntaxNode,
        function: String,
        arguments: Vec<SyntaxNode>,
    ) -> Result<SyntaxNode, Issue> {
        // A function of a namespace, such as `sets.contains(a, b)`, looks like a member function.
        let namespaced = qualified(&target).map(|namespace| format!("{namespace}.{function}"));
        if let Some(function) = namespaced.filter(|name| signatures::is_namespaced(name)) {
            return Self::node(at, Expr::Call { function, target: None, arguments });
        }
        match macros::form(&function, arguments.len()) {
            Some(form) => {
                let fold = macros::fold(form, &function, target, arguments)?;
                Self::node(at, Expr::Fold(Box::new(fold)))
            }
            None => Self::node(at, Expr::Call { function, target: Some(Box::new(target)), arguments }),
        }
    }
}
