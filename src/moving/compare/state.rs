//! The state file of a comparison, with which an interrupted comparison continues.
//!
//! Its first line describes the comparison. Each other line is a request whose responses were equal, with the
//! response, from which later requests are made. Requests that differed or failed are not recorded, and are sent
//! again.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pair::Compared;

/// An open state file, locked against other processes.
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    file: File,
    /// Offset and length of each request's line.
    lines: HashMap<String, (u64, usize)>,
}

/// A line, after the first.
#[derive(Debug, Serialize, Deserialize)]
struct Line<'l, B> {
    #[serde(borrow)]
    request: Cow<'l, str>,
    answer: B,
}

impl StateFile {
    /// Opens or creates the file. `about` describes the comparison.
    ///
    /// # Errors
    /// The file cannot be read or written, is in use, or belongs to another comparison.
    pub(super) fn open(path: &Path, about: &Value) -> Result<Self, String> {
        let named = |why: String| format!("{}: {why}", path.display());
        let failed = |error: std::io::Error| named(error.to_string());
        let mut options = File::options();
        let file = options.read(true).append(true).create(true).open(path).map_err(failed)?;
        file.try_lock().map_err(|error| named(error.to_string()))?;
        let mut state = Self { path: path.to_owned(), file, lines: HashMap::new() };
        let mut reader = BufReader::new(state.file.try_clone().map_err(failed)?);
        let (mut end, mut line) = (0, Vec::new());
        loop {
            line.clear();
            let length = reader.read_until(b'\n', &mut line).map_err(failed)?;
            if line.last() != Some(&b'\n') {
                break;
            }
            if end == 0 {
                if serde_json::from_slice::<Value>(&line).ok().as_ref() != Some(about) {
                    return Err(named(
                        "this is not a file of --state, or it belongs to a comparison of other services or with \
                         other options"
                            .to_owned(),
                    ));
                }
            } else {
                let read: Line<'_, serde::de::IgnoredAny> =
                    serde_json::from_slice(&line).map_err(|error| named(error.to_string()))?;
                state.lines.insert(read.request.into_owned(), (end, length));
            }
            end += length as u64;
        }
        // A killed process may have left an incomplete line. Without a complete one, this may be an unrelated file.
        if end == 0 && !line.is_empty() {
            return Err(named("this is not a file of --state".to_owned()));
        }
        state.file.set_len(end).map_err(failed)?;
        if end == 0 {
            state.write(about)?;
        }
        Ok(state)
    }

    /// Number of recorded requests.
    pub(super) fn count(&self) -> usize {
        self.lines.len()
    }

    /// Looks up a recorded request.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn recall(&self, request: &str) -> Result<Option<Compared>, String> {
        let Some((begin, length)) = self.lines.get(request) else { return Ok(None) };
        let mut line = vec![0; *length];
        self.file.read_exact_at(&mut line, *begin).map_err(|error| self.named(&error))?;
        let line: Line<'_, Option<Value>> =
            serde_json::from_slice(&line).map_err(|error| self.named(&error))?;
        let path = line.request.into_owned();
        Ok(Some(Compared { path, left: line.answer, right: None, differences: Vec::new() }))
    }

    /// Records a request with equal responses.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn record(&self, compared: &Compared) -> Result<(), String> {
        if !compared.differences.is_empty() || self.lines.contains_key(&compared.path) {
            return Ok(());
        }
        self.write(&Line { request: Cow::from(&compared.path), answer: compared.left.as_ref() })
    }

    /// Removes the file.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(super) fn remove(self) -> Result<(), String> {
        std::fs::remove_file(&self.path).map_err(|error| self.named(&error))
    }

    fn write(&self, line: &impl Serialize) -> Result<(), String> {
        let mut text = serde_json::to_vec(line).map_err(|error| self.named(&error))?;
        text.push(b'\n');
        (&self.file).write_all(&text).map_err(|error| self.named(&error))
    }

    fn named(&self, error: &dyn std::error::Error) -> String {
        format!("{}: {error}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Compared, StateFile};
    use crate::moving::compare::response::Difference;

    fn compared(path: &str, differs: bool) -> Compared {
        let difference = Difference { path: Vec::new(), left: None, right: None };
        let differences = if differs { vec![difference] } else { Vec::new() };
        Compared {
            path: path.to_owned(),
            left: Some(json!({"at": path})),
            right: None,
            differences,
        }
    }

    #[test]
    fn complete_lines_are_resumed_and_partial_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state");
        let about = json!({"left": "http://old/"});
        let state = StateFile::open(&file, &about).unwrap();
        assert_eq!(state.count(), 0);
        for (path, differs) in [("/a", false), ("/b", true), ("/\u{e9}\"c", false)] {
            state.record(&compared(path, differs)).unwrap();
        }
        assert!(StateFile::open(&file, &about).is_err(), "in use");
        drop(state);
        let whole = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{whole}{{\"request\": \"/d")).unwrap();
        let state = StateFile::open(&file, &about).unwrap();
        assert_eq!(state.count(), 2);
        let recalled = |path| state.recall(path).unwrap().and_then(|it| it.left);
        assert_eq!(recalled("/a"), Some(json!({"at": "/a"})));
        assert_eq!(recalled("/\u{e9}\"c"), Some(json!({"at": "/\u{e9}\"c"})));
        assert_eq!((recalled("/b"), recalled("/d")), (None, None));
        state.record(&compared("/d", false)).unwrap();
        drop(state);
        assert_eq!(StateFile::open(&file, &about).unwrap().count(), 3);
    }

    #[test]
    fn another_file_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("notes");
        for text in ["no line", "a line\nand more\n", "{\"left\": \"http://other/\"}\n"] {
            std::fs::write(&file, text).unwrap();
            let why = StateFile::open(&file, &json!({"left": "http://old/"})).unwrap_err();
            assert!(why.contains("this is not a file of --state"), "{why}");
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        }
        let state = StateFile::open(&folder.path().join("new"), &Value::Null).unwrap();
        state.remove().unwrap();
        assert!(!folder.path().join("new").exists());
    }
}
