//! Quantities in expressions.

use super::evaluation_error::failed;
use super::functions::{Evaluated, no_overload_of};
use super::value::Val;
use crate::quantity::{self, Quantity};

/// A quantity, and its form as a whole number.
#[derive(Debug, Clone, Copy)]
pub(super) struct CelQuantity {
    pub(super) amount: Quantity,
    /// Mantissa and power of ten of a quantity that Go keeps in 64 bits. Only those can be integers.
    small: Option<(i64, i32)>,
}

impl CelQuantity {
    fn read(text: &str) -> Option<Self> {
        Some(Self { amount: Quantity::read(text)?, small: quantity::small(text) })
    }

    fn whole(number: i64) -> Self {
        Self { amount: Quantity::whole(number), small: Some((number, 0)) }
    }

    /// Returns the whole number; `None` if Go keeps the quantity in another form, even if its value is whole.
    fn integer(self) -> Option<i64> {
        let (mantissa, power) = self.small?;
        let factor = 10_i64.checked_pow(u32::try_from(power).ok()?);
        if mantissa == 0 { Some(0) } else { mantissa.checked_mul(factor?) }
    }

    fn plus(self, other: Self) -> Self {
        Self { amount: self.amount.plus(other.amount), small: sum(self.small, other.small) }
    }

    fn minus(self, other: Self) -> Self {
        let negative = other.small.and_then(|(mantissa, power)| Some((mantissa.checked_neg()?, power)));
        Self { amount: self.amount.minus(other.amount), small: sum(self.small, negative) }
    }
}

/// Adds two mantissas after scaling them to the smaller power of ten.
fn sum(one: Option<(i64, i32)>, two: Option<(i64, i32)>) -> Option<(i64, i32)> {
    let ((one, one_power), (two, two_power)) = one.zip(two)?;
    if two == 0 {
        return Some((one, one_power));
    }
    if one == 0 {
        return Some((two, two_power));
    }
    let power = one_power.min(two_power);
    let scaled = |mantissa: i64, from: i32| {
        mantissa.checked_mul(10_i64.checked_pow(u32::try_from(from - power).ok()?)?)
    };
    Some((scaled(one, one_power)?.checked_add(scaled(two, two_power)?)?, power))
}

/// Calls a function without a target; `None` if it is not a function of quantities.
pub(super) fn global<'a>(function: &str, arguments: &[Val<'a>]) -> Option<Evaluated<'a>> {
    Some(match (function, arguments) {
        ("quantity", [Val::String(text)]) => CelQuantity::read(text).map(Val::Quantity).ok_or_else(|| {
            // A text without a refusal is a quantity.
            failed(quantity::refusal(text).unwrap_or_default())
        }),
        ("isQuantity", [Val::String(text)]) => Ok(Val::Bool(quantity::refusal(text).is_none())),
        ("sign", [Val::Quantity(quantity)]) => Ok(Val::Int(quantity.amount.cmp(&Quantity::ZERO) as i64)),
        ("quantity" | "isQuantity" | "sign", other) => Err(no_overload_of(function, other)),
        _ => return None,
    })
}

/// Calls a function of a quantity; `None` if there is no such function for the arguments.
pub(super) fn member<'a>(
    function: &str,
    target: CelQuantity,
    arguments: &[Val<'a>],
) -> Option<Evaluated<'a>> {
    let one = target.amount;
    Some(match (function, arguments) {
        ("isInteger", []) => Ok(Val::Bool(target.integer().is_some())),
        ("asInteger", []) => {
            target.integer().map(Val::Int).ok_or_else(|| failed("cannot convert value to integer"))
        }
        ("asApproximateFloat", []) => Ok(Val::Double(one.approximate())),
        ("isGreaterThan", [Val::Quantity(two)]) => Ok(Val::Bool(one > two.amount)),
        ("isLessThan", [Val::Quantity(two)]) => Ok(Val::Bool(one < two.amount)),
        ("compareTo", [Val::Quantity(two)]) => Ok(Val::Int(one.cmp(&two.amount) as i64)),
        ("add", [Val::Quantity(two)]) => Ok(Val::Quantity(target.plus(*two))),
        ("add", [Val::Int(number)]) => Ok(Val::Quantity(target.plus(CelQuantity::whole(*number)))),
        ("sub", [Val::Quantity(two)]) => Ok(Val::Quantity(target.minus(*two))),
        ("sub", [Val::Int(number)]) => Ok(Val::Quantity(target.minus(CelQuantity::whole(*number)))),
        _ => return None,
    })
}
