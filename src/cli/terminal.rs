//! Bars and colours on terminals, and confirmation.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};

/// Whether text has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colours {
    /// Escape sequences of terminals.
    Ansi,
    /// None.
    None,
}

impl Colours {
    /// Uses colours on terminals, unless the user has disabled them (no-color.org).
    pub(super) fn of_stdout() -> Self {
        let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty());
        if std::io::stdout().is_terminal() && !is_unwanted { Self::Ansi } else { Self::None }
    }
}

/// A bar of `width` characters that shows the used part of a capacity.
pub(super) fn bar(used: i64, capacity: i64, width: usize, colours: Colours) -> String {
    let filled = filled(used, capacity, width);
    let (full, free) = ("█".repeat(filled), "░".repeat(width - filled));
    let style = if colours == Colours::Ansi { style(used, capacity) } else { Style::new() };
    format!("{style}{full}{style:#}{free}")
}

/// Number of filled characters: at least one if anything is used, and all only if nothing is left.
fn filled(used: i64, capacity: i64, width: usize) -> usize {
    if used <= 0 {
        return 0;
    }
    let is_filled =
        |cell: &usize| i128::from(used) * width as i128 >= i128::from(capacity) * *cell as i128;
    let filled = (1..=width).take_while(is_filled).count();
    if used < capacity { filled.max(1) } else { width }
}

/// Red if nothing is left, yellow if little is.
fn style(used: i64, capacity: i64) -> Style {
    let colour = if used >= capacity {
        AnsiColor::Red
    } else if used.saturating_mul(10) >= capacity.saturating_mul(8) {
        AnsiColor::Yellow
    } else {
        AnsiColor::Green
    };
    colour.on_default()
}

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
    let mut response = String::new();
    stdin.lock().read_line(&mut response).map_err(|error| error.to_string())?;
    Ok(["y", "yes"].contains(&response.trim().to_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::{Colours, bar, filled};

    #[test]
    fn a_bar_is_empty_only_if_nothing_is_used_and_full_only_if_nothing_is_left() {
        assert_eq!(
            [0, 1, 500, 999, 1000, 2000].map(|used| filled(used, 1000, 20)),
            [0, 1, 10, 19, 20, 20]
        );
        assert_eq!(filled(0, 0, 20), 0);
        assert_eq!(filled(1, 0, 20), 20);
    }

    #[test]
    fn full_bars_are_red() {
        assert_eq!(bar(1, 2, 4, Colours::None), "██░░");
        let drawn = bar(4, 4, 4, Colours::Ansi);
        assert!(drawn.contains("\u{1b}[31m████"), "{drawn:?}");
    }
}
