//! `$name`, `${name}` and `$group.name` in values, as oslo.config replaces them.

/// Replaces references by the results of `look_up`. `$$` and `\$` mean a dollar sign; a dollar sign without a name is
/// kept.
///
/// # Errors
/// The first error of `look_up`.
pub(super) fn substitute(
    text: &str,
    mut look_up: impl FnMut(&str) -> Result<String, String>,
) -> Result<String, String> {
    let text = text.replace("\\$", "$$");
    let mut rest = text.as_str();
    let mut done = String::new();
    while let Some((before, after)) = rest.split_once('$') {
        done.push_str(before);
        rest = after;
        if let Some(escaped) = after.strip_prefix('$') {
            done.push('$');
            rest = escaped;
        } else if let Some((name, behind)) = braced(after).or_else(|| named(after)) {
            done.push_str(&look_up(name)?);
            rest = behind;
        } else {
            done.push('$');
        }
    }
    done.push_str(rest);
    Ok(done)
}

fn named(text: &str) -> Option<(&str, &str)> {
    let starts = text.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic());
    let end = text.find(|c: char| !(c == '.' || c == '_' || c.is_ascii_alphanumeric()));
    starts.then(|| text.split_at(end.unwrap_or(text.len())))
}

fn braced(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = named(text.strip_prefix('{')?)?;
    Some((name, rest.strip_prefix('}')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_replaced_and_the_rest_kept() {
        let result = |text: &str| substitute(text, |name| Ok(format!("<{name}>"))).unwrap();
        let table = [
            ("plain", "plain"),
            ("$a", "<a>"),
            ("${a}b", "<a>b"),
            ("$a_1.b-c", "<a_1.b>-c"),
            ("$_x $X", "<_x> <X>"),
            ("a$$b\\$c", "a$b$c"),
            ("$$$a$$a", "$<a>$a"),
            ("$5 $ ${a ${5} $", "$5 $ ${a ${5} $"),
            ("\\\\$a", "\\$a"),
            ("$a.", "<a.>"),
        ];
        for (text, wanted) in table {
            assert_eq!(result(text), wanted, "{text}");
        }
        assert!(substitute("x$a", |_| Err("no".to_owned())).is_err());
    }
}
