//! Confirmation on the terminal.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

/// Asks a yes-or-no question. `otherwise` says what to do without a terminal.
///
/// # Errors
/// There is no terminal, or it cannot be read.
pub(super) fn confirmed(question: &str, otherwise: &str) -> Result<bool, String> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(format!("there is no terminal for the confirmation: {otherwise}"));
    }
    let mut stderr = std::io::stderr();
    drop(write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush()));
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer).map_err(|error| error.to_string())?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
