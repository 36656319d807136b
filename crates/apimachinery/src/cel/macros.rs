//! Macros with variables: `list.all(element, condition)` and others that look like calls of member functions.

use super::issue::Issue;
use super::syntax_tree::{Expr, Fold, FoldKind, SyntaxNode};

/// Kind of a macro, and the variables that its first arguments declare.
pub(super) struct MacroForm {
    kind: FoldKind,
    variables: MacroVariables,
}

enum MacroVariables {
    One,
    Two,
}

/// Returns the form of a macro; `None` if there is no macro with this name and this number of arguments, so that the call is one of a function.
pub(super) fn form(name: &str, arguments: usize) -> Option<MacroForm> {
    use MacroVariables::{One, Two};
    let (kind, variables) = match (name, arguments) {
        ("all", 2) => (FoldKind::All, One),
        ("all", 3) => (FoldKind::All, Two),
        ("exists", 2) => (FoldKind::Exists, One),
        ("exists", 3) => (FoldKind::Exists, Two),
        ("exists_one" | "existsOne", 2) => (FoldKind::ExistsOne, One),
        ("exists_one" | "existsOne", 3) => (FoldKind::ExistsOne, Two),
        ("map", 2 | 3) => (FoldKind::Map, One),
        ("filter", 2) => (FoldKind::Filter, One),
        ("transformList", 3 | 4) => (FoldKind::TransformList, Two),
        ("transformMap", 3 | 4) => (FoldKind::TransformMap, Two),
        ("transformMapEntry", 3 | 4) => (FoldKind::TransformMapEntry, Two),
        ("sortBy", 2) => (FoldKind::SortBy, One),
        ("optMap", 2) => (FoldKind::OptMap, One),
        ("optFlatMap", 2) => (FoldKind::OptFlatMap, One),
        _ => return None,
    };
    Some(MacroForm { kind, variables })
}

/// Builds a macro over the values of `range`. The number of the arguments is the one of the form.
///
/// # Errors
/// cel-go's issue about an argument that has to be the name of a variable.
pub(super) fn fold(
    form: MacroForm,
    name: &str,
    range: SyntaxNode,
    mut arguments: Vec<SyntaxNode>,
) -> Result<Fold, Issue> {
    let MacroForm { kind, variables } = form;
    let (_, variable) = variable(kind, name, arguments.remove(0))?;
    let second = match variables {
        MacroVariables::One => None,
        MacroVariables::Two => {
            let (at, second) = self::variable(kind, name, arguments.remove(0))?;
            if second == variable {
                return Err(Issue::new(at, format!("duplicate variable name: {second}")));
            }
            Some(second)
        }
    };
    // The condition stands between the variables and the body.
    let filter = if arguments.len() == 2 { Some(arguments.remove(0)) } else { None };
    let body = arguments.remove(0);
    Ok(Fold { kind, range, variable, second, filter, body })
}

/// Returns the offset and the name of a variable.
fn variable(kind: FoldKind, name: &str, argument: SyntaxNode) -> Result<(usize, String), Issue> {
    let SyntaxNode { at, expr, .. } = argument;
    let refusal = match (expr, kind) {
        (Expr::Ident(variable), _) => return Ok((at, variable)),
        (_, FoldKind::Map | FoldKind::Filter | FoldKind::SortBy) => {
            "argument is not an identifier".to_owned()
        }
        (_, FoldKind::OptMap | FoldKind::OptFlatMap) => {
            format!("{name}() variable name must be a simple identifier")
        }
        _ => "argument must be a simple name".to_owned(),
    };
    Err(Issue::new(at, refusal))
}
