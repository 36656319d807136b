//! Changes of Rust files: the place is found in the syntax tree, and the rest of the text stays as it is.

use std::{collections::BTreeSet, ops::Range};

use syn::{
    Expr, ExprMethodCall, File, Item, UseTree,
    spanned::Spanned,
    visit::{self, Visit},
};

/// Methods of `controller_runtime::operator::Operator` that return the operator, so that another one may follow.
const OPERATOR_METHODS: [&str; 5] = ["crd", "definition", "options", "setup", "version"];

/// A Rust file with insertions.
#[derive(Debug, Clone)]
pub struct RustFile {
    text: String,
    syntax: File,
    /// New texts, with the ranges that they replace; most are empty.
    changes: Vec<(Range<usize>, String)>,
}

/// The declaration of a kind: the struct with its spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindDeclaration {
    /// Text of the struct, with its attributes and documentation.
    pub text: String,
    /// Name of the struct.
    pub spec: String,
    /// Version of the kind.
    pub version: String,
    /// Fields of the struct.
    pub fields: Vec<String>,
    /// Whether the kind has a status.
    pub has_status: bool,
    /// Place of the version, with its quotes.
    version_range: Range<usize>,
}

/// Line of an insertion in the changed text, counted from 1.
pub type Line = usize;

impl RustFile {
    /// Parses a file.
    ///
    /// # Errors
    ///
    /// The text is not Rust. The error names the line.
    pub fn parse(text: impl Into<String>) -> Result<Self, String> {
        let text = text.into();
        let syntax =
            syn::parse_file(&text).map_err(|error| format!("line {}: {error}", error.span().start().line))?;
        Ok(Self { text, syntax, changes: Vec::new() })
    }

    /// The text without the changes.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the file declares this module.
    #[must_use]
    pub fn has_module(&self, name: &str) -> bool {
        self.syntax.items.iter().any(|item| matches!(item, Item::Mod(module) if module.ident == name))
    }

    /// API groups of the kinds that the file declares, in attributes such as `#[kube(group = "example.com")]`.
    #[must_use]
    pub fn groups(&self) -> Vec<String> {
        let mut groups = Vec::new();
        let structs = self.syntax.items.iter().filter_map(|item| match item {
            Item::Struct(item) => Some(&item.attrs),
            _ => None,
        });
        for attribute in structs.flatten().filter(|attribute| attribute.path().is_ident("kube")) {
            // Skip other entries of the attribute, in any form.
            let _ = attribute.parse_nested_meta(|entry| {
                if entry.path.is_ident("group") {
                    groups.push(entry.value()?.parse::<syn::LitStr>()?.value());
                    return Ok(());
                }
                skip(&entry)
            });
        }
        groups
    }

    /// Finds the struct with the attribute `#[kube(kind = "…", version = "…")]` of this kind, and named fields.
    #[must_use]
    pub fn kind(&self, kind: &str) -> Option<KindDeclaration> {
        self.syntax.items.iter().find_map(|item| {
            let Item::Struct(item) = item else { return None };
            let (mut is_kind, mut version, mut has_status) = (false, None, false);
            for attribute in item.attrs.iter().filter(|attribute| attribute.path().is_ident("kube")) {
                let _ = attribute.parse_nested_meta(|entry| {
                    if entry.path.is_ident("kind") {
                        is_kind |= entry.value()?.parse::<syn::LitStr>()?.value() == kind;
                    } else if entry.path.is_ident("version") {
                        version = Some(entry.value()?.parse::<syn::LitStr>()?);
                    } else {
                        has_status |= entry.path.is_ident("status");
                        skip(&entry)?;
                    }
                    Ok(())
                });
            }
            let version = version.filter(|_| is_kind)?;
            let fields = item.fields.iter().map(|field| Some(field.ident.as_ref()?.to_string()));
            Some(KindDeclaration {
                text: self.text[item.span().byte_range()].to_owned(),
                spec: item.ident.to_string(),
                version: version.value(),
                fields: fields.collect::<Option<_>>()?,
                has_status,
                version_range: version.span().byte_range(),
            })
        })
    }

    /// Returns the declarations of `use`, and the names of types of this file, that a piece of it needs: the names are words of the
    /// piece.
    #[must_use]
    pub fn needed_by(&self, piece: &str) -> (Vec<String>, Vec<String>) {
        let words: BTreeSet<&str> = piece.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let (mut uses, mut types) = (Vec::new(), Vec::new());
        for item in &self.syntax.items {
            let (name, text) = match item {
                Item::Use(item) => {
                    let mut names = Vec::new();
                    names_of(&item.tree, &mut names);
                    if names.iter().any(|name| words.contains(name.as_str())) {
                        uses.push(self.text[item.span().byte_range()].to_owned());
                    }
                    continue;
                }
                Item::Struct(item) => (item.ident.to_string(), item.span()),
                Item::Enum(item) => (item.ident.to_string(), item.span()),
                Item::Type(item) => (item.ident.to_string(), item.span()),
                _ => continue,
            };
            if words.contains(name.as_str()) && !piece.contains(&self.text[text.byte_range()]) {
                types.push(name);
            }
        }
        (uses, types)
    }

    /// Whether the file declares this function.
    #[must_use]
    pub fn has_function(&self, name: &str) -> bool {
        self.syntax.items.iter().any(|item| matches!(item, Item::Fn(function) if function.sig.ident == name))
    }

    /// Whether the file imports this name.
    #[must_use]
    pub fn imports(&self, name: &str) -> bool {
        let mut names = Vec::new();
        for item in &self.syntax.items {
            if let Item::Use(item) = item {
                names_of(&item.tree, &mut names);
            }
        }
        names.iter().any(|imported| imported == name)
    }

    /// Types in calls such as `.crd::<Photo>()`, by their last names.
    #[must_use]
    pub fn type_arguments(&self, method: &str) -> Vec<String> {
        let mut calls = CallsOf { method, found: Vec::new() };
        calls.visit_file(&self.syntax);
        let types = calls.found.iter().filter_map(|call| match call.turbofish.as_ref()?.args.first()? {
            syn::GenericArgument::Type(syn::Type::Path(path)) => {
                Some(path.path.segments.last()?.ident.to_string())
            }
            _ => None,
        });
        types.collect()
    }

    /// Arguments of the only call of a method, if there are `N` and all are texts.
    #[must_use]
    pub fn text_arguments<const N: usize>(&self, method: &str) -> Option<[String; N]> {
        let mut calls = CallsOf { method, found: Vec::new() };
        calls.visit_file(&self.syntax);
        let [call] = &*calls.found else { return None };
        let texts = call.args.iter().map(|argument| match argument {
            Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        });
        texts.collect::<Option<Vec<_>>>()?.try_into().ok()
    }

    /// Gives a kind another version.
    pub fn set_version(&mut self, kind: &KindDeclaration, version: &str) {
        self.changes.push((kind.version_range.clone(), format!("{version:?}")));
    }

    /// Appends an item.
    pub fn append(&mut self, item: &str) {
        let end = self.text.len();
        self.changes.push((end..end, format!("\n{item}")));
    }

    /// Replaces the call `crd::<kind>()`. `None` if there is not exactly one. The line does not count earlier insertions above it.
    pub fn replace_crd(&mut self, kind: &str, call: &str) -> Option<Line> {
        let range = self.only_chain(|found| is_call_for(found, "crd", kind))?;
        let line = 1 + self.text[..range.start].matches('\n').count();
        self.changes.push((range, format!(".{call}")));
        Some(line)
    }

    /// Declares a module after the others, or else before the first item.
    pub fn add_module(&mut self, declaration: &str) {
        self.add_item(declaration, |item| matches!(item, Item::Mod(module) if module.content.is_none()));
    }

    /// Adds a `use` after the others, or else before the first item.
    pub fn add_use(&mut self, declaration: &str) {
        self.add_item(declaration, |item| matches!(item, Item::Use(_)));
    }

    /// Appends method calls to the chain that begins with `Operator::new`. `None` if there is not exactly one.
    pub fn extend_operator(&mut self, calls: &[String]) -> Option<Line> {
        let chain = self.only_chain(|call| {
            let method = call.method.to_string();
            OPERATOR_METHODS.contains(&method.as_str()) && begins_with_new_operator(call)
        })?;
        Some(self.extend(&chain, calls))
    }

    /// Appends method calls to the call `for_kind::<kind>()`. `None` if there is not exactly one.
    pub fn extend_for_kind(&mut self, kind: &str, calls: &[String]) -> Option<Line> {
        let chain = self.only_chain(|call| is_call_for(call, "for_kind", kind))?;
        Some(self.extend(&chain, calls))
    }

    /// The text with all changes.
    #[must_use]
    pub fn into_text(mut self) -> String {
        // From the end, so that the offsets of the remaining changes stay valid. The sort is stable, so the first reversal keeps
        // insertions at the same offset in their order.
        self.changes.reverse();
        self.changes.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
        for (range, text) in self.changes {
            self.text.replace_range(range, &text);
        }
        self.text
    }

    fn add_item(&mut self, declaration: &str, is_alike: impl Fn(&Item) -> bool) {
        let last = self.syntax.items.iter().rfind(|item| is_alike(item));
        let (offset, inserted) = match (last, self.syntax.items.first()) {
            (Some(item), _) => (item.span().byte_range().end, format!("\n{declaration}")),
            (None, Some(first)) => (first.span().byte_range().start, format!("{declaration}\n\n")),
            (None, None) => (self.text.len(), format!("{declaration}\n")),
        };
        self.changes.push((offset..offset, inserted));
    }

    /// Finds the only chain with a call that `matches` accepts, and returns the last such call in it. `None` if there is no such chain, or
    /// if there are several.
    fn only_chain(&self, matches: impl Fn(&ExprMethodCall) -> bool) -> Option<Range<usize>> {
        let mut calls = MethodCalls { matches: &matches, found: Vec::new() };
        calls.visit_file(&self.syntax);
        match &*calls.found {
            [only] => Some(only.clone()),
            _ => None,
        }
    }

    /// Inserts method calls after a call, on separate lines if the call has its own line.
    fn extend(&mut self, call: &Range<usize>, calls: &[String]) -> Line {
        let line_start = self.text[..call.start].rfind('\n').map_or(0, |end| end + 1);
        let indentation = &self.text[line_start..call.start];
        let separator = match indentation.trim().is_empty() {
            true => format!("\n{indentation}"),
            false => String::new(),
        };
        let inserted: String = calls.iter().map(|call| format!("{separator}.{call}")).collect();
        let breaks = |text: &str| text.matches('\n').count();
        let above = self.changes.iter().filter(|(range, _)| range.start < call.end);
        let above: usize = above.map(|(_, inserted)| breaks(inserted)).sum();
        self.changes.push((call.end..call.end, inserted));
        1 + breaks(&self.text[..call.end]) + above + breaks(&separator)
    }
}

/// Collects method calls, each from its dot to its end. Does not visit the receiver of a collected call.
struct MethodCalls<'m> {
    matches: &'m dyn Fn(&ExprMethodCall) -> bool,
    found: Vec<Range<usize>>,
}

impl<'ast> Visit<'ast> for MethodCalls<'_> {
    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        if (self.matches)(call) {
            self.found.push(call.dot_token.span().byte_range().start..call.span().byte_range().end);
        } else {
            visit::visit_expr_method_call(self, call);
        }
    }
}

/// Collects the calls of a method, the innermost first.
struct CallsOf<'m, 'ast> {
    method: &'m str,
    found: Vec<&'ast ExprMethodCall>,
}

impl<'ast> Visit<'ast> for CallsOf<'_, 'ast> {
    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        visit::visit_expr_method_call(self, call);
        if call.method == self.method {
            self.found.push(call);
        }
    }
}

/// Skips an entry of an attribute, in any form.
fn skip(entry: &syn::meta::ParseNestedMeta<'_>) -> syn::Result<()> {
    if entry.input.peek(syn::Token![=]) {
        entry.value()?.parse::<Expr>()?;
    } else if entry.input.peek(syn::token::Paren) {
        entry.input.parse::<proc_macro2::Group>()?;
    }
    Ok(())
}

/// Whether this is a call such as `for_kind::<kind>()`.
fn is_call_for(call: &ExprMethodCall, method: &str, kind: &str) -> bool {
    let types = call.turbofish.as_ref().map(|types| &types.args);
    let first = types.and_then(|types| types.first());
    let is_kind = |path: &syn::TypePath| path.path.segments.last().is_some_and(|last| last.ident == kind);
    call.method == method
        && matches!(first, Some(syn::GenericArgument::Type(syn::Type::Path(path))) if is_kind(path))
}

/// Names that a `use` brings into scope.
fn names_of(tree: &UseTree, names: &mut Vec<String>) {
    match tree {
        UseTree::Path(path) => names_of(&path.tree, names),
        UseTree::Name(name) => names.push(name.ident.to_string()),
        UseTree::Rename(rename) => names.push(rename.rename.to_string()),
        UseTree::Group(group) => group.items.iter().for_each(|tree| names_of(tree, names)),
        UseTree::Glob(_) => {}
    }
}

/// Whether the chain of a call begins with `Operator::new(…)`.
fn begins_with_new_operator(call: &ExprMethodCall) -> bool {
    match &*call.receiver {
        Expr::MethodCall(inner) => begins_with_new_operator(inner),
        Expr::Call(function) => match &*function.func {
            Expr::Path(path) => {
                let mut names = path.path.segments.iter().rev().map(|segment| segment.ident.to_string());
                names.next().as_deref() == Some("new") && names.next().as_deref() == Some("Operator")
            }
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extended(text: &str) -> Option<(usize, String)> {
        let mut file = RustFile::parse(text).expect("Rust");
        let line = file.extend_operator(&["crd::<Photo>()".to_owned(), "setup(photo::add_to)".to_owned()])?;
        Some((line, file.into_text()))
    }

    #[test]
    fn an_operator_gets_lines_after_its_last_one() {
        let (line, text) = extended(
            "pub fn operator() -> Operator {\n    // é\n    Operator::new(\"a\", \"b\")\n        .crd::<Album>()\n        .setup(album::add_to) // all\n}\n",
        )
        .expect("a chain");
        assert_eq!(line, 6);
        assert_eq!(
            text,
            "pub fn operator() -> Operator {\n    // é\n    Operator::new(\"a\", \"b\")\n        .crd::<Album>()\n        .setup(album::add_to)\n        .crd::<Photo>()\n        .setup(photo::add_to) // all\n}\n"
        );
    }

    #[test]
    fn an_operator_in_one_line_stays_in_one_line() {
        let (line, text) = extended(
            "async fn main() {\n    controller_runtime::operator::Operator::new(\"a\", \"b\").version(\"1\").main().await;\n}\n",
        )
        .expect("a chain");
        assert_eq!(line, 2);
        assert!(text.contains(".version(\"1\").crd::<Photo>().setup(photo::add_to).main().await"), "{text}");
    }

    #[test]
    fn without_an_operator_or_with_two_nothing_is_inserted() {
        for text in [
            "",
            "fn a() { Manager::new(b).setup(c); }",
            "fn a() { Operator::new(b, c).setup(d); Operator::new(b, c).setup(d); }",
        ] {
            assert_eq!(extended(text), None, "{text}");
        }
    }

    #[test]
    fn items_stand_after_their_like() {
        let mut file = RustFile::parse("//! Docs.\n\npub mod a;\n\nuse a::B;\n\nfn c() {}\n").expect("Rust");
        assert!(file.has_module("a") && !file.has_module("d"));
        file.add_module("pub mod d;");
        file.add_use("pub use d::D;");
        assert_eq!(
            file.into_text(),
            "//! Docs.\n\npub mod a;\npub mod d;\n\nuse a::B;\npub use d::D;\n\nfn c() {}\n"
        );
        let mut file = RustFile::parse("//! Docs.\n\nfn c() {}\n").expect("Rust");
        file.add_module("mod d;");
        assert_eq!(file.into_text(), "//! Docs.\n\nmod d;\n\nfn c() {}\n");
    }

    #[test]
    fn webhooks_are_added_to_the_controller_of_the_kind() {
        let text = "fn f() {\n    b.for_kind::<Other>();\n    b\n        .for_kind::<crate::Photo>()\n        .owns::<A>();\n}\n";
        let mut file = RustFile::parse(text).expect("Rust");
        assert_eq!(file.extend_for_kind("Photo", &["defaulted()".to_owned()]), Some(5));
        assert_eq!(file.extend_for_kind("Missing", &[]), None);
        let text = file.into_text();
        assert!(text.contains("Photo>()\n        .defaulted()\n        .owns"), "{text}");
    }

    const KIND: &str = "use kube::CustomResource;\nuse serde::{Deserialize, Serialize};\nuse other::Thing;\n\n\
        /// A photo.\n#[derive(CustomResource, Deserialize, Serialize)]\n#[kube(group = \"a.b\", version = \"v1\", kind = \"Photo\", \
        namespaced, printcolumn(name = \"x\"), status = \"PhotoStatus\")]\npub struct PhotoSpec {\n    pub size: u8,\n    pub frame: Frame,\n}\n\n\
        pub struct Frame;\npub struct Other;\npub struct PhotoStatus {}\n";

    #[test]
    fn the_declaration_of_a_kind_is_found_with_what_it_needs() {
        let mut file = RustFile::parse(KIND).expect("Rust");
        assert_eq!(file.kind("Album"), None);
        let kind = file.kind("Photo").expect("the kind");
        assert_eq!((&*kind.spec, &*kind.version, kind.has_status), ("PhotoSpec", "v1", true));
        assert_eq!(kind.fields, ["size", "frame"]);
        assert!(
            kind.text.starts_with("/// A photo.\n#[derive(") && kind.text.ends_with("Frame,\n}"),
            "{}",
            kind.text
        );
        let (uses, types) = file.needed_by(&kind.text);
        assert_eq!(uses, ["use kube::CustomResource;", "use serde::{Deserialize, Serialize};"]);
        assert_eq!(types, ["Frame", "PhotoStatus"]);
        file.set_version(&kind, "v2");
        file.append("fn f() {}\n");
        let expected = format!("{}\nfn f() {{}}\n", KIND.replace("\"v1\"", "\"v2\""));
        assert_eq!(file.into_text(), expected);
    }

    #[test]
    fn a_definition_of_one_version_is_replaced() {
        let mut file = RustFile::parse(
            "fn f() {\n    o\n        .crd::<Other>()\n        .crd::<Photo>()\n        .setup(a);\n}\n",
        )
        .expect("Rust");
        assert_eq!(file.replace_crd("Album", "x()"), None);
        assert_eq!(file.replace_crd("Photo", "definition(photo::definition())"), Some(4));
        let text = file.into_text();
        assert!(text.contains(">()\n        .definition(photo::definition())\n        .setup(a);"), "{text}");
    }

    #[test]
    fn an_error_names_the_line() {
        let error = RustFile::parse("fn a() {}\nfn b( {}\n").expect_err("not Rust");
        assert!(error.starts_with("line 2: "), "{error}");
    }
}
