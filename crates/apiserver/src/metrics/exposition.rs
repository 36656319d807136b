//! The text format of Prometheus, version 0.0.4, as Go's client writes it.

use std::fmt::Write as _;

use kube_apimachinery::go;

/// A page of metrics. Samples follow the header of their family; a family without samples is left out.
#[derive(Debug, Default)]
pub(super) struct MetricsPage {
    text: String,
    /// Header of a family without samples so far.
    header: String,
}

impl MetricsPage {
    /// Begins a family of samples.
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        self.header = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// Writes a sample. Labels are in the order of their names.
    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.labelled(name, labels.iter().copied(), value);
    }

    /// Writes a bucket of a histogram. Its bound is the last label.
    pub(super) fn bucket(&mut self, name: &str, labels: &[(&str, &str)], bound: &str, value: f64) {
        self.labelled(name, labels.iter().copied().chain([("le", bound)]), value);
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    fn labelled<'a>(&mut self, name: &str, labels: impl Iterator<Item = (&'a str, &'a str)>, value: f64) {
        self.text.push_str(&std::mem::take(&mut self.header));
        self.text.push_str(name);
        let mut before = '{';
        for (label, value) in labels {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            self.write(format_args!("{before}{label}=\"{value}\""));
            before = ',';
        }
        if before == ',' {
            self.text.push('}');
        }
        self.write(format_args!(" {}\n", go::float(value)));
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a text cannot fail.
        let _ = self.text.write_fmt(text);
    }
}
