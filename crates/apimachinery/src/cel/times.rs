//! Timestamps and durations.

use std::fmt::Write;

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

use super::evaluation_error::{EvaluationError, failed};
use super::functions::{Evaluated, no_overload_of};
use super::operators::overflow;
use super::value::Val;
use crate::go::{self, Layout};

/// First and last second of a timestamp: the years 1 to 9999.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// Nanoseconds of a second.
const NANOS: i128 = 1_000_000_000;
/// Twenty cycles of the Gregorian calendar, which repeats after 400 years: their years and nanoseconds. Times beyond the range of
/// [`Timestamp`] are computed that much earlier.
const CYCLE_YEARS: i64 = 8000;
const CYCLES: i128 = 20 * 146_097 * 86_400 * NANOS;
/// Moments after this one are beyond the range of [`Timestamp`], or close to its end.
const LATE: i128 = 253_402_000_000 * NANOS;

/// A point in time with the offset from UTC in which it was written. Only its text shows the offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    /// Nanoseconds since 1970.
    pub(super) at: i128,
    /// Offset in seconds east of UTC.
    offset: i32,
}

impl Moment {
    /// Returns a point in time in UTC; `None` outside of the years 1 to 9999.
    fn of_seconds(seconds: i64) -> Option<Self> {
        SECONDS.contains(&seconds).then(|| Self { at: i128::from(seconds) * NANOS, offset: 0 })
    }

    /// Parses a time as RFC 3339.
    fn parse(text: &str) -> Result<Self, String> {
        let at = match go::time(text, Layout::Seconds) {
            Ok(time) => time.as_nanosecond(),
            // The last two days of the year 9999 are beyond the range of `Timestamp`. They have the same days as those of 1999.
            Err(why) => match text.strip_prefix("9999-12-3").map(|rest| format!("1999-12-3{rest}")) {
                Some(earlier) => go::time(&earlier, Layout::Seconds)?.as_nanosecond() + CYCLES,
                None => return Err(why),
            },
        };
        // The text has been parsed, so it ends with `Z` or with an offset such as `+01:00`.
        let number = |range| text.get(range).and_then(|digits: &str| digits.parse::<i32>().ok()).unwrap_or(0);
        let length = text.len();
        let offset = match text.as_bytes() {
            [.., b'Z'] => 0,
            bytes => {
                let seconds = 60 * (60 * number(length - 5..length - 3) + number(length - 2..length));
                if bytes[length - 6] == b'-' { -seconds } else { seconds }
            }
        };
        Ok(Self { at, offset })
    }

    /// Parses a text that has the format `date` in a schema.
    pub(super) fn of_date(text: &str) -> Result<Self, String> {
        Self::parse(&format!("{text}T00:00:00Z")).map_err(|_| invalid_date(text))
    }

    /// Parses a text that has the format `date-time` in a schema; an empty text is 1970-01-01.
    pub(super) fn of_schema(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self { at: 0, offset: 0 });
        }
        Self::parse(text).or_else(|_| {
            // The last layout that the library tries has no time zone.
            Self::parse(&format!("{text}Z")).map_err(|_| {
                let layout = go::quote("2006-01-02T15:04:05");
                let quoted = go::quote(text);
                format!("parsing time {quoted} as {layout}: cannot parse {quoted} as \"2006\"")
            })
        })
    }

    fn seconds(self) -> i64 {
        i64::try_from(self.at.div_euclid(NANOS)).unwrap_or_default()
    }

    /// Returns the time, and the years that have to be added to it.
    fn time(self) -> (Timestamp, i64) {
        let (at, years) = if self.at > LATE { (self.at - CYCLES, CYCLE_YEARS) } else { (self.at, 0) };
        // Each moment is between the years 1 and 9999.
        (Timestamp::from_nanosecond(at).unwrap_or(Timestamp::UNIX_EPOCH), years)
    }

    /// Formats the time as Go's `RFC3339Nano`.
    fn text(self) -> String {
        let offset = Offset::from_seconds(self.offset).unwrap_or(Offset::UTC);
        let (time, years) = self.time();
        let local = offset.to_datetime(time);
        let mut text = format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            i64::from(local.year()) + years,
            local.month(),
            local.day(),
            local.hour(),
            local.minute(),
            local.second()
        );
        if local.subsec_nanosecond() != 0 {
            let fraction = format!("{:09}", local.subsec_nanosecond());
            let _ = write!(text, ".{}", fraction.trim_end_matches('0'));
        }
        if self.offset == 0 {
            return text + "Z";
        }
        let minutes = self.offset.abs() / 60;
        let sign = if self.offset < 0 { '-' } else { '+' };
        let _ = write!(text, "{sign}{:02}:{:02}", minutes / 60, minutes % 60);
        text
    }
}

fn invalid_date(text: &str) -> String {
    let quoted = go::quote(text);
    format!("parsing time {quoted} as \"2006-01-02\": cannot parse {quoted} as \"2006\"")
}

/// Builds the error of a conversion from a text or type that does not fit.
pub(super) fn no_conversion(from: &str, to: &str) -> EvaluationError {
    failed(format!("type conversion error from '{from}' to '{to}'"))
}

fn timestamp_overflow() -> EvaluationError {
    failed("timestamp overflow")
}

/// Calls `timestamp(value)`.
pub(super) fn timestamp<'a>(value: &Val<'a>) -> Evaluated<'a> {
    Ok(Val::Timestamp(match value {
        Val::Timestamp(moment) => *moment,
        Val::Int(seconds) => Moment::of_seconds(*seconds).ok_or_else(timestamp_overflow)?,
        Val::String(text) => {
            let parsed = Moment::parse(text);
            let parsed = parsed.map_err(|_| no_conversion("string", "google.protobuf.Timestamp"))?;
            if !SECONDS.contains(&parsed.seconds()) {
                return Err(timestamp_overflow());
            }
            parsed
        }
        other => return Err(no_overload_of("timestamp", [other])),
    }))
}

/// Calls `duration(value)`.
pub(super) fn duration<'a>(value: &Val<'a>) -> Evaluated<'a> {
    let to = "google.protobuf.Duration";
    Ok(Val::Duration(match value {
        Val::Duration(nanoseconds) => *nanoseconds,
        Val::Int(_) => return Err(no_conversion("int", to)),
        Val::String(text) => parsed_duration(text).map_err(|_| no_conversion("string", to))?,
        other => return Err(no_overload_of("duration", [other])),
    }))
}

fn parsed_duration(text: &str) -> Result<i64, String> {
    let parsed = go::duration(text)?;
    i64::try_from(parsed.as_nanos()).map_err(|_| format!("time: invalid duration {}", go::quote(text)))
}

/// Returns the text of a timestamp or a duration, as `string()` makes it.
pub(super) fn text_of(value: &Val<'_>) -> Option<String> {
    match value {
        Val::Timestamp(moment) => Some(moment.text()),
        Val::Duration(nanoseconds) => {
            let (whole, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
            Some(format!("{}s", whole as f64 + rest as f64 / 1e9))
        }
        _ => None,
    }
}

/// Returns the number that `int()` makes of a timestamp (seconds) or a duration (nanoseconds).
pub(super) fn number_of(value: &Val<'_>) -> Option<i64> {
    match value {
        Val::Timestamp(moment) => Some(moment.seconds()),
        Val::Duration(nanoseconds) => Some(*nanoseconds),
        _ => None,
    }
}

/// Whether this is a function of timestamps and durations.
pub(super) fn is_accessor(function: &str) -> bool {
    matches!(
        function,
        "getFullYear"
            | "getMonth"
            | "getDate"
            | "getDayOfMonth"
            | "getDayOfWeek"
            | "getDayOfYear"
            | "getHours"
            | "getMinutes"
            | "getSeconds"
            | "getMilliseconds"
    )
}

/// Calls a function of a timestamp or a duration.
pub(super) fn access<'a>(function: &str, target: &Val<'a>, arguments: &[Val<'a>]) -> Evaluated<'a> {
    let refused = || no_overload_of(function, [target].into_iter().chain(arguments));
    match (target, arguments) {
        (Val::Timestamp(moment), []) => part(function, *moment, TimeZone::UTC).ok_or_else(refused),
        (Val::Timestamp(moment), [Val::String(zone)]) => {
            part(function, *moment, time_zone(zone)?).ok_or_else(refused)
        }
        (Val::Duration(nanoseconds), []) => {
            let unit = match function {
                "getHours" => 3_600_000_000_000,
                "getMinutes" => 60_000_000_000,
                "getSeconds" => 1_000_000_000,
                "getMilliseconds" => 1_000_000,
                _ => return Err(refused()),
            };
            Ok(Val::Int(nanoseconds / unit))
        }
        _ => Err(refused()),
    }
}

/// Returns a part of a time. Months, days of the month and days of the year begin with 0, `getDate` with 1.
fn part<'a>(function: &str, moment: Moment, zone: TimeZone) -> Option<Val<'a>> {
    let (time, years) = moment.time();
    let time = time.to_zoned(zone);
    Some(Val::Int(match function {
        "getFullYear" => i64::from(time.year()) + years,
        "getMonth" => i64::from(time.month()) - 1,
        "getDate" => time.day().into(),
        "getDayOfMonth" => i64::from(time.day()) - 1,
        "getDayOfWeek" => time.weekday().to_sunday_zero_offset().into(),
        "getDayOfYear" => i64::from(time.day_of_year()) - 1,
        "getHours" => time.hour().into(),
        "getMinutes" => time.minute().into(),
        "getSeconds" => time.second().into(),
        "getMilliseconds" => i64::from(time.subsec_nanosecond()) / 1_000_000,
        _ => return None,
    }))
}

/// Returns a time zone by its name, or by its offset from UTC such as `-08:00`.
fn time_zone(name: &str) -> Result<TimeZone, EvaluationError> {
    let Some((hours, minutes)) = name.split_once(':') else {
        if name.is_empty() || name == "UTC" {
            return Ok(TimeZone::UTC);
        }
        let is_path = name.starts_with(['/', '\\']) || name.split(['/', '\\']).any(|part| part == "..");
        if is_path {
            return Err(failed("time: invalid location name"));
        }
        return TimeZone::get(name).map_err(|_| failed(format!("unknown time zone {name}")));
    };
    let number = |text: &str| {
        text.parse::<i64>().map_err(|error| {
            let why = match error.kind() {
                std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => {
                    "value out of range"
                }
                _ => "invalid syntax",
            };
            failed(format!("strconv.Atoi: parsing {}: {why}", go::quote(text)))
        })
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let minutes = if name.starts_with('-') { -minutes } else { minutes };
    let seconds = hours.saturating_mul(3600).saturating_add(minutes.saturating_mul(60));
    // Go has no limit, but no place on Earth is beyond that of `Offset`.
    let offset = i32::try_from(seconds).ok().and_then(|seconds| Offset::from_seconds(seconds).ok());
    Ok(offset.map_or(TimeZone::UTC, TimeZone::fixed))
}

/// Adds or subtracts timestamps and durations; `None` if the operands are others.
pub(super) fn arithmetic<'a>(operator: &str, one: &Val<'a>, two: &Val<'a>) -> Option<Evaluated<'a>> {
    let moved = |moment: &Moment, nanoseconds: i128| {
        let moved = Moment { at: moment.at + nanoseconds, offset: moment.offset };
        let is_valid = SECONDS.contains(&moved.seconds());
        is_valid.then_some(Val::Timestamp(moved)).ok_or_else(timestamp_overflow)
    };
    let duration = |nanoseconds: Option<i64>| nanoseconds.map(Val::Duration).ok_or_else(overflow);
    Some(match (operator, one, two) {
        ("_+_", Val::Duration(one), Val::Duration(two)) => duration(one.checked_add(*two)),
        ("_-_", Val::Duration(one), Val::Duration(two)) => duration(one.checked_sub(*two)),
        ("_+_", Val::Timestamp(moment), Val::Duration(by))
        | ("_+_", Val::Duration(by), Val::Timestamp(moment)) => moved(moment, i128::from(*by)),
        ("_-_", Val::Timestamp(moment), Val::Duration(by)) => moved(moment, -i128::from(*by)),
        ("_-_", Val::Timestamp(one), Val::Timestamp(two)) => {
            let between = one.at - two.at;
            duration(i64::try_from(between).ok())
        }
        _ => return None,
    })
}
