//! The lines of a configuration file, as oslo.config reads them.

/// An assignment of a value to an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assignment {
    /// The section, in lower case except for `DEFAULT`.
    pub section: String,
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
    /// The error.
    pub message: &'static str,
}

/// Python counts four more control characters as white space than Rust.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Removes white space at both ends, as Python's `str.strip` does.
pub(super) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// The name of a section as it is looked up.
pub(super) fn normalized(section: &str) -> String {
    if section == "DEFAULT" { section.to_owned() } else { section.to_lowercase() }
}

/// Parses a file.
///
/// # Errors
/// The first line that oslo.config refuses too.
pub(super) fn parse(text: &str) -> Result<Vec<Assignment>, Malformed> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut parsed: Vec<Assignment> = Vec::new();
    let mut section: Option<String> = None;
    // Whether the next line may continue the last assignment.
    let mut open = false;
    for (nth, line) in text.split('\n').enumerate() {
        let at = |message| Malformed { line: nth + 1, message };
        let line = line.trim_end_matches(is_space);
        if line.is_empty() {
            open = false;
        } else if line.starts_with([' ', '\t']) {
            let last = parsed.last_mut().filter(|_| open);
            let last = last.ok_or_else(|| at("the continuation line continues nothing"))?;
            last.value.push('\n');
            last.value.push_str(line.trim_start_matches(is_space));
        } else if let Some(rest) = line.strip_prefix('[') {
            let name = rest.strip_suffix(']').ok_or_else(|| at("the section must end with ]"))?;
            if name.is_empty() {
                return Err(at("the section has no name"));
            }
            section = Some(normalized(name));
            open = false;
        } else if line.starts_with(['#', ';']) {
            open = false;
        } else {
            let (name, value) = assignment(line).map_err(at)?;
            let section = section.clone().ok_or_else(|| at("the option is in no section"))?;
            parsed.push(Assignment { section, name, value, line: nth + 1 });
            open = true;
        }
    }
    Ok(parsed)
}

fn assignment(line: &str) -> Result<(String, String), &'static str> {
    let (name, value) = line.split_once(['=', ':']).ok_or("the line has neither = nor :")?;
    let (name, value) = (strip(name), strip(value));
    if name.is_empty() {
        return Err("the option has no name");
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
        parsed.into_iter().map(|one| (one.section, one.name, one.value, one.line)).collect()
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
                parse(text).unwrap_err().message,
                "the continuation line continues nothing",
                "{text}"
            );
        }
    }

    #[test]
    fn sections_are_lower_case_except_for_the_default_one() {
        let read = values("[DEFAULT]\na=1\n[Default]\nb=2\n[API]\r\nc=3\rd=4");
        let sections: Vec<&str> = read.iter().map(|one| one.0.as_str()).collect();
        assert_eq!(sections, ["DEFAULT", "default", "api", "api"]);
        assert_eq!(read[3].3, 7);
    }

    #[test]
    fn files_that_oslo_refuses_are_refused() {
        let fault = |text: &str| (parse(text).unwrap_err().line, parse(text).unwrap_err().message);
        assert_eq!(fault("a = 1"), (1, "the option is in no section"));
        assert_eq!(fault("[a]\n\nword"), (3, "the line has neither = nor :"));
        assert_eq!(fault("[a]\n= 1"), (2, "the option has no name"));
        assert_eq!(fault("[a"), (1, "the section must end with ]"));
        assert_eq!(fault("[a] # b"), (1, "the section must end with ]"));
        assert_eq!(fault("[]"), (1, "the section has no name"));
    }
}
