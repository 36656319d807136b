//! Stops before each action of a replay: `SIMULATION_STEP=1`.

use std::{
    cell::Cell,
    fmt,
    io::{BufRead, Write},
    rc::Rc,
};

/// Waits for a line of input before each action.
pub(crate) struct Stepping {
    /// Whether the user wants to see the rest of the run at once.
    runs_on: Cell<bool>,
}

impl Stepping {
    /// Stops before each action, if the environment variable is set.
    pub(crate) fn of_environment() -> Option<Rc<Self>> {
        let is_set = std::env::var_os("SIMULATION_STEP").is_some_and(|value| value != "0");
        is_set.then(|| Rc::new(Self { runs_on: Cell::new(false) }))
    }

    /// Shows an action and waits. An empty line takes it; `c`, or the end of the input, takes all others as well.
    pub(crate) fn wait(&self, action: &dyn fmt::Display) {
        // A test captures only what the macros print.
        let mut output = std::io::stderr();
        if self.runs_on.get() {
            let _ = writeln!(output, "simulation: {action}");
            return;
        }
        let _ = write!(output, "simulation: {action}   [Enter: this action, c: all] ");
        let _ = output.flush();
        let line = read_line();
        // After the end of the input no answer can come, so the run must not wait again.
        self.runs_on.set(line.is_none_or(|line| line.trim() == "c"));
    }
}

/// Reads a line of the standard input; `None` at its end.
fn read_line() -> Option<String> {
    let mut line = String::new();
    let length = std::io::stdin().lock().read_line(&mut line).ok()?;
    (length > 0).then_some(line)
}
