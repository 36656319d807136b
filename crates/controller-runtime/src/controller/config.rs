//! Defaults for the options of all controllers of a manager, and the settings of one controller.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::worker_pool::{self, DEFAULT_WORKERS, WorkersError};
use crate::request_queue::QueueOrder;

/// Defaults for options that controllers of a manager do not set in their own
/// [`ControllerOptions`](super::ControllerOptions), where each option is explained.
///
/// ```
/// use std::time::Duration;
/// use controller_runtime::{ManagerOptions, controller::Config};
///
/// let options = ManagerOptions::new("guestbook-operator").controller(
///     Config::default()
///         .group_kind_concurrency("Deployment.apps", 4)
///         .reconciliation_timeout(Duration::from_secs(300)),
/// );
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
#[doc(alias = "config.Controller")]
pub struct Config {
    max_concurrent_reconciles: Option<usize>,
    group_kind_concurrency: BTreeMap<String, usize>,
    cache_sync_timeout: Option<Duration>,
    reconciliation_timeout: Option<Duration>,
    recover_panic: Option<bool>,
    needs_leader_election: Option<bool>,
    use_priority_queue: Option<bool>,
    enable_warmup: Option<bool>,
    skip_name_validation: Option<bool>,
}

impl Config {
    /// See [`ControllerOptions::max_concurrent_reconciles`](super::ControllerOptions::max_concurrent_reconciles). Default: 16.
    pub fn max_concurrent_reconciles(mut self, workers: usize) -> Self {
        self.max_concurrent_reconciles = Some(workers);
        self
    }

    /// Sets the number of workers for controllers of one kind, named like `Deployment.apps`, or `Pod` for the core group. It
    /// takes precedence over [`max_concurrent_reconciles`](Self::max_concurrent_reconciles) of the manager.
    #[doc(alias = "GroupKindConcurrency")]
    pub fn group_kind_concurrency(mut self, kind: impl Into<String>, workers: usize) -> Self {
        self.group_kind_concurrency.insert(kind.into(), workers);
        self
    }

    /// See [`ControllerOptions::cache_sync_timeout`](super::ControllerOptions::cache_sync_timeout). Default: that of the manager.
    pub fn cache_sync_timeout(mut self, timeout: Duration) -> Self {
        self.cache_sync_timeout = Some(timeout);
        self
    }

    /// See [`ControllerOptions::reconciliation_timeout`](super::ControllerOptions::reconciliation_timeout). Default: none, as
    /// with zero.
    pub fn reconciliation_timeout(mut self, timeout: Duration) -> Self {
        self.reconciliation_timeout = Some(timeout);
        self
    }

    /// See [`ControllerOptions::recover_panic`](super::ControllerOptions::recover_panic). Default: true.
    pub fn recover_panic(mut self, recover: bool) -> Self {
        self.recover_panic = Some(recover);
        self
    }

    /// See [`ControllerOptions::needs_leader_election`](super::ControllerOptions::needs_leader_election). Default: true.
    pub fn needs_leader_election(mut self, needs: bool) -> Self {
        self.needs_leader_election = Some(needs);
        self
    }

    /// See [`ControllerOptions::use_priority_queue`](super::ControllerOptions::use_priority_queue). Default: true.
    pub fn use_priority_queue(mut self, use_it: bool) -> Self {
        self.use_priority_queue = Some(use_it);
        self
    }

    /// See [`ControllerOptions::enable_warmup`](super::ControllerOptions::enable_warmup). Default: false.
    pub fn enable_warmup(mut self, enable: bool) -> Self {
        self.enable_warmup = Some(enable);
        self
    }

    /// See [`ControllerOptions::skip_name_validation`](super::ControllerOptions::skip_name_validation). Default: false.
    pub fn skip_name_validation(mut self, skip: bool) -> Self {
        self.skip_name_validation = Some(skip);
        self
    }

    /// Settings of the controller `name` of kind `subject`: each from the controller's own options, or else from the manager's,
    /// or else the default. `cache_sync_timeout` is the manager's.
    ///
    /// # Errors
    /// The number of workers is zero or too high.
    pub(crate) fn settle(
        &self,
        name: &str,
        manager: &Self,
        cache_sync_timeout: Duration,
        subject: Option<&GroupKind>,
    ) -> Result<ControllerSettings, WorkersError> {
        let own = self;
        let chosen =
            |option: fn(&Self) -> Option<bool>, default| option(own).or(option(manager)).unwrap_or(default);
        let needs_leader_election = chosen(|config| config.needs_leader_election, true);
        Ok(ControllerSettings {
            max_concurrent_reconciles: own.workers(name, manager, subject)?,
            cache_sync_timeout: own
                .cache_sync_timeout
                .or(manager.cache_sync_timeout)
                .unwrap_or(cache_sync_timeout),
            reconciliation_timeout: own
                .reconciliation_timeout
                .or(manager.reconciliation_timeout)
                // Only now, so that zero in the controller's options overrides the manager's timeout.
                .filter(|timeout| !timeout.is_zero()),
            recover_panic: chosen(|config| config.recover_panic, true),
            needs_leader_election,
            use_priority_queue: chosen(|config| config.use_priority_queue, true),
            // A controller without leader election starts at once, so it has no time to warm up.
            warms_up: needs_leader_election && chosen(|config| config.enable_warmup, false),
            skip_name_validation: chosen(|config| config.skip_name_validation, false),
        })
    }

    /// Number of workers, in Go's order of precedence: the controller's own, that of its kind, that of all controllers.
    fn workers(
        &self,
        name: &str,
        manager: &Self,
        subject: Option<&GroupKind>,
    ) -> Result<usize, WorkersError> {
        if let Some(workers) = self.max_concurrent_reconciles {
            return worker_pool::check(name, workers, "max_concurrent_reconciles of its options");
        }
        let kind = subject.map(GroupKind::to_string);
        if let Some((kind, workers)) =
            kind.and_then(|kind| manager.group_kind_concurrency.get_key_value(&kind))
        {
            let setting = format!("group_kind_concurrency of {kind} in the manager's options");
            return worker_pool::check(name, *workers, &setting);
        }
        let workers = manager.max_concurrent_reconciles.unwrap_or(DEFAULT_WORKERS);
        worker_pool::check(name, workers, "max_concurrent_reconciles in the manager's options")
    }
}

/// Settings of a controller, from its options and those of the manager.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ControllerSettings {
    pub(crate) max_concurrent_reconciles: usize,
    pub(crate) cache_sync_timeout: Duration,
    pub(crate) reconciliation_timeout: Option<Duration>,
    pub(crate) recover_panic: bool,
    pub(crate) needs_leader_election: bool,
    pub(crate) use_priority_queue: bool,
    pub(crate) warms_up: bool,
    pub(crate) skip_name_validation: bool,
}

impl ControllerSettings {
    pub(crate) fn queue_order(&self) -> QueueOrder {
        if self.use_priority_queue { QueueOrder::ByPriority } else { QueueOrder::Fifo }
    }
}

/// The kind of a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupKind {
    pub(crate) group: String,
    pub(crate) kind: String,
}

/// `Deployment.apps`, or `Pod` for the core group.
impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn workers(own: &Config, manager: &Config, kind: Option<&str>) -> usize {
        let kind = kind.map(|kind| GroupKind { group: "apps".to_owned(), kind: kind.to_owned() });
        own.settle("web", manager, MINUTE, kind.as_ref()).unwrap().max_concurrent_reconciles
    }

    /// Go's precedence: the controller, its kind, the manager, the default.
    #[test]
    fn the_most_specific_number_of_workers_applies() {
        let (none, own) = (Config::default(), Config::default().max_concurrent_reconciles(2));
        let manager =
            Config::default().max_concurrent_reconciles(3).group_kind_concurrency("Deployment.apps", 4);
        assert_eq!(workers(&none, &none, Some("Deployment")), DEFAULT_WORKERS);
        assert_eq!(workers(&none, &manager, None), 3);
        assert_eq!(workers(&none, &manager, Some("DaemonSet")), 3);
        assert_eq!(workers(&none, &manager, Some("Deployment")), 4);
        assert_eq!(workers(&own, &manager, Some("Deployment")), 2);
    }

    #[test]
    fn a_number_of_workers_that_is_zero_or_too_high_is_refused_with_the_controller_and_the_setting() {
        let (none, kind) =
            (Config::default(), GroupKind { group: "apps".to_owned(), kind: "Deployment".to_owned() });
        let refused = |own: &Config, manager: &Config| {
            own.settle("web", manager, MINUTE, Some(&kind)).unwrap_err().to_string()
        };
        assert_eq!(
            refused(&none.clone().max_concurrent_reconciles(0), &none),
            "controller web cannot have 0 workers (max_concurrent_reconciles of its options): use 1 to 10000"
        );
        let by_kind = none.clone().group_kind_concurrency("Deployment.apps", 0);
        assert_eq!(
            refused(&none, &by_kind),
            "controller web cannot have 0 workers (group_kind_concurrency of Deployment.apps in the manager's options): \
             use 1 to 10000"
        );
        assert_eq!(
            refused(&none, &none.clone().max_concurrent_reconciles(10_001)),
            "controller web cannot have 10001 workers (max_concurrent_reconciles in the manager's options): \
             use 1 to 10000"
        );
        assert_eq!(workers(&none.clone().max_concurrent_reconciles(10_000), &none, None), 10_000);
        assert_eq!(
            workers(&none.clone().max_concurrent_reconciles(1), &by_kind, Some("Deployment")),
            1,
            "the controller's own number takes precedence"
        );
    }

    /// Zero means none, as in Go, so that one controller can opt out of the timeout of all others.
    #[test]
    fn a_timeout_of_zero_is_none() {
        let settled = |own: &Config, manager: &Config| {
            own.settle("web", manager, MINUTE, None).unwrap().reconciliation_timeout
        };
        let (none, zero) = (Config::default(), Config::default().reconciliation_timeout(Duration::ZERO));
        let minute = Config::default().reconciliation_timeout(MINUTE);
        assert_eq!(settled(&none, &minute), Some(MINUTE));
        assert_eq!(settled(&zero, &minute), None);
        assert_eq!(settled(&none, &zero), None);
        assert_eq!(settled(&minute, &zero), Some(MINUTE));
    }

    /// Checks each option by itself, so that a mix-up of two would show.
    #[test]
    fn options_of_a_controller_override_those_of_the_manager() {
        let none = Config::default();
        let second = Duration::from_secs(1);
        let default = || none.settle("web", &none, MINUTE, None).unwrap();
        let cases = [
            (
                none.clone().cache_sync_timeout(second),
                ControllerSettings { cache_sync_timeout: second, ..default() },
                none.clone().cache_sync_timeout(MINUTE),
            ),
            (
                none.clone().recover_panic(false),
                ControllerSettings { recover_panic: false, ..default() },
                none.clone().recover_panic(true),
            ),
            (
                none.clone().needs_leader_election(false),
                ControllerSettings { needs_leader_election: false, ..default() },
                none.clone().needs_leader_election(true),
            ),
            (
                none.clone().use_priority_queue(false),
                ControllerSettings { use_priority_queue: false, ..default() },
                none.clone().use_priority_queue(true),
            ),
            (
                none.clone().enable_warmup(true),
                ControllerSettings { warms_up: true, ..default() },
                none.clone().enable_warmup(false),
            ),
            (
                none.clone().skip_name_validation(true),
                ControllerSettings { skip_name_validation: true, ..default() },
                none.clone().skip_name_validation(false),
            ),
        ];
        for (manager, settled, own) in cases {
            assert_ne!(settled, default());
            assert_eq!(none.settle("web", &manager, MINUTE, None).unwrap(), settled);
            assert_eq!(
                manager.settle("web", &none, MINUTE, None).unwrap(),
                settled,
                "set in the controller's options alone"
            );
            assert_eq!(
                own.settle("web", &manager, MINUTE, None).unwrap(),
                default(),
                "the controller's options take precedence"
            );
        }
    }

    #[test]
    fn defaults_equal_the_documented_ones() {
        assert_eq!(
            Config::default().settle("web", &Config::default(), MINUTE, None).unwrap(),
            ControllerSettings {
                max_concurrent_reconciles: 16,
                cache_sync_timeout: MINUTE,
                reconciliation_timeout: None,
                recover_panic: true,
                needs_leader_election: true,
                use_priority_queue: true,
                warms_up: false,
                skip_name_validation: false,
            }
        );
    }
}
