//! Formats the output of commands in columns.

use clap::{Args, ValueEnum};

use crate::observe::printable::escaped;

/// Output format of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// Columns, for people.
    Table,
    /// A JSON array of objects.
    Json,
}

/// Output format of a query.
#[derive(Args, Clone, Copy, Debug)]
pub struct FormatOptions {
    /// Output format.
    #[arg(long, value_enum, default_value = "table")]
    pub format: ListFormat,

    /// The same as --format json.
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

impl FormatOptions {
    /// The chosen format.
    pub fn chosen(self) -> ListFormat {
        if self.json { ListFormat::Json } else { self.format }
    }

    /// Returns whether the output is for programs.
    pub fn is_json(self) -> bool {
        self.chosen() == ListFormat::Json
    }
}

/// A cell; `-` without a value.
pub(super) fn or_dash(value: Option<&String>) -> String {
    value.map_or_else(|| "-".to_owned(), Clone::clone)
}

/// Rows below their headings, in columns that fit their contents. Control characters in names are escaped.
pub(super) fn columns<const N: usize>(
    heads: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let heads = heads.map(str::to_owned).to_vec();
    let rows = rows.map(|row| row.iter().map(|cell| escaped(cell)).collect());
    padded(std::iter::once(heads).chain(rows))
}

/// Rows in columns that fit their contents. Escape sequences of colours have no width.
pub(super) fn padded(rows: impl Iterator<Item = Vec<String>>) -> String {
    let lines: Vec<Vec<String>> = rows.collect();
    let mut widths: Vec<usize> = Vec::new();
    for line in &lines {
        widths.resize(widths.len().max(line.len()), 0);
        for (widest, cell) in widths.iter_mut().zip(line) {
            *widest = width(cell).max(*widest);
        }
    }
    let mut text = String::new();
    for line in &lines {
        let mut row = String::new();
        for (cell, widest) in line.iter().zip(&widths) {
            row.push_str(cell);
            row.extend(std::iter::repeat_n(' ', widest - width(cell) + 2));
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

/// Number of visible characters of a cell.
fn width(cell: &str) -> usize {
    anstream::adapter::strip_str(cell).map(|part| part.chars().count()).sum()
}
