//! The model: a list of keys with linear search.

use super::*;

#[derive(Clone, PartialEq)]
pub(super) enum Where {
    /// Due time, the number of the operation that set it, and the origin of the time.
    Waiting(u64, u64, By),
    /// Number that counts the keys in the order in which they became ready.
    Ready(u64),
    /// Whether an event came meanwhile and whether one was urgent, the earliest requested time, and the priority of the next
    /// run; `None` without a request.
    Processing(Option<(bool, bool, Asked, Priority)>),
}

/// Origin of a time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum By {
    Delay,
    /// A failure; the key's own time ends at `own`.
    Failure {
        own: u64,
    },
    /// An event that may be postponed further.
    Debounce,
}

#[derive(Clone)]
pub(super) struct Key {
    pub(super) key: u8,
    pub(super) place: Where,
    pub(super) priority: Priority,
    // The fields of the same names in the core's `Past` have the same meaning.
    pub(super) back_off: u64,
    pub(super) own: u64,
    pub(super) failed: bool,
    pub(super) ahead: bool,
    pub(super) brought_forward: bool,
    pub(super) urgent: u32,
    pub(super) early: bool,
    pub(super) ended: u64,
    /// Time beyond which no event postpones it.
    pub(super) latest: u64,
}

/// A time and its origin.
type Asked = (u64, By);

pub(super) struct Model {
    pub(super) keys: Vec<Key>,
    pub(super) limiter: Limiter,
    /// Number of keys that may run ahead of their slots.
    pub(super) window: usize,
    pub(super) now: u64,
    /// Number of times that a key became ready or began to wait.
    pub(super) moves: u64,
    /// By priority, the highest first: since when it has been passed over.
    pub(super) passed_over_since: [Option<u64>; 3],
    /// Number of hand-outs since the last share, during which a lower priority had aged.
    pub(super) passed_over: u32,
    /// The aged priority that had a share last.
    pub(super) shared: usize,
    /// By priority: flows, the next one first. Some may have no ready keys any more.
    pub(super) turns: [Vec<u8>; 3],
    pub(super) closed: bool,
    pub(super) rules: Rules,
}

pub(super) fn class(priority: Priority) -> usize {
    Priority::ALL.iter().position(|other| *other == priority).unwrap()
}

impl Model {
    pub(super) fn new(rules: Rules, epoch: Instant) -> Self {
        Self {
            keys: Vec::new(),
            limiter: Limiter::new(epoch),
            window: 0,
            now: 0,
            moves: 0,
            passed_over_since: [None; 3],
            passed_over: 0,
            shared: 0,
            turns: Default::default(),
            closed: false,
            rules,
        }
    }

    pub(super) fn flow(&self, key: u8) -> u8 {
        if self.rules.fair { key % FLOWS } else { 0 }
    }

    /// Gives the flow of a new ready key a turn.
    pub(super) fn queue_up(&mut self, key: u8, priority: Priority) {
        let (flow, turns) = (self.flow(key), &mut self.turns[class(priority)]);
        if !turns.contains(&flow) {
            turns.push(flow);
        }
    }

    /// Drops the state of priorities without ready keys, and of flows without keys.
    pub(super) fn tidy(&mut self) {
        let flows: Vec<u8> = self.keys.iter().map(|key| self.flow(key.key)).collect();
        for turns in &mut self.turns {
            turns.retain(|flow| flows.contains(flow));
        }
        for (place, priority) in Priority::ALL.into_iter().enumerate() {
            let ready = |key: &Key| matches!(key.place, Where::Ready(..)) && key.priority == priority;
            if !self.keys.iter().any(ready) {
                self.passed_over_since[place] = None;
            }
        }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.moves += 1;
        self.moves
    }

    pub(super) fn instant(&self) -> Instant {
        self.limiter.epoch + units(self.now)
    }

    /// The key with the first slot among those that only the shared budget delays.
    pub(super) fn first_held(&self) -> Option<usize> {
        let held = self.keys.iter().enumerate().filter_map(|(at, key)| match key.place {
            Where::Waiting(until, number, By::Failure { own }) if own <= self.now => {
                Some((until, number, at))
            }
            _ => None,
        });
        held.min().map(|(_, _, at)| at)
    }

    /// Makes due keys ready. The first one that only the budget delays gets the first free slot.
    pub(super) fn advance(&mut self) {
        loop {
            self.line_up();
            let (now, instant) = (self.now, self.instant());
            let Some(first) = self.first_held() else { return };
            let key = &mut self.keys[first];
            let Where::Waiting(until, ..) = &mut key.place else { unreachable!() };
            let delay = self.limiter.move_up(&key.key, instant).as_nanos();
            *until = (*until).min(now + u64::try_from(delay).unwrap());
            key.back_off = key.back_off.min(*until);
            if *until > now {
                return;
            }
        }
    }

    /// Makes keys ready that only the budget delays, as many as the window allows.
    pub(super) fn release(&mut self) {
        self.advance();
        while self.keys.iter().filter(|key| key.ahead).count() < self.window {
            let Some(first) = self.first_held() else { return };
            let mut key = self.keys.remove(first);
            (key.ahead, key.back_off) = (true, self.now);
            self.place(key, (self.now, By::Delay));
        }
    }

    pub(super) fn forget(&mut self, key: u8) {
        let instant = self.instant();
        self.limiter.forget(&key, instant);
        let Some(known) = self.keys.iter_mut().find(|known| known.key == key) else { return };
        (known.back_off, known.own, known.early) = (0, u64::MAX, false);
        if let Where::Waiting(_, _, by) | Where::Processing(Some((_, _, (_, by), _))) = &mut known.place
            && matches!(by, By::Failure { .. })
        {
            *by = By::Delay;
        }
        if std::mem::take(&mut known.failed) && matches!(known.place, Where::Processing(_)) {
            self.window += 1;
            self.release();
        }
    }

    /// Makes due keys ready, in order of their times.
    pub(super) fn line_up(&mut self) {
        let now = self.now;
        while let Some(due) = (0..self.keys.len())
            .filter_map(|at| match self.keys[at].place {
                Where::Waiting(until, number, _) if until <= now => Some((until, number, at)),
                _ => None,
            })
            .min()
        {
            self.keys[due.2].place = Where::Ready(self.number());
            self.queue_up(self.keys[due.2].key, self.keys[due.2].priority);
        }
    }

    pub(super) fn place(&mut self, mut key: Key, (at, by): Asked) {
        let number = self.number();
        key.place = if at > self.now {
            Where::Waiting(at, number, by)
        } else {
            self.queue_up(key.key, key.priority);
            Where::Ready(number)
        };
        self.keys.push(key);
    }

    pub(super) fn event(&mut self, key: &mut Key, urgent: bool) -> Asked {
        if self.rules.once && key.back_off > self.now {
            key.urgent += u32::from(urgent);
            if !std::mem::replace(&mut key.brought_forward, true) || urgent && key.urgent <= 10 {
                return (self.now, By::Delay);
            }
            // The second after which later urgent events run a key is longer than `THEN_EVERY`, so urgency makes no difference.
            let at = (key.ended + THEN_EVERY).min(key.back_off);
            return match key.place {
                Where::Waiting(until, _, by) if until <= at => (until, by),
                _ => (at, By::Delay),
            };
        }
        if !self.rules.debounced {
            return (self.now, By::Delay);
        }
        let (quiet, max) = DEBOUNCE;
        match key.place {
            Where::Waiting(_, _, By::Debounce) => {}
            Where::Waiting(until, ..) => key.latest = until.min(self.now + max),
            _ => key.latest = self.now + max,
        }
        (key.latest.min(self.now + quiet), By::Debounce)
    }

    pub(super) fn failed(&mut self, key: &mut Key) -> Asked {
        self.window = 0;
        if matches!(key.place, Where::Processing(_)) && key.early {
            return (key.back_off, By::Failure { own: key.own });
        }
        let instant = self.instant();
        let delay = self.limiter.charge(&key.key, instant);
        let [until, own] =
            [delay.total(), delay.own].map(|delay| self.now + u64::try_from(delay.as_nanos()).unwrap());
        (key.failed, key.own) = (true, own);
        if self.rules.once && key.back_off <= self.now {
            (key.back_off, key.brought_forward, key.urgent) = (until, false, 0);
        }
        (until, By::Failure { own })
    }

    pub(super) fn add(
        &mut self,
        key: u8,
        after: Option<u64>,
        failed: bool,
        priority: Option<Priority>,
        urgent: bool,
    ) {
        if self.closed {
            return;
        }
        self.advance();
        let event = after.is_none() && !failed;
        let known = self.keys.iter().position(|known| known.key == key).map(|at| self.keys.remove(at));
        let mut this = known.clone().unwrap_or(Key {
            key,
            place: Where::Processing(None),
            priority: priority.unwrap_or_default(),
            back_off: 0,
            own: 0,
            failed: false,
            ahead: false,
            brought_forward: false,
            urgent: 0,
            early: false,
            ended: 0,
            latest: 0,
        });
        let priority = priority.unwrap_or(if event { Priority::Normal } else { this.priority });
        let mut asked = || {
            let after = after.map(|after| (self.now + after, By::Delay));
            let failed = failed.then(|| self.failed(&mut this));
            failed.into_iter().chain(after).min_by_key(|(at, _)| *at)
        };
        match known.map(|known| known.place) {
            None => {
                let asked = asked();
                let asked = asked.unwrap_or_else(|| self.event(&mut this, urgent));
                self.place(this, asked);
            }
            Some(Where::Ready(number)) => {
                this.place = Where::Ready(number);
                if priority > this.priority {
                    this.priority = priority;
                    this.place = Where::Ready(self.number());
                    self.queue_up(key, priority);
                }
                self.keys.push(this);
            }
            Some(Where::Waiting(until, ..)) => {
                let asked = asked();
                this.priority = this.priority.max(priority);
                this.latest = asked.map_or(this.latest, |(at, _)| this.latest.min(at));
                let at = match asked {
                    Some((at, by)) => (at.min(until), by),
                    None => self.event(&mut this, urgent),
                };
                if at.0 != until {
                    self.place(this, at);
                } else {
                    self.keys.push(this);
                }
            }
            Some(Where::Processing(again)) => {
                let asked = asked();
                let (was_event, was_urgent, earlier, class) =
                    again.unwrap_or((false, false, (u64::MAX, By::Delay), priority));
                let earlier = asked.filter(|asked| asked.0 < earlier.0).unwrap_or(earlier);
                let urgent = was_urgent || event && urgent;
                this.place =
                    Where::Processing(Some((was_event || event, urgent, earlier, class.max(priority))));
                self.keys.push(this);
            }
        }
        self.tidy();
    }

    pub(super) fn done(&mut self, key: u8) {
        let at = self.keys.iter().position(|known| known.key == key).unwrap();
        let mut this = self.keys.remove(at);
        let Where::Processing(again) = this.place else { panic!("{key} is being processed") };
        let was_ahead = std::mem::take(&mut this.ahead);
        let Some((event, urgent, asked, priority)) = again else {
            if was_ahead {
                self.release();
            }
            return self.tidy();
        };
        self.advance();
        this.ended = self.now;
        this.place = Where::Processing(None);
        let at =
            if event { std::cmp::min_by_key(asked, self.event(&mut this, urgent), |at| at.0) } else { asked };
        this.priority = priority;
        self.place(this, if self.closed { (self.now, By::Delay) } else { at });
        if was_ahead {
            self.release();
        }
    }

    /// The priority that is next.
    pub(super) fn turn(&mut self) -> Option<usize> {
        let ready = |class: usize| {
            let mut keys = self.keys.iter().filter(|key| key.priority == Priority::ALL[class]);
            keys.any(|key| matches!(key.place, Where::Ready(..)))
        };
        let classes: Vec<usize> = (0..3).filter(|class| ready(*class)).collect();
        let (highest, lower) = classes.split_first()?;
        for class in lower {
            self.passed_over_since[*class].get_or_insert(self.now);
        }
        let after = u64::try_from(self.rules.ageing.after.as_nanos()).unwrap();
        let aged = |class: &&usize| self.passed_over_since[**class].unwrap() + after <= self.now;
        let aged: Vec<usize> = lower.iter().filter(aged).copied().collect();
        if aged.is_empty() {
            return Some(*highest);
        }
        self.passed_over += 1;
        if self.passed_over < self.rules.ageing.every.get() {
            return Some(*highest);
        }
        // Only the two lower priorities can be aged: take the one that did not have the last share.
        let other = aged.iter().find(|class| **class > self.shared).unwrap_or(&aged[0]);
        (self.passed_over, self.shared) = (0, *other);
        Some(*other)
    }

    pub(super) fn get(&mut self) -> Option<u8> {
        self.advance();
        let class = self.turn()?;
        let first_of = |flow| {
            let ready = self.keys.iter().enumerate().filter_map(|(at, key)| match key.place {
                Where::Ready(number) if key.priority == Priority::ALL[class] => Some((number, at)),
                _ => None,
            });
            ready.filter(|(_, at)| self.flow(self.keys[*at].key) == flow).min()
        };
        // Flows without ready keys are skipped, and get a turn again when they have some.
        let turns = &self.turns[class];
        let turn = turns.iter().position(|flow| first_of(*flow).is_some()).unwrap();
        let flow = turns[turn];
        let (_, chosen) = first_of(flow).unwrap();
        let now = self.now;
        let once = self.rules.once;
        let key = &mut self.keys[chosen];
        key.place = Where::Processing(None);
        key.early = once && key.back_off > now;
        let key = key.key;
        let more = self.keys.iter().any(|key| {
            matches!(key.place, Where::Ready(..))
                && key.priority == Priority::ALL[class]
                && self.flow(key.key) == flow
        });
        self.turns[class].drain(..=turn);
        self.turns[class].extend(more.then_some(flow));
        self.tidy();
        Some(key)
    }

    pub(super) fn when(&self, key: u8) -> Option<u64> {
        match self.keys.iter().find(|known| known.key == key)?.place {
            Where::Waiting(until, ..) | Where::Processing(Some((false, _, (until, _), _))) => Some(until),
            Where::Ready(..) | Where::Processing(_) => None,
        }
        .filter(|until| *until > self.now)
    }

    pub(super) fn cancel(&mut self, key: u8) -> bool {
        let Some(at) = self.keys.iter().position(|known| known.key == key) else {
            return false;
        };
        if let Where::Processing(again) = &mut self.keys[at].place {
            return again.take().is_some();
        }
        self.keys.remove(at);
        self.tidy();
        true
    }

    pub(super) fn shut_down(&mut self) -> Vec<u8> {
        self.advance();
        self.closed = true;
        let now = self.now;
        let mut given_up: Vec<_> = self
            .keys
            .iter()
            .filter_map(|key| match key.place {
                Where::Waiting(until, number, _) => Some((until, number, key.key)),
                _ => None,
            })
            .collect();
        given_up.sort_unstable();
        self.keys.retain(|key| !matches!(key.place, Where::Waiting(..)));
        let mut keys: Vec<u8> = given_up.into_iter().map(|(_, _, key)| key).collect();
        let first = keys.len();
        for key in &mut self.keys {
            if let Where::Processing(again) = &mut key.place
                && again.take_if(|(event, _, (at, _), _)| !*event && *at > now).is_some()
            {
                keys.push(key.key);
            }
        }
        keys[first..].sort_unstable();
        self.tidy();
        keys
    }
}
