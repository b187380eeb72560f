//! Text output of commands: lines and tables with optional colours. Control characters from services are escaped.

use std::fmt;

use anstyle::{AnsiColor, Style};

use super::columns::padded;
use super::terminal::Colours;
use crate::observe::printable::escaped;

/// The meaning of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// No meaning.
    Plain,
    /// A heading.
    Heading,
    /// Something fits or succeeds.
    Good,
    /// Something is short, refused or gone.
    Bad,
}

impl Tone {
    /// `Good` or `Bad`.
    pub(super) fn of(is_good: bool) -> Self {
        if is_good { Self::Good } else { Self::Bad }
    }

    fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Heading => Style::new().bold(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Bad => AnsiColor::Red.on_default(),
        }
    }
}

/// A cell of a table.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(super) fn new(tone: Tone, text: String) -> Self {
        Self { text, tone }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::new(Tone::Plain, text)
    }
}

/// The output of a command.
#[derive(Debug)]
pub(super) struct Page {
    text: String,
    colours: Colours,
}

impl Page {
    pub(super) fn new(colours: Colours) -> Self {
        Self { text: String::new(), colours }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    /// Adds an empty line.
    pub(super) fn blank(&mut self) {
        self.text.push('\n');
    }

    /// Adds a line. Control characters and line breaks are escaped.
    pub(super) fn line(&mut self, words: fmt::Arguments<'_>) {
        self.toned(Tone::Plain, words);
    }

    /// Adds a line in a colour.
    pub(super) fn toned(&mut self, tone: Tone, words: fmt::Arguments<'_>) {
        let line = painted(tone, &words.to_string(), self.colours);
        self.text.push_str(&line);
        self.text.push('\n');
    }

    pub(super) fn table<const N: usize>(
        &mut self,
        heads: [&str; N],
        rows: impl Iterator<Item = [Cell; N]>,
    ) {
        let heads = heads.map(|head| Cell::new(Tone::Heading, head.to_owned()));
        self.rows(std::iter::once(heads).chain(rows));
    }

    /// Adds rows in columns, without headings.
    pub(super) fn rows<const N: usize>(&mut self, rows: impl Iterator<Item = [Cell; N]>) {
        let colours = self.colours;
        let row = |row: [Cell; N]| {
            row.iter().map(|Cell { text, tone }| painted(*tone, text, colours)).collect()
        };
        self.text.push_str(&padded(rows.map(row)));
    }
}

/// A single line in a colour, with control characters escaped.
pub(super) fn painted(tone: Tone, words: &str, colours: Colours) -> String {
    let words = escaped(words);
    if colours == Colours::None || tone == Tone::Plain || words.is_empty() {
        return words;
    }
    let style = tone.style();
    format!("{style}{words}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::{Cell, Page, Tone};
    use crate::cli::terminal::Colours;

    fn page(colours: Colours) -> String {
        let mut page = Page::new(colours);
        page.toned(Tone::Bad, format_args!("{} is short", "a\nb\u{1b}[2J"));
        page.blank();
        let row = ["x\r".to_owned().into(), Cell::new(Tone::Good, "4".to_owned())];
        page.table(["HOST", "FITS"], std::iter::once(row));
        page.finish()
    }

    #[test]
    fn control_sequences_other_than_colours_are_removed() {
        let plain = "a\\nb\\u{1b}[2J is short\n\nHOST  FITS\nx\\r   4\n";
        assert_eq!(page(Colours::None), plain);
        let coloured = page(Colours::Ansi);
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), plain);
        for part in ["\u{1b}[31ma\\nb", "\u{1b}[1mHOST\u{1b}[0m", "\u{1b}[32m4\u{1b}[0m"] {
            assert!(coloured.contains(part), "{coloured:?}");
        }
    }
}
