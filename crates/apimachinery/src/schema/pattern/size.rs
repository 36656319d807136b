//! Estimated size of the automaton of a pattern.

use regex_syntax::ast::{Ast, ClassSet, ClassSetItem, GroupKind, RepetitionKind, RepetitionRange};

/// Estimated bytes for a character, or for a class of ASCII characters.
const CHARACTER: usize = 40;
/// Estimated bytes for a class of nearly all characters, in UTF-8.
const ALL: usize = 320;
/// Estimated bytes for a Unicode class such as `\pL`; the largest classes take some 16 KiB.
const UNICODE: usize = 16 << 10;

/// Estimates the bytes of the automaton. The parser limits the nesting of a pattern, which bounds the recursion.
pub(super) fn of(ast: &Ast) -> usize {
    match ast {
        Ast::Empty(_) | Ast::Flags(_) | Ast::Assertion(_) => CHARACTER,
        // If case is ignored, a character may stand for three.
        Ast::Literal(_) => 3 * CHARACTER,
        Ast::Dot(_) => ALL,
        Ast::ClassUnicode(_) => UNICODE,
        Ast::ClassPerl(_) => UNICODE,
        Ast::ClassBracketed(class) => of_class(&class.kind) + if class.negated { ALL } else { CHARACTER },
        Ast::Group(group) => {
            let captures = !matches!(group.kind, GroupKind::NonCapturing(_));
            of(&group.ast).saturating_add(if captures { 2 * CHARACTER } else { 0 })
        }
        Ast::Repetition(repetition) => {
            let times = match &repetition.op.kind {
                RepetitionKind::Range(RepetitionRange::Exactly(times)) => *times,
                // `x{n,}` counts as n copies and one more for the loop after them.
                RepetitionKind::Range(RepetitionRange::AtLeast(least)) => least.saturating_add(1),
                RepetitionKind::Range(RepetitionRange::Bounded(_, most)) => *most,
                RepetitionKind::ZeroOrOne | RepetitionKind::ZeroOrMore | RepetitionKind::OneOrMore => 1,
            };
            let times = usize::try_from(times.max(1)).unwrap_or(usize::MAX);
            of(&repetition.ast).saturating_add(CHARACTER).saturating_mul(times)
        }
        Ast::Alternation(alternation) => sum(&alternation.asts).saturating_add(CHARACTER),
        Ast::Concat(concat) => sum(&concat.asts),
    }
}

fn sum(parts: &[Ast]) -> usize {
    parts.iter().map(of).fold(0, usize::saturating_add)
}

fn of_class(class: &ClassSet) -> usize {
    match class {
        ClassSet::Item(item) => of_item(item),
        ClassSet::BinaryOp(operation) => of_class(&operation.lhs).saturating_add(of_class(&operation.rhs)),
    }
}

fn of_item(item: &ClassSetItem) -> usize {
    match item {
        ClassSetItem::Empty(_) | ClassSetItem::Ascii(_) => 0,
        ClassSetItem::Literal(literal) if literal.c.is_ascii() => 0,
        ClassSetItem::Range(range) if range.end.c.is_ascii() => 0,
        ClassSetItem::Literal(_) => CHARACTER,
        ClassSetItem::Range(_) => ALL,
        ClassSetItem::Unicode(_) | ClassSetItem::Perl(_) => UNICODE,
        ClassSetItem::Bracketed(class) => of_class(&class.kind) + if class.negated { ALL } else { 0 },
        ClassSetItem::Union(union) => union.items.iter().map(of_item).fold(0, usize::saturating_add),
    }
}
