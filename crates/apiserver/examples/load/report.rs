//! Figures and their goals.

use serde_json::json;

/// Figures measured so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    figures: Vec<Figure>,
}

#[derive(Debug)]
struct Figure {
    what: String,
    value: f64,
    unit: &'static str,
    goal: Goal,
}

/// Goal of a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
    /// For information only.
    None,
}

impl Goal {
    fn is_met_by(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
            Self::None => true,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(least) => format!(">= {least}"),
            Self::AtMost(most) => format!("<= {most}"),
            Self::None => "-".to_owned(),
        }
    }
}

impl Report {
    /// Records a figure, and prints it to standard error, because a whole run takes a minute.
    pub(crate) fn add(&mut self, what: impl Into<String>, value: f64, unit: &'static str, goal: Goal) {
        let figure = Figure { what: what.into(), value, unit, goal };
        eprintln!("{}: {} {}", figure.what, shown(value), unit);
        self.figures.push(figure);
    }

    pub(crate) fn is_met(&self) -> bool {
        self.figures.iter().all(Figure::is_met)
    }

    pub(crate) fn print(&self, as_json: bool) {
        if !as_json {
            println!("{:<64} {:>10} {:<10} {:<10} met", "what", "figure", "", "goal");
        }
        for figure in &self.figures {
            figure.print(as_json);
        }
    }
}

impl Figure {
    fn is_met(&self) -> bool {
        self.goal.is_met_by(self.value)
    }

    fn print(&self, as_json: bool) {
        let Self { what, value, unit, goal } = self;
        let has_goal = !matches!(goal, Goal::None);
        if as_json {
            let met = has_goal.then(|| self.is_met());
            println!(
                "{}",
                json!({"what": what, "value": value, "unit": unit, "goal": goal.text(), "met": met})
            );
        } else {
            let met = match (has_goal, self.is_met()) {
                (false, _) => "-",
                (true, true) => "yes",
                (true, false) => "NO",
            };
            println!("{what:<64} {:>10} {unit:<10} {:<10} {met}", shown(*value), goal.text());
        }
    }
}

/// Formats a figure with three digits, which is its precision.
fn shown(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}
