//! Whether an informer knows the present, and what keeps it from that. Pure.

use std::collections::BTreeMap;

use super::{feed::Trouble, store::Part};

/// Whether an informer knows the present.
#[derive(Debug, Clone, Default)]
pub(crate) struct Status {
    /// It knew all parts once.
    pub(crate) synced: bool,
    /// What last went wrong with a part, until something goes right.
    troubles: BTreeMap<Part, Trouble>,
}

impl Status {
    /// A list or watch of the part works; `true` if that is news.
    pub(super) fn works(&mut self, part: &Part) -> bool {
        self.troubles.remove(part).is_some()
    }

    /// Something went wrong with a list or watch of the part.
    pub(super) fn failed(&mut self, part: &Part, trouble: &Trouble) {
        self.troubles.insert(part.clone(), trouble.clone());
    }

    /// The parts with which something is wrong.
    pub(super) fn in_trouble(&self) -> impl Iterator<Item = &Part> {
        self.troubles.keys()
    }

    /// Whether waiting may not help any more, or need not.
    pub(crate) fn is_decided(&self) -> bool {
        self.synced || self.forbidden().next().is_some()
    }

    /// The rules that the operator lacks, by part.
    pub(crate) fn forbidden(&self) -> impl Iterator<Item = &str> {
        self.troubles.values().filter_map(|trouble| trouble.forbidden.as_deref())
    }

    /// What is wrong: of several parts first with one that waiting will not help.
    pub(crate) fn trouble(&self) -> Option<String> {
        let mut all = self.troubles.values();
        let worst = all.clone().find(|trouble| trouble.forbidden.is_some()).or_else(|| all.next())?;
        Some(match self.troubles.len() {
            1 => worst.message.clone(),
            some => format!("{} (and {} more of its lists and watches fail)", worst.message, some - 1),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn trouble(message: &str, forbidden: Option<&str>) -> Trouble {
        Trouble { message: message.to_owned(), forbidden: forbidden.map(str::to_owned) }
    }

    #[test]
    fn trouble_ends_where_it_was_and_the_worst_is_told() {
        let mut status = Status::default();
        let part = |name: &str| -> Part { Some(Arc::from(name)) };
        assert_eq!(status.trouble(), None);
        status.failed(&part("red"), &trouble("503", None));
        status.failed(&part("red"), &trouble("504", None));
        assert_eq!(status.trouble().as_deref(), Some("504"));
        status.failed(&part("tan"), &trouble("403", Some("a rule")));
        assert_eq!(status.trouble().as_deref(), Some("403 (and 1 more of its lists and watches fail)"));
        assert!(status.works(&part("red")) && !status.works(&part("red")));
        assert_eq!(status.trouble().as_deref(), Some("403"));
        assert_eq!(status.forbidden().collect::<Vec<_>>(), ["a rule"]);
        assert!(status.works(&part("tan")));
        assert_eq!(status.forbidden().count(), 0);
    }
}
