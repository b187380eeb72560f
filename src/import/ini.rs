//! The lines of a configuration file, as oslo.config reads them.

/// One value given to one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assignment {
    /// The section, in lower case but for `DEFAULT`.
    pub group: String,
    /// The name as written.
    pub name: String,
    /// The value without outer quotes, with its continuation lines.
    pub value: String,
    /// The line of the name, from 1.
    pub line: usize,
}

/// A line that cannot be read. Its text is not kept: it may hold a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub words: &'static str,
}

/// Python's notion of white space has four control characters more than Rust's.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Removes white space at both ends, as Python's `str.strip` does.
pub(super) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// A section's name as it is looked up.
pub(super) fn normalized(group: &str) -> String {
    if group == "DEFAULT" { group.to_owned() } else { group.to_lowercase() }
}

/// Reads a file.
///
/// # Errors
/// The first line that oslo.config would not read either.
pub(super) fn parse(text: &str) -> Result<Vec<Assignment>, Malformed> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut parsed: Vec<Assignment> = Vec::new();
    let mut group: Option<String> = None;
    // Whether the next line may go on with the last assignment.
    let mut open = false;
    for (nth, line) in text.split('\n').enumerate() {
        let at = |words| Malformed { line: nth + 1, words };
        let line = line.trim_end_matches(is_space);
        if line.is_empty() {
            open = false;
        } else if line.starts_with([' ', '\t']) {
            let last = parsed.last_mut().filter(|_| open);
            let last = last.ok_or_else(|| at("a continuation line continues nothing"))?;
            last.value.push('\n');
            last.value.push_str(line.trim_start_matches(is_space));
        } else if let Some(rest) = line.strip_prefix('[') {
            let name = rest.strip_suffix(']').ok_or_else(|| at("a section must end with ]"))?;
            if name.is_empty() {
                return Err(at("a section has no name"));
            }
            group = Some(normalized(name));
            open = false;
        } else if line.starts_with(['#', ';']) {
            open = false;
        } else {
            let (name, value) = assignment(line).map_err(at)?;
            let group = group.clone().ok_or_else(|| at("an option stands before any section"))?;
            parsed.push(Assignment { group, name, value, line: nth + 1 });
            open = true;
        }
    }
    Ok(parsed)
}

fn assignment(line: &str) -> Result<(String, String), &'static str> {
    let (name, value) = line.split_once(['=', ':']).ok_or("there is no = and no : in this line")?;
    let (name, value) = (strip(name), strip(value));
    if name.is_empty() {
        return Err("an option has no name");
    }
    Ok((name.to_owned(), unquoted(value).to_owned()))
}

/// A lone quote counts as two.
fn unquoted(value: &str) -> &str {
    for quote in ['"', '\''] {
        if value.starts_with(quote) && value.ends_with(quote) {
            return value.get(1..value.len() - 1).unwrap_or_default();
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<(String, String, String, usize)> {
        let parsed = parse(text).unwrap();
        parsed.into_iter().map(|one| (one.group, one.name, one.value, one.line)).collect()
    }

    fn value(line: &str) -> String {
        values(&format!("[a]\n{line}"))[0].2.clone()
    }

    #[test]
    fn names_and_values_are_split_at_the_first_sign() {
        assert_eq!(value("k = a:b=c"), "a:b=c");
        assert_eq!(value("k: a=b"), "a=b");
        assert_eq!(value("k="), "");
        assert_eq!(value("k  =  a b  "), "a b");
        assert_eq!(value("k = a # no comment"), "a # no comment");
    }

    #[test]
    fn outer_quotes_go() {
        assert_eq!(value("k = \" a \""), " a ");
        assert_eq!(value("k = 'a'"), "a");
        assert_eq!(value("k = 'a\""), "'a\"");
        assert_eq!(value("k = \""), "");
        assert_eq!(value("k = ''"), "");
        assert_eq!(value("k = 'a\n  b'"), "'a\nb'");
    }

    #[test]
    fn lines_continue_until_a_blank_one() {
        assert_eq!(value("k = a,\n  b,\n\tc"), "a,\nb,\nc");
        assert_eq!(value("k =\n # no comment"), "\n# no comment");
        for text in ["[a]\nk = a\n\n b", "[a]\n b", "[a]\nk = a\n# c\n b", " k = a"] {
            assert_eq!(
                parse(text).unwrap_err().words,
                "a continuation line continues nothing",
                "{text}"
            );
        }
    }

    #[test]
    fn sections_are_lower_case_but_for_the_default_one() {
        let read = values("[DEFAULT]\na=1\n[Default]\nb=2\n[API]\r\nc=3\rd=4");
        let groups: Vec<&str> = read.iter().map(|one| one.0.as_str()).collect();
        assert_eq!(groups, ["DEFAULT", "default", "api", "api"]);
        assert_eq!(read[3].3, 7);
    }

    #[test]
    fn what_oslo_refuses_is_refused() {
        let words = |text: &str| (parse(text).unwrap_err().line, parse(text).unwrap_err().words);
        assert_eq!(words("a = 1"), (1, "an option stands before any section"));
        assert_eq!(words("[a]\n\nword"), (3, "there is no = and no : in this line"));
        assert_eq!(words("[a]\n= 1"), (2, "an option has no name"));
        assert_eq!(words("[a"), (1, "a section must end with ]"));
        assert_eq!(words("[a] # b"), (1, "a section must end with ]"));
        assert_eq!(words("[]"), (1, "a section has no name"));
    }
}
