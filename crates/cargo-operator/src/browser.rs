//! Opens pages in the user's browser.

use std::{
    env,
    ffi::OsString,
    process::{Command, Stdio},
};

use crate::shell::Shell;

/// Opens a page with the program in `$BROWSER`, or else with that of the desktop. Prints the address if neither can be run.
pub(crate) fn open(page: &str, shell: &Shell) {
    let opened = command(env::var_os("BROWSER"))
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match opened {
        // The program may run as long as the browser, so it is not waited for.
        Ok(_) => shell.status("Opened", "the page of explanations in the browser"),
        Err(_) => shell.note("Open", page),
    }
}

fn command(browser: Option<OsString>) -> Command {
    if let Some(browser) = browser.filter(|browser| !browser.is_empty()) {
        return Command::new(browser);
    }
    if cfg!(target_os = "macos") {
        return Command::new("open");
    }
    if cfg!(windows) {
        // The shell's `start` would end the address at an ampersand.
        let mut command = Command::new("rundll32");
        command.arg("url.dll,FileProtocolHandler");
        return command;
    }
    Command::new("xdg-open")
}
