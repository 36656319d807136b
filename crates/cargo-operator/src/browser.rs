//! Opens pages in the user's browser.

use std::{env, ffi::OsString, process::Stdio, time::Duration};

use tokio::{process::Command, time::timeout};

use crate::shell::Shell;

/// Time within which a program that finds no browser ends.
const SOON: Duration = Duration::from_millis(500);

/// Opens a page with the program in `$BROWSER`, or else with the desktop's default browser. Prints the address if that program cannot be
/// run, or fails within [`SOON`].
pub(crate) async fn open(page: &str, shell: &Shell) {
    let opened = command(env::var_os("BROWSER"))
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let is_open = match opened {
        // Some programs run until the browser ends, so do not wait longer.
        Ok(mut program) => match timeout(SOON, program.wait()).await {
            Ok(ended) => ended.is_ok_and(|status| status.success()),
            // A program that has not failed by now has probably opened the page.
            Err(_) => true,
        },
        Err(_) => false,
    };
    if is_open {
        shell.status("Opened", "the page of explanations in the browser");
    } else {
        shell.note("Open", page);
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
