//! Costs and sizes of the nodes of a tree, as in `checker/cost.go` of cel-go.

use super::super::types::Type;
use super::super::value::Literal;
use super::expanded_tree::{ExpandedCall, ExpandedExpr, ExpandedId, ExpandedTree, Loop};
use super::size_range::SizeRange;
use super::size_schema::SizeSchema;
use super::value_path::ValuePath;

/// Cost of a variable, and of the selection of a field.
const SELECTION: u64 = 1;
/// Cost of a list.
pub(super) const LIST: u64 = 10;
/// Cost of a map.
const MAP: u64 = 30;
/// Cost of a message.
const MESSAGE: u64 = 40;

/// Estimates the costs of one expression. As in cel-go, results are cached by node: a second look at a node does not see facts that became
/// known in between.
pub(super) struct CostEstimator<'t> {
    tree: &'t ExpandedTree<'t>,
    sizes: &'t SizeSchema,
    /// The variable that has these sizes; `None` if each variable has them.
    variable: Option<&'t str>,
    paths: Vec<ValuePath<'t>>,
    known_sizes: Vec<Option<SizeRange>>,
    known_entries: Vec<Option<EntrySizes>>,
    /// Variables of macros, the innermost last.
    locals: Vec<LocalVariable<'t>>,
}

/// Sizes of the parts of a list or map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EntrySizes {
    is_list: bool,
    /// Keys of a map.
    keys: SizeRange,
    /// Elements of a list, or values of a map.
    values: SizeRange,
}

struct LocalVariable<'t> {
    name: &'t str,
    path: ValuePath<'t>,
    size: Option<SizeRange>,
    entries: Option<EntrySizes>,
}

/// Meaning of a variable of a loop.
#[derive(Debug, Clone, Copy)]
enum LoopVariable {
    /// Index of a list, or key of a map.
    Key,
    Value,
    /// The only variable: an element of a list, or a key of a map.
    Single,
}

/// An argument or target of a call.
pub(super) struct Operand<'t> {
    pub(super) id: ExpandedId,
    pub(super) path: ValuePath<'t>,
    pub(super) size: Option<SizeRange>,
}

/// Estimate of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallEstimate {
    pub(super) cost: u64,
    /// Size of the result.
    pub(super) size: Option<SizeRange>,
}

impl EntrySizes {
    pub(super) fn union(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let (one, other) = (one?, other?);
        Some(Self {
            is_list: one.is_list,
            keys: one.keys.union(other.keys),
            values: one.values.union(other.values),
        })
    }
}

impl<'t> CostEstimator<'t> {
    pub(super) fn new(tree: &'t ExpandedTree<'t>, sizes: &'t SizeSchema, variable: Option<&'t str>) -> Self {
        let count = tree.len();
        Self {
            tree,
            sizes,
            variable,
            paths: vec![ValuePath::default(); count],
            known_sizes: vec![None; count],
            known_entries: vec![None; count],
            locals: Vec::new(),
        }
    }

    /// Returns the cost of the whole expression.
    pub(super) fn total(mut self) -> u64 {
        self.cost(self.tree.root())
    }

    /// Returns the cost of a node with the nodes below, and records its path and sizes. The parts are functions of their own, so that the
    /// frames of this recursion are small.
    fn cost(&mut self, id: ExpandedId) -> u64 {
        match self.expr(id) {
            ExpandedExpr::Literal(_) => 0,
            ExpandedExpr::Ident(name) => {
                self.paths[id] = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => ValuePath::default().with(name),
                };
                SELECTION
            }
            ExpandedExpr::Has { operand } => self.cost(*operand),
            ExpandedExpr::Select { operand, field } => {
                let cost = self.cost(*operand);
                cost.saturating_add(self.select(id, *operand, field))
            }
            ExpandedExpr::Call(call) => self.call(id, call),
            ExpandedExpr::List(elements) => self.list(id, elements),
            ExpandedExpr::Map(entries) => self.map(id, entries),
            ExpandedExpr::Message(values) => {
                values.iter().fold(MESSAGE, |sum, value| sum.saturating_add(self.cost(*value)))
            }
            ExpandedExpr::Loop(of_loop) => self.of_loop(id, of_loop),
            ExpandedExpr::Binding { range, variable, value, result } => {
                self.binding(id, variable, [*range, *value, *result])
            }
        }
    }

    fn expr(&self, id: ExpandedId) -> &'t ExpandedExpr<'t> {
        &self.tree.node(id).expr
    }

    pub(super) fn type_of(&self, id: ExpandedId) -> &'t Type {
        &self.tree.node(id).of
    }

    fn select(&mut self, id: ExpandedId, operand: ExpandedId, field: &'t str) -> u64 {
        self.paths[id] = self.path(operand).with(field);
        let has_fields = matches!(
            self.type_of(operand),
            Type::Map(..) | Type::Object(_) | Type::Composed(..) | Type::Message(_)
        );
        if has_fields { SELECTION } else { 0 }
    }

    fn list(&mut self, id: ExpandedId, elements: &'t [ExpandedId]) -> u64 {
        let (mut cost, mut sizes) = (LIST, Vec::with_capacity(elements.len()));
        for element in elements {
            cost = cost.saturating_add(self.cost(*element));
            sizes.push(self.size_or_unknown(*element));
        }
        let keys = SizeRange::exactly(1);
        self.known_entries[id] = Some(EntrySizes { is_list: true, keys, values: SizeRange::of_all(sizes) });
        cost
    }

    fn map(&mut self, id: ExpandedId, entries: &'t [(ExpandedId, ExpandedId)]) -> u64 {
        let (mut cost, mut keys, mut values) = (MAP, Vec::new(), Vec::new());
        for (key, value) in entries {
            cost = cost.saturating_add(self.cost(*key));
            cost = cost.saturating_add(self.cost(*value));
            keys.push(self.size_or_unknown(*key));
            values.push(self.size_or_unknown(*value));
        }
        let (keys, values) = (SizeRange::of_all(keys), SizeRange::of_all(values));
        self.known_entries[id] = Some(EntrySizes { is_list: false, keys, values });
        cost
    }

    fn call(&mut self, id: ExpandedId, call: &'t ExpandedCall<'t>) -> u64 {
        if let ("dyn", [argument]) = (call.function, &call.arguments[..]) {
            let cost = self.cost(*argument);
            self.copy_sizes(id, *argument);
            return cost.saturating_add(1);
        }
        let (mut costs, mut arguments) = (Vec::new(), Vec::new());
        for argument in &call.arguments {
            costs.push(self.cost(*argument));
            arguments.push(self.operand(*argument));
        }
        let target_cost = call.target.map_or(0, |target| self.cost(target));
        target_cost.saturating_add(self.overloads(id, call, &arguments, &costs))
    }

    /// Returns the cost of the dearest overload of a call with its arguments.
    fn overloads(
        &mut self,
        id: ExpandedId,
        call: &'t ExpandedCall<'t>,
        arguments: &[Operand<'t>],
        costs: &[u64],
    ) -> u64 {
        let target = call.target.map(|target| self.operand(target));
        let (mut cost, mut size): (u64, Option<SizeRange>) = (0, None);
        for overload in &call.overloads {
            let estimate = self.estimate(id, (call.function, *overload), target.as_ref(), arguments, costs);
            cost = cost.max(estimate.cost);
            size = match (size, estimate.size) {
                (Some(one), Some(other)) => Some(one.union(other)),
                (one, other) => one.or(other),
            };
            // An index has the size that the parts of its operand have.
            let part = match (call.function, *overload) {
                ("_[_]", "(list(A), int)") => Some("@items"),
                ("_[_]", "(map(A, B), A)") => Some("@values"),
                _ => None,
            };
            if let (Some(part), Some(operand)) = (part, arguments.first()) {
                size = self.entries(operand.id).map(|entries| entries.values);
                self.paths[id] = self.path(operand.id).with(part);
            }
            size = size.or_else(|| self.size(id));
        }
        self.remember_size(id, size);
        cost
    }

    fn of_loop(&mut self, id: ExpandedId, of: &'t Loop<'t>) -> u64 {
        let mut sum = self.cost(of.range);
        sum = sum.saturating_add(self.cost(of.start));
        // The condition and the step see all variables of the loop; the result sees only the accumulator.
        self.bind(of.accumulator, of.start);
        self.push_variables(of);
        let condition = self.cost(of.condition);
        let round = self.cost(of.step).saturating_add(condition);
        self.pop(of.variable);
        if let Some(second) = of.second {
            self.pop(second);
        }
        sum = sum.saturating_add(self.cost(of.result));
        self.pop(of.accumulator);
        let count = self.size_or_unknown(of.range);
        // A loop that starts with a literal yields one value, such as the bool of `all`. Other loops collect one part per round.
        match self.expr(of.start) {
            ExpandedExpr::Literal(_) => {
                let size = self.size(of.start);
                self.remember_size(id, size);
            }
            _ => {
                self.remember_size(id, Some(count));
                let entries = self.entries(of.step);
                self.remember_entries(id, entries);
            }
        }
        sum.saturating_add(count.max.saturating_mul(round))
    }

    /// Adds the variables of a loop, with paths below that of the range.
    fn push_variables(&mut self, of: &'t Loop<'t>) {
        match of.second {
            Some(second) => {
                self.push(of.variable, of.range, LoopVariable::Key);
                self.push(second, of.range, LoopVariable::Value);
            }
            None => self.push(of.variable, of.range, LoopVariable::Single),
        }
    }

    fn push(&mut self, name: &'t str, range: ExpandedId, meaning: LoopVariable) {
        let entries = self.entries(range);
        let is_list =
            entries.map_or_else(|| matches!(self.type_of(range), Type::List(_)), |entries| entries.is_list);
        let is_key = match meaning {
            LoopVariable::Key => true,
            LoopVariable::Value => false,
            LoopVariable::Single => !is_list,
        };
        let (part, size) = match (is_key, is_list) {
            (true, true) => ("@indices", entries.map(|entries| entries.keys)),
            (true, false) => ("@keys", entries.map(|entries| entries.keys)),
            (false, true) => ("@items", entries.map(|entries| entries.values)),
            (false, false) => ("@values", entries.map(|entries| entries.values)),
        };
        let path = self.path(range).with(part);
        self.locals.push(LocalVariable { name, path, size, entries: None });
    }

    /// Adds a variable with a value.
    fn bind(&mut self, name: &'t str, value: ExpandedId) {
        let path = self.path(value);
        let entries = self.entries(value);
        let size = self.size(value);
        self.locals.push(LocalVariable { name, path, size, entries });
    }

    fn pop(&mut self, name: &str) {
        if let Some(index) = self.locals.iter().rposition(|local| local.name == name) {
            self.locals.remove(index);
        }
    }

    fn local(&self, name: &str) -> Option<&LocalVariable<'t>> {
        self.locals.iter().rfind(|local| local.name == name)
    }

    fn binding(&mut self, id: ExpandedId, variable: &'t str, [range, value, result]: [ExpandedId; 3]) -> u64 {
        let mut sum = self.cost(range);
        sum = sum.saturating_add(self.cost(value));
        self.bind(variable, value);
        sum = sum.saturating_add(self.cost(result));
        self.pop(variable);
        self.copy_sizes(id, result);
        sum
    }

    fn operand(&mut self, id: ExpandedId) -> Operand<'t> {
        Operand { id, path: self.path(id), size: self.size(id) }
    }

    fn path(&self, id: ExpandedId) -> ValuePath<'t> {
        if let ExpandedExpr::Ident(name) = self.expr(id)
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths[id].clone()
    }

    fn remember_size(&mut self, id: ExpandedId, size: Option<SizeRange>) {
        if size.is_some() {
            self.known_sizes[id] = size;
        }
    }

    pub(super) fn remember_entries(&mut self, id: ExpandedId, entries: Option<EntrySizes>) {
        if entries.is_some() {
            self.known_entries[id] = entries;
        }
    }

    fn copy_sizes(&mut self, to: ExpandedId, from: ExpandedId) {
        let size = self.size(from);
        self.remember_size(to, size);
        let entries = self.entries(from);
        self.remember_entries(to, entries);
    }

    fn size_or_unknown(&mut self, id: ExpandedId) -> SizeRange {
        self.size(id).unwrap_or(SizeRange::UNKNOWN)
    }

    /// Returns the size of a node's value; `None` if nothing is known about it.
    fn size(&mut self, id: ExpandedId) -> Option<SizeRange> {
        // cel-go asks in this order: the computed or written size, the schema, the type, the variable.
        let known = self.known_sizes[id].or_else(|| literal_size(self.expr(id)));
        if known.is_some() {
            return known;
        }
        if let Some(size) = self.size_at(&self.path(id)) {
            self.known_sizes[id] = Some(size);
            return Some(size);
        }
        if is_scalar(self.type_of(id)) {
            return Some(SizeRange::exactly(1));
        }
        match self.expr(id) {
            ExpandedExpr::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    /// Returns the size that the schema has for the value at a path.
    pub(super) fn size_at(&self, path: &ValuePath<'_>) -> Option<SizeRange> {
        if path.is_empty() {
            return None;
        }
        let names = path.names();
        let (variable, below) = names.split_first()?;
        if self.variable.is_some_and(|known| known != *variable) {
            return None;
        }
        self.sizes.find(below).map(SizeRange::up_to)
    }

    pub(super) fn entries(&self, id: ExpandedId) -> Option<EntrySizes> {
        self.known_entries[id].or_else(|| match self.expr(id) {
            ExpandedExpr::Ident(name) => self.local(name)?.entries,
            _ => None,
        })
    }

    pub(super) fn integer(&self, id: ExpandedId) -> Option<i64> {
        match self.expr(id) {
            ExpandedExpr::Literal(Literal::Int(value)) => Some(*value),
            _ => None,
        }
    }
}

/// Returns the size of a value that the expression spells out.
fn literal_size(expr: &ExpandedExpr<'_>) -> Option<SizeRange> {
    let size = match expr {
        ExpandedExpr::Literal(Literal::String(text)) => text.chars().count(),
        ExpandedExpr::Literal(Literal::Bytes(bytes)) => bytes.len(),
        ExpandedExpr::Literal(_) => 1,
        ExpandedExpr::List(elements) => elements.len(),
        ExpandedExpr::Map(entries) => entries.len(),
        _ => return None,
    };
    Some(SizeRange::exactly(size as u64))
}

/// Whether all values of a type have the size one.
fn is_scalar(of: &Type) -> bool {
    match of {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(value) => is_scalar(value),
        _ => false,
    }
}
