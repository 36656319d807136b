//! Syntax errors as ANTLR reports them. After an error, ANTLR deletes, inserts or skips tokens and continues, so that a text can have several errors.
//!
//! The parser finds only the first error. Then this module reads the tokens again, by the rules of cel-go's grammar, without building a tree. Before a decision
//! of the grammar it checks the next token (`sync`). After an error in a rule it skips to a token that may follow one of the rules that are being read
//! (`recover`).

mod token_kinds;

use self::token_kinds::{
    AND, ARITHMETIC, BEGIN, CLOSE, CLOSE_LIST, CLOSE_MAP, COLON, COMMA, DOT, ELEMENT, END, ESCAPED,
    ESCAPED_INDEX, FLOAT, INT, KINDS, LITERALS, MINUS, NAME, NAMES, NOT, OPEN, OPEN_LIST, OPEN_MAP, OPERAND,
    OR, QUESTION, RELATIONS, RULE_END, TokenKinds, WORDS, shown_set,
};
use super::DEPTH;
use super::issue::Issue;
use super::token::{Spanned, Token};
use super::value::Literal;

/// Maximum number of reported errors.
const LIMIT: usize = 100;

/// A rule ended with an error.
struct SyntaxFailure;

type RuleResult = Result<(), SyntaxFailure>;

/// Returns the syntax errors of an expression that the parser refuses, in the order of their places.
pub(super) fn issues(text: &str, tokens: &[Spanned]) -> Vec<Issue> {
    let mut reader = SyntaxReader {
        text,
        tokens,
        next: 0,
        depth: 0,
        issues: Vec::new(),
        is_quiet: false,
        first_field: 0,
        follow: Vec::new(),
        last_recovery: (usize::MAX, Vec::new()),
    };
    reader.rule(END, SyntaxReader::expression);
    let _ = reader.take(END, 0);
    let mut issues = reader.issues;
    issues.truncate(LIMIT);
    issues
}

struct SyntaxReader<'a> {
    text: &'a str,
    tokens: &'a [Spanned],
    next: usize,
    /// Number of nested expressions.
    depth: usize,
    issues: Vec<Issue>,
    /// Whether an error was reported and no token was read since: further errors are its consequences.
    is_quiet: bool,
    /// Offset of the first field of the innermost message, at which cel-go reports names in backquotes.
    first_field: usize,
    /// Tokens that may follow each rule that is being read.
    follow: Vec<TokenKinds>,
    /// Index of the token at which the last recovery began, and the rule depths of all recoveries that began there. A second recovery of one
    /// rule at one token would make no progress, so it skips the token.
    last_recovery: (usize, Vec<u32>),
}

impl SyntaxReader<'_> {
    fn token(&self, ahead: usize) -> &Spanned {
        &self.tokens[(self.next + ahead).min(self.tokens.len() - 1)]
    }

    /// Returns the kind of the token `ahead` places after the next one. Its bit is the index in [`KINDS`].
    fn kind(&self, ahead: usize) -> TokenKinds {
        let index = match &self.token(ahead).token {
            Token::End => 0,
            Token::EscapedIdent => ESCAPED_INDEX,
            Token::Ident(_) => 36,
            Token::Literal(literal) => match literal {
                Literal::Bool(true) => 26,
                Literal::Bool(false) => 27,
                Literal::Null => 28,
                Literal::Double(_) => 31,
                Literal::Int(_) | Literal::IntMinimum => 32,
                Literal::Uint(_) => 33,
                Literal::String(_) => 34,
                Literal::Bytes(_) => 35,
            },
            Token::Sign(sign) => KINDS.iter().position(|kind| kind.trim_matches('\'') == *sign).unwrap_or(0),
        };
        1 << index
    }

    fn is_next(&self, set: TokenKinds) -> bool {
        self.kind(0) & set != 0
    }

    /// Adds to a set that contains the end of the rule the tokens that may follow it.
    fn in_context(&self, mut set: TokenKinds) -> TokenKinds {
        for follow in self.follow.iter().rev() {
            if set & RULE_END == 0 {
                return set;
            }
            set = (set & !RULE_END) | follow;
        }
        set & !RULE_END
    }

    /// Returns the text of the next token for messages.
    fn shown(&self) -> &str {
        let next = self.token(0);
        if next.token == Token::End { "<EOF>" } else { &self.text[next.at..next.end] }
    }

    /// Reports an error at the token `ahead` places after the next one, unless the error is a consequence of the last one.
    fn report(&mut self, ahead: usize, message: &str) {
        if !self.is_quiet {
            self.is_quiet = true;
            let at = self.token(ahead).at;
            self.issues.push(Issue::new(at, format!("Syntax error: {message}")));
        }
    }

    fn report_expected(&mut self, what: &str, expected: TokenKinds) {
        let message = format!("{what} input '{}' expecting {}", self.shown(), shown_set(expected));
        self.report(0, &message);
    }

    /// Checks that the next token is one of a decision. A single wrong token before such a token is deleted.
    fn sync(&mut self, expected: TokenKinds) -> RuleResult {
        if self.is_quiet || expected & RULE_END != 0 || self.is_next(expected) || self.delete(expected) {
            return Ok(());
        }
        self.report_expected("mismatched", expected);
        Err(SyntaxFailure)
    }

    /// Deletes the next token if the one after it is expected.
    fn delete(&mut self, expected: TokenKinds) -> bool {
        if self.kind(1) & expected == 0 {
            return false;
        }
        self.report_expected("extraneous", expected);
        self.next += 1;
        self.is_quiet = false;
        true
    }

    /// Reads a token of `expected`, which tokens of `after` may follow. Deletes a wrong token before it, or inserts it.
    fn take(&mut self, expected: TokenKinds, after: TokenKinds) -> RuleResult {
        if self.is_next(expected) {
            self.next += 1;
            self.is_quiet = false;
            return Ok(());
        }
        if self.delete(expected) {
            self.next += 1;
            return Ok(());
        }
        if self.is_next(self.in_context(after)) {
            let message = format!("missing {} at '{}'", shown_set(expected), self.shown());
            self.report(0, &message);
            return Ok(());
        }
        self.report_expected("mismatched", expected);
        Err(SyntaxFailure)
    }

    /// Reads a rule that tokens of `follow` may follow. After an error in the rule, skips to a token at which any rule goes on.
    fn rule(&mut self, follow: TokenKinds, read: fn(&mut Self) -> RuleResult) {
        self.follow.push(follow);
        if read(self).is_err() {
            self.recover();
        }
        self.follow.pop();
    }

    /// Skips to a token at which one of the rules that are being read can continue.
    fn recover(&mut self) {
        let place = u32::try_from(self.follow.len()).unwrap_or(u32::MAX);
        let (index, places) = &mut self.last_recovery;
        if *index == self.next && places.contains(&place) {
            self.next += 1;
        }
        if *index != self.next {
            *index = self.next;
            places.clear();
        }
        places.push(place);
        self.skip_to(0);
    }

    /// Skips tokens up to one of `also`, or up to one that may follow a rule that is being read.
    fn skip_to(&mut self, also: TokenKinds) {
        let follow = self.follow.iter().fold(also | END, |all, follow| all | follow);
        while !self.is_next(follow) {
            self.next += 1;
        }
    }

    fn expression(&mut self) -> RuleResult {
        self.depth += 1;
        if self.depth > DEPTH {
            // The parser has reported the depth. Errors beyond it are not searched.
            self.next = self.tokens.len() - 1;
            self.is_quiet = true;
            return Ok(());
        }
        let step = self.conditional();
        self.depth -= 1;
        step
    }

    fn conditional(&mut self) -> RuleResult {
        self.rule(QUESTION | RULE_END, Self::or);
        if self.is_next(QUESTION) {
            self.take(QUESTION, BEGIN)?;
            self.rule(COLON, Self::or);
            self.take(COLON, BEGIN)?;
            self.rule(RULE_END, Self::expression);
        }
        Ok(())
    }

    fn or(&mut self) -> RuleResult {
        self.chain(OR, Self::and)
    }

    fn and(&mut self) -> RuleResult {
        self.chain(AND, Self::relation)
    }

    fn relation(&mut self) -> RuleResult {
        self.chain(RELATIONS, Self::calculation)
    }

    fn calculation(&mut self) -> RuleResult {
        self.chain(ARITHMETIC, Self::unary)
    }

    /// Reads operands with these operators between them.
    fn chain(&mut self, operators: TokenKinds, operand: fn(&mut Self) -> RuleResult) -> RuleResult {
        self.rule(operators | RULE_END, operand);
        while self.is_next(operators) {
            self.take(operators, BEGIN)?;
            self.rule(operators | RULE_END, operand);
        }
        Ok(())
    }

    fn unary(&mut self) -> RuleResult {
        self.sync(BEGIN)?;
        if self.is_next(NOT) {
            while self.is_next(NOT) {
                self.take(NOT, BEGIN)?;
                if !self.is_quiet && !self.is_next(BEGIN) {
                    self.report_expected("extraneous", BEGIN);
                    self.skip_to(BEGIN);
                }
            }
        } else if self.is_next(MINUS) && self.kind(1) & (INT | FLOAT) == 0 {
            while self.is_next(MINUS) {
                if self.kind(1) & OPERAND == 0 {
                    return self.no_alternative();
                }
                self.take(MINUS, OPERAND)?;
            }
        }
        self.rule(RULE_END, Self::member);
        Ok(())
    }

    /// Reports that the grammar has no rule for the next two tokens.
    fn no_alternative(&mut self) -> RuleResult {
        let (first, second) = (self.token(0), self.token(1));
        // The end of the input has no text.
        let end = if second.token == Token::End { first.end } else { second.end };
        let message = format!("no viable alternative at input '{}'", &self.text[first.at..end]);
        self.report(1, &message);
        Err(SyntaxFailure)
    }

    fn member(&mut self) -> RuleResult {
        const AFTER: TokenKinds = DOT | OPEN_LIST | RULE_END;
        self.rule(AFTER, Self::primary);
        loop {
            if self.is_next(DOT) {
                if self.kind(1) & (NAMES | QUESTION | WORDS) == 0 {
                    return self.no_alternative();
                }
                self.next += 1;
                self.is_quiet = false;
                if self.is_next(WORDS) {
                    // ANTLR takes a constant for the name of a function.
                    self.take(NAME, OPEN)?;
                }
                if self.is_next(NAME) && self.kind(1) == OPEN {
                    self.next += 1;
                    self.call(AFTER)?;
                    continue;
                }
                if self.is_next(QUESTION) {
                    self.next += 1;
                }
                if !self.is_next(NAMES) {
                    let at = self.token(0).at;
                    self.rule(AFTER, Self::name);
                    self.issues.push(Issue::new(at, "unsupported ident kind"));
                    continue;
                }
                self.refuse_escaped(self.token(0).at);
                self.next += 1;
            } else if self.is_next(OPEN_LIST) {
                self.take(OPEN_LIST, ELEMENT)?;
                self.sync(ELEMENT)?;
                if self.is_next(QUESTION) {
                    self.take(QUESTION, BEGIN)?;
                }
                self.rule(CLOSE_LIST, Self::expression);
                self.take(CLOSE_LIST, AFTER)?;
            } else {
                return Ok(());
            }
        }
    }

    /// Reports a name in backquotes, which Kubernetes does not support, at `at`. cel-go finds it after all syntax errors.
    fn refuse_escaped(&mut self, at: usize) {
        if self.is_next(ESCAPED) {
            self.issues.push(Issue::new(at, "unsupported syntax: '`'"));
        }
    }

    /// Reads the arguments of a call in their brackets.
    fn call(&mut self, after: TokenKinds) -> RuleResult {
        self.take(OPEN, BEGIN | CLOSE)?;
        self.sync(BEGIN | CLOSE)?;
        if self.is_next(BEGIN) {
            self.rule(CLOSE, Self::arguments);
        }
        self.take(CLOSE, after)
    }

    fn arguments(&mut self) -> RuleResult {
        self.rule(COMMA | RULE_END, Self::expression);
        while self.is_next(COMMA) {
            self.take(COMMA, BEGIN)?;
            self.rule(COMMA | RULE_END, Self::expression);
        }
        Ok(())
    }

    fn primary(&mut self) -> RuleResult {
        self.sync(OPERAND)?;
        match self.kind(0) {
            OPEN => {
                self.take(OPEN, BEGIN)?;
                self.rule(CLOSE, Self::expression);
                self.take(CLOSE, RULE_END)
            }
            OPEN_LIST => self.parts(ELEMENT, CLOSE_LIST, Self::elements),
            OPEN_MAP => self.parts(ELEMENT, CLOSE_MAP, Self::entries),
            MINUS if self.kind(1) & (INT | FLOAT) == 0 => self.no_alternative(),
            MINUS => {
                self.take(MINUS, INT | FLOAT)?;
                self.take(INT | FLOAT, RULE_END)
            }
            DOT if self.kind(1) != NAME => self.no_alternative(),
            DOT | NAME => self.named(),
            kind if kind & LITERALS != 0 => self.take(kind, RULE_END),
            // Only after an error, which has been reported.
            _ => Err(SyntaxFailure),
        }
    }

    /// Reads a name, the call of a function, or a message.
    fn named(&mut self) -> RuleResult {
        if self.is_next(DOT) {
            self.take(DOT, NAME)?;
        }
        let mut length = 1;
        while self.kind(length) == DOT && self.kind(length + 1) == NAME {
            length += 2;
        }
        if self.kind(length) == OPEN_MAP {
            self.next += length;
            self.is_quiet = false;
            return self.parts(NAMES | QUESTION, CLOSE_MAP, Self::fields);
        }
        self.take(NAME, RULE_END)?;
        if self.is_next(OPEN) { self.call(RULE_END) } else { Ok(()) }
    }

    /// Reads a list, a map or a message from its opening bracket to the closing one. A comma may stand before that.
    fn parts(
        &mut self,
        begin: TokenKinds,
        close: TokenKinds,
        read: fn(&mut Self) -> RuleResult,
    ) -> RuleResult {
        let expected = begin | COMMA | close;
        self.take(OPEN_LIST | OPEN_MAP, expected)?;
        self.sync(expected)?;
        if self.is_next(begin) {
            self.rule(COMMA | close, read);
        }
        self.sync(COMMA | close)?;
        if self.is_next(COMMA) {
            self.take(COMMA, close)?;
        }
        self.take(close, RULE_END)
    }

    fn elements(&mut self) -> RuleResult {
        self.rule(COMMA | RULE_END, Self::element);
        while self.is_next(COMMA) && self.kind(1) & ELEMENT != 0 {
            self.take(COMMA, ELEMENT)?;
            self.rule(COMMA | RULE_END, Self::element);
        }
        Ok(())
    }

    fn entries(&mut self) -> RuleResult {
        self.entry(Self::element)?;
        while self.is_next(COMMA) && self.kind(1) & ELEMENT != 0 {
            self.take(COMMA, ELEMENT)?;
            self.entry(Self::element)?;
        }
        Ok(())
    }

    fn fields(&mut self) -> RuleResult {
        self.first_field = self.token(0).at;
        self.entry(Self::field)?;
        while self.is_next(COMMA) && self.kind(1) & (NAMES | QUESTION) != 0 {
            self.take(COMMA, NAMES | QUESTION)?;
            self.entry(Self::field)?;
        }
        Ok(())
    }

    fn entry(&mut self, key: fn(&mut Self) -> RuleResult) -> RuleResult {
        self.rule(COLON, key);
        self.take(COLON, BEGIN)?;
        self.rule(COMMA | RULE_END, Self::expression);
        Ok(())
    }

    fn element(&mut self) -> RuleResult {
        self.sync(ELEMENT)?;
        if self.is_next(QUESTION) {
            self.take(QUESTION, BEGIN)?;
        }
        self.rule(RULE_END, Self::expression);
        Ok(())
    }

    fn field(&mut self) -> RuleResult {
        self.sync(NAMES | QUESTION)?;
        if self.is_next(QUESTION) {
            self.take(QUESTION, NAMES)?;
        }
        self.refuse_escaped(self.first_field);
        self.rule(RULE_END, Self::name);
        Ok(())
    }

    fn name(&mut self) -> RuleResult {
        self.sync(NAMES)?;
        self.take(NAMES, RULE_END)
    }
}
