//! Names of an operator and its kinds: rules, and the forms that code and manifests use.

use std::fmt;

use kube_apimachinery::names::subdomain;

/// Longest name of an operator. Services, Secrets and pods have this name with a suffix, and at most 63 characters.
const MAX_NAME: usize = 40;

/// Keywords of Rust, none of which can name a crate, a module or a type.
const KEYWORDS: [&str; 53] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "Self",
    "static", "struct", "super", "trait", "true", "try", "type", "typeof", "union", "unsafe", "unsized",
    "use", "virtual", "where", "while", "yield",
];

/// A name that cannot be used, with the reason and an example of one that can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadName(String);

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadName {}

/// Name of an operator: its folder, package, program, image, service account and Deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorName {
    name: String,
    crate_name: String,
}

impl OperatorName {
    /// Checks a name: it must be a DNS label of at most 40 characters that begins with a letter, and cargo must accept it for a
    /// package. Dashes separate words: rustc warns of crates such as `photo__album`. `taken` are names of packages that the operator
    /// depends on.
    ///
    /// # Errors
    ///
    /// The name breaks one of these rules; the error names the rule.
    pub fn new<'a>(name: &str, taken: impl IntoIterator<Item = &'a str>) -> Result<Self, BadName> {
        let bad = |reason: &str| Err(BadName(format!("{name:?} cannot name an operator: {reason}")));
        let is_label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if !name.starts_with(|c: char| c.is_ascii_lowercase())
            || !name.chars().all(is_label)
            || name.split('-').any(str::is_empty)
        {
            return bad(
                "use lower-case letters, digits and single dashes, beginning with a letter, such as photo-album",
            );
        }
        if name.len() > MAX_NAME {
            return bad(&format!(
                "it has {} characters: the names of its Services and pods leave room for {MAX_NAME}",
                name.len()
            ));
        }
        if KEYWORDS.contains(&name) {
            return bad(&format!("it is a keyword of Rust: use {name}-operator, for example"));
        }
        let reserved =
            ["alloc", "build", "core", "deps", "dev", "examples", "incremental", "proc-macro", "std", "test"];
        if reserved.contains(&name) || taken.into_iter().any(|taken| taken == name) {
            return bad(&format!(
                "cargo or a package that the operator uses has this name: use {name}-operator, for example"
            ));
        }
        Ok(Self::of_package(name, &name.replace('-', "_")))
    }

    /// The name of an existing operator: the name of its package. Its crate may have another name in code.
    #[must_use]
    pub fn of_package(package: &str, crate_name: &str) -> Self {
        Self { name: package.to_owned(), crate_name: crate_name.to_owned() }
    }

    /// The name itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// Name of the crate in Rust: `photo_album`.
    #[must_use]
    pub fn crate_name(&self) -> &str {
        &self.crate_name
    }

    /// Kind that is named after the operator: `PhotoAlbum` for `photo-album`, `Photo` for `photo-operator`.
    #[must_use]
    pub fn default_kind(&self) -> String {
        let stem = self.name.strip_suffix("-operator").unwrap_or(&self.name);
        let capitalised = |word: &str| {
            let mut chars = word.chars();
            chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect::<String>()
        };
        stem.split('-').map(capitalised).collect()
    }
}

/// A kind that an operator defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindName {
    /// API group: `example.com`.
    pub group: String,
    /// Version: `v1`.
    pub version: String,
    /// Kind: `PhotoAlbum`.
    pub kind: String,
    /// Plural name of the resource, as `kube::CustomResource` derives it: `photoalbums`.
    pub plural: String,
    /// Module in Rust: `photo_album`.
    pub module: String,
    /// Plural in Rust: `photo_albums`.
    pub modules: String,
}

impl KindName {
    /// Checks a kind, its group and its version. `used` are names that the generated code uses for something else.
    ///
    /// # Errors
    ///
    /// One of them is invalid; the error names it and the reason.
    pub fn new<'a>(
        group: &str,
        version: &str,
        kind: &str,
        used: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, BadName> {
        check_group(group)?;
        check_version(version)?;
        let bad = |reason: &str| Err(BadName(format!("{kind:?} cannot be a kind: {reason}")));
        if !kind.starts_with(|c: char| c.is_ascii_uppercase())
            || !kind.chars().all(|c| c.is_ascii_alphanumeric())
        {
            return bad("use letters and digits, beginning with a capital letter, such as PhotoAlbum");
        }
        let module = snake(kind);
        let plural = plural(&kind.to_lowercase());
        if plural.len() > 63 {
            return bad("the plural name of its resource has more than 63 characters");
        }
        if KEYWORDS.contains(&kind) || KEYWORDS.contains(&&*module) {
            return bad(&format!("its module would be named {module}, which is a keyword of Rust"));
        }
        let types =
            [kind.to_owned(), format!("{kind}Spec"), format!("{kind}Status"), format!("{kind}Reconciler")];
        for used in used {
            if types.iter().any(|ours| ours == used) || module == used {
                return bad(&format!(
                    "the generated code uses the name {used} for something else; choose another kind"
                ));
            }
        }
        let modules = match module.rsplit_once('_') {
            Some((first, last)) => format!("{first}_{}", self::plural(last)),
            None => self::plural(&module),
        };
        Ok(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural,
            module,
            modules,
        })
    }

    /// Plural of the kind in prose: `PhotoAlbums`.
    #[must_use]
    pub fn kinds(&self) -> String {
        plural(&self.kind)
    }
}

fn check_group(group: &str) -> Result<(), BadName> {
    let bad = |reason: &str| Err(BadName(format!("{group:?} cannot be an API group: {reason}")));
    if !subdomain(group).is_empty() || !group.contains('.') {
        return bad("use a domain of yours in lower case, with at least one dot, such as photos.example.com");
    }
    let protected = ["k8s.io", "kubernetes.io"];
    if protected.iter().any(|of| group == *of || group.ends_with(&format!(".{of}"))) {
        return bad("groups of k8s.io and kubernetes.io belong to the Kubernetes project");
    }
    Ok(())
}

pub(crate) fn check_version(version: &str) -> Result<(), BadName> {
    let is_number = |text: &str| {
        !text.is_empty()
            && !text.starts_with('0')
            && text.len() < 5
            && text.chars().all(|c| c.is_ascii_digit())
    };
    let rest = version.strip_prefix('v');
    let valid = rest.is_some_and(|rest| {
        let stage = ["alpha", "beta"].iter().find_map(|stage| rest.split_once(stage));
        stage.map_or(is_number(rest), |(major, minor)| is_number(major) && is_number(minor))
    });
    if valid {
        Ok(())
    } else {
        Err(BadName(format!("{version:?} cannot be a version: use v1, v1alpha1, v2beta3 and so on")))
    }
}

/// Whether Rust reserves the word.
pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word)
}

/// The module of a kind that another program defines: `http_route`.
///
/// # Errors
///
/// The name is no name of a kind, or its module is a keyword.
pub(crate) fn module_of(kind: &str) -> Result<String, BadName> {
    let bad = |reason: &str| Err(BadName(format!("{kind:?} cannot be imported: {reason}")));
    if !kind.starts_with(|c: char| c.is_ascii_uppercase()) || !kind.chars().all(|c| c.is_ascii_alphanumeric())
    {
        return bad("it is not a name of a Rust type");
    }
    let module = snake(kind);
    if is_keyword(&module) {
        return bad(&format!("its module would be named {module}, which is a keyword of Rust"));
    }
    Ok(module)
}

/// Words of a kind in lower case, joined by underscores. A run of capitals is one word: `HTTPRoute` becomes `http_route`.
pub(crate) fn snake(kind: &str) -> String {
    let chars: Vec<char> = kind.chars().collect();
    let mut words = String::new();
    for (at, char) in chars.iter().enumerate() {
        let after_small = at > 0 && !chars[at - 1].is_ascii_uppercase();
        let before_small = chars.get(at + 1).is_some_and(char::is_ascii_lowercase);
        if at > 0 && char.is_ascii_uppercase() && (after_small || before_small) {
            words.push('_');
        }
        words.push(char.to_ascii_lowercase());
    }
    words
}

/// Plural of a word in lower case, by the rules of `kube::CustomResource`.
fn plural(word: &str) -> String {
    // Nouns that end in s, x, z, ch, sh get es.
    if ["s", "x", "z", "ch", "sh"].iter().any(|end| word.ends_with(end)) {
        return format!("{word}es");
    }
    // Nouns that end in a consonant and y get ies.
    match word.strip_suffix('y') {
        Some(stem) if stem.ends_with(|c: char| !"aeiou".contains(c)) => format!("{stem}ies"),
        _ => format!("{word}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_kind() {
        for (kind, plural, module, modules, kinds) in [
            ("Guestbook", "guestbooks", "guestbook", "guestbooks", "Guestbooks"),
            ("PhotoAlbum", "photoalbums", "photo_album", "photo_albums", "PhotoAlbums"),
            ("DNSPolicy", "dnspolicies", "dns_policy", "dns_policies", "DNSPolicies"),
            ("Mailbox", "mailboxes", "mailbox", "mailboxes", "Mailboxes"),
            ("Day", "days", "day", "days", "Days"),
            ("Branch", "branches", "branch", "branches", "Branches"),
            ("S3Bucket", "s3buckets", "s3_bucket", "s3_buckets", "S3Buckets"),
        ] {
            let name = KindName::new("example.com", "v1", kind, []).expect(kind);
            let forms = (&*name.plural, &*name.module, &*name.modules, name.kinds());
            assert_eq!(forms, (plural, module, modules, kinds.to_owned()));
        }
    }

    #[test]
    fn the_kind_of_an_operator_has_its_name() {
        for (name, kind) in [
            ("guestbook", "Guestbook"),
            ("photo-album", "PhotoAlbum"),
            ("photo-operator", "Photo"),
            ("a-1b", "A1b"),
        ] {
            assert_eq!(OperatorName::new(name, []).expect(name).default_kind(), kind);
        }
        assert_eq!(OperatorName::of_package("é--_b-", "b").default_kind(), "É_b");
    }

    #[test]
    fn words_of_a_name_are_separated_by_single_dashes() {
        for name in [
            "photo--album",
            "photo-",
            "-photo",
            "",
            "-",
            "photo--operator",
            "Photo",
            "1-photo",
            "photo_album",
        ] {
            let refused = OperatorName::new(name, []).expect_err(name).to_string();
            assert!(refused.contains("digits and single dashes"), "{refused}");
        }
    }
}
