//! Commands to open watches, such as to close or to send a bookmark.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::kind::resource::StorageKey;

/// Commands to the watches of each table. Checking for a new command is one atomic load.
#[derive(Debug, Default)]
pub(crate) struct WatchCommands {
    /// Number of commands issued, across all tables.
    issued: AtomicU64,
    tables: Mutex<BTreeMap<StorageKey, CommandState>>,
}

/// Commands that the watches of one table have received so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CommandState {
    /// Number of commands to send a bookmark.
    pub(crate) bookmarks: u64,
    /// Number of commands to end, each to the watches open at the time.
    pub(crate) closes: u64,
    /// Number of commands to go silent, each to the watches open at the time.
    pub(crate) stalls: u64,
    /// Whether the watches are open but silent.
    pub(crate) held: bool,
}

/// Commands that one watch has already seen.
#[derive(Debug, Default)]
pub(crate) struct SeenCommands {
    issued: u64,
    pub(crate) state: CommandState,
}

impl WatchCommands {
    pub(super) fn issue(&self, table: &StorageKey, change: impl FnOnce(&mut CommandState)) {
        let mut tables = self.tables.lock();
        change(tables.entry(table.clone()).or_default());
        // Incremented under the lock, so that a reader of the new number finds the command.
        self.issued.fetch_add(1, Ordering::Release);
    }

    /// Returns the commands that a watch has seen if it begins now. Earlier commands do not affect it, except that the watches of a held
    /// table are silent.
    pub(crate) fn seen_by_new_watch(&self, table: &StorageKey) -> SeenCommands {
        // No number of commands equals this one, so `receive` reads the current state.
        let mut seen = SeenCommands { issued: u64::MAX, state: CommandState::default() };
        self.receive(table, &mut seen);
        seen
    }

    /// Updates `seen`. Returns its previous state if any command was issued since.
    pub(crate) fn receive(&self, table: &StorageKey, seen: &mut SeenCommands) -> Option<CommandState> {
        // Loaded before the state. A command issued in between is part of the state, and is read again by the next call.
        let issued = self.issued.load(Ordering::Acquire);
        if issued == seen.issued {
            return None;
        }
        seen.issued = issued;
        let state = self.tables.lock().get(table).copied().unwrap_or_default();
        Some(std::mem::replace(&mut seen.state, state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_receives_later_commands_to_its_own_table() {
        let table = |plural: &str| StorageKey::core(plural);
        let commands = WatchCommands::default();
        commands.issue(&table("pods"), |state| state.closes += 1);
        let mut seen = commands.seen_by_new_watch(&table("pods"));
        assert_eq!(commands.receive(&table("pods"), &mut seen), None);
        commands.issue(&table("secrets"), |state| state.held = true);
        let before = seen.state;
        assert_eq!(commands.receive(&table("pods"), &mut seen), Some(before));
        assert_eq!(seen.state, before, "the command was for another table");
        commands.issue(&table("pods"), |state| state.bookmarks += 1);
        assert_eq!(commands.receive(&table("pods"), &mut seen), Some(before));
        assert_eq!((seen.state.bookmarks, seen.state.closes, seen.state.held), (1, 1, false));
    }
}
