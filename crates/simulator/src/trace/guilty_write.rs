//! The write that caused a violation.

use serde_json::Value;

use super::Action;
use crate::{
    names::Actor,
    truth::{Change, Verb},
};

/// Subject of a violation, from which the guilty write is determined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Suspect {
    About {
        /// Objects or families, such as `configmaps default/page-*`, and remote systems, such as `remote cloud`.
        names: Vec<String>,
        /// The field that differs, such as `.status.phase`, if one does.
        field: Option<String>,
        /// Other objects or remote systems with a field that differs.
        others: Vec<(String, String)>,
        /// Number of the step after which the world was judged, if that was not the last one.
        last_step: Option<usize>,
    },
    /// The last call that this error names, which the API server refuses.
    CallOf(String),
    /// The state after the last change.
    LastChange,
    #[default]
    Unknown,
}

impl Suspect {
    /// The object that a difference between two worlds names, such as `configmaps default/page-*#2`.
    pub(crate) fn about(name: &str) -> Self {
        Self::about_all([name])
    }

    /// Like [`about`](Self::about), but several objects contradict each other.
    pub(crate) fn about_all<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let family = |name: &str| name.split('#').next().unwrap_or_default().to_owned();
        let names = names.into_iter().map(family).collect();
        Self::About { names, field: None, others: Vec::new(), last_step: None }
    }

    /// The field that differs.
    pub(crate) fn of_field(mut self, path: &str) -> Self {
        if let Self::About { field, .. } = &mut self {
            *field = Some(path.to_owned());
        }
        self
    }

    /// Other objects or remote systems, and the field of each that differs.
    pub(crate) fn with_others(mut self, fields: Vec<(String, String)>) -> Self {
        if let Self::About { others, .. } = &mut self {
            *others = fields;
        }
        self
    }

    /// Only actions up to the end of this step can be guilty: later ones cannot have caused what the world was after it.
    pub(crate) fn until(mut self, step: usize) -> Self {
        if let Self::About { last_step, .. } = &mut self {
            *last_step = Some(step);
        }
        self
    }

    /// The violations of the other fields, one by one.
    fn others(&self) -> Vec<Self> {
        let Self::About { others, last_step, .. } = self else { return Vec::new() };
        let suspect = |(name, path): &(String, String)| {
            let suspect = Self::about(name).of_field(path);
            match *last_step {
                Some(step) => suspect.until(step),
                None => suspect,
            }
        };
        others.iter().map(suspect).collect()
    }

    /// The actions that can be guilty.
    fn possible<'a>(&self, actions: &'a [Action]) -> &'a [Action] {
        let Self::About { last_step: Some(last), .. } = self else { return actions };
        let mut steps = actions.iter().enumerate().filter(|(_, action)| matches!(action, Action::Step(_)));
        let end = steps.nth(*last).map_or(actions.len(), |(place, _)| place);
        &actions[..end]
    }

    /// Whether an action is a call that the error names.
    pub(super) fn is_call(&self, action: &Action) -> bool {
        match (self, action) {
            (Self::CallOf(error), Action::CarriedOut { actor, name, .. }) => {
                actor.is_operator() && error.contains(&name.to_string())
            }
            _ => false,
        }
    }

    /// Whether an action concerns an object or remote system of the violation.
    fn has(&self, action: &Action) -> bool {
        match (self, action) {
            (Self::About { names, .. }, Action::Committed(change)) => {
                let family = change.family.to_string();
                names.iter().any(|name| *name == family || fits(name, &family))
            }
            (Self::About { names, .. }, Action::CarriedOut { name: call, .. }) => names.iter().any(|name| {
                name.strip_prefix("remote ").is_some_and(|remote| call.target == format!("at {remote}"))
            }),
            _ => false,
        }
    }

    /// Whether an action changed the field of the violation.
    fn has_field(&self, action: &Action) -> bool {
        let Self::About { field: Some(field), .. } = self else { return false };
        let changes = |changed: &[String]| has_common_field(changed, std::slice::from_ref(field));
        let is_changed = match action {
            Action::Committed(change) => changes(&change.paths()),
            Action::CarriedOut { changed, .. } => changes(changed),
            _ => false,
        };
        is_changed && self.has(action)
    }
}

/// Whether an object matches the name of a family, in which `*` stands for generated parts.
fn fits(family: &str, object: &str) -> bool {
    let mut parts = family.split('*');
    let Some(mut rest) = parts.next().and_then(|first| object.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        // The last `*` stands for at least one character, since a generated part is never empty.
        if parts.peek().is_none() {
            return rest.len() > part.len() && rest.ends_with(part);
        }
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.is_empty()
}

/// The write that caused a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guilty {
    /// Index of an action that occurs less often in the run without faults, or with other content.
    Extra(usize),
    /// Index, in the run without faults, of an action that occurs less often in the run with faults.
    Missing(usize),
    /// Index of a change of fields or of an object that another program had changed meanwhile.
    Unread(usize),
    /// Index of the last action about the object of the violation.
    Last(usize),
}

impl Guilty {
    /// Index in the run with faults; `None` if the action is missing there.
    pub(crate) fn place(self) -> Option<usize> {
        match self {
            Self::Extra(place) | Self::Unread(place) | Self::Last(place) => Some(place),
            Self::Missing(_) => None,
        }
    }
}

/// Finds the guilty change or effect of an operator. Of the actions about the object of the violation, these are tried in order: the
/// first one that only this run has, the first one that only the run without faults has, the first one with other content, and the
/// last one, of those that changed the field that differs if there is one. If no action concerns the object, the first action of any object that only one of the runs has is guilty.
///
/// An action that is missing may be the consequence of a change of what the operator had not read, such as a lost request. If only this
/// run has such a change, the change is guilty instead. If an action of the same name is the last one that changed the field that differs, in the
/// same step or later, that one is guilty: the story shows what set the field, and not that it happened once less. Or else, if another field differs
/// as well, an action that changed that one and that only this run has is guilty.
pub(crate) fn guilty(run: &[Action], without_faults: &[Action], suspect: &Suspect) -> Option<Guilty> {
    // A violation of the run without faults has no other run to compare with.
    let has_other = !without_faults.is_empty();
    let (run, without_faults) = (suspect.possible(run), suspect.possible(without_faults));
    let last = |is_last: &dyn Fn(&Action) -> bool| {
        run.iter().rposition(|action| label(action).is_some() && is_last(action)).map(Guilty::Last)
    };
    match suspect {
        // These violations appear with the change after which they are judged, whichever object it concerns.
        Suspect::LastChange => return last(&|_| true),
        Suspect::CallOf(_) => {
            return run.iter().rposition(|action| suspect.is_call(action)).map(Guilty::Last);
        }
        Suspect::About { .. } | Suspect::Unknown => {}
    }
    let about = |action: &Action| label(action).filter(|_| suspect.has(action));
    let with_content = |action: &Action| Some(format!("{} {:?}", about(action)?, content(action)));
    let last_of_field = last(&|action| suspect.has_field(action));
    let last_about = last_of_field.or_else(|| last(&|action| suspect.has(action)));
    if !has_other {
        return last_about;
    }
    let extra = |label: &dyn Fn(&Action) -> Option<String>| {
        first_excess(run, without_faults, label).map(Guilty::Extra)
    };
    // A change that happens too often explains more than one whose content differs, which may be a
    // consequence.
    extra(&about)
        .or_else(|| {
            let missing = first_excess(without_faults, run, &about)?;
            if let Some(unread) = first_unread(run, without_faults) {
                return Some(Guilty::Unread(unread));
            }
            let is_repetition = |last: &Guilty| {
                let is_late = |place: usize| step_of(run, place) >= step_of(without_faults, missing);
                last.place().is_some_and(|place| {
                    label(&run[place]) == label(&without_faults[missing]) && is_late(place)
                })
            };
            // An extra write to another object may be the reason why the action is missing.
            let extra_of_other = || {
                suspect
                    .others()
                    .iter()
                    .find_map(|other| extra(&|action| label(action).filter(|_| other.has_field(action))))
            };
            last_of_field.filter(is_repetition).or_else(extra_of_other).or(Some(Guilty::Missing(missing)))
        })
        .or_else(|| extra(&with_content))
        .or(last_about)
        .or_else(|| extra(&label))
        .or_else(|| first_excess(without_faults, run, &label).map(Guilty::Missing))
}

/// Index of the first change of what the operator had not read, if the run without faults has none with the same label.
fn first_unread(run: &[Action], without_faults: &[Action]) -> Option<usize> {
    let others: Vec<Option<String>> =
        unread_changes(without_faults).into_iter().map(|place| label(&without_faults[place])).collect();
    unread_changes(run).into_iter().find(|place| !others.contains(&label(&run[*place])))
}

/// Indices of the changes by an operator of fields that another program had changed since the reconcile began, or of an object that it
/// had replaced since then.
fn unread_changes(actions: &[Action]) -> Vec<usize> {
    let is_unread = |place: &usize| {
        let is_possible = |change: &&Change| change.actor.is_operator() && change.verb == Verb::Changed;
        let Some(change) = visible_commit(&actions[*place]).filter(is_possible) else { return false };
        let Some(began) = beginning(&actions[..*place], change) else { return false };
        let meanwhile = actions[began..*place].iter().filter_map(visible_commit);
        meanwhile
            .filter(|other| other.actor != change.actor && other.id == change.id)
            .any(|other| other.verb == Verb::Created || has_common_field(&change.paths(), &other.paths()))
    };
    (0..actions.len()).filter(is_unread).collect()
}

fn visible_commit(action: &Action) -> Option<&Change> {
    match action {
        Action::Committed(change) if change.is_visible => Some(change),
        _ => None,
    }
}

/// Index of the beginning of the reconcile that made a change: the last one of an object with this name, or else the last one.
fn beginning(actions: &[Action], change: &Change) -> Option<usize> {
    let last = |is_it: &dyn Fn(&str) -> bool| {
        actions.iter().rposition(|action| match action {
            Action::ReconcileBegan { actor, label } => *actor == change.actor && is_it(label),
            _ => false,
        })
    };
    last(&|label| label.ends_with(&format!(" {}", change.id.key))).or_else(|| last(&|_| true))
}

/// Whether a field of one list is a field of the other, contains it, or is contained in it.
fn has_common_field(one: &[String], other: &[String]) -> bool {
    let contains = |outer: &str, inner: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    one.iter().any(|one| other.iter().any(|other| contains(one, other) || contains(other, one)))
}

/// Name of a change of an operator, or of an effect that changed a remote system, equal in all runs. All processes of an operator have the
/// same name.
fn label(action: &Action) -> Option<String> {
    match action {
        Action::Committed(change) if change.is_visible => {
            let program = operator(change.actor)?;
            Some(format!("{program} {:?} {} {:?}", change.verb, change.family, change.paths()))
        }
        Action::CarriedOut { actor, name, changed } if !changed.is_empty() => {
            Some(format!("{} {name}", operator(*actor)?))
        }
        _ => None,
    }
}

/// Name of the operator that acts.
fn operator(actor: Actor) -> Option<&'static str> {
    actor.process().filter(|process| process.is_tested).map(|process| process.program)
}

/// Content of an object after a change, without the parts that differ between any two runs.
fn content(action: &Action) -> Option<Value> {
    let Action::Committed(change) = action else { return None };
    let after = change.after.as_ref()?;
    let mut content = after.whole().clone();
    let metadata = content.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(metadata) = metadata {
        // Uids, versions and managed fields differ between any two runs.
        metadata.retain(|name, _| matches!(&**name, "labels" | "annotations" | "finalizers"));
    }
    Some(content)
}

/// Index of the first labelled action of `one` that occurs less often in `other`, both overall and up to the end of the same step.
fn first_excess(
    one: &[Action],
    other: &[Action],
    label: &dyn Fn(&Action) -> Option<String>,
) -> Option<usize> {
    let (one, other) = (labelled(one, label), labelled(other, label));
    let count = |all: &[Labelled], label: &str, until: usize| {
        all.iter().filter(|known| known.label == label && known.step <= until).count()
    };
    let is_excess = |(number, found): &(usize, &Labelled)| {
        let so_far = one[..=*number].iter().filter(|known| known.label == found.label).count();
        // Both counts are needed: a fault may only move an action to a later or an earlier step.
        so_far > count(&other, &found.label, found.step)
            && count(&one, &found.label, usize::MAX) > count(&other, &found.label, usize::MAX)
    };
    one.iter().enumerate().find(is_excess).map(|(_, found)| found.place)
}

/// Number of steps that had begun before an action.
fn step_of(actions: &[Action], place: usize) -> usize {
    actions[..place].iter().filter(|action| matches!(action, Action::Step(_))).count()
}

/// An action with a label.
struct Labelled {
    label: String,
    place: usize,
    /// Number of steps that had begun.
    step: usize,
}

fn labelled(actions: &[Action], label: &dyn Fn(&Action) -> Option<String>) -> Vec<Labelled> {
    let mut step = 0;
    let mut all = Vec::new();
    for (place, action) in actions.iter().enumerate() {
        step += usize::from(matches!(action, Action::Step(_)));
        all.extend(label(action).map(|label| Labelled { label, place, step }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_a_field_in_common_if_one_contains_the_other() {
        let common = |one: &str, other: &str| has_common_field(&[one.to_owned()], &[other.to_owned()]);
        assert!(common(".data.a", ".data.a"));
        assert!(common(".metadata.annotations", ".metadata.annotations.x.io/a"));
        assert!(common(".data.a.b", ".data.a"));
        assert!(!common(".data.a", ".data.ab"));
        assert!(!common(".data", ".spec"));
    }
}
