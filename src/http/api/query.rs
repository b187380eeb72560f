//! Query strings as pairs of names and values.

use percent_encoding::percent_decode_str;

/// Decodes a query string into its pairs, in order.
///
/// # Errors
/// A name or a value is not UTF-8, or contains a NUL character, which PostgreSQL cannot store.
pub(in crate::http) fn pairs(
    text: &str,
    separators: &[char],
) -> Result<Vec<(String, String)>, String> {
    let pairs = text.split(separators).filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decoded(name)?, decoded(value)?))
        })
        .collect()
}

fn decoded(text: &str) -> Result<String, String> {
    let text = text.replace('+', " ");
    let decoded = percent_decode_str(&text).decode_utf8().map_err(|error| error.to_string())?;
    if decoded.contains('\0') {
        return Err("a NUL character is not allowed".to_owned());
    }
    Ok(decoded.into_owned())
}

/// Extracts the query from a copied text, such as a line of a log with the path in front of the query.
pub fn pasted_query(text: &str) -> &str {
    let text = text.trim();
    let query = text.split_once('?').map_or(text, |(_, query)| query);
    // In a log line, more text follows the query.
    query.split([' ', '"']).next().unwrap_or(query)
}

#[cfg(test)]
mod tests {
    use super::pairs;

    #[test]
    fn a_query_is_names_and_values() {
        let pairs = |raw, separators: &[char]| {
            let pairs = pairs(raw, separators).unwrap();
            pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        assert_eq!(pairs("", &['&']), [""; 0]);
        assert_eq!(pairs("a=b&&c", &['&']), ["a=b", "c="]);
        assert_eq!(pairs("a+b=%5B1%2C+2%5D&a+b=x=y", &['&']), ["a b=[1, 2]", "a b=x=y"]);
        assert_eq!(pairs("a=b;c=d", &['&', ';']), ["a=b", "c=d"]);
        assert_eq!(pairs("a=b;c=d", &['&']), ["a=b;c=d"]);
    }

    #[test]
    fn a_character_that_cannot_be_stored_is_refused() {
        assert!(pairs("a=%00", &['&']).is_err());
        assert!(pairs("%ff=1", &['&']).is_err());
    }
}
