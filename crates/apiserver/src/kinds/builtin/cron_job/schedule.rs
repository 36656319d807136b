//! Syntax of schedules and time zones, with the errors of the Go library `robfig/cron` and of Go's `time`.

use std::num::IntErrorKind;

use kube_apimachinery::go::{duration, quote};

/// Names of the time zones in the database that Go embeds, sorted.
const TIME_ZONES: &str = include_str!("time_zones.txt");
/// Descriptors that stand for whole schedules.
const DESCRIPTORS: [&str; 7] =
    ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Valid values of one field of a schedule.
struct ScheduleField {
    min: u64,
    max: u64,
    /// Names of the values, starting with that of `min`.
    names: &'static [&'static str],
}

/// Minute, hour, day of the month, month and day of the week.
const FIELDS: [ScheduleField; 5] = [
    ScheduleField { min: 0, max: 59, names: &[] },
    ScheduleField { min: 0, max: 23, names: &[] },
    ScheduleField { min: 1, max: 31, names: &[] },
    ScheduleField { min: 1, max: 12, names: &MONTHS },
    ScheduleField { min: 0, max: 6, names: &DAYS },
];

/// Checks the syntax of a schedule. The caller reports an empty one.
pub(super) fn check_schedule(schedule: &str) -> Result<(), String> {
    let mut rest = schedule;
    if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        let (zone, after) =
            schedule.split_once('=').unwrap_or_default().1.split_once(' ').ok_or_else(|| {
                // Without a space, the Go library slices up to index -1. kube-apiserver catches the panic and reports its text.
                "invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned()
            })?;
        load_zone(zone).map_err(|why| format!("provided bad location {zone}: {why}"))?;
        rest = after.trim();
    }
    if rest.starts_with('@') {
        return check_descriptor(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let (count, shown) = (fields.len(), fields.join(" "));
        return Err(format!("expected exactly {} fields, found {count}: [{shown}]", FIELDS.len()));
    }
    for (text, field) in fields.iter().zip(&FIELDS) {
        // The library ignores empty parts, such as the one in `1,,2`.
        text.split(',').filter(|part| !part.is_empty()).try_for_each(|part| check_range(part, field))?;
    }
    Ok(())
}

fn check_descriptor(descriptor: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&descriptor) {
        return Ok(());
    }
    let Some(interval) = descriptor.strip_prefix("@every ") else {
        return Err(format!("unrecognized descriptor: {descriptor}"));
    };
    match duration(interval) {
        Ok(_) => Ok(()),
        Err(why) => Err(format!("failed to parse duration {descriptor}: {why}")),
    }
}

/// Checks a range of values such as `1-5/2`.
fn check_range(text: &str, field: &ScheduleField) -> Result<(), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let bounds: Vec<&str> = parts[0].split('-').collect();
    let (start, mut end) = match bounds[..] {
        ["*" | "?", ..] => (field.min, field.max),
        [one] => {
            let number = value(one, field)?;
            (number, number)
        }
        [first, last] => (value(first, field)?, value(last, field)?),
        // The library parses the first value before it counts the hyphens.
        [first, ..] => {
            value(first, field)?;
            return Err(format!("too many hyphens: {text}"));
        }
        [] => return Ok(()),
    };
    let step = match parts[..] {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            // A single value with a step means the range from that value to the maximum.
            if bounds.len() == 1 {
                end = field.max;
            }
            step
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    // `*` with hyphens after it, such as `*-5`, passes: the library ignores the rest.
    if start < field.min {
        return Err(format!("beginning of range ({start}) below minimum ({}): {text}", field.min));
    }
    if end > field.max {
        return Err(format!("end of range ({end}) above maximum ({}): {text}", field.max));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

/// Reads a number, or the name of a value in any case.
fn value(text: &str, field: &ScheduleField) -> Result<u64, String> {
    let lower = text.to_lowercase();
    match (field.min..).zip(field.names).find(|(_, name)| **name == lower) {
        Some((number, _)) => Ok(number),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    let parsed = text.parse::<i64>().map_err(|error| {
        let why = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("failed to parse int from {text}: strconv.Atoi: parsing {}: {why}", quote(text))
    })?;
    u64::try_from(parsed).map_err(|_| format!("negative number ({parsed}) not allowed: {text}"))
}

/// Returns the reasons why a text is not a valid time zone for a CronJob.
pub(super) fn check_time_zone(name: &str) -> Vec<String> {
    // The naming rules of the time zone database allow 14 characters between slashes. They also keep the name from leaving the directory of
    // the zone files.
    const MAX_PART: usize = 14;
    if name.is_empty() {
        return vec!["timeZone must be nil or non-empty string".to_owned()];
    }
    let is_part = |part: &str| {
        let is_of_charset = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
        !part.is_empty()
            && ![".", ".."].contains(&part)
            && !part.starts_with('-')
            && part.len() <= MAX_PART
            && part.bytes().all(is_of_charset)
    };
    if !name.split('/').all(is_part) {
        return vec![format!("unknown time zone {name}")];
    }
    // `Local` is Go's name for the time zone of the machine, which is not that of the controller.
    let of_machine = name.eq_ignore_ascii_case("Local").then(|| {
        "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones".to_owned()
    });
    of_machine.into_iter().chain(load_zone(name).err()).collect()
}

/// Looks up a time zone, with the special cases and errors of Go's `time.LoadLocation`.
fn load_zone(name: &str) -> Result<(), String> {
    if ["", "UTC", "Local"].contains(&name) {
        return Ok(());
    }
    if name.contains("..") || name.starts_with(['/', '\\']) {
        return Err("time: invalid location name".to_owned());
    }
    let is_known = TIME_ZONES.lines().any(|zone| zone == name);
    if is_known { Ok(()) } else { Err(format!("unknown time zone {name}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Observed with kube-apiserver 1.36.3.
    #[test]
    fn schedules_have_five_fields_or_a_descriptor() {
        for good in [
            "* * * * *",
            "*/5 0-23/2 1,15 JAN-dec sun",
            "? * * * 1-5",
            "@hourly",
            "@every 1h30m",
            "TZ=Europe/Berlin 0 0 * * *",
            "5/15 * * * *",
            ", * * * *",
        ] {
            assert_eq!(check_schedule(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("bad", "expected exactly 5 fields, found 1: [bad]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("@often", "unrecognized descriptor: @often"),
            ("@every x", "failed to parse duration @every x: time: invalid duration \"x\""),
            ("TZ=No/Where 0 0 * * *", "provided bad location No/Where: unknown time zone No/Where"),
            ("TZ=UTC", "invalid schedule format: runtime error: slice bounds out of range [:-1]"),
        ] {
            assert_eq!(check_schedule(bad), Err(why.to_owned()), "{bad}");
        }
    }

    #[test]
    fn time_zones_are_those_of_iana() {
        for good in ["UTC", "Etc/GMT+1", "Europe/Berlin", "America/Argentina/Buenos_Aires"] {
            assert_eq!(check_time_zone(good), [""; 0], "{good}");
        }
        for bad in ["Nowhere/City", "europe/berlin", "Europe/", "../UTC", "-x", "a b"] {
            assert_eq!(check_time_zone(bad), [format!("unknown time zone {bad}")]);
        }
        assert_eq!(check_time_zone(""), ["timeZone must be nil or non-empty string"]);
        assert_eq!(check_time_zone("Local").len(), 1);
        assert_eq!(check_time_zone("local").len(), 2);
    }
}
