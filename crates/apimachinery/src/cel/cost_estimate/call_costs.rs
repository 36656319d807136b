//! Costs of calls, and sizes of their results, by function and overload.

use super::super::types::Type;
use super::cost_estimator::{CallEstimate, CostEstimator, EntrySizes, LIST, Operand};
use super::expanded_tree::ExpandedId;
use super::size_range::{SizeRange, scaled};
use super::value_path::ValuePath;

/// Cost of a character of a text that is visited.
const TEXT: f64 = 0.1;
/// Cost of a character of a regular expression, for each unit of cost of the text.
const PATTERN: f64 = 0.25;
/// Length of the longest name of a format.
const FORMAT: u64 = 64;
/// Assumed length of the regular expression of a format.
const FORMAT_PATTERN: f64 = 128.0;
/// Bytes of the longest address.
const ADDRESS: u64 = 16;

impl CallEstimate {
    fn costs(cost: u64) -> Self {
        Self { cost, size: None }
    }

    fn makes(cost: u64, size: SizeRange) -> Self {
        Self { cost, size: Some(size) }
    }

    /// Estimate of a call that makes a list, and visits each of its elements.
    fn makes_list(size: SizeRange, factor: f64) -> Self {
        Self::makes(size.cost(factor).saturating_add(1 + LIST), size)
    }
}

impl<'t> CostEstimator<'t> {
    /// Estimates a call of an overload. The cost contains those of the arguments, but not that of the target.
    pub(super) fn estimate(
        &mut self,
        id: ExpandedId,
        (function, overload): (&str, &str),
        target: Option<&Operand<'t>>,
        arguments: &[Operand<'t>],
        costs: &[u64],
    ) -> CallEstimate {
        let sum = costs.iter().fold(0, |sum: u64, cost| sum.saturating_add(*cost));
        let own = self
            .collection_call(function, overload, target, arguments)
            .or_else(|| self.library_call(function, overload, target, arguments));
        let own = match own {
            Some(own) => own,
            None if function == "_?_:_" => return self.conditional(id, arguments, costs),
            // A term may be the last one that is evaluated, so `&&` and `||` cost nothing themselves.
            None if matches!(function, "_&&_" | "_||_") => return CallEstimate::costs(sum),
            None => self.builtin_call(id, (function, overload), target, arguments),
        };
        CallEstimate { cost: own.cost.saturating_add(sum), size: own.size }
    }

    /// Estimates calls of the libraries for lists and sets.
    fn collection_call(
        &self,
        function: &str,
        overload: &str,
        target: Option<&Operand<'t>>,
        arguments: &[Operand<'t>],
    ) -> Option<CallEstimate> {
        let number = |argument: &Operand<'_>, default: u64| {
            self.integer(argument.id).map_or(default, |value| value.max(0).unsigned_abs())
        };
        // The comparison of texts costs more.
        let sorting = if ["list(string)", "list(bytes)"].iter().any(|of| overload.contains(of)) {
            2.0 + TEXT
        } else {
            2.0
        };
        let square = |operand: &Operand<'_>| {
            let size = self.operand_size(operand);
            size.times(size)
        };
        Some(match (function, target, arguments) {
            ("sets.contains" | "sets.intersects" | "sets.equivalent", None, [one, other]) => {
                let factor = if function == "sets.equivalent" { 2.0 } else { 1.0 };
                let pairs = self.operand_size(one).times(self.operand_size(other));
                CallEstimate::costs(pairs.cost(factor).saturating_add(1))
            }
            ("slice", Some(list), [start, end]) => {
                let end = number(end, self.operand_size(list).max);
                // As in cel-go, an end before the start wraps around.
                CallEstimate::makes_list(SizeRange::exactly(end.wrapping_sub(number(start, 0))), 1.0)
            }
            ("flatten", Some(list), arguments) => {
                let depth = arguments.first().map_or(1, |depth| number(depth, u64::MAX));
                CallEstimate::makes_list(self.operand_size(list), depth as f64)
            }
            ("lists.range", None, [count]) => {
                CallEstimate::makes_list(SizeRange::exactly(number(count, u64::MAX)), 1.0)
            }
            ("reverse", Some(list), []) => CallEstimate::makes_list(self.operand_size(list), 1.0),
            ("distinct", Some(list), []) => CallEstimate::makes_list(square(list), 2.0),
            ("sort", Some(list), []) => CallEstimate::makes_list(square(list), sorting),
            ("@sortByAssociatedKeys", Some(_), [keys]) => CallEstimate::makes_list(square(keys), sorting),
            _ => return None,
        })
    }

    /// Estimates calls of Kubernetes' libraries, and of cel-go's for texts.
    fn library_call(
        &self,
        function: &str,
        overload: &str,
        target: Option<&Operand<'t>>,
        arguments: &[Operand<'t>],
    ) -> Option<CallEstimate> {
        let text = |operand: &Operand<'_>, factor: f64| self.operand_size(operand).cost(factor);
        Some(match (function, target, arguments) {
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(target), _) => {
                let size = self.operand_size(target);
                CallEstimate::costs(match self.element(target) {
                    Some((of, element)) => {
                        let is_text = matches!(of, Type::String | Type::Bytes);
                        let comparison = if is_text { element.cost(TEXT) } else { 0 };
                        size.max.saturating_mul(comparison.saturating_add(1))
                    }
                    // The target is a text.
                    None => size.cost(TEXT),
                })
            }
            ("url", None, [argument]) => {
                CallEstimate::makes(text(argument, TEXT), self.operand_size(argument))
            }
            ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(target), _) => {
                CallEstimate::makes(text(target, TEXT), self.operand_size(target))
            }
            ("replace", Some(target), [replaced, by, ..]) => {
                let size = self.replaced(target, replaced, by);
                CallEstimate::makes(text(target, 2.0 * TEXT), size)
            }
            ("split", Some(target), arguments) => {
                // The most parts result from a split between all characters.
                let limit = arguments.get(1).and_then(|limit| self.integer(limit.id));
                let parts = limit.map_or(self.operand_size(target).max, i64::cast_unsigned);
                CallEstimate::makes(text(target, 2.0 * TEXT), SizeRange::up_to(parts))
            }
            ("join", Some(target), arguments) => {
                let size = self.joined(target, arguments.first());
                CallEstimate::makes(size.cost(TEXT), size)
            }
            ("find" | "findAll", Some(target), [pattern, ..]) => {
                let cost = self.pattern_cost(target, pattern);
                CallEstimate::makes(cost, SizeRange::up_to(self.operand_size(target).max))
            }
            ("ip", Some(_), _) => CallEstimate::costs(1),
            ("ip.isCanonical", _, [argument, ..]) => CallEstimate::costs(text(argument, 2.0 * TEXT)),
            (
                "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver",
                _,
                [argument, ..],
            ) => CallEstimate::costs(text(argument, TEXT)),
            ("containsIP" | "containsCIDR", _, [argument, ..]) => {
                let mut cost = scaled(2 * ADDRESS, TEXT);
                if function == "containsCIDR" {
                    cost += scaled(ADDRESS, TEXT) + 1;
                }
                let parsed = if overload.ends_with("(string)") { text(argument, TEXT) } else { 0 };
                CallEstimate::costs(parsed.saturating_add(cost))
            }
            ("validate", _, [argument, ..]) => {
                CallEstimate::costs(scaled(text(argument, TEXT), FORMAT_PATTERN * PATTERN))
            }
            (
                "masked"
                | "prefixLength"
                | "family"
                | "isUnspecified"
                | "isLoopback"
                | "isLinkLocalMulticast"
                | "isLinkLocalUnicast"
                | "isGlobalUnicast"
                | "format.named"
                | "sign"
                | "asInteger"
                | "isInteger"
                | "asApproximateFloat"
                | "isGreaterThan"
                | "isLessThan"
                | "compareTo"
                | "add"
                | "sub"
                | "major"
                | "minor"
                | "patch"
                | "getScheme"
                | "getHostname"
                | "getHost"
                | "getPort"
                | "getEscapedPath"
                | "getQuery",
                _,
                _,
            ) => CallEstimate::costs(1),
            ("_==_", _, [one, other]) => return self.equality(one, other),
            _ => return None,
        })
    }

    /// Estimates the comparison of values of Kubernetes' types.
    fn equality(&self, one: &Operand<'t>, other: &Operand<'t>) -> Option<CallEstimate> {
        let (Type::Object(of), Type::Object(other_type)) = (self.type_of(one.id), self.type_of(other.id))
        else {
            return None;
        };
        if of != other_type {
            return None;
        }
        let cost = match of.name {
            "net.IP" | "net.CIDR" | "kubernetes.Quantity" | "kubernetes.Semver" => 1,
            "kubernetes.NamedFormat" => scaled(FORMAT, TEXT),
            // kube-apiserver only looks at the right operand.
            "kubernetes.URL" => scaled(other.size.map_or(1, |size| size.max), TEXT),
            _ => return None,
        };
        Some(CallEstimate::costs(cost))
    }

    /// Estimates all other calls. Most cost one unit.
    fn builtin_call(
        &mut self,
        id: ExpandedId,
        call: (&str, &str),
        target: Option<&Operand<'t>>,
        arguments: &[Operand<'t>],
    ) -> CallEstimate {
        let size = |operand: &Operand<'_>| operand.size.unwrap_or(SizeRange::UNKNOWN);
        match (call, target, arguments) {
            (("format", _), Some(target), _) => CallEstimate::costs(size(target).cost(TEXT)),
            // As in cel-go, sizes beyond the largest number wrap around.
            (("bytes", "(string)"), None, [text]) => {
                let SizeRange { min, max } = size(text);
                CallEstimate::makes(size(text).cost(TEXT), SizeRange { min, max: max.wrapping_mul(4) })
            }
            (("string", "(bytes)"), None, [bytes]) => {
                let SizeRange { min, max } = size(bytes);
                CallEstimate::makes(size(bytes).cost(TEXT), SizeRange { min: min / 4, max })
            }
            (("strings.quote", _), None, [text]) => {
                let SizeRange { min, max } = size(text);
                let quoted = SizeRange { min: min.wrapping_add(2), max: max.wrapping_mul(2).wrapping_add(2) };
                CallEstimate::makes(size(text).cost(TEXT), quoted)
            }
            (("startsWith" | "endsWith", _), _, [part]) => CallEstimate::costs(size(part).cost(TEXT)),
            (("@in", "(A, list(A))"), _, [_, list]) => CallEstimate::costs(size(list).max),
            // The global function costs one unit.
            (("matches", _), Some(target), [pattern]) => {
                CallEstimate::costs(text_and_pattern(size(target), size(pattern)))
            }
            (("contains", _), Some(target), [part]) => {
                CallEstimate::costs(size(target).cost(TEXT).saturating_mul(size(part).cost(TEXT)))
            }
            (("_+_", "(string, string)" | "(bytes, bytes)" | "(list(A), list(A))"), _, [one, other]) => {
                let sum = size(one).plus(size(other));
                let entries = EntrySizes::union(self.entries(one.id), self.entries(other.id));
                self.remember_entries(id, entries);
                let cost = if call.1 == "(list(A), list(A))" { 1 } else { sum.cost(TEXT) };
                CallEstimate::makes(cost, sum)
            }
            (("_==_" | "_!=_", _), _, [one, other])
            | (("_<_" | "_<=_" | "_>_" | "_>=_", "(string, string)" | "(bytes, bytes)"), _, [one, other]) => {
                CallEstimate::costs(scaled(size(one).max.min(size(other).max), TEXT))
            }
            _ => CallEstimate::costs(1),
        }
    }

    fn conditional(&mut self, id: ExpandedId, arguments: &[Operand<'t>], costs: &[u64]) -> CallEstimate {
        let ([_, one, other], [condition, first, second]) = (arguments, costs) else {
            return CallEstimate::costs(1);
        };
        let entries = EntrySizes::union(self.entries(one.id), self.entries(other.id));
        self.remember_entries(id, entries);
        let size = |operand: &Operand<'_>| operand.size.unwrap_or(SizeRange::UNKNOWN);
        CallEstimate::makes(condition.saturating_add(*first.max(second)), size(one).union(size(other)))
    }

    fn operand_size(&self, operand: &Operand<'_>) -> SizeRange {
        operand.size.or_else(|| self.size_at(&operand.path)).unwrap_or(SizeRange::UNKNOWN)
    }

    /// Returns type and size of the elements of a list, or of the keys of a map; `None` for a value without parts.
    fn element(&self, list: &Operand<'t>) -> Option<(&'t Type, SizeRange)> {
        let (Type::List(of) | Type::Map(of, _) | Type::Optional(of)) = self.type_of(list.id) else {
            return None;
        };
        let mut size = None;
        if !list.path.is_empty() {
            // Unlike in other paths, the names are copied.
            let path = list.path.names().into_iter().fold(ValuePath::default(), |path, name| path.with(name));
            size = self.size_at(&path.with("@items"));
        }
        Some((of, size.unwrap_or(SizeRange::UNKNOWN)))
    }

    /// Returns the size of a text in which parts are replaced.
    fn replaced(&self, text: &Operand<'t>, replaced: &Operand<'t>, by: &Operand<'t>) -> SizeRange {
        let [size, replaced, by] = [text, replaced, by].map(|operand| self.operand_size(operand));
        // Number of replacements, and the rest of the text.
        let parts = |size: u64, part: u64| (size as f64 / part as f64).ceil() as u64;
        let (most, longest_rest) = match replaced.min {
            // An empty text is found around each character.
            0 => (size.max.saturating_add(1), size.max),
            min if by.max <= min => (0, size.max),
            min => (parts(size.max, min), 0),
        };
        let (fewest, shortest_rest) = match replaced.max {
            0 => (size.min.saturating_add(1), size.min),
            max if max <= by.min => (0, size.min),
            max => (parts(size.min, max), 0),
        };
        SizeRange { min: fewest, max: most }
            .times(by)
            .plus(SizeRange { min: shortest_rest, max: longest_rest })
    }

    /// Returns the size of the text of all elements of a list.
    fn joined(&self, list: &Operand<'t>, separator: Option<&Operand<'t>>) -> SizeRange {
        let size = self.operand_size(list);
        let texts = self.element(list).map_or(SizeRange::exactly(0), |(_, element)| size.times(element));
        let between = SizeRange { min: size.min.saturating_sub(1), max: size.max.saturating_sub(1) };
        match separator {
            Some(separator) => texts.plus(self.operand_size(separator).times(between)),
            None => texts,
        }
    }

    fn pattern_cost(&self, text: &Operand<'t>, pattern: &Operand<'t>) -> u64 {
        text_and_pattern(self.operand_size(text), self.operand_size(pattern))
    }
}

/// Returns the cost of a regular expression. An empty text counts as one character.
fn text_and_pattern(text: SizeRange, pattern: SizeRange) -> u64 {
    text.plus(SizeRange::exactly(1)).cost(TEXT).saturating_mul(pattern.cost(PATTERN))
}
