//! The first document of a YAML text, as a tree of nodes. Values are not interpreted here.

use std::collections::BTreeMap;

use super::token_scanner::{TokenKind, TokenScanner, YamlToken};

/// Maximum depth of lists and maps in a document. JSON has the same limit.
pub(super) const MAX_DEPTH: usize = 127;

/// Maximum number of nodes of a document, for which Go has no limit.
const MAX_NODES: usize = 1_000_000;

/// Prefix of the tags of YAML, which texts abbreviate to `!!`.
pub(super) const YAML_TAG: &str = "tag:yaml.org,2002:";

/// Number of a node in its document.
pub(super) type NodeId = usize;

/// A document: its nodes, and the outermost one.
#[derive(Debug)]
pub(super) struct YamlDocument {
    pub(super) nodes: Vec<YamlNode>,
    pub(super) root: NodeId,
}

/// A node with the line where it starts, from 0.
#[derive(Debug)]
pub(super) struct YamlNode {
    pub(super) line: usize,
    pub(super) content: NodeContent,
}

#[derive(Debug)]
pub(super) enum NodeContent {
    Scalar {
        /// The tag, empty if there is none.
        tag: String,
        text: String,
        /// Whether the text determines the type: it has neither quotes nor a tag.
        is_implicit: bool,
    },
    List(Vec<NodeId>),
    Map(Vec<(NodeId, NodeId)>),
    Alias {
        name: String,
        target: NodeId,
    },
}

/// Parses the first document; `None` for a text without one.
///
/// # Errors
/// Go's message.
pub(super) fn parse(text: &str) -> Result<Option<YamlDocument>, String> {
    let mut parser = NodeParser {
        scanner: TokenScanner::new(text),
        tags: Vec::new(),
        nodes: Vec::new(),
        anchors: BTreeMap::new(),
        depth: 0,
    };
    let root = parser.document()?;
    Ok(root.map(|root| YamlDocument { nodes: parser.nodes, root }))
}

/// Place of a node, which determines the forms that it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodePlace {
    /// The document, or an entry of a list without brackets.
    Block,
    /// A key or a value of a map without brackets. The entries of a list may stand in the column of its key, without a block of their own.
    BlockMap,
    /// Inside of brackets, where no blocks begin.
    Flow,
}

struct NodeParser<'a> {
    scanner: TokenScanner<'a>,
    /// Prefixes of tags by their handle.
    tags: Vec<(String, String)>,
    nodes: Vec<YamlNode>,
    anchors: BTreeMap<String, NodeId>,
    depth: usize,
}

/// Builds the message of an error at a line, or at the line of the surrounding node. Unlike the scanner, Go's parser counts them from 0, and
/// names no line 0.
fn error_at(problem: &str, line: usize, context: usize) -> String {
    match (line, context) {
        (0, 0) => problem.to_owned(),
        (0, line) | (line, _) => format!("line {line}: {problem}"),
    }
}

impl NodeParser<'_> {
    fn peek(&mut self) -> Result<&YamlToken, String> {
        self.scanner.peek()
    }

    /// Whether the next token is one of these.
    fn is_next(&mut self, kinds: &[TokenKind]) -> Result<bool, String> {
        Ok(kinds.contains(&self.peek()?.kind))
    }

    /// Takes the next token if it is of this kind.
    fn take_if(&mut self, kind: &TokenKind) -> Result<Option<YamlToken>, String> {
        let is_kind = self.peek()?.kind == *kind;
        Ok(is_kind.then(|| self.scanner.take()))
    }

    fn add(&mut self, line: usize, content: NodeContent) -> NodeId {
        self.nodes.push(YamlNode { line, content });
        self.nodes.len() - 1
    }

    /// Adds the scalar for a value that the text leaves out.
    fn add_empty(&mut self, line: usize) -> NodeId {
        let content = NodeContent::Scalar { tag: String::new(), text: String::new(), is_implicit: true };
        self.add(line, content)
    }

    fn document(&mut self) -> Result<Option<NodeId>, String> {
        let first = &self.peek()?.kind;
        let is_explicit = matches!(
            first,
            TokenKind::VersionDirective { .. } | TokenKind::TagDirective { .. } | TokenKind::DocumentStart
        );
        if *first == TokenKind::StreamEnd {
            return Ok(None);
        }
        self.directives()?;
        if is_explicit && self.take_if(&TokenKind::DocumentStart)?.is_none() {
            let line = self.peek()?.line;
            return Err(error_at("did not find expected <document start>", line, 0));
        }
        let next = self.peek()?;
        let is_empty = matches!(
            next.kind,
            TokenKind::VersionDirective { .. }
                | TokenKind::TagDirective { .. }
                | TokenKind::DocumentStart
                | TokenKind::DocumentEnd
                | TokenKind::StreamEnd
        );
        let line = next.line;
        let root = if is_explicit && is_empty { self.add_empty(line) } else { self.node(NodePlace::Block)? };
        // Go reads one more token to find the end of the document, and reports an error in it.
        self.peek()?;
        Ok(Some(root))
    }

    fn directives(&mut self) -> Result<(), String> {
        let mut has_version = false;
        loop {
            let next = self.peek()?;
            let line = next.line;
            match &next.kind {
                TokenKind::VersionDirective { .. } if has_version => {
                    return Err(error_at("found duplicate %YAML directive", line, 0));
                }
                TokenKind::VersionDirective { major: 1, minor: 1 } => has_version = true,
                TokenKind::VersionDirective { .. } => {
                    return Err(error_at("found incompatible YAML document", line, 0));
                }
                TokenKind::TagDirective { handle, prefix } => {
                    let tag = (handle.clone(), prefix.clone());
                    if self.tags.iter().any(|(known, _)| *known == tag.0) {
                        return Err(error_at("found duplicate %TAG directive", line, 0));
                    }
                    self.tags.push(tag);
                }
                _ => break,
            }
            self.scanner.take();
        }
        // The first prefix of a handle counts, so directives can redefine these two.
        self.tags.push(("!".to_owned(), "!".to_owned()));
        self.tags.push(("!!".to_owned(), YAML_TAG.to_owned()));
        Ok(())
    }

    /// Parses a node.
    fn node(&mut self, place: NodePlace) -> Result<NodeId, String> {
        if self.nodes.len() >= MAX_NODES {
            return Err(format!("exceeded {MAX_NODES} values"));
        }
        let next = self.peek()?;
        let start = next.line;
        if let TokenKind::Alias(name) = &next.kind {
            let name = name.clone();
            let Some(target) = self.anchors.get(&name).copied() else {
                return Err(format!("unknown anchor '{name}' referenced"));
            };
            self.scanner.take();
            return Ok(self.add(start, NodeContent::Alias { name, target }));
        }
        let (anchor, tag) = self.properties()?;
        let tag = tag.map(|(handle, suffix, line)| self.resolve(&handle, suffix, line, start)).transpose()?;
        let tag = tag.unwrap_or_default();

        // The node gets its number before the nodes inside of it: an alias there may refer to it, and Go reports this error later.
        let id = self.add_empty(start);
        let has_properties = anchor.is_some() || !tag.is_empty();
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, id);
        }
        let next = self.peek()?;
        let line = next.line;
        let content = match &next.kind {
            TokenKind::BlockEntry if place == NodePlace::BlockMap => self.nested(Self::own_entries)?,
            TokenKind::Scalar { text, is_plain } => {
                let (text, is_implicit) = (text.clone(), (tag.is_empty() && *is_plain) || tag == "!");
                self.scanner.take();
                NodeContent::Scalar { tag, text, is_implicit }
            }
            TokenKind::FlowListStart => self.nested(Self::flow_list)?,
            TokenKind::FlowMapStart => self.nested(Self::flow_map)?,
            TokenKind::BlockListStart if place != NodePlace::Flow => self.nested(Self::block_list)?,
            TokenKind::BlockMapStart if place != NodePlace::Flow => self.nested(Self::block_map)?,
            _ if has_properties => {
                NodeContent::Scalar { is_implicit: tag.is_empty(), tag, text: String::new() }
            }
            _ => return Err(error_at("did not find expected node content", line, start)),
        };
        self.nodes[id].content = content;
        Ok(id)
    }

    /// Reads the anchor and the tag of a node, in any order. The tag comes with its line.
    #[expect(clippy::type_complexity, reason = "both parts are optional, and used once")]
    fn properties(&mut self) -> Result<(Option<String>, Option<(String, String, usize)>), String> {
        let mut anchor = None;
        let mut tag = None;
        for _ in 0..2 {
            let next = self.peek()?;
            let line = next.line;
            match &next.kind {
                TokenKind::Anchor(name) if anchor.is_none() => anchor = Some(name.clone()),
                TokenKind::Tag { handle, suffix } if tag.is_none() => {
                    tag = Some((handle.clone(), suffix.clone(), line));
                }
                _ => break,
            }
            self.scanner.take();
        }
        Ok((anchor, tag))
    }

    /// Returns the whole tag that a handle and a suffix stand for.
    fn resolve(&self, handle: &str, suffix: String, line: usize, start: usize) -> Result<String, String> {
        if handle.is_empty() {
            return Ok(suffix);
        }
        let prefix = self.tags.iter().find(|(known, _)| known == handle);
        let tag = prefix.map(|(_, prefix)| format!("{prefix}{suffix}")).unwrap_or_default();
        if tag.is_empty() { Err(error_at("found undefined tag handle", line, start)) } else { Ok(tag) }
    }

    fn nested(&mut self, parse: fn(&mut Self) -> Result<NodeContent, String>) -> Result<NodeContent, String> {
        if self.depth == MAX_DEPTH {
            return Err(format!("exceeded max depth of {MAX_DEPTH}"));
        }
        self.depth += 1;
        let content = parse(self);
        self.depth -= 1;
        content
    }

    /// Parses a node, unless one of these tokens follows, which means that it is left out.
    fn node_unless(&mut self, ends: &[TokenKind], place: NodePlace, line: usize) -> Result<NodeId, String> {
        if self.is_next(ends)? { Ok(self.add_empty(line)) } else { self.node(place) }
    }

    fn block_list(&mut self) -> Result<NodeContent, String> {
        let start = self.scanner.take().line;
        let mut items = Vec::new();
        while let Some(entry) = self.take_if(&TokenKind::BlockEntry)? {
            let ends = [TokenKind::BlockEntry, TokenKind::BlockEnd];
            items.push(self.node_unless(&ends, NodePlace::Block, entry.line)?);
        }
        self.end_block("did not find expected '-' indicator", start)?;
        Ok(NodeContent::List(items))
    }

    /// Parses the entries of a list in the column of its key. The scanner makes no tokens for the start and the end of such a list.
    fn own_entries(&mut self) -> Result<NodeContent, String> {
        let mut items = Vec::new();
        while let Some(entry) = self.take_if(&TokenKind::BlockEntry)? {
            let ends = [TokenKind::BlockEntry, TokenKind::Key, TokenKind::Value, TokenKind::BlockEnd];
            items.push(self.node_unless(&ends, NodePlace::Block, entry.line)?);
        }
        Ok(NodeContent::List(items))
    }

    fn block_map(&mut self) -> Result<NodeContent, String> {
        let start = self.scanner.take().line;
        let ends = [TokenKind::Key, TokenKind::Value, TokenKind::BlockEnd];
        let mut fields = Vec::new();
        while let Some(key) = self.take_if(&TokenKind::Key)? {
            let key = self.node_unless(&ends, NodePlace::BlockMap, key.line)?;
            let value = match self.take_if(&TokenKind::Value)? {
                Some(value) => self.node_unless(&ends, NodePlace::BlockMap, value.line)?,
                None => {
                    let line = self.peek()?.line;
                    self.add_empty(line)
                }
            };
            fields.push((key, value));
        }
        self.end_block("did not find expected key", start)?;
        Ok(NodeContent::Map(fields))
    }

    fn end_block(&mut self, problem: &str, start: usize) -> Result<(), String> {
        let line = self.peek()?.line;
        match self.take_if(&TokenKind::BlockEnd)? {
            Some(_) => Ok(()),
            None => Err(error_at(problem, line, start)),
        }
    }

    /// Takes the comma between two entries in brackets. Before the first entry there is none.
    fn separator(&mut self, is_first: bool, problem: &str, start: usize) -> Result<(), String> {
        let line = self.peek()?.line;
        if is_first || self.take_if(&TokenKind::FlowEntry)?.is_some() {
            return Ok(());
        }
        Err(error_at(problem, line, start))
    }

    fn flow_list(&mut self) -> Result<NodeContent, String> {
        let start = self.scanner.take().line;
        let mut items = Vec::new();
        while self.take_if(&TokenKind::FlowListEnd)?.is_none() {
            self.separator(items.is_empty(), "did not find expected ',' or ']'", start)?;
            if let Some(key) = self.take_if(&TokenKind::Key)? {
                let pair = self.nested(Self::pair)?;
                items.push(self.add(key.line, pair));
            } else if !self.is_next(&[TokenKind::FlowListEnd])? {
                // A comma before the closing bracket adds no entry.
                items.push(self.node(NodePlace::Flow)?);
            }
        }
        Ok(NodeContent::List(items))
    }

    /// Parses a map of one field in a list, such as `[a: b]`.
    fn pair(&mut self) -> Result<NodeContent, String> {
        let ends = [TokenKind::FlowEntry, TokenKind::FlowListEnd];
        let is_left_out = self.is_next(&ends)? || self.is_next(&[TokenKind::Value])?;
        let key = if is_left_out {
            // A quirk of Go: it drops the token after the missing key. `[? : a]` loses its colon, and is refused at `a`.
            let line = self.scanner.take().line;
            self.add_empty(line)
        } else {
            self.node(NodePlace::Flow)?
        };
        let value = self.flow_value(&ends)?;
        Ok(NodeContent::Map(vec![(key, value)]))
    }

    fn flow_map(&mut self) -> Result<NodeContent, String> {
        let start = self.scanner.take().line;
        let ends = [TokenKind::FlowEntry, TokenKind::FlowMapEnd];
        let mut fields = Vec::new();
        while self.take_if(&TokenKind::FlowMapEnd)?.is_none() {
            self.separator(fields.is_empty(), "did not find expected ',' or '}'", start)?;
            if self.take_if(&TokenKind::Key)?.is_some() {
                let line = self.peek()?.line;
                let is_left_out = self.is_next(&ends)? || self.is_next(&[TokenKind::Value])?;
                let key = if is_left_out { self.add_empty(line) } else { self.node(NodePlace::Flow)? };
                let value = self.flow_value(&ends)?;
                fields.push((key, value));
            } else if !self.is_next(&[TokenKind::FlowMapEnd])? {
                let key = self.node(NodePlace::Flow)?;
                let line = self.peek()?.line;
                fields.push((key, self.add_empty(line)));
            }
        }
        Ok(NodeContent::Map(fields))
    }

    /// Parses the value after a key in brackets, if it has one.
    fn flow_value(&mut self, ends: &[TokenKind]) -> Result<NodeId, String> {
        let has_value = self.take_if(&TokenKind::Value)?.is_some();
        let line = self.peek()?.line;
        if has_value { self.node_unless(ends, NodePlace::Flow, line) } else { Ok(self.add_empty(line)) }
    }
}
