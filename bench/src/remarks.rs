//! Remarks on missed goals, written by people and kept across runs.

use std::collections::BTreeMap;
use std::fs;

use crate::build::root;

/// Texts by goal name.
#[derive(Debug, Default)]
pub(crate) struct Remarks(BTreeMap<String, String>);

impl Remarks {
    /// Reads `bench/REMARKS.md`; empty if the file cannot be read.
    pub(crate) fn read() -> Self {
        Self::parse(&fs::read_to_string(root().join("bench/REMARKS.md")).unwrap_or_default())
    }

    /// Parses headings of the second level, which are goal names, and the text below each.
    pub(crate) fn parse(text: &str) -> Self {
        let sections = text.split("\n## ").skip(1).filter_map(|section| {
            let (name, text) = section.split_once('\n')?;
            Some((name.trim().to_owned(), text.trim().to_owned()))
        });
        Self(sections.collect())
    }

    pub(crate) fn of(&self, goal: &str) -> Option<&str> {
        self.0.get(goal).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goals::verdicts;
    use crate::samples::Samples;

    #[test]
    fn a_remark_is_the_text_below_the_name_of_a_goal() {
        let remarks = Remarks::parse(
            "# Remarks\n\nnobody's\n\n## one: goal\n\nFirst.\n\nSecond.\n\n## another\nThird.\n",
        );
        assert_eq!(remarks.of("one: goal"), Some("First.\n\nSecond."));
        assert_eq!((remarks.of("another"), remarks.of("absent")), (Some("Third."), None));
    }

    #[test]
    fn remarks_are_about_goals_that_there_are() {
        let verdicts = verdicts(&Samples::default());
        for name in Remarks::read().0.keys() {
            assert!(verdicts.iter().any(|verdict| verdict.name == *name), "{name}: there is no such goal");
        }
    }
}
