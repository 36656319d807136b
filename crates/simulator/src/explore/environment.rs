//! Environment variables that change a search, for CI and for other machines.

use std::{ops::Range, time::Duration};

/// Settings of a search that stand in the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `SIMULATION_BUDGET`, such as `60s`: real time after which no more runs begin.
    pub(crate) budget: Option<Duration>,
    /// `SIMULATION_SEEDS`, such as `0..1000`: one random plan for each seed, after all others.
    pub(crate) seeds: Range<u64>,
    /// `SIMULATION_JOBS`: number of processes that share the plans.
    pub(crate) jobs: Option<usize>,
    /// `SIMULATION_SHARE`, such as `2/4`: this process plays the second of every four plans.
    pub(crate) share: Option<Share>,
}

/// Part of the plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// From 1 to `of`.
    pub(crate) number: usize,
    pub(crate) of: usize,
}

impl Share {
    /// Whether the plan at this place, from 0, is in the share.
    pub(crate) fn has(self, place: usize) -> bool {
        place % self.of + 1 == self.number
    }
}

/// Largest number of processes.
const MOST_JOBS: usize = 256;

impl Settings {
    /// Reads the environment.
    ///
    /// # Panics
    ///
    /// A variable has an invalid value: a search that ignored it would not be the requested one.
    pub(crate) fn of_environment() -> Self {
        let variable = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        Self::parse(variable).unwrap_or_else(|error| panic!("{error}"))
    }

    fn parse(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        fn read<T>(
            name: &str,
            value: Option<String>,
            example: &str,
            parse: impl Fn(&str) -> Option<T>,
        ) -> Result<Option<T>, String> {
            let Some(value) = value else { return Ok(None) };
            let wrong = || format!("{name}={value:?} is not valid; a valid value is {example}");
            parse(&value).map(Some).ok_or_else(wrong)
        }
        let read_budget = |text: &str| {
            let number = text.strip_suffix('s').unwrap_or(text).parse().ok()?;
            Some(Duration::from_secs(number))
        };
        let read_seeds = |text: &str| {
            let (first, last) = text.split_once("..")?;
            let range = first.parse().ok()?..last.parse().ok()?;
            // An empty range would silently leave out the random plans that the variable asks for.
            (!range.is_empty()).then_some(range)
        };
        let read_jobs = |text: &str| text.parse().ok().filter(|jobs| (1..=MOST_JOBS).contains(jobs));
        let read_share = |text: &str| {
            let (number, of) = text.split_once('/')?;
            let share = Share { number: number.parse().ok()?, of: of.parse().ok()? };
            (1..=share.of).contains(&share.number).then_some(share)
        };
        let [budget, seeds, jobs, share] =
            ["SIMULATION_BUDGET", "SIMULATION_SEEDS", "SIMULATION_JOBS", "SIMULATION_SHARE"];
        Ok(Self {
            budget: read(budget, variable(budget), "60s", read_budget)?,
            seeds: read(seeds, variable(seeds), "0..1000", read_seeds)?.unwrap_or_default(),
            jobs: read(jobs, variable(jobs), "a number from 1 to 256, such as 4", read_jobs)?,
            share: read(share, variable(share), "1/4, the first of four", read_share)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, value: &str) -> Result<Settings, String> {
        Settings::parse(|variable| (variable == name).then(|| value.to_owned()))
    }

    #[test]
    fn valid_values_are_read() {
        let check = |name: &str, value: &str, expected: Settings| {
            assert_eq!(parse(name, value), Ok(expected), "{name}={value}");
        };
        let none = Settings::default;
        let minute = || Settings { budget: Some(Duration::from_secs(60)), ..none() };
        check("SIMULATION_BUDGET", "60s", minute());
        check("SIMULATION_BUDGET", "60", minute());
        check("SIMULATION_SEEDS", "5..7", Settings { seeds: 5..7, ..none() });
        check("SIMULATION_JOBS", "4", Settings { jobs: Some(4), ..none() });
        let share = Share { number: 2, of: 4 };
        check("SIMULATION_SHARE", "2/4", Settings { share: Some(share), ..none() });
        check("ANOTHER", "x", none());
    }

    #[test]
    fn other_values_are_refused_with_an_example() {
        let check = |name: &str, value: &str, example: &str| {
            let error = parse(name, value).expect_err(value);
            assert_eq!(error, format!("{name}={value:?} is not valid; a valid value is {example}"));
        };
        for value in ["soon", "", "1m", "-1s", "s"] {
            check("SIMULATION_BUDGET", value, "60s");
        }
        for value in ["7", "5..", "..5", "7..7", "9..7", "a..b"] {
            check("SIMULATION_SEEDS", value, "0..1000");
        }
        for value in ["0", "many", "1000"] {
            check("SIMULATION_JOBS", value, "a number from 1 to 256, such as 4");
        }
        for value in ["0/4", "5/4", "1", "1/0", "/"] {
            check("SIMULATION_SHARE", value, "1/4, the first of four");
        }
    }

    #[test]
    fn shares_have_each_plan_once() {
        for place in 0..20 {
            let having = (1..=3).filter(|number| Share { number: *number, of: 3 }.has(place));
            assert_eq!(having.count(), 1);
        }
    }
}
