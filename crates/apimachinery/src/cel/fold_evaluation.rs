//! Evaluation of macros with variables, such as `list.all(element, condition)`.

use super::cost::Cost;
use super::eval::Evaluator;
use super::evaluation_error::{EvaluationError, failed, no_overload};
use super::functions::{self, Evaluated};
use super::list_functions;
use super::map_builder::MapBuilder;
use super::syntax_tree::{Fold, FoldKind};
use super::value::Val;

/// Cost of adding an element to the list that a macro makes. cel-go makes a list of the element and concatenates the two lists.
const APPENDING: u64 = 11;

/// Result of a macro after some of its elements.
struct FoldState<'a> {
    kind: FoldKind,
    /// Elements of a resulting list.
    list: Vec<Val<'a>>,
    /// Entries of a resulting map.
    map: MapBuilder<'a>,
    /// Number of elements for which the condition of `exists_one` holds.
    count: usize,
    /// First error of `all` or `exists`. It is the result if no element decides.
    failed: Option<EvaluationError>,
}

impl<'a> Evaluator<'a, '_> {
    /// Evaluates a macro.
    pub(super) fn fold(&mut self, fold: &'a Fold) -> Evaluated<'a> {
        let range = self.value(&fold.range)?;
        match fold.kind {
            FoldKind::OptMap | FoldKind::OptFlatMap => return self.optional_fold(fold, range),
            FoldKind::SortBy => return self.sort(fold, &range),
            _ => {}
        }
        let Some(elements) = range.range() else {
            let given = value_type(&range);
            return Err(failed(match fold.second {
                Some(_) => format!("unsupported comprehension range type: {given}"),
                None => format!("got '{given}', expected iterable type"),
            }));
        };
        let mut state = FoldState::new(fold.kind);
        for (index, element) in elements.enumerate() {
            self.cost.spend(1)?;
            // With two variables the first one is the index or the key.
            let first = match &fold.second {
                Some(second) => {
                    let (first, second_value) = if range.is_map() {
                        let value = range.get(&element, self.cost)?.unwrap_or(Val::Null);
                        (element.clone(), value)
                    } else {
                        (Val::Int(functions::integer(index)), element.clone())
                    };
                    self.locals.push((second, second_value));
                    first
                }
                None => element.clone(),
            };
            self.locals.push((&fold.variable, first.clone()));
            let visited = self.visit(fold);
            self.locals.truncate(self.locals.len() - 1 - usize::from(fold.second.is_some()));
            if let Some(result) = state.add(first, element, visited, self.cost)? {
                return Ok(result);
            }
        }
        state.result()
    }

    /// Evaluates `optMap` and `optFlatMap`.
    fn optional_fold(&mut self, fold: &'a Fold, target: Val<'a>) -> Evaluated<'a> {
        let value = match target {
            Val::Optional(None) => return Ok(Val::NONE),
            Val::Optional(Some(value)) => (*value).clone(),
            other => return Err(functions::no_overload_of("hasValue", [&other])),
        };
        self.locals.push((&fold.variable, value));
        let result = self.value(&fold.body);
        self.locals.pop();
        if fold.kind == FoldKind::OptMap { result.map(Val::some) } else { result }
    }

    /// Evaluates `sortBy`.
    fn sort(&mut self, fold: &'a Fold, list: &Val<'a>) -> Evaluated<'a> {
        let Some(elements) = list.range() else {
            return Err(failed(format!("got '{}', expected iterable type", value_type(list))));
        };
        let mut keys = Vec::new();
        for element in elements {
            self.cost.spend(1)?;
            self.locals.push((&fold.variable, element));
            let key = self.value(&fold.body);
            self.locals.pop();
            keys.push(key?);
        }
        list_functions::sort_by(list, &Val::list(keys), self.cost)
    }

    /// Evaluates the body of a macro; `None` if the filter of `map` excludes the element.
    fn visit(&mut self, fold: &'a Fold) -> Result<Option<Val<'a>>, EvaluationError> {
        if let Some(filter) = &fold.filter {
            match self.value(filter)? {
                Val::Bool(true) => {}
                Val::Bool(false) => return Ok(None),
                _ => return Err(no_overload()),
            }
        }
        self.value(&fold.body).map(Some)
    }
}

impl<'a> FoldState<'a> {
    fn new(kind: FoldKind) -> Self {
        Self { kind, list: Vec::new(), map: MapBuilder::default(), count: 0, failed: None }
    }

    /// Adds the value of the body for an element; `visited` is `None` if the filter excludes the element. `first` is the value of the first
    /// variable. Returns the result of the macro if this element decides it.
    fn add(
        &mut self,
        first: Val<'a>,
        element: Val<'a>,
        visited: Result<Option<Val<'a>>, EvaluationError>,
        cost: &mut Cost,
    ) -> Result<Option<Val<'a>>, EvaluationError> {
        match (self.kind, visited) {
            (FoldKind::All, Ok(Some(Val::Bool(false)))) => return Ok(Some(Val::Bool(false))),
            (FoldKind::Exists, Ok(Some(Val::Bool(true)))) => return Ok(Some(Val::Bool(true))),
            (FoldKind::All | FoldKind::Exists, Ok(Some(Val::Bool(_)))) => {}
            // As in `&&` and `||`, another element may still decide the result.
            (FoldKind::All | FoldKind::Exists, Ok(_)) => {
                self.failed.get_or_insert_with(no_overload);
            }
            (FoldKind::All | FoldKind::Exists, Err(error @ EvaluationError::Failed(_))) => {
                self.failed.get_or_insert(error);
            }
            (_, Err(error)) => return Err(error),
            (FoldKind::ExistsOne, Ok(Some(Val::Bool(value)))) => self.count += usize::from(value),
            (FoldKind::Filter, Ok(Some(Val::Bool(value)))) => {
                if value {
                    cost.spend(APPENDING)?;
                    self.list.push(element);
                }
            }
            (FoldKind::Map | FoldKind::TransformList, Ok(value)) => {
                cost.spend(APPENDING)?;
                self.list.extend(value);
            }
            (FoldKind::TransformMap, Ok(value)) => {
                if let Some(value) = value {
                    self.map.insert(first, value)?;
                }
            }
            (FoldKind::TransformMapEntry, Ok(None)) => {}
            (FoldKind::TransformMapEntry, Ok(Some(entries))) if entries.is_map() => {
                for key in entries.range().into_iter().flatten() {
                    cost.spend(1)?;
                    let value = entries.get(&key, cost)?.unwrap_or(Val::Null);
                    self.map.insert(key, value)?;
                }
            }
            (_, Ok(_)) => return Err(no_overload()),
        }
        Ok(None)
    }

    /// Returns the result after all elements.
    fn result(self) -> Evaluated<'a> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        Ok(match self.kind {
            FoldKind::All => Val::Bool(true),
            FoldKind::Exists => Val::Bool(false),
            FoldKind::ExistsOne => Val::Bool(self.count == 1),
            FoldKind::TransformMap | FoldKind::TransformMapEntry => self.map.build(),
            _ => Val::list(self.list),
        })
    }
}

/// Returns the name of cel-go's type of a value, which some messages show.
fn value_type(value: &Val<'_>) -> String {
    match value {
        Val::Null => "types.Null".to_owned(),
        Val::Bool(_) => "types.Bool".to_owned(),
        Val::Int(_) => "types.Int".to_owned(),
        Val::Uint(_) => "types.Uint".to_owned(),
        Val::Double(_) => "types.Double".to_owned(),
        Val::String(_) => "types.String".to_owned(),
        Val::Bytes(_) => "types.Bytes".to_owned(),
        Val::Timestamp(_) => "types.Timestamp".to_owned(),
        Val::Duration(_) => "types.Duration".to_owned(),
        Val::Optional(_) => "*types.Optional".to_owned(),
        other => other.type_name().to_owned(),
    }
}
