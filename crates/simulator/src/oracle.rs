//! The rules by which runs are judged.

use std::fmt;

/// Rule that a run violates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Oracle {
    /// Whenever the world is quiet, its objects equal those of the run without faults.
    SameObjects,
    /// Objects are created and deleted as often as in the run without faults, or as in a run without faults in which the user waits two minutes
    /// before each write or makes all writes of a step before anything else happens, or any number of times in between. A child that is created
    /// when its owners are gone, and that the garbage collector deletes, does not count. Nor does one that the operator deletes itself, if the plan
    /// held watch events back.
    SameCounts,
    /// Remote systems end in the states of the run without faults.
    SameRemotes,
    /// The world becomes quiet.
    Quiet,
    /// The operator runs until it is stopped.
    Runs,
    /// The steps of the user succeed.
    Steps,
    /// A check of the simulation holds.
    Check,
    /// No write removes a field that another program wrote: an object is replaced as a whole, from a template.
    Trespass,
    /// No request fails forever that succeeds in the run without faults. At the end of that run, the API server refuses no request
    /// for good (403, 409 or 422), and no finalizer of the operator keeps an object that the user has deleted.
    Succeeds,
    /// Two runs of one plan are equal.
    Repeats,
    /// No two processes reconcile one object at once, and none sends writes while another one leads. Controllers that need no leader election
    /// reconcile in each process.
    OneAtATime,
}

/// Formats as in reports, such as `same objects`.
impl fmt::Display for Oracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SameObjects => "same objects",
            Self::SameCounts => "same counts",
            Self::SameRemotes => "same remotes",
            Self::Quiet => "quiet",
            Self::Runs => "runs",
            Self::Steps => "steps",
            Self::Check => "check",
            Self::Trespass => "trespass",
            Self::Succeeds => "succeeds",
            Self::Repeats => "repeats",
            Self::OneAtATime => "one at a time",
        })
    }
}
